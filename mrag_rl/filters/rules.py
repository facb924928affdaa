"""Filter extraction without a language model: known values and dates that a question mentions.

Values (``value_mentions``). A question names a value by its full name or another form of it (``names.aliases``); the
longest name wins where several fit. In the value's own capitals a name counts anywhere, except alone at the start of a
sentence and inside a longer name ("Fortune 500"). There, in other capitals, and where the value is an ordinary word, it
needs a word of reporting next to it ("according to the verge", "a fortune article", "in the sports category"). In a
question without any capitals, names of two or more words need none. A name that several values share stands for all of
them. "not by X", "except X", "ohne X", "sauf X", "excepto X" and the like (``exclusions``, in four languages) exclude
values, also in lists ("but not by X or Y"); a value that is also mentioned without such words is not excluded. One that
stands near a negation in another way is left out and reported.

Dates (``date_phrases``). Only whole days count (year, month, day; see ``dates``), including days that share a year or a
month ("October 4 and October 6, 2023", "October 4 and 6, 2023", "between 4 and 6 October 2023"), and the months of
reports ("published in October 2023"). The filter admits all days that are named outright. "before", "after", "since",
"until", "by", "onwards" and "between ... and" bound the date. "As of" dates a fact, not its report; such a day is
dropped and reported, as is a date that does not name one day ("10/11/2023", "February 30, 2023"). Bounds are used only
if the question is about a single report, because a bound on one of several reports does not hold for the others, while
a filter holds for everything that is retrieved.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mrag_rl.filters.date_phrases import DatePhrases, spell_out_months
from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import And, Condition, Filter
from mrag_rl.filters.value_mentions import Mention, ValueMentions
from mrag_rl.filters.vocabulary import FieldVocabulary

_MAX_QUESTION = 20_000
_SPACES = re.compile(r"\s{2,}")


class RuleExtractor:
    """Extracts filters from questions by rules (see the module), in under a millisecond for a usual question."""

    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self.vocabulary = vocabulary
        self._values = ValueMentions(vocabulary)
        self._dates = DatePhrases(vocabulary)

    def restricted(self, records: Sequence[Mapping[str, Any]]) -> RuleExtractor:
        """See ``Extractor.restricted``."""
        return RuleExtractor(self.vocabulary.restricted(records))

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        """One extraction per question, in order. Only the first 20,000 characters of a question are read."""
        extractions = []
        for question in questions:
            started = time.perf_counter()
            # Runs of spaces mean nothing, and matching time must not grow with the square of their length.
            text = spell_out_months(_SPACES.sub(_single_space, question[:_MAX_QUESTION]))
            mentions = self._values.find(text)
            value_parts, dropped_values = self._value_conditions(mentions)
            dropped_values += [
                f"{text[mention.start : mention.end]!r}: near a negation; whether it is named or excluded is not clear"
                for mention in mentions
                if mention.stance == "doubtful"
            ]
            reports = sum(mention.stance == "named" for mention in mentions)
            date_parts, dropped_dates = self._dates.find(text, reports)
            parts = (*value_parts, *date_parts)
            filter_, unknown = self.vocabulary.keep_known(parts[0] if len(parts) == 1 else And(parts))
            dropped = (*dropped_values, *dropped_dates, *unknown)
            seconds = time.perf_counter() - started
            extractions.append(Extraction(question, filter_, dropped, seconds=seconds))
        return extractions

    def _value_conditions(self, mentions: Sequence[Mention]) -> tuple[list[Filter], list[str]]:
        """One condition per field that is mentioned, and one line for each exclusion that is not used."""
        included: dict[str, dict[str, None]] = {}
        excluded: dict[str, dict[str, None]] = {}
        for mention in mentions:
            if mention.stance != "doubtful":
                side = excluded if mention.stance == "excluded" else included
                side.setdefault(mention.field, {}).update(dict.fromkeys(mention.values))
        parts: list[Filter] = []
        dropped: list[str] = []
        for field in self.vocabulary:
            name = field.name
            if name in included:
                parts.append(Condition(name, "$in", tuple(included[name])))
                both = [value for value in excluded.get(name, {}) if value in included[name]]
                dropped += [f"{name}: {value!r} is both named and excluded; taken as named" for value in both]
            elif name in excluded:
                parts.append(Condition(name, "$nin", tuple(excluded[name])))
        return parts, dropped


def _single_space(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] else " "
