"""Facts in an answer: numbers and names, counted to see how much of the relevant content reached the answer.

Source: Multi-Head RAG (the later version), Section 5.4: pieces of factual information in the model's output, such as
years or named entities. The paper gives no procedure. This one uses spelling alone, needs no model, and also counts how
many of the facts the relevant documents support, since an invented year is no gain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mrag_rl.data.records import Document
from mrag_rl.data.titles import mentions, word_string

_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?!\w|[.,]\d)")
_CAPITAL = f"[{''.join(filter(str.isupper, map(chr, range(0x10000))))}]"
_CAPITALISED = rf"{_CAPITAL}[\w'’-]*"
_NAME = re.compile(
    rf"(?<![\w'’-]){_CAPITALISED}(?: (?:(?:of|de|da|di|du|del|la|van|von|der|the) ){{0,2}}{_CAPITALISED})*"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:]['\"”’)]*\s|\n)\W*$")
_NEAR = 40  # Characters before a name that show whether it starts a sentence
# Words that are capitalised because of their position, not because they are names.
_FUNCTION_WORDS = frozenset(
    """
    a after all also although an and another any as at because before both but by despite during each even every few
    finally first for from furthermore he hence her here his how however i if in indeed instead it its last later
    many meanwhile moreover most much my no nor not now of on once one only or other our overall rather she since so
    some still such than that the their then there these they this those though three through thus to together two
    under unlike until we what when where whether which while who why with within without yes yet you your
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class FactCount:
    """The facts of one answer.

    Attributes:
        stated: Number of distinct facts (numbers, years, names) in the answer.
        supported: Number of these that occur in the relevant documents too.
        titles: Number of relevant documents whose title the answer mentions.
        relevant: Number of relevant documents.
    """

    stated: int
    supported: int
    titles: int
    relevant: int


def count_facts(answers: Sequence[str], documents: Sequence[Sequence[Document]]) -> list[FactCount]:
    """The facts in each answer, checked against the documents that its query is about (not those retrieved).

    Args:
        answers: The reader's answers, one per query.
        documents: The relevant documents of each query.

    Raises:
        ValueError: More or fewer answers than queries.
    """
    counts = []
    for answer, relevant in zip(answers, documents, strict=True):
        source_words = word_string("\n".join(f"{document.title}\n{document.text}" for document in relevant))
        stated = facts(answer)
        counts.append(
            FactCount(
                stated=len(stated),
                supported=sum(f" {fact} " in source_words for fact in stated),
                titles=sum(bool(d.title.strip()) and mentions(answer, d.title) for d in relevant),
                relevant=len(relevant),
            )
        )
    return counts


def facts(text: str) -> frozenset[str]:
    """The distinct numbers and names in a text, as words in lower case.

    A name is a run of capitalised words, with small words like "of" between them. A single word at the start of a
    sentence is capitalised anyway, so it counts only if it also occurs within a sentence. Function words ("The",
    "However") are not names, and the numbers of a list ("1. ...") are not facts.
    """
    text = re.sub(r"(?m)^[^\S\n]*(?:\(?\d{1,3}[.)]|\[\d{1,3}\])\s+", "", text)
    result = {word_string(number).strip() for number in _NUMBER.findall(text)}
    for match in _NAME.finditer(text):
        run = match.group().split()
        words = run[1:] if re.sub(r"['’]\w*$", "", run[0]).casefold() in _FUNCTION_WORDS else run
        name = re.sub(r"['’]s?$", "", " ".join(words))
        capital_by_place = (
            len(run) == 1
            and not name.isupper()
            and _SENTENCE_START.search(text, max(0, match.start() - _NEAR), match.start())
        )
        if name and not capital_by_place:
            result.add(word_string(name).strip())
    return frozenset(result - {""})
