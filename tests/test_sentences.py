"""Texts to sentences: where one ends, that no word is lost, and that long texts take no longer than they must."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.retrieval.sentences import split_all, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One.", ["One."]),
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("What?! Yes... Done.", ["What?!", "Yes...", "Done."]),
        ("  One.  \t Two.  ", ["One.", "Two."]),
        # A dot that ends no sentence.
        ("Dr. Smith met Mrs. Jones. They spoke.", ["Dr. Smith met Mrs. Jones.", "They spoke."]),
        ("J. R. R. Tolkien wrote it. C. S. Lewis read it.", ["J. R. R. Tolkien wrote it.", "C. S. Lewis read it."]),
        ("Red vs. blue, e.g. in No. 5 (cf. Fig. 2).", ["Red vs. blue, e.g. in No. 5 (cf. Fig.", "2)."]),
        ("About (ca. 1900) it fell.", ["About (ca. 1900) it fell."]),
        ("It is 3.5 m long, costs 1.000.000 at a.b.com.", ["It is 3.5 m long, costs 1.000.000 at a.b.com."]),
        # Words that only end like an abbreviation do end a sentence.
        ("We ate a maca. They ate a tomato. It was First. Then last.",
         ["We ate a maca.", "They ate a tomato.", "It was First.", "Then last."]),
        ("He lived in NATO. UNESCO. DNA. End.", ["He lived in NATO.", "UNESCO.", "DNA.", "End."]),
        ("Bread, milk (etc.) Then home.", ["Bread, milk (etc.)", "Then home."]),
        # Quotes and brackets.
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("“Stop!” He left. (She stayed.) It rained.", ["“Stop!”", "He left.", "(She stayed.)", "It rained."]),
        ("'Why?' 'Because.' Silence.", ["'Why?'", "'Because.'", "Silence."]),
        # A new line ends a sentence, whatever stands before it.
        ("A title\nA sentence. Another", ["A title", "A sentence.", "Another"]),
        ("Written by Dr.\nSmith, in World War I.\n\nThe end", ["Written by Dr.", "Smith, in World War I.", "The end"]),
        ("One.\r\nTwo\r\n\r\nThree", ["One.", "Two", "Three"]),
        # Marks without a space behind them.
        ("他走了。她留下！为什么？不知道", ["他走了。", "她留下！", "为什么？", "不知道"]),
        ("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"]),
        ("「はい。」と言った。（嘘だ。）終わり", ["「はい。」", "と言った。", "（嘘だ。）", "終わり"]),
        ("本当？！はい。。。", ["本当？", "はい。"]),
        # Pieces without a word.
        ("One. --- . Two. ***", ["One.", "Two."]),
        ("...", ["..."]),
        (" ?! \n ... ", ["?! \n ..."]),
        ("", []),
        (" \n\t ", []),
    ],
)  # fmt: skip
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@given(st.text(alphabet="aB1é字 .!?…。！？\n\r\t\"'”’)]」(-", max_size=200) | st.text(max_size=200))
@settings(max_examples=400, deadline=None)
def test_no_letter_or_digit_is_lost_and_none_is_invented(text: str) -> None:
    sentences = split_sentences(text)
    assert [c for sentence in sentences for c in sentence if c.isalnum()] == [c for c in text if c.isalnum()]
    assert bool(sentences) == bool(text.strip())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)
    if any(map(str.isalnum, text)):
        assert all(any(map(str.isalnum, sentence)) and "\n" not in sentence for sentence in sentences)
    # They stand in the text in this order.
    place = 0
    for sentence in sentences:
        place = text.index(sentence, place) + len(sentence)


@pytest.mark.parametrize(
    ("part", "sentences"),
    [
        ("Dr. Smith went home. ", 4762),
        ("Mr. ", 1),
        ("A. ", 1),
        ("x", 1),
        ("word ", 1),
        ("word\n", 20_000),
        (".", 1),
        ('."', 1),
        (". ", 1),
        ("字。", 50_000),
        ("。", 1),
        ("\n", 0),
        (" ", 0),
    ],
)
def test_a_hundred_thousand_characters_take_a_moment(part: str, sentences: int) -> None:
    text = (part * 100_000)[:100_000]
    start = time.process_time()
    assert len(split_sentences(text)) == sentences
    assert time.process_time() - start < 3


def test_the_sentences_of_many_texts_know_their_text() -> None:
    sentences, owners = split_all(["One. Two.", "", "Three", "Four. Five. Six."])
    assert sentences == ["One.", "Two.", "Three", "Four.", "Five.", "Six."]
    assert owners.tolist() == [0, 0, 2, 3, 3, 3] and owners.dtype == np.int64


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_no_texts_have_no_sentences(texts: list[str]) -> None:
    sentences, owners = split_all(texts)
    assert sentences == [] and owners.shape == (0,) and owners.dtype == np.int64
