"""Tuning: which parameters are trained and shared, and which stay frozen."""

from sordino.tuning.strategy import TUNINGS, Phase, Tuning, lengths
from sordino.tuning.task import Task

__all__ = ["TUNINGS", "Phase", "Task", "Tuning", "lengths"]
