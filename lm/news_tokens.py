"""Where tokens may begin and end in texts about the bundled news."""

from __future__ import annotations

import re
from functools import cache

from mrag_rl.data.synthetic.names import names
from mrag_rl.data.synthetic.news_events import news_words

TOKEN_PATTERN = (
    r"\n+"
    r"|T\d\d:\d\d:\d\d\+\d\d:\d\d"
    r"| ?\d+"
    r"|[A-Z][a-z]*"  # without the space before it: in a filter's JSON it follows a quotation mark
    r"|[,.]?(?: ?[a-z_'’]+(?:-[a-z]+)*)+"
    r"|:"  # ends every prompt
    r"| ?[^A-Za-z0-9\s]+(?: +[^A-Za-z0-9\s]+)*"
    r"|\s+"
)
"""What a token may not reach beyond: a number, a capitalized word, a run of other words, a run of punctuation."""


def separate_fillers(text: str) -> str:
    """The text with line breaks around what fills its forms, and between the halves of invented names.

    A tokenizer trained on such texts has tokens that end where a filler does, whatever sentence it is in.
    """
    return _filler_pattern().sub(lambda m: f"{m['start']}\n{m['end']}\n" if m["start"] else f"\n{m[0]}\n", text)


@cache
def _filler_pattern() -> re.Pattern[str]:
    event_types = news_words().event_types
    fillers = {event_type.noun for event_type in event_types}
    for claim in (claim for event_type in event_types for claim in event_type.claims):
        fillers |= {*_fixed_parts(claim.predicate), *_fixed_parts(claim.topic)}
        fillers |= {re.sub(r"^\d+ ?", "", value) for value in claim.values}
    longest_first = sorted(fillers, key=len, reverse=True)
    lower_case = "|".join(re.escape(filler) for filler in longest_first if filler and filler[0].islower())
    starts, ends = "|".join(names().invented_starts), "|".join(names().invented_ends)
    return re.compile(rf" ?\b(?:{lower_case})\b|(?P<start> ?\b(?:{starts}))(?P<end>{ends})\b")


def _fixed_parts(form: str) -> list[str]:
    """The parts of a form between its placeholders."""
    return [part.strip(" ,.") for part in re.split(r"\{\w+\}", form)]
