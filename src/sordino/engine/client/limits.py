"""What the operator of a client allows, whoever asks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sordino.core import SordinoError, View
from sordino.experiment import MEMBERS
from sordino.nodes.kit import read_toml
from sordino.privacy.pricing import Placement
from sordino.sentences import listed
from sordino.settings import NotNegative, Positive, validated

NAMES = {"name", "sampler", *MEMBERS}
"""Keys of an experiment under which a part is named."""
PLACEMENTS: tuple[Placement, ...] = ("central", "distributed", "local")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The settings of a client's `limits.toml`. What is left out is allowed, except for code that a plan names.

    Example:
        >>> Limits(lifetime_epsilon={"public": 8.0}, central=False)
    """

    lifetime_epsilon: Mapping[View, Positive] = field(default_factory=dict)
    """The largest ε over all runs and servers, by view."""
    lifetime_delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The δ at which all runs are added up; without one, the smallest δ that any of them promised."""
    run_epsilon: Mapping[View, Positive] = field(default_factory=dict)
    """The largest ε of one run, by view."""
    least_noise: NotNegative = 0.0
    """The least noise multiplier of anything that this client releases itself."""
    methods: tuple[str, ...] = ()
    """The methods that may run here; none means any."""
    placements: tuple[Placement, ...] = PLACEMENTS
    """Where noise may be drawn."""
    central: bool = True
    """Whether values may leave bounded and without noise, for a server that adds it."""
    outside_parts: tuple[str, ...] = ()
    """The `module:Class` parts that a plan may name; none means none. Checked before anything of them is imported."""

    def check_parts(self, experiment: Mapping[str, Any]) -> None:
        """Refuse a plan that names code which the operator has not allowed; nothing has been imported yet."""
        for part in named_parts(experiment):
            if part not in self.outside_parts:
                allowed = listed(self.outside_parts) or "none"
                raise SordinoError(
                    f"This client's limits allow {allowed} of the parts that are named as module:Class, but the plan names {part!r}, which "
                    "would run code here; ask its operator to read that code and put it into outside_parts."
                )

    def check_method(self, name: str, placement: Placement) -> None:
        if self.methods and name not in self.methods:
            raise SordinoError(
                f"This client's limits allow the methods {', '.join(self.methods)}, but the plan uses {name!r}; ask its operator."
            )
        if placement == "central" and not self.central:
            raise SordinoError(
                "This client's limits allow no noise = 'central', which hands its update to the server without noise; set [privacy] "
                "noise = 'local' or 'distributed'."
            )
        if placement not in self.placements:
            raise SordinoError(
                f"This client's limits allow noise = {' or '.join(map(repr, self.placements)) or 'none at all'}, but the plan has "
                f"{placement!r}; set [privacy] noise, or ask its operator."
            )

    def check_noise(self, noise_multiplier: float, *, server_noises: bool) -> None:
        if server_noises and not self.central:
            raise SordinoError("This client's limits allow no value to leave without noise of its own.")
        if not server_noises and noise_multiplier < self.least_noise:
            raise SordinoError(
                f"This client's limits ask for a noise multiplier of at least {self.least_noise:g}, but the request has "
                f"{noise_multiplier:g}."
            )

    def check_planned_noise(self, noise_multiplier: float, placement: Placement) -> None:
        """The same for a plan as a whole, so that a run is refused before it begins and not in its first round."""
        if placement != "central" and noise_multiplier < self.least_noise:
            raise SordinoError(
                f"This client's limits ask for a noise multiplier of at least {self.least_noise:g} on everything it releases, but the plan "
                f"has {noise_multiplier:.4g}; plan with more noise, or ask its operator."
            )

    def check_epsilon(self, view: View, *, run: float, lifetime: float) -> None:
        """Refuse what a plan would cost in one view, alone and together with all that was paid before."""
        for allowed, found, what in (
            (self.run_epsilon, run, "of one run"),
            (self.lifetime_epsilon, lifetime, "over all runs"),
        ):
            if found > allowed.get(view, math.inf):
                raise SordinoError(
                    f"This client's limits allow ε = {allowed[view]:g} {what} in the {view} view, but the plan comes to {found:.4g}; ask "
                    "its operator, or plan with more noise or fewer rounds."
                )


def read_limits(path: Path) -> Limits:
    """The limits in a node's file; whatever is wrong there is one sentence, and there is no node without limits."""
    return validated(Limits, read_toml(path), where=path.name)


def named_parts(table: Mapping[str, Any]) -> Iterator[str]:
    """Every `module:Class` that an experiment names, on whatever axis."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from named_parts(value)
        elif isinstance(value, list | tuple):
            yield from (part for one in value if isinstance(one, Mapping) for part in named_parts(one))
        elif isinstance(value, str) and key in NAMES and ":" in value:
            yield value
