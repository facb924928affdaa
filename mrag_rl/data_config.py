"""The settings of a run's pairs: the bundled world, a published dataset, or files of your own."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field

from mrag_rl.choices import NewsroomName
from mrag_rl.data.columns import Columns
from mrag_rl.data.named import NAMED, DatasetName
from mrag_rl.errors import InputError
from mrag_rl.settings import LARGEST_SEED, bounded


@dataclass(frozen=True)
class WorldSizes:
    """Sizes of the splits of the bundled world, in pairs."""

    database: int = bounded(400, minimum=1, maximum=10_000_000)
    """Memories in the database."""
    train: int = bounded(800, minimum=1, maximum=10_000_000)
    """Queries that the agents train on."""
    dev: int = bounded(200, minimum=1, maximum=10_000_000)
    """Development queries: they select the best round and decide when to stop."""
    test: int = bounded(400, minimum=1, maximum=10_000_000)
    """Queries of the final evaluation."""


@dataclass(frozen=True)
class SplitFiles:
    """Files of pairs that are already split. Give all four or none."""

    database: str | None = None
    """File of the memories, like ``pairs``."""
    train: str | None = None
    """File of the queries that the agents train on."""
    dev: str | None = None
    """File of the development queries."""
    test: str | None = None
    """File of the queries of the final evaluation."""

    def given(self) -> bool:
        """Whether any of the four is set."""
        return any((self.database, self.train, self.dev, self.test))


@dataclass(frozen=True)
class SplitFractions:
    """Shares of ``data.pairs`` kept for queries; the rest is the database."""

    train: float = bounded(0.1, minimum=0, maximum=1, exclusive=True)
    """Share that the agents train on (the paper: 10%)."""
    dev: float = bounded(0.1, minimum=0, maximum=1, exclusive=True)
    """Share used as development queries."""
    test: float = bounded(0.1, minimum=0, maximum=1, exclusive=True)
    """Share used for the final evaluation."""


@dataclass(frozen=True)
class DataConfig:
    """Where the pairs come from: the bundled world, unless ``pairs``, ``files``, ``name`` or ``folder`` is given."""

    pairs: str | None = None
    """File of your own pairs, split at random: JSON Lines, CSV, TSV, Parquet, TMX, or a folder that
    Dataset.save_to_disk wrote; relative to the working directory."""
    columns: Columns = field(default_factory=Columns)
    """Columns of your own pairs, such as '{source: document, target: summary}'."""
    name: DatasetName | None = None
    """A dataset of the M-RAG paper with its published splits, from the Hugging Face hub or from ``folder``; JRC-Acquis
    from ``folder`` only. ``fractions.train`` of its training split trains the agents, the rest is the database."""
    folder: str | None = None
    """Folder of the named dataset's files, in the hub's layout; without a name, a folder of your own with the splits
    train, validation and test (DatasetDict.save_to_disk, Parquet, or a file for each)."""
    revision: str | None = None
    """Commit, tag or branch of the named dataset on the hub; null is the one that mrag_rl/data/named.py names."""
    max_source_words: int | None = bounded(None, minimum=1)
    """Leave out pairs whose source has more words."""
    max_target_words: int | None = bounded(None, minimum=1)
    """Leave out pairs whose target has more words."""
    deduplicate: bool = False
    """Leave out copies of a pair, source and target; of those in several splits, all but the one in the test split,
    else the development split, else the training queries."""
    group: str | None = None
    """Regular expression on the ids of your own pairs. Its first group names the event or dialogue that must stay in
    one split: '^([^.]+)' keeps ids 7.1 and 7.2 together. Such pairs depend on each other, so intervals resample whole
    groups. One that takes longer than a second on an id is refused."""
    fractions: SplitFractions = field(default_factory=SplitFractions)
    """Shares of ``pairs``."""
    files: SplitFiles = field(default_factory=SplitFiles)
    """Your own pairs, if they are already split."""
    newsroom: NewsroomName = "desks"
    """The bundled world: desks (the text hints at the desk whose style the answer needs), sources (the answer needs its
    subject's style, which each source uses on two of the four topics only), or scrambled (sources in which the words of
    reliable memories' targets are in random order)."""
    sizes: WorldSizes = field(default_factory=WorldSizes)
    """Sizes of the bundled world."""
    languages: tuple[str, str] = ("English", "German")
    """Source and target languages of the translation task, by their English names."""
    spoilt: float = bounded(0.0, minimum=0, maximum=1)
    """Share of the memories that are spoilt on purpose in half of the partitions: their targets are exchanged or cut
    short, as happens in real data. The queries' references are not changed."""
    world_seed: int = bounded(0, minimum=0, maximum=LARGEST_SEED)
    """Seed of the bundled world and of the random split. Runs that differ in ``seed`` alone use the same data."""

    @property
    def world(self) -> bool:
        """Whether the bundled world is used."""
        return self.pairs is None and not self.files.given() and not self.published

    @property
    def published(self) -> bool:
        """Whether the pairs have splits of their own, of which the test and development splits are kept."""
        return self.name is not None or self.folder is not None

    @property
    def grouped_by(self) -> str | None:
        """The expression that names a pair's event or dialogue: ``group``, or that of the named dataset."""
        return NAMED[self.name].group if self.group is None and self.name is not None else self.group

    @property
    def translated(self) -> tuple[str, str]:
        """The source and target languages: those of the named dataset, or ``languages``."""
        return (self.name is not None and NAMED[self.name].languages) or self.languages


def check_data_config(data: DataConfig) -> None:
    """Check what types cannot express. Raises an InputError that names the first bad key and how to mend it."""
    files = dataclasses.asdict(data.files)
    if data.pairs is not None and data.files.given():
        raise InputError("data.pairs and data.files are both set; give one file to split, or the four files")
    if data.published and (data.pairs is not None or data.files.given()):
        own = "pairs" if data.pairs is not None else "files"
        published = "name" if data.name is not None else "folder"
        raise InputError(f"data.{own} and data.{published} are both set; give one of them, and set the other to null")
    missing = [part for part, path in files.items() if not path]
    if data.files.given() and missing:
        raise InputError(f"data.files.{missing[0]} is missing; give database, train, dev and test")
    for key, value in (("group", data.group), ("columns", data.columns.given() or None)):
        if value is not None and data.world:
            raise InputError(
                f"data.{key} is set, but the pairs are the bundled world's; set data.pairs or data.files, too"
            )
    if data.world and (data.deduplicate or data.max_source_words or data.max_target_words):
        raise InputError(
            "data.deduplicate, max_source_words or max_target_words is set, but the pairs are the bundled world's; set "
            "data.pairs, too"
        )
    if data.newsroom != DataConfig.newsroom and not data.world:
        raise InputError(
            "data.newsroom is set, but the pairs are your own; set data.newsroom, or data.pairs or data.files"
        )
    if data.revision is not None and (data.name is None or data.folder is not None):
        raise InputError("data.revision is set, but nothing is read from the hub; remove it, or set data.name alone")
    if data.name is not None:
        _check_named(data, data.name)
    if sum(dataclasses.asdict(data.fractions).values()) >= 1:
        raise InputError("data.fractions leaves no pairs for the database; make train, dev and test sum to less than 1")


def _check_named(data: DataConfig, name: DatasetName) -> None:
    entry = NAMED[name]
    if entry.hub is None and data.folder is None:
        raise InputError(
            f"data.folder is not set, but {name} is not on the hub; download it ({entry.source}) and give its folder"
        )
    if data.languages != DataConfig.languages and data.languages != entry.languages:
        raise InputError(f"data.languages is set, but the languages of {name} are known; remove it")
    if name == "dailydialog" and data.columns.given():
        raise InputError("data.columns is set, but dailydialog has a column of dialogues; remove it")


def check_languages(data: DataConfig, task: str) -> None:
    """Raises InputError for names of languages that no prompt can have, and for some that have no effect."""
    for language in data.languages:
        if not re.fullmatch(r"\w[\w '()-]*", language) or " to " in language:
            raise InputError(f"data.languages has {language!r}; give two names such as [German, English]")
    if data.languages != DataConfig.languages and (data.world or task != "translation"):
        why = "the bundled world is English to German" if data.world else f"the task is {task}"
        raise InputError(f"data.languages is set, but {why}; use it with your own pairs and task: translation")
