"""Tuning: which parameters are trained and shared, and which stay frozen."""

from sordino.tuning.strategy import TUNINGS, Phase, Tuning, lengths, phases_of

__all__ = ["TUNINGS", "Phase", "Tuning", "lengths", "phases_of"]
