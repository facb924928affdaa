"""Choose partitions for many texts at once with an exported selector; the caller may not read some of the partitions.

    python -m examples.select_partition [--run runs/quickstart]      # after make quickstart

Needs `mrag_rl` alone: neither gymnasium nor stable-baselines3, nor this project's training code.
"""

import argparse
from pathlib import Path

import numpy as np

from mrag_rl import Selector
from mrag_rl.data.records import load_pairs
from mrag_rl.memory import MemoryDatabase

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--run", type=Path, default=Path("runs/quickstart"))
run = parser.parse_args().run
if not run.is_dir():
    parser.error(f"{run}: no such run folder; make one with: make quickstart")

texts = [pair.source for pair in load_pairs(run / "data" / "test.jsonl")][:5]
selector = Selector.load(run / "selector")
queries = selector.load_encoder().encode(texts)
with MemoryDatabase.open(run / "database") as database:
    states = database.states(queries, selector.info.state)  # (5, M, H): nearest memory of each partition, per head
    free = selector.select(states)
    allowed = np.ones(database.partitions, dtype=bool)
    allowed[free[0]] = False  # the first text's favourite is closed to everybody
    second = selector.select(states, allowed=allowed)
    hits = database.retrieve(queries, second, allowed_partitions=allowed)
    for text, one, two, memory in zip(texts, free, second, database.records(hits.indices[:, 0]), strict=True):
        print(f"{text[:60]}…\n  chosen {database.names[one]}, then {database.names[two]}: {memory.target[:70]}")
