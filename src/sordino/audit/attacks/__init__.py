"""Attacks: what can be got out of an upload, or out of a model, by somebody who sees no more than a view shows."""
