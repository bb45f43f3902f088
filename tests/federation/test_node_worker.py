"""A node's side of the hand-shake, without a network: the first difference is named, and nothing begins."""

import pytest

from sordino.engine.flower.dealt_files import deal_out
from sordino.engine.flower.declaration import Declaration, first_difference, meet_message, same_preparation
from sordino.engine.flower.kept import Kept
from sordino.engine.flower.worker import NodeWorker
from sordino.engine.wire.message import Message
from sordino.experiment import experiment


@pytest.fixture
def node(settings, tmp_path):
    """A worker beside the first node's rows, and the experiment that it is asked about."""
    dealt = deal_out(experiment(settings()), nodes=None, federation=tmp_path / "f", folder=tmp_path / "data")
    limits = tmp_path / "limits.toml"
    limits.write_text("")
    worker = NodeWorker(
        name="north",
        data=dealt.files["node-1"],
        state=tmp_path / "state",
        limits=limits,
        rehearsal=True,
        server="here",
    )
    return worker, dealt.experiment


def meet(made, **changes):
    message = meet_message(made.model_dump(mode="json"), made.fingerprint())
    return Message(content={**message.content, **changes})


def said(worker, message):
    return worker.say(message.to_bytes()).content


def test_a_node_declares_sizes_and_columns_and_nothing_else(node):
    worker, made = node
    found = said(worker, meet(made))
    assert (found["what"], found["name"], found["rows"], found["held_out"]) == ("declared", "north", 60, 0)
    assert set(found) == {"what", "name", "rows", "held_out", "preparation", "version"}
    assert list(found["preparation"]["classes"]) == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": "0.0.9"}, "The server has sordino 0.0.9, but this node has"),
        ({"fingerprint": "0123"}, "The plan has fingerprint 0123 at the server, but"),
    ],
)
def test_another_version_or_plan_is_refused_by_name(node, changes, sentence):
    worker, made = node
    found = said(worker, meet(made, **changes))
    assert found["what"] == "refused" and sentence in found["because"]


def test_seeded_noise_and_undeclared_classes_are_refused(node):
    worker, made = node
    worker.rehearsal = False
    assert "draws its noise in secret" in said(worker, meet(made))["because"]
    worker.rehearsal = True
    undeclared = made.model_copy(update={"data": made.data.model_copy(update={"options": {}})})
    assert "classes are part of the plan" in said(worker, meet(undeclared))["because"]


def test_a_request_for_a_run_that_nobody_began_is_unknown(node):
    worker, _ = node
    assert said(worker, Message(content={"what": "ask", "run": "a run"})) == {"what": "unknown"}
    assert (
        "cannot be read" in worker.say(b"\x00" * 64).content["because"] or worker.say(b"").content["what"] == "refused"
    )


def test_the_first_difference_between_nodes_is_named():
    plain = {"kind": "tabular", "classes": ["a", "b"], "columns": {"age": {"kind": "number", "most": 90}}}
    other = {**plain, "columns": {"age": {"kind": "number", "most": 120}}}
    assert first_difference(plain, plain) is None
    assert first_difference(plain, other) == ("columns.age.most", 90, 120)
    declared = [
        Declaration(name=name, rows=1, held_out=0, preparation=own) for name, own in (("a", plain), ("b", other))
    ]
    with pytest.raises(
        Exception,
        match=r"Nodes a and b should prepare their rows alike, but columns\.age\.most is 90 at a and 120 at b",
    ):
        same_preparation(declared)


class Personal:
    """What a node keeps, as far as `Kept` needs to know."""

    def __init__(self):
        self.loaded = None

    def save(self, path):
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def load(self, path):
        self.loaded = path.name


def test_a_node_goes_back_to_the_round_of_the_servers_checkpoint(tmp_path):
    kept, personal = Kept(tmp_path / "kept"), Personal()
    for rounds in (1, 2, 4, 5):
        kept.save(personal, rounds)
    kept.recall(personal, 3)
    assert personal.loaded == "after-00002-rounds.safetensors"
    kept.forget_before(2)
    assert [path.name for path in sorted((tmp_path / "kept").iterdir())] == ["after-00002-rounds.safetensors"]
    fresh = Personal()
    kept.recall(fresh, 0)
    assert fresh.loaded is None
