"""Several finished runs as one table: the same configuration under several seeds, say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import score_systems
from mrag_rl.evaluation.closing import reported_metrics, target_metric
from mrag_rl.evaluation.results import SECONDS, USAGE, results
from mrag_rl.evaluation.run_folder import RunFolder
from mrag_rl.evaluation.tables import results_page
from mrag_rl.io import atomic_write_text, read_json, read_jsonl, write_json


def pool_runs(runs: Sequence[Path], output: Path) -> str:
    """Score the answers of several runs together; writes `output`/results.json and results.md, returns the page.

    The bootstrap resamples the pooled test pairs, so the runs should differ in their test sets (`data.world_seed`) as
    well as in their seeds: answers to the same pair are not independent.

    Raises:
        InputError: a run is not complete, or the runs differ in task, metric or systems.
    """
    configs = [RunFolder(run).load_config() for run in runs]
    rows: list[dict[str, Any]] = []
    cost: dict[str, dict[str, float]] = {"seconds": dict.fromkeys(SECONDS, 0.0), "llm": dict.fromkeys(USAGE, 0)}
    for run, config in zip(runs, configs, strict=True):
        if not (run / "results.json").exists():
            raise InputError(f"{run}: the run is not complete; go on with: python train.py --resume {run}")
        if (config.task, target_metric(config)) != (configs[0].task, target_metric(configs[0])):
            raise InputError(f"{run}: its task or metric is not that of {runs[0]}; pool runs of one task and metric")
        rows += [row for _, row in read_jsonl(run / "answers.jsonl")]
        found = read_json(run / "results.json")
        for part, totals in cost.items():
            for name in totals:
                totals[name] += found[part][name]
    systems = list(rows[0]["answers"])
    if any(list(row["answers"]) != systems for row in rows):
        raise InputError(f"{runs[0]} and the runs after it compared different systems; pool runs that share them")
    scores = score_systems(
        {system: [row["answers"][system]["hypothesis"] for row in rows] for system in systems},
        [row["reference"] for row in rows],
        reported_metrics(configs[0]),
        resamples=configs[0].evaluation.bootstrap,
        seed=configs[0].seed,
    )
    found = results(
        task=configs[0].task,
        test_size=len(rows),
        seed=configs[0].seed,
        config_sha256=read_json(runs[0] / "results.json")["config_sha256"],
        scores=scores,
        seconds=cost["seconds"],
        llm={name: int(value) for name, value in cost["llm"].items()},
    )
    page = results_page(found, target=target_metric(configs[0]))
    output.mkdir(parents=True, exist_ok=True)
    atomic_write_text(output / "results.md", page)
    write_json(output / "results.json", found | {"runs": [str(run) for run in runs]})
    return page
