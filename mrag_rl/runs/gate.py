"""Do memories help a language model on a corpus? `evaluate.py gate`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mrag_rl.config import config_to_dict, validate_config
from mrag_rl.data import TextPair
from mrag_rl.encoders import Embeddings, RunEncoder
from mrag_rl.evaluation.bootstrap import Origin, as_json, count_systems, holm, origin_counts, score_systems
from mrag_rl.evaluation.tables import gate_table
from mrag_rl.generation.llm import LLM
from mrag_rl.io import atomic_write_text, write_json, write_jsonl
from mrag_rl.memory import MemoryDatabase
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.retrieval import WordIndex
from mrag_rl.runs.evaluate import reported_metrics, target_metric
from mrag_rl.runs.models import make_writer, models_at, with_cache
from mrag_rl.runs.plugins import load_own_plugins
from mrag_rl.runs.settings import GateSettings, check_data_files
from mrag_rl.runs.splits import pair_origins, read_splits
from mrag_rl.settings import command_line_only
from mrag_rl.systems import (
    CopiedTarget,
    MemoryAnswer,
    NearestMemory,
    NoRetrieval,
    System,
    by_chance,
    by_standard,
    by_words,
    by_words_and_standard,
)

MANY = 3
"""The number of demonstrations beside one (M-RAG, Figure 2: Top-3)."""

RETRIEVERS = tuple(f"{name}{many}" for name in ("naive", "words", "hybrid") for many in ("", f"_{MANY}"))
"""The systems that the verdict is about: those that retrieve memories and show them to the language model."""


def run(settings: GateSettings, *, models: tuple[RunEncoder, LLM] | None = None) -> str:
    """Answer development queries with and without memories, write `answers.jsonl` and `gate.json`; return a table.

    models: the encoder and language model of the settings, if loaded already. Raises InputError on bad settings, files.
    """
    validate_config(settings)
    check_data_files(settings.data)
    load_own_plugins(settings)
    start = time.perf_counter()
    splits, folder = read_splits(settings.data, settings.task), settings.folder()
    # Groups are those of the whole split: the pair that joins two of them may not be drawn.
    origins = pair_origins(settings.data, splits.dev)
    drawn = drawn_queries(origins, settings.queries, settings.seed)
    pairs, origins = [splits.dev[index] for index in drawn], [origins[index] for index in drawn]
    folder.mkdir(parents=True, exist_ok=True)
    # Data first: a mistake there should not wait for a large model to load.
    with models_at(settings.cluster, settings.workers)(settings, partial(print, file=sys.stderr)) as loaded:
        encoder, llm = models or (loaded.encoder, loaded.llm)
        sources = encoder.encode([pair.source for pair in splits.database], progress=True)
        queries = encoder.encode([pair.source for pair in pairs])
        with (
            tempfile.TemporaryDirectory(dir=folder, prefix="tmp-") as place,
            MemoryDatabase.create(
                Path(place) / "database",
                splits.database,
                sources,
                fit_partitioning("none", sources.standard, seed=settings.seed),
                encoder_fingerprint=encoder.fingerprint,
            ) as database,
            with_cache(llm, settings.llm, folder / "cache.sqlite", progress=True) as cached,
        ):
            answers = _answers(_systems(settings, database, cached), pairs, queries)
    report = _report(settings, pairs, origins, answers) | {"seconds": round(time.perf_counter() - start, 1)}
    rows = (
        {"id": pair.id, "answers": {name: row[i].hypothesis for name, row in answers.items()}}
        for i, pair in enumerate(pairs)
    )
    write_jsonl(folder / "answers.jsonl", rows)
    page = gate_table(report, memories=len(splits.database), task=settings.prompt_task)
    atomic_write_text(folder / "gate.md", page + "\n")
    write_json(folder / "gate.json", report)
    return page


def drawn_queries(origins: Sequence[Origin], count: int, seed: int) -> list[int]:
    """The indices of the queries to answer, at most `count` of N.

    Without groups these are the first. Queries of a group depend on each other, and a file's first may be of few
    groups, so groups are drawn in random order by the seed: whole groups, their queries in order, the last cut to fit.
    """
    members: dict[Hashable, list[int]] = {}
    for index, origin in enumerate(origins):
        if origin.group is None:
            return list(range(min(count, len(origins))))
        members.setdefault(origin.group, []).append(index)
    groups = list(members.values())
    order = np.random.default_rng(seed).permutation(len(groups))
    return [index for number in order for index in groups[number]][:count]


def _systems(settings: GateSettings, database: MemoryDatabase, llm: LLM) -> list[System[MemoryAnswer]]:
    words = WordIndex(database.sources())
    searches = {
        "random": by_chance(database, settings.seed),
        "naive": by_standard(database),
        "words": by_words(words),
        "hybrid": by_words_and_standard(words, database),
    }
    one = replace(make_writer(settings, llm), demonstrations=1)
    many = replace(one, demonstrations=MANY)
    return [
        NoRetrieval(one),
        CopiedTarget(database),
        CopiedTarget(database, "copy_words", search=searches["words"]),
        *(NearestMemory(name, one, database, search) for name, search in searches.items()),
        *(NearestMemory(f"{name}_{MANY}", many, database, search) for name, search in searches.items()),
    ]


def _answers(
    systems: Sequence[System[MemoryAnswer]], pairs: Sequence[TextPair], queries: Embeddings
) -> dict[str, Sequence[MemoryAnswer]]:
    answers: dict[str, Sequence[MemoryAnswer]] = {}
    with tqdm(total=len(systems) * len(pairs), desc="answer", unit="answer") as bar:
        for system in systems:
            bar.set_postfix_str(system.name)
            answers[system.name] = system.answer([pair.source for pair in pairs], queries)
            bar.update(len(pairs))
    return answers


def _report(
    settings: GateSettings,
    pairs: Sequence[TextPair],
    origins: Sequence[Origin],
    answers: Mapping[str, Sequence[MemoryAnswer]],
) -> dict[str, Any]:
    target, of_command = target_metric(settings), command_line_only(settings)
    metrics = tuple(dict.fromkeys((*reported_metrics(settings), "rouge1")))
    statistics = count_systems(
        {name: [answer.hypothesis for answer in row] for name, row in answers.items()},
        [pair.target for pair in pairs],
        metrics,
    )
    scores = score_systems(statistics, origins=origins, resamples=settings.evaluation.bootstrap, seed=settings.seed)
    none = scores["none"]
    counts = origin_counts(origins)
    gains = {
        name: {
            metric: as_json(score.minus(none[metric]), value_name="difference") | {"p": score.p_value(none[metric])}
            for metric, score in row.items()
        }
        for name, row in scores.items()
        if name != "none"
    }
    for name, p_holm in zip(RETRIEVERS, holm([gains[name][target]["p"] for name in RETRIEVERS]), strict=True):
        gains[name][target]["p_holm"] = p_holm
    return {
        "config": {key: value for key, value in config_to_dict(settings).items() if key not in of_command},
        "target": target,
        "queries": len(pairs),
        **({"groups": counts["groups"]} if "groups" in counts else {}),
        "systems": {
            name: {metric: as_json(score.interval()) for metric, score in row.items()} for name, row in scores.items()
        },
        "gains": gains,
        "similarity": float(np.mean([answer.similarity for answer in answers["naive"]])),
    }
