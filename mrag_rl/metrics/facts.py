"""Facts in an answer: numbers and names, counted to see how much of the relevant content reached the answer.

Source: Multi-Head RAG (the later version), Section 5.4: pieces of factual information in the model's output, such as
years or named entities. The paper gives no procedure. This one uses spelling alone, needs no model, and also counts how
many of the facts the relevant documents support, since an invented year is no gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrag_rl.data.facts import fact_string, facts
from mrag_rl.data.records import Document
from mrag_rl.data.titles import mentions


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
        source_words = fact_string("\n".join(f"{document.title}\n{document.text}" for document in relevant))
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
