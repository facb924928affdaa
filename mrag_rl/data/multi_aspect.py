"""Multi-aspect datasets: documents in categories, and queries that need one document from each of n categories.

Source: Multi-Head RAG: Solving Multi-Aspect Problems with LLMs, Section 3 (the later version: Section 4, Appendices D
and G). `select_documents` draws the corpus and `draw_aspects` the documents of each query; the query texts are written
by `mrag_rl.generation.stories`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice

import numpy as np

from mrag_rl.data import records
from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, read_jsonl, write_jsonl

ASPECTS = (1, 2, 3, 4, 5, 6, 10, 15, 20, 25)
"""The numbers of aspects in the papers."""


def load_documents(path: StrPath) -> list[Document]:
    """The documents of a JSONL file, each with a category (without surrounding spaces).

    Raises InputError naming file and line.
    """
    documents = records.load_documents(path)
    for index, document in enumerate(documents):
        if not document.category.strip():
            raise InputError(f'{_place(path, index)}: no "category"; add the one that the document belongs to')
    return [replace(document, category=document.category.strip()) for document in documents]


def load_queries(path: StrPath, documents: Sequence[Document]) -> list[Query]:
    """The queries of a JSONL file, each with what it should find (`Query.wanted`), all of it in `documents`.

    Raises InputError naming file and line.
    """
    document_ids = {document.id for document in documents}
    queries = records.load_queries(path)
    for index, query in enumerate(queries):
        if not query.wanted:
            raise InputError(
                f'{_place(path, index)}: no "relevant" and no "aspects"; list the ids of the relevant documents, or '
                "for each aspect those of the documents that answer it"
            )
        if query.relevant and query.aspects:
            raise InputError(f'{_place(path, index)}: both "relevant" and "aspects"; give one of them')
        key, lists = ("aspects", query.aspects) if query.aspects else ("relevant", (query.relevant,))
        for identifier, count in chain.from_iterable(Counter(ids).items() for ids in lists):
            if identifier not in document_ids:
                raise InputError(
                    f'{_place(path, index)}: {key} id "{identifier}" is not a document; correct the id or add that '
                    "document"
                )
            if count > 1:
                raise InputError(
                    f'{_place(path, index)}: {key} id "{identifier}" is listed {count} times; list it once'
                )
    return queries


def save_documents(path: StrPath, documents: Iterable[Document]) -> None:
    """Write documents as JSONL, atomically; `load_documents` reads them back equal."""
    _save(path, documents)


def save_queries(path: StrPath, queries: Iterable[Query]) -> None:
    """Write queries as JSONL, atomically; `load_queries` reads them back equal."""
    _save(path, queries)


@dataclass(frozen=True, slots=True)
class Selection:
    """A corpus with the same number of documents in each category, and counts of what was excluded.

    Attributes:
        documents: Category by category (sorted by name), each in the order of the original corpus.
        too_short: Number of documents below the minimum length.
        duplicates: Number of documents with the title or text of an earlier one, of any category.
        small_categories: Categories with too few documents left, with their numbers of documents.
    """

    documents: list[Document]
    too_short: int
    duplicates: int
    small_categories: dict[str, int]


def select_documents(
    documents: Sequence[Document],
    *,
    per_category: int = 50,
    categories: int | None = None,
    min_length: int = 800,
    seed: int = 0,
) -> Selection:
    """Draw a multi-aspect corpus by the papers' criteria.

    Args:
        documents: Any corpus with categories.
        per_category: Number of documents to draw per category.
        categories: Number of categories to draw, None for all that have enough documents.
        min_length: The shortest text, in characters.
        seed: Seed of the draw. The documents drawn in a category do not depend on the other categories.

    Raises:
        InputError: A document has no category, or there are too few categories with enough documents.
    """
    if per_category < 1 or (categories is not None and categories < 1):
        raise InputError(
            f"{categories} categories of {per_category} documents are not a corpus; ask for 1 or more of each"
        )
    by_category: dict[str, list[Document]] = {}
    titles: set[str] = set()
    texts: set[str] = set()
    too_short = duplicates = 0
    for document in documents:
        category = document.category.strip()
        if not category:
            raise InputError(f'document "{document.id}" has no category; give it one or remove it')
        candidates = by_category.setdefault(category, [])
        title, text = _fold(document.title), _fold(document.text)
        if len(document.text) < min_length:
            too_short += 1
        elif text in texts or (title and title in titles):
            duplicates += 1
        else:
            candidates.append(document)
            texts.add(text)
            titles.add(title)
    large = sorted(name for name, candidates in by_category.items() if len(candidates) >= per_category)
    if len(large) < (categories or 1):
        raise InputError(
            f"{len(large)} of {len(by_category)} categories have {per_category} distinct documents of {min_length} "
            f"characters or more, but {categories or 1} are needed; lower per_category, categories or min_length"
        )
    names = large
    if categories is not None:
        order = np.random.default_rng([seed, 0]).permutation(len(large))
        names = [large[i] for i in sorted(order[:categories])]
    drawn: list[Document] = []
    for name in names:
        # A random stream per category, so that the draw in one does not depend on the others.
        order = np.random.default_rng([seed, 1, *name.encode()]).permutation(len(by_category[name]))
        drawn += [by_category[name][i] for i in sorted(order[:per_category])]
    small = {name: len(documents) for name, documents in sorted(by_category.items()) if len(documents) < per_category}
    return Selection(drawn, too_short, duplicates, small)


def draw_aspects(
    documents: Sequence[Document], *, aspects: Sequence[int] = ASPECTS, per_aspect: int = 25, seed: int = 0
) -> list[list[Document]]:
    """Draw the documents that each query is about: n random categories, and one document of each.

    Args:
        documents: A corpus with categories.
        aspects: The numbers n.
        per_aspect: Queries for each n; no two of them are about the same documents.
        seed: Query i of n aspects depends only on (seed, n) and the corpus, not on the other numbers.

    Returns:
        The documents of each query, the queries in the order of `aspects`.

    Raises:
        InputError: A document has no category, or there are too few categories or documents.
    """
    by_category: dict[str, list[Document]] = {}
    for document in documents:
        if not document.category.strip():
            raise InputError(f'document "{document.id}" has no category; give it one or remove it')
        by_category.setdefault(document.category.strip(), []).append(document)
    names = sorted(by_category)
    drawn: list[list[Document]] = []
    for n in aspects:
        if not 1 <= n <= len(names):
            raise InputError(f"{n} aspects, but the documents have {len(names)} categories; ask for 1 to {len(names)}")
        possible = _ways([len(by_category[name]) for name in names], n)
        if possible < per_aspect:
            raise InputError(
                f"{per_aspect} queries of {n} aspects, but only {possible} can be drawn; ask for fewer or add documents"
            )
        rng = np.random.default_rng([seed, n])
        drawn_ids: set[frozenset[str]] = set()
        while len(drawn_ids) < per_aspect:
            categories = [by_category[names[i]] for i in rng.permutation(len(names))[:n]]
            query = [candidates[int(rng.integers(len(candidates)))] for candidates in categories]
            ids = frozenset(document.id for document in query)
            if ids not in drawn_ids:
                drawn_ids.add(ids)
                drawn.append(query)
    return drawn


def _ways(sizes: Sequence[int], n: int) -> int:
    """The number of sets of n documents from n different categories (an elementary symmetric polynomial)."""
    ways = [1] + [0] * n
    for size in sizes:
        for k in range(n, 0, -1):
            ways[k] += ways[k - 1] * size
    return ways[n]


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _place(path: StrPath, index: int) -> str:
    """FILE:LINE of a record of a file, as errors name it; the file is read for it once more."""
    line, _ = next(islice(read_jsonl(path), index, None))
    return f"{os.fspath(path)}:{line}"


def _save(path: StrPath, items: Iterable[Document] | Iterable[Query]) -> None:
    """Write records without their empty values."""
    write_jsonl(path, ({key: value for key, value in asdict(i).items() if value not in ((), {}, "")} for i in items))
