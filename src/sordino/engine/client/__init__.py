"""A client's side of a run, beside its rows: the same code in every engine."""
