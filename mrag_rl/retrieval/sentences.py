"""Splitting texts into sentences: a sentence is about one thing, whereas a whole text may be about many."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

# The end of a sentence: behind its mark and any closing quote or bracket. East Asian marks need no space behind them.
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])[」』”’）】]*|\n+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|(?<!:\s)No|vs|etc|approx|ca|cf|e\.g|i\.e)\.$"
)
_TAIL = 10  # Characters searched for an abbreviation before an end: more than the longest one has
_FRAGMENT = 3  # A piece of fewer words says too little to stand alone: "3.", "Legal note:"
# Scripts that put no space between words: Thai to Lao, Burmese, Khmer, kana, Han
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, at least one unless the text is blank; a line break ends a sentence, too.

    A dot after an initial or a common abbreviation does not ("No." behind a colon is a word). A piece of one or two
    words, such as the number of a list's item or a label, is one with the next sentence, the last one with the one
    before. Pieces without a letter or digit are dropped.
    """
    sentences: list[str] = []
    start = 0
    for end in _END.finditer(text):
        tail = text[max(start, end.start() - _TAIL) : end.end()].strip()
        if "\n" in end.group() or not _ABBREVIATION.search(tail):
            sentences.append(text[start : end.end()].strip())
            start = end.end()
    sentences.append(text[start:].strip())
    with_words = [sentence for sentence in sentences if any(map(str.isalnum, sentence))]
    return _joined(with_words) or ([text.strip()] if text.strip() else [])


def _joined(pieces: Sequence[str]) -> list[str]:
    """The pieces, a fragment together with the next, the last with the one before."""
    sentences: list[str] = []
    fragments: list[str] = []
    for piece in pieces:
        fragments.append(piece)
        together = " ".join(fragments)
        if len(together.split()) >= _FRAGMENT or _UNSPACED.search(together):
            sentences.append(together)
            fragments = []
    if fragments:
        sentences = [*sentences[:-1], " ".join([*sentences[-1:], *fragments])]
    return sentences


def split_all(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The S sentences of N texts in order, and the index of the text that each is from, (S,) int64, rising."""
    pieces = [split_sentences(text) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(sentences) for sentences in pieces])
    return [sentence for sentences in pieces for sentence in sentences], owners
