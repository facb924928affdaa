"""A run from configuration to results: prepare, train both agents and their ablations, export, evaluate.

A stage is skipped once it is complete, and an interrupted training resumes from its last checkpoint, so a run resumes
after any stop and ends with the same database, selector and results as one that was never stopped.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mrag_rl.agents.callback import Callback
from mrag_rl.agents.preparation import Preparation
from mrag_rl.agents.training_stage import TrainingStage
from mrag_rl.cautions import cautions
from mrag_rl.choices import ABLATION_OF, READ_LIKELIHOODS
from mrag_rl.config import Config, config_sha256, config_to_yaml
from mrag_rl.data.splits import Splits
from mrag_rl.encoders import EmbeddingStore, RunEncoder
from mrag_rl.encoders.store import BLOCK
from mrag_rl.errors import InputError
from mrag_rl.generation.batched_llm import BatchedLLM
from mrag_rl.generation.llm import LLM
from mrag_rl.io import remove_leftovers
from mrag_rl.memory.trust import trust
from mrag_rl.runs.evaluate import evaluate_run, target_metric, write_results
from mrag_rl.runs.folder import RunFolder, locked
from mrag_rl.runs.models import ModelsOf, Report, RunModels, make_writer, models_at, with_cache, with_kept_vectors
from mrag_rl.runs.plugins import loaded_plugins
from mrag_rl.runs.report import write_report
from mrag_rl.runs.report_parts import REPORT
from mrag_rl.runs.stages import Stages


@dataclass(frozen=True)
class RunPlan:
    """A configuration, resolved into the stages of its run.

    Attributes:
        config: what the models are loaded by, and what the final evaluation reads.
        sha256: the configuration's hash, under which stages are recorded.
        systems: names of the systems that the final evaluation compares.
    """

    config: Config
    sha256: str
    preparation: Preparation
    trainings: tuple[TrainingStage, ...]
    systems: tuple[str, ...]

    @property
    def reads_log_probabilities(self) -> bool:
        """Whether a training or a compared system asks the language model for log-probabilities."""
        trained = "likely_r" in [training.ablation for training in self.trainings]
        of_refinement = self.config.refinement.state == "candidates_and_likelihood"
        return of_refinement or trained or not set(READ_LIKELIHOODS).isdisjoint(self.systems)

    @classmethod
    def of(cls, config: Config) -> RunPlan:
        """The plan of a configuration's run."""
        systems, metric = config.compared, target_metric(config)
        ablations = [ablation for system, ablation in ABLATION_OF.items() if system in systems]
        return cls(
            config=config,
            sha256=config_sha256(config),
            preparation=Preparation(
                data=config.data,
                task=config.task,
                partitioning=config.partitioning,
                state=config.state,
                ablations=ablations,
                seed=config.seed,
                store=config.store,
            ),
            trainings=tuple(
                TrainingStage(
                    ablation=ablation,
                    task=config.task,
                    metric=metric,
                    state=config.state,
                    reward=config.reward,
                    agent_s=config.agent_s,
                    agent_r=config.agent_r,
                    refinement=config.refinement,
                    training=config.training,
                    encoder=config.encoder,
                    seed=config.seed,
                )
                for ablation in (None, *ablations)
            ),
            systems=systems,
        )


def start_run(
    config: Config,
    runs: Path,
    *,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    models: ModelsOf | None = None,
) -> RunFolder:
    """Make the run folder `runs`/NAME and carry the run out.

    models: where they are, this process by default.

    Raises:
        TrainingStopped: a callback stopped it; `continue_run` goes on.
        InputError: the folder exists, or something the configuration names cannot be used. Nothing is left behind
            unless work had begun.
    """
    if config.store is not None:
        trust(config.store)  # The settings are this command's, not those of a folder
    folder = RunFolder(runs / config.name)
    if runs.exists() and not runs.is_dir():
        raise InputError(f"{runs}: not a folder, so it cannot hold runs; choose another one with --runs")
    made = [parent for parent in (runs, *runs.parents) if not parent.exists()]  # the innermost first
    try:
        if folder.root.exists():
            raise FileExistsError
        folder.create(config_to_yaml(config))
    except FileExistsError as error:
        raise InputError(
            f"{folder.root}: exists already; resume it (--resume {folder.root}), choose another --name, or remove it"
        ) from error
    with locked(folder):
        try:
            _continue(folder, config, progress=progress, evaluate=True, callbacks=callbacks, models=models)
        except InputError:
            # What the configuration names is checked before anything is written; later errors leave a run to resume.
            if {path.name for path in folder.root.iterdir()} <= {folder.config.name, folder.state.name}:
                _remove_empty_run(folder, made)
            raise
    return folder


def continue_run(
    folder: RunFolder,
    config: Config,
    *,
    progress: bool = True,
    evaluate: bool = True,
    callbacks: Sequence[Callback] = (),
    models: ModelsOf | None = None,
) -> RunFolder:
    """Carry out the stages of a run that are not complete.

    Args:
        evaluate: whether to go on after training, to the final evaluation on the test queries.
        callbacks: are told of the start, and of every batch and round of the trainings.
        models: where they are, this process by default.

    Raises:
        TrainingStopped: a callback stopped it.
        InputError: something the configuration names cannot be used, a file cannot be written, or another process is
            working on the run.
    """
    with locked(folder):
        _continue(folder, config, progress=progress, evaluate=evaluate, callbacks=callbacks, models=models)
    return folder


def _continue(
    folder: RunFolder,
    config: Config,
    *,
    progress: bool,
    evaluate: bool,
    callbacks: Sequence[Callback],
    models: ModelsOf | None,
) -> None:
    """`continue_run` of a run that this process has locked."""
    plan = RunPlan.of(config)
    stages = Stages(folder, plan.sha256)
    stages.check()
    complete = stages.done("evaluate" if evaluate else plan.trainings[-1].name)
    if not complete:
        remove_leftovers(folder.root)
        _carry_out(
            plan,
            folder,
            stages,
            progress=progress,
            evaluate=evaluate,
            callbacks=callbacks,
            models=models or models_at(None),
        )
    if evaluate and not (folder.root / REPORT).exists():
        write_report(folder, config, folder.root)
    elif complete:
        _say(config, "complete already; nothing is left to do", progress)


def _say(config: Config, line: str, progress: bool) -> None:
    if progress:
        print(f"{config.name}: {line}", file=sys.stderr, flush=True)


def _remove_empty_run(folder: RunFolder, made: Sequence[Path]) -> None:
    """Remove a run in which no work has begun, and the folders that were made for it, unless others use them."""
    shutil.rmtree(folder.root, ignore_errors=True)
    with suppress(OSError):  # that of a folder that is not empty
        for path in made:
            path.rmdir()


def _carry_out(
    plan: RunPlan,
    folder: RunFolder,
    stages: Stages,
    *,
    progress: bool,
    evaluate: bool,
    callbacks: Sequence[Callback],
    models: ModelsOf,
) -> None:
    """The stages that are not complete, in order, with or without the evaluation."""

    say = partial(_say, plan.config, progress=progress)
    own = loaded_plugins(plan.config)
    for setting, plugin in own.items():
        say(f"{setting} is {plugin.path}, code of your own in {plugin.file}")
    # Data first: a mistake there should not wait for a large model to load.
    splits = None if stages.done("prepare") else plan.preparation.read()
    with models(plan.config, say) as loaded:
        stages.begin(_begin(plan, loaded, say) | {role: plugin.sha256 for role, plugin in own.items()})
        for callback in callbacks:
            callback.on_start(folder.root, plan.config)
        if splits is not None:
            _prepare(plan, folder, stages, splits, loaded.encoder, say, progress=progress)
        shutil.rmtree(folder.encoded, ignore_errors=True)
        with with_cache(loaded.llm, plan.config.llm, folder.cache, progress=progress) as cached:
            writer = make_writer(plan.config, cached)
            for training in plan.trainings:
                if stages.done(training.name):
                    say(f"{training.system} is trained already")
                    continue
                say(f"training {training.system}")
                with stages.metered(cached.usage) as work, with_kept_vectors(plan.config.encoder) as kept:
                    encoders = kept(loaded.encoder), kept(loaded.candidate_encoder)
                    seconds = training.carry_out(folder, *encoders, writer, progress=progress, callbacks=callbacks)
                stages.finish(training.name, seconds, work)
            if evaluate:
                say("evaluating on the test set")
                _evaluate(plan, folder, stages, cached)


def _begin(plan: RunPlan, models: RunModels, say: Report) -> dict[str, str]:
    """Load the models; returns the fingerprints of those that have to stay the same."""
    config, encoder, llm = plan.config, models.encoder, models.llm
    if isinstance(llm, BatchedLLM):
        say(f"the language model's weights take {llm.weight_bytes / 2**20:,.0f} MiB")
    if config.llm.server is not None and plan.reads_log_probabilities:
        say("asking whether the server has log-probabilities")
        make_writer(config, llm).log_probabilities(["A"], [()], [["B"]])  # An error now, not after hours of training
    # Another server, or the same one restarted, may finish a run; see docs/servers.md.
    of_llm = {} if config.llm.server is not None else {"llm": llm.fingerprint}
    return {"encoder": encoder.fingerprint, **of_llm}


def _prepare(
    plan: RunPlan,
    folder: RunFolder,
    stages: Stages,
    splits: Splits,
    encoder: RunEncoder,
    say: Report,
    *,
    progress: bool,
) -> None:
    """Data, embeddings and databases of the run."""
    settings = plan.config
    for warning in cautions(settings, len(splits.test)):
        say(f"warning: {warning}")
    if splits.too_long:
        say(f"{splits.too_long:,} pairs are left out, longer than data.max_source_words or data.max_target_words")
    if splits.copies:
        say(f"{splits.copies:,} pairs are left out, copies of others (data.deduplicate)")
    say("preparing data, embeddings and databases")
    # More than a block is so much that a run should not encode it again
    kept = settings.encoder.cache_folder or (folder.encoded if len(splits.database) > BLOCK else None)
    store = encoder if kept is None else EmbeddingStore(encoder, Path(kept))
    if repeated := splits.known_sources():
        say(f"{repeated} queries have a source that is in the database too")
    if repeated := splits.trained_sources():
        say(f"{repeated} test queries have a source that is a training query's too")
    stages.finish("prepare", plan.preparation.carry_out(folder, splits, store, progress=progress))


def _evaluate(plan: RunPlan, folder: RunFolder, stages: Stages, llm: LLM) -> None:
    """The final evaluation: answers and results; marks the run complete."""
    with stages.metered(llm.usage) as work:
        evaluation = evaluate_run(folder, plan.config, llm, plan.systems)
    usage = {name: stages.llm().get(name, 0) + count for name, count in work.items()}
    seconds = _sum_by_part(stages.seconds(), evaluation.seconds)
    write_results(folder, folder.root, plan.config, evaluation, config_sha256=plan.sha256, seconds=seconds, usage=usage)
    stages.finish("evaluate", evaluation.seconds, work)


def _sum_by_part(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {part: first.get(part, 0.0) + second.get(part, 0.0) for part in {**first, **second}}
