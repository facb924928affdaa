"""Answers that can be checked: what each sentence rests on, what nothing shown states, citations that do not hold."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from mrag_rl.data.records import Document
from mrag_rl.systems.citations import CitedAnswer, cite

PASSAGES = (
    Document("a", "The bridge fell on Monday, and 12 people were hurt, said Ada Crane.", "Bridge down"),
    Document("b", "It cost 40 million. The mayor, Bo Reed, resigned.", "Costs", metadata={"source": "Wired"}),
    Document("c", "Nothing.", metadata={"published_at": "2024-04-10T09:30:00+00:00", "author": "Carl Stone"}),
    Document("d", "Ada Crane and Bo Reed met. 12 chairs were there."),
)
QUESTION = "What does Ada Crane say of the bridge?"


def checked(answer: str, passages: Sequence[Document] = PASSAGES) -> CitedAnswer:
    return cite(answer, QUESTION, passages, ("source", "published_at"))


@pytest.mark.parametrize(
    ("answer", "text", "numbers"),
    [
        ("12 people were hurt.", "12 people were hurt. [1]", (1,)),
        ("It was 40 million, says Wired.", "It was 40 million, says Wired. [2]", (2,)),
        ("12 were hurt. Bo Reed resigned.", "12 were hurt. [1] Bo Reed resigned. [2]", (1, 2)),
        ("It cost 40 million, and 12 were hurt.", "It cost 40 million, and 12 were hurt. [1][2]", (1, 2)),
        ("Bo Reed and Ada Crane met 12 people.", "Bo Reed and Ada Crane met 12 people. [4]", (4,)),
        ("That was on April 10, 2024.", "That was on April 10, 2024. [3]", (3,)),
        ("Yes.", "Yes.", ()),
        ("Ada Crane says it fell.", "Ada Crane says it fell.", ()),  # Of the question: nothing that could be checked
        ("Insufficient information.", "Insufficient information.", ()),
        ("", "", ()),
    ],
)
def test_a_sentence_cites_the_fewest_passages_that_state_its_facts(
    answer: str, text: str, numbers: tuple[int, ...]
) -> None:
    assert checked(answer) == CitedAnswer(answer, text, numbers)


def test_lists_and_code_stay_as_they_are() -> None:
    answer = "Hurt:\n1. Ada Crane was hurt badly\n2. Bo Reed"
    found = checked(answer)
    assert found.bare == answer and found.unsupported == ()
    assert found.text == "Hurt:\n1. Ada Crane was hurt badly\n2. Bo Reed [2]"
    assert checked("Use x[0] and list[10].").bare == "Use x[0] and list[10]."
    start = time.perf_counter()
    checked("a" + " " * 40_000 + "[" * 20_000 + "[1," * 10_000)
    assert time.perf_counter() - start < 5


def test_the_question_models_lists_of_passages_are_left_out() -> None:
    found = checked("Wired {2 4}, the cost of the bridge {none}: [2] 40 million. The mayor {1 2 3 4}: [1] Bo Reed.")
    assert found.bare == "Wired, the cost of the bridge: 40 million. The mayor: Bo Reed."
    assert found.text == "Wired, the cost of the bridge: 40 million. [2] The mayor: Bo Reed. [2]"
    assert (found.passages, found.unsupported, found.removed) == ((2,), (), (1,))
    assert checked("The set {a b} and {1, 2}, f{3}.").bare == "The set {a b} and {1, 2}, f{3}."


def test_what_no_passage_states_is_told() -> None:
    found = checked("12 were hurt, said Dora Field in 1999. Carl Stone agreed.")
    assert found.unsupported == ("dora field", "1999", "carl stone")  # An author is not shown
    assert found.text == "12 were hurt, said Dora Field in 1999. [1] Carl Stone agreed."
    assert checked("12 were hurt.", ()).unsupported == ("12",)


@pytest.mark.parametrize(
    ("answer", "text", "numbers", "removed"),
    [
        ("12 were hurt [4].", "12 were hurt. [4]", (4,), ()),
        ("12 were hurt. [1][4] Bo Reed resigned.", "12 were hurt. [1][4] Bo Reed resigned. [2]", (1, 2, 4), ()),
        ("12 were hurt [1, 4].", "12 were hurt. [1][4]", (1, 4), ()),
        ("12 were hurt. [2]", "12 were hurt. [1]", (1,), (2,)),
        ("12 were hurt. [0] [9]", "12 were hurt. [1]", (1,), (0, 9)),
        ("Ada Crane says so. [1]", "Ada Crane says so. [1]", (1,), ()),
        ("Yes. [1]", "Yes.", (), (1,)),
        (
            'Ada Crane said "12 were hurt." [1] Then Bo Reed left.',
            'Ada Crane said "12 were hurt." [1] Then Bo Reed left. [2]',
            (1, 2),
            (),
        ),
        ("12 were hurt [1; 4].", "12 were hurt. [1][4]", (1, 4), ()),
        ("12 were hurt 【1】.", "12 were hurt. [1]", (1,), ()),
        ("12 were hurt.\n[2] Bo Reed left.", "12 were hurt. [1]\nBo Reed left. [2]", (1, 2), ()),
    ],
)
def test_citations_that_the_model_wrote_are_kept_if_they_hold(
    answer: str, text: str, numbers: tuple[int, ...], removed: tuple[int, ...]
) -> None:
    found = checked(answer)
    assert (found.text, found.passages, found.removed, found.unsupported) == (text, numbers, removed, ())
    assert "[" not in found.bare


@pytest.mark.parametrize(
    ("answer", "passage", "cited", "unsupported"),
    [
        ("The deal was worth 2 billion.", "The deal was worth 1.2 billion dollars.", (), ("2",)),
        ("There were 345 deaths.", "There were 12,345 deaths.", (), ("345",)),
        ("Sales rose by 5%.", "Sales rose by 12.5%.", (), ("5",)),
        ("Sales rose by 12.5%.", "Sales rose by 12.5%.", (1,), ()),
        ("It sold 5 cars.", "The maker sold 3.5 million cars.", (), ("5",)),
        ("There were 12,345 deaths.", "There were 12345 deaths.", (1,), ()),
        ("It cost 1,200.50.", "It cost 1200.50 dollars.", (1,), ()),
        ("It cost 1.3 million.", "It cost 1.2 million.", (), ("1.3",)),
        ("That was on June 25, 2024.", "On June 25, 2024, it fell.", (1,), ()),
        ("It began at 10:30.", "It began at 10:30 sharp.", (1,), ()),
        ("Versions 5-10 fell.", "Versions 5-10 fell.", (1,), ()),
        ("It met the G20 again.", "Then it met the G20 there.", (1,), ()),
        ("It runs GPT-3.5 Turbo.", "It runs GPT-3.5 Turbo.", (1,), ()),
        ("It runs GPT-3.", "It runs GPT-3.5.", (), ("gpt 3", "3")),
        ("It is version 1.2.", "It is version 1.2.3.", (), ("1.2",)),
        ("That was in 2024.", "It was on 25.06.2024.", (1,), ()),
        ("That was on June 25, 2024.", "On June 25,2024 it fell.", (1,), ()),
        ("It cost 40.", "It cost $40.00.", (1,), ()),
        ("It has 3 of them.", "It has 1,2,3.", (1,), ()),
        ("It lies in [0, 1].", "It lies in [0,1].", (1,), ()),
        ("There were 345 deaths.", "There were 12'345 deaths.", (), ("345",)),
        ("There were 12’345 deaths.", "There were 12,345 deaths.", (1,), ()),
        ("They saw 1,234,567.", "Es waren 1.234.567.", (1,), ()),
    ],
)
def test_a_number_is_stated_as_a_whole(
    answer: str, passage: str, cited: tuple[int, ...], unsupported: tuple[str, ...]
) -> None:
    found = checked(answer, (Document("0", passage),))
    assert (found.passages, found.unsupported) == (cited, unsupported)


@pytest.mark.parametrize(
    "answer",
    [
        "The score lies in [0, 1].",
        "The range is [2, 5] points.",
        "It is [1, 3] wide.",
        "It is [1,3] wide.",
        "It is 【0–1】 wide.",
    ],
)
def test_intervals_are_no_citations(answer: str) -> None:
    passages = (Document("0", "It is [1, 3] wide."), Document("1", "Nothing."), Document("2", "Nothing."))
    found = checked(answer, passages)
    assert found.bare == answer and answer[:-1] in found.text and found.removed == ()
    assert checked("Bo Reed resigned [9].").removed == (9,)
    assert checked("12 were hurt [1, 4].").passages == (1, 4)


def test_names_may_be_composed_or_not() -> None:
    found = checked("Then \u00c9lodie Mu\u0308ller won.", (Document("0", "Then E\u0301lodie M\u00fcller won."),))
    assert (found.passages, found.unsupported) == ((1,), ())
