"""A run from configuration to results: prepare, train both agents and their ablations, export, evaluate.

Each stage is written whole or not at all and is passed over once complete, so a run goes on after any stop and ends
with the same database, selector and results as one that was never stopped.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.heuristics import Agent, GreedyCandidate, NearestPartition
from mrag_rl.agents.joint import JointTraining, train_jointly
from mrag_rl.config import Config, DataConfig, config_to_yaml
from mrag_rl.data import Splits, TextPair, load_pairs, load_splits, save_pairs, split_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.envs.memory_refinement import pair_text
from mrag_rl.envs.partition_selection import state_size
from mrag_rl.errors import InputError
from mrag_rl.evaluation.plots import label_by_partition, learning_curves, reward_by_partition
from mrag_rl.evaluation.results import versions
from mrag_rl.generation.llm import LLM
from mrag_rl.io import atomic_directory, remove_leftovers
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.models.quantization import weight_bytes
from mrag_rl.partitioning import Partitioning, fit_partitioning
from mrag_rl.runs.evaluate import (
    ABLATION_OF,
    Evaluation,
    evaluate_run,
    label_counts,
    systems_of,
    target_metric,
    write_results,
)
from mrag_rl.runs.folder import RunFolder, Stages, load_encoder, load_llm, locked, with_cache
from mrag_rl.selector import SelectorInfo
from mrag_rl.selector_export import export_selector

QUERY_SPLITS = ("train", "dev", "test")


def start_run(config: Config, runs: Path, *, progress: bool = True) -> RunFolder:
    """Make the run folder `runs`/NAME and carry the run out.

    Raises:
        InputError: the folder exists, or something the configuration names cannot be used; then nothing is left behind.
    """
    folder = RunFolder(runs / config.name)
    if runs.exists() and not runs.is_dir():
        raise InputError(f"{runs}: not a folder, so no runs can go there; choose another one with --runs")
    if folder.root.exists():
        raise InputError(
            f"{folder.root}: exists already; go on with it (--resume {folder.root}), "
            "choose another --name, or remove it"
        )
    made = _make_folder(folder, config)
    try:
        return continue_run(folder, config, progress=progress)
    except InputError:
        # What the configuration names is checked before anything is written; later errors leave a run to go on with.
        if [path.name for path in folder.root.iterdir()] == [folder.config.name]:
            shutil.rmtree(made, ignore_errors=True)
        raise


def continue_run(folder: RunFolder, config: Config, *, progress: bool = True) -> RunFolder:
    """Carry out the stages of a run that are not complete.

    Raises:
        InputError: something the configuration names cannot be used, a file cannot be written, or another process is
            at work on the run.
    """
    with locked(folder):
        return _continue(folder, config, progress=progress)


def _continue(folder: RunFolder, config: Config, *, progress: bool) -> RunFolder:
    stages = Stages(folder, config)
    if stages.done("evaluate"):
        return folder
    remove_leftovers(folder.root)
    # Data first: a mistake there should not wait for a large model to load.
    splits = None if stages.done("prepare") else splits_of(config.data, config.task)
    encoder = load_encoder(config)
    llm = load_llm(config.llm)
    _say(f"{config.name}: the language model's weights take {weight_bytes(llm.model) / 2**20:,.0f} MiB", progress)
    if splits is not None:
        _say(f"{config.name}: preparing data, embeddings and databases", progress)
        if repeated := splits.known_sources():
            _say(f"{config.name}: {repeated} queries have a source that is in the database too", progress)
        stages.finish("prepare", _prepare(folder, config, splits, encoder, progress=progress))
    with with_cache(llm, folder, config.llm) as cached:
        for stage, variant in _trainings(config).items():
            if not stages.done(stage):
                _say(f"{config.name}: training m_rag{f'_{variant}' if variant else ''}", progress)
                with stages.metered(llm.usage) as work:
                    seconds = _train(folder, variant, config, encoder, cached, progress=progress)
                stages.finish(stage, seconds, work)
        _say(f"{config.name}: evaluating on the test set", progress)
        with stages.metered(llm.usage) as work:
            evaluation = evaluate_run(folder, config, cached, systems_of(config))
        _report(folder, config, stages, evaluation, work)
    return folder


def splits_of(data: DataConfig, task: str) -> Splits:
    """The memories and queries a configuration names. Raises InputError naming the file and line at fault."""
    if data.world:
        return make_newsroom(task, seed=data.world_seed, **asdict(data.sizes))
    if data.pairs is not None:
        return split_pairs(load_pairs(data.pairs), **asdict(data.fractions), group=data.group, seed=data.world_seed)
    return load_splits(**asdict(data.files))


def _make_folder(folder: RunFolder, config: Config) -> Path:
    """The run folder with its configuration, at once; returns the topmost folder that was made for it."""
    made = folder.root
    while not made.parent.exists():
        made = made.parent
    folder.root.parent.mkdir(parents=True, exist_ok=True)
    with atomic_directory(folder.root) as temporary:
        (temporary / folder.config.name).write_text(config_to_yaml(config), encoding="utf-8")
    return made


# -- prepare -----------------------------------------------------------------------------------------------------------


def _prepare(
    folder: RunFolder, config: Config, splits: Splits, encoder: TransformerEncoder, *, progress: bool
) -> dict[str, float]:
    """Queries, their embeddings, and one unrefined database for each training. Returns seconds."""
    start = time.perf_counter()
    with _spent() as encoding:
        memories = encoder.encode([pair.source for pair in splits.database], progress=progress)
        pairs = None
        if config.state == "peeking":
            pairs = encoder.encode([pair_text(pair.source, pair.target) for pair in splits.database])
    with _spent() as indexing:
        labels = [pair.labels for pair in splits.database]
        partitioning = fit_partitioning(
            config.partitioning.method,
            memories.standard,
            labels=labels,
            partitions=config.partitioning.partitions,
            seed=config.seed,
        )
        whole = fit_partitioning("none", memories.standard, seed=config.seed)
    for split in QUERY_SPLITS:
        queries: list[TextPair] = getattr(splits, split)
        folder.pairs(split).parent.mkdir(exist_ok=True)
        folder.embeddings(split).parent.mkdir(exist_ok=True)
        save_pairs(folder.pairs(split), queries)
        with _spent() as more:
            encoder.encode([pair.source for pair in queries]).save(folder.embeddings(split))
        encoding["seconds"] += more["seconds"]

    def create(target: RunFolder, chosen: Partitioning) -> None:
        shutil.rmtree(target.database, ignore_errors=True)  # of an interrupted preparation
        target.root.mkdir(parents=True, exist_ok=True)
        MemoryDatabase.create(
            target.database,
            splits.database,
            memories,
            chosen,
            encoder_fingerprint=encoder.fingerprint,
            pair_embeddings=pairs,
        ).close()

    with _spent() as more:
        create(folder, partitioning)
        if "train_without_s" in _trainings(config):
            create(folder.ablation("without_s"), whole)
        if "train_without_r" in _trainings(config):
            create(folder.ablation("without_r"), partitioning)
    indexing["seconds"] += more["seconds"]
    return {"encode": encoding["seconds"], "index": indexing["seconds"], "total": time.perf_counter() - start}


# -- train -------------------------------------------------------------------------------------------------------------


def _trainings(config: Config) -> dict[str, str]:
    """The trainings of a run: stage name to variant, "" for M-RAG itself."""
    chosen = {"train": ""}
    for system, variant in ABLATION_OF.items():
        if system in systems_of(config):
            chosen[f"train_{variant}"] = variant
    return chosen


def _train(
    run: RunFolder, variant: str, config: Config, encoder: TransformerEncoder, llm: LLM, *, progress: bool
) -> dict[str, float]:
    """Train M-RAG or one of the paper's ablations (Table 4), and export its selector. Returns seconds.

    Without Agent-S there is one partition and nothing to select; without Agent-R the candidate most similar to the
    hypothesis is tried (the paper's greedy rule).
    """
    folder = run.ablation(variant) if variant else run
    dtype = config.refinement.dtype
    candidate_encoder = load_encoder(config, dtype) if dtype != "float32" else None
    splits = {split: load_pairs(run.pairs(split)) for split in ("train", "dev")}
    embeddings = {split: Embeddings.load(run.embeddings(split)) for split in splits}
    with MemoryDatabase.open(folder.database) as database:
        agent_s: Agent
        if variant == "without_s":
            agent_s = NearestPartition(database.partitions)
        else:
            agent_s = DQNAgent(
                state_size(database, config.state), database.partitions, config.agent_s, _seed(config.seed, "s")
            )
        agent_r: Agent = GreedyCandidate()
        if variant != "without_r":
            candidates = config.refinement.candidates
            agent_r = DQNAgent(candidates, candidates, config.agent_r, _seed(config.seed, "r"))
        result = train_jointly(
            database,
            splits["train"],
            embeddings["train"],
            splits["dev"],
            embeddings["dev"],
            encoder=encoder,
            llm=llm,
            metric=get_metric(target_metric(config)),
            task=config.prompt_task,
            agent_s=agent_s,
            agent_r=agent_r,
            settings=_joint_training(config),
            run_folder=folder.root,
            candidate_encoder=candidate_encoder,
            progress=progress,
        )
        if isinstance(agent_s, DQNAgent):
            info = SelectorInfo(
                state=config.state,
                partition_names=tuple(database.names),
                task=config.task,
                metric=target_metric(config),
                encoder=config.encoder.name,
                encoder_fingerprint=encoder.fingerprint,
                encoder_layer=config.encoder.layer,
                encoder_pooling=config.encoder.pooling,
                versions=versions(),
            )
            export_selector(folder.selector, weights=agent_s.weights(), normalizer=result.normalizer, info=info)
    return result.seconds


def _joint_training(config: Config) -> JointTraining:
    return JointTraining(
        rounds=config.training.rounds,
        slots=config.training.slots,
        selection_steps=config.training.selection_steps,
        state=config.state,
        reward=config.reward,
        candidates=config.refinement.candidates,
        refinement_steps=config.refinement.steps,
        temperature=config.refinement.temperature,
        consolidate=config.refinement.consolidate,
        evidence=config.refinement.evidence,
        patience=config.training.patience,
        checkpoint_every=config.training.checkpoint_every,
        max_new_tokens=config.llm.max_new_tokens,
        seed=config.seed,
    )


def _seed(seed: int, agent: str) -> int:
    """A seed of its own for each agent."""
    return int(np.random.SeedSequence([seed, ord(agent)]).generate_state(1)[0])


# -- evaluate ----------------------------------------------------------------------------------------------------------


def _report(
    folder: RunFolder, config: Config, stages: Stages, evaluation: Evaluation, work: dict[str, int]
) -> dict[str, Any]:
    """Write plots and results, and mark the run complete."""
    _plots(folder, evaluation)
    usage = {name: stages.llm().get(name, 0) + count for name, count in work.items()}
    seconds = stages.seconds()
    for part, value in evaluation.seconds.items():
        seconds[part] = seconds.get(part, 0.0) + value
    found = write_results(folder, folder.root, config, evaluation, seconds=seconds, usage=usage)
    stages.finish("evaluate", evaluation.seconds, work)
    return found


def _plots(folder: RunFolder, evaluation: Evaluation) -> None:
    with MemoryDatabase.open(folder.database) as database:
        names = database.names
    records = [json.loads(line) for line in folder.log.read_text(encoding="utf-8").splitlines()]
    batches = [record for record in records if record["kind"] == "batch"]
    rounds = [record for record in records if record["kind"] == "round"]
    series = {
        "Agent-S's reward": [(record["step"], record["reward_s"]) for record in batches],
        "Agent-R's reward": [(record["step"], record["reward_r"]) for record in batches],
        "first answer's score": [(record["step"], record["first_score"]) for record in batches],
        "refined answer's score": [(record["step"], record["final_score"]) for record in batches],
        "score on dev": [(record["step"], record["dev"]) for record in rounds],
    }
    learning_curves(folder.plots, "learning_curves", series, xlabel="step")
    counts = np.array([record["partition_counts"] for record in batches])
    sums = np.array([record["partition_rewards"] for record in batches])
    reward_by_partition(folder.plots, "reward_by_partition", counts, sums, names)
    if "m_rag" in evaluation.answers:
        labels, chosen = label_counts(load_pairs(folder.pairs("test")), evaluation.answers["m_rag"], len(names))
        if labels:
            label_by_partition(folder.plots, "label_by_partition", chosen, labels, names)


def _say(line: str, progress: bool) -> None:
    if progress:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def _spent() -> Iterator[dict[str, float]]:
    start, spent = time.perf_counter(), {"seconds": 0.0}
    yield spent
    spent["seconds"] = time.perf_counter() - start
