"""`python -m sordino.engine.flower.superlink_process PARENT ARGUMENTS`: Flower's own SuperLink, on a leash."""

from __future__ import annotations

import sys

from sordino.engine.flower.leash import end_with
from sordino.startup import quick_imports

with quick_imports():
    import flwr.superlink.main  # noqa: F401  what Flower's own main imports when it is called
    from flwr.superlink.cli import flower_superlink


def main() -> None:
    parent, *arguments = sys.argv[1:]
    end_with(int(parent))
    sys.argv = ["flower-superlink", *arguments]
    flower_superlink()


if __name__ == "__main__":
    main()
