"""The command line of `python -m lm.train`."""

from __future__ import annotations

import argparse
from pathlib import Path

from lm.news_hints import LAYERS
from mrag_rl.data.synthetic.newsroom import TASKS
from mrag_rl.data_config import DataConfig
from mrag_rl.errors import InputError
from mrag_rl.retrieval.exact import quick_type

# Defaults of each bundled world, for settings that the command line does not give.
DEFAULTS = {
    "newsroom": {
        "steps": 1200, "batch": 32, "width": 192, "vocabulary": 3072, "max_tokens": 512, "learning_rate": 1.5e-3,
        "optimizer": "adamw", "layers": 4,
    },
    "news": {
        "steps": 3500, "batch": 8, "width": 256, "vocabulary": 4096, "max_tokens": 1536, "learning_rate": 1.5e-3,
        "optimizer": "muon", "layers": LAYERS,
    },
}  # fmt: skip
HEAD_WIDTHS = {"newsroom": 32, "news": 64}


def parse_arguments(description: str | None) -> argparse.Namespace:
    """The command line; settings that it does not give are the world's defaults."""
    parser = argparse.ArgumentParser(
        prog="python -m lm.train",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--pairs",
        type=Path,
        help="JSONL file of your own pairs, without those that you will test on; by default a bundled world is used",
    )
    parser.add_argument(
        "--world",
        choices=tuple(DEFAULTS),
        default="newsroom",
        help="what to learn without --pairs, and whose defaults to use (%(default)s)",
    )
    parser.add_argument("--task", choices=TASKS, help="the task of --pairs")
    parser.add_argument(
        "--languages",
        nargs=2,
        metavar=("FROM", "TO"),
        default=DataConfig.languages,
        help="languages of the task translation, by their English names: data.languages of later runs (%(default)s)",
    )
    parser.add_argument(
        "--group",
        help="regular expression on the ids of --pairs whose first group names the event or dialogue, which is held "
        "out as a whole or not at all: data.group of later runs, such as '^([^.]+)'",
    )
    parser.add_argument(
        "--start",
        type=Path,
        help="folder of a model that this command wrote, with whose weights and vocabulary to begin; its width counts; "
        "layers that it lacks are put into its middle, where they change nothing at first; passages are whole at once",
    )
    for name, kind, meaning in (
        ("steps", int, "optimizer steps"),
        ("batch", int, "sequences in a step"),
        ("width", int, "hidden size of the model"),
        ("layers", int, "decoder layers"),
        ("vocabulary", int, "maximum number of tokens in the vocabulary"),
        ("max_tokens", int, "maximum number of tokens in a sequence; longer ones are dropped"),
        ("learning_rate", float, "peak learning rate, reached after 4%% of the steps"),
    ):
        default = f"{DEFAULTS['newsroom'][name]}; news: {DEFAULTS['news'][name]}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"{meaning} ({default})")
    parser.add_argument(
        "--optimizer",
        choices=("adamw", "muon"),
        help=f"muon needs fewer steps ({DEFAULTS['newsroom']['optimizer']}; news: {DEFAULTS['news']['optimizer']})",
    )
    add_precision(parser)
    parser.add_argument("--checkpoint-every", type=int, default=250, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and the sequences (%(default)s)")
    arguments = parser.parse_args()
    for name, value in DEFAULTS[arguments.world].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return arguments


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add `--precision`."""
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default=str(quick_type()).removeprefix("torch."),
        help="precision of matrix products; bfloat16 where the processor multiplies it (here %(default)s)",
    )


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises InputError if settings are out of range or contradict each other, or if the output exists."""
    if arguments.pairs and arguments.world == "news":
        raise InputError("--world news and --pairs do not go together; leave out one of them")
    if (arguments.pairs is None) != (arguments.task is None):
        raise InputError("--pairs and --task go together; give both, or neither for the bundled newsroom")
    for name in ("steps", "batch", "width", "layers", "vocabulary", "max_tokens", "checkpoint_every"):
        if getattr(arguments, name) < 1:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(arguments, name)}; give 1 or more")
    head_width = HEAD_WIDTHS[arguments.world]
    if arguments.width % head_width:
        raise InputError(f"--width is {arguments.width}; give a multiple of {head_width}, the width of a head")
    if arguments.start and not (arguments.start / "config.json").is_file():
        raise InputError(f"--start {arguments.start} has no config.json; give the folder of a model")
    if arguments.output.exists():
        raise InputError(f"{arguments.output} exists; remove it or give another --output")
