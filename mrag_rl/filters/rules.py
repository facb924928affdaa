"""Filter extraction without a language model: what a question says of a corpus's metadata, by rules.

Values (``value_mentions``). A question names a value by its full name or another form of it (``names.aliases``), by its
plural, by a word for the same in another language or a person's surname (``other_names``), or by a long name with a
letter wrong; the longest name wins where several fit. In the value's own capitals a
name counts anywhere, except alone at the start of a sentence and inside a longer name ("Fortune 500"). There, in other
capitals, and where the value is an ordinary word, it needs words beside it that show how it is meant ("according to the
verge", "a fortune article", "in the sports category", "horror films", "soups by ..."). In a question without any
capitals, names of two or more words need none. A name that several values share stands for all of them. "not by X",
"except X", "ohne X", "sauf X", "excepto X" and the like (``exclusions``, in four languages) exclude values, also in
lists ("but not by X or Y"); a value that is also mentioned without such words is not excluded. One that something
unknown in its clause may reject ("ditch X", ``inclusions``), or that stands near a negation in another way, is left out
and reported.

Days (``date_phrases``). Year, month and day must be stated, though days may share a year or a month ("October 4 and
October 6, 2023", "between 4 and 6 October 2023"). The filter admits all days that are named outright. "before",
"after", "since", "until", "by", "onwards" and "between ... and" bound the date. "As of" dates a fact, not its report;
such a day is dropped and reported, as is a date that does not name one day ("10/11/2023", "February 30, 2023"). Bounds
are used only if the question is about a single report, because a bound on one of several reports does not hold for the
others, while a filter holds for everything that is retrieved.

Years, months and days relative to today (``date_fields``) count where a word beside them says that they date a
document ("published in 2023", "recipes from 2019", "posted last week").

Amounts (``number_mentions``) belong to the field that their unit or the words beside them speak of: those of its name
and description, and others for the same thing in four languages. "Around 50" is no exact amount; it is dropped and
reported. Boolean fields (``flag_mentions``) are said or denied by their name.

Two halves of a question that name values of one field, each with conditions of its own, are alternatives ("Italian
recipes from 2024 and Indian ones under 300 calories").
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mrag_rl.filters.alternatives import Reading, combined
from mrag_rl.filters.date_fields import DateFields
from mrag_rl.filters.date_phrases import DatePhrases, date_spans, spell_out_months
from mrag_rl.filters.exclusions import cue_start
from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.field_words import FieldWords
from mrag_rl.filters.flag_mentions import FlagMentions
from mrag_rl.filters.number_mentions import NumberMentions
from mrag_rl.filters.numbers import read_quantities
from mrag_rl.filters.periods import read_periods
from mrag_rl.filters.phrases import masked, overlaps
from mrag_rl.filters.spelling import plain
from mrag_rl.filters.value_mentions import Mention, ValueMentions
from mrag_rl.filters.vocabulary import FieldVocabulary

_MAX_QUESTION = 20_000
_SPACES = re.compile(r"\s{2,}")


class RuleExtractor:
    """Extracts filters from questions by rules (see the module), in about a millisecond for a usual question."""

    def __init__(self, vocabulary: FieldVocabulary, *, today: dt.date | Callable[[], dt.date] | None = None) -> None:
        """today: the day on which questions are asked, or what tells it (``dt.date.today``). Without it, "last week"
        and the like are left out, so that the same question has the same filter on every day."""
        self.vocabulary, self.today = vocabulary, today
        self._words = FieldWords(vocabulary)
        self._values = ValueMentions(vocabulary, self._words)
        self._date_fields = DateFields(vocabulary, self._words)
        self._dates = DatePhrases(self._date_fields)
        self._numbers = NumberMentions(vocabulary, self._words)
        self._flags = FlagMentions(vocabulary)

    def restricted(self, records: Sequence[Mapping[str, Any]]) -> RuleExtractor:
        """See ``Extractor.restricted``."""
        return RuleExtractor(self.vocabulary.restricted(records), today=self.today)

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        """One extraction per question, in order. Only the first 20,000 characters of a question are read."""
        extractions = []
        for question in questions:
            started = time.perf_counter()
            # Runs of spaces mean nothing, and matching time must not grow with the square of their length.
            text = spell_out_months(_SPACES.sub(_single_space, plain(question[:_MAX_QUESTION])))
            reading = self._read(text)
            filter_, unknown = self.vocabulary.keep_known(combined(reading, self._words))
            dropped = (*dict.fromkeys([*reading.dropped, *unknown]),)
            extractions.append(Extraction(question, filter_, dropped, seconds=time.perf_counter() - started))
        return extractions

    def _find_again(self, text: str, read: list[tuple[int, int]]) -> list[Mention]:
        """The mentions of values beside what has been read otherwise, which denies nothing beside it."""
        hidden = masked(text, read)
        mentions = self._values.find(hidden)
        phrases = [(cue_start(text, m.start), m.end) for m in mentions if m.stance == "excluded"]
        if not phrases or all(mention.stance != "doubtful" for mention in mentions):
            return mentions
        # Nor does an exclusion deny what stands before it: "Samsung products other than televisions"
        last = max(start for start, _ in phrases)
        named = {(m.field, m.start) for m in self._values.find(masked(hidden, phrases)) if m.stance == "named"}
        return [
            replace(m, stance="named")
            if m.stance == "doubtful" and m.end <= last and (m.field, m.start) in named
            else m
            for m in mentions
        ]

    def _read(self, text: str) -> Reading:
        mentions = self._values.find(text)
        spans = [(mention.start, mention.end) for mention in mentions]
        hidden = masked(text, spans, by="x")  # Names deny nothing and are no units
        amounts, dropped = self._numbers.find(hidden, spans)
        flags, lines = self._flags.find(hidden, spans)
        dropped += lines
        quantities = []
        if amounts or flags or dropped or any(mention.stance != "named" for mention in mentions):
            # "menos de 500", "since 2022" and "not wireless" deny no value beside them and govern none
            quantities = read_quantities(text)
            read = [(quantity.start, quantity.end) for quantity in quantities if not quantity.is_exact]
            read += [(span.start, span.end) for span in read_periods(text, None) if not span.relative]
            read += date_spans(text)
            read = [ends for ends in read if not overlaps(*ends, spans)]
            read += [(claim.start, claim.end) for claim in (*amounts, *flags)]
            mentions = self._find_again(text, read)
            spans = [(mention.start, mention.end) for mention in mentions]
        excluded = [mention for mention in mentions if mention.stance == "excluded"]
        described = [quantity.start for quantity in quantities] + [flag.start for flag in flags]
        for mention in excluded:
            if any(0 <= start - mention.end <= 1 for start in described):
                dropped.append(f"{text[mention.start : mention.end]!r}: excluded in part")
                mentions = [other for other in mentions if other is not mention]
                amounts, flags = (
                    [claim for claim in claims if not 0 <= claim.start - mention.end <= 1]
                    for claims in (amounts, flags)
                )
        today = self.today() if callable(self.today) else self.today
        periods, lines = self._date_fields.find(text, today, spans)
        dropped += lines
        dropped += [
            f"{text[mention.start : mention.end]!r}: whether it is named or excluded is not clear"
            for mention in mentions
            if mention.stance == "doubtful"
        ]
        return Reading(text, mentions, [*periods, *amounts, *flags], self._dates, dropped)


def _single_space(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] else " "
