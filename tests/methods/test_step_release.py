"""What mechanisms make of a batch: the noise they really draw, the clip they find, the subspace they use."""

import dataclasses
import itertools
import math

import pytest
import torch
from scipy.stats import chi2

import sordino
from sordino.core import Private, SordinoError
from sordino.data.examples import IDENTITY, Examples
from sordino.data.source import SourceSettings, load
from sordino.engine.client.noisy_steps import PoissonSteps, StepBatch
from sordino.engine.moved_clips import MovedClips
from sordino.engine.record import RunRecord
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.gradients import ClippedGradients, ClippedSum
from sordino.methods.method import ClientContext
from sordino.models import FlatSpace, build
from sordino.privacy.adaptive_clip import COUNT, AdaptiveClip
from sordino.privacy.clipping import Clip
from sordino.privacy.door import Door
from sordino.privacy.event_kinds import NonPrivateDpEvent
from sordino.privacy.gep import RESIDUAL, Gep
from sordino.privacy.ledger import Ledger, Line, read_lines
from sordino.privacy.mechanisms import Gaussian, Part
from sordino.privacy.noise import SeededNoise
from sordino.privacy.pricing import Charge
from sordino.privacy.samplers import poisson_batch
from sordino.privacy.streams import stream_id
from sordino.privacy.subspace import layer_groups, power_method

PUBLIC = {"source": "mnist5k", "visibility": "public"}
STEPS = {"name": "dp-sgd", "local_steps": 2, "batch_size": 32, "learning_rate": 0.1}
MECHANISMS = {
    "adaptive-clip": {"name": "adaptive-clip", "count_noise": 2.0},
    "noise-schedule": {"name": "noise-schedule", "decay": 0.3},
    "gep": {"name": "gep", "public": PUBLIC, "anchors": 20, "basis": 4, "groups": 2},
}


def permit(*others, z=1.0, bound=1.0, releases=1, moving=False, seed=1):
    door = Door(Ledger(clients=1, delta=1e-5, neighbours="zero-out"), SeededNoise(seed))
    charge = Charge(view="public", whom="pool", event=NonPrivateDpEvent(), because="priced elsewhere")
    return door.open(
        Line(
            round=0,
            label="steps",
            unit="example",
            owner="client 0",
            mechanism="gaussian",
            norm="l2",
            clip_bound=bound,
            noise_multiplier=z,
            releases=releases,
            others=others,
            moving_clip=moving,
            charges=(charge,),
        )
    )


def context(net, step=0):
    return ClientContext(
        net=net, space=FlatSpace(net), client=0, round=step, size=1, seed=7, device=torch.device("cpu")
    )


class Norms:
    """Stands for gradients of which only the norms matter."""

    def __init__(self, norms, size=1):
        self.norms, self.size = norms, size

    def sum(self, inputs, targets, *, clip_norm):
        return ClippedSum(total=torch.zeros(self.size), norms=self.norms, nonfinite=0)


def batch(rows=1):
    return Private(
        Examples(inputs=torch.zeros(rows, 1), labels=torch.zeros(rows, dtype=torch.int64), normalisation=IDENTITY)
    )


@dataclasses.dataclass
class Release:
    """A mechanism step by step, with the clip that it finds."""

    mechanism: object
    clip: Clip
    permit: object
    expected_units: float = 200.0
    anchors: Examples | None = None

    def batch(self, gradients, rows, *, units, context, step):
        return StepBatch(
            rows=rows,
            units=units,
            expected_units=self.expected_units,
            gradients=gradients,
            context=context,
            step=step,
            anchors=self.anchors,
        )

    def noisy_sum(self, *given, **named):
        made = self.mechanism.release_step(self.batch(*given, **named), clip=self.clip, permit=self.permit)
        self.clip = made.clip
        return made.total


def following(bound, steps, *, count_noise=20.0, z=1.0):
    part = Part(name=COUNT, clip_bound=1.0, noise_multiplier=count_noise)
    allowed = permit(part, z=z, bound=bound, releases=steps, moving=True)
    return Release(AdaptiveClip(count_noise=count_noise), Clip(bound=bound, norm="l2"), allowed)


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_the_clip_finds_the_median_from_far_too_high_and_far_too_low(factor):
    """Norms are log-normal with median 3. A step moves log C by at most about 0.1, so 4.6 takes some 46 steps."""
    steps, generator = 200, torch.Generator().manual_seed(3)
    release = following(3.0 * factor, steps)
    net = build("logistic", shape=(1,), classes=2)
    bounds = []
    for step in range(steps):
        norms = 3.0 * torch.exp(torch.randn(200, generator=generator))
        release.noisy_sum(Norms(norms), batch(), units=200, context=context(net), step=step)
        bounds.append(release.clip.bound)
    share_within = [0.5 * (1 + math.erf(math.log(bound / 3.0) / math.sqrt(2))) for bound in bounds[100:]]
    assert sum(share_within) / 100 == pytest.approx(0.5, abs=0.05)
    assert abs(math.log(bounds[0] / (3.0 * factor))) < 0.2


def two_sided(values, scale):
    """Whether the variance fits the scale, at a false-alarm rate of one in ten thousand on either side."""
    statistic = float((values.double() / scale).square().sum())
    return chi2.ppf(1e-4, len(values)) < statistic < chi2.ppf(1 - 1e-4, len(values))


def test_the_noise_follows_the_moving_clip_and_the_count_has_its_own():
    size, steps = 4000, 12
    release = following(5.0, steps, z=0.7)
    net = build("logistic", shape=(1,), classes=2)
    for step in range(steps):
        bound = release.clip.bound
        noise = release.noisy_sum(Norms(torch.zeros(10), size), batch(), units=10, context=context(net), step=step)
        assert two_sided(noise, 0.7 * bound)
        assert not two_sided(noise, 0.7 * bound * 1.15)
    assert release.clip.bound != 5.0


def test_the_counts_noise_is_as_charged():
    release = following(1e-9, 2000, count_noise=20.0)
    net = build("logistic", shape=(1,), classes=2)
    moves = []
    for step in range(2000):
        release.clip = Clip(bound=1.0, norm="l2")
        release.noisy_sum(Norms(torch.full((10,), 2.0)), batch(), units=10, context=context(net), step=step)
        moves.append(release.clip.bound)
    counts = torch.tensor([(0.5 - math.log(bound) / 0.2) * 200 for bound in moves])
    assert two_sided(counts, 20.0)
    assert not two_sided(counts, 22.0)
    assert not two_sided(counts, 18.0)


def test_a_count_that_was_not_charged_is_not_released_and_one_too_many_is_refused():
    release = following(1.0, 1)
    net = build("logistic", shape=(1,), classes=2)
    release.noisy_sum(Norms(torch.ones(1)), batch(), units=1, context=context(net), step=0)
    with pytest.raises(SordinoError, match="asked for one more"):
        release.noisy_sum(Norms(torch.ones(1)), batch(), units=1, context=context(net), step=1)
    bare = dataclasses.replace(following(1.0, 1), permit=permit(bound=1.0))
    bare.noisy_sum(Norms(torch.ones(1)), batch(), units=1, context=context(net), step=0)
    assert bare.clip.bound == 1.0


def test_steps_draw_their_own_batches_at_the_charged_rate():
    """A job asks for sums at models; the rows of each come from streams named by round, client and step."""
    net = build("logistic", shape=(1, 8, 8), classes=10, seed=2)
    here, own, coins = dataclasses.replace(context(net), size=40, round=3), digits(40), SeededNoise(9)
    steps = PoissonSteps(
        Private(own),
        here,
        mechanism=Gaussian(),
        permit=permit(z=0.0, bound=0.5, releases=3),
        clip=Clip(bound=0.5, norm="l2"),
        rate=0.3,
        coins=coins,
        chunk=None,
    )
    assert steps.expected_batch == 12.0
    gradients, model = ClippedGradients(net), here.space.read(net)
    for step in range(3):
        found = steps.noisy_sum(model + step)
        rows = torch.from_numpy(poisson_batch(40, 0.3, coins, stream=stream_id("batch", 3, 0, step)))
        assert 0 < len(rows) < 40
        here.space.write(net, model + step)
        expected = gradients.sum(own.take(rows).features("cpu"), own.take(rows).labels, clip_norm=0.5).total
        assert torch.equal(found, expected)
    with pytest.raises(SordinoError, match="asked for one more"):
        steps.noisy_sum(model)
    assert {name for name in dir(steps) if not name.startswith("_")} == {"clip", "expected_batch", "noisy_sum"}


def digits(rows, offset=0):
    train = load(SourceSettings(source="digits", visibility="private")).train
    return train.take(torch.arange(offset, offset + rows))


def gep_release(net, *, z, anchors, groups=2, basis=5, seed=1):
    mechanism = Gep(public=PUBLIC, anchors=len(anchors), basis=basis, groups=groups)
    part = Part(name=RESIDUAL, clip_bound=0.2, noise_multiplier=z)
    allowed = permit(part, z=z, bound=0.5, releases=50, seed=seed)
    return Release(mechanism, Clip(bound=0.5, norm="l2"), allowed, expected_units=30.0, anchors=anchors)


def test_gep_projects_as_a_dense_reference_does():
    net = build("mlp", shape=(1, 8, 8), classes=10, seed=2, hidden=[12])
    gradients = ClippedGradients(net)
    anchors, private = digits(25), digits(30, 100)
    release = gep_release(net, z=0.0, anchors=anchors)
    found = release.noisy_sum(gradients, Private(private), units=30, context=context(net), step=0)

    public = gradients.per_example(anchors.features("cpu"), anchors.labels)
    each = gradients.per_example(private.features("cpu"), private.labels).double()
    total = torch.zeros(each.shape[1], dtype=torch.float64)
    groups = layer_groups(FlatSpace(net).sizes, 2)
    subspace = power_method(
        public, groups, bases=[5, 5], iterations=2, generator=context(net).generator("subspace of step 0")
    )
    dense = torch.zeros(each.shape[1], 10, dtype=torch.float64)
    for number, ((start, stop), basis) in enumerate(zip(groups, subspace.bases, strict=True)):
        dense[start:stop, 5 * number : 5 * number + 5] = basis.double()
    for row in each:
        embedding = dense.T @ row
        residual = row - dense @ embedding
        total += dense @ (embedding * min(1.0, 0.5 / float(embedding.norm())))
        total += residual * min(1.0, 0.2 / float(residual.norm()))
    assert torch.allclose(found.double(), total, atol=1e-5)
    assert torch.allclose(dense.T @ dense, torch.eye(10, dtype=torch.float64), atol=1e-5)


def test_the_power_method_finds_the_leading_directions():
    torch.manual_seed(0)
    directions = torch.linalg.qr(torch.randn(40, 3)).Q
    gradients = torch.randn(30, 3) * torch.tensor([9.0, 5.0, 3.0]) @ directions.T + 0.01 * torch.randn(30, 40)
    found = power_method(gradients, [(0, 40)], bases=[3], iterations=3, generator=torch.Generator().manual_seed(1))
    assert float((found.lift(found.embed(directions.T)) - directions.T).norm()) < 0.05


def test_layer_groups_cut_no_layer_and_cover_all():
    groups = layer_groups([100, 10, 200, 5, 90], 3)
    assert groups[0][0] == 0
    assert groups[-1][1] == 405
    assert all(a[1] == b[0] for a, b in itertools.pairwise(groups))
    assert len(groups) <= 3
    assert {stop for _, stop in groups} <= {100, 110, 310, 315, 405}


def test_geps_subspace_knows_nothing_of_private_rows_and_both_parts_are_noised():
    net = build("mlp", shape=(1, 8, 8), classes=10, seed=2, hidden=[60])
    gradients, anchors = ClippedGradients(net), digits(25)
    empty = Private(digits(1).take(torch.arange(0)))
    bare = gep_release(net, z=0.0, anchors=anchors)
    batches = [
        bare.batch(gradients, rows, units=0, context=context(net), step=0) for rows in (empty, Private(digits(9, 50)))
    ]
    one, other = (bare.mechanism._subspace(batch) for batch in batches)
    assert all(torch.equal(a, b) for a, b in zip(one.bases, other.bases, strict=True))
    release = gep_release(net, z=2.0, anchors=anchors)
    noise = release.noisy_sum(gradients, empty, units=0, context=context(net), step=0)
    assert two_sided(noise - one.lift(one.embed(noise[None])[0]), 2.0 * 0.2)
    inside = torch.cat(
        [
            one.embed(
                gep_release(net, z=2.0, anchors=anchors, seed=seed).noisy_sum(
                    gradients, empty, units=0, context=context(net), step=0
                )[None]
            )[0]
            for seed in range(30)
        ]
    )
    assert two_sided(inside, 2.0 * math.sqrt(0.5**2 + 0.2**2))
    assert not two_sided(inside, 2.0 * 0.5 * 0.75)


def test_a_non_finite_gradient_is_nothing_to_gep():
    net = build("mlp", shape=(4,), classes=2, seed=2, hidden=[3])
    rows = Examples(inputs=torch.randn(6, 4), labels=torch.zeros(6, dtype=torch.int64), normalisation=IDENTITY)
    bad = dataclasses.replace(rows, inputs=torch.cat([rows.inputs[:5], torch.full((1, 4), float("nan"))]))
    gradients = ClippedGradients(net)
    with_bad, without = (
        gep_release(net, z=0.0, anchors=rows, groups=1, basis=2).noisy_sum(
            gradients, Private(data), units=6, context=context(net), step=0
        )
        for data in (bad, rows.take(torch.arange(5)))
    )
    assert torch.allclose(with_bad, without, atol=1e-6)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("where", ["one-place", "clients", "dp-fedavg"])
def test_an_interrupted_run_resumes_to_the_same_bits(name, where, tiny, tmp_path):
    if (name, where) == ("gep", "dp-fedavg"):
        pytest.skip("refused, with a reason")
    method = {} if where == "dp-fedavg" else {"method": {**STEPS, "where": where}}
    few = {"data": {"clients": 3, "partition": {"name": "iid"}}, "engine": {"evaluate_every": 5}}
    table = tiny(rounds=5, **method, **few, privacy={"mechanism": MECHANISMS[name], "expected_cohort": 2})

    def interrupt(moment):
        if moment.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(table), tmp_path / "broken", watch=interrupt)
    sordino.run(table, out=tmp_path / "broken", resume=True)
    sordino.run(table, out=tmp_path / "whole")
    for file in ("model.safetensors", "ledger.jsonl", "metrics.jsonl"):
        assert (tmp_path / "broken" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    state = RunRecord(tmp_path / "whole").load_checkpoint().state
    lines = read_lines(tmp_path / "whole" / "ledger.jsonl")
    if name == "adaptive-clip":
        assert len({line.clip_bound for line in lines}) > 1
        assert set(state) > {"model"}
    if name == "noise-schedule":
        assert len({line.noise_multiplier for line in lines}) == 5


@pytest.mark.parametrize("noise", ["central", "distributed", "local"])
def test_a_federations_clip_follows_its_clients_updates(noise, tiny, tmp_path):
    """From far too high the clip falls, in every placement, on a model that stays where it is."""
    privacy = {"mechanism": "adaptive-clip", "clip_norm": 50.0, "noise": noise}
    still = {"name": "dp-fedavg", "server_learning_rate": 1e-9}
    table = tiny(rounds=10, method=still, privacy=privacy, engine={"evaluate_every": 10})
    sordino.run(table, out=tmp_path / "run")
    bounds = {line.round: line.clip_bound for line in read_lines(tmp_path / "run" / "ledger.jsonl")}
    assert bounds[0] == 50.0
    assert bounds[9] < 50.0
    found = MovedClips.taken_from(RunRecord(tmp_path / "run").load_checkpoint().state)
    assert found.of(0, 50.0) < 50.0


def test_gep_refuses_anchors_that_are_private_or_overlap(tiny, tmp_path):
    for public, sentence in (
        ({**PUBLIC, "visibility": "private"}, "marked public"),
        ({"source": "digits", "visibility": "public"}, "also training or test examples"),
        ({**PUBLIC, "limit": 10}, "lower anchors"),
    ):
        table = tiny(method=STEPS, privacy={"mechanism": {"name": "gep", "public": public}})
        with pytest.raises(SordinoError, match=sentence):
            sordino.run(table, out=tmp_path / "run")


def test_gep_works_on_a_frozen_bodys_outputs(tiny, tmp_path):
    table = tiny(rounds=1, method=STEPS, tuning={"name": "head"}, privacy={"mechanism": MECHANISMS["gep"]})
    assert sordino.run(table, out=tmp_path / "run")["trained_parameters"] == 90


@pytest.mark.parametrize(
    ("directions", "expected"), [("each", [40, 40]), ("by-size", [10, 30])], ids=["each", "by-size"]
)
def test_groups_have_equal_directions_or_share_them_by_the_root_of_their_sizes(directions, expected):
    mechanism = Gep(public={"source": "digits"}, anchors=64, basis=40, groups=2, directions=directions)
    assert mechanism._bases([(0, 100), (100, 1000)]) == expected


def steps_on(net, own, *, z, releases, clip=0.5):
    return PoissonSteps(
        Private(own),
        dataclasses.replace(context(net), size=len(own)),
        mechanism=Gaussian(),
        permit=permit(z=z, bound=clip, releases=releases),
        clip=Clip(bound=clip, norm="l2"),
        rate=1.0,
        coins=SeededNoise(9),
        chunk=None,
    )


HEAD = ("head.weight", "head.bias")


def test_a_sum_in_some_parameters_is_clipped_and_noised_in_them_alone():
    net, own = build("mlp", shape=(1, 8, 8), classes=10, seed=2, hidden=[30]), digits(20)
    model = FlatSpace(net).read(net)
    exact = steps_on(net, own, z=0.0, releases=1).noisy_sum(model, only=HEAD)
    expected = ClippedGradients(net, trainable=HEAD).sum(own.features("cpu"), own.labels, clip_norm=0.5).total
    assert torch.equal(exact, expected)
    noisy = steps_on(net, own, z=2.0, releases=40)
    noise = torch.cat([noisy.noisy_sum(model, only=HEAD) - exact for _ in range(40)])
    count, scale = noise.numel(), 2.0 * 0.5
    assert count == 40 * 310
    assert abs(float(noise.square().mean()) / scale**2 - 1) < 5 * (2 / count) ** 0.5, "too much or too little"
    assert abs(float(noise.mean())) < 5 * scale / count**0.5


@pytest.mark.parametrize(
    "only", [(), ("tail.weight",), ("head.weight", "head.weight")], ids=["none", "unknown", "twice"]
)
def test_a_sum_in_parameters_that_are_not_trained_is_refused(only):
    net, own = build("mlp", shape=(1, 8, 8), classes=10, seed=2, hidden=[8]), digits(5)
    with pytest.raises(SordinoError, match="names of trained parameters, each once"):
        steps_on(net, own, z=0.0, releases=1).noisy_sum(FlatSpace(net).read(net), only=only)


def test_a_head_tuned_without_noise_lets_one_row_move_the_extractors_sum_past_its_clip():
    """The twin of centaur-steps that tunes heads for free. Twenty rows pull against twenty, and one more decides what the head becomes."""
    net, clip = build("mlp", shape=(1, 8, 8), classes=2, seed=2, hidden=[8]), 0.1
    space = FlatSpace(net)
    body = [name for name in space.names if name not in HEAD]
    alike = digits(1).take(torch.zeros(41, dtype=torch.int64))
    own = dataclasses.replace(alike, labels=torch.arange(41) % 2)
    fewer = own.take(torch.arange(40))

    def tuned(rows):
        head = list(net.head.parameters())
        for part in head:
            part.data.zero_()
        loss = torch.nn.functional.cross_entropy(net(rows.features("cpu")), rows.labels)
        for part, slope in zip(head, torch.autograd.grad(loss, head), strict=True):
            part.data.sub_(1000 * slope)
        return space.read(net)

    def extractor_sum(model, rows):
        return steps_on(net, rows, z=0.0, releases=1, clip=clip).noisy_sum(model, only=body)

    with_it, without = tuned(own), tuned(fewer)
    assert float((extractor_sum(with_it, own) - extractor_sum(without, fewer)).norm()) > 10 * clip
    assert float((extractor_sum(with_it, own) - extractor_sum(with_it, fewer)).norm()) <= clip * (1 + 1e-5)
