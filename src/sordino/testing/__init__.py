"""The contract of every axis, as checks that anybody can run on a part of their own.

    pytest --pyargs sordino.testing --member my_method:MyMethod

runs them in the folder of `my_method.py`, or wherever Python finds that module. `--set` gives settings (`--set mu=0.1`), and
`--axis` says which axis is meant where a name is on several. A check raises `Broken`, with a sentence, where a part does not
keep the contract; where the engine itself refuses the part, it raises `SordinoError` first.
"""

from sordino.testing.broken import Broken
from sordino.testing.suite import CHECKS, axis_of
from sordino.testing.tables import contract_table

__all__ = ["CHECKS", "Broken", "axis_of", "contract_table"]
