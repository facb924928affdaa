"""Is there anything to learn for a selector? How far gains over the whole database can be foretold, by regressions.

    python -m benchmarks.selection_signal --runs runs/s0 runs/s1 runs/s2

The runs must have the same data and partitions, and refine nothing (`configs/score_table.yaml`): each seed tries other
partitions for the training queries, and together they know what most choices gain. Regressions that see all these
gains, on 9 of 10 parts of the queries, foretell those of the tenth part from what is known of each partition before any
answer ("state": Agent-S's evidence and what copying would score, but no gains of earlier answers) or from the memories
that the partition and the whole database would show ("memories"). "R2" is the share of the known gains' variance that
they explain. "chosen" is what the partition with the highest prediction gains over the whole database, "careful" the
same if a prediction is above 0 and nothing otherwise; both with their standard error, over queries for which every gain
is known, in the metric's points (0 to 100). Beside them: a partition at random, the best in hindsight, the one whose
memory is nearest, and the one that is best on average in the 9 parts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mrag_rl.data import load_pairs
from mrag_rl.encoders import Embeddings
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder
from mrag_rl.states import Ledger, StateReader, ledger_file
from mrag_rl.states.ledger import COPIED, LEDGER_NAMES


def known_gains(runs: Sequence[RunFolder]) -> np.ndarray:
    """(P, M) gains of P training queries in M partitions, in points; NaN where no run has tried."""
    gains, digest = np.array(np.nan), ""
    for run in runs:
        with MemoryDatabase.open(run.database) as database:
            tried = Ledger.load(ledger_file(database)).gains
            if digest and database.digest() != digest:
                raise SystemExit(f"error: {run.root}: other memories or partitions than in {runs[0].root}")
            digest = database.digest()
        if gains.ndim and gains.shape != tried.shape:
            raise SystemExit(
                f"error: {run.root}: {tried.shape} queries and partitions, {gains.shape} in the runs before"
            )
        gains = np.where(np.isnan(gains), 100 * tried, gains)
    return gains


def features(run: RunFolder) -> dict[str, np.ndarray]:
    """(P, M, F) numbers of each kind."""
    texts, queries = [pair.source for pair in load_pairs(run.pairs("train"))], Embeddings.load(run.embeddings("train"))
    k = run.load_config().demonstrations
    with MemoryDatabase.open(run.database) as database:
        state = StateReader(database, "evidence")(texts, queries)[:, :, : -len(LEDGER_NAMES)]
        copied = Ledger.load(ledger_file(database)).earned_left_out()[:, :, COPIED:]
        memories = database.records(np.arange(len(database)))
        whole = database.retrieve(queries, None, k=k)
        inside = [database.retrieve(queries, np.full(len(queries), m), k=k) for m in range(database.partitions)]
    lengths = np.log([[len(memory.source), len(memory.target)] for memory in memories])
    own = np.log([len(text) for text in texts])
    columns = []
    for hits in inside:
        shared = (hits.indices[:, :, None] == whole.indices[:, None, :]).any(axis=2)
        shown = np.where(hits.indices < 0, 0, hits.indices)  # A partition may have less than k memories
        size = lengths[shown].reshape(len(queries), -1) - own[:, None]
        columns.append(
            np.column_stack([shared, shared.sum(axis=1), hits.scores, hits.scores - whole.scores, size, own])
        )
    retrieved, state = np.stack(columns, axis=1), np.concatenate([state, copied], axis=2)
    return {"state": state, "memories": retrieved, "both": np.concatenate([state, retrieved], axis=2)}


def foretold(numbers: np.ndarray, gains: np.ndarray, model: str) -> np.ndarray:
    """(P, M) predictions of known gains, each from the other parts' queries; NaN elsewhere."""
    rows, partitions = np.nonzero(~np.isnan(gains))
    inputs = np.hstack([numbers[rows, partitions], np.eye(gains.shape[1])[partitions]])
    targets, predictions = gains[rows, partitions], np.full(gains.shape, np.nan)
    for fit, test in GroupKFold(10).split(inputs, groups=rows):
        if model == "ridge":
            regression = make_pipeline(StandardScaler(), RidgeCV(np.logspace(0, 5, 16)))
        else:
            regression = RandomForestRegressor(300, min_samples_leaf=10, max_features=0.3, random_state=0)
        predictions[rows[test], partitions[test]] = regression.fit(inputs[fit], targets[fit]).predict(inputs[test])
    return predictions


def explained(predictions: np.ndarray, gains: np.ndarray) -> float:
    """The share of the variance of known gains, about their mean."""
    known = gains[~np.isnan(gains)]
    return float(1 - np.nansum((gains - predictions) ** 2) / ((known - known.mean()) ** 2).sum())


def with_error(values: np.ndarray) -> str:
    return f"{values.mean():+6.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    runs = [RunFolder(path) for path in parser.parse_args().runs]
    gains = known_gains(runs)
    complete = np.flatnonzero(~np.isnan(gains).any(axis=1))
    if len(complete) < 20:
        raise SystemExit(f"error: all gains are known of {len(complete)} queries only; give more runs")
    print(f"{len(gains)} training queries, {len(complete)} of them with all {gains.shape[1]} gains")
    numbers_of = features(runs[0])
    nearest = numbers_of["state"][:, :, 0].argmax(axis=1)  # "standard: best"
    average = np.empty(len(gains), np.int64)
    for fit, test in GroupKFold(10).split(gains, groups=np.arange(len(gains))):
        average[test] = np.nanmean(gains[fit], axis=0).argmax()
    for name, values in (
        ("at random", gains[complete].mean(axis=1)),
        ("in hindsight", gains[complete].max(axis=1)),
        ("nearest", gains[complete, nearest[complete]]),
        ("best on average", gains[complete, average[complete]]),
    ):
        print(f"{name:17s} {with_error(values)}")
    for kind, numbers in numbers_of.items():
        for model in ("ridge", "forest"):
            predictions = foretold(numbers, gains, model)
            best = predictions[complete].argmax(axis=1)
            chosen = gains[complete, best]
            careful = np.where(predictions[complete, best] > 0, chosen, 0.0)
            r2 = explained(predictions, gains)
            print(f"{kind:9s} {model:7s} R2 {r2:6.3f}   chosen {with_error(chosen)}   careful {with_error(careful)}")


if __name__ == "__main__":
    main()
