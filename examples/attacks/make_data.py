"""Rows that can only be learnt by heart: labels follow one number of a thousand, and a third of them is flipped."""

from pathlib import Path

from sordino.audit.attacks.every_method import rows_to_learn_by_heart

rows_to_learn_by_heart(Path("by-heart.npz"))
