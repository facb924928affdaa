"""Every notebook runs from top to bottom in IPython, in an empty folder, with smaller sizes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib_inline.backend_inline import configure_inline_support
from traitlets.config import Config

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
INLINE = "module://matplotlib_inline.backend_inline"
SMALL = {
    "1_train": "sizes = {'database': 40, 'train': 8, 'dev': 4, 'test': 6}",
    "2_own_pairs_and_metric": "sizes = {'database': 40, 'train': 8, 'dev': 4, 'test': 8}",
    "3_ablate_and_compare": "sizes, seeds = {'database': 40, 'train': 4, 'dev': 4, 'test': 4}, (0,)",
    "4_search_by_heads": "per_category, queries_per_aspect = 1, 1",
    "5_ask_filtered_news": "events = 12",
}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """An IPython as a kernel has it: figures are outputs, and modules may lie in the working directory."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    plt.switch_backend(INLINE)
    configure_inline_support(shell, INLINE)
    yield shell
    plt.switch_backend("agg")
    InteractiveShell.clear_instance()
    sys.modules.pop("my_metrics", None)  # which a notebook writes


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, shell: InteractiveShell) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert [cell["metadata"].get("tags") for cell in code].count(["parameters"]) == 1
    for cell in code:
        is_parameters = "parameters" in cell["metadata"].get("tags", ())
        with capture_output() as shown:
            result = shell.run_cell(SMALL[path.stem] if is_parameters else "".join(cell["source"]))
        result.raise_error()
        assert shown.outputs or shown.stdout or result.result is not None or cell is not code[-1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells(path))
