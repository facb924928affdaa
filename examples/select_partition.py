"""Choose partitions for many texts at once with an exported selector, with one partition forbidden.

    python -m examples.select_partition [--run runs/quickstart]      # after make quickstart

Needs only the library `mrag_rl`: neither gymnasium nor stable-baselines3, nor this project's training code.
"""

import argparse
from pathlib import Path

from mrag_rl import Selector
from mrag_rl.data.records import load_pairs
from mrag_rl.memory import MemoryDatabase
from mrag_rl.states import StateReader

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--run", type=Path, default=Path("runs/quickstart"))
run = parser.parse_args().run
if not run.is_dir():
    parser.error(f"{run}: no such run folder; make one with: make quickstart")

texts = [pair.source for pair in load_pairs(run / "data" / "test.jsonl")][:5]
selector = Selector.load(run / "selector")
queries = selector.load_encoder().encode(texts)
with MemoryDatabase.open(run / "database") as database:
    states = StateReader(database, selector.info.state)(texts, queries)  # (5, M, F): F numbers per partition
    favourites = selector.select(states)
    allowed = ~database.is_arm  # the arm of the whole database would read what is forbidden next
    allowed[favourites[0]] = False  # forbid the first text's favourite for all texts
    choices = selector.select(states, allowed=allowed)
    hits = database.retrieve(queries, choices, allowed_partitions=allowed)
    memories = database.records(hits.indices[:, 0])
    for text, favourite, choice, memory in zip(texts, favourites, choices, memories, strict=True):
        names = f"{database.names[favourite]}, then {database.names[choice]}"
        print(f"{text[:60]}…\n  chosen {names}: {memory.target[:70]}")
