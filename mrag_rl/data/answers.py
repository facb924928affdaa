"""What a short answer says, and its words."""

from __future__ import annotations

import re
import string

_STATED = re.compile(r'The answer to the question is "(.*?)"')  # The form that the benchmark's prompt requests
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def stated(answer: str) -> str:
    """What stands in quotes in an answer that says 'The answer to the question is "..."'; any other answer as it is."""
    match = _STATED.search(answer)
    return match.group(1) if match else answer


def answer_words(text: str) -> list[str]:
    """The words of an answer, normalised as SQuAD's script does it: lower case, no punctuation, no articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()
