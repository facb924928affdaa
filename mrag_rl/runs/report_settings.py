"""The settings of `evaluate.py report`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportSettings:
    """Write report.html of a finished run once more: a page with its settings, results and figures, and with what the
    agents chose for fifty queries and why. It needs no server, no network and no model. Training writes it, too.

    examples:
      python evaluate.py report runs/quickstart
      python evaluate.py report runs/quickstart --results runs/quickstart/evaluation
          of what `evaluate.py systems` found, into that folder
    """

    run: str
    """Run folder that train.py made."""
    results: str | None = None
    """Folder with results.json and answers.jsonl, which also gets report.html; null is the run itself."""
    trust: tuple[str, ...] = ()
    """Import paths of code that the run's settings name, and that may therefore run (docs/plugins.md)."""
