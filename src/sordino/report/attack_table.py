"""What the terminal shows of attacks: images inverted, members found, and what ε allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sordino.report.terminal import epsilon_text, number_text


def attack_report(found: Mapping[str, Any], place: Path) -> list[RenderableType]:
    """The tables of both kinds of attack, and a verdict."""
    parts: list[RenderableType] = []
    if found["inversion"]:
        parts.append(_inversion_table(found))
    if found["picture"]:
        parts.append(Text(f"Images: {place / found['picture']}"))
    if found["membership"]:
        parts.append(_membership_table(found))
        sentence = (
            "No attack found more members than ε allows."
            if found["holds"]
            else "An attack found more members than ε allows: the promise is broken."
        )
        parts.append(Text(sentence, style="green" if found["holds"] else "bold red"))
    return parts


def _inversion_table(found: Mapping[str, Any]) -> Table:
    first = found["inversion"][0]
    setting = "realistic" if first["realistic"] else "not realistic for this experiment"
    table = Table(
        title=f"Gradient inversion of {escape(found['name'])}: PSNR in dB (SSIM)",
        box=SIMPLE_HEAD,
        caption=f"One step on so many public rows; {setting}: {first['why']}. Above about 20 dB an image is plain to see, near 10 dB "
        "it is noise.",
    )
    table.add_column("attack")
    table.add_column("batch", justify="right")
    defences = list(dict.fromkeys(one["defence"] for one in found["inversion"]))
    for defence in defences:
        table.add_column("no defence" if defence == "none" else defence, justify="right")
    cells = {(one["attack"], one["batch"], one["defence"]): one for one in found["inversion"]}
    for attack, batch in dict.fromkeys((one["attack"], one["batch"]) for one in found["inversion"]):
        table.add_row(attack, str(batch), *(_quality(cells.get((attack, batch, name))) for name in defences))
    return table


def _quality(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "–"
    return f"{one['psnr']:.1f}" + ("" if one["ssim"] is None else f" ({one['ssim']:.2f})")


def _membership_table(found: Mapping[str, Any]) -> Table:
    first = found["membership"][0]
    reasons = "; ".join(f"{one['attack']}: {one['why']}" for one in found["membership"])
    table = Table(
        title=f"Membership inference on {escape(found['name'])}, ε = {epsilon_text(first['epsilon'])} per {found['unit']}",
        box=SIMPLE_HEAD,
        caption=f"TPR: members found where 1 % or 0.1 % of others are accused, and in brackets what ε allows at most. {reasons}.",
    )
    table.add_column("attack", no_wrap=True)
    for column in ("AUC", "TPR at 1 %", "TPR at 0.1 %", "members, others"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for one in found["membership"]:
        held = "[green]holds[/green]" if one["holds"] else "[bold red]BEATEN[/bold red]"
        table.add_row(
            one["attack"],
            number_text(one["auc"]),
            *(_share(one, rate) for rate in ("0.01", "0.001")),
            f"{one['members']:,}, {one['non_members']:,}",
            held if one["bounded"] else "no promise",
        )
    return table


def _share(one: Mapping[str, Any], rate: str) -> str:
    allowed = f" ({one['allowed_tpr'][rate]:.3f})" if one["bounded"] else ""
    return f"{number_text(one['tpr'][rate])}{allowed}"


ATTACKS = ("loss", "lira", "user")
COLUMNS = ("method", "ε of the model", *(f"{attack}: TPR at 1 %, for sure (allowed)" for attack in ATTACKS), "verdict")


def every_method_report(found: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Membership inference on every method in one table."""
    table = Table(
        title="Membership inference on every method",
        box=SIMPLE_HEAD,
        caption="TPR: members found where 1 % of others are accused; for sure, its lower confidence bound, by which the verdict goes; in "
        "brackets what ε allows at most.",
    )
    for column in COLUMNS:
        table.add_column(column, justify="right" if "TPR" in column else "left")
    for one in found:
        table.add_row(*_every_method_row(one))
    return [table]


def every_method_markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """The same as a page's table."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(_every_method_row, found)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _every_method_row(found: Mapping[str, Any]) -> tuple[str, ...]:
    by_name = {one["attack"]: one for one in found["membership"]}
    epsilon = float(found["membership"][0]["epsilon"])
    promise = "none" if math.isinf(epsilon) else f"{epsilon_text(epsilon)} per {found['unit']}"
    cells = [_found_and_allowed(by_name.get(attack)) for attack in ATTACKS]
    verdict = "nothing is promised" if promise == "none" else "holds" if found["holds"] else "BEATEN"
    return (found["method"], promise, *cells, verdict)


def _found_and_allowed(one: Mapping[str, Any] | None) -> str:
    if one is None or one["tpr"]["0.01"] is None:
        return "–" if one is None else f"AUC {one['auc']:.2f}"
    allowed = f" ({one['allowed_tpr']['0.01']:.3f})" if one["bounded"] else ""
    return f"{number_text(one['tpr']['0.01'])}, {number_text(one['tpr_at_least']['0.01'])}{allowed}"
