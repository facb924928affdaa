"""Memories spoilt on purpose: which, how many, how, and that nothing else is touched."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import train
from mrag_rl.data import TextPair, load_pairs
from mrag_rl.data.spoiling import spoil
from mrag_rl.memory import MemoryDatabase

MEMORIES = [TextPair(f"m{i}", f"source {i}", f"{i} is the number of this target", metadata={"n": i}) for i in range(80)]
FOUR = np.eye(4, dtype=bool)[np.arange(80) % 4]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_one_half_of_the_partitions_is_spoilt(share: float) -> None:
    made = spoil(MEMORIES, FOUR, share, seed=0)
    spoilt = [row for row in range(80) if made[row] != MEMORIES[row]]
    counts = Counter(row % 4 for row in spoilt)
    assert sorted(counts.values()) == [round(share * 20)] * (2 if share else 0)
    for row, (before, after) in enumerate(zip(MEMORIES, made, strict=True)):
        assert (after.id, after.source, after.metadata["n"]) == (before.id, before.source, row)
        match after.metadata.get("spoilt"):
            case None:
                assert after == before
            case "misaligned":
                other = int(after.target.split()[0])
                assert other != row and other % 4 == row % 4 and after.target == MEMORIES[other].target
            case how:
                assert how == "cut short" and after.target == f"{row} is the"
    kinds = Counter(made[row].metadata["spoilt"] for row in spoilt)
    assert kinds["misaligned"] == kinds["cut short"] == len(spoilt) // 2


def test_the_seed_decides() -> None:
    first, again, other = ([*spoil(MEMORIES, FOUR, 0.3, seed=seed)] for seed in (1, 1, 2))
    assert first == again != other


def test_a_memory_of_several_partitions_is_spoilt_once_and_one_partition_is_enough() -> None:
    every = np.ones((80, 4), bool)
    made = spoil(MEMORIES, every, 0.5, seed=0)
    assert 40 <= sum(pair.metadata.get("spoilt") is not None for pair in made) <= 80
    assert all(
        pair.target in {f"{i} is the", MEMORIES[i].target} or "spoilt" in pair.metadata for i, pair in enumerate(made)
    )
    alone = spoil(MEMORIES, np.ones((80, 1), bool), 0.3, seed=0)
    assert sum("spoilt" in pair.metadata for pair in alone) == 24


def test_a_run_stores_spoilt_memories_and_leaves_its_queries_alone(small: Path, workplace: Path) -> None:
    command = ["--config", str(workplace / "small.yaml"), "--runs", str(workplace / "runs"), "--name", "spoilt"]
    assert train.main([*command, "--data.spoilt", "0.5"]) == 0
    with (
        MemoryDatabase.open(workplace / "runs" / "spoilt" / "database") as spoilt,
        MemoryDatabase.open(small / "database") as plain,
    ):
        rows = np.arange(len(plain))
        differ = [a != b for a, b in zip(spoilt.original_targets(rows), plain.original_targets(rows), strict=True)]
        marked = ["spoilt" in memory.metadata for memory in spoilt.records(rows)]
        assert differ == marked and 0 < sum(marked) < len(rows)
        assert spoilt.sources() == plain.sources()
    for part in ("train", "dev", "test"):
        assert load_pairs(workplace / "runs" / "spoilt" / "data" / f"{part}.jsonl") == load_pairs(
            small / "data" / f"{part}.jsonl"
        )
