"""`python -m sordino.engine.flower.superlink_process PARENT ARGUMENTS`: Flower's own SuperLink, on a leash."""

from __future__ import annotations

import sys

from sordino.engine.flower.leash import end_with


def main() -> None:
    parent, *arguments = sys.argv[1:]
    end_with(int(parent))
    sys.argv = ["flower-superlink", *arguments]
    from flwr.superlink.cli import flower_superlink

    flower_superlink()


if __name__ == "__main__":
    main()
