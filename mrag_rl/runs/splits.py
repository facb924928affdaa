"""The pairs of a run, read or made as its configuration says, and split into memories and queries."""

from __future__ import annotations

from dataclasses import asdict

from mrag_rl.choices import Task
from mrag_rl.config import DataConfig
from mrag_rl.data import Splits, load_pairs, load_splits, split_pairs
from mrag_rl.data.synthetic import make_newsroom


def read_splits(data: DataConfig, task: Task) -> Splits:
    """The memories and queries. Raises InputError naming the file and line at fault."""
    if data.world:
        return make_newsroom(task, seed=data.world_seed, newsroom=data.newsroom, **asdict(data.sizes))
    if data.pairs is not None:
        return split_pairs(load_pairs(data.pairs), **asdict(data.fractions), group=data.group, seed=data.world_seed)
    return load_splits(**asdict(data.files))
