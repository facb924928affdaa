"""`results.json`: the scores of every system on the test set, their differences, and the cost."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from mrag_rl import __version__
from mrag_rl.choices import EvaluatedPart
from mrag_rl.evaluation.bootstrap import Score, as_json, holm, oracle_gap_captured

SECONDS = ("encode", "index", "retrieve", "generate", "pool", "train", "total")
USAGE = ("prompts", "generated_tokens", "cache_hits", "batches")
PACKAGES = (
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "bm25s",
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
    n: Mapping[str, int],
    target: str,
    contrasts: Sequence[str],
    family: int = 0,
    scores: Mapping[str, Mapping[str, Score]],
    seconds: Mapping[str, float],
    llm: Mapping[str, int],
    runs: Sequence[Mapping[str, Any]] = (),
    part: EvaluatedPart = "test",
    contrasts_of_command: bool = False,
    out_of_its_world: bool = False,
) -> dict[str, Any]:
    """The contents of `results.json`.

    Everything is a function of configuration, data and seed, except "seconds" and "llm": these are the cost of this run
    and change with the machine, the cache and every stop and resume.

    Args:
        test_size: the number of answers of a system. part: whose answers they are.
        n: the numbers of "worlds", "runs", different "pairs" and, where there are some, "groups": `origin_counts`.
        target: the metric in which the `contrasts` ("A - B", of systems in `scores`) are tested.
        family: how many contrasts were named, if more than `contrasts`: their systems may not all be in `scores`.
        scores: by system and metric, from `score_systems`.
        seconds: by the names in `SECONDS`. llm: by those in `USAGE`.
        contrasts_of_command: whether whoever asked for these results named the contrasts, not the configuration of the
            run, which is older than any result.
        out_of_its_world: see `cautions.is_out_of_its_world`; no percentages are given then.
        runs: the "name", "seed" and "world_seed" of each pooled run, in the order of the scores' runs.
    """
    m_rag = scores.get("m_rag", {})
    share, luck = _oracle_gap(scores)
    report = {
        "task": task,
        "part": part,
        "test_size": test_size,
        "n": dict(n),
        "seed": seed,
        "config_sha256": config_sha256,
        "versions": versions(),
        "systems": {
            system: {metric: as_json(value.interval()) for metric, value in row.items()}
            for system, row in scores.items()
        },
        "contrasts": _contrasts(contrasts, family, target, scores),
        "comparisons": {
            f"m_rag - {name}": {
                metric: as_json(score.minus(row[metric]), value_name="difference") for metric, score in m_rag.items()
            }
            for name, row in scores.items()
            if m_rag and name != "m_rag"
        },
        "oracle_gap_captured": share,
        "oracle_luck": luck,
        "seconds": {name: round(float(seconds.get(name, 0.0)), 3) for name in SECONDS},
        "llm": {name: int(llm.get(name, 0)) for name in USAGE},
    }
    if contrasts_of_command:
        report["contrasts_of_command"] = True
    if out_of_its_world:
        report["out_of_its_world"] = True
    if runs:
        report["runs"] = [{**run, "systems": _of_run(scores, index)} for index, run in enumerate(runs)]
    return report


def _contrasts(
    names: Sequence[str], family: int, target: str, scores: Mapping[str, Mapping[str, Score]]
) -> dict[str, dict[str, dict[str, float]]]:
    """The named differences in the target metric with their p-values, corrected for the number that was named."""
    pairs = [[scores[system][target] for system in name.split(" - ")] for name in names]
    p_values = [first.p_value(second) for first, second in pairs]
    return {
        name: {
            target: as_json(first.minus(second), value_name="difference")
            | {"p": round(p, 6), "p_holm": round(holm_p, 6)}
        }
        for name, (first, second), p, holm_p in zip(names, pairs, p_values, holm(p_values, family), strict=True)
    }


def _oracle_gap(
    scores: Mapping[str, Mapping[str, Score]],
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """`oracle_gap_captured` and the luck it leaves out, by metric; both empty without the three systems it compares."""
    shares: dict[str, float | None] = {}
    lucks: dict[str, float | None] = {}
    if {"m_rag", "naive", "oracle_refined"} <= scores.keys():
        for metric in scores["m_rag"]:
            value = {name: row[metric].value for name, row in scores.items()}
            luck = max(0.0, value["oracle_samples"] - value["naive"]) if "oracle_samples" in value else None
            share = oracle_gap_captured(value["m_rag"], value["naive"], value["oracle_refined"], luck or 0.0)
            shares[metric] = None if share is None else round(share, 4)
            lucks[metric] = None if luck is None else round(luck, 4)
    return shares, lucks


def _of_run(scores: Mapping[str, Mapping[str, Score]], run: int) -> dict[str, dict[str, float]]:
    """Every system's scores on one run's own answers."""
    return {
        system: {metric: round(score.runs[run], 4) for metric, score in row.items()} for system, row in scores.items()
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
