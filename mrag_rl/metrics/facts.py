"""Facts in an answer: what the papers count to see what retrieval brought the reader.

Source: Multi-Head RAG (the later version), Section 5.4: pieces of factual information in the model's output, such as
years or named entities. The papers give no procedure. This one goes by the letters alone, needs no model, and also says
how many of the facts are borne out by the wanted documents, since an invented year is no gain.
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
# Words that are capitalised for where they stand, not for what they name.
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
        stated: Distinct facts (numbers, years, names) in the answer.
        supported: Those of them that stand in the wanted documents too.
        titles: Wanted documents whose title the answer mentions.
        wanted: Wanted documents.
    """

    stated: int
    supported: int
    titles: int
    wanted: int


def count_facts(answers: Sequence[str], documents: Sequence[Sequence[Document]]) -> list[FactCount]:
    """The facts in each answer, held against the documents that its query is about (not those that were retrieved).

    Args:
        answers: What the reader wrote, one a query.
        documents: The wanted documents of each query.
    """
    counts = []
    for answer, wanted in zip(answers, documents, strict=True):
        known = word_string("\n".join(f"{document.title}\n{document.text}" for document in wanted))
        stated = facts(answer)
        counts.append(
            FactCount(
                stated=len(stated),
                supported=sum(f" {fact} " in known for fact in stated),
                titles=sum(bool(d.title.strip()) and mentions(answer, d.title) for d in wanted),
                wanted=len(wanted),
            )
        )
    return counts


def facts(text: str) -> frozenset[str]:
    """The distinct numbers and names in a text, as words in lower case.

    A name is a run of capitalised words, small words like "of" between them included. A single word at the start of a
    sentence is capitalised anyway; it counts where it stands within a sentence too. Function words ("The", "However")
    are no names, and the numbers of a list ("1. ...") no facts.
    """
    text = re.sub(r"(?m)^[^\S\n]*(?:\(?\d{1,3}[.)]|\[\d{1,3}\])\s+", "", text)
    found = {word_string(number).strip() for number in _NUMBER.findall(text)}
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
            found.add(word_string(name).strip())
    return frozenset(found - {""})
