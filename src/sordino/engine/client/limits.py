"""What the operator of a client allows, whoever asks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sordino.core import SordinoError, View
from sordino.privacy.pricing import Placement
from sordino.settings import NotNegative


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The settings of a client's `limits.toml`. By default everything is allowed.

    Example:
        >>> Limits(lifetime_epsilon={"public": 8.0}, central=False)
    """

    lifetime_epsilon: Mapping[View, float] = field(default_factory=dict)
    """The largest ε over all runs and servers, by view."""
    run_epsilon: Mapping[View, float] = field(default_factory=dict)
    """The largest ε of one run, by view."""
    least_noise: NotNegative = 0.0
    """The least noise multiplier of anything that this client releases itself."""
    methods: tuple[str, ...] = ()
    """The methods that may run here; none means any."""
    central: bool = True
    """Whether values may leave bounded and without noise, for a server that adds it."""

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

    def check_noise(self, noise_multiplier: float, *, server_noises: bool) -> None:
        if server_noises and not self.central:
            raise SordinoError("This client's limits allow no value to leave without noise of its own.")
        if not server_noises and noise_multiplier < self.least_noise:
            raise SordinoError(
                f"This client's limits ask for a noise multiplier of at least {self.least_noise:g}, but the request has "
                f"{noise_multiplier:g}."
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
