"""What a question asks about and no passage mentions; and readers that say so instead of guessing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from mrag_rl.data.facts import is_mentioned, names
from mrag_rl.data.records import Document
from mrag_rl.data.titles import word_string
from mrag_rl.filters import EVERYTHING, Condition, Filter
from mrag_rl.generation.prompts import NO_ANSWER, Prompt
from mrag_rl.systems.evidence import missing
from mrag_rl.systems.passages import PassageAnswer, PassageReader

PASSAGES = (
    Document(
        "a", "Lumdale Rovers signed Ada Crane for 255 thousand crowns.", "A signing", metadata={"source": "The Quill"}
    ),
    Document("b", "The harbour of Selby is closed.", metadata={"published_at": "2024-04-10T09:30:00+00:00"}),
)


@pytest.mark.parametrize(
    ("question", "absent"),
    [
        ("What did Lumdale Rovers pay?", ()),
        ("What did Lumdale Rover pay for Ada Cranes?", ()),  # Endings
        ("What did Dunnolm Town pay?", ("Dunnolm Town",)),
        ("Did Dunnolm Town pay as much as Lumdale Rovers?", ("Dunnolm Town",)),
        ("Did Dunnolm Rovers pay it?", ("Dunnolm Rovers",)),  # Half of the words
        ("What did Sir Lumdale Rovers say?", ()),  # A third
        ("What did dunnolm town pay?", ()),  # No capitals, no names
        ("What Did Dunnolm Town Pay For Players?", ()),  # Nothing but capitals
        ("Was zahlte der Verein nach dem Bericht der Zeitung für die Spielerin aus dem Norden?", ()),
        ("What does The Herald say of the harbour?", ()),
        ("What does Morning Herald say of the harbour?", ("Morning Herald",)),
        ("Which club paid 255 thousand crowns?", ()),
        ("Which club paid 680 thousand crowns and 255 for a dog?", ("680",)),
        ("Which club paid 680 thousand crowns for Ada Crane?", ()),  # A claim may be wrong, and then the answer is no
        ("Did The Quill say so?", ()),
        ("Was it the L.u.m.dale Rovers?", ()),
        ("Dunnolm Town paid what?", ()),  # The first word of a sentence is capitalised anyway
        ("Give the top 10 of 2023 in 3 sentences.", ()),
        ("What was closed on April 10, 2024?", ()),
        ("What was closed between May 3, 2021 and 2021-06-04?", ()),
        ("", ()),
    ],
)
def test_names_and_numbers_that_no_passage_mentions(question: str, absent: tuple[str, ...]) -> None:
    assert missing(question, EVERYTHING, PASSAGES) == absent


def test_values_of_the_filter_are_not_looked_for() -> None:
    herald: Filter = Condition("source", "$in", ("MorningHerald.com",))
    for question in ("What does Morning Herald say?", "What does The Morning Herald say of 17 harbours?"):
        assert "Morning Herald" not in missing(question, herald, PASSAGES)
        assert missing(question, EVERYTHING, PASSAGES) == ("Morning Herald",)


def test_spellings_of_a_name_and_a_number() -> None:
    passages = [Document("a", "She won the U.S. Open and 1234 crowns.")]
    assert missing("Who won the US Open?", EVERYTHING, passages) == ()
    assert missing("Who won 1,234 crowns?", EVERYTHING, passages) == ()
    gain = [Document("a", "She won a 12.5-fold gain.")]
    assert missing("Who won a 12.5-fold gain?", EVERYTHING, gain) == ()
    assert missing("Who won 12.34 crowns?", EVERYTHING, passages) == ("12.34",)
    category: Filter = Condition("category", "$eq", ("in",))
    assert missing("What did Martin Schulz win?", category, passages) == ("Martin Schulz",)


def test_names_of_texts() -> None:
    assert names("Did Ada Crane meet Bo Reed of The Quill in May 2024? Ada Crane did.") == ["Ada Crane", "Bo Reed"]
    assert names("Ein Haus am See und die Brücke von Köln") == []
    assert names("What does Lumdale Rovers' captain, Ada Crane's sister, say?") == ["Lumdale Rovers", "Ada Crane"]
    assert not is_mentioned("bo reed", word_string("Bo is here."))
    assert names("Did The Herald say so?") == []
    assert not is_mentioned("Anna Bell", word_string("The annals of bellicose kings"))
    assert is_mentioned("ada crane", word_string("Cranes, and Ada's."))


class Saying:
    """Notes what it is asked, and always says the same."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.prompts: list[Prompt] = []

    def generate(self, prompts: Sequence[Prompt], **options: Any) -> list[list[str]]:
        self.prompts += prompts
        return [[self.text] for _ in prompts]


def found(question: str) -> PassageAnswer:
    return PassageAnswer("", passages=cast(Any, PASSAGES), missing=missing(question, EVERYTHING, PASSAGES))


def test_a_reader_is_not_asked_about_what_no_passage_mentions() -> None:
    questions = ["What did Dunnolm Town pay?", "What did Lumdale Rovers pay?"]
    llm = Saying("255 thousand crowns [1].")
    one, two = PassageReader(cast(Any, llm)).answer(questions, [found(question) for question in questions])
    assert one.hypothesis == NO_ANSWER and one.cited.passages == () and one.cited.unsupported == ()
    assert two.hypothesis == "255 thousand crowns." and two.cited.text == "255 thousand crowns. [1]"
    assert len(llm.prompts) == 1 and "Lumdale" in llm.prompts[0].query
    one, two = PassageReader(cast(Any, llm), always=True).answer(questions, [found(question) for question in questions])
    assert one.hypothesis == two.hypothesis == "255 thousand crowns." and len(llm.prompts) == 3
    (only,) = PassageReader(cast(Any, llm)).answer(questions[:1], [found(questions[0])])
    assert only.hypothesis == NO_ANSWER and len(llm.prompts) == 3


class Sampling(Saying):
    """Says something else in each sample."""

    def __init__(self, first: str, *others: str) -> None:
        super().__init__(first)
        self.others = others
        self.asked: list[tuple[int, float]] = []

    def generate(
        self, prompts: Sequence[Prompt], *, samples: int = 1, temperature: float = 0.0, **options: Any
    ) -> list[list[str]]:
        self.asked.append((samples, temperature))
        self.prompts += prompts
        return [[*self.others[:samples]] if temperature else [self.text] for _ in prompts]


@pytest.mark.parametrize(
    ("first", "others", "given"),
    [
        (
            "90 crowns.",
            ["12 crowns.", "255 thousand crowns.", "The fee was 255 thousand crowns."],
            "255 thousand crowns.",
        ),
        ("90 crowns and 12.", ["77 crowns.", "66 crowns."], "77 crowns."),  # The first of those that state fewest
        ("90 crowns.", ["77 crowns."], "90 crowns."),
    ],
)
def test_an_answer_of_what_no_passage_has_is_written_again(first: str, others: list[str], given: str) -> None:
    llm, question = Sampling(first, *others), "What did Lumdale Rovers pay?"
    reader = PassageReader(cast(Any, llm), retries=len(others))
    one, two = reader.answer([question] * 2, [found(question)] * 2)
    assert one.hypothesis == two.hypothesis == given and llm.asked == [(1, 0.0), (len(others), 0.7)]
    assert len(llm.prompts) == 2  # Equal prompts are asked once each time


@pytest.mark.parametrize(("first", "retries"), [("255 thousand crowns.", 9), ("90 crowns.", 0)])
def test_a_supported_answer_or_without_retries_the_first_is_given(first: str, retries: int) -> None:
    llm, question = Sampling(first, "Yes."), "What did Lumdale Rovers pay?"
    (answer,) = PassageReader(cast(Any, llm), retries=retries).answer([question], [found(question)])
    assert answer.hypothesis == first and llm.asked == [(1, 0.0)]
    other = "What did Dunnolm Town pay?"
    (answer,) = PassageReader(cast(Any, llm), retries=retries).answer([other], [found(other)])
    assert answer.hypothesis == NO_ANSWER and len(llm.asked) == 1
