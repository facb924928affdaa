"""M-RAG's datasets by name (Section 4.1), and folders of pairs that are already split into train, validation and test.

The splits are the published ones, as in Selfmem (Cheng et al. 2023), which the paper follows. `datasets` 5 runs no
scripts, so each dataset is read from Parquet files. A revision is a name, not a commit: it may move, and
`data.revision` pins it. For JRC-Acquis we know of no dataset on the hub; its files are the user's to download.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from mrag_rl.choices import Task
from mrag_rl.data.columns import Columns, Table, TableRow, table_pairs
from mrag_rl.data.records import TextPair
from mrag_rl.data.stored import StoredPairs
from mrag_rl.data.tables import dataset_table, one_line, read_table, saved_splits
from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import StrPath, read_lines

DatasetName = Literal[
    "xsum",
    "bigpatent",
    "jrc-acquis-es-en",
    "jrc-acquis-en-es",
    "jrc-acquis-de-en",
    "jrc-acquis-en-de",
    "dailydialog",
]
PARTS = {"train": ("train",), "dev": ("validation", "valid", "val", "dev"), "test": ("test",)}
"""What the published splits are called."""
_LINES = (".src", ".tgt")


@dataclass(frozen=True)
class NamedDataset:
    """Where a dataset is and how it is read.

    Attributes:
        task: what it is for. source: where it comes from.
        hub: its id on the hub. revision: what is read there unless the user pins another. folder: of its Parquet files.
        columns: of its fields. group: what its ids have in common that belong together, as `data.group`.
        languages: of a translation. subfolders: of JRC-Acquis, its folder with Selfmem's JSON Lines, and with lines.
        reverse: whether its lines hold the target in `.src`.
    """

    task: Task
    source: str
    hub: str | None = None
    revision: str = "main"
    folder: str = ""
    columns: Columns = field(default_factory=Columns)
    group: str | None = None
    languages: tuple[str, str] | None = None
    subfolders: tuple[str, str] = ("", "")
    reverse: bool = False


def _jrc(languages: tuple[str, str], subfolders: tuple[str, str], reverse: bool) -> NamedDataset:
    return NamedDataset(
        task="translation",
        source="Steinberger et al. (2006); splits of https://github.com/jcyk/copyisallyouneed (Cai et al. 2021)",
        columns=Columns(source="src", target="trg"),
        languages=languages,
        subfolders=subfolders,
        reverse=reverse,
    )


NAMED: Mapping[DatasetName, NamedDataset] = {
    "xsum": NamedDataset(
        task="summarization",
        source="Narayan et al. (2018); https://huggingface.co/datasets/EdinburghNLP/xsum",
        hub="EdinburghNLP/xsum",
        revision="refs/convert/parquet",  # main has a script
        folder="default",
        columns=Columns(source="document", target="summary", id="id"),
    ),
    # The hub's own conversion of NortheasternUniversity/big_patent holds a part of the data only.
    "bigpatent": NamedDataset(
        task="summarization",
        source="Sharma et al. (2019); https://huggingface.co/datasets/BEE-spoke-data/bigpatent-all, a cleaned copy",
        hub="BEE-spoke-data/bigpatent-all",
        folder="data",
        columns=Columns(source="description", target="abstract"),
    ),
    "jrc-acquis-es-en": _jrc(("Spanish", "English"), ("jrc_esen", "esen"), False),
    "jrc-acquis-en-es": _jrc(("English", "Spanish"), ("jrc_enes", "esen"), True),
    "jrc-acquis-de-en": _jrc(("German", "English"), ("jrc_deen", "deen"), False),
    "jrc-acquis-en-de": _jrc(("English", "German"), ("jrc_ende", "deen"), True),
    "dailydialog": NamedDataset(
        task="dialogue",
        source="Li et al. (2017); https://huggingface.co/datasets/OpenRL/daily_dialog",
        hub="OpenRL/daily_dialog",
        folder="data",
        group=r"^([^.]+)",
    ),
}
"""The datasets of M-RAG's experiments."""

_ACTS = ("", "inform", "question", "directive", "commissive")
_EMOTIONS = ("", "anger", "disgust", "fear", "happiness", "sadness", "surprise")


def load_published(
    name: DatasetName | None, folder: StrPath | None, columns: Columns, *, revision: str | None = None
) -> dict[str, StoredPairs]:
    """The pairs of a dataset's published splits: {"train", "dev", "test"}, each in its order.

    Rows without source or target, of which published datasets have a few, are left out.

    Args:
        name: a dataset of `NAMED`, or None for a folder of the user's own.
        folder: its files, in the layout of the hub or as ``DatasetDict.save_to_disk`` writes them; for JRC-Acquis, see
            docs/formats.md. None reads from the hub, or from its cache.
        columns: the columns that differ from those of the name.
        revision: what is read from the hub; None for the name's own.

    Raises:
        InputError: something cannot be read or has another layout. MissingExtra: the extra `datasets` is missing.
    """
    if name is None:
        entry = NamedDataset("summarization", "")
    else:
        entry = NAMED[name]
    known = replace(entry.columns, **columns.given())
    if folder is None:
        tables = _from_hub(entry, revision or entry.revision)
    else:
        if not Path(folder).is_dir():
            mend = "give the folder that holds the splits"
            if entry.languages and Path(folder).suffix in (".tmx", ".xml"):
                mend = "give one file without splits to data.pairs, with data.columns and data.languages"
            raise InputError(f"{os.fspath(folder)}: no such folder; {mend}")
        lines = _from_lines(folder, entry) if entry.languages else None
        if lines is not None:
            known = Columns()
        tables = lines or _from_folder(_below(folder, entry, entry.folder or entry.subfolders[0]))
    if name == "dailydialog":
        return {part: StoredPairs.of(dialogue_pairs(table, part)) for part, table in tables.items()}
    return {
        part: StoredPairs.of(table_pairs(replace(table, sparse=name is not None), known, prefix=f"{part}-"))
        for part, table in tables.items()
    }


def dialogue_pairs(table: Table, prefix: str) -> Iterator[TextPair]:
    """Every utterance of DailyDialog but the first, as the target of all before it, one on each line of the source.

    The labels are the utterance's dialogue act and its emotion, if it has one. Ids are PREFIX-DIALOGUE.TURN.

    Args:
        table: with a column `dialog` of lists of texts, and `act` and `emotion` of lists of class numbers as long.
        prefix: the name of the split.

    Raises:
        InputError: naming the dialogue that is different.
    """
    if "dialog" not in table.columns:
        there = ", ".join(table.columns)
        raise InputError(f'{table.name}: no column "dialog"; there are {there}; give DailyDialog as on the hub')
    found = False
    for number, row in enumerate(table.rows, start=1):
        utterances = row.values["dialog"]
        if not isinstance(utterances, list) or not all(isinstance(text, str) for text in utterances):
            raise InputError(f'{row.where}: column "dialog" is not a list of texts; give DailyDialog as on the hub')
        labels = [_names(row, key, names, len(utterances)) for key, names in (("act", _ACTS), ("emotion", _EMOTIONS))]
        said = [text.strip() for text in utterances]
        for turn in range(1, len(said)):
            context = "\n".join(text for text in said[:turn] if text)
            if context and said[turn]:
                kinds = tuple(names[turn] for names in labels if names[turn])
                yield TextPair(f"{prefix}-{number}.{turn}", context, said[turn], kinds)
                found = True
    if not found:
        raise InputError(f"{table.name}: no dialogue of two utterances or more; give DailyDialog as on the hub")


def _names(row: TableRow, key: str, names: tuple[str, ...], length: int) -> list[str]:
    """The names of a dialogue's classes, one for each utterance; "" for none."""
    numbers = row.values.get(key)
    if numbers is None:
        return [""] * length
    if not isinstance(numbers, list) or len(numbers) != length:
        raise InputError(f'{row.where}: column "{key}" is not a list of {length} numbers, one for each utterance')
    return [
        number.replace("no emotion", "").replace("__dummy__", "")
        if isinstance(number, str)
        else names[number]
        if isinstance(number, int) and 0 <= number < len(names)
        else ""
        for number in numbers
    ]


def _from_hub(entry: NamedDataset, revision: str) -> dict[str, Table]:
    """The splits on the hub, or of it in the cache of `datasets`."""
    if entry.hub is None:
        raise InputError(
            "data.folder is not set, but the dataset is not on the hub; download its files and give their folder "
            f"({entry.source})"
        )
    require("datasets", "datasets", "pyarrow", by=f"reading {entry.hub}")
    import datasets

    try:
        loaded = datasets.load_dataset(entry.hub, data_dir=entry.folder or None, revision=revision)
    except Exception as error:  # Of the network, the hub and the files: many kinds
        raise InputError(
            f"{entry.hub} ({revision}): cannot be loaded from the hub ({one_line(error)}); download it where there is "
            f"a network (hf download --repo-type dataset {entry.hub} --revision {revision} --local-dir DIR) and give "
            "data.folder DIR"
        ) from error
    return _by_part({split: dataset_table(f"{entry.hub}/{split}", loaded[split]) for split in loaded}, entry.hub)


def _from_folder(folder: Path) -> dict[str, Table]:
    """The splits of a folder: of a ``DatasetDict``, of Parquet files as on the hub, or a file for each split."""
    if (folder / "dataset_dict.json").is_file():
        return _by_part(saved_splits(folder), str(folder))
    parquet = _by_split(folder, [".parquet"])
    if parquet:
        require("datasets", "datasets", "pyarrow", by=f"reading {folder}")
        import datasets

        files = {split: [str(path) for path in paths] for split, paths in parquet.items()}
        try:
            loaded = datasets.load_dataset("parquet", data_files=files)
        except Exception as error:  # What it raises on damage is of many kinds
            raise InputError(f"{folder}: cannot be read ({one_line(error)}); download it again") from error
        return _by_part({split: dataset_table(f"{folder}/{split}", loaded[split]) for split in loaded}, str(folder))
    tables = {}
    for split, paths in _by_split(folder, [".jsonl", ".json", ".csv", ".tsv"]).items():
        if len(paths) > 1:
            raise InputError(f"{folder}: {paths[0].name} and {paths[1].name} are both of the split {split}; keep one")
        tables[split] = read_table(paths[0])
    return _by_part(tables, str(folder))


def _from_lines(folder: StrPath, entry: NamedDataset) -> dict[str, Table] | None:
    """The splits of a folder with paired lines, such as `train/jrc.train.src` and `.tgt`; None if there are none."""
    below = _below(folder, entry, entry.subfolders[1])
    sides = [_by_split(below, [ending]) for ending in _LINES]
    if not sides[0]:
        return None
    tables = {}
    for split, (source, *more) in sides[0].items():
        targets = sides[1].get(split, [])
        if more or len(targets) != 1:
            raise InputError(f"{below}: not one .src and one .tgt file of the split {split}; keep the two only")
        tables[split] = _paired_lines(*((targets[0], source) if entry.reverse else (source, targets[0])))
    return _by_part(tables, str(below))


def _paired_lines(source: Path, target: Path) -> Table:
    """Two files of which each line of one belongs to the same line of the other.

    Raises InputError for a file that cannot be read, and, once the rows are read, for files of different lengths.
    """

    def rows() -> Iterator[TableRow]:
        for number, (one, other) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
            if one is None or other is None:
                lines = [sum(1 for _ in read_lines(path)) for path in (source, target)]
                raise InputError(f"{target}: {lines[1]} lines, but {source} has {lines[0]}; download them again")
            yield TableRow(f"{source}:{number}", {"source": one.strip(), "target": other.strip()})

    return Table(str(source), ("source", "target"), rows())


def _below(folder: StrPath, entry: NamedDataset, name: str) -> Path:
    """A dataset's folder of a name inside another one, or that one itself if it has none of the name.

    Raises InputError if that one has folders of other languages alone, or is one of them: read as this dataset, they
    would train on the wrong language, or the wrong direction.
    """
    inner = Path(folder, name)
    if inner.is_dir():
        return inner
    others = {name for other in NAMED.values() for name in other.subfolders} - {"", *entry.subfolders}
    wrong = [other for other in sorted(others) if Path(folder, other).is_dir() or Path(folder).name == other]
    if wrong and not any(Path(folder, own).is_dir() for own in entry.subfolders):
        raise InputError(
            f"{os.fspath(folder)}: no {' and no '.join(dict.fromkeys(entry.subfolders))} in it, but {wrong[0]}, which "
            f"is of other languages or another direction; download {' to '.join(entry.languages or ())}"
        )
    return Path(folder)


def _by_split(folder: Path, endings: list[str]) -> dict[str, list[Path]]:
    """The files with one of some endings, by the split that their name says, else the nearest folder that says one."""
    found: dict[str, list[Path]] = {}
    names = "|".join(name for names in PARTS.values() for name in names)
    for path in sorted(folder.rglob("*")):
        said = re.findall(rf"(?<![a-z])(?:{names})(?![a-z])", str(path.relative_to(folder)).lower())
        if path.suffix in endings and said:
            found.setdefault(said[-1], []).append(path)
    return found


def _by_part(tables: Mapping[str, Table], where: str) -> dict[str, Table]:
    """Tables by part instead of by the splits' names. Raises InputError if one is missing."""
    parts = {}
    for part, names in PARTS.items():
        there = [name for name in names if name in tables]
        if not there:
            has = ", ".join(filter(None, tables)) or "none"
            raise InputError(
                f"{where}: no split {names[0]}; there are {has}; give a folder with the splits train, validation and "
                "test, or one split or file to data.pairs"
            )
        parts[part] = tables[there[0]]
    return parts
