"""Files of pairs in other formats than JSON Lines, chosen by their ending: CSV, TSV, Parquet, TMX, `datasets` folders.

Nothing that is read here is a pickle, and no script of a dataset is run.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrag_rl.data.aligned import read_aligned
from mrag_rl.data.columns import Columns, Table, TableRow, column_names, table_pairs
from mrag_rl.data.records import iterate_pairs
from mrag_rl.data.rows import read_rows
from mrag_rl.data.stored import StoredPairs
from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import StrPath, read_lines

if TYPE_CHECKING:
    import datasets

_ROWS = 1_000  # of a Parquet file that are in memory at a time
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_UNREAD = {
    ".gz": "is compressed; unpack it",
    ".zip": "is compressed; unpack it",
    ".xlsx": "is a spreadsheet; save it as CSV in UTF-8",
    ".ods": "is a spreadsheet; save it as CSV in UTF-8",
    ".arrow": "is a part of a dataset; give the folder that Dataset.save_to_disk wrote",
    ".pkl": "is a pickle, which may run code when it is read; save the pairs as Parquet or CSV",
    ".pickle": "is a pickle, which may run code when it is read; save the pairs as Parquet or CSV",
}

_ALIGNED = (".tmx", ".xml")
_TABLES = {*_SEPARATORS, *_UNREAD, *_ALIGNED, ".parquet"}


def read_pairs(path: StrPath, columns: Columns, *, prefix: str = "") -> StoredPairs:
    """The pairs in a file or folder, in order: CSV, TSV, Parquet, TMX or XML, a `datasets` folder, else JSON Lines.

    All are read row by row, so that the memory needed does not grow with the texts.

    Args:
        path: the file, or a folder that ``Dataset.save_to_disk`` wrote (a ``DatasetDict`` with one split, too).
        columns: its columns. Without any, JSON Lines are read as by `load_pairs`.
        prefix: what ids that are numbers of rows begin with.

    Raises:
        InputError: naming file, row and column; MissingExtra for Parquet and folders without the extra `datasets`.
    """
    if columns == Columns() and not Path(path).is_dir() and Path(path).suffix.lower() not in _TABLES:
        return StoredPairs.of(iterate_pairs(path))
    return StoredPairs.of(table_pairs(read_table(path), columns, prefix=prefix))


def read_table(path: StrPath) -> Table:
    """A file or folder as a table; see `read_pairs`. Raises InputError."""
    ending = Path(path).suffix.lower()
    if Path(path).is_dir():
        splits = saved_splits(path)
        if len(splits) > 1:
            raise InputError(
                f"{os.fspath(path)}: has the splits {', '.join(splits)}; give one of their folders, such as "
                f"{Path(path, next(iter(splits)))}, or give the folder to data.folder, which keeps the splits"
            )
        return next(iter(splits.values()))
    if ending in _UNREAD:
        raise InputError(f"{os.fspath(path)}: {_UNREAD[ending]}")
    if ending in _SEPARATORS:
        return _read_csv(path, _SEPARATORS[ending])
    if ending == ".parquet":
        return _read_parquet(path)
    return read_aligned(path) if ending in _ALIGNED else _read_jsonl(path)


def _read_jsonl(path: StrPath) -> Table:
    """The objects of a JSON Lines file, read twice; the columns are the keys of all of them. Raises InputError."""
    names = dict.fromkeys(name for row in read_rows(path, "pair") for name in column_names(row.values))
    rows = (TableRow(row.where, row.values) for row in read_rows(path, "pair"))
    return Table(os.fspath(path), list(names), rows)


def saved_splits(folder: StrPath) -> dict[str, Table]:
    """The splits of a folder that ``save_to_disk`` of a `datasets` object wrote; that of a single dataset is "".

    Raises:
        InputError: it is no such folder, or a damaged one. MissingExtra: the extra `datasets` is not installed.
    """
    name = os.fspath(folder)
    if not any(Path(folder, file).is_file() for file in ("dataset_dict.json", "dataset_info.json")):
        raise InputError(
            f"{name}: no dataset_dict.json or dataset_info.json in it; give a folder that Dataset.save_to_disk wrote, "
            "or a file"
        )
    require("datasets", "datasets", "pyarrow", by=f"reading {name}")
    import datasets

    try:
        loaded = datasets.load_from_disk(name)
    except Exception as error:  # What it raises on damage is of many kinds
        raise InputError(f"{name}: cannot be read ({one_line(error)}); save the dataset again") from error
    if isinstance(loaded, datasets.DatasetDict):
        return {split: dataset_table(f"{name}/{split}", dataset) for split, dataset in loaded.items()}
    return {"": dataset_table(name, loaded)}


def dataset_table(name: str, dataset: datasets.Dataset) -> Table:
    """A `datasets.Dataset` as a table. name: as errors name it. Class labels become their names; media are left out."""
    return _features_table(name, dataset.features, dataset.select_columns)


def _features_table(
    name: str, features: datasets.Features, rows_of: Callable[[list[str]], Iterable[Mapping[str, Any]]]
) -> Table:
    """A table of rows with some features. rows_of: reads the rows of some of the columns."""
    nested = {column: _nested_names(column, feature) for column, feature in features.items()}
    readable = [column for column, names in nested.items() if names]

    def rows() -> Iterator[TableRow]:
        for number, row in enumerate(rows_of(readable), start=1):
            values = {column: _named_classes(value, features[column]) for column, value in row.items()}
            yield TableRow(f"{name}: row {number}", values)

    return Table(name, [place for names in nested.values() for place in names], rows())


def one_line(error: Exception) -> str:
    """An error's message in one line, or the kind of error if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def _nested_names(name: str, feature: Any) -> list[str]:
    """The columns that a feature makes: itself, or those inside it; none if it holds images, sounds and the like."""
    import datasets

    if isinstance(feature, datasets.Translation):
        return [f"{name}.{language}" for language in feature.languages]
    if isinstance(feature, Mapping):
        return [place for inner, value in feature.items() for place in _nested_names(f"{name}.{inner}", value)]
    if isinstance(feature, (datasets.Value, datasets.ClassLabel)):
        return [name]
    inner = getattr(feature, "feature", feature[0] if isinstance(feature, list) and feature else None)
    return [name] if inner is not None and _nested_names(name, inner) else []


def _named_classes(value: Any, feature: Any) -> Any:
    """A value with the names of class labels in place of their numbers."""
    import datasets

    if isinstance(feature, datasets.ClassLabel) and isinstance(value, int):
        return feature.int2str(value) if 0 <= value < feature.num_classes else None
    inner = getattr(feature, "feature", None)
    if isinstance(value, list) and isinstance(inner, datasets.ClassLabel):
        return [name for item in value if (name := _named_classes(item, inner)) is not None]
    return value


def _read_parquet(path: StrPath) -> Table:
    """A Parquet file, read in batches of rows; not by ``Dataset.from_parquet``, which leaves a copy in a cache."""
    name = os.fspath(path)
    require("datasets", "datasets", "pyarrow", by=f"reading {name}")
    import datasets
    import pyarrow
    import pyarrow.parquet

    if not Path(path).is_file():
        raise InputError(f"{name}: no such file; check the path")

    @contextmanager
    def damage_reported() -> Iterator[None]:
        try:
            yield
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            mend = "write it again"
            raise InputError(f"{name}: not a Parquet file that can be read ({one_line(error)}); {mend}") from error

    def rows(columns: list[str]) -> Iterator[Mapping[str, Any]]:
        with damage_reported():
            for batch in file.iter_batches(_ROWS, columns=columns):
                yield from datasets.Dataset(pyarrow.Table.from_batches([batch]))

    with damage_reported():
        file = pyarrow.parquet.ParquetFile(name)
        features = datasets.Features.from_arrow_schema(file.schema_arrow)
    return _features_table(name, features, rows)


def _read_csv(path: StrPath, separator: str) -> Table:
    """A file with a header; fields may be quoted, and may contain line ends then."""
    name = os.fspath(path)
    records = _csv_records(name, read_lines(path), separator)
    line, header = next(records, (1, []))
    if not header:
        raise InputError(f"{name}: no rows; write the columns' names on the first line and a pair on each further line")
    for number, column in enumerate(header, start=1):
        if not column.strip():
            raise InputError(f"{name}:{line}: column {number} has no name; write the columns' names on the first line")
        if column in header[: number - 1]:
            raise InputError(f'{name}:{line}: two columns are called "{column}"; rename one of them')

    def rows() -> Iterator[TableRow]:
        for line, fields in records:
            if len(fields) != len(header):
                raise InputError(
                    f"{name}:{line}: {len(fields)} fields, but the first line has {len(header)} columns; quote texts "
                    "that contain a separator or a line end"
                )
            yield TableRow(f"{name}:{line}", dict(zip(header, fields, strict=True)))

    hint = ""
    other = next((mark for mark in (";", "\t", ",", "|") if mark != separator and mark in header[0]), None)
    if len(header) == 1 and other is not None:
        used = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}[other]
        wanted = "commas" if separator == "," else "tabs"
        hint = f"its columns are separated by {used}: save it with {wanted}" + (
            ", or rename it to .tsv" if other == "\t" else ", or rename it to .csv" if other == "," else ""
        )
    return Table(name, header, rows(), hint=hint)


def _csv_records(name: str, lines: Iterator[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file that are not blank, with the lines on which they begin; carriage returns end lines."""
    parts = (part for line in lines for part in io.StringIO(line, newline=""))
    reader = csv.reader(parts, delimiter=separator, strict=True)
    limit = csv.field_size_limit()
    line = 1
    try:
        while True:
            line = reader.line_num + 1
            csv.field_size_limit(sys.maxsize)  # Of all readers, so only while this one reads
            try:
                fields = next(reader, None)
            finally:
                csv.field_size_limit(limit)
            if fields is None:
                return
            if fields:
                yield line, fields
    except csv.Error as error:
        raise InputError(
            f'{name}:{line}: not valid CSV ({error}); close every quote, and write " inside quotes as ""'
        ) from error
