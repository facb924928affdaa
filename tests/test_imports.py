"""Imports point one way, from the commands down to errors, and no two rooms import each other."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mrag_rl"

# Rooms (packages or modules of mrag_rl), the lowest first. A module imports from its own room and from lower ones.
ROOMS = (
    "errors",
    "access",
    "unit",
    "extras",
    "choices",
    "contrasts",
    "checked_json",
    "io",
    "cache_file",
    "verified",
    "plugins",
    "selector_layers",
    "models",
    "encoders",
    "normalizer",
    "selector_info",
    "selector_files",
    "hub",
    "selector",
    "selector_export",
    "settings",
    "shipped",
    "command_line",
    "data",
    "partitioning",
    "generation",
    "cluster",
    "metrics",
    "training_config",
    "evaluation_config",
    "llm_config",
    "data_config",
    "encoder_config",
    "config",
    "cautions",
    "filters",
    "memory",
    "retrieval",
    "states",
    "evaluation",
    "systems",
    "integrations",
    "experiments",
    "report",
    "runs",
    "ui",
    "envs",
    "agents",
    "trackers",
    "training",
    "subcommands",
    "commands",
)
LEARNING = {"gymnasium", "stable_baselines3"}
MODULES = sorted({*PACKAGE.rglob("*.py"), *(PACKAGE / "envs").glob("*.py"), *(PACKAGE / "agents").glob("*.py")})


def name_of(path: Path) -> str:
    """A file below the package as "room/module.py"."""
    return str(path.relative_to(PACKAGE))


def room_of(module: str) -> str | None:
    """The room of a module name such as "mrag_rl.data.records"; None for the package itself and for other packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "mrag_rl" and len(parts) > 1 and parts[1] in ROOMS else None


def imported(source: str) -> Iterator[str]:
    """Every absolute module name that a source file imports, inside functions and conditions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_its_own_room_and_lower_ones(path: Path) -> None:
    """An order of all rooms that every import follows is also the proof that there is no cycle between two."""
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    names = set(imported(path.read_text(encoding="utf-8")))
    assert not {
        name for name in names if name.split(".")[0] in {"train", "evaluate", "envs", "agents", "lm", "scripts"}
    }
    if own == "__init__":  # the package's face hands on what it names
        return
    used = {room for room in map(room_of, names) if room is not None}
    assert not {room for room in used if ROOMS.index(room) > ROOMS.index(own)}
    if own not in ("envs", "agents", "subcommands", "commands"):
        assert not {name for name in names if name.split(".")[0] in LEARNING}
    if own == "envs":
        assert not {name for name in names if name.split(".")[0] == "stable_baselines3"}


def test_no_file_is_too_long_to_read_in_one_go() -> None:
    """CONTRIBUTING names the exceptions: tests, whose files follow the rooms they test."""
    folders = ("mrag_rl", "envs", "agents", "lm", "benchmarks", "examples", "scripts")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")] + [
        ROOT / "train.py",
        ROOT / "evaluate.py",
    ]
    assert not {str(path): length for path in paths if (length := len(path.read_text().splitlines())) > 400}


def test_every_room_has_its_place_in_the_order() -> None:
    found = {
        path.name.removesuffix(".py")
        for path in PACKAGE.iterdir()
        if path.name not in ("configs", "py.typed", "__pycache__")
    }
    assert found - {"__init__"} == set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_uses_no_private_name_of_another(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    private = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mrag_rl"
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert not private


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_reads_a_pickle(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not {"pickle", "cloudpickle", "joblib", "dill"} & {
        name.split(".")[0] for name in imported(ast.unparse(tree))
    }
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not {"torch.load", "torch.save"} & calls


def loaded_after(statement: str) -> set[str]:
    """The top-level modules in a fresh interpreter after ``statement``."""
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_importing_the_package_is_light() -> None:
    assert not {"torch", "transformers", "faiss", "numpy", "gymnasium"} & loaded_after("import mrag_rl")


def test_a_selector_needs_none_of_the_training_code() -> None:
    loaded = loaded_after("import mrag_rl; mrag_rl.Selector")
    assert not {"torch", "transformers", "faiss", "gymnasium", "stable_baselines3"} & loaded


def test_commands_that_read_settings_do_not_wait_for_torch() -> None:
    assert not {"torch", "transformers"} & loaded_after("import mrag_rl.commands, mrag_rl.runs.arguments")
