"""Tuning: which parameters are trained and shared, and which stay frozen."""

from sordino.tuning.bridge import Bridge, Task, bridge_of
from sordino.tuning.strategy import TUNINGS, Tuning

__all__ = ["TUNINGS", "Bridge", "Task", "Tuning", "bridge_of"]
