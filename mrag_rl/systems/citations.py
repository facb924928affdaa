"""Answers that can be checked: which of the passages shown state what an answer says, and what none of them states."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mrag_rl.data.facts import fact_string, facts, written
from mrag_rl.data.records import Document
from mrag_rl.generation.prompts import NO_ANSWER
from mrag_rl.retrieval.sentences import split_sentences
from mrag_rl.systems.evidence import seen

_REFUSAL = NO_ANSWER.rstrip(".")
_WRITTEN = re.compile(r"(?:[^\S\n]|(?<!\w))[\[【](\d{1,3}(?: ?[,;–-] ?\d{1,3})*)[\]】]")  # Not the index in "x[0]"
_BEHIND = re.compile(rf"([.!?…][\"'”’)]*)((?:{_WRITTEN.pattern})+)")  # Citations after the end of their sentence
_NUMBER = re.compile(r"\d+")
_HIDDEN = str.maketrans("[【", "\ue001\ue002")  # For private use, in the place of brackets that are no citation's
_SHOWN = {hidden: bracket for bracket, hidden in _HIDDEN.items()}
_BRACKETED = re.compile(r"\[([\d ,;–-]*)\]")
LISTED = re.compile(r" \{(none|\d{1,3}(?: \d{1,3})*)\}")
"""Passages that have a name above them, as the bundled language model for questions lists them: "Signal Nine {2 5}"."""


@dataclass(frozen=True)
class CitedAnswer:
    """An answer and what it rests on.

    Attributes:
        bare: the answer without citations.
        text: the answer with the numbers of passages in brackets behind each sentence that they support: "... [2]".
        passages: numbers of all passages cited, ascending, from 1.
        unsupported: numbers and names in the answer that neither the question nor a passage states, in order.
        removed: numbers that the language model had cited for a sentence of which the passage states nothing.
    """

    bare: str = ""
    text: str = ""
    passages: tuple[int, ...] = ()
    unsupported: tuple[str, ...] = ()
    removed: tuple[int, ...] = ()


def cite(answer: str, question: str, passages: Sequence[Document], shown: Sequence[str]) -> CitedAnswer:
    """Check an answer against the passages from which it was written.

    What is looked for are the facts of each sentence, numbers and names, by their words (`data.facts`). A sentence
    rests on the passages that state those of its facts that the question does not have: the fewest that it takes, as
    far as choosing the one that adds most goes, ties by rank. Without such facts it rests on nothing that could be
    checked ("Yes."), unless the language model cites a passage itself, as in "[2]". Those citations are kept if the
    passage states any fact of the sentence. Several numbers in brackets are an interval, and stay, if one of them is no
    passage's or the same bracket stands in the question or in a passage. Lists of passages (`LISTED`) are left out.

    shown: metadata fields that the language model sees with a passage and its title.
    """
    answer = LISTED.sub("", answer)
    stated = [seen(passage, shown) for passage in passages]
    asked = fact_string(question)
    said = "\n".join([question, *(f"{passage.title}\n{passage.text}" for passage in passages)])
    intervals = [_NUMBER.findall(bracketed) for bracketed in _BRACKETED.findall(said)]
    answer = _WRITTEN.sub(lambda match: _with_intervals_hidden(match, len(passages), intervals), answer)
    lines: list[list[str]] = []
    cited: set[int] = set()
    unsupported: dict[str, None] = {}
    removed: list[int] = []
    for line, sentence in _sentences(answer):
        bare = _WRITTEN.sub("", sentence)
        every = sorted(facts(bare.replace(_REFUSAL, "")))
        held = [{fact for fact in every if f" {fact} " in words} for words in stated]
        own = [int(number) for group in _WRITTEN.findall(sentence) for number in _NUMBER.findall(group)]
        kept = {number for number in own if 1 <= number <= len(held) and held[number - 1]}
        removed += [number for number in own if number not in kept]
        new = {fact for fact in every if f" {fact} " not in asked}
        missing = new.difference(*held) if held else new
        unsupported |= dict.fromkeys(map(written, sorted(missing, key=fact_string(bare).find)))
        left = new - missing - {fact for number in kept for fact in held[number - 1]}
        while left:
            best = max(range(len(held)), key=lambda i: (len(held[i] & left), len(held[i]), -i))
            kept.add(best + 1)
            left -= held[best]
        cited |= kept
        numbers = "".join(f"[{number}]" for number in sorted(kept))
        lines += [[] for _ in range(line + 1 - len(lines))]
        lines[line].append(f"{bare} {numbers}".strip())
    text = "\n".join(" ".join(row) for row in lines if row).translate(_SHOWN)
    bare = _WRITTEN.sub("", answer).strip().translate(_SHOWN)
    return CitedAnswer(bare, text, tuple(sorted(cited)), tuple(unsupported), tuple(dict.fromkeys(removed)))


def _with_intervals_hidden(match: re.Match[str], passages: int, intervals: Sequence[list[str]]) -> str:
    """What looks like citations, with its bracket exchanged if it is an interval that the answer states."""
    numbers = _NUMBER.findall(match[0])
    is_interval = numbers in intervals or not all(1 <= int(number) <= passages for number in numbers)
    return match[0].translate(_HIDDEN) if len(numbers) > 1 and is_interval else match[0]


def _sentences(answer: str) -> Iterator[tuple[int, str]]:
    """The sentences of an answer with the line that each is in, and citations before their ends."""
    for number, line in enumerate(answer.splitlines()):
        for sentence in split_sentences(_BEHIND.sub(r"\2\1", line)):
            yield number, sentence
