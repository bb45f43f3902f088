"""Real nodes over Flower: every name of `flwr` that we use is in this folder, because its interface moves fast.

Whoever imports anything from here gets a Flower that neither reports home nor looks for updates.
"""

from __future__ import annotations

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
