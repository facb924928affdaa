"""Chunks: whole sentences, within the limit, overlapping, nothing lost, and each knows its document."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from mrag_rl.data.chunks import split_documents
from mrag_rl.data.records import Document
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.errors import InputError
from tests.tiny import encoder


def tokenizer() -> PreTrainedTokenizerBase:
    return encoder().tokenizer


def tokens(text: str) -> int:
    return len(tokenizer()(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"])


def articles() -> list[Document]:
    """Long articles, made of the bundled world's short ones, in paragraphs."""
    sources = [
        pair.source for pair in make_newsroom("summarization", seed=3, database=400, train=1, dev=1, test=1).database
    ]
    rng = np.random.default_rng(0)
    made = []
    for i in range(20):
        ends = rng.choice([" ", "\n", "\n\n", "\r\n"], 20)
        text = "".join(source + end for source, end in zip(sources[20 * i : 20 * i + 20], ends, strict=True))
        made.append(Document(f"a{i}", text, f"title {i}", "news", {"source": f"paper {i % 3}"}))
    return made


def test_chunks_are_stretches_within_the_limit_that_lose_nothing() -> None:
    documents = articles()
    chunks = split_documents(documents, tokenizer())
    assert max(tokens(chunk.text) for chunk in chunks) <= 256
    assert np.median([tokens(chunk.text) for chunk in chunks]) > 200
    assert list(dict.fromkeys(chunk.document for chunk in chunks)) == [document.id for document in documents]
    for document in documents:
        own = [chunk for chunk in chunks if chunk.document == document.id]
        assert len(own) > 1 and [chunk.id for chunk in own] == [f"{document.id}#{n}" for n in range(len(own))]
        covered = np.zeros(len(document.text), bool)
        for chunk in own:
            assert document.text[chunk.start : chunk.start + len(chunk.text)] == chunk.text
            assert (chunk.title, chunk.category, chunk.metadata) == (document.title, "news", document.metadata)
            covered[chunk.start : chunk.start + len(chunk.text)] = True
        assert not "".join(np.array(list(document.text))[~covered]).strip()


def test_chunks_overlap_by_whole_sentences() -> None:
    overlaps = []
    for overlap in (0, 32):
        chunks = split_documents(articles(), tokenizer(), overlap=overlap)
        shared = []
        for a, b in pairwise(chunks):
            if a.document == b.document:
                shared.append(tokens(a.text[b.start - a.start :]) if b.start < a.start + len(a.text) else 0)
                assert a.text.rstrip()[-1] in ".!?\"'" and not b.text[0].isspace()
        overlaps.append(shared)
    assert max(overlaps[0]) == 0
    assert max(overlaps[1]) <= 32 and np.mean(np.array(overlaps[1]) > 0) > 0.8


def test_sentences_by_hand() -> None:
    text = "One two three four.\nFive six seven eight. Nine ten. Eleven twelve one two three four five six seven eight."
    chunks = split_documents([Document("d", text)], tokenizer(), tokens=8, overlap=3)
    # Every word and every dot is a token; the last sentence, longer than a chunk, is cut between words.
    assert [(chunk.start, chunk.text) for chunk in chunks] == [
        (0, "One two three four."),
        (20, "Five six seven eight. Nine ten."),
        (52, "Eleven twelve one two three four five six"),
        (80, "four five six seven eight."),
    ]


def test_the_callers_tokenizer_is_left_as_it_is() -> None:
    before = tokenizer().backend_tokenizer.to_str()
    split_documents([Document("d", "word " * 600)], tokenizer())
    assert tokenizer().backend_tokenizer.to_str() == before


def test_a_heading_has_the_fields_that_the_document_has() -> None:
    document = Document("d", "It rained.", "Rain", "weather", {"source": "Wired", "pages": 0})
    (chunk,) = split_documents([document], tokenizer())
    assert chunk.headed(()) == "It rained."
    assert chunk.headed(("title", "source", "author", "pages")) == "title: Rain\nsource: Wired\npages: 0\nIt rained."
    assert chunk.headed(("category",)) == "category: weather\nIt rained."


def test_bad_input_is_named() -> None:
    good = Document("d", "A sentence.")
    for documents, settings, says in (
        ([good, Document("e", " \n ")], {}, "document 'e' is blank"),
        ([good], {"tokens": 0}, "chunks of 0 tokens"),
        ([good], {"tokens": 8, "overlap": 8}, "overlap by 8 of 8 tokens; give 0 to 7"),
        ([good], {"overlap": -1}, "overlap by -1"),
    ):
        with pytest.raises(InputError, match=says) as caught:
            split_documents(documents, tokenizer(), **settings)
        assert "\n" not in str(caught.value)
