"""`results.json`: the scores of every system on the test set, their differences, and the cost."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

from mrag_rl import __version__
from mrag_rl.evaluation.bootstrap import Score, as_json, oracle_gap_captured

SECONDS = ("encode", "index", "retrieve", "generate", "pool", "train", "total")
USAGE = ("prompts", "generated_tokens", "cache_hits", "batches")
PACKAGES = (
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "gymnasium",
    "stable-baselines3",
    "sacrebleu",
    "rouge-score",
)


def results(
    *,
    task: str,
    test_size: int,
    seed: int,
    config_sha256: str,
    scores: Mapping[str, Mapping[str, Score]],
    seconds: Mapping[str, float],
    llm: Mapping[str, int],
) -> dict[str, Any]:
    """The contents of `results.json`.

    Everything is a function of configuration, data and seed, except "seconds" and "llm": these are the cost of this run
    and change with the machine, the cache and every stop and resume.

    Args:
        scores: by system and metric, from `score_systems`.
        seconds: by the names in `SECONDS`. llm: by those in `USAGE`.
    """
    m_rag = scores.get("m_rag")
    comparisons = {}
    gap = {}
    if m_rag is not None:
        for name, row in scores.items():
            if name != "m_rag":
                comparisons[f"m_rag - {name}"] = {
                    metric: as_json(m_rag[metric].minus(row[metric]), value_name="difference") for metric in m_rag
                }
        if "naive" in scores and "oracle_partition" in scores:
            for metric in m_rag:
                values = [scores[name][metric].value for name in ("m_rag", "naive", "oracle_partition")]
                share = oracle_gap_captured(*values)
                gap[metric] = None if share is None else round(share, 4)
    return {
        "task": task,
        "test_size": test_size,
        "seed": seed,
        "config_sha256": config_sha256,
        "versions": versions(),
        "systems": {
            system: {metric: as_json(value.interval()) for metric, value in row.items()}
            for system, row in scores.items()
        },
        "comparisons": comparisons,
        "oracle_gap_captured": gap,
        "seconds": {name: round(float(seconds.get(name, 0.0)), 3) for name in SECONDS},
        "llm": {name: int(llm.get(name, 0)) for name in USAGE},
    }


def versions() -> dict[str, str]:
    """Versions of this package, Python and the installed libraries that results depend on."""
    installed = {"mrag_rl": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed
