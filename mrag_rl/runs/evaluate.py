"""A run's test pairs, or its development pairs, answered by its systems, and their scores."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from mrag_rl.cautions import is_out_of_its_world
from mrag_rl.choices import ABLATION_OF, EvaluatedPart, SystemName, TaskName
from mrag_rl.config import Config, config_sha256
from mrag_rl.contrasts import primary_contrasts
from mrag_rl.data import TextPair, load_pairs
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import origin_counts, score_systems
from mrag_rl.evaluation.results import USAGE, results
from mrag_rl.evaluation.statistics import STATISTICS, PairStatistics
from mrag_rl.evaluation.tables import results_page
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import own_task
from mrag_rl.io import atomic_write_text, write_json, write_jsonl
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import REPORTED, TARGET, get_metric
from mrag_rl.plugins import is_import_path
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import make_writer, models_at, with_cache
from mrag_rl.runs.plugins import load_trusted_plugins, loaded_plugins
from mrag_rl.runs.settings import SystemsSettings
from mrag_rl.runs.splits import pair_origins
from mrag_rl.runs.stages import Stages
from mrag_rl.runs.systems import RunSystems
from mrag_rl.runs.trained import open_trained
from mrag_rl.systems import MemoryAnswer
from mrag_rl.systems.stopping import StoppedAnswer

_DEFAULT_OUTPUT: dict[EvaluatedPart, str] = {"test": "evaluation", "dev": "evaluation_dev"}


@dataclass(frozen=True)
class Evaluation:
    """The answers of a run's systems to its test pairs, or its development pairs, before they are scored.

    Attributes:
        answers: system name to one answer per pair.
        seconds: {"retrieve", "generate", "total"}, over all systems.
        part: whose pairs were answered.
    """

    answers: dict[str, Sequence[MemoryAnswer]]
    seconds: dict[str, float]
    part: EvaluatedPart = "test"


def target_metric(config: Config) -> str:
    """The metric whose differences were the rewards: the configured one or the task's own."""
    return config.metric or TARGET[cast(TaskName, config.task)]


def reported_metrics(config: Config) -> tuple[str, ...]:
    """The metrics of the task's tables, and the target metric if it is not one of them.

    Raises InputError for a task of the user's own that has not been loaded.
    """
    own = is_import_path(config.task)
    of_task = own_task(config.task).metrics if own else REPORTED[cast(TaskName, config.task)]
    return tuple(dict.fromkeys((*of_task, target_metric(config))))


def evaluate_run(
    folder: RunFolder, config: Config, llm: LLM, names: Sequence[str], part: EvaluatedPart = "test"
) -> Evaluation:
    """Answer the run's test pairs, or its development pairs, with each named system.

    Many systems show the language model the same memory for the same text. Each such text is generated once, also if
    the run has no cache.

    Raises:
        InputError: the run is not complete, or a name is unknown.
    """
    pairs = load_pairs(folder.pairs(part))
    embeddings = Embeddings.load(folder.embeddings(part))
    texts = [pair.source for pair in pairs]
    answers: dict[str, Sequence[MemoryAnswer]] = {}
    seconds = {"retrieve": 0.0, "generate": 0.0, "total": 0.0}
    with ExitStack() as stack:
        if not isinstance(llm, CachedLLM):
            llm = stack.enter_context(CachedLLM(llm, ":memory:"))
        trained = {"m_rag": stack.enter_context(open_trained(folder))}
        for name in names:
            if name in ABLATION_OF:
                trained[name] = stack.enter_context(open_trained(folder.ablation(ABLATION_OF[name])))
        writer = make_writer(config, llm)
        metric, count = get_metric(target_metric(config)), config.evaluation.selfmem_candidates
        systems = RunSystems(folder, trained, writer, metric, pairs, config.seed, count)
        for name in names:
            start, before = time.perf_counter(), llm.usage.seconds
            answers[name] = systems.make(name).answer(texts, embeddings)
            total, generate = time.perf_counter() - start, llm.usage.seconds - before
            seconds["generate"] += generate
            seconds["retrieve"] += total - generate
            seconds["total"] += total
    return Evaluation(answers, seconds, part)


def write_results(
    folder: RunFolder,
    output: Path,
    config: Config,
    evaluation: Evaluation,
    *,
    config_sha256: str,
    seconds: Mapping[str, float],
    usage: Mapping[str, float],
) -> dict[str, Any]:
    """Score the answers; write statistics and answers, `results.md` and, last, `results.json`. Returns its contents.

    Args:
        folder: the run. output: where to write. config_sha256: the hash of `config`.
        seconds, usage: of the whole run, see `results`.
    """
    pairs = load_pairs(folder.pairs(evaluation.part))
    origins = pair_origins(config.data, pairs)
    with MemoryDatabase.open(folder.database) as database:
        names = database.names
        ids = [record.id for record in database.records(np.arange(len(database)))]
    statistics = PairStatistics.count(
        {name: [answer.hypothesis for answer in row] for name, row in evaluation.answers.items()},
        [pair.target for pair in pairs],
        reported_metrics(config),
        origins,
    )
    scores = score_systems(statistics.values, origins=origins, resamples=config.evaluation.bootstrap, seed=config.seed)
    report = results(
        task=config.task,
        test_size=len(pairs),
        seed=config.seed,
        config_sha256=config_sha256,
        target=target_metric(config),
        contrasts=primary_contrasts(config.evaluation.contrasts, list(evaluation.answers)),
        family=len(primary_contrasts(config.evaluation.contrasts, config.compared)),
        n=origin_counts(origins),
        scores=scores,
        seconds=seconds,
        llm={name: int(value) for name, value in usage.items()},
        part=evaluation.part,
        out_of_its_world=is_out_of_its_world(config),
    )
    output.mkdir(parents=True, exist_ok=True)
    statistics.save(output / STATISTICS)
    write_jsonl(output / "answers.jsonl", _answer_rows(pairs, evaluation.answers, names, ids))
    atomic_write_text(output / "results.md", results_page(report, target=target_metric(config)))
    write_json(output / "results.json", report)
    return report


def run(settings: SystemsSettings) -> str:
    """Evaluate a complete run once more, without training; writes to `output` and returns the page.

    Systems without a training of their own can be named even if the run's own evaluation left them out. "seconds" and
    "llm" are those of this evaluation alone; the rest equals the run's own results.

    Raises:
        InputError: no complete run there, an unknown system, or the folder cannot be written.
    """
    folder = RunFolder(Path(settings.run))
    config = folder.load_config()
    evaluated = config.compared
    known = [name for name in get_args(SystemName) if name in evaluated or name not in ABLATION_OF]
    names = evaluated if settings.systems is None else tuple(dict.fromkeys(settings.systems))
    for name in names:
        if name not in known:
            raise InputError(f"unknown system {name!r}; this run has {', '.join(known)}")
    stages = Stages(folder, config_sha256(config))
    if not stages.done("evaluate"):
        raise InputError(
            f"{folder.root}: the run is not complete; resume it with: python train.py --resume {folder.root}"
        )
    needed = ("task", "metric", "llm.name")
    load_trusted_plugins(config, settings.trust, needed, folder.root)
    stages.check_models({setting: plugin.sha256 for setting, plugin in loaded_plugins(config, needed).items()})
    with models_at(settings.cluster, settings.workers)(config, partial(print, file=sys.stderr)) as models:
        llm = models.llm
        if config.llm.server is None:
            stages.check_models({"llm": llm.fingerprint})
        with with_cache(llm, config.llm, folder.cache, progress=True) as cached:
            evaluation = evaluate_run(folder, config, cached, names, settings.queries)
    report = write_results(
        folder,
        folder.root / _DEFAULT_OUTPUT[settings.queries] if settings.output is None else Path(settings.output),
        config,
        evaluation,
        config_sha256=stages.config_sha256,
        seconds=evaluation.seconds,
        usage={name: getattr(llm.usage, name) for name in USAGE},
    )
    return results_page(report, target=target_metric(config))


def _answer_rows(
    pairs: Sequence[TextPair],
    answers: Mapping[str, Sequence[MemoryAnswer]],
    partition_names: Sequence[str],
    memory_ids: Sequence[str],
) -> list[dict[str, Any]]:
    rows = []
    for index, pair in enumerate(pairs):
        by_system: dict[str, dict[str, Any]] = {}
        for name, row in answers.items():
            answer = row[index]
            by_system[name] = {
                "hypothesis": answer.hypothesis,
                "partition": partition_names[answer.partition] if answer.partition >= 0 else None,
                "memory": memory_ids[answer.memory] if answer.memory >= 0 else None,
            }
            if isinstance(answer, StoppedAnswer):
                by_system[name]["written"] = answer.written
        rows.append({"id": pair.id, "reference": pair.target, "answers": by_system})
    return rows
