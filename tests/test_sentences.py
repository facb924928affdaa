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
        ("One is odd. Two is even! Is three odd? So is five… The rest",
         ["One is odd.", "Two is even!", "Is three odd?", "So is five… The rest"]),
        ("Who was it?! It was he... So they say.", ["Who was it?!", "It was he...", "So they say."]),
        ("  One is odd.  \t Two is even.  ", ["One is odd.", "Two is even."]),
        # A dot that ends no sentence.
        ("Dr. Smith met Mrs. Jones. They spoke at length.", ["Dr. Smith met Mrs. Jones.", "They spoke at length."]),
        ("J. R. R. Tolkien wrote it. C. S. Lewis read it.", ["J. R. R. Tolkien wrote it.", "C. S. Lewis read it."]),
        ("Red vs. blue, e.g. in No. 5 (cf. Fig. 2 and 3).", ["Red vs. blue, e.g. in No. 5 (cf. Fig.", "2 and 3)."]),
        ("Was it 5 (as asked): No. It was 6, says No. 7.", ["Was it 5 (as asked): No.", "It was 6, says No. 7."]),
        ("About (ca. 1900) it fell.", ["About (ca. 1900) it fell."]),
        ("It is 3.5 m long, costs 1.000.000 at a.b.com.", ["It is 3.5 m long, costs 1.000.000 at a.b.com."]),
        # Words that only end like an abbreviation do end a sentence.
        ("We ate a maca. They ate a tomato. It was First. It was last.",
         ["We ate a maca.", "They ate a tomato.", "It was First.", "It was last."]),
        ("He lived in NATO. She in UNESCO. It is DNA. That is all.",
         ["He lived in NATO.", "She in UNESCO.", "It is DNA.", "That is all."]),
        ("Bread, cheese, milk (etc.) Then we went home.", ["Bread, cheese, milk (etc.)", "Then we went home."]),
        # Quotes and brackets.
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("“Stop that noise!” And he left. (She stayed there.) It rained hard.",
         ["“Stop that noise!”", "And he left.", "(She stayed there.)", "It rained hard."]),
        ("'Why should I?' 'Because I say.' Silence fell again.",
         ["'Why should I?'", "'Because I say.'", "Silence fell again."]),
        # A new line ends a sentence, whatever stands before it.
        ("A good title\nA first sentence. And another one", ["A good title", "A first sentence.", "And another one"]),
        ("Was written by Dr.\nSmith, in World War I.\n\nThis is all",
         ["Was written by Dr.", "Smith, in World War I.", "This is all"]),
        ("One is odd.\r\nTwo is even\r\n\r\nThree is odd", ["One is odd.", "Two is even", "Three is odd"]),
        # One or two words are one with the next sentence, the last ones with the one before.
        ("Legal note:\n3. The term ends. 4. The fee is due. Yes. No.",
         ["Legal note: 3.", "The term ends.", "4. The fee is due. Yes. No."]),
        ("Note:\n3. The term ends. It is due.", ["Note: 3. The term ends.", "It is due."]),
        ("Subject:\n\nThe lease ends", ["Subject: The lease ends"]),
        ("Stop! Now!", ["Stop! Now!"]),
        ("1. 2. 3. 4.", ["1. 2. 3. 4."]),
        # Marks without a space behind them; such a script is not counted in words.
        ("他走了。她留下！为什么？不知道", ["他走了。", "她留下！", "为什么？", "不知道"]),
        ("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"]),
        ("「はい。」と言った。（嘘だ。）終わり", ["「はい。」", "と言った。", "（嘘だ。）", "終わり"]),
        ("本当？！はい。。。", ["本当？", "はい。"]),
        # Pieces without a word.
        ("One is odd. --- . Two is even. ***", ["One is odd.", "Two is even."]),
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
    for piece in " ".join(sentences).split():
        place = text.index(piece, place) + len(piece)


@pytest.mark.parametrize(
    ("part", "sentences"),
    [
        ("Dr. Smith went home. ", 4762),
        ("Mr. ", 1),
        ("A. ", 1),
        ("x", 1),
        ("word ", 1),
        ("word\n", 6666),
        ("three more words\n", 5882),
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
    sentences, owners = split_all(["One is odd. Two is even.", "", "Three", "It is four. Five. Six it is."])
    assert sentences == ["One is odd.", "Two is even.", "Three", "It is four.", "Five. Six it is."]
    assert owners.tolist() == [0, 0, 2, 3, 3] and owners.dtype == np.int64


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_no_texts_have_no_sentences(texts: list[str]) -> None:
    sentences, owners = split_all(texts)
    assert sentences == [] and owners.shape == (0,) and owners.dtype == np.int64
