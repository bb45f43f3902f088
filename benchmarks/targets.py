"""What the fast core has to reach, as ratios within one run; the few absolute limits are what a person waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

Row = Mapping[str, object]
Rows = Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A figure that must stay on the right side of a limit."""

    name: str
    benchmark: str
    measured: Callable[[Rows], object]
    """The figure, from this benchmark's rows; raises LookupError where nobody measured it."""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def limit(self) -> str:
        return f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"

    def judge(self, rows: Rows) -> Verdict:
        try:
            figure = float(str(self.measured(rows)))
        except (LookupError, ValueError):
            return Verdict(target=self, figure=None)
        return Verdict(target=self, figure=figure)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A target beside what was measured; what was not measured is not met."""

    target: Target
    figure: float | None

    @property
    def met(self) -> bool:
        if self.figure is None:
            return False
        above = self.target.at_least is None or self.figure >= self.target.at_least
        return above and (self.target.at_most is None or self.figure <= self.target.at_most)

    @property
    def sentence(self) -> str:
        found = "was not measured" if self.figure is None else f"is {self.figure:.3g}"
        return f"{self.target.name} {found}, but must be {self.target.limit}"


def find(rows: Rows, **where: object) -> Row:
    """The one row with these entries."""
    for row in rows:
        if all(row.get(key) == value for key, value in where.items()):
            return row
    raise LookupError(f"no row has {where}")


OUR_STEP, TORCH_STEP = "sordino with noise", "sordino with noise, torch alone"
OPACUS_STEPS = tuple(f"opacus {mode}" for mode in ("hooks", "functorch", "ew", "ghost"))
SMOOTHED_MODELS = ("emnist mlp 784-64-47", "cifar-10 lenet-5")
YARDSTICK = "its multiplications in one matrix product"
TORCH_ROUNDS = "sordino, torch alone"
SLOWER_THAN_TORCH = 1.03
"""How many times as long as torch alone our kernels may take, anywhere."""
STEP_MODELS = ("mlp", "lenet5", "resnet20-gn", "resnet18-gn")
ROUND_LIMITS = {"mlp": (30.0, 5.0), "lenet5": (2.0, 1.6), "resnet20": (1.5, 1.3)}
"""At least so many times faster than Flower's simulation as its quick start has it, and than pfl-research."""


def _worst_ratio(what: str, rows: Rows) -> float:
    """How many times more or less was said than it took."""
    ratios = [float(str(row[f"said / took, {what}"])) for row in rows]
    if not ratios:
        raise LookupError("no plan was held against a run")
    return max(max(ratio, 1 / ratio) for ratio in ratios)


def _best_opacus(rows: Rows, model: str) -> float:
    """How many times longer Opacus' fastest mode takes than ours, each as its users run it, noise included."""
    modes = [row for row in rows if row["model"] == model and row["step"] in OPACUS_STEPS]
    if not modes:
        raise LookupError(f"no mode of Opacus was timed on {model}")
    best = min(float(str(row["ms"])) for row in modes)
    return best / _milliseconds(rows, model, OUR_STEP)


def _milliseconds(rows: Rows, model: str, step: str) -> float:
    return float(str(find(rows, model=model, step=step)["ms"]))


def _worst_noise(rows: Rows) -> float:
    return max(float(str(row["secure gaussian / randn"])) for row in rows)


def _step_targets(model: str) -> tuple[Target, ...]:
    def against_plain(step: str, at_most: float) -> Target:
        return Target(
            name=f"DP-SGD step on {model} / plain SGD step ({step})",
            benchmark="dp_sgd_step",
            measured=lambda rows: find(rows, model=model, step=step)["ratio"],
            at_most=at_most,
        )

    best_opacus = Target(
        name=f"best Opacus step on {model} / ours",
        benchmark="dp_sgd_step",
        measured=lambda rows: _best_opacus(rows, model),
        at_least=2.0,
    )
    against_torch = Target(
        name=f"DP-SGD step on {model} with kernels / with torch alone",
        benchmark="dp_sgd_step",
        measured=lambda rows: _milliseconds(rows, model, OUR_STEP) / _milliseconds(rows, model, TORCH_STEP),
        at_most=SLOWER_THAN_TORCH,
    )
    return against_plain(OUR_STEP, 1.25), against_plain(TORCH_STEP, 1.6), against_torch, best_opacus


def _round_targets(model: str, flower: float, pfl: float) -> tuple[Target, ...]:
    def against(peer: str, at_least: float) -> Target:
        return Target(
            name=f"{peer} round of {model} / ours",
            benchmark="rounds",
            measured=lambda rows: find(rows, model=model, engine=peer)["ratio"],
            at_least=at_least,
        )

    return against("flower", flower), against("pfl", pfl), against(TORCH_ROUNDS, 1 / SLOWER_THAN_TORCH)


def _neighbour_targets(kernels: str) -> tuple[Target, Target]:
    def target(what: str, at_most: float) -> Target:
        return Target(
            name=f"a run {what}, kernels {kernels}",
            benchmark="neighbours",
            measured=lambda rows: find(rows, what=what, kernels=kernels)["ratio"],
            at_most=at_most,
        )

    return target("beside two spinning threads", 2.3), target("two at once / one after the other", 1.1)


def _smoothing_targets(model: str) -> tuple[Target, Target]:
    return (
        Target(
            name=f"full complex SVD / our smoothing of {model}",
            benchmark="tensor_lowrank",
            measured=lambda rows: find(rows, model=model)["full svd / smooth"],
            at_least=2.0,
        ),
        Target(
            name=f"share of smoothing in a smoothed round of {model}",
            benchmark="smoothing_share",
            measured=lambda rows: find(rows, model=model)["share of a smoothed round"],
            at_most=0.02,
        ),
    )


TARGETS: tuple[Target, ...] = (
    *(target for model in STEP_MODELS for target in _step_targets(model)),
    *(target for model, limits in ROUND_LIMITS.items() for target in _round_targets(model, *limits)),
    Target(
        name="round of mlp / its multiplications in one matrix product",
        benchmark="rounds",
        measured=lambda rows: 1 / float(str(find(rows, model="mlp", engine=YARDSTICK)["ratio"])),
        at_most=1.3,
    ),
    *(target for kernels in ("on", "off") for target in _neighbour_targets(kernels)),
    Target(
        name="seconds from `sordino run` to the start of its first round",
        benchmark="startup",
        measured=lambda rows: find(rows, what="first round starts")["seconds"],
        at_most=3.0,
    ),
    Target(
        name="seconds of ε of 40 different releases",
        benchmark="accounting",
        measured=lambda rows: find(rows, what="ε of 40 different releases")["seconds"],
        at_most=1.0,
    ),
    Target(
        name="seconds of `sordino plan --no-trial`",
        benchmark="accounting",
        measured=lambda rows: find(rows, what="sordino plan --no-trial")["seconds"],
        at_most=2.0,
    ),
    Target(
        name="epoch with the body run again / epoch on cached features",
        benchmark="cached_head",
        measured=lambda rows: rows[0]["recomputed / cached"],
        at_least=20.0,
    ),
    Target(
        name="relative difference between those two trained heads",
        benchmark="cached_head",
        measured=lambda rows: rows[0]["relative difference of the heads"],
        at_most=1e-4,
    ),
    Target(
        name="peak memory with 100,000 clients / with 100",
        benchmark="roster_memory",
        measured=lambda rows: find(rows, clients=100_000)["ratio to 100 clients"],
        at_most=1.1,
    ),
    Target(
        name="round over 16 real nodes / plain Flower's FedAvg with the same nodes",
        benchmark="federation_load",
        measured=lambda rows: rows[0]["ratio to plain Flower"],
        at_most=1.3,
    ),
    Target(
        name="a sweep of 102 small runs one by one / with --jobs 2, same bits",
        benchmark="sweep_jobs",
        measured=lambda rows: find(rows, jobs=2)["one by one / this"],
        at_least=1.7,
    ),
    *(
        Target(
            name=f"plans of twelve examples against their runs, {what}: the worst ratio, either way",
            benchmark="plans_against_runs",
            measured=partial(_worst_ratio, what),
            at_most=1.5,
        )
        for what in ("time", "memory")
    ),
    Target(
        name="seconds until a browser has opened the report of 100 runs",
        benchmark="page_opening",
        measured=lambda rows: rows[0]["seconds"],
        at_most=1.0,
    ),
    *(target for model in SMOOTHED_MODELS for target in _smoothing_targets(model)),
    Target(name="secure Gaussian noise / torch.randn", benchmark="noise", measured=_worst_noise, at_most=1.0),
)
