"""Files of a kit that people read: `node.toml`, `limits.toml` and the page for the operator."""

from __future__ import annotations

import json
from collections.abc import Mapping


def node_toml(facts: Mapping[str, str | int]) -> str:
    """`node.toml`; JSON writes names and numbers as TOML does."""
    about = {
        "name": "on the federation's roster",
        "server": "as it stands in the server's certificate",
        "port": "of the server; the one that must be open from here",
        "local_port": "on this machine's loopback alone; each node on one machine needs its own",
    }
    return "".join(f"{key} = {json.dumps(value)}  # {about[key]}\n" for key, value in facts.items())


LIMITS_PAGE = """\
# What this node allows, whoever asks. The node itself checks every plan and every request against this file; a server cannot
# change it, and a plan that breaks it is refused before anything is trained. It is yours: edit it before you start the node.

methods = []                     # names of methods that may run here; [] means any that is installed
placements = ["local", "distributed"]   # where noise may be drawn
central = false                  # whether a value may leave bounded but without noise, for a server that adds it
outside_parts = []               # "module:Class" parts that a plan may name, from packages you installed; [] means none
least_noise = 0.1                # the least noise multiplier of anything that this node releases
# lifetime_delta = 1e-5          # δ at which all runs are added up; without it, the smallest δ of any of them

[run_epsilon]                    # the largest ε of one run, in each view; leave one out for no limit
public = 8.0
server = 50.0
client = 50.0

[lifetime_epsilon]               # the largest ε of all runs together, of all servers
public = 16.0
server = 100.0
client = 100.0
"""


def kit_readme(name: str, address: str, *, own_key: bool) -> str:
    """One page for whoever runs the node."""
    key = (
        "Put your own private key here as `node.key` (`chmod 600 node.key`); its public half was registered."
        if own_key
        else "`node.key` is what this node shows itself by. Keep it secret (mode 0600); if it may have been copied, ask for a rotation."
    )
    return f"""\
# Node `{name}`
This folder is all that your node needs to take part in a federation. Your rows never leave your machine; what leaves is bounded,
noised by your own machine, and written into your own ledger before it goes.

1. Install the package and its Flower part: `pip install "sordino[flower]"`.
2. Read `limits.toml` and set what you allow. The node obeys this file, whatever the server asks for.
3. {key}
4. Open one outgoing port: this machine must reach `{address}`. Nothing has to be open towards you.
5. Check everything before anything is trained:
   ```
   sordino preflight . --data rows.csv --experiment experiment.toml
   ```
6. Start the node, and leave it running:
   ```
   sordino node . --data rows.csv
   ```
7. See what your node has spent over its life, on which runs of which servers: `sordino node . --ledger`.

The ledger, spent grants and personal models lie in the node's state folder, outside this kit (`sordino node . --where` prints it).
Back that folder up, and keep it when you install this kit again or get a new key: it is what remembers your ε.
If the same rows take part in another federation, give both nodes the same state with `--state DIR`.
"""
