"""Where the noise of a run comes from: the server's own source, and one of its own for every client."""

from __future__ import annotations

from collections.abc import Callable

from sordino.experiment import Experiment
from sordino.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from sordino.privacy.streams import stream_id


def server_noise(experiment: Experiment) -> NoiseSource:
    """For cohorts, central sums and empty seats."""
    if experiment.privacy.noise_source == "secure":
        return SecureNoise()
    return SeededNoise(stream_id("noise", experiment.seed))


def client_noise(experiment: Experiment) -> Callable[[int], NoiseSource]:
    """The source of each client by its number; seeded sources of two clients have nothing in common."""
    if experiment.privacy.noise_source == "secure":
        secure = SecureNoise()
        return lambda client: secure
    return lambda client: SeededNoise(client_noise_seed(experiment.seed, client))


def client_noise_seed(seed: int, client: int) -> int:
    """The seed of one client's noise, in a simulation."""
    return stream_id("noise of client", seed, client)
