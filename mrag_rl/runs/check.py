"""Whether a run's files are as its stages left them: what is damaged, and what can be saved."""

from __future__ import annotations

from pathlib import Path

from mrag_rl.config import config_sha256
from mrag_rl.errors import InputError
from mrag_rl.generation.cache import entries
from mrag_rl.runs.folder import RunFolder, locked
from mrag_rl.runs.settings import CheckSettings
from mrag_rl.runs.stages import Stages

_AGAIN = {
    "prepare": "start another run; with its language model's texts (--llm.cache_file {cache}) it need not write again",
    "train": "restore a copy, or start another run; with --llm.cache_file {cache} it need not write again",
    "evaluate": "evaluate.py systems --run {run} makes answers and results again",
}


def run(settings: CheckSettings) -> str:
    """What `evaluate.py check` prints, if nothing is damaged; otherwise it is printed before the error.

    Raises InputError if there is no run, another process is working on it, or something is damaged.
    """
    folder = RunFolder(Path(settings.run))
    config = folder.load_config()
    lines, damaged = [], 0
    with locked(folder):
        stages = Stages(folder, config_sha256(config))
        for stage, problems in stages.damages().items():
            damaged += len(problems)
            lines.append(f"{stage}: {'damaged' if problems else 'as it was left'}")
            lines += [f"  {problem}" for problem in problems]
            if problems:
                advice = _AGAIN["train" if stage.startswith("train") else stage]
                lines.append(f"  to mend: {advice.format(cache=folder.cache, run=folder.root)}")
    if not lines:
        lines.append("no stage is complete: there is nothing to check")
    if folder.cache.is_file():
        lost = sum(not whole for _, _, whole in entries(folder.cache))
        lines.append(
            f"cache: {f'{lost} damaged entries; they are written again when they are needed' if lost else 'whole'}"
        )
    if damaged:
        print("\n".join(lines))
        raise InputError(f"{folder.root}: {damaged} files or databases are damaged or missing; see the lines above")
    return "\n".join(lines)
