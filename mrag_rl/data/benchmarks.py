"""Retrieval benchmarks in the folders that their authors publish, as documents, queries and graded judgements.

- BEIR (Thakur et al. 2021, https://github.com/beir-cellar/beir): `corpus.jsonl` of ``{"_id", "title", "text"}``,
  `queries.jsonl` of ``{"_id", "text"}``, `qrels/SPLIT.tsv` with the columns ``query-id``, ``corpus-id``, ``score``
- MTEB (Muennighoff et al. 2023): the same, with `qrels/SPLIT.jsonl` of ``{"query-id", "corpus-id", "score"}``
- LIMIT (Weller et al. 2025, https://github.com/google-deepmind/limit): as MTEB, with `qrels.jsonl` for the only split
- QUEST (Malaviya et al. 2023, https://github.com/google-research/language, language/quest): `documents.jsonl` of
  ``{"title", "text"}``, `SPLIT.jsonl` of ``{"query", "docs": [title]}``
- BRIGHT (Su et al. 2024, https://github.com/xlang-ai/BRIGHT): `documents/SPLIT.jsonl` of ``{"id", "content"}``,
  `examples/SPLIT.jsonl` of ``{"id", "query", "gold_ids", "excluded_ids"}``; a split is a domain such as biology

The hub has BRIGHT and some of MTEB's tasks as Parquet; convert these files to JSON Lines first.

A bad line raises an ``InputError`` of the form ``FILE:LINE: what is wrong; how to fix it``, and nothing is loaded.
Other keys are moved to ``metadata``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mrag_rl.data.records import Document, Query
from mrag_rl.data.rows import Row, read_rows, unique_rows
from mrag_rl.data.trec import parse_grade
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, read_lines

_COLUMNS = ("query-id", "corpus-id", "score")
_LAYOUTS = "corpus.jsonl (BEIR, MTEB, LIMIT), documents.jsonl (QUEST) or documents/ (BRIGHT)"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A corpus, the queries of one split, and what is known of their answers.

    Attributes:
        documents: Those that have a title or a text. A document that has only a title has it as its text.
        queries: Those with a relevant document; `relevant` lists all documents with a grade of 1 or more.
        judgements: {query id: {document id: grade}} for these queries, as published: documents without text included.
        excluded: {query id: ids of documents that must not be retrieved for it}, of the queries that have any.
        empty_documents: ids of documents without title and text, which are dropped.
        unanswered_queries: ids of queries without a relevant document in this split, which are dropped.
    """

    documents: list[Document]
    queries: list[Query]
    judgements: dict[str, dict[str, int]] = field(default_factory=dict)
    excluded: dict[str, frozenset[str]] = field(default_factory=dict)
    empty_documents: tuple[str, ...] = ()
    unanswered_queries: tuple[str, ...] = ()


def load_benchmark(folder: StrPath, split: str = "test") -> Benchmark:
    """The benchmark in a folder whose layout is one of those that this module lists.

    split: the judgements to load (BEIR, MTEB), the file of queries (QUEST) or the domain (BRIGHT).

    Raises InputError naming file and line: none of the layouts, Parquet files, a split that does not exist, missing or
    broken values, duplicate ids, two grades for one document and query, judgements of unknown documents or queries,
    excluded documents that are relevant, no query with a relevant document.
    """
    folder = Path(folder)
    if (folder / "corpus.jsonl").is_file():
        return _load_beir(folder, split)
    if (folder / "documents.jsonl").is_file():
        return _load_quest(folder, split)
    if (folder / "documents").is_dir() and any((folder / "documents").glob("*.jsonl")):
        return _load_bright(folder, split)
    parquet = next(iter(sorted(folder.rglob("*.parquet"))), None)
    if parquet is not None:
        raise InputError(
            f"{parquet}: Parquet is not read; convert each file to JSON Lines, as with pandas: "
            'pandas.read_parquet(FILE).to_json(FILE.jsonl, orient="records", lines=True, force_ascii=False)'
        )
    raise InputError(f"{folder}: a folder without {_LAYOUTS}; give the folder of a benchmark, or two JSONL files")


def _load_beir(folder: Path, split: str) -> Benchmark:
    """BEIR, MTEB and LIMIT. A document with the id of a query is left out for it, as BEIR's evaluation does: in
    ArguAna and Quora, queries are documents."""
    corpus = _Corpus.of(unique_rows(read_rows(folder / "corpus.jsonl", "document"), "document", "_id"), _beir_document)
    queries = {
        identifier: Query(identifier, row.text("text"), metadata=_metadata(row, "_id", "text"))
        for identifier, row in unique_rows(read_rows(folder / "queries.jsonl", "query"), "query", "_id")
    }
    tsv, jsonl, single = folder / "qrels" / f"{split}.tsv", folder / "qrels" / f"{split}.jsonl", folder / "qrels.jsonl"
    if tsv.is_file():
        judgements = _read_tsv(tsv)
    elif jsonl.is_file():
        judgements = _read_jsonl(jsonl)
    elif single.is_file() and split == "test":
        judgements = _read_jsonl(single)
    else:
        splits = {path.stem for path in (folder / "qrels").glob("*") if path.suffix in (".tsv", ".jsonl")}
        raise _no_split(tsv, splits | ({"test"} if single.is_file() else set()))
    grades = _collect(judgements, corpus.ids, queries)
    own = {
        identifier: frozenset({identifier})
        for identifier in queries
        if identifier in corpus.ids and grades.get(identifier, {}).get(identifier, 0) < 1
    }
    return corpus.benchmark(queries, grades, str(folder), own)


def _load_quest(folder: Path, split: str) -> Benchmark:
    """QUEST. The ids of documents are their titles with "_" for white space; those of queries count from 0."""
    path = folder / f"{split}.jsonl"
    if split == "documents" or not path.is_file():
        raise _no_split(path, {other.stem for other in folder.glob("*.jsonl")} - {"documents"})

    def identified() -> Iterator[tuple[str, Row]]:
        first: dict[str, int] = {}
        for row in read_rows(folder / "documents.jsonl", "document"):
            identifier = _title_id(row.text("title"))
            if identifier in first:
                title = row.values["title"]
                raise row.error(
                    f'duplicate title "{title}" (first on line {first[identifier]}); remove one of the lines'
                )
            first[identifier] = row.line
            yield identifier, row

    corpus = _Corpus.of(identified(), _quest_document)
    queries: dict[str, Query] = {}
    judgements: list[_Judgement] = []
    for number, row in enumerate(read_rows(path, "query")):
        query = Query(str(number), row.text("query"), metadata=_metadata(row, "query", "docs"))
        queries[query.id] = query
        judgements += [_Judgement(row.where, query.id, _title_id(title), 1) for title in _required_names(row, "docs")]
    return corpus.benchmark(queries, _collect(judgements, corpus.ids, queries), str(path))


def _load_bright(folder: Path, split: str) -> Benchmark:
    """BRIGHT. `excluded_ids` is ["N/A"] for a query that may find all documents."""
    documents, examples = folder / "documents" / f"{split}.jsonl", folder / "examples" / f"{split}.jsonl"
    if not documents.is_file():
        raise _no_split(documents, {path.stem for path in documents.parent.glob("*.jsonl")})
    corpus = _Corpus.of(unique_rows(read_rows(documents, "document"), "document"), _bright_document)
    queries: dict[str, Query] = {}
    judgements: list[_Judgement] = []
    excluded: dict[str, frozenset[str]] = {}
    for identifier, row in unique_rows(read_rows(examples, "query"), "query"):
        metadata = _metadata(row, "id", "query", "gold_ids", "excluded_ids")
        queries[identifier] = Query(identifier, row.text("query"), metadata=metadata)
        gold = _required_names(row, "gold_ids")
        judgements += [_Judgement(row.where, identifier, name, 1) for name in gold]
        banned = [name for name in _required_names(row, "excluded_ids") if name != "N/A"]
        for name in banned:
            if name not in corpus.ids:
                raise row.error(f'excluded id "{name}" is not a document; correct the id or add that document')
            if name in gold:
                raise row.error(f'"{name}" is both in "gold_ids" and in "excluded_ids"; remove it from one of them')
        if banned:
            excluded[identifier] = frozenset(banned)
    return corpus.benchmark(queries, _collect(judgements, corpus.ids, queries), str(examples), excluded)


class _Judgement(NamedTuple):
    """One grade, and its place ("FILE:LINE")."""

    where: str
    query: str
    document: str
    grade: int


@dataclass(frozen=True, slots=True)
class _Corpus:
    documents: list[Document]
    empty: list[str]
    ids: frozenset[str]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, Row]], read: Callable[[str, Row], Document]) -> _Corpus:
        """Documents of rows with ids; those without title and text are set apart."""
        documents, empty = [], []
        for identifier, row in rows:
            document = read(identifier, row)
            if document.text.strip():
                documents.append(document)
            elif document.title.strip():
                documents.append(Document(identifier, document.title, metadata=document.metadata))
            else:
                empty.append(identifier)
        return cls(documents, empty, frozenset((*(document.id for document in documents), *empty)))

    def benchmark(
        self,
        queries: Mapping[str, Query],
        judgements: Mapping[str, dict[str, int]],
        where: str,
        excluded: Mapping[str, frozenset[str]] | None = None,
    ) -> Benchmark:
        """The benchmark of the queries that have a relevant document."""
        empty = set(self.empty)
        answered = []
        for query in queries.values():
            grades = judgements.get(query.id, {})
            relevant = tuple(name for name, grade in grades.items() if grade > 0 and name not in empty)
            if relevant:
                answered.append(Query(query.id, query.text, relevant, metadata=query.metadata))
        if not answered:
            raise InputError(f"{where}: no query has a relevant document in this split; choose another split")
        kept = {query.id for query in answered}
        return Benchmark(
            self.documents,
            answered,
            {identifier: judgements[identifier] for identifier in queries if identifier in kept},
            {identifier: names for identifier, names in (excluded or {}).items() if identifier in kept},
            tuple(self.empty),
            tuple(identifier for identifier in queries if identifier not in kept),
        )


def _beir_document(identifier: str, row: Row) -> Document:
    metadata = _metadata(row, "_id", "title", "text")
    return Document(identifier, _text_or_empty(row, "text"), row.optional_text("title"), metadata=metadata)


def _quest_document(identifier: str, row: Row) -> Document:
    return Document(
        identifier, _text_or_empty(row, "text"), row.text("title"), metadata=_metadata(row, "title", "text")
    )


def _bright_document(identifier: str, row: Row) -> Document:
    return Document(identifier, _text_or_empty(row, "content"), metadata=_metadata(row, "id", "content"))


def _title_id(title: str) -> str:
    """TREC's files allow no white space in an id, and titles have it."""
    return "_".join(title.split())


def _text_or_empty(row: Row, key: str) -> str:
    """A text that may be empty, because published corpora have such documents, but not missing."""
    return row.optional_text(key) if key in row.values else row.text(key)


def _required_names(row: Row, key: str) -> tuple[str, ...]:
    if key not in row.values:
        raise row.error(f'no "{key}"; every line needs "{key}" (a list of strings)')
    return row.names(key)


def _metadata(row: Row, *read: str) -> dict[str, Any]:
    """Everything of a row but what was read; an object under "metadata" is merged with it."""
    rest = {key: value for key, value in row.values.items() if key not in read}
    inner = rest.get("metadata")
    if isinstance(inner, dict):
        del rest["metadata"]
        return rest | inner
    return rest


def _read_tsv(path: Path) -> Iterator[_Judgement]:
    header: list[str] | None = None
    for number, line in enumerate(read_lines(path), start=1):
        where, values = f"{path}:{number}", line.rstrip("\r\n").split("\t")
        if not line.strip():
            continue
        if header is None:
            header = values
            missing = next((column for column in _COLUMNS if column not in header), None)
            if missing is not None:
                columns = ", ".join(_COLUMNS)
                raise InputError(f'{where}: no column "{missing}"; begin with a line of {columns}, separated by tabs')
            continue
        if len(values) != len(header):
            raise InputError(f"{where}: {len(values)} columns; give {len(header)}, as in the header, separated by tabs")
        row = dict(zip(header, values, strict=True))
        yield _Judgement(where, row["query-id"], row["corpus-id"], parse_grade(row["score"], where))


def _read_jsonl(path: Path) -> Iterator[_Judgement]:
    for row in read_rows(path, "judgement"):
        if "score" not in row.values:
            raise row.error('no "score"; give 0 for not relevant, 1 or more for relevant')
        score = row.values["score"]
        grade = parse_grade("true" if isinstance(score, bool) else str(score), row.where)
        yield _Judgement(row.where, row.identifier("query-id"), row.identifier("corpus-id"), grade)


def _collect(
    judgements: Iterable[_Judgement], documents: Collection[str], queries: Collection[str]
) -> dict[str, dict[str, int]]:
    """{query id: {document id: grade}}. A judgement that is repeated is harmless, one that differs is an error."""
    grades: dict[str, dict[str, int]] = {}
    for where, query, document, grade in judgements:
        if query not in queries:
            raise InputError(f'{where}: query "{query}" is not among the queries; correct the id or add that query')
        if document not in documents:
            raise InputError(
                f'{where}: document "{document}" is not in the corpus; correct the id or add that document'
            )
        known = grades.setdefault(query, {})
        if known.setdefault(document, grade) != grade:
            raise InputError(
                f'{where}: query "{query}" and document "{document}" have grade {grade} here, and {known[document]} '
                "on an earlier line; keep one of them"
            )
    return grades


def _no_split(path: Path, splits: Collection[str]) -> InputError:
    choice = f"choose from {', '.join(sorted(splits))}" if splits else "add that file"
    return InputError(f"{path}: no such split; {choice}")
