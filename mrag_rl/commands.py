"""The commands `train.py`, `evaluate.py` and `mrag-rl`.

What they need is imported when they run, so that a missing extra is reported in one line by every command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mrag_rl.command_line import as_command_of, run_command

if TYPE_CHECKING:
    from mrag_rl.config import Config
    from mrag_rl.runs.arguments import TrainArguments
    from mrag_rl.runs.settings import SeveralRuns
    from mrag_rl.runs.sweep import Sweep
    from mrag_rl.runs.tune import Tuning

Planned = TypeVar("Planned", "Sweep", "Tuning")

USAGE = """\
usage: mrag-rl COMMAND [--key value ...]

commands that train:
  train      train both agents jointly, or resume a run
  sweep      train every combination of a grid of settings
  tune       search a space of settings by training

commands that evaluate:
  systems    compare all systems on a run's test pairs
  check      check whether a run's files are as they were left
  report     write the report of a run, a page for a browser
  gate       ask whether memories help on a corpus, before training
  pool       score several runs together
  compare    compare runs of different settings
  paper      make the tables of M-RAG's evaluation
  ask        answer a text, or questions from documents, and show the steps
  ui         answer in a browser, with rights, filters and queries to edit
  retrieval  compare retrieval strategies on multi-aspect queries
  filters    extract filters from questions and score them
  multihop   compare Multi-Meta-RAG and RAG-Fusion on multi-hop questions

commands that share selectors and memories:
  export     write a run's selector, or its memories, to a folder with a card
  push       upload a selector or memories to the Hugging Face hub
  pull       download a selector or memories from the Hugging Face hub

The same as train.py and evaluate.py of a checkout; mrag-rl COMMAND --help lists the settings of a command.

  mrag-rl train --config quickstart
  mrag-rl ask --run runs/quickstart --text "..."
"""
_RUNS_ARE_KEPT = "the runs are kept: the same command again goes on with them"


def main(argv: Sequence[str] | None = None) -> int:
    """`mrag-rl COMMAND ...`; returns the exit status."""
    command_line = list(sys.argv[1:] if argv is None else argv)
    name, arguments = next(iter(command_line), ""), command_line[1:]
    if name in ("", "--help", "-h"):
        print(USAGE, file=sys.stdout if name else sys.stderr)
        return 0 if name else 2
    if name == "train":
        return train(arguments, program="mrag-rl train")
    if name == "sweep":
        return sweep(arguments, program="mrag-rl sweep")
    if name == "tune":
        return tune(arguments, program="mrag-rl tune")
    if name == "evaluate":
        return evaluate(arguments, program="mrag-rl evaluate")
    return evaluate(command_line, program="mrag-rl")


def train(argv: Sequence[str] | None = None, *, program: str = "train.py", beside: int = 1) -> int:
    """Train both agents jointly, or resume a run; returns the exit status: 0, 2 on bad input, 130 when interrupted.

    beside: see `mrag_rl.cluster.connected`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["sweep"]:
        return sweep(arguments[1:], program=f"{program} sweep")
    if arguments[:1] == ["tune"]:
        return tune(arguments[1:], program=f"{program} tune")
    request: TrainArguments | None = None

    def work() -> str:
        nonlocal request
        from mrag_rl.runs.arguments import parse_train_arguments

        request = parse_train_arguments(arguments, program=program)
        from mrag_rl.agents.run import continue_run, start_run
        from mrag_rl.runs.estimate import work as work_of
        from mrag_rl.runs.folder import RunFolder
        from mrag_rl.runs.models import models_at
        from mrag_rl.runs.plugins import TO_ANSWER
        from mrag_rl.trackers import trackers_named
        from mrag_rl.training import carry_out

        config, runs, folder, trackers = (
            request.config,
            request.runs,
            RunFolder(request.run),
            trackers_named(request.track),
        )
        models = models_at(request.cluster, request.workers, beside)
        if request.resume is None:
            if (counted := work_of([config])) is not None:
                print(f"to do: {counted}", file=sys.stderr)
            run = carry_out(folder, lambda: start_run(config, runs, callbacks=trackers, models=models), trackers)
        else:
            run = carry_out(folder, lambda: continue_run(folder, config, callbacks=trackers, models=models), trackers)
        question = f'python evaluate.py ask --run {run.folder} --text "..."{_trust(config, *TO_ANSWER)}'
        return f"{run.table}\nEverything is in {run.folder}; try: {as_command_of(program, question)}"

    def stopped() -> str:
        if request is None or not request.run.is_dir():
            return "nothing was written"
        kept = [f" --track {name}" for name in request.track]
        kept += [] if request.cluster is None else [f" --cluster {request.cluster}"]
        kept += [] if request.workers is None else [f" --workers {request.workers}"]
        return f"resume with: python train.py --resume {request.run}{_trust(request.config)}{''.join(kept)}"

    return run_command(work, stopped, lambda: None if request is None else request.run, program=program)


def _trust(config: Config, *settings: str) -> str:
    """The options that let a run's own code be imported again: that of all settings, or of these."""
    paths = dict.fromkeys(path for setting, path in config.plugins.items() if not settings or setting in settings)
    return "".join(f" --trust {path}" for path in paths)


def sweep(argv: Sequence[str], *, program: str = "train.py sweep") -> int:
    """Train every combination of a grid; returns the exit status: 0, 2 on bad input or a failed run, 130 when
    interrupted."""

    def work() -> str:
        from mrag_rl.runs.sweep import plan_sweep, run_sweep

        return _carry_out(*plan_sweep(argv, program=program), run_sweep)

    return run_command(work, lambda: _RUNS_ARE_KEPT, program=program)


def tune(argv: Sequence[str], *, program: str = "train.py tune") -> int:
    """Search a space of settings by training; returns the exit status: 0, 2 on bad input or a failed run, 130 when
    interrupted."""

    def work() -> str:
        from mrag_rl.runs.tune import plan_tuning, run_tuning

        return _carry_out(*plan_tuning(argv, program=program), run_tuning)

    return run_command(work, lambda: _RUNS_ARE_KEPT, program=program)


def _carry_out(planned: Planned, settings: SeveralRuns, run: Callable[[Planned], str]) -> str:
    """Say what is planned and, unless that is all that was asked for, do it; returns the text to print."""
    if settings.plan:
        return planned.plan()
    print(planned.plan(), file=sys.stderr)
    return f"{run(planned)}\nEverything is in {planned.folder}."


def train_only(argv: Sequence[str], *, beside: int = 1) -> int:
    """``--resume RUN`` of `train` without the final evaluation, for the runs of `tune`; returns the exit status."""

    def work() -> str:
        from mrag_rl.runs.arguments import parse_train_arguments

        request = parse_train_arguments(argv)
        from mrag_rl.agents.run import continue_run
        from mrag_rl.runs.folder import RunFolder
        from mrag_rl.runs.models import models_at

        models = models_at(request.cluster, request.workers, beside)
        continue_run(RunFolder(request.run), request.config, evaluate=False, models=models)
        return ""

    return run_command(work, lambda: "it resumes from here")


def evaluate(argv: Sequence[str] | None = None, *, program: str = "evaluate.py") -> int:
    """Run an evaluation of `mrag_rl.subcommands`; returns the exit status: 0, 2 on bad input, 130 when interrupted."""

    def work() -> str:
        from mrag_rl.subcommands import run_evaluation

        return run_evaluation(sys.argv[1:] if argv is None else argv, program)

    return run_command(work, lambda: "nothing is lost: run the same command again", program=program)
