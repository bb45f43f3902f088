"""The report of real runs of all methods in a real browser: it works by mouse and by keys, for all eyes and ears, and asks for nothing."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import open_browser
from typer.testing import CliRunner

import sordino
from sordino.audit import auditing
from sordino.audit.attacks.picture import CELL
from sordino.cli import app
from sordino.methods import METHODS
from sordino.report.page.writing import tell, write_report
from tests.conftest import TINY, merged

CHANGES = {
    "fedceo": {"privacy": {"noise": "local"}},
    "dp-pfeddsu": {"method": {"name": "dp-pfeddsu", "mask": "global", "layers": 1}},
}


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(browser, tmp_path_factory):
    """A page of all methods, one of them with two seeds and another noise."""
    top = tmp_path_factory.mktemp("page")
    for member in METHODS:
        table = merged(TINY, {"rounds": 2, "method": {"name": member.name}, "privacy": {"delta": 1e-4}})
        sordino.run(merged(table, CHANGES.get(member.name, {})), out=top / "runs" / member.name)
    for seed in (3, 4):
        table = merged(TINY, {"rounds": 2, "seed": seed, "privacy": {"delta": 1e-4, "noise_multiplier": 3.0}})
        sordino.run(table, out=top / "runs" / f"quiet-{seed}")
    looked_at(top / "runs" / "dp-fedavg")
    write_report(tell([top / "runs"]), top / "page.html")
    return top / "page.html"


def looked_at(run):
    """Audited and attacked by the commands, the audit with as many runs on any machine."""
    quickly = ["--batch", "1", "--iterations", "20", "--shadows", "2", "--epochs", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "MOST_RUNS", 1)
        for given in (["audit", str(run), "--budget", "1s", "--final-model"], ["attack", str(run), *quickly]):
            done = CliRunner().invoke(app, given)
            assert done.exit_code == 0, done.output


@pytest.fixture
def opened(browser, file):
    """Opens the page; when the test ends, it must have complained of nothing and asked for nothing."""
    pages, heard = [], []

    def open_page(width=1280, theme="light"):
        page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme).new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url) if not request.url.startswith("file:") else None)
        page.goto(file.as_uri())
        pages.append(page)
        return page

    yield open_page
    assert heard == []
    for page in pages:
        page.context.close()


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (820, "light"), (1280, "dark")])
def test_it_fits_and_axe_finds_no_serious_problem(opened, width, theme):
    page = opened(width, theme)
    page.add_style_tag(content="section{content-visibility:visible!important}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in serious]


def test_audits_and_attacks_of_a_real_run_are_shown(opened):
    page = opened()
    page.add_style_tag(content="section{content-visibility:visible!important}")
    told = page.locator("#audits")
    told.scroll_into_view_if_needed()
    words = told.inner_text()
    assert "Every audit holds." in words and "last model alone" in words
    assert "Membership by loss, public view: AUC" in words and "Membership by lira" in words
    image = told.locator("img").first
    assert image.is_visible() and image.get_attribute("alt")
    assert image.evaluate("one => one.complete && one.naturalWidth") == CELL
    assert told.locator("figure svg").first.is_visible()


def tip(page):
    return page.locator("#tip").inner_text() if page.locator("#tip").is_visible() else ""


def test_pointing_at_a_mark_tells_its_values(opened):
    page = opened()
    mark = page.locator("#accuracy .plot.wide .point").first
    name = mark.get_attribute("data-tip").split("\n")[0]
    mark.scroll_into_view_if_needed()
    mark.locator(".mark").hover(force=True)
    assert tip(page).startswith(name)
    assert "public" in tip(page)


def test_arrow_keys_read_values_and_escape_ends_it(opened):
    page = opened()
    chart = page.locator("#training .plots").first
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = tip(page)
    assert "round" in first
    page.keyboard.press("ArrowRight")
    assert tip(page) not in ("", first)
    page.keyboard.press("Escape")
    assert tip(page) == ""


def test_a_legend_hides_and_shows_a_series(opened):
    page = opened()
    figure = page.locator("#accuracy figure").first
    key = figure.locator(".key").first
    marks = figure.locator(f'.plot.wide [data-s="{key.get_attribute("data-s")}"]').first
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert not marks.is_visible()
    key.click()
    assert marks.is_visible()


def test_tabs_show_one_view_at_a_time_and_listen_to_keys(opened):
    page = opened()
    tabs = page.locator("#accuracy [role=tab]")
    panels = page.locator("#accuracy [role=tabpanel]")
    assert [panels.nth(number).is_visible() for number in range(3)] == [True, False, False]
    tabs.nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert [panels.nth(number).is_visible() for number in range(3)] == [False, True, False]
    assert tabs.nth(1).get_attribute("aria-selected") == "true"


def column(page, number):
    return page.locator(f"#runs tbody tr td:nth-of-type({number})").evaluate_all(
        "cells => cells.map(cell => cell.dataset.v)"
    )


def test_the_table_sorts_and_searches(opened):
    page = opened()
    head = page.locator("#runs thead th", has_text="ε public")
    head.locator("button").click()
    values = [float(value) for value in column(page, 1)]
    assert len(set(values)) > 2
    assert values == sorted(values)
    head.locator("button").click()
    assert [float(value) for value in column(page, 1)] == sorted(values, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    page.locator("#search").fill("fedceo")
    rows = page.locator("#runs tbody tr:visible")
    assert [name for name in rows.locator("th").all_inner_texts() if "fedceo" not in name] == []
    assert rows.count() == 1


def test_two_configurations_stand_beside_each_other(opened):
    page = opened()
    names = page.locator("#beside-0 option").all_text_contents()
    page.select_option("#beside-0", label=next(name for name in names if name.startswith("fedceo")))
    page.select_option("#beside-1", label=next(name for name in names if name == "fedavg"))
    assert "method.regularisation" in page.locator("#beside").text_content()
    page.select_option("#beside-1", label=next(name for name in names if name.startswith("fedceo")))
    assert "same settings" in page.locator("#beside").text_content()


def test_the_theme_can_be_chosen(opened):
    page = opened(theme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Theme: dark"
    assert page.evaluate(ground) != before


def test_heat_maps_tell_their_cells(opened):
    page = opened()
    chart = page.locator("#clients .plots:has(svg[data-heat])").first
    chart.scroll_into_view_if_needed()
    chart.focus()
    page.keyboard.press("Home")
    assert tip(page).startswith("client 0, label 0: ")


def test_without_a_script_everything_is_there_to_read(browser, file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("#accuracy [role=tabpanel]").first.is_visible()
    assert page.locator("#accuracy [role=tabpanel]").nth(2).is_visible()
    assert not page.locator("#theme").is_visible()
    context.close()
