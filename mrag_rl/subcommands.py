"""The subcommands of `evaluate.py`: each is a settings dataclass and a module that runs it.

The modules take long to import and are imported only when they run, so that `--help` and errors appear at once.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from mrag_rl.command_line import SettingsReader, as_command_of
from mrag_rl.config import Config
from mrag_rl.errors import InputError
from mrag_rl.experiments.settings import FiltersSettings, MultihopSettings, QuestionSettings, RetrievalSettings
from mrag_rl.runs.report_settings import ReportSettings
from mrag_rl.runs.settings import (
    AskSettings,
    CheckSettings,
    CompareSettings,
    GateSettings,
    PaperSettings,
    PoolSettings,
    SystemsSettings,
)
from mrag_rl.runs.share_settings import ExportSettings, PullSettings, PushSettings
from mrag_rl.runs.ui_settings import UISettings


@dataclass(frozen=True)
class Command:
    """One command: what it is for, its settings, and the module whose `run(settings)` returns the text to print."""

    purpose: str
    settings: type
    module: str
    positional: tuple[str, ...] = ()
    """Settings whose values may stand first, in this order, without their names."""


EVALUATIONS = {
    "systems": Command("compare all systems on a run's test pairs", SystemsSettings, "mrag_rl.runs.evaluate"),
    "check": Command(
        "check whether a run's files are as they were left", CheckSettings, "mrag_rl.runs.check", ("run",)
    ),
    "gate": Command("ask whether memories help on a corpus, before training", GateSettings, "mrag_rl.runs.gate"),
    "pool": Command("score several runs together", PoolSettings, "mrag_rl.runs.pool"),
    "compare": Command("compare runs of different settings", CompareSettings, "mrag_rl.runs.compare"),
    "paper": Command("make the tables of M-RAG's evaluation", PaperSettings, "mrag_rl.runs.paper", ("tables",)),
    "ask": Command("answer a text, or questions from documents, and show the steps", AskSettings, "mrag_rl.runs.ask"),
    "ui": Command("answer in a browser, with rights, filters and queries to edit", UISettings, "mrag_rl.ui", ("run",)),
    "report": Command(
        "write the report of a run, a page for a browser", ReportSettings, "mrag_rl.runs.report", ("run",)
    ),
    "retrieval": Command(
        "compare retrieval strategies on multi-aspect queries", RetrievalSettings, "mrag_rl.experiments.retrieval"
    ),
    "filters": Command("extract filters from questions and score them", FiltersSettings, "mrag_rl.experiments.filters"),
    "multihop": Command(
        "compare Multi-Meta-RAG and RAG-Fusion on multi-hop questions", MultihopSettings, "mrag_rl.experiments.multihop"
    ),
    "export": Command(
        "write a run's selector, or its memories, to a folder with a card",
        ExportSettings,
        "mrag_rl.runs.export",
        ("run",),
    ),
    "push": Command(
        "upload a selector or memories to the Hugging Face hub",
        PushSettings,
        "mrag_rl.runs.push",
        ("source", "repo_id"),
    ),
    "pull": Command(
        "download a selector or memories from the Hugging Face hub", PullSettings, "mrag_rl.runs.pull", ("repo_id",)
    ),
}
QUESTION = Command("answer questions from documents", QuestionSettings, "mrag_rl.experiments.questions")


def run_evaluation(arguments: Sequence[str], program: str) -> str:
    """Run the evaluation that the first argument names, with the settings in the others; returns the text to print.

    Raises InputError on bad input; ``--help`` prints and exits as argparse does.
    """
    name = next(iter(arguments), "")
    if name in ("--help", "-h"):
        print(_overview(program))
        sys.exit(0)
    if name not in EVALUATIONS:
        others = ("train", "sweep", "tune") if program == "mrag-rl" else ()
        commands = [*others, *EVALUATIONS]
        problem = f"unknown command {name}" if name else "no command"
        for meant in difflib.get_close_matches(name, commands, n=1):
            raise InputError(f"{problem}; did you mean {meant}? {program} --help lists all")
        raise InputError(f"{problem}; choose from {', '.join(commands)}, or see {program} --help")
    command, settings = _read(name, arguments[1:], f"{program} {name}")
    return str(importlib.import_module(command.module).run(settings))


def _read(name: str, arguments: Sequence[str], program: str) -> tuple[Command, Any]:
    """The command and its settings. `ask` is two commands: of a run, and of documents."""
    command = EVALUATIONS[name]
    reader: SettingsReader[Any] = SettingsReader(command.settings, program)
    first = list(zip(command.positional, takewhile(lambda value: not value.startswith("-"), arguments), strict=False))
    arguments = [*(part for key, value in first for part in (f"--{key}", value)), *arguments[len(first) :]]
    if name != "ask":
        settings = reader.read(arguments)[0]
        if isinstance(settings, Config):
            from mrag_rl.runs.plugins import load_own_plugins  # here, because it takes long to import

            load_own_plugins(settings, arguments)
        return command, settings
    options = {argument.partition("=")[0] for argument in arguments}
    documents: SettingsReader[Any] = SettingsReader(QUESTION.settings, program)
    if not options & {"--documents", "--index"}:
        if options & {"--help", "-h"}:
            reader.print_help()
            print()
            documents.print_help()
            sys.exit(0)
        if "--run" not in options:
            raise InputError("nothing to ask; give --run RUN, --documents FILE, or --index FOLDER")
        for option in sorted(options):
            if documents.has_option(option) and not reader.has_option(option):
                raise InputError(f"{option} goes with --documents or --index, not with --run; leave it out")
        return command, reader.read(arguments)[0]
    if "--run" in options:
        other = "--documents" if "--documents" in options else "--index"
        raise InputError(f"--run and {other} do not go together; give one of them")
    return QUESTION, documents.read(arguments)[0]


def _overview(program: str) -> str:
    width = max(map(len, EVALUATIONS)) + 2
    lines = [f"usage: {program} COMMAND [--key value ...]", "", "commands:"]
    lines += [f"  {name:<{width}}{command.purpose}" for name, command in EVALUATIONS.items()]
    lines += ["", f"{program} COMMAND --help lists the settings of a command.", "", "examples:"]
    for command in EVALUATIONS.values():
        documentation = inspect.getdoc(command.settings) or ""
        examples = documentation.partition("examples:\n")[2].splitlines()
        lines += [as_command_of(program, line, configs=True) for line in examples if "python evaluate.py" in line][:1]
    return "\n".join(lines)
