"""What a run would refuse, a plan refuses too: in one sentence that names the place, and before anything is written."""

import copy
import math
from typing import get_args, get_type_hints

import pytest

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.data.settings import SourceSettings
from sordino.engine.plan import make_plan
from sordino.engine.run import run_experiment
from sordino.experiment import DataSection, EngineSection, Experiment, PrivacySection, experiment, override
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.settings import field_names, validated
from sordino.tuning import TUNINGS

REFUSED = {
    "infinite clip": ("privacy.clip_norm=inf", r"In \[privacy\], clip_norm should be a finite number, but got inf"),
    "vanishing clip": ("privacy.clip_norm=1e-320", r"In \[privacy\], clip_norm should be greater than"),
    "infinite noise": ("privacy.noise_multiplier=inf", r"In \[privacy\], noise_multiplier should be a finite number"),
    "noise that is no number": ("privacy.noise_multiplier=nan", r"In \[privacy\], noise_multiplier should be a finite"),
    "nan deep inside": ("model.hidden=[8, nan]", r"In \[model\], hidden\[1\] should be a finite number, but got nan"),
    "epsilon true": ("privacy.epsilon=true", r"In \[privacy\], epsilon should be a valid number, but got True"),
    "infinite epsilon": ("privacy.epsilon=inf", r"In \[privacy\], epsilon should be a finite number"),
    "a word for a number": ("data.clients='8'", r"In \[data\], clients should be a valid integer, but got '8'"),
    "a date": ("rounds=2020-01-01", "At the top of the file, rounds should be a number, text"),
    "a name that leaves its folder": ("name='../x'", "At the top of the file, name should be usable as the name of a f"),
    "a name of nothing": ("name=''", "name should be usable as the name of a folder"),
    "the folder itself": ("name='.'", "name should be usable as the name of a folder"),
    "a name with a zero byte": ("name='a\\u0000'", "name should be usable"),
    "a name of control characters": ('name="a\\n"', "name should be usable as the name of a folder"),
    "a name without end": (f"name='{'x' * 300}'", "name should have at most 200 bytes"),
    "no source": ("data.source=''", r"In \[data\], source should be a name or a path, but got ''"),
    "a source with a zero byte": ('data.source="a\\u0000"', r"In \[data\], source should be a name or a path"),
    "a source without end": (f"data.source='{'x' * 5000}'", "looked for at 'xxx"),
    "a huge seed": ("seed=9223372036854775808", "seed should be an integer of at most 64 bits"),
    "a negative seed": ("seed=-1", "seed should be greater than or equal to 0"),
    "a section that is a number": ("privacy=3", "privacy should be a table of settings, but got 3"),
    "a section that is a list": ("data=[]", r"data should be a table of settings, but got \[\]"),
    "a list of tables": ("method=[{name='fedavg'}]", "method should be a table of settings"),
    "an unknown key in a table inside": ("method={name='fedceo', noisy_steps={step=1}}", r"setting in \[method.noisy_steps\]"),
    "a wrong value in a table inside": (
        "method={name='fedceo', noisy_steps={batch_size=true}}",
        r"In \[method.noisy_steps\], batch_size should be a valid integer or 'full' or 'auto', but got True",
    ),
    "a table without a name": ("tuning={}", r"\[tuning\] needs a name"),
    "a name that is a number": ("start={name=3}", r"\[start\] needs a name"),
    "a settings of the source in its options": ("data.options={source='x'}", r"In \[data.options\], source has no place"),
    "an unknown option": ("data.options={resiz=3}", r"setting in \[data.options\] called 'resiz'; did you mean 'resize'"),
    "an option out of range": ("data.options={resize=0}", r"In \[data.options\]: resize must be at least 1"),
    "more classes than can be": ("data.options={classes=1000000000}", r"In \[data.options\]: classes must be"),
    "images larger than memory": ("data.options={resize=10000}", "would take .* GB"),
    "means that fit no channel": ("data.options={mean=[0.1, 0.2]}", "mean lists 2 numbers"),
    "a class too few": ("data.options={classes=9}", "a label 9, outside 0 to 8"),
    "a public share of everything": ("data.options={public_share=1.0}", "public_share"),
    "no shard for a client": (
        "data.partition={name='shards', shards_per_client=0}",
        "shards_per_client must be at least 1",
    ),
    "a shortcut of no kind": ("model={name='resnet20', shortcuts='long'}", r"In \[model\], shortcuts should be"),
    "heads over nothing": (
        "method={name='dp-pfeddsu', head_extractor='none'}",
        r"In \[method\], head_extractor should be",
    ),
    "statistics over no step": ("method='dp-sgd';tuning={name='auto', iterations=0}", r"In \[tuning\], iterations should be"),
    "noise times nothing": ("tuning={name='auto', c2=0}", r"In \[tuning\], c2 should be greater than or equal to 1e-12, but got 0"),
    "noise times no number": ("tuning={name='auto', c2=inf}", r"In \[tuning\], c2 should be a finite number"),
    "a coefficient of no theorem": ("tuning={name='auto', coefficient='exact'}", r"In \[tuning\], coefficient should be"),
    "a loss that is a word": ("engine.training_loss='yes'", r"In \[engine\], training_loss should be a valid boolean"),
    "a split that leaves nothing": (
        "data.client_split={validation=0.5, test=0.5}",
        r"\[data\] client_split should leave rows to train on",
    ),
    "a split below nothing": ("data.client_split={validation=-0.1}", r"In \[data.client_split\], validation should be"),
    "momentum with nothing to keep": (
        "method={name='dp-sgd', lasting_momentum=true, momentum=0.0}",
        r"\[method\] lasting_momentum keeps the velocity of several local steps",
    ),
    "copies of no kind": ("method={name='fedceo', copies='public'};privacy.noise='local'", r"In \[method\], copies should be"),
    "copies that nobody has": (
        "method={name='fedceo', copies='next-turn', personal=false};privacy.noise='local'",
        r"got personal = false, where there are none",
    ),
    "an extractor of no kind": ("method={name='centaur', extractor='fixed'}", r"In \[method\], extractor should be"),
    "noisy steps that are none": ("method={name='ppsgd-steps', local_steps=0}", r"In \[method\], local_steps should be"),
    "heads without a step": ("method={name='centaur-steps', head_steps=-1}", r"In \[method\], head_steps should be"),
    "a border of no kind": (
        "start={name='standard', data={source='mnist5k', visibility='public'}};tuning={name='reprogram', border='noise'}",
        r"In \[tuning\], border should be 'zeros' or 'random'",
    ),
    "directions by no rule": (
        "privacy.mechanism={name='gep', public={source='digits'}, directions='all'}",
        "directions should be",
    ),
    "a partition that cannot be": ("data.partition={name='quantity', ratios=[1, 2, 3, 4, 5]}", "5 ratios cannot be repeated"),
    "a partition of too few rows": ("data.partition={name='dirichlet', min_examples=500}", "12 clients cannot each hold 500"),
    "a bare name of no partition": ("data.partition='iidd'", "no partitioner called 'iidd'; did you mean 'iid'"),
    "clients by no column": ("data.partition='column'", "set client_column"),
    "test rows of no class": (
        "data.client_test_rows=50;data.options={test_limit=2};data.partition='iid'",
        "the test split has none of it",
    ),
    "none left to train": ("data.late_clients=12", r"\[data\] late_clients = 12 leaves none"),
    "a device without memory": ("engine.device='meta'", "device 'meta' cannot be used here"),
    "a device of another machine": ("engine.device='hpu'", "device 'hpu' cannot be used here"),
    "an unknown sampler": ("privacy.sampler='poison'", "did you mean 'poisson'"),
    "a budget for too few": ("privacy={noise='local', client_epsilon=[1.0]}", r"\[privacy\] client_epsilon lists 1 budgets"),
    "more colluders than clients": ("privacy.colluders=13", r"\[privacy\] colluders = 13 is more than the 11 others"),
    "colluders with all shares": (
        "privacy.noise='distributed';privacy.sampler='fixed-size';privacy.colluders=4",
        r"\[privacy\] colluders = 4 would know all 4 noise shares",
    ),
    "clients that may not be counted": (
        "privacy.neighbours='add-remove'",
        r"neighbours = 'add-remove' would hide how many clients there are, but clients are drawn at a rate",
    ),
    "a divisor that is a count": (
        "privacy={neighbours='add-remove', sampler='everyone', noise='distributed', noise_multiplier=1.0}",
        "their sum is divided by a number, that is made of how many clients",
    ),
    "rows that may not be counted": (
        "method={name='dp-sgd', batch_size='full'};privacy.neighbours='add-remove'",
        "made of how many rows a client holds; set neighbours = 'zero-out', which hides all else of an example",
    ),
    "central noise on single uploads": ("method='fedceo'", "noise = 'central' leaves bare"),
    "layers of no model": (
        "method={name='fedceo', layers=['nowhere']};privacy.noise='local'",
        r"\[method\] layers = \['nowhere'\] names none",
    ),
    "a threshold beyond numbers": (
        "method={name='fedceo', growth=1e300, interval=1};privacy.noise='local';rounds=4",
        "too large for a number",
    ),
    "a model beyond memory": ("model.hidden=[1000000000000]", r"\[model\] does not fit into this machine's memory"),
    "a model of another shape": ("model={name='mlp', shape=3}", r"In \[model\], shape has no place"),
    "a start on private data": ("start={name='standard', data={source='mnist5k', visibility='private'}}", "marked public"),
    "a start on no data": ("start={name='standard', data={source='nowhere', visibility='public'}}", "no data set called 'nowhere'"),
    "a start on the private set itself": (
        "start={name='standard', data={source='digits', visibility='public'}}",
        "is the private set 'digits' again",
    ),
    "too few anchors": (
        "method='dp-sgd';privacy.mechanism={name='gep', anchors=99, public={source='mnist5k', visibility='public', limit=9}}",
        "asks for 99 anchors, but the public set 'mnist5k' has 9",
    ),
    "keys without end": ("a." * 2000 + "b=3", "section or setting called 'a'"),
    "tables without end": (f"model.x={'[' * 40}{']' * 40}", "tables or lists 16 deep"),
}  # fmt: skip


def changed(tiny, settings):
    """The tiny experiment with settings in TOML, `;` between them."""
    table = tiny(rounds=1)
    for setting in settings.split(";"):
        override(table, setting)
    return table


@pytest.mark.parametrize("mistake", REFUSED)
def test_plan_and_run_refuse_alike_and_leave_nothing(mistake, tiny, tmp_path):
    settings, words = REFUSED[mistake]
    out = tmp_path / "run"
    said = []
    for attempt in (make_plan, lambda checked: run_experiment(checked, out)):
        with pytest.raises(SordinoError, match=words) as error:
            attempt(experiment(changed(tiny, settings)))
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "\n" not in said[0] and len(said[0]) < 900 and "In []" not in said[0]
    assert not out.exists()


SECTIONS = {"": Experiment, "data": DataSection, "privacy": PrivacySection, "engine": EngineSection}
AXES = {
    "model": MODELS,
    "method": METHODS,
    "start": STARTS,
    "tuning": TUNINGS,
    "data.partition": PARTITIONERS,
    "privacy.mechanism": MECHANISMS,
}
KINDS = [
    *((where, kind) for where, kind in SECTIONS.items()),
    ("data.options", SourceSettings),
    *((where, member.build) for where, axis in AXES.items() for member in axis),
]


NEEDED = {
    "": {"rounds": 1, "data": {"source": "digits"}, "model": "mlp", "method": "fedavg"},
    "data": {"source": "digits"},
    "data.options": {"source": "digits", "visibility": "public"},
    "start": {"data": {"source": "digits", "visibility": "public"}, "path": "weights.safetensors"},
}


def numeric(kind):
    """Fields that take numbers and neither true nor text."""
    for name, hint in get_type_hints(kind).items():
        options = {hint, *get_args(hint)}
        if name in field_names(kind) and options & {int, float} and not options & {bool, str}:
            yield name


@pytest.mark.parametrize(("where", "kind"), KINDS, ids=lambda part: getattr(part, "__name__", part))
def test_no_number_anywhere_is_true_or_a_word_or_infinite(where, kind):
    needed = {key: value for key, value in NEEDED.get(where, {}).items() if key in field_names(kind)}
    for key in numeric(kind):
        for value in (True, False, "8", math.nan, math.inf, -math.inf):
            with pytest.raises(SordinoError) as error:
                validated(kind, {**needed, key: value}, where=where)
            place = f"In [{where}], {key} should be" if where else f"At the top of the file, {key} should be"
            assert str(error.value).startswith(place)


ANY_SIZE = {"epsilon", "expected_cohort", "scale", "growth", "head_rounds", "alpha"}
"""Numbers that are checked otherwise, or that no tensor is multiplied by."""


@pytest.mark.parametrize(("where", "kind"), KINDS, ids=lambda part: getattr(part, "__name__", part))
def test_no_number_that_tensors_are_multiplied_by_is_beyond_32_bit_floats(where, kind):
    needed = {key: value for key, value in NEEDED.get(where, {}).items() if key in field_names(kind)}
    for key in set(numeric(kind)) - ANY_SIZE:
        with pytest.raises(SordinoError, match=f"{key} (should be|must lie)"):
            validated(kind, {**needed, key: 1e39}, where=where)


def test_a_whole_number_may_stand_for_a_real_one_and_a_list_for_a_tuple(tiny):
    found = experiment(tiny(privacy={"noise_multiplier": 1, "client_epsilon": [1, 2.5]}))
    assert (found.privacy.noise_multiplier, found.privacy.client_epsilon) == (1.0, (1.0, 2.5))


BARE = {
    "method": "fedavg",
    "model": "logistic",
    "start": "scratch",
    "tuning": "head",
    "data.partition": "shards",
    "privacy.mechanism": "laplace",
}


@pytest.mark.parametrize("key", BARE)
def test_a_bare_name_stands_for_a_table_with_that_name(key, tiny):
    bare, table = tiny(), tiny()
    override(bare, f"{key}={BARE[key]}")
    override(table, f"{key}={{name='{BARE[key]}'}}")
    found = [make_plan(experiment(copy.deepcopy(one))).to_json() for one in (bare, table)]
    assert found[0] == found[1]


def test_settings_can_be_added_to_a_bare_name(tiny):
    table = {**tiny(), "method": "dp-sgd"}
    override(table, "method.local_steps=3")
    assert experiment(table).method == {"name": "dp-sgd", "local_steps": 3}


def test_the_largest_seed_runs(tiny, tmp_path):
    summary = run_experiment(experiment(tiny(rounds=1, seed=2**63 - 1)), tmp_path / "run")
    assert summary["rounds"] == 1
