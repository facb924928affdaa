"""Training from Python: what `train.py` does, with callbacks.

from mrag_rl import Config, train

run = train(Config.load("quickstart", {"seed": 1}))
print(run.table)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mrag_rl.agents.callback import Callback, TrainingStopped
from mrag_rl.agents.run import continue_run, start_run
from mrag_rl.config import Config, validate_config
from mrag_rl.io import StrPath
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import models_at
from mrag_rl.runs.outcome import Run
from mrag_rl.runs.plugins import SETTINGS, load_own_plugins, load_trusted_plugins
from mrag_rl.runs.settings import check_data_files


def train(
    config: Config,
    *,
    runs: StrPath = "runs",
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    cluster: str | None = None,
    workers: int | None = None,
) -> Run:
    """Train both agents and the ablations, evaluate all systems, export the selector: a new run in `runs`/NAME.

    Args:
        callbacks: are told of the start, every batch, every round and the end, and may stop the run.
        progress: whether to say on standard error what is being done, with a progress bar.
        cluster, workers: a Ray cluster over which the models are spread (`mrag_rl.cluster.connected`, docs/cluster.md).

    Raises:
        InputError: a setting is wrong, a file is missing, or the run exists already (`resume` goes on with it).
    """
    validate_config(config)
    check_data_files(config.data)
    load_own_plugins(config)
    folder = RunFolder(Path(runs) / config.name)
    models = models_at(cluster, workers)
    return carry_out(
        folder,
        lambda: start_run(config, Path(runs), progress=progress, callbacks=callbacks, models=models),
        callbacks,
    )


def resume(
    run: StrPath,
    *,
    callbacks: Sequence[Callback] = (),
    trust: Sequence[str] = (),
    progress: bool = True,
    cluster: str | None = None,
    workers: int | None = None,
) -> Run:
    """Go on with a run that was stopped, however it was stopped, with the settings that it was started with.

    Args:
        trust: import paths of code that the run's settings name, which runs then (docs/plugins.md).
        cluster, workers: as in `train`; another number of workers, or none, may finish a run.

    Raises:
        InputError: there is no run, its files or plug-ins are not as they were left, or a plug-in is not in `trust`.
    """
    folder = RunFolder(Path(run))
    config = folder.load_config()
    load_trusted_plugins(config, trust, SETTINGS, folder.root)
    models = models_at(cluster, workers)
    return carry_out(
        folder,
        lambda: continue_run(folder, config, progress=progress, callbacks=callbacks, models=models),
        callbacks,
    )


def carry_out(folder: RunFolder, work: Callable[[], object], callbacks: Sequence[Callback]) -> Run:
    """Do the work of a run, tell the callbacks how it ended, and return what it has come to."""
    try:
        work()
        run = Run(folder.root)
    except TrainingStopped:
        run = Run(folder.root, stopped=True)
    for callback in callbacks:
        callback.on_end(run)
    return run
