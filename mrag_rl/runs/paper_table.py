"""The tables of M-RAG's evaluation, as `configs/paper/tables` has them: parts to run, and the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mrag_rl.choices import PaperScale
from mrag_rl.command_line import read_yaml
from mrag_rl.contrasts import check_contrasts
from mrag_rl.errors import InputError
from mrag_rl.evaluation.results import SECONDS
from mrag_rl.runs.settings import SweepSettings
from mrag_rl.settings import command_line_only
from mrag_rl.shipped import PAPER_TABLES, shipped_file

_TABLE_KEYS = {"title", "note", "metrics", "seconds", "systems", "contrasts", "published", "scales"}
_PART_KEYS = {"name", "beside", "metrics", "config", "grid", "settings", "systems"}


@dataclass(frozen=True)
class Part:
    """One sweep of a table at one scale.

    Attributes:
        name: of its folder. beside: whose figures of the paper stand beside it, None for none.
        metrics: its columns, the first of which is compared; the table's, unless the part is of another task.
        config: configuration files. grid, settings: as of a sweep, and further settings of all its runs.
        systems: the table's rows, for each combination of the grid's settings.
    """

    name: str
    beside: str | None
    metrics: tuple[str, ...]
    config: tuple[str, ...]
    grid: dict[str, list[Any]]
    settings: dict[str, Any]
    systems: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    Attributes:
        path: of its file. seconds: columns beside the metrics, by the names in `mrag_rl.evaluation.results.SECONDS`, on
            average over a row's runs.
        note: what a reader has to know of the figures, for its page.
        contrasts: differences of two systems, tested for each combination of the grid's settings.
        published: {whose: {row: {column: figure}}}, as the paper prints them.
        scales: the parts of each scale.
    """

    path: Path
    title: str
    note: str
    seconds: tuple[str, ...]
    contrasts: tuple[str, ...]
    published: dict[str, dict[str, dict[str, float]]]
    scales: dict[str, tuple[Part, ...]]

    @property
    def name(self) -> str:
        """That of its file, without the ending."""
        return self.path.stem


def read_table(name: str) -> Table:
    """A table of `configs/paper/tables` by its name, or of a file by its path. Raises InputError for a broken one."""
    path = shipped_file(name, PAPER_TABLES)
    found = _mapping(read_yaml(path), _TABLE_KEYS, str(path))
    try:
        systems, metrics = tuple(found["systems"]), tuple(found["metrics"])
        scales = {
            scale: tuple(
                Part(
                    str(part["name"]),
                    part.get("beside"),
                    tuple(part.get("metrics") or metrics),
                    tuple(part["config"]),
                    dict(part["grid"]),
                    dict(part.get("settings") or {}),
                    tuple(part.get("systems") or systems),
                )
                for part in (_mapping(part, _PART_KEYS, f"{path}: {scale}") for part in parts)
            )
            for scale, parts in found["scales"].items()
        }
        table = Table(
            path,
            found["title"],
            found.get("note") or "",
            tuple(found.get("seconds") or ()),
            tuple(found.get("contrasts") or ()),
            found.get("published") or {},
            scales,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a table ({error}); see {PAPER_TABLES / 'table5.yaml'} for one") from error
    for scale, parts in table.scales.items():
        if scale not in get_args(PaperScale):
            raise InputError(f"{path}: unknown scale {scale!r}; choose from {', '.join(get_args(PaperScale))}")
        for part in parts:
            if not_of_runs := part.settings.keys() & command_line_only(SweepSettings):
                raise InputError(f"{path}: {part.name}: {min(not_of_runs)} may not be set in a file")
            check_contrasts(
                table.contrasts, part.systems, where=f"{path}: contrasts", otherwise="add it to the systems"
            )
            if part.beside is not None and part.beside not in table.published:
                raise InputError(f"{path}: {part.name} stands beside {part.beside!r}, which is not in published")
    if unknown := set(table.seconds) - set(SECONDS):
        raise InputError(f"{path}: unknown seconds {', '.join(sorted(unknown))}; choose from {', '.join(SECONDS)}")
    return table


def _mapping(found: Any, keys: set[str], where: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise InputError(f"{where}: not a mapping; see {PAPER_TABLES / 'table5.yaml'} for a table")
    if unknown := set(found) - keys:
        raise InputError(f"{where}: unknown key {sorted(map(str, unknown))[0]}; choose from {', '.join(sorted(keys))}")
    return found
