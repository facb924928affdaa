"""The command line of training: a new run, or one to resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrag_rl.command_line import option_values
from mrag_rl.config import Config, config_reader, load_config, validate_config
from mrag_rl.errors import InputError
from mrag_rl.runs.plugins import SETTINGS, load_own_plugins, load_trusted_plugins
from mrag_rl.runs.settings import check_data_files

_WITH_RESUME = ("--resume", "--trust", "--track", "--cluster", "--workers")


@dataclass(frozen=True)
class TrainArguments:
    """What to train: a new run of ``config`` under ``runs``, or, if ``resume`` is set, the rest of that run.

    ``track`` names trackers, ``cluster`` and ``workers`` say where the models are: neither is a part of the run.
    """

    config: Config
    runs: Path
    resume: Path | None
    track: tuple[str, ...] = ()
    cluster: str | None = None
    workers: int | None = None

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.resume or self.runs / self.config.name


def parse_train_arguments(arguments: Sequence[str], *, program: str = "train.py") -> TrainArguments:
    """Read the command line of training: ``--config FILE``, overrides, ``--runs DIR``, or ``--resume RUN``.

    With ``--resume RUN`` the configuration is ``RUN/config.yaml``; code that it names is imported only if ``--trust``
    names it, too, whereas that of the user's own configuration is imported. Raises InputError (one line) if anything is
    wrong; ``--help`` prints and exits as argparse does.
    """
    resume, track = _resume_folder(arguments), tuple(option_values(arguments, "--track"))
    where = _cluster(arguments)
    if resume is not None:
        config = load_config(resume / "config.yaml")
        load_trusted_plugins(config, [*option_values(arguments, "--trust")], SETTINGS, resume)
        return TrainArguments(config, resume.parent, resume, track, *where)
    config, flags = config_reader(program, runs=True).read(arguments)
    if flags["trust"] is not None:
        raise InputError("--trust goes with --resume: code that your own configuration names is imported anyway")
    validate_config(config)
    check_data_files(config.data)
    load_own_plugins(config, arguments)
    return TrainArguments(config, Path(flags["runs"]), None, track, *where)


def _cluster(arguments: Sequence[str]) -> tuple[str | None, int | None]:
    """The values of ``--cluster`` and ``--workers``, which `models_at` checks further."""
    address, workers = ([*option_values(arguments, option)] for option in ("--cluster", "--workers"))
    if workers and not workers[-1].isdecimal():
        raise InputError(f"--workers is {workers[-1]}; give a number of 1 or more")
    return (address[-1] if address else None), (int(workers[-1]) if workers else None)


def _resume_folder(arguments: Sequence[str]) -> Path | None:
    """The folder after ``--resume``, checked to hold a run, and no argument beside it but those of `_WITH_RESUME`."""
    folders = list(option_values(arguments, "--resume"))
    if not folders or "--help" in arguments or "-h" in arguments:
        return None
    for before, argument in zip(["", *arguments], arguments, strict=False):
        option = argument.split("=")[0]
        if option not in _WITH_RESUME and before not in _WITH_RESUME:
            raise InputError(f"--resume uses the run's own settings; leave out {option}")
    folder = Path(folders[-1])
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder; give the folder that train.py made, such as runs/quickstart")
    if not (folder / "config.yaml").is_file():
        raise InputError(
            f"{folder}: no config.yaml in it, so there is no run to resume; give a folder that train.py made"
        )
    return folder
