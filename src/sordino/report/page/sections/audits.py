"""Whether the promise held: what canaries proved beside what the ledger claims, and what attacks could tell."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sordino.core import VIEWS
from sordino.engine.damaged import Needed, read_json_object
from sordino.report.audit_table import unaudited
from sordino.report.drawing.elements import Markup, element, join, text
from sordino.report.drawing.frame import Grid, Series
from sordino.report.drawing.lines import Line, Lines
from sordino.report.drawing.ranges import Range, Ranges
from sordino.report.page.pieces import details, figure, grid_table, group, section
from sordino.report.page.told import Configuration, Story
from sordino.report.terminal import epsilon_text

AUDIT, ATTACK = "audit.json", "attack.json"
AUDIT_KEYS: Needed = {"views": dict, "confidence": (int, float)}
ATTACK_KEYS: Needed = {"inversion": list, "membership": list}
LARGEST_IMAGE = 600_000
LEAD = (
    "A ledger claims an upper bound on ε; an audit proves a lower one, from outside, with canaries. The truth lies between. Nothing "
    "was found wrong as long as no more is proven than claimed."
)


def audits(story: Story) -> Markup:
    """Audits and attacks that lie beside the runs; of secure runs, the published audit alone."""
    found = [(one, told) for one in story.configurations for told in one.runs]
    audited = [(one, content) for one, told in found if (content := _read(_place(told), AUDIT, AUDIT_KEYS))]
    attacked = [
        (one, told.run.folder, content)
        for one, told in found
        if told.run.simulated and (content := _read(told.run.folder, ATTACK, ATTACK_KEYS))
    ]
    parts = [*([_beside(audited)] if audited else []), *(_attack(*one) for one in attacked)]
    return section("audits", "Does it hold?", *parts, lead=LEAD) if parts else Markup("")


def _place(told: Any) -> Path:
    return Path(told.run.folder if told.run.simulated else told.record.release)


def _read(folder: Path, file: str, needed: Needed) -> dict[str, Any] | None:
    path = folder / file
    return read_json_object(path, needed, advice="remove it, or make it again") if path.exists() else None


Audited = list[tuple[Configuration, dict[str, Any]]]


def _beside(audited: Audited) -> Markup:
    """Claimed and proven ε of each view as a figure and a table."""
    rows = [(one, view, verdict) for one, content in audited for view, verdict in _verdicts(content)]
    ranges = [_range(one, view, verdict) for one, view, verdict in rows if _is_bounded(verdict)]
    caption = "Bar: from the ε that was proven to the ε that is claimed. Mark: proven; open triangle: the most that could have been proven."
    drawing = Ranges(
        name=f"Proven and claimed ε of {len(ranges)} audits",
        ranges=ranges,
        x_name="ε",
        value_name="proven",
        range_name="between proven and claimed",
        second_name="could have proven",
        percent=False,
    )
    drawn = figure(drawing, title="Audit beside ledger.", caption=caption) if ranges else Markup("")
    grid = Grid(
        head=["configuration", "view", "claimed ε", "proven ε", "could have proven", "canaries", "verdict"],
        rows=[[one.name, view, *_cells(verdict)] for one, view, verdict in rows],
    )
    broken = [one.name for one, content in audited if not content.get("holds", False)]
    word = f"Broken: {', '.join(broken)} leaks more than its ledger claims." if broken else "Every audit holds."
    return join(element("p", text(word), class_="verdict"), drawn, grid_table(grid, "Audits"), _checks(audited))


def _verdicts(content: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """By who looked: the views, and somebody who sees the last model alone where that was asked for."""
    found = [(view, content["views"][view]) for view in VIEWS if view in content["views"]]
    return [*found, *([("last model alone", content["final_model"])] if "final_model" in content else [])]


def _is_bounded(verdict: Mapping[str, Any]) -> bool:
    return bool(verdict["audited"]) and math.isfinite(float(verdict["claimed_epsilon"]))


def _range(one: Configuration, view: str, verdict: Mapping[str, Any]) -> Range:
    proven, claimed, power = (float(verdict[key]) for key in ("proven_epsilon", "claimed_epsilon", "power"))
    told = [f"{one.name}, {view}", f"claimed {epsilon_text(claimed)}, proven {epsilon_text(proven)}"]
    tip = "\n".join([*told, f"could have proven {epsilon_text(power)}"])
    low, high = sorted((proven, claimed))
    return Range(
        series=one.series,
        name=f"{one.name}, {view}",
        value=proven,
        low=low,
        high=high,
        second=min(power, high),
        tip=tip,
    )


def _cells(verdict: Mapping[str, Any]) -> list[str]:
    claimed = epsilon_text(verdict["claimed_epsilon"])
    if not verdict["audited"]:
        return [claimed, "–", "–", "–", f"{unaudited(verdict)} here"]
    word = "holds" if verdict["holds"] else "BROKEN"
    return [
        claimed,
        epsilon_text(verdict["proven_epsilon"]),
        epsilon_text(verdict["power"]),
        str(verdict["canaries"]),
        word,
    ]


def _checks(audited: Audited) -> Markup:
    told = [
        element("li", text(f"{one.name}, {check.get('view', '')}: {check['sentence']}"))
        for one, content in audited
        for check in content.get("checks", [])
    ]
    return details(f"{len(told)} checks beside", element("ul", *told)) if told else Markup("")


def _attack(one: Configuration, folder: Path, content: Mapping[str, Any]) -> Markup:
    """What attacks on the rows themselves could tell: figures of a simulation, never published."""
    drawings = [_curve(found) for found in content["membership"] if found.get("curve")]
    curves = [
        figure(drawing, title=drawing.name, caption="Solid: the attack; dashed: what ε allows.", half=True)
        for drawing in drawings
    ]
    return join(
        element("h3", text(f"Attacks on {one.name}")),
        _picture(folder, content.get("picture")),
        grid_table(_inversions(content), "Reconstructed images") if content["inversion"] else Markup(""),
        group([], curves) if curves else Markup(""),
    )


def _curve(found: Mapping[str, Any]) -> Lines:
    curve, name = found["curve"], f"Membership by {found['attack']}, {found['view']} view"
    pairs = {"the attack": curve["tpr"], "allowed by ε": curve["allowed"]}
    lines = [
        Line(
            series=Series(number=number, name=word),
            name=word,
            points=list(zip(curve["fpr"], values, strict=True)),
            dash=number,
        )
        for number, (word, values) in enumerate(pairs.items())
    ]
    return Lines(
        name=f"{name}: AUC {found['auc']:.3f}.",
        lines=lines,
        x_name="false alarms",
        x_word="at",
        y_name="members found",
        percent=True,
        whole=False,
    )


def _inversions(content: Mapping[str, Any]) -> Grid:
    rows = [
        [
            str(found["attack"]),
            "no defence" if found["defence"] == "none" else str(found["defence"]),
            str(found["batch"]),
            f"{found['psnr']:.1f}",
            "–" if found["ssim"] is None else f"{found['ssim']:.2f}",
            "yes" if found["realistic"] else str(found["why"]),
        ]
        for found in content["inversion"]
    ]
    return Grid(head=["attack", "what is seen", "batch", "PSNR in dB", "SSIM", "realistic"], rows=rows)


def _picture(folder: Path, name: object) -> Markup:
    """The grid of images, inside the page; a file elsewhere is not looked at."""
    path = (folder / str(name)).resolve() if name else folder
    if (
        path.parent != folder.resolve()
        or path.suffix != ".png"
        or not path.is_file()
        or path.stat().st_size > LARGEST_IMAGE
    ):
        return Markup("")
    source = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    words = "Images and what attacks made of the uploads: without defence, and with it"
    return element(
        "figure", element("figcaption", text(words)), element("img", src=source, alt=words), class_="gallery"
    )
