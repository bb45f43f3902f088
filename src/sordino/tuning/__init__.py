"""Tuning: which parameters are trained and shared, and which stay frozen."""

from sordino.tuning.bridge import Bridge, Task, bridge_of
from sordino.tuning.strategy import TUNINGS, Phase, Tuning, lengths, phases_of

__all__ = ["TUNINGS", "Bridge", "Phase", "Task", "Tuning", "bridge_of", "lengths", "phases_of"]
