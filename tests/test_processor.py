"""What was measured on one processor must not be taken for another's."""

from __future__ import annotations

import pytest

from sordino import processor as module
from sordino.processor import processor, processor_fact

FACTS = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: {family}
model\t\t: {model}
model name\t: AMD EPYC
cpu MHz\t\t: 2596.120
"""


@pytest.fixture
def facts(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "_FACTS", path)
    return path


def test_two_generations_of_one_name_are_two_processors(facts):
    names = []
    for family, model in ((25, 1), (26, 2)):
        facts.write_text(FACTS.format(family=family, model=model))
        names.append(processor())
    assert names == ["AMD EPYC (family 25, model 1)", "AMD EPYC (family 26, model 2)"]


def test_a_key_is_read_whole(facts):
    facts.write_text(FACTS.format(family=26, model=2))
    assert processor_fact("model") == "2" and processor_fact("cpu MHz") == "2596.120"
    assert processor_fact("cpu") is None


def test_a_machine_without_such_facts_still_has_a_name(facts):
    assert processor() and "family" not in processor()
    facts.write_text("CPU implementer\t: 0x41\n")
    assert processor() and "family" not in processor()
