"""ε against dp-accounting called directly, and against values derived by hand for each relation between neighbours."""

import math
from collections import Counter
from collections.abc import Callable, Mapping

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from sordino.core import Neighbours, SordinoError
from sordino.privacy import accounting
from sordino.privacy import event_kinds as kinds
from sordino.privacy.accounting import spent
from sordino.privacy.event_kinds import for_dp_accounting
from sordino.privacy.gaussian import gaussian_epsilon
from sordino.privacy.loss_distribution import (
    Divergence,
    Losses,
    _brought_together,
    compose,
    gaussian,
    laplace,
    on_grid,
    poisson,
    window,
)

DELTA = 1e-5
RATE, STEPS = 768 / 50000, 100
Gaussian, Laplace = kinds.GaussianDpEvent, kinds.LaplaceDpEvent
Poisson, FixedSize = kinds.PoissonSampledDpEvent, kinds.SampledWithoutReplacementDpEvent
RELATIONS: dict[Neighbours, dp.NeighboringRelation] = {
    "zero-out": dp.NeighboringRelation.REPLACE_SPECIAL,
    "add-remove": dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace-one": dp.NeighboringRelation.REPLACE_ONE,
}
unsampled_or_poisson: tuple[Neighbours, ...] = ("zero-out", "add-remove", "replace-one")


def epsilon(events: Mapping[kinds.DpEvent, int], neighbours: Neighbours = "zero-out", delta: float = DELTA) -> float:
    return spent(events, delta=delta, neighbours=neighbours).epsilon


def test_the_known_value() -> None:
    figure = spent({Poisson(RATE, Gaussian(1.1)): STEPS}, delta=DELTA, neighbours="zero-out", both=True)
    assert figure.accountant == "pld"
    assert figure.epsilon == pytest.approx(0.862, abs=5e-4)
    assert figure.also["rdp"] == pytest.approx(1.214, abs=5e-4)
    assert figure.note == ""


def test_two_releases_from_one_batch_are_one_sampled_joint_event() -> None:
    pair = kinds.ComposedDpEvent((Gaussian(1.1), Gaussian(1.1)))
    assert epsilon({Poisson(RATE, pair): STEPS}) == pytest.approx(2.31, abs=5e-3)
    assert epsilon({Poisson(RATE, Gaussian(1.1)): 2 * STEPS}) == pytest.approx(1.14, abs=5e-3)


# Direct calls of dp-accounting, over random plans


def random_plan(seed: int) -> tuple[Neighbours, Counter[kinds.DpEvent]]:
    rng = np.random.default_rng(seed)
    neighbours = unsampled_or_poisson[seed % 3]
    plan: Counter[kinds.DpEvent] = Counter()
    for _ in range(rng.integers(1, 5)):
        kind = Laplace if rng.random() < 0.4 else Gaussian
        inner = kind(float(rng.uniform(0.8, 6.0)) * (2 if kind is Laplace else 1))
        sampled = rng.random() < 0.6 and not (kind is Laplace and neighbours == "replace-one")
        plan[Poisson(float(rng.uniform(0.005, 0.3)), inner) if sampled else inner] += int(rng.integers(1, 40))
    return neighbours, plan


def direct_pld(plan: Mapping[kinds.DpEvent, int], neighbours: Neighbours) -> float:
    """Replace-one Laplace is refused there: under it, a multiplier counts half."""
    accountant = dp.pld.PLDAccountant(RELATIONS[neighbours], 1e-3)
    laplace = pld.identity(1e-3)
    for event, count in plan.items():
        if isinstance(event, Laplace) and neighbours == "replace-one":
            one = pld.from_laplace_mechanism(event.noise_multiplier / 2, value_discretization_interval=1e-3)
            laplace = laplace.compose(one.self_compose(count))
        else:
            accountant.compose(for_dp_accounting(event), count)
    return accountant._pld.compose(laplace).get_epsilon_for_delta(DELTA)


@pytest.mark.parametrize("seed", range(36))
def test_random_plans_agree_with_dp_accounting(seed: int) -> None:
    neighbours, plan = random_plan(seed)
    figure = spent(plan, delta=DELTA, neighbours=neighbours)
    assert figure.accountant == "pld"
    assert figure.epsilon == pytest.approx(direct_pld(plan, neighbours), rel=2e-3, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_schedules_agree_with_dp_accounting(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    first, last = rng.uniform(1.0, 4.0, size=2)
    plan = {Poisson(0.05, Gaussian(float(z))): 1 for z in np.linspace(first, last, 12)}
    assert epsilon(plan) == pytest.approx(direct_pld(plan, "zero-out"), rel=2e-3, abs=1e-3)


@pytest.mark.parametrize("neighbours", ["zero-out", "add-remove"])
@pytest.mark.parametrize("seed", range(3))
def test_rdp_beside_pld_agrees_with_dp_accounting(seed: int, neighbours: Neighbours) -> None:
    rng = np.random.default_rng(seed)
    plan: dict[kinds.DpEvent, int] = {
        Poisson(0.1, Gaussian(float(rng.uniform(1, 3)))): 20,
        Gaussian(float(rng.uniform(5, 9))): 3,
        Laplace(float(rng.uniform(5, 9))): 3,
    }
    accountant = dp.rdp.RdpAccountant(neighboring_relation=RELATIONS[neighbours])
    for event, count in plan.items():
        accountant.compose(for_dp_accounting(event), count)
    figure = spent(plan, delta=DELTA, neighbours=neighbours, both=True)
    assert figure.also["rdp"] == pytest.approx(accountant.get_epsilon(DELTA))


# Fixed-size sampling


@pytest.mark.parametrize("neighbours", ["zero-out", "replace-one"])
def test_much_noise_on_a_fixed_size_draw_is_priced_by_rdp_at_half_the_multiplier(neighbours: Neighbours) -> None:
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(for_dp_accounting(FixedSize(1000, 10, Gaussian(10.0))), 500)
    figure = spent({FixedSize(1000, 10, Gaussian(20.0)): 500}, delta=DELTA, neighbours=neighbours)
    assert figure.accountant == "rdp"
    assert figure.epsilon == pytest.approx(accountant.get_epsilon(DELTA))
    assert figure.also["pld"] > figure.epsilon
    assert "replace-one" in figure.note


@pytest.mark.parametrize(("neighbours", "moved"), [("zero-out", 1), ("replace-one", 2)])
def test_little_noise_on_a_fixed_size_draw_is_priced_as_if_the_draw_were_announced(
    neighbours: Neighbours, moved: int
) -> None:
    once = pld.from_gaussian_mechanism(1.0 / moved, value_discretization_interval=1e-3)
    announced = once.compute_mixture(pld.identity(1e-3), 0.2).self_compose(50)
    figure = spent({FixedSize(100, 20, Gaussian(1.0)): 50}, delta=DELTA, neighbours=neighbours)
    assert figure.accountant == "pld"
    assert figure.epsilon == pytest.approx(announced.get_epsilon_for_delta(DELTA), rel=1e-3)
    assert figure.epsilon < figure.also["rdp"]
    assert "knew who was drawn" in figure.note


def test_an_announced_draw_by_hand() -> None:
    """One release with probability q: δ(ε) is q times the Gaussian's, so ε at δ is the Gaussian's ε at δ/q."""
    figure = spent({FixedSize(10, 3, Gaussian(1.0)): 1}, delta=DELTA, neighbours="zero-out")
    assert figure.epsilon == pytest.approx(analytic_gaussian(1.0, DELTA / 0.3), rel=1e-4)


def test_a_fixed_size_draw_of_everybody_is_the_bare_event() -> None:
    assert epsilon({FixedSize(20, 20, Gaussian(2.0)): 5}, "add-remove") == epsilon({Gaussian(2.0): 5}, "add-remove")


def test_fixed_size_under_add_remove_is_refused() -> None:
    with pytest.raises(SordinoError, match="add-remove"):
        epsilon({FixedSize(100, 20, Gaussian(2.0)): 5}, "add-remove")


def test_mixed_samplers_are_priced_together() -> None:
    plan = {FixedSize(100, 20, Gaussian(2.0)): 5, Poisson(0.1, Gaussian(1.0)): 5, Laplace(9.0): 1}
    parts = [epsilon({event: count}) for event, count in plan.items()]
    assert max(parts) < epsilon(plan) < sum(parts)


# Values derived by hand


def analytic_gaussian(noise_multiplier: float, delta: float) -> float:
    """Balle and Wang (2018): δ(ε) = Φ(1/2z − εz) − e^ε Φ(−1/2z − εz)."""
    z, cdf = noise_multiplier, stats.norm.cdf
    return float(
        optimize.brentq(
            lambda e: cdf(0.5 / z - e * z) - math.exp(e) * cdf(-0.5 / z - e * z) - delta, 0, 500, xtol=1e-12
        )
    )


@pytest.mark.parametrize("noise_multiplier", [0.7, 1.0, 3.0])
@pytest.mark.parametrize(("neighbours", "moved"), [("zero-out", 1), ("add-remove", 1), ("replace-one", 2)])
def test_gaussian_is_exact(noise_multiplier: float, neighbours: Neighbours, moved: int) -> None:
    by_hand = analytic_gaussian(noise_multiplier / moved / math.sqrt(3), DELTA)
    assert epsilon({Gaussian(noise_multiplier): 3}, neighbours) == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize(("neighbours", "moved"), [("zero-out", 1), ("add-remove", 1), ("replace-one", 2)])
def test_laplace_at_delta_zero_adds_up(neighbours: Neighbours, moved: int) -> None:
    figure = spent({Laplace(4.0): 6, Laplace(2.0): 1}, delta=0.0, neighbours=neighbours)
    assert figure.accountant == "pure"
    assert figure.epsilon == pytest.approx(moved * (6 / 4 + 1 / 2))


@pytest.mark.parametrize(("neighbours", "moved"), [("zero-out", 1), ("replace-one", 2)])
def test_one_laplace_release_by_hand(neighbours: Neighbours, moved: int) -> None:
    """δ(ε) = 1 − e^((ε − s/z)/2), so ε = s/z + 2·log(1 − δ)."""
    assert epsilon({Laplace(0.8): 1}, neighbours, 0.01) == pytest.approx(moved / 0.8 + 2 * math.log(0.99), abs=1e-3)


def test_sampled_laplace_at_delta_zero_by_hand() -> None:
    assert epsilon({Poisson(0.1, Laplace(2.0)): 3}, delta=0.0) == pytest.approx(3 * math.log1p(0.1 * math.expm1(0.5)))


def hockey_stick(upper: Callable[[float], float], lower: Callable[[float], float], at: float) -> float:
    xs = np.linspace(-40, 40, 400_001)
    return float(integrate.trapezoid(np.maximum(upper(xs) - math.exp(at) * lower(xs), 0), xs))


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(1.1, 0.1), (0.8, 0.5), (2.0, 0.02)])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace-one"])
def test_one_poisson_step_against_a_numerical_integral(
    noise_multiplier: float, rate: float, neighbours: Neighbours
) -> None:
    def density(*centres: tuple[float, float]) -> Callable[[float], float]:
        return lambda x: sum(weight * stats.norm.pdf(x, centre, noise_multiplier) for centre, weight in centres)

    present = density((0.0, 1 - rate), (1.0, rate))
    other = density((0.0, 1.0)) if neighbours == "zero-out" else density((0.0, 1 - rate), (-1.0, rate))
    delta = 1e-4
    found = epsilon({Poisson(rate, Gaussian(noise_multiplier)): 1}, neighbours, delta)
    worst = max(hockey_stick(present, other, found), hockey_stick(other, present, found))
    slightly_less = max(hockey_stick(present, other, found - 0.005), hockey_stick(other, present, found - 0.005))
    assert worst <= delta * (1 + 1e-6) < slightly_less


def test_sampled_laplace_under_replace_one_claims_no_more_than_it_can() -> None:
    figure = spent({Poisson(0.1, Laplace(3.0)): 20}, delta=DELTA, neighbours="replace-one")
    once = pld.from_laplace_mechanism(1.5, value_discretization_interval=1e-3)
    announced = once.compute_mixture(pld.identity(1e-3), 0.1).self_compose(20).get_epsilon_for_delta(DELTA)
    pure = 20 * math.log1p(0.1 * math.expm1(2 / 3))
    assert figure.epsilon == pytest.approx(min(announced, pure), rel=1e-3)
    assert figure.note


# Edges


def test_nothing_costs_nothing_and_bare_releases_cost_everything() -> None:
    assert epsilon({}) == 0
    assert epsilon({kinds.NoOpDpEvent(): 9, Gaussian(math.inf): 3}) == 0
    for bare in (kinds.NonPrivateDpEvent(), Gaussian(0.0), Poisson(0.1, kinds.NonPrivateDpEvent())):
        figure = spent({bare: 1, Gaussian(5.0): 1}, delta=DELTA, neighbours="zero-out")
        assert figure.epsilon == math.inf
        assert figure.accountant == "none"


def test_gaussian_has_no_pure_epsilon() -> None:
    assert epsilon({Gaussian(1.0): 1}, delta=0.0) == math.inf


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_a_wrong_delta_is_refused(delta: float) -> None:
    with pytest.raises(SordinoError, match="δ"):
        epsilon({Gaussian(1.0): 1}, delta=delta)


def test_a_very_small_delta_is_left_to_rdp() -> None:
    figure = spent({Poisson(0.1, Gaussian(2.0)): 10}, delta=1e-14, neighbours="zero-out")
    assert figure.accountant == "rdp"
    assert math.isfinite(figure.epsilon)


def test_very_little_noise_is_priced_without_a_huge_grid() -> None:
    bare = analytic_large(0.05 / math.sqrt(1000))
    assert epsilon({Gaussian(0.05): 1000}) == pytest.approx(bare, rel=1e-6)
    assert 0 < epsilon({Poisson(0.1, Gaussian(0.05)): 1000}) < bare


def analytic_large(noise_multiplier: float) -> float:
    """The same formula on a log scale, where e^ε overflows."""
    z, log_cdf = noise_multiplier, stats.norm.logcdf

    def excess(at: float) -> float:
        upper, lower = log_cdf(0.5 / z - at * z), at + log_cdf(-0.5 / z - at * z)
        return upper + math.log1p(-math.exp(min(lower - upper, -1e-300))) - math.log(DELTA)

    return float(optimize.brentq(excess, 0.4 / z**2, 1 / z**2))


def test_a_coarse_grid_is_still_an_upper_bound() -> None:
    exact = analytic_gaussian(1.0 / math.sqrt(20), DELTA)
    found = []
    for interval in (1e-3, 1e-2, 0.1, 0.5):
        part = [(on_grid((gaussian(1.0),) * 2, interval)[0], 20)]
        found.append(compose(part, window(part, DELTA * 1e-6)).epsilon(DELTA))
    assert exact <= found[0] <= found[1] <= found[2] <= found[3]
    assert found[0] == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("delta", [1e-5, 1e-8, 1e-10])
@pytest.mark.parametrize("steps", [1000, 100_000])
def test_rounding_never_makes_many_steps_too_cheap(steps: int, delta: float) -> None:
    exact = analytic_gaussian(1.0, delta)
    part = [(on_grid((gaussian(math.sqrt(steps)),) * 2, 5e-3 / math.sqrt(steps))[0], steps)]
    found = compose(part, window(part, delta * 1e-6)).epsilon(delta)
    assert exact <= found == pytest.approx(exact, rel=5e-3)


def delta_of(losses: Losses, epsilon: float) -> float:
    finite = losses.interval * np.arange(losses.start, losses.start + len(losses.mass))
    return losses.infinite + float((losses.mass * np.maximum(0, -np.expm1(epsilon - finite))).sum())


@pytest.mark.parametrize("base", [gaussian(0.5), gaussian(1.0), gaussian(8.0), laplace(0.7)])
@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.6, 0.99])
def test_both_directions_join_the_dots_of_the_true_ones(base: Divergence, rate: float) -> None:
    for way, found in zip(poisson(base, rate), on_grid(poisson(base, rate), 1e-3), strict=True):
        first, last = found.start, found.start + len(found.mass) - 1
        dots = 1e-3 * np.unique(np.linspace(first, last, 40).astype(int))
        exact = way.delta(dots)
        assert found.infinite + found.mass.sum() == pytest.approx(1, rel=1e-13)
        assert [delta_of(found, dot) for dot in dots] == pytest.approx(exact, rel=1e-9, abs=1e-13)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=70), st.integers(1, 16), st.floats(-0.3, 0.3))
def test_mass_brought_together_keeps_its_mean_and_no_less_of_any_moment(
    masses: list[float], stride: int, tilt: float
) -> None:
    mass = np.array(masses)
    fewer = _brought_together(mass, stride)
    places, wider = np.arange(len(mass)), stride * np.arange(len(fewer))
    assert fewer @ wider == pytest.approx(mass @ places, abs=1e-9)
    assert fewer @ np.exp(tilt * wider) >= mass @ np.exp(tilt * places) * (1 - 1e-12)


@pytest.mark.parametrize("z", [0.01, 0.02, 0.1, 1.0, 30.0])
def test_the_divergence_of_two_gaussians_holds_into_the_far_tail(z: float) -> None:
    divergence = gaussian(z)
    epsilon = np.linspace(divergence.lowest, divergence.highest, 2001)
    upper, lower = stats.norm.logcdf(0.5 / z - z * epsilon), epsilon + stats.norm.logcdf(-0.5 / z - z * epsilon)
    assert divergence.delta(epsilon) == pytest.approx(np.exp(upper) - np.exp(lower), rel=1e-9, abs=1e-14)


def test_the_two_grids_agree() -> None:
    plan = {Poisson(0.05, Gaussian(1.0)): 50, Laplace(5.0): 3}
    quick, precise = (spent(plan, delta=DELTA, neighbours="zero-out", precise=p).epsilon for p in (False, True))
    assert precise <= quick == pytest.approx(precise, rel=1e-3)


def test_a_schedule_longer_than_told_apart_is_bounded_from_above(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {Poisson(0.05, Gaussian(1 + step / 40)): 1 for step in range(40)}
    exact = epsilon(plan)
    accounting._spent.cache_clear()
    monkeypatch.setattr(accounting, "MOST_MULTIPLIERS", 10)
    rounded = epsilon(plan)
    accounting._spent.cache_clear()
    assert exact < rounded < 1.1 * exact


# Properties

bare_events = st.one_of(st.floats(0.7, 20).map(Gaussian), st.floats(0.7, 20).map(Laplace))
sampled_events = st.one_of(
    bare_events,
    st.builds(Poisson, st.floats(0.01, 0.9), bare_events),
)


@settings(max_examples=20, deadline=None)
@given(sampled_events, st.integers(1, 30), st.sampled_from(unsampled_or_poisson))
def test_more_of_anything_costs_more(event: kinds.DpEvent, count: int, neighbours: Neighbours) -> None:
    once = epsilon({event: count}, neighbours)
    assert once <= epsilon({event: count + 1}, neighbours) + 1e-9
    assert once <= epsilon(Counter({event: count}) + Counter([Laplace(10.0)]), neighbours) + 2e-3
    assert epsilon({event: count}, neighbours, 1e-4) <= once


@settings(max_examples=20, deadline=None)
@given(st.floats(0.7, 10), st.floats(0.01, 0.8), st.integers(1, 30), st.sampled_from(unsampled_or_poisson))
def test_noise_and_sampling_help_and_replacing_hurts(z: float, rate: float, count: int, neighbours: Neighbours) -> None:
    here = epsilon({Poisson(rate, Gaussian(z)): count}, neighbours)
    slack = 1e-3 * (1 + here)
    assert epsilon({Poisson(rate, Gaussian(1.2 * z)): count}, neighbours) <= here + slack
    assert epsilon({Poisson(rate / 2, Gaussian(z)): count}, neighbours) <= here + slack
    assert here <= epsilon({Gaussian(z): count}, neighbours) + slack
    assert epsilon({Poisson(rate, Gaussian(z)): count}, "zero-out") <= here + slack


def test_rounding_of_rdp_curves_never_makes_billions_of_releases_free() -> None:
    """A curve near zero is the logarithm of a sum near one; rounded below zero, it would be an ε of nothing."""
    count, z = 10**11, 6.333e7
    figures = spent({Poisson(1 / 3, Gaussian(z)): count}, delta=DELTA, neighbours="zero-out", both=True)
    least = gaussian_epsilon(math.sqrt(count) / (3 * z), DELTA)
    assert least > 0.003
    for figure in (figures.epsilon, *figures.also.values()):
        assert figure >= least


def test_a_grid_that_is_too_coarse_leaves_the_word_to_others() -> None:
    found = spent({Poisson(1 / 3, Gaussian(2e5)): 10**12}, delta=DELTA, neighbours="zero-out", both=True)
    assert found.accountant != "pld" and 8.0 < found.epsilon < 50.0
