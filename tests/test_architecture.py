"""The folder tree is the architecture: imports point one way, and the boundary's openings stay in the trusted base."""

import ast
from pathlib import Path

import pytest

import sordino
from sordino.methods import METHODS
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.tuning import TUNINGS

ROOT = Path(sordino.__file__).parent
LAYERS = [
    {"sentences"},
    {"core", "startup", "cores", "processor"},
    {"outside", "conformity", "threads"},
    {"registry"},
    {"files", "settings", "kernels"},
    {"privacy", "gradients", "experiment", "nodes"},
    {"models", "data"},
    {"pretrain", "methods"},
    {"tuning"},
    {"engine"},
    {"sweeps", "operating"},
    {"report", "recommend", "demo", "audit", "testing", "testing_options", "extend", "predict"},
    {"library", "reference"},
    {"cli", "__init__"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
TRUSTED = {
    "core.py",
    "privacy/clipping.py",
    "privacy/door.py",
    "engine/process/ownership.py",  # hands each client process its own rows
    "engine/client/personal_store.py",  # the client's own side: its disk, and what a simulation shows of it to the researcher
}
SIBLINGS_ALLOWED = {
    "files",
    "settings",
    "kernels",
    "privacy",
    "gradients",
    "models",
    "data",
    "nodes",
    "engine",
    "operating",
    "report",
    "pretrain",
    "tuning",
    "methods",
    "audit",
    "testing",
    "predict",
    "library",
    "reference",
    "cli",
    "sweeps",
    "recommend",
}
FILES = sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path: Path) -> list[tuple[str, str]]:
    """Every module of ours that a file imports, with the imported name, lazy and type-only imports too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sordino":
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "sordino"]
    return found


def target(module: str, name: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else (name if name in RANK else "core")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    here = room(path)
    assert here in RANK, f"{here} has no place in the architecture; give it a layer"
    for module, name in imports(path):
        there = target(module, name)
        allowed = RANK[there] < RANK[here] or (there == here and here in SIBLINGS_ALLOWED)
        assert allowed, f"{here} must not import {module}"


@pytest.mark.parametrize("path", sorted((ROOT / "methods").glob("*.py")), ids=lambda path: path.name)
def test_methods_do_not_import_each_other(path):
    from sordino.methods import METHODS

    own = {member.build.__module__ for member in METHODS}
    for module, _ in imports(path):
        assert module not in own or module == f"sordino.methods.{path.stem}", f"{path.name} imports the method {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_openings_of_the_boundary_stay_in_the_trusted_base(path):
    opened = {name for _, name in imports(path)} & {"unwrap", "unwrap_product", "seal", "mint", "_KEY"}
    assert not opened or str(path.relative_to(ROOT)) in TRUSTED, f"{path.name} opens the boundary with {opened}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_bounded_values_are_read_for_the_wire_alone(path):
    opened = {name for _, name in imports(path)} & {"read_bounded", "received_bounded"}
    assert not opened or str(path.relative_to(ROOT)) == "engine/wire/codec.py", f"{path.name} uses {opened}"


AXES = {member.build.__name__ for axis in (METHODS, TUNINGS, MECHANISMS, STARTS) for member in axis} | {
    "Personalised",
    "LocalSgd",
    "NoisySgd",
    "PublicTraining",
    "Averaging",
}


def class_checks(path):
    """Names of classes that a file asks objects for."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            found |= {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "engine").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_asks_no_member_of_an_axis_for_its_class(path):
    assert not class_checks(path) & AXES


def test_the_servers_side_knows_nobodys_rows():
    """What adds up and charges imports nothing that could hold an example of a client."""
    for name in ("federation.py", "tally.py", "asking.py", "roster.py", "transport.py", "messages.py"):
        modules = {module for module, _ in imports(ROOT / "engine" / name)}
        assert not {module for module in modules if module.startswith("sordino.data")}, name


def test_core_stays_small():
    assert len((ROOT / "core.py").read_text().splitlines()) < 200
