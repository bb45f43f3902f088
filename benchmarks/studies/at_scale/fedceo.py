"""Does FedCEO gain over UDP-FedAvg in the authors' own setting? `python -m benchmarks.studies.at_scale.fedceo --out DIR`.

Noise inside each client's steps, as the public code has it: EMNIST-47, 100 clients of 1,000 rows, 10 a round, 480 steps of 64 rows with
momentum 0.5, z = 2. A round takes 3 to 11 seconds of one core, so the cells that decide have 10 rounds and smooth every fifth: UDP-FedAvg,
FedCEO at the printed λ and at ten and a hundred times that (smoothing ten and a hundred times less), and shards; and LeNet-5 on CIFAR-10.
Told are the last round, which smooths, the one before it, and the best of all, since a smoothing costs points that later rounds win back.

Every client takes part equally often, in ten pools that take turns, so in ten rounds nobody starts from a copy of its own. What copies
do is told in 20 rounds with `copies = "next-turn"`: everybody has two turns, and the pools of rounds 5 and 10, a fifth of all clients,
start those of rounds 15 and 20 from copies. Beside it stand its two halves (smoothing alone, copies alone) and UDP-FedAvg, in equal
shares and shards.

Two cells have settings that were chosen on a tenth of each client's rows, kept from training: the rate, by UDP-FedAvg, and λ, by FedCEO at
the published rate in nine rounds, of which the fifth smooths, so that four rounds have won back what it costs.

`--large` is Table 1 with T = 300 and I = 20, 16 to 57 minutes a run: UDP-FedAvg, PPSGD, CENTAUR, FedCEO with ϑ = 1 and ϑ > 1 at the ends
of the paper's range of λ, and the ablations smoothing alone and copies alone, for equal shares and shards; and one point of LeNet-5 on
CIFAR-10. At z = 2 there are also random draws in place of turns, as the public code has them, so that about one in ten of those who start
from a copy was smoothed: the pair in equal shares and shards, copies alone, and the pair with the rate that was chosen in ten rounds.
`--only iid`, `--only shards`, `--only z=2`, `--only random` or `--only LeNet` run a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.studies.gains import Gain
from benchmarks.studies.planned import Study, Winners, rounds_of, validation
from benchmarks.studies.study import Cell

NOISE = ("1", "1.5", "2")
PRINTED = {"1": (55, 100), "1.5": (0.1, 10.0), "2": (0.03, 1.0)}
"""λ: the ends of the paper's range for each z; at z = 2 what it prints for EMNIST, and the weak end."""
WEAKER = (0.03, 0.3, 3.0)
STRENGTHS = (0.03, 0.1, 0.3, 1.0)
"""λ from which one is chosen: the paper's range at z = 2."""
RATES = (0.01, 0.03, 0.1, 0.3)
TUNED = 0.03
"""The rate that was chosen in ten rounds, which 300 rounds take over: choosing there would cost an hour more."""
RATE, STRENGTH = "rate", "λ"
KEPT = "data.client_split={validation=0.1,test=0.0}"
"""Rows that clients keep from training, on which settings are chosen."""
GROWTH, INTERVAL = {"1": 1.03, "1.5": 1.04, "2": 1.06}, 20
SHORT_ROUNDS, SHORT_INTERVAL = 10, 5
TWO_TURNS = 2 * SHORT_ROUNDS
SPLITS = {"iid": '{name="iid"}', "shards": '{name="shards",shards_per_client=2}'}
NO_SMOOTHING = 1e12
ROUNDS = 300
RANDOM = f"privacy.participation_cap={ROUNDS}"
"""No turns: ten of a hundred are drawn at random in every round, as in the public code, and some clients more often than others."""


def cell(name: str, who: str, noise: str, split: str = "iid", *changes: str) -> Cell:
    return Cell(
        name=f"{name} z={noise} {split}",
        file=f"fedceo/emnist-steps-{who}-z2.toml",
        changes=(
            f"privacy.noise_multiplier={noise}",
            f"data.partition={SPLITS[split]}",
            "engine.evaluate_every=1",
            "engine.checkpoint_every=5",
            "engine.workers=1",
            *changes,
        ),
    )


def smoothing(noise: str, strength: float, interval: int = INTERVAL) -> tuple[str, ...]:
    return (f"method.regularisation={strength}", f"method.growth={GROWTH[noise]}", f"method.interval={interval}")


def _short(name: str, who: str, *changes: str, split: str = "iid", rounds: int = SHORT_ROUNDS) -> Cell:
    """Every client takes part once; one in ten not at all where there is a round less."""
    return cell(name, who, "2", split, *_length(rounds), *changes)


def _length(rounds: int) -> tuple[str, str]:
    turns = -(-rounds // SHORT_ROUNDS)
    return f"rounds={rounds}", f"privacy.participation_cap={turns}"


def _smoothed(name: str, strength: float, *changes: str, split: str = "iid", rounds: int = SHORT_ROUNDS) -> Cell:
    settings = smoothing("2", strength, SHORT_INTERVAL)
    return _short(name, "fedceo", *settings, *changes, split=split, rounds=rounds)


def _rate(rate: float, who: str) -> str:
    return f"{'method.noisy_steps' if who == 'fedceo' else 'method'}.learning_rate={rate:g}"


def candidates() -> dict[str, list[Cell]]:
    """λ is tried at the published rate."""
    return {
        RATE: [_short(f"tried η={rate:g}", "udp-fedavg", _rate(rate, "udp-fedavg"), KEPT) for rate in RATES],
        STRENGTH: [_smoothed(f"tried λ={one:g}", one, KEPT, rounds=SHORT_ROUNDS - 1) for one in STRENGTHS],
    }


def _told(winner: Cell) -> float:
    """The number that a candidate has in its name."""
    return float(winner.name.split("=")[1].split(" ")[0])


def cells(winners: Winners) -> list[Cell]:
    rate, strength = _told(winners[RATE]), _told(winners[STRENGTH])
    printed = WEAKER[0]
    return [
        _short("udp-fedavg", "udp-fedavg"),
        *(_smoothed(f"fedceo λ={one:g}", one) for one in WEAKER),
        _short("udp-fedavg, chosen rate", "udp-fedavg", _rate(rate, "udp-fedavg")),
        _smoothed("fedceo, chosen λ and rate", strength, _rate(rate, "fedceo")),
        _short("udp-fedavg", "udp-fedavg", split="shards"),
        _smoothed("fedceo λ=0.03", printed, split="shards"),
        *two_turns(rate, strength),
        *on_cifar("LeNet-5, short,", SHORT_INTERVAL, _length(SHORT_ROUNDS)),
    ]


def two_turns(rate: float, strength: float) -> list[Cell]:
    """Twenty rounds, in which clients that were smoothed start their second turn from copies of their own."""
    waits, printed = "method.copies=next-turn", WEAKER[0]

    def plain(name: str, *changes: str, split: str = "iid") -> Cell:
        return _short(f"{name}, two turns", "udp-fedavg", *changes, split=split, rounds=TWO_TURNS)

    def smooth(name: str, one: float, *changes: str, split: str = "iid") -> Cell:
        return _smoothed(f"{name}, two turns", one, *changes, split=split, rounds=TWO_TURNS)

    return [
        plain("udp-fedavg"),
        smooth("fedceo λ=0.03", printed, waits),
        smooth("smoothing alone", printed, "method.copies=next-round", "method.personal=false"),
        smooth("copies alone", NO_SMOOTHING, waits),
        plain("udp-fedavg, chosen rate", _rate(rate, "udp-fedavg")),
        smooth("fedceo, chosen λ and rate", strength, _rate(rate, "fedceo"), waits),
        plain("udp-fedavg, chosen rate", _rate(rate, "udp-fedavg"), split="shards"),
        smooth("fedceo, chosen λ and rate", strength, _rate(rate, "fedceo"), waits, split="shards"),
    ]


def full_size() -> list[Cell]:
    return [
        *(one for split in SPLITS for noise in NOISE for one in _table1(noise, split)),
        *random_draws(),
        *on_cifar(),
    ]


def random_draws() -> list[Cell]:
    """The authors' own draws; the ledger tells ε of whoever was drawn most often, the same for all of one seed."""
    printed, weightless = smoothing("2", WEAKER[0]), smoothing("2", NO_SMOOTHING)

    def drawn(name: str, who: str, *changes: str, split: str = "iid") -> Cell:
        return cell(f"{name}, random draws", who, "2", split, RANDOM, *changes)

    return [
        drawn("udp-fedavg", "udp-fedavg"),
        drawn("fedceo ϑ>1", "fedceo", *printed),
        drawn("copies alone", "fedceo", *weightless),
        drawn(f"udp-fedavg η={TUNED:g}", "udp-fedavg", _rate(TUNED, "udp-fedavg")),
        drawn(f"fedceo ϑ>1 η={TUNED:g}", "fedceo", *printed, _rate(TUNED, "fedceo")),
        drawn("udp-fedavg", "udp-fedavg", split="shards"),
        drawn("fedceo ϑ>1", "fedceo", *printed, split="shards"),
    ]


def _table1(noise: str, split: str) -> list[Cell]:
    strong, weak = PRINTED[noise]
    chosen = smoothing(noise, strong)
    return [
        cell("udp-fedavg", "udp-fedavg", noise, split),
        cell("ppsgd", "ppsgd", noise, split),
        cell("centaur", "centaur", noise, split),
        cell("fedceo ϑ=1", "fedceo", noise, split, *chosen, "method.growth=1.0"),
        cell("fedceo ϑ>1", "fedceo", noise, split, *chosen),
        cell("fedceo ϑ>1, weak end of λ", "fedceo", noise, split, *smoothing(noise, weak)),
        cell("smoothing alone", "fedceo", noise, split, *chosen, "method.copies=next-round", "method.personal=false"),
        cell("copies alone", "fedceo", noise, split, *chosen, f"method.regularisation={NO_SMOOTHING}"),
    ]


def on_cifar(name: str = "LeNet-5", interval: int = 10, length: Sequence[str] = ()) -> list[Cell]:
    """One point of the larger model, at the λ, ϑ and I that the paper prints for it; 500 rows a client make 240 steps."""
    whole = (
        'data.source="cifar10"',
        "data.options={mean=[0.5,0.5,0.5],std=[0.5,0.5,0.5]}",
        'model={name="lenet5"}',
        *length,
    )
    printed = ("method.regularisation=0.6", "method.growth=1.04", f"method.interval={interval}")
    return [
        cell(f"{name} udp-fedavg", "udp-fedavg", "2", "iid", *whole, "method.local_steps=240"),
        cell(f"{name} fedceo ϑ>1", "fedceo", "2", "iid", *whole, *printed, "method.noisy_steps.local_steps=240"),
    ]


def figures(run: Path) -> dict[str, float]:
    by_round = {row["round"] + 1: row["accuracy"] for row in rounds_of(run)}
    last = max(by_round)
    interval = SHORT_INTERVAL if last <= TWO_TURNS else INTERVAL
    before = last - last % interval - 1
    return {
        "last round": by_round[last],
        "before the last smoothing": by_round.get(before, by_round[last]),
        "best": max(by_round.values()),
    }


def gains(winners: Winners) -> list[Gain]:
    short = {one.name.removesuffix(" z=2 iid"): one for one in cells(winners)}
    long = {one.name.removesuffix(" z=2 iid"): one for one in full_size()}
    plain, printed, twice = short["udp-fedavg"], short["fedceo λ=0.03"], short["udp-fedavg, two turns"]
    tuned_twice, rated_twice = "fedceo, chosen λ and rate, two turns", "udp-fedavg, chosen rate, two turns"
    before, smoothing_round = "before the last smoothing", "last round"
    whole = (long["fedceo ϑ>1"], long["udp-fedavg"])
    drawn = (long["fedceo ϑ>1, random draws"], long["udp-fedavg, random draws"])
    copies = (long["copies alone, random draws"], drawn[1])
    tuned = (long["fedceo ϑ>1 η=0.03, random draws"], long["udp-fedavg η=0.03, random draws"])
    shards = (long["fedceo ϑ>1, random draws z=2 shards"], long["udp-fedavg, random draws z=2 shards"])
    regimes = [
        (f"FedCEO over UDP-FedAvg, {before}", before, [
            ("10 rounds, λ as printed", printed, plain),
            ("10 rounds, ten times weaker", short["fedceo λ=0.3"], plain),
            ("10 rounds, a hundred times weaker", short["fedceo λ=3"], plain),
            ("10 rounds, rate and λ chosen", short["fedceo, chosen λ and rate"], short["udp-fedavg, chosen rate"]),
            ("10 rounds, λ as printed, shards", short["fedceo λ=0.03 z=2 shards"], short["udp-fedavg z=2 shards"]),
            ("300 rounds, turns, λ as printed", *whole),
            ("300 rounds, random draws, λ as printed", *drawn),
            ("300 rounds, random draws, copies alone", *copies),
            ("300 rounds, random draws, chosen rate", *tuned),
            ("300 rounds, random draws, shards", *shards),
            ("LeNet-5 on CIFAR-10, 10 rounds, λ as printed", short["LeNet-5, short, fedceo ϑ>1"], short["LeNet-5, short, udp-fedavg"]),
        ]),
        ("a variant: 20 rounds, two cohorts start from their smoothed copies", before, [
            ("λ as printed", short["fedceo λ=0.03, two turns"], twice),
            ("its smoothing alone", short["smoothing alone, two turns"], twice),
            ("its copies alone", short["copies alone, two turns"], twice),
            ("rate and λ of ten rounds", short[tuned_twice], short[rated_twice]),
            ("the same, shards", short[f"{tuned_twice} z=2 shards"], short[f"{rated_twice} z=2 shards"]),
        ]),
        ("in the very round that smooths", smoothing_round, [
            ("10 rounds, λ as printed", printed, plain),
            ("300 rounds, turns, λ as printed", *whole),
            ("300 rounds, random draws, λ as printed", *drawn),
        ]),
    ]  # fmt: skip
    return [
        Gain(group=group, where=where, method=method, control=control, figure=figure)
        for group, figure, rows in regimes
        for where, method, control in rows
    ]


def quick(one: Cell) -> Sequence[str]:
    smoothed = "emnist-steps-fedceo" in one.file
    steps = "method.noisy_steps.local_steps" if smoothed else "method.local_steps"
    heads = ("method.head_steps=2",) if "centaur" in one.file else ()
    smaller = ("rounds=3", "privacy.participation_cap=3", "data.options.limit=2000", "data.options.test_limit=500")
    return (*smaller, f"{steps}=4", *heads, *(("method.interval=2",) if smoothed else ()))


STUDY = Study(
    name="FedCEO at scale",
    file="fedceo",
    cells=cells,
    large=full_size(),
    candidates=candidates(),
    choose_by=validation,
    figures=figures,
    quick=quick,
    gains=gains,
)

if __name__ == "__main__":
    STUDY.main()
