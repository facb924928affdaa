"""The queries of RAG-Fusion: several from one question, to search with each and to fuse the rankings.

"Forget RAG, the Future is RAG-Fusion" (Raudaschl 2023).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrag_rl.data.facts import is_mentioned, names
from mrag_rl.data.titles import word_string
from mrag_rl.errors import InputError
from mrag_rl.generation.fusion_prompts import MOST_QUERIES, SEPARATOR, query_prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import render

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUERIES = 4  # The article's and Multi-Head RAG's number of generated queries
TEMPERATURE = 0.7
_QUERY_TOKENS = 32  # Room for one query in the LLM's answer

_ENDS = re.compile(rf"\n|{re.escape(SEPARATOR)}")
# "1.", "(2)", "a)", "-", "Query 3:" and the like; "3.5 million" and "12:30" are not numbering.
_MARK = re.compile(
    r"(?:[-*•·–—>#]+\s+|[(\[]?\d{1,2}[.):\]](?!\d)\s*|\(?[a-z]\)\s+|(?:search\s+)?query(?:\s*\d{1,2})?\s*:\s*)+",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<!\S)[(\[]?(\d{1,2})[.)\]:]\s+(?=\S)")
_LIST = re.compile(r"""\s*(?:```\w*\s*)?\[\s*["']""")
# Strings of a list; the apostrophe in 'the king's speech' ends none
_STRING = re.compile(
    r"""(?<=[\[,\s])(?:"((?:[^"\\\n]|\\.)+)"|'((?:[^'\\\n]|\\.|(?<=\w)'(?=\w))+)')(?=\s*(?:[],`]|$))"""
)
_QUOTES = ('""', "''", "“”", "‘’", "„“", "«»")


@dataclass(frozen=True)
class FusionQueries:
    """A question and the further queries to search with.

    Attributes:
        original: The question.
        generated: The further queries, the LLM's or the user's.
        note: One line that says why there are fewer queries than requested, "" if there are not.
    """

    original: str
    generated: tuple[str, ...] = ()
    note: str = ""

    @classmethod
    def of(cls, original: str, queries: Iterable[str]) -> FusionQueries:
        """A question with queries written by the user; blank ones and repetitions are dropped."""
        return cls(original, tuple(_distinct(original, (" ".join(query.split()) for query in queries))))

    @property
    def all(self) -> tuple[str, ...]:
        """The question, then the other queries."""
        return (self.original, *self.generated)


def generate_queries(
    llm: LLM, questions: Sequence[str], n: int = QUERIES, *, temperature: float = TEMPERATURE, seed: int = 0
) -> list[FusionQueries]:
    """n further queries for each question, written by an LLM, which is not called for n = 0.

    All questions go to the LLM in one batch. Those that get fewer than n usable queries (see `parse_queries`; a
    repetition of the question is not usable) are tried once more with the next seed, never greedily, and keep the
    queries of both attempts; `note` says where these are still too few. A query is not usable either if it brings in
    a name of two or more words that the question does not have (`data.facts.names`): it would search for something
    else.

    Raises InputError: n not in 0 to `MOST_QUERIES`, a blank question.
    """
    check_count(n)
    for i, question in enumerate(questions):
        if not question.strip():
            raise InputError(f"question {i} of {len(questions)} is blank; give it some text")
    generated: list[list[str]] = [[] for _ in questions]
    for attempt in (0, 1):
        short = [i for i, queries in enumerate(generated) if len(queries) < n]
        if not short:
            break
        texts = llm.generate(
            [query_prompt(questions[i], n) for i in short],
            temperature=temperature if attempt == 0 else temperature or TEMPERATURE,
            seeds=seed + attempt,
            max_new_tokens=_QUERY_TOKENS * n,
        )
        for i, (text,) in zip(short, texts, strict=True):
            own = [query for query in parse_queries(text) if not _strays(query, questions[i])]
            generated[i] = _distinct(questions[i], [*generated[i], *own])[:n]
    return [
        FusionQueries(
            question,
            tuple(queries),
            "" if len(queries) == n else f"the LLM wrote {len(queries)} of {n} usable queries, asked twice",
        )
        for question, queries in zip(questions, generated, strict=True)
    ]


def _strays(query: str, question: str) -> bool:
    """Whether a query has a name that the question does not have."""
    words = word_string(question)
    return any(not is_mentioned(name, words) for name in names(query))


def check_count(n: int) -> None:
    """Raises InputError for a number of generated queries that is not in 0 to `MOST_QUERIES`."""
    if not 0 <= n <= MOST_QUERIES:
        raise InputError(f"{n} generated queries; give 0 to {MOST_QUERIES}")


def check_given(queries: Sequence[str]) -> None:
    """Raises InputError for more queries of one's own than `MOST_QUERIES`."""
    if len(queries) > MOST_QUERIES:
        raise InputError(f"{len(queries):,} further queries; give {MOST_QUERIES} or fewer")


def parse_queries(text: str) -> list[str]:
    """The queries in an LLM's text, without their numbering, bullets and quotes: one per line, separated by "||",
    numbered in one line ("1. ...; 2. ..."), or as a JSON list.

    Lines without a letter or digit, lines that end with a colon ("Here are four queries:"), what stands before a number
    1 and repetitions are dropped.
    """
    lines = [line for listed in _listed(text) for line in _ENDS.split(listed)]
    return _distinct("", (_bare(piece) for line in lines for piece in _numbered(line)))


def generation_tokens(
    tokenizer: PreTrainedTokenizerBase, questions: Sequence[str], queries: Sequence[Sequence[str]]
) -> dict[str, float]:
    """The mean number of tokens that a language model reads and writes to generate queries for each of B questions.

    queries: one or more for each question. Returns {"prompt": tokens of the prompt that requests as many queries,
    "completion": tokens of the queries}.
    """
    prompts = [
        render(query_prompt(question, min(len(texts), MOST_QUERIES)))
        for question, texts in zip(questions, queries, strict=True)
    ]
    completions = [f" {SEPARATOR} ".join(texts) for texts in queries]

    def mean(texts: list[str]) -> float:
        rows = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return sum(map(len, rows)) / len(rows)

    return {"prompt": mean(prompts), "completion": mean(completions)}


def _distinct(original: str, queries: Iterable[str]) -> list[str]:
    """The queries that have words, without those that equal the original or an earlier one but for case and
    punctuation."""
    distinct: dict[str, str] = {}
    for query in queries:
        key = _key(query)
        if key and key != _key(original):
            distinct.setdefault(key, query)
    return list(distinct.values())


def _key(text: str) -> str:
    return " ".join(re.findall(r"\w+[+#]*", text.casefold()))


def _listed(text: str) -> list[str]:
    """The strings of a JSON list in a text, or the text. A text that begins with a list may break it off, or write it
    in another notation: its quoted strings count."""
    start, end = text.find("["), text.rfind("]")
    try:
        listed = json.loads(text[start : end + 1 if start < end else None]) if start >= 0 else None
    except (ValueError, RecursionError):
        strings = _STRING.findall(text) if _LIST.match(text) else []
        return [re.sub(r"\\([\"'])", r"\1", double or single) for double, single in strings] or [text]
    return listed if isinstance(listed, list) and all(isinstance(item, str) for item in listed) else [text]


def _numbered(line: str) -> list[str]:
    """The items of a line that counts them from 1, or the line."""
    marks = list(_NUMBER.finditer(line))
    if not marks or [int(mark[1]) for mark in marks] != list(range(1, len(marks) + 1)):
        return [line]
    before = line[: marks[0].start()].strip()
    if before and before[-1] not in "!:.":  # "Windows 1. version"
        return [line]
    ends = [*(mark.start() for mark in marks[1:]), len(line)]
    return [line[mark.end() : end].strip(" ;,") for mark, end in zip(marks, ends, strict=True)]


def _bare(line: str) -> str:
    """A line without the numbering, bullet and quotes around it; "" for a heading."""
    text, before = " ".join(line.split()), ""
    while text != before:
        before = text
        mark = _MARK.match(text)
        text = (text[mark.end() :] if mark else text).strip("*` ")
        if text[:1] + text[-1:] in _QUOTES and not {text[0], text[-1]} & set(text[1:-1]):
            text = text[1:-1].strip()
    return "" if text.endswith(":") else text
