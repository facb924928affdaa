"""Build a partitioned memory database from pairs of your own, search it, refine a memory, view its history and undo.

    python -m examples.own_memory_database --folder my-database [--pairs pairs.jsonl]

Without --pairs, a hundred pairs of the bundled world are used.
"""

import argparse
from pathlib import Path

from mrag_rl.data.records import load_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.memory import MemoryDatabase
from mrag_rl.partitioning import fit_partitioning

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--folder", type=Path, required=True, help="where the database goes")
parser.add_argument("--pairs", type=Path)
arguments = parser.parse_args()
if arguments.folder.exists():
    parser.error(f"{arguments.folder}: exists already; remove it or give another --folder")

world = make_newsroom("summarization", seed=0, database=100, train=1, dev=1, test=3)
pairs = load_pairs(arguments.pairs) if arguments.pairs else world.database
encoder = TransformerEncoder.load()
embeddings = encoder.encode([pair.source for pair in pairs], progress=True)
partitioning = fit_partitioning("hnsw_spectral", embeddings.standard, partitions=4, seed=0)
queries = encoder.encode([pair.source for pair in world.test])
with MemoryDatabase.create(
    arguments.folder, pairs, embeddings, partitioning, encoder_fingerprint=encoder.fingerprint
) as database:
    print(f"{len(database)} memories in {database.partitions} partitions; states {database.states(queries).shape}")
    hits = database.retrieve(queries, None, k=2)  # None: the whole database; or one partition a query
    memory = int(hits.indices[0, 0])
    print("nearest:", database.records([memory])[0].target)
    database.refine([memory], ["A better summary."], step=1)
    database.revert(memory, step=2)
    for version in database.history(memory):
        print(f"version {version.version}, step {version.step}: {version.target}")
