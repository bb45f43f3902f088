"""Tuning: which parameters are trained and shared, and which stay frozen."""

from sordino.tuning.strategy import TUNINGS, Tuning

__all__ = ["TUNINGS", "Tuning"]
