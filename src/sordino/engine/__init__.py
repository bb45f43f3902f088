"""Engines: they run experiments."""
