"""`report.html` of a run: its settings, results and figures, and what its agents chose for some queries and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.config import Config
from mrag_rl.data import TextPair, load_pairs
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.evaluation.tables import PARTS, label, what_intervals_count
from mrag_rl.io import atomic_write_text, read_json, read_jsonl
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.report import Answer, Fact, Partition, Picture, Query, Report, Retrieved, render
from mrag_rl.runs.charts import CALIBRATION, run_charts
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.plugins import load_trusted_plugins
from mrag_rl.runs.pool import flat_settings
from mrag_rl.runs.report_parts import REPORT, measured, refused, results_tables, settings_with_defaults, summary
from mrag_rl.runs.report_settings import ReportSettings
from mrag_rl.runs.trained import TrainedSystem, open_trained
from mrag_rl.states import StateReader

QUERIES = 50
"""How many queries a report shows."""
MOST_PARTITIONS = 8
"""How many partitions it shows of a query."""
MOST_MEMORIES = 4
"""How many of the memories that a query was shown."""


def run(settings: ReportSettings) -> str:
    """Write the report of a finished run once more; returns where it is.

    Raises InputError if the run is not complete, or its files are not those of a run.
    """
    folder = RunFolder(Path(settings.run))
    config = folder.load_config()
    results = folder.root if settings.results is None else Path(settings.results)
    if not (results / "results.json").is_file():
        raise InputError(
            f"{results}: no results.json in it; finish the run with train.py --resume, or evaluate it with "
            "evaluate.py systems"
        )
    load_trusted_plugins(config, settings.trust, ("metric",), folder.root)
    return f"{write_report(folder, config, results)}: open it in a browser"


def write_report(folder: RunFolder, config: Config, results: Path) -> Path:
    """Write `report.html` into the folder of results, and a run's figures into `plots/`; returns the report's path.

    results: a folder with results.json and answers.jsonl, which is the run itself or what `evaluate.py systems` wrote.
    Raises InputError if these or the run's files are not as they were written.
    """
    with open_trained(folder) as trained, refused(f"{results}: not the results of this run; evaluate it again"):
        report = _report(folder, config, trained, results)
    if results == folder.root:
        for picture in report.pictures:
            if picture.name not in CALIBRATION:
                picture.chart.save(folder.plots, picture.name)
    atomic_write_text(results / REPORT, render(report))
    return results / REPORT


def _report(folder: RunFolder, config: Config, trained: TrainedSystem, path: Path) -> Report:
    results = read_json(path / "results.json")
    answered = [row for _, row in read_jsonl(path / "answers.jsonl")]
    part, metrics = results.get("part", "test"), measured(results, target_metric(config))
    kind = f"{PARTS[part]} pairs"  # Checks the part, which is going to be a file's name
    pairs = load_pairs(folder.pairs(part))
    if [row["id"] for row in answered] != [pair.id for pair in pairs]:
        raise InputError(f"{path / 'answers.jsonl'}: not the answers to this run's {part} queries; evaluate it again")
    chosen = [row["answers"]["m_rag"]["partition"] for row in answered if "m_rag" in row["answers"]]
    charts = run_charts(folder, config, trained, results, pairs, chosen)
    rows = np.unique(
        np.linspace(0, len(pairs) - 1, min(QUERIES, len(chosen))).round().astype(int)
    )  # none without m_rag
    return Report(
        title=f"{config.name}: {config.task} on {len(pairs)} {kind}",
        summary=summary(results, metrics[0]),
        facts=_facts(config, trained.database, results),
        settings=settings_with_defaults(flat_settings(config), flat_settings(Config(config.name))),
        tables=results_tables(results, metrics),
        notes=what_intervals_count(results["n"], kind),
        pictures=[Picture(name, chart) for name, chart in charts.items()],
        metrics=[label(name) for name in metrics],
        queries=_queries(
            folder, config, trained, part, [pairs[i] for i in rows], [answered[i] for i in rows], rows, metrics
        ),
        of=len(pairs),
    )


def _facts(config: Config, database: MemoryDatabase, results: Mapping[str, Any]) -> list[Fact]:
    seconds, usage, versions = results["seconds"], results["llm"], results["versions"]
    return [
        Fact("Language model", config.llm.name),
        Fact("Encoder", config.encoder.name),
        Fact("Memories", f"{len(database):,}, {database.counts_refined():,} of them refined"),
        Fact("Partitions", f"{database.partitions:,} ({config.partitioning.method})"),
        Fact("Seed", str(results["seed"])),
        Fact("Took", f"{seconds['total']:,.0f} s, {seconds['generate']:,.0f} s of it generating"),
        Fact("Prompts", f"{usage['prompts']:,}, {usage['cache_hits']:,} of them from the cache"),
        Fact("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]


def _queries(
    folder: RunFolder,
    config: Config,
    trained: TrainedSystem,
    part: str,
    pairs: Sequence[TextPair],
    answered: Sequence[Mapping[str, Any]],
    rows: np.ndarray,
    metrics: Sequence[str],
) -> list[Query]:
    """What the agents chose for queries, the `rows` of their split, and what was answered."""
    if not len(rows):
        return []
    database, selector, names = trained.database, trained.selector, trained.database.names
    embeddings = Embeddings.load(folder.embeddings(part))[rows]
    shown: StateName = "per_head" if config.state == "evidence" else config.state
    similarities = database.states(embeddings, shown)
    sizes = database.membership().sum(axis=0)
    places = {name: place for place, name in enumerate(names)}
    chosen = np.array([places.get(row["answers"]["m_rag"]["partition"], -1) for row in answered])
    values = gains = trusted = None
    if selector is not None:
        states = StateReader(database, selector.info.state)([pair.source for pair in pairs], embeddings)
        values = selector.q_values(states)
        trusted = selector.confident_by(values)
        if selector.info.gain_slope is not None:
            gains = selector.expected_gain_by(values)
    k = min(config.demonstrations, MOST_MEMORIES)
    hits = database.retrieve(embeddings, None if selector is None else chosen, k=k)
    scores = _scores(metrics, pairs, answered)
    queries = []
    for row, (pair, found) in enumerate(zip(pairs, answered, strict=True)):
        order = np.argsort(similarities[row].mean(axis=1) if values is None else -values[row], kind="stable")
        listed = [*dict.fromkeys([*([chosen[row]] if chosen[row] >= 0 else []), *order.tolist()])][:MOST_PARTITIONS]
        answers = [
            Answer(system, answer["partition"], answer["hypothesis"], scores[system][row])
            for system, answer in _naive_second(found["answers"])
        ]
        compared = answers[1:2] if "naive" in found["answers"] else []
        queries.append(
            Query(
                id=pair.id,
                source=pair.source,
                reference=pair.target,
                partition=found["answers"]["m_rag"]["partition"],
                trusted=None if trusted is None else bool(trusted[row]),
                partitions=[
                    Partition(
                        names[place],
                        int(sizes[place]),
                        None if values is None else float(values[row, place]),
                        None if gains is None else float(gains[row, place]),
                        similarities[row, place].tolist() if sizes[place] else None,
                        bool(place == chosen[row]),
                    )
                    for place in listed
                ],
                left_out=len(names) - len(listed),
                memories=_memories(database, hits.indices[row], hits.scores[row]),
                answers=answers,
                gain=answers[0].scores[0] - compared[0].scores[0] if compared else None,
            )
        )
    return queries


def _naive_second(answers: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The systems' answers, those of `m_rag` and `naive` first."""
    first = [name for name in ("m_rag", "naive") if name in answers]
    return [(name, answers[name]) for name in (*first, *(name for name in answers if name not in first))]


def _scores(
    names: Sequence[str], pairs: Sequence[TextPair], answered: Sequence[Mapping[str, Any]]
) -> dict[str, list[list[float]]]:
    """By system, each answer's scores (0 to 100) in these metrics."""
    references, metrics, scores = [pair.target for pair in pairs], [get_metric(name) for name in names], {}
    for system in answered[0]["answers"]:
        hypotheses = [row["answers"][system]["hypothesis"] for row in answered]
        columns = [100.0 * metric.scores(hypotheses, references) for metric in metrics]
        scores[system] = np.stack(columns, axis=1).tolist()
    return scores


def _memories(database: MemoryDatabase, indices: np.ndarray, similarities: np.ndarray) -> list[Retrieved]:
    there = indices[indices >= 0]
    return [
        Retrieved(record.id, float(similarity), record.source, original, record.target, record.version)
        for record, original, similarity in zip(
            database.records(there), database.original_targets(there), similarities, strict=False
        )
    ]
