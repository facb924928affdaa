"""How many states per second does an exported selector decide on one core?

    OMP_NUM_THREADS=1 python -m benchmarks.selector

Prints one line per number of partitions, and the lowest rate; the target is 100,000 states per second or more.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from mrag_rl.normalizer import StateNormalizer
from mrag_rl.selector import Selector, SelectorInfo
from mrag_rl.selector_export import export_selector

HIDDEN = 25


def exported(folder: Path, partitions: int, heads: int, seed: int) -> Selector:
    """A selector with random weights, exported and loaded."""
    rng = np.random.default_rng(seed)
    shapes = {
        "w1": (HIDDEN, partitions * heads),
        "b1": (HIDDEN,),
        "w2": (partitions, HIDDEN),
        "b2": (partitions,),
    }
    normalizer = StateNormalizer.fit(rng.uniform(-1, 1, (1000, partitions, heads)).astype(np.float32))
    names = tuple(str(index) for index in range(partitions))
    info = SelectorInfo("per_head", names, "summarization", "rouge1", "random", "")
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    export_selector(folder, weights=weights, normalizer=normalizer, info=info)
    return Selector.load(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=1024, help="states per call")
    parser.add_argument("--heads", type=int, default=12)
    arguments = parser.parse_args()
    rates = []
    for partitions in (4, 6, 8, 10):
        with tempfile.TemporaryDirectory() as folder:
            selector = exported(Path(folder) / "selector", partitions, arguments.heads, seed=partitions)
        rng = np.random.default_rng(0)
        states = rng.uniform(-1, 1, (arguments.states, partitions, arguments.heads)).astype(np.float32)
        start = time.perf_counter()
        for first in range(0, len(states), arguments.batch):
            selector.select(states[first : first + arguments.batch])
        rates.append(len(states) / (time.perf_counter() - start))
        print(f"M={partitions:2d} H={arguments.heads}: {rates[-1]:,.0f} states/s")
    print(f"lowest: {min(rates):,.0f} states/s on one core, {min(rates) / 100_000:.1f}x the target of 100,000")


if __name__ == "__main__":
    main()
