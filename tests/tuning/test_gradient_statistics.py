"""What one row can move a statistic by, against every neighbour that was tried; and that nothing smaller would do."""

import pytest
import torch

from sordino.core import Private, SordinoError, unwrap
from sordino.data.examples import IDENTITY, Examples
from sordino.methods.noisy_sgd import NoisySgd
from sordino.models import FlatSpace, build
from sordino.privacy.accounting import spent
from sordino.privacy.clipping import Clip, StatisticBound, bound_statistic
from sordino.tuning.auto import Auto
from sordino.tuning.gradient_statistics import Measure, Subject, measure
from sordino.tuning.survey import RunFacts

ROWS, WIDTH, CLASSES = 4, 6, 3
NAMES = ("G1²", "G2²", "Λ1²", "Λ2²", "L")


def subject(start=None):
    net = build("mlp", shape=(WIDTH,), classes=CLASSES, hidden=[4], seed=2)
    space = FlatSpace(net)
    first = space.read(net) if start is None else start
    return Subject(net=net, space=space, start=first, head=net.parts()["head"], chunk=2, device=torch.device("cpu"))


def examples(inputs, labels):
    return Examples(inputs=inputs, labels=labels, normalisation=IDENTITY)


def public(norm="l2", rate=1.0, largest=None, clip=0.7, rows=ROWS, **iterations):
    return Measure(
        rows=rows,
        rate=rate,
        clip=Clip(bound=clip, norm=norm),
        largest_gradient=largest or clip,
        probe_radius=0.5,
        **iterations,
    )


def neighbours(own, generator):
    """The data set without each row in turn, and with rows that pull as hard as they can in its place."""
    inputs, labels = own.inputs, own.labels
    for row in range(len(own)):
        rest = [k for k in range(len(own)) if k != row]
        yield False, examples(inputs[rest], labels[rest])
        for scale in (0.0, 30.0):
            for label in range(CLASSES):
                changed, relabelled = inputs.clone(), labels.clone()
                changed[row] = scale * torch.randn(WIDTH, generator=generator)
                relabelled[row] = label
                yield True, examples(changed, relabelled)


@pytest.mark.parametrize("largest", [None, 0.2], ids=["clip range", "narrow range"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_no_neighbour_moves_a_statistic_by_more_than_its_bound(norm, rate, largest):
    generator = torch.Generator().manual_seed(1)
    where, how = subject(), public(norm, rate, largest)
    for alike in (True, False):
        inputs = 3 * torch.randn(1 if alike else ROWS, WIDTH, generator=generator).expand(ROWS, WIDTH).clone()
        labels = torch.zeros(ROWS, dtype=torch.int64) if alike else torch.arange(ROWS) % CLASSES
        own = examples(inputs, labels)
        before = measure(own, NAMES, where, how)
        for replaced, other in neighbours(own, generator):
            after = measure(other, NAMES, where, how)
            for name in NAMES:
                bound = how.bound(name)
                allowed = bound.moves * (2 if replaced else 1)
                assert abs(after[name] - before[name]) <= allowed * (1 + 1e-5), (name, replaced)
                assert 0 <= after[name] <= bound.largest * (1 + 1e-5), name


def test_several_iterations_average_over_the_clients_own_steps():
    own = examples(torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(3)), torch.arange(ROWS) % CLASSES)
    once, thrice = (measure(own, NAMES, subject(), public(iterations=k, pace=0.5)) for k in (1, 3))
    still = measure(own, NAMES, subject(), public(iterations=3, pace=0.0))
    assert still == pytest.approx(once)
    assert thrice["L"] == once["L"]
    where, each = subject(), []
    for _ in range(3):
        each.append(measure(own, ("G2²",), where, public())["G2²"])
        net = where.net
        where.space.write(net, where.start)
        loss = torch.nn.functional.cross_entropy(net(own.inputs), own.labels, reduction="none")
        rows = [torch.autograd.grad(one, list(net.parameters()), retain_graph=True) for one in loss]
        flat = [torch.cat([part.flatten() for part in row]) for row in rows]
        mean = sum(row * min(1.0, 0.7 / float(row.norm())) for row in flat) / ROWS
        where = subject(where.start - 0.5 * mean)
    assert thrice["G2²"] == pytest.approx(sum(each) / 3, rel=1e-4)


def test_own_steps_carry_one_row_further_than_the_bound_of_one_point_and_never_past_their_own():
    """Twenty rows pull against twenty, and one more decides where the steps go: the bound of a single point would be a false price."""
    rows, where = 41, subject()
    for name, part in where.space.views(where.start).items():
        if name.startswith("head"):
            part.zero_()
    where.space.views(where.start)["head.bias"][2] = -20.0
    own = examples(torch.full((rows, WIDTH), 5.0), torch.arange(rows) % 2)
    several = public(rows=rows, iterations=5, pace=200.0)
    with_it, without = (
        measure(each, ("G2²",), where, several)["G2²"] for each in (own, own.take(torch.arange(rows - 1)))
    )
    moved = with_it - without
    assert public(rows=rows).bound("G2²").moves < moved <= several.bound("G2²").moves


def test_alike_rows_that_turn_come_near_the_bounds():
    """So the bounds cannot be halved: ten rows that pull the same way, of which one is left out."""
    rows = 10
    own = examples(torch.full((rows, WIDTH), 20.0), torch.zeros(rows, dtype=torch.int64))
    where, how = subject(), public(rate=0.5, rows=rows)
    before, after = (measure(each, NAMES, where, how) for each in (own, own.take(torch.arange(rows - 1))))
    for name in ("G1²", "G2²", "Λ1²", "Λ2²"):
        assert before[name] - after[name] > 0.9 * how.bound(name).moves, name


def test_second_moments_are_those_of_real_poisson_batches():
    generator = torch.Generator().manual_seed(3)
    own = examples(torch.randn(ROWS, WIDTH, generator=generator), torch.arange(ROWS) % CLASSES)
    where, how = subject(), public(rate=0.4)
    from sordino.gradients import ClippedGradients

    found = measure(own, NAMES, where, how)
    where.space.write(where.net, where.start)
    clipped = ClippedGradients(where.net)
    rows = torch.stack(
        [clipped.sum(own.inputs[k : k + 1], own.labels[k : k + 1], clip_norm=0.7).total for k in range(ROWS)]
    )
    moment = variance = 0.0
    for chosen in torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * ROWS):
        weight = 0.4 ** chosen.sum() * 0.6 ** (ROWS - chosen.sum())
        batch = chosen @ rows / (0.4 * ROWS)
        moment += weight * batch.square().sum()
        variance += weight * (batch - rows.mean(0)).square().sum()
    assert found["G2²"] == pytest.approx(float(moment), rel=1e-4)
    assert found["Λ2²"] == pytest.approx(float(variance), rel=1e-4)


def test_a_statistic_is_clamped_to_its_public_range():
    bound = StatisticBound(largest=2.0, moves=3.0)
    assert bound.sensitivity == 2.0
    values = [float(unwrap(bound_statistic(Private(value), bound))) for value in (5.0, -1.0, 0.5, float("nan"))]
    assert values == [2.0, 0.0, 0.5, 0.0]
    with pytest.raises(SordinoError, match="finite range"):
        StatisticBound(largest=float("inf"), moves=1.0)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace-one"])
@pytest.mark.parametrize("wanted", ["decisive", "all"])
@pytest.mark.parametrize("full_batches", [True, False])
def test_all_statistics_together_cost_exactly_what_was_asked(wanted, full_batches, neighbours):
    run = RunFacts(
        rounds=2,
        sizes=[40, 60],
        neighbours=neighbours,
        budgets={},
        job=NoisySgd(batch_size="full" if full_batches else 10),
        clip=Clip(bound=1.0, norm="l2"),
    )
    charges = Auto(epsilon=0.01, statistics=wanted).charges_before(run)
    assert sum(charges.values()) == {"decisive": 2, "all": 3 if full_batches else 5}[wanted]
    assert spent(charges, delta=0.0, neighbours=neighbours).epsilon == pytest.approx(0.01, rel=1e-12)
