"""Parts of the reports of a run, of pooled runs and of a comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.evaluation.tables import contrasts_title, difference_cell, label, score_cell
from mrag_rl.report import Column, Setting, Table

REPORT = "report.html"


@contextmanager
def refused(problem: str) -> Iterator[None]:
    """Turn what others' JSON leads to if it is not what was written, such as a KeyError, into an InputError."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{problem} ({type(error).__name__}: {error})") from error


def summary(results: Mapping[str, Any], target: str) -> str:
    """The main result in a sentence."""
    systems, gain = results["systems"], results["comparisons"].get("m_rag - naive")
    if "m_rag" not in systems:
        return f"{len(systems)} systems were evaluated, M-RAG not among them."
    text = f"M-RAG scores {score_cell(systems['m_rag'][target])} in {label(target)}"
    return f"{text}." if gain is None else f"{text}, a gain of {difference_cell(gain[target])} over the naive system."


def settings_with_defaults(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Setting]:
    """Settings by their dotted names, as a command line takes them; the name of a run has no default."""
    return [
        Setting(name, _plain(value), "" if name == "name" else _plain(defaults[name]))
        for name, value in settings.items()
    ]


def _plain(value: Any) -> str:
    """A setting's value as a command line takes it: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def measured(results: Mapping[str, Any], target: str) -> list[str]:
    """The metrics that were measured, the target metric first."""
    return list(dict.fromkeys((target, *next(iter(results["systems"].values())))))


def results_tables(results: Mapping[str, Any], metrics: Sequence[str]) -> list[Table]:
    """The primary contrasts, if there are any, and all systems. metrics: those to show, the target metric first."""
    target, gains = metrics[0], results["comparisons"]
    columns = [Column("System", False), *(Column(label(name)) for name in metrics)]
    rows = [[name, *(score_cell(row[metric]) for metric in metrics)] for name, row in results["systems"].items()]
    if gains:
        columns.append(Column(f"m_rag gains ({label(target)})"))
        for row in rows:
            gain = gains.get(f"m_rag - {row[0]}", {}).get(target)
            row.append("" if gain is None else difference_cell(gain))
    tables = [Table("All systems, with 95% intervals", columns, rows, marked="m_rag")]
    if results["contrasts"]:
        columns = [Column("Contrast", False), Column(label(target)), Column("p"), Column("p (Holm)")]
        rows = [
            [name, difference_cell(row[target]), f"{row[target]['p']:.4f}", f"{row[target]['p_holm']:.4f}"]
            for name, row in results["contrasts"].items()
        ]
        tables.insert(0, Table(contrasts_title(results), columns, rows))
    return tables
