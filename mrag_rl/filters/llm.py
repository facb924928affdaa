"""Filter extraction by a language model, with a few-shot prompt built from the corpus (Multi-Meta-RAG, Section 3.1)."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import EVERYTHING, Filter
from mrag_rl.filters.lenient_json import read_mapping
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.vocabulary import Field, FieldVocabulary
from mrag_rl.generation.filter_prompts import filter_prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt

_EXAMPLE_DAYS = (dt.date(2023, 10, 4), dt.date(2023, 11, 6))


class LLMExtractor:
    """Requests filters from a language model, parses its answers as data, and keeps the values that the corpus has.

    An answer that cannot be parsed, or that names an unknown field or operator, is refused: the question gets no
    filter, and the extraction says why. Values that the corpus does not have are dropped and reported.
    """

    def __init__(
        self, llm: LLM, vocabulary: FieldVocabulary, *, values_shown: int = 100, max_new_tokens: int = 128
    ) -> None:
        """``values_shown``: the number of values that the prompt lists per field, most frequent first."""
        self.llm = llm
        self.vocabulary = vocabulary
        self.max_new_tokens = max_new_tokens
        self.values_shown = values_shown
        self._demonstrations = (_listing(vocabulary, values_shown), *examples(vocabulary))

    def restricted(self, records: Sequence[Mapping[str, Any]]) -> LLMExtractor:
        """See ``Extractor.restricted``."""
        vocabulary = self.vocabulary.restricted(records)
        return LLMExtractor(self.llm, vocabulary, values_shown=self.values_shown, max_new_tokens=self.max_new_tokens)

    def prompt(self, question: str) -> Prompt:
        """The fields and values, the examples, the question. A prompt that is too long loses the question's head."""
        return filter_prompt(question, self._demonstrations)

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        """One extraction per question, in order; a single call of the language model for all of them."""
        if not questions:
            return []
        started = time.perf_counter()
        before = self.llm.usage.generated_tokens
        prompts = [self.prompt(question) for question in questions]
        answers = [texts[0] for texts in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]
        results = [read_answer(answer, self.vocabulary) for answer in answers]
        tokens = (self.llm.usage.generated_tokens - before) / len(questions)
        seconds = (time.perf_counter() - started) / len(questions)
        return [
            Extraction(question, filter_, tuple(dropped), refused, tokens, seconds)
            for question, (filter_, dropped, refused) in zip(questions, results, strict=True)
        ]


def read_answer(answer: str, vocabulary: FieldVocabulary) -> tuple[Filter, list[str], str]:
    """A language model's answer as (filter, lines on dropped values, reason of the refusal or ""). Never raises.

    Its notation may be repaired (see ``lenient_json``), its meaning is not: what cannot be read as one filter is
    refused."""
    try:
        return (*vocabulary.keep_known(parse_filter(read_mapping(answer), vocabulary)), "")
    except InputError as error:
        return EVERYTHING, [], str(error)


def examples(vocabulary: FieldVocabulary) -> tuple[tuple[str, str], ...]:
    """The questions and filters of the few-shot prompt, written with the corpus's own fields and values."""
    pairs: list[tuple[str, dict[str, Any]]] = []
    facets = [field for field in vocabulary if field.type == "string" and field.facet and field.values]
    named = max(facets, key=lambda field: len(field.values or ()), default=None)  # sources rather than categories
    dated = next((field for field in vocabulary if field.type == "date"), None)
    names = [] if named is None else list(named.values or ())[:2]
    if named is not None:
        question = "What does {} report?" if len(names) == 1 else "What do both {} and {} report?"
        pairs.append((question.format(*names), {named.name: {"$in": names}}))
        pairs.append((f"Who is praised, but not by {names[0]}?", {named.name: {"$nin": names[:1]}}))
    if dated is not None:
        early, late = (dated.written(day) for day in _two_days(dated))
        if named is not None:
            first, second = names[0], names[-1]
            pairs.append(
                (
                    f"Does the {second} article of {early} agree with the {first} article of {late}?",
                    {named.name: {"$in": names[::-1]}, dated.name: {"$in": list(dict.fromkeys((early, late)))}},
                )
            )
            pairs.append(
                (f"What does {first} say after {early}?", {named.name: {"$in": [first]}, dated.name: {"$gt": early}})
            )
        else:
            pairs.append((f"What happened from {early} to {late}?", {dated.name: {"$gte": early, "$lte": late}}))
    pairs.append(("Who is the oldest of them all?", {}))
    return tuple((question, json.dumps(filter_, ensure_ascii=False)) for question, filter_ in pairs)


def _two_days(field: Field) -> tuple[dt.date, dt.date]:
    """The first two days of a date field: two arbitrary ones if its days are unknown, one twice if it has only one."""
    days = sorted(day for day in field.values or _EXAMPLE_DAYS if isinstance(day, dt.date))
    return days[0], days[min(1, len(days) - 1)]


def _listing(vocabulary: FieldVocabulary, values_shown: int) -> tuple[str, str]:
    """The demonstration that lists the fields with their values, or with their type if nobody filters by a value."""
    fields = {
        field.name: [field.written(value) for value in list(field.values)[:values_shown]]
        if field.type == "string" and field.facet and field.values
        else f"any {field.type}" + f": {field.description}" * bool(field.description)
        for field in vocabulary
    }
    return "Which fields and values are there?", json.dumps(fields, ensure_ascii=False)
