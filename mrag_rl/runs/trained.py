"""The results of a training: its database and its selector."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder
from mrag_rl.selector import Selector


@dataclass(frozen=True)
class TrainedSystem:
    """A database refined in a training, and the selector trained on it, None if there is only one partition."""

    database: MemoryDatabase
    selector: Selector | None


@contextmanager
def open_trained(folder: RunFolder) -> Iterator[TrainedSystem]:
    """Open the database and selector of a run or an ablation.

    Raises InputError if its training is not complete.
    """
    if not folder.database.is_dir():
        raise InputError(f"{folder.root}: no trained database in it; finish the run with train.py --resume first")
    with MemoryDatabase.open(folder.database) as database:
        selector = None
        if database.partitions > 1:
            if not folder.selector.is_dir():
                raise InputError(f"{folder.root}: no selector in it; finish the run with train.py --resume first")
            selector = Selector.load(folder.selector)
        yield TrainedSystem(database, selector)
