"""The report of real runs: what it tells, what it must not tell, and that nothing in it is a stranger's."""

import json
import re
import shutil

import numpy as np
import pytest

import sordino
from sordino.core import SordinoError
from sordino.report.page.sections.promises import belief
from sordino.report.page.sections.settings import split_settings
from sordino.report.page.writing import SECTIONS, tell, write_report
from tests.conftest import TINY, merged


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run without privacy, two private ones with two seeds each, and a secure one."""
    top = tmp_path_factory.mktemp("runs")
    changes = {
        "free": {"method": {"name": "fedavg"}},
        **{f"loud-{seed}": {"seed": seed} for seed in (1, 2)},
        **{f"quiet-{seed}": {"seed": seed, "privacy": {"noise_multiplier": 3.0}} for seed in (1, 2)},
        "secure": {"privacy": {"noise_source": "secure"}, "data": {"test": "public-split"}},
    }
    for name, change in changes.items():
        sordino.run(merged(TINY, {"rounds": 2, "name": f"{name} <b>", **change}), out=top / name)
    return top


def page_of(folders, path, **options):
    write_report(tell(folders, **options), path)
    return path.read_text(encoding="utf-8")


def section(page, name):
    return re.search(rf'<section id="{name}".*?</section>', page, flags=re.DOTALL)[0]


def words(markup):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup))


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    return page_of([folder], tmp_path_factory.mktemp("page") / "page.html")


def test_a_page_has_every_section_and_loads_nothing(page):
    assert [name for name in SECTIONS if f'<section id="{name}"' not in page] == ["audits", "smoothing"]
    assert not re.findall(r'(?:src|href)="(?!#)[^"]+"', page)
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest", page)
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert len(page) < 400_000


def test_what_was_promised_is_told_in_words(page):
    told = words(section(page, "promises"))
    assert "the server, which sees every upload and who sent it" in told
    assert "certain: nothing is promised the server sees the sum before it adds the noise" in told
    assert "Hidden is all that one client holds" in told
    assert belief(0) == 0.5
    assert belief(2) == pytest.approx(0.8808, abs=1e-4)
    assert belief(float("inf")) == 1


def test_every_epsilon_of_the_page_is_one_of_the_records(page, folder):
    from sordino.report.comparison.runs import find_runs
    from sordino.report.terminal import epsilon_text

    known = {epsilon_text(value) for run in find_runs([folder]) for value in run.epsilon.values()}
    shown = set(re.findall(r'class="figure">ε ([^<]+)<', page))
    assert shown
    assert shown <= known


def test_of_secure_runs_only_the_release_is_shown(folder, tmp_path):
    page = page_of([folder / "secure"], tmp_path / "page.html")
    assert "Who holds which labels" not in page
    assert "ε of each client" not in page
    assert "simulations" not in words(section(page, "short"))
    assert not re.search(r"<button[^>]*>seconds", page)


def test_a_simulation_says_that_it_is_one_and_shows_who_holds_what(page):
    assert "These runs are simulations" in words(section(page, "short"))
    assert "Who holds which labels" in words(section(page, "clients"))


def test_the_choice_is_called_uncovered(page):
    assert "configurations were tried on the private data; the choice among them is not covered" in page


def test_the_budget_burns_down_to_what_is_left(folder, tmp_path):
    asked = merged(TINY, {"rounds": 2, "privacy": {"noise_multiplier": None, "epsilon": 4.0}})
    sordino.run(asked, out=tmp_path / "asked")
    page = page_of([tmp_path / "asked"], tmp_path / "page.html")
    table = re.search(r"The budget burning down.*?<tbody>(.*?)</tbody>", page, flags=re.DOTALL)[1]
    left = [float(value) for value in re.findall(r"<td>([\d.]+)</td>", table)]
    assert left[0] == 4.0
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.1


def test_settings_are_parted_into_shared_and_different(folder):
    shared, varied = split_settings(tell([folder]).configurations)
    assert "method.name" in varied
    assert "privacy.noise_multiplier" in varied
    assert shared["data.source"] == "digits"
    assert not set(shared) & set(varied)


def test_names_from_outside_are_text(folder, tmp_path):
    page = page_of([folder], tmp_path / "page.html", title="</title><script>alert(1)</script>")
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in page
    assert "<b>" not in page


def test_data_that_are_gone_are_told_of(tmp_path):
    rows = np.random.default_rng(1).integers(0, 255, size=(120, 1, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "own.npz", x_train=rows, y_train=np.arange(120) % 3)
    table = merged(TINY, {"rounds": 1, "data": {"source": str(tmp_path / "own.npz"), "test": "public-split"}})
    sordino.run(table, out=tmp_path / "run")
    (tmp_path / "own.npz").unlink()
    assert "cannot be shown" in page_of([tmp_path / "run"], tmp_path / "page.html")


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(SordinoError, match="holds no finished run"):
        tell([tmp_path])


VERDICT = {"claimed_epsilon": 3.0, "delta": 1e-3, "because": "", "holds": True, "audited": True}
PROVEN = {**VERDICT, "proven_epsilon": 1.2, "power": 2.0, "bound": "one-run", "canaries": 40}
CURVE = {"fpr": [0.0, 0.5, 1.0], "tpr": [0.0, 0.6, 1.0], "allowed": [0.1, 1.0, 1.0]}


def test_audits_and_attacks_stand_beside_the_ledger(folder, tmp_path):
    from PIL import Image

    from sordino.files import to_json

    run = tmp_path / "run"
    shutil.copytree(folder / "loud-1", run)
    views = {"public": PROVEN, "server": {**VERDICT, "claimed_epsilon": float("inf"), "audited": False}}
    audit = {
        "views": views,
        "holds": True,
        "confidence": 0.95,
        "checks": [{"view": "public", "sentence": "noise <as> charged"}],
    }
    member = {"attack": "lira", "view": "public", "auc": 0.55, "curve": CURVE}
    inverted = {"attack": "dlg", "defence": "none", "batch": 1, "psnr": 31.0, "ssim": 0.9}
    attack = {
        "picture": "images.png",
        "membership": [member],
        "inversion": [
            {**inverted, "realistic": True, "why": "", "images": {"truth": [0, 0, 2, 2], "found": [2, 2, 9, 9]}}
        ],
    }
    (run / "audit.json").write_text(to_json(audit))
    (run / "attack.json").write_text(to_json(attack))
    Image.new("L", (4, 4)).save(run / "images.png")
    page = page_of([run], tmp_path / "page.html")
    told = words(section(page, "audits"))
    assert "Every audit holds." in told
    assert "1.200 2.000 40 holds" in told
    assert "nothing is promised here" in told
    assert "noise &lt;as&gt; charged" in told
    assert "Membership by lira, public view: AUC 0.550" in told
    assert "One image in the step" in told and page.count('src="data:image/png;base64,') == 2
    assert 'alt="dlg, no defence 31.0 dB"' in page
    (run / "attack.json").write_text(to_json({**attack, "picture": "../run/../../secret.png"}))
    (run / "audit.json").write_text(to_json({**audit, "holds": False}))
    page = page_of([run], tmp_path / "page.html")
    assert "leaks more than its ledger claims" in page
    assert "data:image" not in section(page, "audits")


def test_a_hundred_runs_make_a_page_under_two_megabytes(folder, tmp_path):
    for seed in range(100):
        run = tmp_path / "runs" / str(seed)
        shutil.copytree(folder / ("loud-1" if seed % 2 else "quiet-1"), run)
        record = json.loads((run / "experiment.json").read_text())
        record["experiment"]["seed"] = seed
        record["experiment"]["method"]["epochs"] = 1 + seed // 4
        (run / "experiment.json").write_text(json.dumps(record))
    page = page_of([tmp_path / "runs"], tmp_path / "page.html")
    assert "<dt>runs</dt><dd>100</dd>" in page
    assert len(page.encode()) < 2_000_000
