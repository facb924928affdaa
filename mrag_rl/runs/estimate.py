"""What several runs will take, said before they begin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mrag_rl.choices import ABLATION_OF
from mrag_rl.config import Config
from mrag_rl.data_config import DataConfig


def estimate(left: Sequence[Config], seconds: Sequence[float], jobs: int, *, evaluated: bool = True) -> str:
    """The work and, once a run is complete, the time that runs may take, in words.

    How many texts a query costs depends on what training finds and on what other runs have had written, and how long
    one takes on the model and the machine: the work is in queries, therefore, and the time that of complete runs.

    Args:
        left: the configurations of runs that are not complete. seconds: what each complete one took.
        jobs: how many run at a time. evaluated: whether they answer test queries after training.
    """
    if not left:
        return "nothing is left to do"
    works = [work for config in left if (work := _work(config)) is not None]
    said = []
    if len(works) == len(left):
        trained, answers = (sum(numbers) for numbers in zip(*works, strict=True))
        tested = f" and {answers:,} test answers" if evaluated else ""
        said.append(f"at most {trained:,} training queries in all rounds{tested}")
    if seconds:
        minutes = len(left) * sum(seconds) / len(seconds) / jobs / 60
        said.append(f"the complete runs took {sum(seconds):.0f} s, so these may take {minutes:.0f} min, and loading")
    else:
        said.append("how long that takes, the first run will tell")
    return "left to do: " + "; ".join(said)


def _work(config: Config) -> tuple[int, int] | None:
    """How many queries a run trains on, over all rounds and trainings, and how many test answers it writes, at most.

    None for published datasets, and files that are gone or no JSON Lines. The shares of `data.pairs` are those before
    pairs are kept together by `data.group`.
    """
    sizes = _sizes(config.data)
    if sizes is None:
        return None
    trainings = 1 + sum(name in ABLATION_OF for name in config.compared)
    return trainings * config.training.rounds * sizes[0], len(config.compared) * sizes[1]


def _sizes(data: DataConfig) -> tuple[int, int] | None:
    """The numbers of training and test queries; None if they cannot be counted without reading the pairs."""
    if data.world:
        return data.sizes.train, data.sizes.test
    files = [data.pairs] if data.pairs is not None else [data.files.train, data.files.test]
    if not all(path is not None and path.endswith(".jsonl") for path in files):
        return None
    try:
        counts = [_lines(path) for path in files if path is not None]
    except OSError:
        return None
    if data.pairs is not None:
        return round(data.fractions.train * counts[0]), round(data.fractions.test * counts[0])
    return counts[0], counts[1]


def _lines(path: str) -> int:
    with Path(path).open("rb") as lines:
        return sum(not line.isspace() for line in lines)
