"""Planned studies: the grid is on disk first, the choice is made on other rows, and nothing is run twice."""

import json
from dataclasses import replace

import pytest

from benchmarks.studies import at_scale, batchnorm_artefact
from benchmarks.studies.gains import AHEAD, BEHIND, OPEN, Gain, Measured, draw
from benchmarks.studies.outcomes import fingerprint
from benchmarks.studies.planned import Plan, Study, validation
from benchmarks.studies.study import EXAMPLES, Cell
from sordino.core import SordinoError
from sordino.engine.resolved import resolve
from sordino.experiment import experiment, read_table

SMALL = (
    "rounds=2",
    'data.source="digits"',
    "data.clients=6",
    'start={name="scratch"}',
    'privacy={noise_multiplier=0.01,delta=1e-3,sampler="everyone"}',
    "engine.workers=1",
)


def cell(name, *changes):
    return Cell(name=name, file="quickstart.toml", changes=(*SMALL, *changes))


def study(seen=None, rates=(0.001, 0.5)):
    tried = [
        cell(f"tried {rate}", f"method.learning_rate={rate}", "data.client_split={validation=0.2,test=0.0}")
        for rate in rates
    ]
    return Study(
        name="small",
        file="small",
        candidates={"rate": tried},
        choose_by=lambda run: seen(run) if seen else validation(run),
        cells=lambda winners: [cell("chosen", winners["rate"].changes[len(SMALL)])],
        seeds=(1,),
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    Plan(study=study(), out=out, seeds=(1,)).run(jobs=1)
    return out


def test_the_grid_holds_everything_and_another_one_is_refused(done):
    grid = json.loads((done / "grid.json").read_text())
    assert list(grid["candidates"]["rate"]) == ["tried 0.001", "tried 0.5"]
    assert list(grid["cells"]) == ["chosen"]
    with pytest.raises(SordinoError, match="use another --out"):
        Plan(study=study(rates=(0.001, 0.6)), out=done, seeds=(1,)).run(jobs=1)


def test_the_best_on_held_out_rows_is_reported_with_how_many_were_tried(done):
    plan = Plan(study=study(), out=done, seeds=(1,))
    assert plan.winners()["rate"].name == "tried 0.5"
    report = plan.report()
    assert "1 of 1 runs; 2 candidates tried" in report
    assert "| chosen |" in report


def test_finished_runs_are_left_alone(done):
    before = {path: path.stat().st_mtime_ns for path in done.rglob("summary.json")}
    assert len(before) >= 3
    Plan(study=study(), out=done, seeds=(1,)).run(jobs=1)
    assert before == {path: path.stat().st_mtime_ns for path in done.rglob("summary.json")}


@pytest.mark.parametrize(
    ("only", "names"), [("one", ["one"]), ("o", ["one", "one more", "two"]), ("more", ["one more"])]
)
def test_a_whole_name_asks_for_one_cell_and_a_part_for_all_that_have_it(tmp_path, only, names):
    cells = [cell("one"), cell("one more"), cell("two")]
    asked = Study(name="small", file="small", cells=lambda winners: cells)
    assert [one.name for one in Plan(study=asked, out=tmp_path, seeds=(1,), only=only)._reported({})] == names


def test_a_part_of_a_study_chooses_only_what_it_needs(tmp_path):
    other = study()
    two = Study(
        name="two",
        file="two",
        candidates={"rate": other.candidates["rate"], "idle": [cell("idle 1"), cell("idle 2", "rounds=3")]},
        cells=lambda winners: [*other.cells(winners), cell("beside", *winners["idle"].changes)],
    )
    assert set(Plan(study=two, out=tmp_path, seeds=(1,), only="chosen")._groups) == {"rate"}
    assert set(Plan(study=two, out=tmp_path, seeds=(1,))._groups) == {"rate", "idle"}


def test_another_folder_goes_on_from_what_is_kept(done, tmp_path):
    other = Plan(study=study(), out=tmp_path, seeds=(1,), kept=done / "outcomes.jsonl")
    other.run(jobs=1)
    assert not list(tmp_path.rglob("summary.json"))
    assert other.report() == Plan(study=study(), out=done, seeds=(1,)).report()


def test_a_run_whose_settings_changed_counts_as_missing(done, tmp_path):
    kept = done / "outcomes.jsonl"
    changed = replace(study(), cells=lambda winners: [cell("chosen", "rounds=1")])
    assert "0 of 1 runs" in Plan(study=changed, out=tmp_path, seeds=(1,), kept=kept).report()


def test_runs_drawn_by_lot_give_the_same_again_and_a_false_line_is_found(done, tmp_path):
    plan = Plan(study=study(), out=done, seeds=(1,))
    assert plan.again(1, jobs=1).endswith("| yes |")
    *tried, chosen = (done / "outcomes.jsonl").read_text().splitlines()
    line = json.loads(chosen)
    line["figures"]["accuracy"] += 0.01
    (tmp_path / "false.jsonl").write_text("\n".join([*tried, json.dumps(line)]))
    false = Plan(study=study(), out=tmp_path, seeds=(1,), kept=tmp_path / "false.jsonl")
    assert false.again(1, jobs=1).endswith("| no |")


def test_runs_of_another_processor_are_drawn_only_where_there_are_no_others_and_called_so(done, tmp_path):
    *tried, chosen = (done / "outcomes.jsonl").read_text().splitlines()
    line = {**json.loads(chosen), "processor": "another one"}
    (tmp_path / "other.jsonl").write_text("\n".join([*tried, json.dumps(line)]))
    other = Plan(study=study(), out=tmp_path, seeds=(1,), kept=tmp_path / "other.jsonl")
    assert other.again(1, jobs=1).startswith("small: 1 of 1 runs of other processors")
    (tmp_path / "both.jsonl").write_text(
        "\n".join([*tried, chosen, json.dumps({**line, "seed": 2, "settings": "else"})])
    )
    both = Plan(study=study(), out=tmp_path, seeds=(1,), kept=tmp_path / "both.jsonl")
    assert both.again(1, jobs=1).startswith("small: 1 of 1 runs of this processor")


def test_a_report_before_the_choice_says_what_is_missing(tmp_path):
    with pytest.raises(SordinoError, match=r"'tried 0\.001' is missing"):
        Plan(study=study(), out=tmp_path, seeds=(1,)).report()


def test_large_cells_are_a_study_of_their_own_in_which_nothing_is_chosen(tmp_path):
    whole = replace(study(), large=[cell("whole", "rounds=3")]).at_large()
    report = Plan(study=whole, out=tmp_path, seeds=(1, 2)).report()
    assert report.startswith("small, large: 0 of 2 runs; 0 candidates")


def test_one_seed_has_no_spread_and_a_figure_that_a_cell_lacks_is_a_dash(done, tmp_path):
    *tried, chosen = (done / "outcomes.jsonl").read_text().splitlines()
    told = json.loads(chosen)
    told["figures"] = {"accuracy": 0.5}
    other = cell("other", "rounds=3")
    both = replace(study(), cells=lambda winners: [*study().cells(winners), other])
    plan = Plan(study=both, out=tmp_path, seeds=(1,), kept=tmp_path / "kept.jsonl")
    more = {
        **told,
        "cell": "other",
        "settings": fingerprint(plan._table(other, 1)),
        "figures": {"accuracy": 0.6, "chose all": 1.0},
    }
    (tmp_path / "kept.jsonl").write_text("\n".join([*tried, json.dumps(told), json.dumps(more)]))
    report = Plan(study=both, out=tmp_path, seeds=(1,), kept=tmp_path / "kept.jsonl").report()
    assert "| chosen | 50.0 | – |" in report
    assert "| other | 60.0 | 100.0 |" in report


def test_the_artefact_is_a_study_whose_two_cells_differ_in_the_method_alone():
    one, other = batchnorm_artefact.STUDY.cells({})
    assert one.changes == other.changes
    for each in (one, other):
        resolve(experiment(read_table(EXAMPLES / each.file, (*each.changes, *batchnorm_artefact.STUDY.quick(each)))))


@pytest.mark.parametrize("name", ["fedceo", "personalised", "pretrain_dpfl", "dpadapter", "reprogramming"])
def test_every_study_names_its_cells_once_and_its_settings_are_known(name):
    module = __import__(f"{at_scale.__name__}.{name}", fromlist=["STUDY"])
    found: Study = module.STUDY
    last = {group: cells[-1] for group, cells in found.candidates.items()}
    cells = [*found.cells(last), *(one for group in found.candidates.values() for one in group)]
    assert len({one.name for one in cells}) == len(cells)
    assert len({one.name for one in found.large}) == len(found.large)
    cells += found.large
    assert all("/" not in one.name for one in cells)
    known = {str(one) for one in cells}
    gains = found.gains(last)
    assert gains
    assert {str(one) for gain in gains for one in (gain.method, gain.control)} <= known
    for one in cells[:: max(1, len(cells) // 4)]:
        for changes in (one.changes, (*one.changes, *found.quick(one))):
            resolve(experiment(read_table(EXAMPLES / one.file, changes)))


def test_a_run_of_another_processor_that_was_made_again_is_kept_and_drawn_next_time(done, tmp_path):
    *tried, chosen = (done / "outcomes.jsonl").read_text().splitlines()
    other = {**json.loads(chosen), "processor": "another one", "figures": {"accuracy": 0.01}}
    kept = tmp_path / "other.jsonl"
    kept.write_text("\n".join([*tried, json.dumps(other)]) + "\n")
    plan = Plan(study=study(), out=tmp_path, seeds=(1,), kept=kept)
    first = plan.again(1, jobs=1)
    assert "of other processors" in first
    assert first.endswith("| no |")
    second = Plan(study=study(), out=tmp_path, seeds=(1,), kept=kept).again(1, jobs=1)
    assert "of this processor" in second
    assert second.endswith("| yes |")
    told = Plan(study=study(), out=tmp_path, seeds=(1,), kept=kept).report()
    assert told == Plan(study=study(), out=done, seeds=(1,)).report(), "home is here, where the candidates were made"


def test_here_makes_the_runs_of_other_processors_again_once_and_chooses_nothing_anew(done, tmp_path):
    lines = [
        {**json.loads(line), "processor": "another one"} for line in (done / "outcomes.jsonl").read_text().splitlines()
    ]
    kept = tmp_path / "other.jsonl"
    kept.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    for here, added in ((False, 0), (True, 1), (True, 1)):
        Plan(study=study(), out=tmp_path, seeds=(1,), kept=kept, here=here).run(jobs=1)
        assert len(kept.read_text().splitlines()) == len(lines) + added
    assert json.loads(kept.read_text().splitlines()[-1])["cell"] == "chosen"


def measured(*points):
    return Measured(
        gain=Gain(group="one over the other", where="here", method=cell("one"), control=cell("other")), points=points
    )


@pytest.mark.parametrize(
    ("points", "colour"),
    [((1.0, 2.0), AHEAD), ((-1.0, -2.0), BEHIND), ((1.0, -2.0), OPEN), ((3.0,), OPEN), ((0.04, 0.2), OPEN)],
)
def test_a_regime_is_won_or_lost_when_every_seed_says_so_and_one_decides_nothing(points, colour):
    assert measured(*points).colour == colour


def test_a_regime_map_tells_each_gain_and_comes_out_the_same_each_time(done, tmp_path):
    both = (cell("chosen", "method.learning_rate=0.5"), cell("other", "method.learning_rate=0.001"))
    gain = Gain(group="one over the other", where="digits", method=both[0], control=both[1])
    unknown = replace(gain, where="nowhere", method=cell("never run", "rounds=7"))
    mapped = replace(study(), cells=lambda winners: both, gains=lambda winners: [gain, unknown])
    plan = Plan(study=mapped, out=tmp_path, seeds=(1,))
    plan.run(jobs=1)
    found = plan.gains()
    assert [one.gain.where for one in found] == ["digits"]
    accuracies = [plan.of(one)[0].figures["accuracy"] for one in both]
    assert found[0].points == pytest.approx([100 * (accuracies[0] - accuracies[1])])
    draw(found, tmp_path / "a.svg")
    draw(found, tmp_path / "b.svg")
    picture = (tmp_path / "a.svg").read_text()
    assert "one over the other" in picture
    assert str(found[0]) in picture
    assert picture == (tmp_path / "b.svg").read_text()


def test_a_gain_is_taken_between_runs_of_one_processor_where_one_made_both(done, tmp_path):
    chosen = json.loads((done / "outcomes.jsonl").read_text().splitlines()[-1])
    one, other = cell("one", "method.learning_rate=0.5"), cell("other", "method.learning_rate=0.001")
    mapped = replace(
        study(),
        cells=lambda winners: [one, other],
        candidates={},
        gains=lambda winners: [Gain(group="over", where="here", method=one, control=other)],
    )
    plan = Plan(study=mapped, out=tmp_path, seeds=(1,), kept=tmp_path / "none.jsonl")

    def line(which, accuracy, processor):
        settings = fingerprint(plan._table(which, 1))
        told = {**chosen, "settings": settings, "figures": {"accuracy": accuracy}, "processor": processor}
        return json.dumps(told)

    def gained(*lines):
        kept = tmp_path / f"{len(lines)}.jsonl"
        kept.write_text("\n".join(lines) + "\n")
        return [tuple(each.points) for each in replace(plan, kept=kept).gains()]

    apart = [line(one, 0.5, "first"), line(other, 0.3, "second")]
    assert gained(*apart) == [pytest.approx((20.0,))]
    assert gained(*apart, line(other, 0.4, "first")) == [pytest.approx((10.0,))]


def test_of_two_runs_of_one_cell_that_of_the_processor_with_most_runs_is_told(done, tmp_path):
    *tried, chosen = (done / "outcomes.jsonl").read_text().splitlines()
    elsewhere = {**json.loads(chosen), "processor": "another one", "figures": {"accuracy": 0.01}}
    kept = tmp_path / "both.jsonl"
    kept.write_text("\n".join([json.dumps(elsewhere), *tried, chosen]) + "\n")
    plan = Plan(study=study(), out=tmp_path, seeds=(1,), kept=kept)
    assert plan.of(study().cells(plan.winners())[0])[0].figures == json.loads(chosen)["figures"]
    more = [json.dumps({**elsewhere, "settings": str(number)}) for number in range(len(tried) + 1)]
    kept.write_text("\n".join([*tried, chosen, json.dumps(elsewhere), *more]) + "\n")
    plan = Plan(study=study(), out=tmp_path, seeds=(1,), kept=kept)
    assert plan.of(study().cells(plan.winners())[0])[0].figures == {"accuracy": 0.01}


def test_accuracy_by_round_is_kept_and_told_when_asked_for(tmp_path):
    curved = replace(study(), cells=lambda winners: [cell("curved", "engine.evaluate_every=1")], candidates={})
    plan = Plan(study=curved, out=tmp_path, seeds=(1,))
    plan.run(jobs=1)
    (line,) = (tmp_path / "outcomes.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert list(told["curve"]) == ["1", "2"]
    assert told["curve"]["2"] == told["figures"]["accuracy"]
    report = plan.report([1, 2, 3])
    assert "| cell | accuracy | round 1 | round 2 | round 3 | ε public" in report
    first, last = (f"{100 * told['curve'][one]:.1f}" for one in "12")
    assert f"| curved | {last} | {first} | {last} | – |" in report
