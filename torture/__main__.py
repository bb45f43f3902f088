"""`python -m torture [PART ...]`: break Sordino from outside, and say what broke. See torture/README.md."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from torture.faults import build_shim
from torture.ground import Ground
from torture.parts import PARTS
from torture.processes import Launcher
from torture.report import Outcome, print_table
from torture.tree import Tree, Unable, environment, source_folder


def main() -> int:
    chosen = _arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    out = chosen.out or Path(tempfile.mkdtemp(prefix="torture-failures-"))
    console = Console()
    with tempfile.TemporaryDirectory(prefix="torture-") as place:
        scratch = Path(place).resolve()
        shim = build_shim(scratch)
        root = (chosen.tree or Path(__file__).parents[1]).resolve()
        source = source_folder(root) if chosen.tree else None
        env = environment(scratch)
        with Launcher(folder=scratch / "processes", source=source, shim=shim, env=env) as launcher:
            tree = Tree(launcher, scratch=scratch, root=root)
            ground = Ground(tree=tree, seed=chosen.seed, scale=chosen.scale, shim=shim is not None, case=chosen.case)
            outcomes = [_torture(ground, name, out) for name in chosen.parts or PARTS]
    print_table(outcomes, console)
    if not any(outcome.failures for outcome in outcomes):
        return 0
    console.print(f"Every failure with its reproduction: {out}", markup=False, highlight=False)
    return 1


def _torture(ground: Ground, name: str, out: Path) -> Outcome:
    outcome = Outcome(part=name, out=out)
    try:
        PARTS[name](ground, outcome)
    except Unable as unable:
        outcome.judge(str(unable), case="the part could not go on", reproduction=f"python -m torture {name}")
    outcome.close()
    return outcome


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default all")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other moments and other mutations")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of it; 0.05 takes about a minute")
    parser.add_argument(
        "--case", default="", metavar="TEXT", help="of a federation or of pages: only cases with this in their name"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where failures go; default a new temporary folder")
    parser.add_argument("--tree", type=Path, metavar="DIR", help="another checkout; default the installed sordino")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"there is no part called {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if not chosen.scale > 0:
        parser.error("--scale must be above zero")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
