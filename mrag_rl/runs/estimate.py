"""What several runs will take, said before they begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mrag_rl.cautions import all_cautions
from mrag_rl.choices import ABLATION_OF
from mrag_rl.config import Config
from mrag_rl.errors import InputError
from mrag_rl.io import read_jsonl

_DIALOGUE_OF_DESKS = 8
_LABELS = 4
"""Of the bundled worlds otherwise: desks or sources. A dialogue of the desks also has a mood."""


class Sizes(NamedTuple):
    """Numbers of queries, of partitions, and of Selfmem's candidates, if they are not as many."""

    train: int
    dev: int
    test: int
    partitions: int
    selfmem: int | None = None


def estimate(left: Sequence[Config], seconds: Sequence[float], jobs: int, *, evaluated: bool = True) -> str:
    """The work and, once a run is complete, the time that runs may take, in words.

    How long a text takes depends on the model and the machine, and how many of them other runs have had written on what
    training finds: the time is that of complete runs, therefore, and the texts are counted as if none were shared.

    Args:
        left: the configurations of runs that are not complete. seconds: what each complete one took.
        jobs: how many run at a time. evaluated: whether they answer test queries after training.
    """
    if not left:
        return "nothing is left to do"
    counted = work(left, evaluated=evaluated)
    said = [] if counted is None else [f"{counted}, less those that runs share"]
    if seconds:
        minutes = len(left) * sum(seconds) / len(seconds) / jobs / 60
        said.append(f"the complete runs took {sum(seconds):.0f} s, so these may take {minutes:.0f} min, and loading")
    else:
        said.append("how long that takes, the first run will tell")
    return "left to do: " + "; ".join(said)


def cautions_of(configs: Iterable[Config], *, evaluated: bool = True) -> list[str]:
    """A line for each warning that the settings of runs give cause for. evaluated: whether test pairs are answered."""
    sizes = ((config, _sizes(config) if evaluated else None) for config in configs)
    return [f"warning: {line}" for line in all_cautions((config, size and size.test) for config, size in sizes)]


def work(left: Sequence[Config], *, evaluated: bool = True) -> str | None:
    """How many training queries, test answers and texts there are in runs, in words; None if the data have to be read
    to know."""
    sizes = [found for config in left if (found := _sizes(config)) is not None]
    if len(sizes) < len(left):
        return None
    works = [*zip(left, sizes, strict=True)]
    trained = sum(_trainings(config) * config.training.rounds * size.train for config, size in works)
    answers = sum(len(config.compared) * size.test for config, size in works)
    texts = sum(texts_of_training(config, size) for config, size in works)
    if evaluated:
        texts += sum(texts_of_system(name, size) for config, size in works for name in config.compared)
    tested = f" and {answers:,} test answers" if evaluated else ""
    return f"at most {trained:,} training queries in all rounds{tested}; some {texts:,} texts"


def texts_of_training(config: Config, sizes: Sizes) -> int:
    """How many texts the language model writes in a run's trainings, at most, if all rounds are made.

    A trial is a first answer and, for each step, a pool and an answer with the candidate that was picked. Development
    queries are answered by the naive system; after each round by Agent-S and by what it was before the first; and, in
    the end, thrice to say what its values are worth.
    """
    refinement, rounds = config.refinement, config.training.rounds
    trial = config.training.selection_steps * (1 + refinement.steps * (refinement.candidates + 1))
    judged = refinement.evidence if refinement.consolidate and refinement.steps else 0
    return _trainings(config) * (sizes.train * (1 + rounds * (trial + judged)) + sizes.dev * (2 * rounds + 4))


def texts_of_system(name: str, sizes: Sizes) -> int:
    """How many texts a system has written for its own training, after the run's, and for the test queries.

    docs/formats.md has these numbers for each system; all that are not named here write one answer to a test query.
    """
    m = sizes.partitions
    c = sizes.selfmem or m
    to_each: Mapping[str, tuple[int, int, int]] = {  # training, development and test query, by the name's beginning
        "copy": (0, 0, 0),
        "best_partition": (0, m, 1),
        "supervised_copies": (0, 2, 1),
        "supervised_trials": (0, m, 1),
        "supervised_answers": (m, m, m),
        "supervised": (m, m, 1),
        "m_rag_answers": (m, m, m),
        "m_rag_consensus": (0, 0, m),
        "consensus": (0, 0, m),
        "oracle": (0, 0, m),
        "selfmem_without_selector": (0, 0, 3),
        "selfmem_one_iteration": (2 * c - 1, 2 * c - 1, c + 1),
        "selfmem": (2 * c - 1, 2 * c - 1, 2 * c + 1),  # one greedy, the others at two temperatures
        "self_rag": (0, 0, m + 1),
        "stopping": (m + 1, 0, m + 1),
        "two_answers": (0, 0, 2),
    }
    found = (numbers for start, numbers in to_each.items() if name.startswith(start) and name not in ABLATION_OF)
    train, dev, test = next(found, (0, 0, 1))
    return train * sizes.train + dev * sizes.dev + test * sizes.test


def _trainings(config: Config) -> int:
    return 1 + sum(name in ABLATION_OF for name in config.compared)


def _sizes(config: Config) -> Sizes | None:
    """None for published datasets, and files that are gone or no JSON Lines, which would have to be read. The shares of
    `data.pairs` are those before pairs are kept together by `data.group`."""
    data = config.data
    if data.world:
        made = _partitions(config, _labels_of_world(config))
        return Sizes(data.sizes.train, data.sizes.dev, data.sizes.test, made, config.evaluation.selfmem_candidates)
    files = [data.files.database, data.files.train, data.files.dev, data.files.test]
    paths = [Path(path) for path in ([data.pairs] if data.pairs is not None else files) if path is not None]
    if not paths or not all(path.suffix == ".jsonl" for path in paths):
        return None
    try:
        labels = set(_labels(paths[0])) if config.partitioning.method == "category" else set()
        sizes = [_lines(path) for path in paths]
    except (OSError, InputError):
        return None
    if data.pairs is None:
        _, train, dev, test = sizes
    else:
        shares = data.fractions
        train, dev, test = (round(share * sizes[0]) for share in (shares.train, shares.dev, shares.test))
    return Sizes(train, dev, test, _partitions(config, len(labels)), config.evaluation.selfmem_candidates)


def _partitions(config: Config, labels: int) -> int:
    made = {"category": max(1, labels), "none": 1}.get(config.partitioning.method, config.partitioning.partitions)
    return made + len(config.partitioning.arms)


def _labels_of_world(config: Config) -> int:
    of_desks = config.data.newsroom == "desks" and config.task == "dialogue"
    return _DIALOGUE_OF_DESKS if of_desks else _LABELS


def _labels(path: Path) -> Iterator[str]:
    """Raises InputError, or OSError, for a file that no run can read either, which will say more of it."""
    for _, row in read_jsonl(path):
        labels = row.get("labels") if isinstance(row, dict) else None
        yield from map(str, labels if isinstance(labels, list) else ())


def _lines(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(not line.isspace() for line in lines)
