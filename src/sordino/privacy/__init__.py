"""Bound, charge, noise: everything that lets a value leave its owner."""
