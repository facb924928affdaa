"""Imports point one way: train.py, evaluate.py -> agents -> envs -> mrag_rl."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "mrag_rl": {"envs", "agents", "train", "evaluate", "gymnasium", "stable_baselines3"},
    "envs": {"agents", "train", "evaluate", "stable_baselines3"},
    "agents": {"train", "evaluate"},
}
MODULES = [path for room in FORBIDDEN for path in sorted((ROOT / room).rglob("*.py"))]


def imported(source: str) -> Iterator[str]:
    """Every absolute module name that a source file imports, inside functions and conditions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_rooms_below_its_own(path: Path) -> None:
    forbidden = FORBIDDEN[path.relative_to(ROOT).parts[0]]
    wrong = {name for name in imported(path.read_text(encoding="utf-8")) if name.split(".")[0] in forbidden}
    assert not wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_uses_no_private_name_of_another(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    private = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert not private


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
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
    assert not {"torch", "transformers", "faiss", "gymnasium", "stable_baselines3", "envs", "agents"} & loaded
