"""A long text's sentences: each is about one thing, where the whole is about many."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

# After the marks that end a sentence and any closing quote or bracket; East Asian marks need no space behind them.
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])[」』”’）】]*|\n+")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|No|vs|etc|approx|ca|cf|e\.g|i\.e)\.$")
_TAIL = 10  # Characters before an end that show an abbreviation: more than the longest has


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, at least one unless it is blank; a new line always ends one.

    A dot behind an initial or a common abbreviation ends none. Pieces without a letter or digit are left out.
    """
    sentences: list[str] = []
    start = 0
    for end in _END.finditer(text):
        tail = text[max(start, end.start() - _TAIL) : end.end()].strip()
        if "\n" in end.group() or not _ABBREVIATION.search(tail):
            sentences.append(text[start : end.end()].strip())
            start = end.end()
    sentences.append(text[start:].strip())
    worded = [sentence for sentence in sentences if any(map(str.isalnum, sentence))]
    return worded or ([text.strip()] if text.strip() else [])


def split_all(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The sentences of N texts in order, and for each the index of its text, (S,) int64 and rising."""
    pieces = [split_sentences(text) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(sentences) for sentences in pieces])
    return [sentence for sentences in pieces for sentence in sentences], owners
