"""What `make test` does not do word by word of what pages say, and why. `python -m torture pages` does all of it but what is in NOT_RUN.

A command that is on a page and neither followed nor listed here fails tests/test_page_commands.py.
"""

from __future__ import annotations

SMALL = "--set rounds=1 --set start.epochs=1 --set data.clients=10 --set privacy.expected_cohort=4"

FOLLOWED = {
    "README.md": "tests/test_docs.py",
    "docs/comparing.md": "tests/test_docs.py",
    "docs/library.md": "tests/test_docs.py",
    "docs/own-loop.md": "tests/test_docs.py",
    "docs/mechanisms/correlated-noise.md": "tests/test_docs.py",
    "examples/extensions/README.md": "tests/test_docs.py",
    "docs/data.md": "tests/test_walk_hospital.py",
    "docs/deployment.md": "tests/test_walk_deployment.py",
    "CONTRIBUTING.md": "tests/test_contributing.py",
}
"""Pages whose blocks of commands are run from top to bottom, and by what."""

NAMES = {"README.md": {"FILE": "examples/quickstart.toml", "DIR": "runs/quickstart", "ROWS": "rows.npz"}}
"""What capital letters on a page stand for."""

CUT = {
    "README.md": {
        "sordino run examples/quickstart.toml": SMALL,
        "sordino sweep examples/quickstart.toml --over privacy.epsilon=2,4,8 --seeds 3 --jobs 2": f"--seeds 1 --jobs 1 {SMALL}",
        "sordino recommend FILE --epsilon 2": f"--seconds 1 {SMALL}",
        "sordino pretrain FILE": "--set start.epochs=1",
    },
    "docs/comparing.md": {
        "sordino sweep methods.toml --over privacy.epsilon=2,8 --seeds 3 --jobs 2": "--seeds 2 --jobs 1 --set rounds=3",
        "sordino recommend methods.toml --set method=dp-fedavg --epsilon 4 --proxy digits --seconds 1 "
        "--set data.source=mine.csv": "--set rounds=3",
        "sordino sweep methods.toml --over privacy.epsilon=2 --set case=[] --set method=dp-fedavg --over method.epochs=1,2,4 "
        "--choose logarithmic --expected-runs 3 --out sweeps/chosen": "--set rounds=3",
    },
    "docs/mechanisms/correlated-noise.md": {
        "sordino sweep examples/correlated-noise/turns.toml --over privacy.mechanism=gaussian,banded --over privacy.epsilon=1,2,4,8 "
        "--over privacy.clip_norm=0.05,0.1,0.3 --seeds 3": "--over privacy.epsilon=4 --over privacy.clip_norm=0.1 --seeds 1 "
        "--set rounds=4 --set data.clients=40 --set privacy.participation_cap=2",
        "sordino sweep examples/correlated-noise/sampled.toml --over privacy.epsilon=1 --seeds 3": "--seeds 1 --set rounds=2 "
        "--set data.clients=80",
        "sordino sweep examples/correlated-noise/sampled.toml --set privacy.mechanism=banded --over privacy.participation_cap=50,10 "
        "--over privacy.epsilon=1 --seeds 3": "--over privacy.participation_cap=2,1 --seeds 1 --set rounds=4 --set data.clients=80 "
        "--set privacy.expected_cohort=10",
    },
    "examples/extensions/README.md": {"sordino run examples/extensions/decaying.toml": "--set rounds=3"},
}
"""By page and command: options that make it short. Of two that say the same, the last one counts."""

WHOLE_ONLY = {
    "README.md": {
        "sordino audit examples/quickstart.toml": "minutes; tests/audit/test_auditing.py calls it on a small file",
        "sordino attack runs/quickstart": "a minute; tests/audit/test_attacks.py calls it on a small run",
        "sordino federate examples/federation.toml": "starts seven processes; tests/federation has a federation that is started once",
    },
    "examples/extensions/README.md": {
        "cd examples/extensions": "for the next line",
        "pytest --pyargs sordino.testing --member decaying:Decaying": "tests/test_contributing.py runs the same checks",
    },
}
"""By page and command: what only `python -m torture pages` does, and what stands for it in `make test`."""

FEW = "--set rounds=1 --set data.clients=4"
FEDCEO = f"{FEW} --set method.epochs=1 --set privacy.expected_cohort=2"
STEP = "--set rounds=1 --set model=lenet5 --set start.epochs=1 --set method.local_steps=2 --set method.batch_size=8"
COLD = f"{STEP} --set start.warmup_epochs=0"
QUICK = "--iterations 1 --shadows 1 --epochs 1 --batch 1"
START = "\"start={name='standard',epochs=1,data={source='mnist5k',visibility='public',resize=8,limit=200}}\""

IN_SHORT = {
    "docs/audits.md": {
        "sordino audit experiment.toml --budget 5m": "--budget 1s",
        "sordino audit runs/NAME": "--budget 1s",
        "sordino audit runs/NAME --publish": "--budget 1s",
        "sordino audit experiment.toml --final-model": "--budget 1s",
        "sordino attack runs/NAME": f"{QUICK} --no-inversion",
        "sordino attack experiment.toml": QUICK,
        "sordino attack examples/attacks/dlg-fedceo.toml --no-membership --batch 1": QUICK,
    },
    "docs/run-record.md": {"sordino show DIR --verify": "", "sordino pretrain FILE": f"--set {START}"},
    "docs/design.md": {"sordino methods NAME": ""},
    "docs/comparing.md": {
        "sordino sweep FILE --over method.learning_rate=0.03,0.1,0.3 --choose RULE --expected-runs 5": "--expected-runs 2",
    },
    "docs/studies/README.md": {
        "sordino sweep examples/fedceo/cifar10-lenet5-iid-z2.toml --over method.interval=10,15,20,25,30": f"{FEDCEO} "
        "--over method.interval=1",
        "sordino run examples/fedceo/cifar10-mlp-iid-z1.toml": FEDCEO,
        "sordino run examples/fedceo/cifar10-alexnet-iid-z1.toml": f"{FEDCEO} --set model=lenet5",
        "sordino report DIR": "",
        "sordino robustness DIR": "",
        "sordino sweep examples/personalised/table2-cifar10-s2.toml": f"{FEW} --set data.clients=5 "
        "--set model=lenet5 --set method.epochs=1 --set method.head_epochs=1",
        "sordino plan examples/reprogramming/cifar10-iid-mr.toml": "--set start=scratch --no-trial",
        "sordino sweep examples/reprogramming/cifar10-iid-mr.toml --over data.clients=3,5,10,20": "--over data.clients=2 "
        "--set rounds=1 --set start=scratch --set model=lenet5 --set tuning.frame=32 --set tuning.image=28 "
        "--set tuning.source_classes=10 --set method.batch_size=8",
        "sordino sweep examples/dpadapter/cifar10-from-standard.toml": STEP,
        "sordino sweep examples/dpadapter/cifar10-public-part.toml --over start.perturbation_radius=0.0,0.5,1.0,2.0,4.0": f"{COLD} "
        "--over start.perturbation_radius=0.5",
        "sordino sweep examples/dpadapter/cifar10-from-sam.toml --over start.batch_size=25,50,100,200": f"{COLD} "
        "--over start.batch_size=50",
        "sordino sweep examples/pretrain-dpfl/cifar10-resnet20-gaussian.toml": "--set rounds=1 --set start.epochs=1 "
        "--set data.clients=2 --set model=lenet5",
    },
    "docs/studies/personalised.md": {
        "sordino plan examples/personalised/table2-cifar10-s5.toml --set engine.workers=1": f"{FEW} --set data.clients=5 "
        "--set model=lenet5 --no-trial",
    },
    "docs/studies/small/reprogramming.md": {
        "sordino pretrain examples/reprogramming/cifar10-small-source.toml --out DIR/source --set model.name=cnn "
        "--set start.epochs=6": "--set start.epochs=1",
    },
}
"""By page and command: options that make a command short that stands in a table or a sentence; tests/test_pages_in_short.py runs each
beside a small experiment and its run, with small stand-ins for data sets."""

AT_NODES = (
    "the same command as on docs/deployment.md, with other names; tests/test_walk_deployment.py follows that page"
)
SETS_UP = "changes the machine it is on, or sets one up; done by hand with each wheel"
MAKE = "calls what other lines of the Makefile and the tests do; tests/test_page_commands.py checks that it is there"
HOURS = "minutes to hours; done by hand, and the page tells what came out"
PATTERN = "a form of a command, which has gaps to fill; its words are checked"

NOT_RUN = [
    ("*", "make *", MAKE),
    ("*", "pip install *", SETS_UP),
    ("*", "python -m benchmarks*", HOURS),
    ("*", "python -m torture*", HOURS),
    ("docs/index.md", "*", SETS_UP),
    ("README.md", ". .venv/bin/activate", SETS_UP),
    ("README.md", "sordino serve consortium", AT_NODES),
    ("README.md", "sordino preflight KIT *", AT_NODES),
    ("README.md", "sordino node KIT *", AT_NODES),
    ("README.md", "sordino reconcile *", AT_NODES),
    ("*", "pytest --pyargs sordino.testing --member my_method:MyMethod", "tests/test_contributing.py runs it"),
    ("CONTRIBUTING.md", "python my_method.py", "a comparison, nothing to type"),
    ("CONTRIBUTING.md", "sordino run folder/experiment.toml", PATTERN),
    ("docs/audits.md", "sordino audit --self-test", "three minutes; tests/audit/test_self_test.py tries each part of it"),
    ("docs/audits.md", "sordino audit --all *", "minutes; tests/audit/test_promises_hold.py audits these experiments"),
    ("docs/audits.md", "sordino attack --all *", "minutes; tests/audit/test_attack_every_method.py attacks such runs"),
    ("docs/audits.md", "sordino attack overfitted.toml *", "tests/audit/test_attacks.py attacks such a run"),
    ("docs/audits.md", "python make_data.py", "tests/audit/test_attacks.py makes rows of the same kind"),
    ("docs/*", "sordino * FILE*", PATTERN),
    ("docs/*", "sordino * DIR*", PATTERN),
    ("docs/*", "sordino * NAME", PATTERN),
    ("docs/faq.md", "sordino plan --json", PATTERN),
    ("docs/data.md", "sordino sweep hospital/hospital.toml *", HOURS),
    ("docs/decisions/client-runtime.md", "*", "a measurement of two former trees"),
    ("docs/design.md", "python tests/walk.py run my.toml --out runs/walk", "tests/test_design.py walks so"),
    ("docs/performance.md", 'python -c "import torch"', "what is timed, nothing to type"),
    ("docs/studies/README.md", "sordino attack examples/attacks/dlg-fedceo.toml", "as on docs/audits.md; tests/test_pages_in_short.py"),
    ("docs/studies/headline.md", "sordino run examples/reprogramming/headline.toml *", HOURS),
]  # fmt: skip
"""Pages and commands as patterns, and why nobody runs them for you."""
