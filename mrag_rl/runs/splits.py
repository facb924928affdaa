"""The pairs of a run, read or made as its configuration says, and split into memories and queries."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict

from mrag_rl.choices import Task
from mrag_rl.config import DataConfig
from mrag_rl.data import Splits, TextPair, load_pairs, load_splits, split_pairs
from mrag_rl.data.splits import pair_groups
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.evaluation.bootstrap import Origin


def read_splits(data: DataConfig, task: Task) -> Splits:
    """The memories and queries. Raises InputError naming the file and line at fault."""
    if data.world:
        return make_newsroom(task, seed=data.world_seed, newsroom=data.newsroom, **asdict(data.sizes))
    if data.pairs is not None:
        return split_pairs(load_pairs(data.pairs), **asdict(data.fractions), group=data.group, seed=data.world_seed)
    return load_splits(**asdict(data.files), group=data.group)


def pair_origins(
    data: DataConfig, pairs: Sequence[TextPair], *, world: Hashable = 0, run: Hashable = 0
) -> list[Origin]:
    """Where one run's answers to N queries come from, (N,); with `data.group`, pairs of one group are drawn together.

    pairs: queries of one split. Groups that are joined by a pair in common are in one split, so no others are needed.
    Raises InputError if `data.group` does not match an id.
    """
    groups = [None] * len(pairs) if data.group is None else pair_groups(pairs, data.group)
    return [Origin(world, run, (pair.id, pair.target), group) for pair, group in zip(pairs, groups, strict=True)]
