"""All that parts from outside are written with, in one place; other modules may move, these names stay.

A part is a frozen dataclass whose fields are its settings. An experiment names it as `module:Class`, and finds the module on
Python's path or beside the experiment file:

    # my_method.py
    from dataclasses import dataclass
    from sordino.extend import Averaging, Positive

    @dataclass(frozen=True, kw_only=True)
    class MyMethod(Averaging):
        \"\"\"DP-FedAvg whose server takes longer steps.\"\"\"

        stretch: Positive = 1.5

        def round(self, number, state, federation):
            after = super().round(number, state, federation)
            return {**after, "model": state["model"] + self.stretch * (after["model"] - state["model"])}

    # experiment.toml
    [method]
    name = "my_method:MyMethod"
    stretch = 2.0

An installed package may also register it by a plain name, as an entry point in the group `sordino.methods` (or `tunings`,
`starts`, `mechanisms`, `samplers`, `models`, `partitioners`, `formats`). `pytest --pyargs sordino.testing --member
my_method:MyMethod` checks that a part keeps the contract of its axis. CONTRIBUTING.md has an example for every axis.
"""

from sordino.core import Bounded, Neighbours, Norm, Private, Released, SordinoError, Unit, View
from sordino.data.examples import Examples
from sordino.data.formats import FORMATS
from sordino.data.partition import PARTITIONERS, Labels, Partition, Partitioner, check_room, deal
from sordino.data.raw import Format, Raw, Split
from sordino.data.settings import SourceSettings
from sordino.gradients.sgd import Sgd
from sordino.methods import METHODS, Method
from sordino.methods.averaging import Averaging
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import (
    Broadcast,
    ClientContext,
    ClientJob,
    Federation,
    Job,
    NoisySteps,
    NoisyTurn,
    PersonalJob,
    PersonalSteps,
    PublicContext,
    State,
    StepRelease,
    Turn,
    Upload,
)
from sordino.methods.noisy_sgd import NoisySgd
from sordino.methods.personal import Personalised
from sordino.models import MODELS, Builder, Dropout, FlatSpace, Net, flatten
from sordino.models.assembly import seeded
from sordino.models.inputs import Inputs
from sordino.models.registry import require_at_least
from sordino.pretrain import STARTS, Start
from sordino.pretrain.start import StartContext, StartFacts
from sordino.privacy.clipping import Clip
from sordino.privacy.event_kinds import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from sordino.privacy.mechanisms import MECHANISMS, Draw, Gaussian, Laplace, Mechanism, Part, PublicExamples, RunShape
from sordino.privacy.noise import NoiseSource
from sordino.privacy.pricing import Uses
from sordino.privacy.samplers import SAMPLERS, CohortSampler
from sordino.privacy.streams import stream_id
from sordino.registry import Registry
from sordino.settings import AtLeastOne, Momentum, NotNegative, NotNegativeCount, Positive
from sordino.tuning import TUNINGS, Phase, Task, Tuning

__all__ = [
    "FORMATS",
    "MECHANISMS",
    "METHODS",
    "MODELS",
    "PARTITIONERS",
    "SAMPLERS",
    "STARTS",
    "TUNINGS",
    "AtLeastOne",
    "Averaging",
    "Bounded",
    "Broadcast",
    "Builder",
    "ClientContext",
    "ClientJob",
    "Clip",
    "CohortSampler",
    "ComposedDpEvent",
    "DpEvent",
    "Draw",
    "Dropout",
    "Examples",
    "Federation",
    "FlatSpace",
    "Format",
    "Gaussian",
    "GaussianDpEvent",
    "Inputs",
    "Job",
    "Labels",
    "Laplace",
    "LaplaceDpEvent",
    "LocalSgd",
    "Mechanism",
    "Method",
    "Momentum",
    "Neighbours",
    "Net",
    "NoOpDpEvent",
    "NoiseSource",
    "NoisySgd",
    "NoisySteps",
    "NoisyTurn",
    "NonPrivateDpEvent",
    "Norm",
    "NotNegative",
    "NotNegativeCount",
    "Part",
    "Partition",
    "Partitioner",
    "PersonalJob",
    "PersonalSteps",
    "Personalised",
    "Phase",
    "PoissonSampledDpEvent",
    "Positive",
    "Private",
    "PublicContext",
    "PublicExamples",
    "Raw",
    "Registry",
    "Released",
    "RunShape",
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "Sgd",
    "SordinoError",
    "SourceSettings",
    "Split",
    "Start",
    "StartContext",
    "StartFacts",
    "State",
    "StepRelease",
    "Task",
    "Tuning",
    "Turn",
    "Unit",
    "Upload",
    "Uses",
    "View",
    "check_room",
    "deal",
    "flatten",
    "require_at_least",
    "seeded",
    "stream_id",
]
