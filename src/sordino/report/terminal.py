"""What the terminal shows of runs, plans and starts: tables that fit 80 columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

VIEWS = ("public", "server", "client")
LISTED = 20
"""Up to this many clients, ε is shown for each."""
PHASES = ("start", "features", "rounds", "evaluation", "end")
BARS = "▁▂▃▄▅▆▇█"


def epsilon_text(value: float | str) -> str:
    number = float(value)
    if 0 < number < 1e-3:
        return f"{number:.0e}"
    return "∞" if math.isinf(number) else f"{number:.3g}" if number >= 100 else f"{number:.3f}"


OF_NUMBERS = "accuracy of a number: one minus its mean absolute error (MAE) as a share of the declared range"


def summary_table(summaries: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> Table:
    """One line per run, with ε in each view: of the worst client, at the run's δ. Runs go by their own names, or by these."""
    first = summaries[0]
    delta = first["epsilon"]["public"]["delta"]
    own = any(_own_mix(summary) for summary in summaries)
    about_own = "own: clients, each tested in its own mix of labels: mean ± deviation, worst tenth; outside every ε"
    notes = sorted({escape(note) for summary in summaries for note in (*_absences(summary), *summary["warnings"])})
    unequal = [text for summary in summaries if (text := _unequal(summary))]
    notes += [f"Chosen: {escape(summary['choice']['sentence'])}" for summary in summaries if summary.get("choice")]
    table = Table(
        title="Accuracy and ε by view",
        box=SIMPLE_HEAD,
        caption="\n".join(
            [
                f"ε of the worst client at δ = {delta:g}, neighbours: {first['neighbours']}; z: noise multiplier; "
                "area: under accuracy over ε",
                *([OF_NUMBERS] if any(summary.get("target") for summary in summaries) else []),
                *([about_own] if own else []),
                *unequal,
                *notes,
            ]
        ),
    )
    table.add_column("run", overflow="fold")
    for column in ("accuracy", *(f"ε\n{view}" for view in VIEWS), "z", "s"):
        table.add_column(column, justify="right", no_wrap=True)
    for summary, name in zip(summaries, names or [summary["name"] for summary in summaries], strict=True):
        table.add_row(
            f"{escape(name)}\n[dim]{summary['method']}, {summary['unit']}[/dim]",
            f"{share_text(summary['accuracy'])}{_noise(summary)}\n{_other_scores(summary)}{_own_mix(summary)}",
            *(epsilon_text(summary["epsilon"][view]["epsilon"]) for view in VIEWS),
            f"{summary['noise_multiplier']:.3f}",
            f"{summary['seconds']:.1f}" if "seconds" in summary else "–",
        )
    return table


def _absences(summary: Mapping[str, Any]) -> list[str]:
    """One sentence for each client that left seats empty; a release says nothing of them."""
    names = summary.get("client_names", ())
    sentences = []
    for client, one in summary.get("missing", {}).items():
        name = escape(names[int(client)]) if names else f"Client {client}"
        turns = "turn" if one["times"] == 1 else "turns"
        sentences.append(
            f"{name} missed {one['times']} {turns}, because {one['because']}. Sums went without it, with noise in its place where "
            "each client brings a share; ε is as planned."
        )
    return sentences


def _noise(summary: Mapping[str, Any]) -> str:
    """How far a charged accuracy is off by its noise."""
    return (
        f"\n[dim]noise ±{100 * summary['accuracy_noise_deviation']:.2g}[/dim]"
        if summary.get("accuracy_charged")
        else ""
    )


def _own_mix(summary: Mapping[str, Any]) -> str:
    """Clients' figures of themselves, and below them those of clients that joined late."""
    clients = summary.get("non_private_diagnostics", {}).get("non_private_clients")
    if not clients:
        return ""
    late = f"\nlate {clients['newcomers']['mean']:.1%}" if "newcomers" in clients else ""
    spread = f"{clients['mean']:.1%} ±{100 * clients['standard_deviation']:.1f}"
    return f"\nown {spread}\nworst {clients['worst_tenth']:.1%}{late}"


def share_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}"


def number_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _other_scores(summary: Mapping[str, Any]) -> str:
    area = summary.get("accuracy_epsilon_area")
    told = f"AUROC {number_text(summary.get('auroc'))}" if summary.get("target") is None else _errors(summary)
    return f"[dim]{told}{'' if area is None else f'{chr(10)}area {area:.3f}'}[/dim]"


def _errors(summary: Mapping[str, Any]) -> str:
    """How far predictions of a number are off, in its own unit."""
    figures = {"MAE": summary.get("mae"), "RMSE": summary.get("rmse")}
    return "\n".join(f"{name} {value:.4g}" for name, value in figures.items() if value is not None)


def _unequal(summary: Mapping[str, Any]) -> str:
    """ε of each client, where they differ and there are few."""
    each = summary["epsilon"][summary["view"]].get("per_client", {})
    if len(set(each.values())) < 2 or len(each) > LISTED:
        return ""
    return _per_client(summary["view"], each, summary.get("client_names", ()), f"{escape(summary['name'])}: ")


def _per_client(view: str, each: Mapping[str, float], names: Sequence[str], of: str = "") -> str:
    """ε of each client, by its name where clients have other names than their numbers."""
    if not names:
        return f"{of}ε {view} of clients 0 to {len(each) - 1}: {', '.join(map(epsilon_text, each.values()))}"
    named = (f"{escape(names[int(client)])} {epsilon_text(epsilon)}" for client, epsilon in each.items())
    return f"{of}ε {view} of each client: {', '.join(named)}"


def verification_table(found: Mapping[str, Any]) -> Table:
    """ε by the ledger alone beside what the summary tells."""
    finished = found["finished"]
    told = "The summary tells the same." if finished else "The run is not finished, so there is no summary yet."
    table = Table(
        title=f"{found['ledger_lines']} ledger lines, unbroken",
        box=SIMPLE_HEAD,
        caption=f"ε of the worst client at δ = {found['delta']:g}, priced again from the ledger alone. {told} "
        f"The ledger's head is {found['ledger_head']}: who was told it can see later that nothing was changed.",
    )
    for column in ("view", "ε by the ledger", "ε by the summary"):
        table.add_column(column, justify="right")
    for view in VIEWS:
        entry = found["epsilon"][view]
        summary = "–" if entry["summary"] is None else epsilon_text(entry["summary"])
        table.add_row(view, epsilon_text(entry["ledger"]), summary)
    return table


def pretrained_table(record: Mapping[str, Any], folder: str) -> Table:
    """What was trained on which public data, and where it lies."""
    public = record["public_set"]
    table = Table(title="Pre-trained on public data", show_header=False)
    table.add_row("training", f"{record['kind']}, {record['settings']['epochs']} epochs, seed {record['seed']}")
    table.add_row("public set", f"{escape(public['name'])}: {public['rows']:,} examples, {public['classes']} classes")
    table.add_row("accuracy", f"{record['public_test_accuracy']:.2%} on the public test split")
    table.add_row("weights", escape(f"{folder}/weights.safetensors"))
    return table


def robustness_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """One column per model: accuracy at each noise, then ρ."""
    table = Table(
        title="Robustness to noise on parameters",
        caption="accuracy after adding N(0, s²) to every parameter, mean ± standard deviation over draws; "
        "ρ: largest change of probabilities per unit of distance",
    )
    table.add_column("s", justify="right")
    for one in found:
        table.add_column(escape(str(one["folder"])), justify="right")
    for rows in zip(*(one["robust_accuracy"] for one in found), strict=True):
        table.add_row(
            f"{rows[0]['noise']:g}", *(mean_and_spread(row["accuracy"], float(row["spread"])) for row in rows)
        )
    for way in ("random", "ascent"):
        table.add_row(f"ρ {way}", *(f"{one['rho'][way]:.4g}" for one in found))
    return table


def mean_and_spread(mean: float, spread: float) -> str:
    return f"{mean:.2%}" if math.isnan(spread) else f"{mean:.2%} ± {spread:.2%}"


def plan_table(plan: Mapping[str, Any]) -> Table:
    """The plan as facts, then ε per view with the reason."""
    table = Table(
        title=f"Plan of {escape(plan['name'])}: {plan['method']}, {plan['unit']} level, {plan['neighbours']}",
        show_header=False,
    )
    facts = {
        "noise": f"{plan['mechanism']}, {plan['noise']}, multiplier {plan['noise_multiplier']:.4f} "
        f"(each release {plan['noise_per_release']:.4f}), clip {plan['clip_norm']:g}",
        "noise source": plan["noise_source"],
        "cohort": f"{plan['expected_cohort']:g} of {plan['clients']} expected, {plan['rounds']} rounds, "
        f"at most {plan['most_participations']} each",
        "parameters": f"{plan['trained_parameters']:,} trained of {plan['parameters']:,}",
        "traffic": f"{plan['bytes_per_client_and_round'] / 1e6:.3g} MB per client and round",
        **_costs(plan["costs"]),
    }
    for name, value in {**facts, **plan["method_facts"]}.items():
        table.add_row(name, Text(value))
    for view in VIEWS:
        entry = plan["epsilon"][view]
        others = "".join(f"; {name} {epsilon_text(value)}" for name, value in entry["also"].items())
        table.add_row(
            f"ε {view}",
            Text(
                f"at most {epsilon_text(entry['epsilon'])} at δ = {entry['delta']:g} ({entry['accountant']}{others}): {entry['because']}"
            ),
        )
    if plan["epsilon_per_client"]:
        table.add_row("ε per client", _per_client(plan["view"], plan["epsilon_per_client"], plan["client_names"]))
    for warning in plan["warnings"]:
        table.add_row(Text("note", style="yellow"), Text(warning))
    return table


def _costs(costs: Mapping[str, Any] | None) -> dict[str, str]:
    """Time by phase, where and beside what it holds, and memory; nothing where no trial was made."""
    if costs is None:
        return {}
    phases = ", ".join(f"{name} {_seconds(costs[name])}" for name in PHASES if costs[name] >= 0.05)
    threads = f"{costs['threads']} threads" if costs["threads"] > 1 else "1 thread"
    assumed = f" {costs['assumed']}" if costs["assumed"] else ""
    return {
        "time": f"about {_seconds(costs['seconds'])}{assumed}: {phases}; tried on {costs['processor']}, {threads}; "
        "longer beside other work",
        "memory": f"about {costs['memory_bytes'] / 1e6:,.0f} MB at the peak of the process, libraries included",
    }


def _seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 36_000 else f"{seconds / 3600:.1f} h"


def curve(metrics: Sequence[Mapping[str, Any]]) -> Text:
    """Accuracy over rounds as a line of blocks."""
    if not metrics:
        return Text("no evaluations")
    values = [row["accuracy"] for row in metrics]
    low, high = min(values), max(values)
    blocks = "".join(BARS[round((value - low) / (high - low or 1) * (len(BARS) - 1))] for value in values)
    return Text(f"accuracy over rounds  {low:.1%} {blocks} {high:.1%}")


def axes_table(catalogue: Mapping[str, Mapping[str, str]]) -> Table:
    table = Table(title="What can be combined")
    for column in ("axis", "name", "what it is"):
        table.add_column(column)
    for axis, members in catalogue.items():
        for index, (name, summary) in enumerate(members.items()):
            table.add_row(axis if index == 0 else "", name, Text(summary), end_section=index == len(members) - 1)
    return table


def sources_table(sources: Sequence[Mapping[str, str]]) -> Table:
    table = Table(title="Data sets on this machine")
    for column in ("name", "format", "path"):
        table.add_column(column)
    for source in sources:
        table.add_row(Text(source["name"]), source["format"], Text(source["path"] or "embedded"))
    return table
