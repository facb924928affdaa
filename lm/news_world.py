"""One seed of the bundled news, and the training sequences drawn from it: filters, search queries and answers.

Each sequence is one of the library's own prompts followed by what the model should write.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lm.news_answers import ANSWER, ASKED, answer_target, asks_order, compared_days
from lm.news_plain import LOWER_CASE, PlainQuestions
from lm.news_search import PassageSearch
from lm.news_targets import evidence_of, filter_target, search_queries
from lm.sequences import Span, TrainingSequence, with_examples, with_target
from lm.source_names import draw_new_words, rename_source_of, rename_sources
from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_news
from mrag_rl.data.synthetic.news import write_news
from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.filters import FieldVocabulary, parse_filter
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.generation.fusion_prompts import (
    ANSWER_TASK,
    MOST_QUERIES,
    QUESTION_AGAIN,
    SEPARATOR,
    answer_prompt,
    query_prompt,
)
from mrag_rl.generation.prompts import template

TASKS = ("filter", "queries", "answer")
QUESTIONS = 4000
PASSAGES = 6
FACT_WEIGHT = 0.3
"""Loss weight of evidence in the passages, which can be predicted from the question and from other evidence."""

VERDICT_WEIGHT = 4.0
"""Loss weight of Yes and No, and of which day is later: few tokens, by which an answer is right or wrong."""

# Questions in a sequence. All but the last are examples for the last, and all are learned.
_FILTER_QUESTIONS, _QUERY_QUESTIONS = 8, 3
_DATED_SHARE = 0.5  # of the filters' questions, drawn from those that name days: the part most often misread
_ORDER_SHARE = 0.3  # of answers from passages, to questions as to which report came first, of which there are few
_DRILL_SHARE = 0.15  # of sequences of answers: pairs of days alone, whose order answers seldom ask for
_DRILLED_PAIRS = 60
_EVENT_SHARE = 0.7  # of answers from passages about one or two events, about which there are many questions
_RENAMED_SHARE = 0.25  # of sequences whose sources have made-up names

_SENTENCE_END = re.compile(r"(?<=[.?!]) ")


@dataclass(frozen=True)
class _Listing:
    """The part of a filter prompt that describes a corpus.

    Attributes:
        new_words: New words in its sources' names; empty if they keep their names.
        extractor: Writes the prompts.
    """

    new_words: dict[str, str]
    extractor: LLMExtractor


class NewsWorld:
    """The articles and questions of one seed of a split, with the articles cut into chunks.

    Attributes:
        documents, queries: As `make_news` returns them. asked: the queries, then the plain questions.
        chunks: The documents' chunks.
        vocabulary: The documents' fields and values.
        search: Finds chunks for the questions.
        listings: Two descriptions of the corpus with its own source names, then two with made-up ones.
    """

    def __init__(self, seed: int, split: str = "llm", questions: int = QUESTIONS, plain: int = 0) -> None:
        """plain: further questions (`PlainQuestions`), which only answers and search queries are drawn for."""
        rng = np.random.default_rng([seed, 5])
        self.documents, self.queries = make_news(seed, split=split, queries=questions)
        self.chunks = [
            chunk
            for document in self.documents
            for chunk in _split_document(document, int(rng.integers(950, 1160)), int(rng.integers(60, 140)))
        ]
        self.vocabulary = FieldVocabulary.from_documents(self.documents)
        plain_questions = PlainQuestions(*write_news(seed, split)[1:]).draw(rng, plain) if plain else []
        self.asked = [*self.queries, *plain_questions]
        self.search = PassageSearch(self.chunks, self.asked, self.vocabulary)
        self._dated_queries = [query for query in self.queries if "published_at" in query.metadata["filter"]]
        self._searched = [*self.queries, *(q for q in plain_questions if q.metadata["about"]["organisation"])]
        self._on_order = frozenset(i for i, query in enumerate(self.asked) if asks_order(query))
        self.listings = [
            self._draw_listing(rng, new_words) for new_words in ({}, {}, draw_new_words(rng), draw_new_words(rng))
        ]

    def sequence(
        self,
        rng: np.random.Generator,
        task: str,
        passages: int = PASSAGES,
        sentence_share: float = 1.0,
        questions: int = 1,
    ) -> TrainingSequence:
        """Draw a sequence of a task.

        Answers are to at most `questions` questions, from at most `passages` passages with a share of their sentences.
        """
        if task == "answer":
            if questions > 1 and rng.random() < _DRILL_SHARE:
                return _draw_days(rng)
            return self._draw_answers(rng, passages, sentence_share, questions)
        return self._draw_filters(rng) if task == "filter" else self._draw_search_queries(rng)

    def passages(self, rng: np.random.Generator, query: Query, count: int) -> list[Chunk]:
        """A chunk for each of a question's claims among the best of others, in random order."""
        indices = self.search.with_evidence(rng, query, self.search.best(rng, query, count), count)
        return [self.chunks[indices[i]] for i in rng.permutation(len(indices))]

    def answer_target(self, query: Query, passages: Sequence[Chunk]) -> str:
        """The answer to a question that these passages allow."""
        named = {field: value for field, value in query.metadata["filter"].items() if field == "source"}
        condition = parse_filter(named, self.vocabulary)
        return answer_target(query, passages, condition)

    def _draw_listing(self, rng: np.random.Generator, new_words: dict[str, str]) -> _Listing:
        """A description of a part of the articles: how many of them a source has determines its place in the list."""
        indices = rng.permutation(len(self.documents))[: int(len(self.documents) * rng.uniform(0.4, 1.0))]
        documents = [rename_source_of(self.documents[i], new_words) for i in indices]
        # The extractor only writes prompts here, for which it needs no model.
        return _Listing(new_words, LLMExtractor(None, FieldVocabulary.from_documents(documents)))  # type: ignore[arg-type]

    def _draw_filters(self, rng: np.random.Generator) -> TrainingSequence:
        """The filters of several questions after one listing."""
        listing = self.listings[int(rng.integers(2)) if rng.random() > _RENAMED_SHARE else 2 + int(rng.integers(2))]
        known_sources = listing.extractor.vocabulary["source"].values or {}
        pairs: list[tuple[str, str]] = []
        while len(pairs) < _FILTER_QUESTIONS:
            query = _draw(rng, self.queries if rng.random() > _DATED_SHARE else self._dated_queries)
            target = rename_sources(json.dumps(filter_target(query), ensure_ascii=False), listing.new_words)
            ((_, sources),) = json.loads(target)["source"].items()
            if all(source in known_sources for source in sources):
                pairs.append((rename_sources(query.text, listing.new_words), target))
        *examples, (question, target) = pairs
        return with_examples(listing.extractor.prompt(question), examples, target, 1.0)

    def _draw_search_queries(self, rng: np.random.Generator) -> TrainingSequence:
        """Search queries for several questions, the same number for each."""
        n = int(rng.integers(1, MOST_QUERIES + 1))
        queries = [_draw(rng, self._searched) for _ in range(_QUERY_QUESTIONS)]
        new_words = draw_new_words(rng) if rng.random() < _RENAMED_SHARE else {}
        pairs = [(_written(query, new_words), f" {SEPARATOR} ".join(search_queries(query, n))) for query in queries]
        *examples, (question, target) = pairs
        return with_examples(query_prompt(question, n), examples, target, 0.5)

    def _draw_answers(
        self, rng: np.random.Generator, most_passages: int, sentence_share: float, questions: int
    ) -> TrainingSequence:
        """An answer from passages as a search under the filter finds them, followed by more questions about them.

        The model has to learn to find one fact among many, and one answer alone has few tokens that teach it.
        """
        on_order = questions > 1 and self._on_order and rng.random() < _ORDER_SHARE
        first = int(rng.choice(sorted(self._on_order)) if on_order else rng.integers(len(self.asked)))
        count = int(rng.integers(1, most_passages + 1)) if rng.random() < 0.7 else most_passages
        if questions > 1 and rng.random() < _EVENT_SHARE:
            indices = self.search.about_events(rng, first, count)
        else:
            indices = self.search.results(rng, self.asked[first], count)
        queries = [self.asked[i] for i in (first, *self._draw_more_questions(rng, first, indices, questions - 1))]
        facts = {item["fact"] for query in queries for item in evidence_of(query)}
        passages = [_drop_sentences(rng, self.chunks[i], sentence_share, facts) for i in indices]
        new_words = draw_new_words(rng) if rng.random() < _RENAMED_SHARE else {}
        is_searched = first < len(self.queries) or queries[0].metadata["about"]["organisation"]
        n = int(rng.integers(1, 5)) if rng.random() < 0.25 and is_searched else 0
        related = search_queries(queries[0], n) if n else []
        texts = [_written(query, new_words) for query in queries]
        targets = [rename_sources(self.answer_target(query, passages), new_words) for query in queries]
        prompt = answer_prompt(texts[0], [rename_source_of(chunk, new_words) for chunk in passages], related)
        text, spans = with_target(prompt, targets[0], 1.0)
        fact_places = [match.span() for fact in sorted(facts) for match in re.finditer(re.escape(fact), text)]
        for question, target in zip(texts[1:], targets[1:], strict=True):
            text += f"\n{QUESTION_AGAIN} {question}\n{template(ANSWER_TASK).target}:"
            spans.append((len(text), len(text) + len(target) + 2, 1.0))
            text += f" {target}"
        facts_learned = [(start, end, FACT_WEIGHT) for start, end in fact_places]
        return text, [*facts_learned, *spans, *_verdicts(text, spans[0][0])]

    def _draw_more_questions(
        self, rng: np.random.Generator, first: int, indices: Sequence[int], count: int
    ) -> list[int]:
        """Up to `count` questions with evidence in these chunks.

        Two thirds of them are answered by these chunks, one is not answered at all, and the others are in part.
        """
        if not count:
            return []
        candidates = sorted({number for i in indices for number in self.search.questions_by_chunk.get(i, ())} - {first})
        passages = [self.chunks[i] for i in indices]
        answered: list[int] = []
        partly_answered: list[int] = []
        unanswered: list[int] = []
        drawn = [candidates[i] for i in rng.permutation(len(candidates))]
        if first in self._on_order:
            drawn.sort(key=lambda number: number not in self._on_order)
        for number in drawn:
            target = self.answer_target(self.asked[number], passages)
            if NO_ANSWER not in target:
                answered.append(number)
            elif ": [" not in target:  # nothing was found
                unanswered.append(number)
            else:
                partly_answered.append(number)
        numbers = [*answered[: count - count // 3], *partly_answered[: count // 3 - 1], *unanswered[:1]]
        return [numbers[i] for i in rng.permutation(len(numbers))]


def _draw_days(rng: np.random.Generator) -> TrainingSequence:
    """Findings of days as in answers, each compared with another day."""
    findings = []
    for _ in range(_DRILLED_PAIRS):
        first = dt.date(2024, 1, 1) + dt.timedelta(days=int(rng.integers(366)))
        apart = int(rng.integers(1, 8)) if rng.random() < 0.5 else int(rng.integers(1, 60))
        second = first + dt.timedelta(days=apart) * int(rng.choice((-1, 1)))
        findings.append(f"[{rng.integers(1, PASSAGES + 1)}] {second}{compared_days(str(first), str(second))}.")
    text = " ".join(findings)
    return text, [*_verdicts(text, 0), (len(text), len(text) + 1, 0.0)]


def _verdicts(text: str, start: int) -> list[Span]:
    """The verdicts and Yes or No at the end of all answers from a character on."""
    verdicts = [
        match.span(part) for match in ASKED.finditer(text, start) for part in ("order", "verdict") if match[part]
    ]
    verdicts += [match.span(1) for match in ANSWER.finditer(text, start) if match[1] in ("Yes", "No")]
    return [(first, end, VERDICT_WEIGHT) for first, end in verdicts]


def _written(query: Query, new_words: Mapping[str, str]) -> str:
    """A question's text with the new names of sources, in lower case if it is to be written so."""
    text = rename_sources(query.text, new_words)
    return text.lower() if query.metadata.get(LOWER_CASE) else text


def _draw(rng: np.random.Generator, queries: Sequence[Query]) -> Query:
    return queries[int(rng.integers(len(queries)))]


def _drop_sentences(rng: np.random.Generator, chunk: Chunk, share: float, facts: Collection[str]) -> Chunk:
    """The chunk with a share of its sentences, at least one; `facts` stay."""
    sentences = _SENTENCE_END.split(chunk.text)
    remaining = [sentence for sentence in sentences if sentence in facts or rng.random() < share]
    return replace(chunk, text=" ".join(remaining or sentences[:1]))


def _split_document(document: Document, size: int, overlap: int) -> list[Chunk]:
    """Chunks of whole sentences, at most `size` characters long unless a sentence is longer.

    A chunk repeats the last sentence of the previous one if that has at most `overlap` characters.
    """
    chunks: list[list[str]] = [[]]
    for sentence in _SENTENCE_END.split(document.text):
        if chunks[-1] and len(" ".join([*chunks[-1], sentence])) > size:
            last = chunks[-1][-1]
            chunks.append([last] if len(last) <= overlap else [])
        chunks[-1].append(sentence)
    return [
        Chunk(
            f"{document.id}#{i}",
            " ".join(sentences),
            document.title,
            document.category,
            document.metadata,
            document=document.id,
        )
        for i, sentences in enumerate(chunks)
    ]
