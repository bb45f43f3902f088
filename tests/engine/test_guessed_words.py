"""Words of private rows do not get into a release because nobody thought of them."""

import pytest

import sordino
from sordino.core import SordinoError

ROWS = "".join(f"{20 + at},{'abc'[at % 3]},{('ill', 'well')[at % 2]}\n" for at in range(40))
DECLARED = {
    "classes": ["ill", "well"],
    "columns": {
        "age": {"kind": "number", "low": 0, "high": 110},
        "ward": {"kind": "category", "values": ["a", "b", "c"], "other": "a"},
    },
}


def table(tiny, tmp_path, options, source="secure"):
    (tmp_path / "train.csv").write_text("age,ward,label\n" + ROWS + "47,the-only-one,ill\n")
    (tmp_path / "test.csv").write_text(
        "age,ward,label\n" + "".join(f"{at}.5,a,ill\n{at}.5,b,well\n" for at in range(9))
    )
    data = {
        "source": str(tmp_path / "train.csv"),
        "clients": 2,
        "test": {"source": str(tmp_path / "test.csv")},
        "options": options,
    }
    small = tiny(rounds=1, privacy={"noise_source": source, "expected_cohort": 2})
    return {**small, "data": data}


@pytest.mark.parametrize("missing", ["classes", "columns"])
@pytest.mark.parametrize("command", [sordino.plan, sordino.run])
def test_a_secure_run_refuses_words_that_nobody_declared(command, missing, tiny, tmp_path):
    options = {name: value for name, value in DECLARED.items() if name != missing}
    where = {} if command is sordino.plan else {"out": tmp_path / "run"}
    with pytest.raises(SordinoError, match="does not publish words of private rows"):
        command(table(tiny, tmp_path, options), **where)
    assert not (tmp_path / "run").exists()


def test_a_simulation_warns(tiny, tmp_path):
    summary = sordino.run(table(tiny, tmp_path, {}, source="seeded"), out=tmp_path / "run")
    assert any("A secure run refuses that" in warning and "ward, label" in warning for warning in summary["warnings"])
