"""Multi-aspect datasets: documents in categories, and queries that need one document from each of n categories.

Source: Multi-Head RAG: Solving Multi-Aspect Problems with LLMs, Section 3 (the later version: Section 4, Appendices D
and G). `select_documents` makes the corpus, `draw_aspects` says which documents each query is about, `write_stories`
lets a language model write the query texts, and `reader_prompt` shows what was retrieved to the model that answers.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from mrag_rl.data import records
from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt
from mrag_rl.io import StrPath, read_jsonl, write_jsonl

ASPECTS = (1, 2, 3, 4, 5, 6, 10, 15, 20, 25)
"""The numbers of aspects that the papers ask for."""

MIN_STORY = 100
"""Characters that a story must have besides the titles, or it is a list of them."""


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
                    f'{where}: relevant id "{identifier}" is no document; mend the id or add that document'
                )
            if times > 1:
                raise InputError(f'{where}: relevant id "{identifier}" stands there {times} times; name it once')
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
            f"{categories} categories of {per_category} documents make no corpus; ask for 1 or more of each"
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
            f"characters or more, and {categories or 1} are wanted; lower per_category, categories or min_length"
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


@dataclass(frozen=True, slots=True)
class Dropped:
    """A query whose story never passed the check: the documents' ids, and what the last attempt lacked."""

    relevant: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class Stories:
    """The queries written, with the number of attempts each took under `metadata`, and those given up."""

    queries: list[Query]
    dropped: list[Dropped]


def write_stories(
    llm: LLM,
    drawn: Sequence[Sequence[Document]],
    *,
    seed: int = 0,
    attempts: int = 3,
    temperature: float = 0.7,
    max_new_tokens: int = 1024,
    first: int = 0,
) -> Stories:
    """Let a language model write each query's text: a story around its documents that mentions every title.

    A story that fails the check (`story_problem`) is asked for again with another seed; one that still fails after
    `attempts` is dropped and reported. All stories of one attempt go to the model together.

    Args:
        llm: Who writes.
        drawn: The documents of each query, as `draw_aspects` gives them.
        seed, temperature, max_new_tokens: As for `LLM.generate`.
        attempts: How often a story is asked for, at most.
        first: The number of the first query, where they are written in several calls.

    Returns:
        The queries, in order. With `first` 0 query `q7` is about `drawn[7]`, whatever was dropped before it.

    Raises:
        InputError: A document has no title.
    """
    if attempts < 1 or temperature <= 0:
        raise InputError(
            f"{attempts} attempts at temperature {temperature} write no new story; give 1 or more, above 0"
        )
    prompts = [story_prompt(documents) for documents in drawn]
    written: dict[int, Query] = {}
    problems: dict[int, str] = {}
    for attempt in range(attempts):
        open_ = [i for i in range(len(drawn)) if i not in written]
        if not open_:
            break
        seeds = int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0])
        texts = llm.generate(
            [prompts[i] for i in open_], temperature=temperature, seeds=seeds, max_new_tokens=max_new_tokens
        )
        for i, (text,) in zip(open_, texts, strict=True):
            problem = story_problem(text, drawn[i])
            if problem:
                problems[i] = problem
                continue
            ids = tuple(document.id for document in drawn[i])
            written[i] = Query(f"q{first + i}", text.strip(), ids, metadata={"attempts": attempt + 1})
    dropped = [
        Dropped(tuple(document.id for document in drawn[i]), problems[i]) for i in range(len(drawn)) if i not in written
    ]
    return Stories([written[i] for i in sorted(written)], dropped)


def story_prompt(documents: Sequence[Document]) -> Prompt:
    """What the writer of a story is shown: the titles, then each article under its title.

    The titles come first, for a text that outgrows the model's context loses its end. Raises InputError for a document
    without a title.
    """
    for document in documents:
        if not document.title.strip():
            raise InputError(f'document "{document.id}" has no title; give it one, for its story has to mention it')
    titles = "; ".join(document.title.strip() for document in documents)
    articles = "\n\n".join(f"{document.title.strip()}\n{document.text.strip()}" for document in documents)
    return Prompt("story", f"{len(documents)} titles to mention: {titles}\n\n{articles}")


def reader_prompt(question: str, documents: Sequence[Document]) -> Prompt:
    """What the reader of retrieved documents is shown: the question, then a numbered section for each document.

    A section has title, category and metadata where they are known. The question comes first and the documents best
    first, for a text that outgrows the model's context loses its end.
    """
    sections = []
    for number, document in enumerate(documents, start=1):
        about = [document.category] if document.category else []
        about += [f"{key}: {value}" for key, value in document.metadata.items()]
        head = f"{number}. {document.title}".rstrip() + (f"\n[{'; '.join(about)}]" if about else "")
        sections.append(f"{head}\n{document.text.strip()}")
    return Prompt("reader", "\n\n".join([question.strip(), *sections]))


def story_problem(story: str, documents: Sequence[Document]) -> str:
    """What keeps a text from being the story of these documents (titles not mentioned, no story); "" if nothing."""
    missing = [document.title for document in documents if not mentions(story, document.title)]
    if missing:
        return f"{len(missing)} of {len(documents)} titles missing: {'; '.join(missing)}"
    words = len(story.strip()) - sum(len(document.title) for document in documents)
    return "" if words >= MIN_STORY else f"{max(words, 0)} characters besides the titles, not {MIN_STORY}"


def mentions(text: str, title: str) -> bool:
    """Whether a text has a title's words, in order and next to each other.

    Case, accents, punctuation, an article before the title, the qualifier in parentheses behind it ("Go (board game)"),
    and the s of a plural or genitive make no difference.
    """
    words = word_string(re.sub(r"\s*\([^()]*\)\s*$", "", title)).split()
    if len(words) > 1 and words[0] in ("a", "an", "the"):
        words = words[1:]
    if not words:
        return title.strip() in text
    return re.search(rf" {' '.join(map(re.escape, words))}(s|es)? ", word_string(text)) is not None


def word_string(text: str) -> str:
    """The words of a text between single spaces, one at each end too: lower case, without accents or punctuation."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    words = " ".join(re.findall(r"[^\W_]+", plain))
    return f" {words} "


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
