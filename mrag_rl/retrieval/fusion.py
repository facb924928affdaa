"""RAG-Fusion: several queries from one question, a search with each, one ranking by reciprocal rank fusion.

"Forget RAG, the Future is RAG-Fusion" (Raudaschl 2023); the fusion is by Cormack et al. 2009.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.generation.fusion_prompts import MOST_QUERIES, SEPARATOR, query_prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import render
from mrag_rl.retrieval.voting import RRF_K, Ranking, count_votes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUERIES = 4  # The article's and Multi-Head RAG's number of generated queries
TEMPERATURE = 0.7
_QUERY_TOKENS = 32  # Room for one query in the LLM's answer

Search = Callable[[Sequence[str], int], Ranking]
"""(texts, fetch) -> a ranking of at most `fetch` documents for each text, by any strategy."""

_ENDS = re.compile(rf"\n|{re.escape(SEPARATOR)}")
# "1.", "(2)", "a)", "-", "Query 3:" and their like; "3.5 million" and "12:30" are no numbering.
_MARK = re.compile(
    r"(?:[-*•·–—>#]+\s+|[(\[]?\d{1,2}[.):\]](?!\d)\s*|\(?[a-z]\)\s+|(?:search\s+)?query(?:\s*\d{1,2})?\s*:\s*)+",
    re.IGNORECASE,
)
_QUOTES = ('""', "''", "“”", "‘’", "„“", "«»")


@dataclass(frozen=True)
class FusionQueries:
    """What is searched for a question: itself and further queries.

    Attributes:
        original: The question.
        generated: Further queries, the LLM's or the user's.
        note: What went wrong in one line, "" if nothing did: fewer queries than asked for.
    """

    original: str
    generated: tuple[str, ...] = ()
    note: str = ""

    @classmethod
    def of(cls, original: str, queries: Iterable[str]) -> FusionQueries:
        """A question with queries of one's own or edited ones: blank ones and those that say the same are dropped."""
        return cls(original, tuple(_distinct(original, (" ".join(query.split()) for query in queries))))

    @property
    def all(self) -> tuple[str, ...]:
        """The question, then the other queries."""
        return (self.original, *self.generated)


def generate_queries(
    llm: LLM, questions: Sequence[str], n: int = QUERIES, *, temperature: float = TEMPERATURE, seed: int = 0
) -> list[FusionQueries]:
    """n further queries for each question, written by an LLM; with n = 0 it is not asked.

    All questions are asked in one batch. Those that got fewer than n usable queries (see `parse_queries`; the question
    again is none) are asked once more with the next seed, never greedily, and keep what both askings gave; `note` says
    where that still was too little.

    Raises InputError: n not in 0 to `MOST_QUERIES`, a blank question.
    """
    check_count(n)
    for i, question in enumerate(questions):
        if not question.strip():
            raise InputError(f"question {i} of {len(questions)} is blank; give it some text")
    found: list[list[str]] = [[] for _ in questions]
    for asking in (0, 1):
        short = [i for i, queries in enumerate(found) if len(queries) < n]
        if not short:
            break
        texts = llm.generate(
            [query_prompt(questions[i], n) for i in short],
            temperature=temperature if asking == 0 else temperature or TEMPERATURE,
            seeds=seed + asking,
            max_new_tokens=_QUERY_TOKENS * n,
        )
        for i, (text,) in zip(short, texts, strict=True):
            found[i] = _distinct(questions[i], [*found[i], *parse_queries(text)])[:n]
    return [
        FusionQueries(
            question,
            tuple(queries),
            "" if len(queries) == n else f"the LLM wrote {len(queries)} of {n} queries, asked twice",
        )
        for question, queries in zip(questions, found, strict=True)
    ]


def check_count(n: int) -> None:
    """Raises InputError: a number of generated queries not in 0 to `MOST_QUERIES`."""
    if not 0 <= n <= MOST_QUERIES:
        raise InputError(f"{n} generated queries; give 0 to {MOST_QUERIES}")


def parse_queries(text: str) -> list[str]:
    """The queries in what an LLM wrote: one a line, or between "||", less numbering, bullets and quotes around them.

    Lines without a letter or digit, lines that end with a colon ("Here are four queries:") and repetitions are dropped.
    """
    return _distinct("", (_bare(piece) for piece in _ENDS.split(text)))


def generation_tokens(
    tokenizer: PreTrainedTokenizerBase, questions: Sequence[str], queries: Sequence[Sequence[str]]
) -> dict[str, float]:
    """What a language model reads and writes for queries about each of B questions, one or more of each, means over
    questions: {"prompt": tokens of the prompt that asks for as many, "completion": of the queries}."""
    prompts = [
        render(query_prompt(question, min(len(some), MOST_QUERIES)))
        for question, some in zip(questions, queries, strict=True)
    ]
    written = [f" {SEPARATOR} ".join(some) for some in queries]

    def mean(texts: list[str]) -> float:
        rows = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return sum(map(len, rows)) / len(rows)

    return {"prompt": mean(prompts), "completion": mean(written)}


def search_lists(search: Search, queries: Sequence[FusionQueries], fetch: int) -> np.ndarray:
    """What each query of B questions finds, searched in one batch: (B, Q, fetch) indices, the question's own list
    first, -1 where a list is shorter or a question has fewer queries."""
    if not queries:
        return np.empty((0, 1, fetch), np.int64)
    counts = np.array([len(some.all) for some in queries])
    found = search([text for some in queries for text in some.all], fetch).indices
    rows = np.repeat(np.arange(len(queries)), counts)
    columns = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
    lists = np.full((len(queries), counts.max(), found.shape[1]), -1, dtype=np.int64)
    lists[rows, columns] = found
    return lists


def fuse(
    lists: np.ndarray, fetch: int, *, original_weight: float = 1.0, k: float = RRF_K, first_rank: int = 0
) -> Ranking:
    """The best `fetch` documents of lists as `search_lists` gives them: the question's own list has a weight of its
    own, every other weighs 1. The rest as in `reciprocal_rank_fusion`."""
    weights = np.ones(lists.shape[1])
    weights[0] = original_weight
    return reciprocal_rank_fusion(lists, weights, k=k, first_rank=first_rank, fetch=fetch)


def search_fused(
    search: Search,
    queries: Sequence[FusionQueries],
    fetch: int,
    *,
    original_weight: float = 1.0,
    k: float = RRF_K,
    first_rank: int = 0,
) -> Ranking:
    """Search with all queries of B questions in one batch and fuse what was found: the best `fetch` for each question.

    Each query's list has `fetch` places; see `fuse`.
    """
    lists = search_lists(search, queries, fetch)
    return fuse(lists, fetch, original_weight=original_weight, k=k, first_rank=first_rank)


def reciprocal_rank_fusion(
    rankings: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    k: float = RRF_K,
    first_rank: int = 0,
    fetch: int | None = None,
) -> Ranking:
    """Fuse Q rankings of each of B questions: a document scores the sum of weight / (k + rank) over its places.

    Args:
        rankings: (B, Q, c) indices, best first, -1 where a list is shorter or missing; no document twice in a list.
        weights: (Q,) or (B, Q), at least 0; None is 1 for all.
        k: What a rank is added to.
        first_rank: The rank of the first place: 0 as in the article's code, 1 as in its formula.
        fetch: How many documents to return; None is all. Equals come by index.

    Raises InputError: weights below 0, not finite or of another shape, first_rank not 0 or 1, k + first_rank not above
    0, fetch < 1.
    """
    if first_rank not in (0, 1):
        raise InputError(f"first_rank is {first_rank}; give 0 (the article's code) or 1 (its formula)")
    if not (np.isfinite(k) and k + first_rank > 0):
        raise InputError(f"rank fusion: k is {k}; give a number above {-first_rank}")
    if fetch is not None and fetch < 1:
        raise InputError(f"fetch is {fetch}; give 1 or more")
    questions, lists, places = rankings.shape
    if weights is not None and np.shape(weights) not in {(lists,), (questions, lists)}:
        raise InputError(f"rank fusion: weights of shape {np.shape(weights)} for {lists} lists; give one a list")
    given = np.ones((questions, lists)) if weights is None else np.broadcast_to(weights, (questions, lists))
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise InputError("rank fusion: a weight is below 0 or not finite; give numbers of 0 or more")
    votes = given[..., None] / (k + first_rank + np.arange(places))
    fused = count_votes(
        rankings.reshape(questions * lists, places),
        votes.reshape(questions * lists, places),
        np.repeat(np.arange(questions), lists),
        queries=questions,
        fetch=lists * places if fetch is None else fetch,
    )
    width = int((fused.indices >= 0).sum(axis=1).max(initial=0)) if fetch is None else fetch
    return Ranking(fused.indices[:, :width], fused.scores[:, :width])


def _distinct(original: str, queries: Iterable[str]) -> list[str]:
    """Queries with words, each that says no more than the original or an earlier one (case, punctuation) dropped."""
    kept: dict[str, str] = {}
    for query in queries:
        key = _key(query)
        if key and key != _key(original):
            kept.setdefault(key, query)
    return list(kept.values())


def _key(text: str) -> str:
    return " ".join(re.findall(r"\w+[+#]*", text.casefold()))


def _bare(line: str) -> str:
    """A line without numbering, bullet and quotes around it; "" for a heading."""
    text, before = " ".join(line.split()), ""
    while text != before:
        before = text
        mark = _MARK.match(text)
        text = (text[mark.end() :] if mark else text).strip("*` ")
        if text[:1] + text[-1:] in _QUOTES and not {text[0], text[-1]} & set(text[1:-1]):
            text = text[1:-1].strip()
    return "" if text.endswith(":") else text
