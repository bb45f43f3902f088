"""How many examples fit in the memory the user allows."""

from __future__ import annotations

# A booked pass holds each activation, the gradient that arrives for it, and a temporary of the same size.
COPIES_BOOKED = 3
# vmap(grad) keeps one more of each, and holds the rows twice while they are stacked.
COPIES_VMAPPED, ROWS_VMAPPED = 4, 2


def bytes_per_example(*, activations: int, parameters: int, element_bytes: int, booked: bool) -> int:
    """An upper estimate: every trainable parameter may be kept as a row."""
    if booked:
        return element_bytes * (COPIES_BOOKED * activations + parameters)
    return element_bytes * (COPIES_VMAPPED * activations + ROWS_VMAPPED * parameters)


def microbatch_size(*, batch: int, memory_bytes: int, example_bytes: int) -> int:
    """At least one example, at most the batch, in steps as even as can be."""
    fitting = max(1, min(batch, memory_bytes // max(1, example_bytes)))
    steps = -(-batch // fitting)
    return -(-batch // steps)
