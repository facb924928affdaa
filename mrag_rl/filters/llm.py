"""Filter extraction by a language model, with a few-shot prompt that is built from the corpus (Multi-Meta-RAG, 3.1)."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Sequence
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import EVERYTHING, Filter, Value, parse_filter
from mrag_rl.filters.vocabulary import Field, FieldVocabulary
from mrag_rl.generation.filter_prompts import filter_prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt

_SOME_DAYS = (dt.date(2023, 10, 4), dt.date(2023, 11, 6))


class LLMExtractor:
    """Asks a language model for the filter, reads its answer as data, and keeps what the corpus knows.

    An answer that cannot be read, or that names an unknown field or operator, is refused: the question gets no filter,
    and the extraction says why. Values that the corpus does not have are dropped, and said too.
    """

    def __init__(
        self, llm: LLM, vocabulary: FieldVocabulary, *, values_shown: int = 100, max_new_tokens: int = 128
    ) -> None:
        """``values_shown``: how many values of a field the prompt lists, the most frequent first."""
        self.llm = llm
        self.vocabulary = vocabulary
        self.max_new_tokens = max_new_tokens
        self._demonstrations = (_listing(vocabulary, values_shown), *examples(vocabulary))

    def prompt(self, question: str) -> Prompt:
        """The fields and values, the examples, the question. A prompt that is too long loses the question's head."""
        return filter_prompt(question, self._demonstrations)

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        """One extraction for each question, in order; one call of the language model for all."""
        if not questions:
            return []
        started = time.perf_counter()
        before = self.llm.usage.generated_tokens
        prompts = [self.prompt(question) for question in questions]
        answers = [texts[0] for texts in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]
        read = [read_answer(answer, self.vocabulary) for answer in answers]
        tokens = (self.llm.usage.generated_tokens - before) / len(questions)
        seconds = (time.perf_counter() - started) / len(questions)
        return [
            Extraction(question, condition, tuple(dropped), refused, tokens, seconds)
            for question, (condition, dropped, refused) in zip(questions, read, strict=True)
        ]


def read_answer(answer: str, vocabulary: FieldVocabulary) -> tuple[Filter, list[str], str]:
    """A language model's answer as (filter, what was dropped, why it was refused or ""). Never raises."""
    try:
        return (*vocabulary.keep_known(parse_filter(answer, vocabulary)), "")
    except InputError as error:
        return EVERYTHING, [], str(error)


def examples(vocabulary: FieldVocabulary) -> tuple[tuple[str, str], ...]:
    """Questions with their filters, in the corpus's own fields and values: what the few-shot prompt shows."""
    found: list[tuple[str, dict[str, Any]]] = []
    facets = [field for field in vocabulary if field.type == "string" and field.facet and field.values]
    named = max(facets, key=lambda field: len(field.values or ()), default=None)  # Sources rather than categories
    dated = next((field for field in vocabulary if field.type == "date"), None)
    names = [] if named is None else list(named.values or ())[:2]
    if named is not None:
        asked = "What does {} report?" if len(names) == 1 else "What do both {} and {} report?"
        found.append((asked.format(*names), {named.name: {"$in": names}}))
        found.append((f"Who is praised, but not by {names[0]}?", {named.name: {"$nin": names[:1]}}))
    if dated is not None:
        early, late = (dated.written(day) for day in _two_days(dated))
        if named is not None:
            first, second = names[0], names[-1]
            found.append(
                (
                    f"Does the {second} article of {early} agree with the {first} article of {late}?",
                    {named.name: {"$in": names[::-1]}, dated.name: {"$in": list(dict.fromkeys((early, late)))}},
                )
            )
            found.append(
                (f"What does {first} say after {early}?", {named.name: {"$in": [first]}, dated.name: {"$gt": early}})
            )
        else:
            found.append((f"What happened from {early} to {late}?", {dated.name: {"$gte": early, "$lte": late}}))
    found.append(("Who is the oldest of them all?", {}))
    return tuple((question, json.dumps(condition, ensure_ascii=False)) for question, condition in found)


def _two_days(field: Field) -> tuple[Value, Value]:
    """The first two days of a field, some where they are not known, one twice where it has no other."""
    days = sorted(field.values or _SOME_DAYS)  # type: ignore[type-var]
    return days[0], days[min(1, len(days) - 1)]


def _listing(vocabulary: FieldVocabulary, values_shown: int) -> tuple[str, str]:
    listed = {
        field.name: [field.written(value) for value in list(field.values)[:values_shown]]
        if field.type == "string" and field.facet and field.values
        else f"any {field.type}"
        for field in vocabulary
    }
    return "Which fields and values are there?", json.dumps(listed, ensure_ascii=False)
