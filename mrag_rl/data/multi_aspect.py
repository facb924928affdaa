"""Multi-aspect datasets: documents in categories, and queries that need one document from each of n categories.

Source: Multi-Head RAG: Solving Multi-Aspect Problems with LLMs, Section 3 (the later version: Section 4, Appendices D
and G). `select_documents` makes the corpus and `draw_aspects` says which documents each query is about; the query texts
are written by `mrag_rl.generation.stories`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from mrag_rl.data import records
from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, read_jsonl, write_jsonl

ASPECTS = (1, 2, 3, 4, 5, 6, 10, 15, 20, 25)
"""The numbers of aspects that the papers ask for."""


def load_documents(path: StrPath) -> list[Document]:
    """The documents of a JSONL file, each with a category (space around it is cut off).

    Raises InputError naming file and line.
    """
    documents = records.load_documents(path)
    for line, document in zip(_lines(path), documents, strict=True):
        if not document.category.strip():
            raise InputError(f'{os.fspath(path)}:{line}: no "category"; name the one that the document belongs to')
    return [replace(document, category=document.category.strip()) for document in documents]


def load_queries(path: StrPath, documents: Sequence[Document]) -> list[Query]:
    """The queries of a JSONL file, each with the ids of its relevant documents, which are all among `documents`.

    Raises InputError naming file and line.
    """
    known = {document.id for document in documents}
    queries = records.load_queries(path)
    for line, query in zip(_lines(path), queries, strict=True):
        where = f"{os.fspath(path)}:{line}"
        if not query.relevant:
            raise InputError(f'{where}: no "relevant"; list the ids of the documents that the query is about')
        for identifier, times in Counter(query.relevant).items():
            if identifier not in known:
                raise InputError(
                    f'{where}: relevant id "{identifier}" is not a document; correct the id or add that document'
                )
            if times > 1:
                raise InputError(f'{where}: relevant id "{identifier}" occurs {times} times; list it once')
    return queries


def save_documents(path: StrPath, documents: Iterable[Document]) -> None:
    """Write documents as JSONL, atomically; `load_documents` reads them back equal."""
    _save(path, documents)


def save_queries(path: StrPath, queries: Iterable[Query]) -> None:
    """Write queries as JSONL, atomically; `load_queries` reads them back equal."""
    _save(path, queries)


@dataclass(frozen=True, slots=True)
class Selection:
    """A corpus with the same number of documents in each category, and what was left out of it.

    Attributes:
        documents: Category by category (in order of name), each in the order of the corpus it was drawn from.
        too_short: Documents below the minimum length.
        duplicates: Documents whose title or text came before, whatever their category.
        small_categories: Categories with too few documents left, with how many.
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
    """Draw a multi-aspect corpus with the papers' filters.

    Args:
        documents: Any corpus with categories.
        per_category: Documents to draw in each category.
        categories: Categories to draw, None for all that have enough documents.
        min_length: The shortest text, in characters.
        seed: Which categories and documents are drawn. A category's documents do not depend on the other categories.

    Raises:
        InputError: A document has no category, or there are too few categories with enough documents.
    """
    if per_category < 1 or (categories is not None and categories < 1):
        raise InputError(
            f"{categories} categories of {per_category} documents are too few for a corpus; ask for 1 or more of each"
        )
    by_category: dict[str, list[Document]] = {}
    titles: set[str] = set()
    texts: set[str] = set()
    too_short = duplicates = 0
    for document in documents:
        category = document.category.strip()
        if not category:
            raise InputError(f'document "{document.id}" has no category; give it one, or leave it out')
        kept = by_category.setdefault(category, [])
        title, text = _fold(document.title), _fold(document.text)
        if len(document.text) < min_length:
            too_short += 1
        elif text in texts or (title and title in titles):
            duplicates += 1
        else:
            kept.append(document)
            texts.add(text)
            titles.add(title)
    large = sorted(name for name, kept in by_category.items() if len(kept) >= per_category)
    if len(large) < (categories or 1):
        raise InputError(
            f"{len(large)} of {len(by_category)} categories have {per_category} distinct documents of {min_length} "
            f"characters or more, and {categories or 1} are needed; lower per_category, categories or min_length"
        )
    chosen = large
    if categories is not None:
        order = np.random.default_rng([seed, 0]).permutation(len(large))
        chosen = [large[i] for i in sorted(order[:categories])]
    drawn = []
    for name in chosen:
        # A stream of its own, so that a category more or less leaves the others as they are.
        order = np.random.default_rng([seed, 1, *name.encode()]).permutation(len(by_category[name]))
        drawn += [by_category[name][i] for i in sorted(order[:per_category])]
    small = {name: len(kept) for name, kept in sorted(by_category.items()) if len(kept) < per_category}
    return Selection(drawn, too_short, duplicates, small)


def draw_aspects(
    documents: Sequence[Document], *, aspects: Sequence[int] = ASPECTS, per_aspect: int = 25, seed: int = 0
) -> list[list[Document]]:
    """Draw what each query is about: n categories at random, and one document of each.

    Args:
        documents: A corpus with categories.
        aspects: The numbers n.
        per_aspect: Queries for each n; no two of them are about the same documents.
        seed: Query i of n aspects depends on (seed, n) and the corpus alone, not on the other numbers.

    Returns:
        The documents of each query, the queries in the order of `aspects`.

    Raises:
        InputError: A document has no category, or there are too few categories or documents.
    """
    by_category: dict[str, list[Document]] = {}
    for document in documents:
        if not document.category.strip():
            raise InputError(f'document "{document.id}" has no category; give it one, or leave it out')
        by_category.setdefault(document.category.strip(), []).append(document)
    names = sorted(by_category)
    drawn = []
    for n in aspects:
        if not 1 <= n <= len(names):
            raise InputError(f"{n} aspects, but the documents have {len(names)} categories; ask for 1 to {len(names)}")
        possible = _ways([len(by_category[name]) for name in names], n)
        if possible < per_aspect:
            raise InputError(
                f"{per_aspect} queries of {n} aspects, but only {possible} can be drawn; ask for fewer or add documents"
            )
        rng = np.random.default_rng([seed, n])
        seen: set[frozenset[str]] = set()
        while len(seen) < per_aspect:
            picked = [by_category[names[i]] for i in rng.permutation(len(names))[:n]]
            query = [kept[int(rng.integers(len(kept)))] for kept in picked]
            ids = frozenset(document.id for document in query)
            if ids not in seen:
                seen.add(ids)
                drawn.append(query)
    return drawn


def _ways(sizes: Sequence[int], n: int) -> int:
    """How many sets of n documents from n different categories there are (an elementary symmetric polynomial)."""
    ways = [1] + [0] * n
    for size in sizes:
        for k in range(n, 0, -1):
            ways[k] += ways[k - 1] * size
    return ways[n]


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _lines(path: StrPath) -> list[int]:
    return [line for line, _ in read_jsonl(path)]


def _save(path: StrPath, records_: Iterable[Document] | Iterable[Query]) -> None:
    write_jsonl(path, ({key: value for key, value in asdict(r).items() if value not in ((), {}, "")} for r in records_))
