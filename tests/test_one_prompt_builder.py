"""Prompts are built in one room: nothing outside `mrag_rl/generation` constructs one, except lm/, which trains on them.

A second builder would be a second answer to the question what the language model is shown.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
# mrag_rl/envs and mrag_rl/agents are links to the folders at the top.
ROOMS = ("mrag_rl", "envs", "agents", "scripts", "examples")
BUILDER = ROOT / "mrag_rl" / "generation"


def prompt_constructions(path: Path) -> list[str]:
    """ "path:line" of every call of `Prompt`, under any name that the file imports it by, and of `prompts.Prompt`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mrag_rl.generation")
        for alias in node.names
        if alias.name == "Prompt"
    }
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id in names)
            or (isinstance(node.func, ast.Attribute) and node.func.attr == "Prompt")
        )
    ]


def test_prompts_are_constructed_in_generation_only() -> None:
    files = {ROOT / "train.py", ROOT / "evaluate.py", *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))}
    offenders = [
        place for path in sorted(files) if not path.is_relative_to(BUILDER) for place in prompt_constructions(path)
    ]
    assert not offenders, f"use Writer or a prompt function of mrag_rl.generation at {', '.join(offenders)}"


def test_the_rule_sees_a_construction() -> None:
    assert prompt_constructions(BUILDER / "writer.py") and prompt_constructions(BUILDER / "filter_prompts.py")
