# ruff: noqa: E501 (a case is easiest to read on one line)
"""Wrong experiment files, as people write them: each is refused by its plan with one sentence that says where and what to do."""

import copy

import pytest

from sordino.core import SordinoError
from sordino.data.settings import SourceSettings
from sordino.engine.plan import make_plan
from sordino.experiment import ELSEWHERE, experiment, override
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.settings import field_names

GOOD = {
    "name": "good",
    "rounds": 3,
    "data": {"source": "digits", "clients": 4},
    "model": {"name": "mlp", "hidden": [8]},
    "method": {"name": "dp-sgd"},
    "privacy": {"epsilon": 3.0, "delta": 1e-3},
}

WRONG = {
    "a source's setting in [data]": (
        ['data.label_column="y"'],
        "In [data], label_column has no place, because it belongs into [data.options]; move it there.",
    ),
    "a method's setting at the top": (
        ["learning_rate=0.1"],
        "At the top of the file, learning_rate has no place, because it belongs into [method]; move it there.",
    ),
    "a promise at the top": (
        ["epsilon=3.0"],
        "At the top of the file, epsilon has no place, because it belongs into [privacy]; move it there.",
    ),
    "rounds of a section": (
        ["engine.rounds=3"],
        "In [engine], rounds has no place, because it belongs to the top of the file, above all sections; move it there.",
    ),
    "cases of a sweep": (
        ['case=[{method="fedavg"}]'],
        "[[case]] tables are settings that `sordino sweep` tries beside each other, but got them where one run is described; use `sordino sweep`",
    ),
    "method in capitals": (['method="DP-SGD"'], "There is no method called 'DP-SGD'; did you mean 'dp-sgd'?"),
    "source elsewhere on the net": (
        ['data.source="https://example.org/t.csv"'],
        "[data] source 'https://example.org/t.csv' is an address, and nothing is fetched; save the file, and name its path.",
    ),
    "every other client colludes, and one more": (
        ["privacy.colluders=4", 'method="dp-fedavg"', 'privacy.noise="distributed"', "privacy.expected_cohort=4"],
        "[privacy] colluders = 4 is more than the 3 others that a client has among the 4 that train; lower it.",
    ),
    "a border around a random source": (
        [
            'tuning={name="reprogram", frame=12, image=8, source_classes=10}',
            'model={name="cnn", features=8}',
            "data.options.channels=3",
        ],
        "[tuning] name = 'reprogram' trains a border around a source model that stays as it is, and without [start] that is random; name what it is trained on",
    ),
    "method misspelt": (['method="dp-sdg"'], "There is no method called 'dp-sdg'; did you mean 'dp-sgd'?"),
    "method of another axis": (
        ['method="mlp"'],
        "There is no method called 'mlp'; choose one of ",
    ),
    "method is a number": (["method=3"], "At the top of the file, method should be a table of settings, but got 3."),
    "method key misspelt": (
        ['method={name="dp-sgd", learning_rat=0.1}'],
        "There is no setting in [method] called 'learning_rat'; did you mean 'learning_rate'?",
    ),
    "learning rate in words": (
        ['method={name="dp-sgd", learning_rate="fast"}'],
        "In [method], learning_rate should be a valid number or 'auto', but got 'fast'.",
    ),
    "learning rate zero": (
        ['method={name="dp-sgd", learning_rate=0}'],
        "In [method], learning_rate should be greater than 0 or 'auto', but got 0.",
    ),
    "negative learning rate": (
        ['method={name="dp-sgd", learning_rate=-0.1}'],
        "In [method], learning_rate should be greater than 0 or 'auto', but got -0.1.",
    ),
    "batch zero": (
        ['method={name="dp-sgd", batch_size=0}'],
        "In [method], batch_size should be greater than or equal to 1 or 'full' or 'auto', but got 0.",
    ),
    "batch in words": (
        ['method={name="dp-sgd", batch_size="all"}'],
        "In [method], batch_size should be a valid integer or 'full' or 'auto', but got 'all'.",
    ),
    "batch a share": (
        ['method={name="dp-sgd", batch_size=0.5}'],
        "In [method], batch_size should be a valid integer or 'full' or 'auto', but got 0.5.",
    ),
    "share above one": (
        ['method={name="dp-sgd", batch_share=1.5}'],
        "In [method], batch_share should be less than or equal to 1, but got 1.5.",
    ),
    "share of nothing": (
        ['method={name="dp-sgd", batch_share=0}'],
        "In [method], batch_share should be greater than 0, but got 0.",
    ),
    "decay of nothing": (
        ['method={name="dp-sgd", decay_rounds=0}'],
        "In [method], decay_rounds should be greater than or equal to 1, but got 0.",
    ),
    "momentum of one": (
        ['method={name="dp-sgd", momentum=1.0}'],
        "In [method], momentum should be less than 1, but got 1.0.",
    ),
    "steps a fraction": (
        ['method={name="dp-sgd", local_steps=1.5}'],
        "In [method], local_steps should be a valid integer, but got 1.5.",
    ),
    "where is nowhere": (
        ['method={name="dp-sgd", where="cloud"}'],
        "In [method], where should be 'one-place' or 'clients', but got 'cloud'.",
    ),
    "model misspelt": (['model="mpl"'], "There is no model called 'mpl'; did you mean 'mlp'?"),
    "model layer words": (
        ['model={name="mlp", hidden=["a"]}'],
        "In [model], hidden[0] should be a valid integer, but got 'a'.",
    ),
    "model layer zero": (
        ['model={name="mlp", hidden=[0]}'],
        "[model] hidden[0] must be at least 1, but got 0; choose a larger one.",
    ),
    "hidden is a number": (['model={name="mlp", hidden=32}'], "In [model], hidden should be a list, but got 32."),
    "model for text on numbers": (
        ['model="lstm"'],
        "Model 'lstm' needs text, but the data are examples of shape 1x8x8; choose 'cnn'.",
    ),
    "tuning misspelt": (['tuning="haed"'], "There is no tuning called 'haed'; did you mean 'head'?"),
    "start misspelt": (['start="scrath"'], "There is no start called 'scrath'; did you mean 'scratch'?"),
    "partition misspelt": (
        ['data.partition="dirichlett"'],
        "There is no partitioner called 'dirichlett'; did you mean 'dirichlet'?",
    ),
    "alpha zero": (
        ['data.partition={name="dirichlet", alpha=0}'],
        "In [data.partition]: alpha must be a number above zero, not 0.0.",
    ),
    "alpha in words": (
        ['data.partition={name="dirichlet", alpha="low"}'],
        "In [data.partition], alpha should be a valid number, but got 'low'.",
    ),
    "clients zero": (["data.clients=0"], "In [data], clients should be greater than or equal to 1, but got 0."),
    "clients a fraction": (["data.clients=2.5"], "In [data], clients should be a valid integer, but got 2.5."),
    "more clients than rows": (
        ["data.clients=100000"],
        "100000 clients cannot each hold one example out of 1438; use fewer clients or more data.",
    ),
    "clients in words": (['data.clients="five"'], "In [data], clients should be a valid integer, but got 'five'."),
    "rounds missing": (["-rounds"], "The experiment needs rounds, which is missing; add it to the file."),
    "rounds zero": (["rounds=0"], "At the top of the file, rounds should be greater than or equal to 1, but got 0."),
    "rounds a fraction": (["rounds=2.5"], "At the top of the file, rounds should be a valid integer, but got 2.5."),
    "rounds a word": (['rounds="ten"'], "At the top of the file, rounds should be a valid integer, but got 'ten'."),
    "no data": (["-data"], "The experiment needs data, which is missing; add it to the file."),
    "no model": (["-model"], "The experiment needs model, which is missing; add it to the file."),
    "no method": (["-method"], "The experiment needs method, which is missing; add it to the file."),
    "no source": (["-data.source"], "[data] needs source, which is missing; add it to the file."),
    "source not there": (['data.source="nowhere.csv"'], "check the path, or put it into"),
    "source misspelt": (['data.source="digit"'], "There is no data set called 'digit'; did you mean 'digits'?"),
    "visibility misspelt": (
        ['data.visibility="secret"'],
        "In [data], visibility should be 'public' or 'private', but got 'secret'.",
    ),
    "epsilon zero": (["privacy.epsilon=0"], "In [privacy], epsilon should be greater than 0, but got 0."),
    "epsilon negative": (["privacy.epsilon=-1"], "In [privacy], epsilon should be greater than 0, but got -1."),
    "epsilon in words": (
        ['privacy.epsilon="three"'],
        "In [privacy], epsilon should be a valid number, but got 'three'.",
    ),
    "epsilon and noise": (
        ["privacy.noise_multiplier=1.0"],
        "[privacy] takes epsilon or noise_multiplier, but got both; keep the one you mean and let `sordino plan` work out the other.",
    ),
    "neither epsilon nor noise": (
        ["-privacy.epsilon"],
        "[privacy] needs epsilon (the target) or noise_multiplier, but got neither; set one, or choose method 'fedavg' for no privacy.",
    ),
    "delta one": (["privacy.delta=1"], "In [privacy], delta should be less than 1, but got 1."),
    "delta negative": (
        ["privacy.delta=-1e-5"],
        "In [privacy], delta should be greater than or equal to 0, but got -1e-05.",
    ),
    "view misspelt": (
        ['privacy.view="sever"'],
        "In [privacy], view should be 'public', 'server' or 'client', but got 'sever'.",
    ),
    "neighbours misspelt": (
        ['privacy.neighbours="replace"'],
        "In [privacy], neighbours should be 'zero-out', 'add-remove' or 'replace-one', but got 'replace'.",
    ),
    "neighbours that are refused": (
        ['privacy.neighbours="add-remove"'],
        "[privacy] neighbours = 'add-remove' would hide how many examples there are, but batches are drawn at a rate",
    ),
    "mechanism misspelt": (
        ['privacy.mechanism="gausian"'],
        "There is no mechanism called 'gausian'; did you mean 'gaussian'?",
    ),
    "mechanism key misspelt": (
        ['privacy.mechanism={name="noise-schedule", decy=0.1}'],
        "There is no setting in [privacy.mechanism] called 'decy'; did you mean 'decay'?",
    ),
    "noise misspelt": (
        ['privacy.noise="locl"'],
        "In [privacy], noise should be 'central', 'distributed' or 'local', but got 'locl'.",
    ),
    "clip zero": (
        ["privacy.clip_norm=0"],
        "In [privacy], clip_norm should be greater than or equal to 1e-12, but got 0.",
    ),
    "sampler misspelt": (
        ['privacy.sampler="possion"'],
        "There is no sampler called 'possion'; did you mean 'poisson'?",
    ),
    "cohort zero": (
        ["privacy.expected_cohort=0"],
        "In [privacy], expected_cohort should be greater than 0, but got 0.",
    ),
    "cohort larger than the roster": (
        ["privacy.expected_cohort=50"],
        "[privacy] expected_cohort asks for 50, but at most 4 clients can be drawn in a round; lower expected_cohort or add clients.",
    ),
    "cap zero": (
        ["privacy.participation_cap=0"],
        "In [privacy], participation_cap should be greater than or equal to 1, but got 0.",
    ),
    "budgets too few": (
        ["privacy.client_epsilon=[1.0, 2.0]"],
        "[privacy] client_epsilon lists 2 budgets, but there are 4 clients; give one for each.",
    ),
    "a budget of zero": (
        ["privacy.client_epsilon=[1.0, 2.0, 0.0, 1.0]"],
        "In [privacy], client_epsilon needs every client's ε above zero, but got [1.0, 2.0, 0.0, 1.0].",
    ),
    "budgets in words": (
        ['privacy.client_epsilon="same"'],
        "In [privacy], client_epsilon should be a list or 'equal', but got 'same'.",
    ),
    "equal without epsilon": (
        ["-privacy.epsilon", "privacy.noise_multiplier=1.0", 'privacy.client_epsilon="equal"'],
        "[privacy] client_epsilon = 'equal' shares out epsilon, but got none; set [privacy] epsilon.",
    ),
    "noise source misspelt": (
        ['privacy.noise_source="safe"'],
        "In [privacy], noise_source should be 'seeded' or 'secure', but got 'safe'.",
    ),
    "secure without public test": (
        ['privacy.noise_source="secure"'],
        "[data] source 'digits' has no test split of its own, and a secure run does not make private rows a public one",
    ),
    "privacy key misspelt": (
        ["privacy.epsilom=3"],
        "There is no setting in [privacy] called 'epsilom'; did you mean 'epsilon'?",
    ),
    "engine misspelt": (
        ['engine.name="simulated"'],
        "In [engine], name should be 'simulate'",
    ),
    "device not there": (
        ['engine.device="cuda:7"'],
        "The device 'cuda:7' cannot be used here (Torch not compiled with CUDA enabled); set [engine] device = 'cpu'.",
    ),
    "workers negative": (
        ["engine.workers=-1"],
        "In [engine], workers should be greater than or equal to 0, but got -1.",
    ),
    "engine key misspelt": (
        ["engine.worker=2"],
        "There is no setting in [engine] called 'worker'; did you mean 'workers'?",
    ),
    "dropout one": (["clients.dropout=1.0"], "In [clients], dropout should be less than 1, but got 1.0."),
    "dropout negative": (
        ["clients.dropout=-0.1"],
        "In [clients], dropout should be greater than or equal to 0, but got -0.1.",
    ),
    "dropout in words": (['clients.dropout="some"'], "In [clients], dropout should be a valid number, but got 'some'."),
    "clients key misspelt": (
        ["clients.drop=0.1"],
        "There is no setting in [clients] called 'drop'; did you mean 'dropout'?",
    ),
    "dropout of real clients": (
        ["clients.dropout=0.1", 'engine.name="process"'],
        "[clients] dropout and slow make up absences in simulations, but [engine] name is 'process', where clients are real; leave them out.",
    ),
    "section misspelt": (
        ["privcy={epsilon=3}"],
        "There is no section or setting called 'privcy'; did you mean 'privacy'?",
    ),
    "late clients all": (
        ["data.late_clients=4"],
        "[data] late_clients = 4 leaves none of the 4 clients to train; lower it.",
    ),
    "test that is nothing": (
        ['data.test="some"'],
        '[data] test should be "public-split", a table with the source of public test rows, or { name = "charged",',
    ),
    "test source not there": (['data.test={source="gone.csv"}'], "check the path, or put it into"),
    "test key misspelt": (
        ['data.test={source="digits", limt=3}'],
        "There is no setting in [data.test] called 'limt'; did you mean 'limit'?",
    ),
    "option misspelt": (
        ['data.options={labelcolumn="x"}'],
        "There is no setting in [data.options] called 'labelcolumn'; did you mean 'label_column'?",
    ),
    "seed in words": (['seed="lucky"'], "At the top of the file, seed should be a valid integer, but got 'lucky'."),
    "name with a slash": (
        ['name="a/b"'],
        "At the top of the file, name should be usable as the name of a folder: printable, not '.' or '..', and without / and \\, but got 'a/b'.",
    ),
    "charged without epsilon": (
        ['data.test={name="charged"}'],
        "[data.test] needs epsilon, which is missing; add it to the file.",
    ),
    "spare rounds negative": (
        ["privacy.spare_rounds=-1"],
        "In [privacy], spare_rounds should be greater than or equal to 0, but got -1.",
    ),
    "server view of central noise": (
        ['method="dp-fedavg"', 'privacy.view="server"'],
        "No noise can reach ε = 3 in the server view, because the server sees the sum before it adds the noise; choose another [privacy] view or noise.",
    ),
    "fedceo steps left open": (
        ['method={name="fedceo", noisy_steps={learning_rate="auto"}}'],
        "In [method]: learning_rate should be a number here, but got 'auto', which method 'dp-sgd' alone works out; give a number.",
    ),
    "fedceo momentum idle": (
        ['method={name="fedceo", noisy_steps={momentum=0.5}}'],
        "[method.noisy_steps] momentum acts from one local step to the next, but got momentum = 0.5 with local_steps =",
    ),
    "head of a personal method": (
        ['method="centaur"', 'tuning="head"'],
        "The head stays with its client and is all that would be trained, so nothing would be shared; choose a model",
    ),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_settings_that_belong_elsewhere_are_settings_there(where):
    kinds = {
        "data.options": [SourceSettings],
        "method": [one.build for one in METHODS],
        "model": [one.build for one in MODELS],
    }
    known = {name for kind in kinds[where] for name in field_names(kind)}
    assert set(ELSEWHERE[where]) <= known


def test_an_empty_list_of_cases_is_none():
    assert experiment({**GOOD, "case": []}) == experiment(GOOD)


def changed(steps):
    """The good experiment with settings changed by KEY=VALUE, or left out by -KEY."""
    table = copy.deepcopy(GOOD)
    for step in steps:
        if not step.startswith("-"):
            override(table, step)
            continue
        *outer, last = step[1:].split(".")
        inner = table
        for key in outer:
            inner = inner[key]
        del inner[last]
    return table


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused_with_a_sentence_that_helps(case):
    steps, words = WRONG[case]
    with pytest.raises(SordinoError) as refused:
        make_plan(experiment(changed(steps)))
    said = str(refused.value)
    assert words in said and "\n" not in said and said[-1] in ".?" and not said[0].islower()


def test_the_good_one_is_taken_and_there_are_two_hundred_wrong_ones():
    """With those of tables, settings and objects, which have tests of their own."""
    from tests.data.test_bad_tables import SETTINGS, TABLES
    from tests.library.test_library import WRONG as OBJECTS
    from tests.test_bad_experiments import REFUSED

    assert make_plan(experiment(GOOD)).epsilon["public"].epsilon <= 3.0
    assert len(WRONG) + len(SETTINGS) + len(TABLES) + len(OBJECTS) + len(REFUSED) >= 200
