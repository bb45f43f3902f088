"""Whether the promise held: what canaries proved beside what the ledger claims, and what attacks could tell."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from PIL import Image

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
        _pictures(folder, content),
        *(
            [_realism(content), grid_table(_inversions(content), "Reconstructed images")]
            if content["inversion"]
            else []
        ),
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


def _realism(content: Mapping[str, Any]) -> Markup:
    """Whether clients of this experiment really send what was attacked, and why; each reason once."""
    told = dict.fromkeys((bool(found["realistic"]), str(found["why"])) for found in content["inversion"])
    words = " ".join(f"{'Realistic here' if real else 'Not realistic here'}: {why}." for real, why in told)
    return element("p", text(words), class_="small")


def _inversions(content: Mapping[str, Any]) -> Grid:
    rows = [
        [
            str(found["attack"]),
            _defence(found),
            str(found["batch"]),
            f"{found['psnr']:.1f}",
            "–" if found["ssim"] is None else f"{found['ssim']:.2f}",
            "yes" if found["realistic"] else "no",
        ]
        for found in content["inversion"]
    ]
    return Grid(head=["attack", "what is seen", "batch", "PSNR in dB", "SSIM", "realistic"], rows=rows)


def _pictures(folder: Path, content: Mapping[str, Any]) -> Markup:
    """The truth and what each attack found, batch by batch, cut out of the picture; a file elsewhere is not looked at."""
    path = (folder / str(content.get("picture"))).resolve()
    if (
        path.parent != folder.resolve()
        or path.suffix != ".png"
        or not path.is_file()
        or path.stat().st_size > LARGEST_IMAGE
    ):
        return Markup("")
    from PIL import Image

    shown = [found for found in content["inversion"] if found.get("images")]
    with Image.open(path) as page:
        parts = [
            _batch(page, batch, [found for found in shown if found["batch"] == batch])
            for batch in dict.fromkeys(int(found["batch"]) for found in shown)
        ]
    return join(*parts)


def _batch(page: Image.Image, batch: int, shown: list[Mapping[str, Any]]) -> Markup:
    said = [(f"{one['attack']}, {_defence(one)}", f"{one['psnr']:.1f} dB", one["images"]["found"]) for one in shown]
    strips = [("the truth", "", shown[0]["images"]["truth"]), *said]
    title = "One image in the step" if batch == 1 else f"{batch} images in the step"
    return element(
        "figure",
        element("figcaption", element("strong", text(title)), text(" What each attack made of what is seen.")),
        element("ul", *(_strip(page, *one) for one in strips), class_="strips"),
    )


def _strip(page: Image.Image, words: str, quality: str, place: Sequence[int]) -> Markup:
    left, top, right, bottom = (int(edge) for edge in place)
    content = io.BytesIO()
    page.crop((left, top, min(right, page.width), min(bottom, page.height))).save(content, format="PNG")
    source = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    said = element("span", text(words), *([element("small", text(quality))] if quality else []))
    return element("li", element("img", src=source, alt=f"{words} {quality}".strip()), said)


def _defence(found: Mapping[str, Any]) -> str:
    return "no defence" if found["defence"] == "none" else str(found["defence"])
