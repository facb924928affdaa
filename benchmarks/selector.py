"""How many states per second does an exported selector decide on one core?

    OMP_NUM_THREADS=1 python -m benchmarks.selector

Prints one line per number of partitions, and the lowest rate; the target is 500,000 states per second or more.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from itertools import product
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.selector import Selector
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.states import feature_names

HIDDEN = 25


def exported(folder: Path, state: StateName, partitions: int, features: int, seed: int) -> Selector:
    """A selector with random weights, exported and loaded."""
    rng, shared = np.random.default_rng(seed), state == "evidence"
    inputs, outputs = (features, 1) if shared else (partitions * features, partitions)
    shapes = {"w1": (HIDDEN, inputs), "b1": (HIDDEN,), "w2": (outputs, HIDDEN), "b2": (outputs,)}
    raw = rng.uniform(-1, 1, (1000, partitions, features)).astype(np.float32)
    normalizer = StateNormalizer.fit(raw, shared=shared)
    names = tuple(str(index) for index in range(partitions))
    info = SelectorInfo(state, names, "summarization", "rouge1", "random", "")
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
    kinds: tuple[StateName, ...] = ("evidence", "per_head")
    for state, partitions in product(kinds, (4, 6, 8, 10)):
        features = len(feature_names(state, arguments.heads))
        with tempfile.TemporaryDirectory() as folder:
            selector = exported(Path(folder) / "selector", state, partitions, features, seed=partitions)
        rng = np.random.default_rng(0)
        states = rng.uniform(-1, 1, (arguments.states, partitions, features)).astype(np.float32)
        start = time.perf_counter()
        for first in range(0, len(states), arguments.batch):
            selector.select(states[first : first + arguments.batch])
        rates.append(len(states) / (time.perf_counter() - start))
        print(f"{state:8s} M={partitions:2d} F={features:2d}: {rates[-1]:,.0f} states/s")
    print(f"lowest: {min(rates):,.0f} states/s on one core, {min(rates) / 500_000:.2f}x the target of 500,000")


if __name__ == "__main__":
    main()
