"""The health end point answers on loopback alone, with 503 where something is wrong."""

import json
import urllib.error
import urllib.request

import pytest

from sordino.core import SordinoError
from sordino.operating.health import HealthPoint


def test_health_is_told_and_its_lack_too():
    state = {"healthy": True, "nodes": {"north": "online"}}
    with HealthPoint(0, lambda: state) as point:
        address = f"http://127.0.0.1:{point.port}"
        with urllib.request.urlopen(f"{address}/health") as answer:
            assert json.load(answer) == state
        state["healthy"] = False
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{address}/health")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/else")
        with pytest.raises(SordinoError, match="choose another with --health"):
            HealthPoint(point.port, lambda: state)
