"""`make bench` runs what needs no arguments."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def needs_arguments(script: Path) -> bool:
    """Whether a command line has to name something: a required option, or a place without a default."""
    calls = [node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.Call)]
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and call.args:
            options = {word.arg: ast.unparse(word.value) for word in call.keywords}
            name = ast.literal_eval(call.args[0])
            if options.get("required") == "True" or (not name.startswith("-") and "nargs" not in options):
                return True
    return False


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_bench_runs_every_benchmark_that_needs_no_arguments() -> None:
    plan = subprocess.run(["make", "--dry-run", "bench"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = re.search(r"for name in ([\w ]+);", plan)
    assert listed is not None
    scripts = {name: ROOT / "benchmarks" / f"{name}.py" for name in listed[1].split()}
    assert len(scripts) > 15 and all(script.is_file() for script in scripts.values())
    assert [name for name, script in scripts.items() if needs_arguments(script)] == []
    assert needs_arguments(ROOT / "benchmarks" / "large_model.py")
    assert needs_arguments(ROOT / "benchmarks" / "batch_sizes.py")
