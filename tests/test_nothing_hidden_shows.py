"""What may not be read changes nothing: answers, filters, notes and prompts are the same as if it did not exist."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from mrag_rl.data.chunks import Chunk
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.filters import Field, FieldVocabulary, LLMExtractor, RuleExtractor, parse_filter, to_json
from mrag_rl.retrieval import MultiAspectRetriever, Parts
from mrag_rl.retrieval.filtered import FilteredRetriever
from mrag_rl.systems import MultiMetaRAG, PassageRetriever, RAGFusion
from tests.tiny import Listening, ScriptedLLM

SOURCES = ["Wired", "The Verge", "Harbour Herald", "Northbound Post", "CNX | World Trade Leader", "Fortune"]
SECRET = ["Kestrel Wire", "wired", "The Verge - Insider", "Fortune 500 Letters", "Herald"]
DAYS = ["October 4, 2023", "October 5, 2023", "November 6, 2023"]
CATEGORIES = ["sport", "court", "weather"]


class Vectors:
    """Random vectors, the same ones for the same text: what is asked here is who may be ranked, not how well."""

    prefixes = Prefixes()

    def encode(self, texts: Any, *, progress: bool = False, prefix: str | None = None) -> Embeddings:
        rows = [np.random.default_rng(list(text.encode())).standard_normal(20) for text in texts]
        numbers = np.array(rows, np.float32).reshape(len(texts), 20)
        heads = numbers[:, 8:].reshape(-1, 3, 4)
        return Embeddings(
            numbers[:, :8] / np.linalg.norm(numbers[:, :8], axis=-1, keepdims=True),
            heads / np.linalg.norm(heads, axis=-1, keepdims=True),
        )


def a_chunk(number: int, rng: np.random.Generator, sources: list[str], category: str, *, odd: bool = False) -> Chunk:
    metadata: dict[str, Any] = {
        "source": str(rng.choice(sources)),
        "published_at": str(rng.choice(DAYS)),
        "words": number,
    }
    if odd:  # what would change the type of a field, or add one
        metadata |= {
            "published_at": ["soon", 7, DAYS[0]][number % 3],
            "author": str(rng.choice(SECRET)),
            "words": "many",
        }
    text = " ".join(rng.choice(["council", "harbour", "budget", "match", "storm", "appeal", "verge"], 12))
    return Chunk(f"n{number}#0", f"{text.capitalize()}. {text}.", title=f"Report {number}", category=category,
                 metadata=metadata, document=f"n{number}")  # fmt: skip


def a_library(seed: int, hidden: bool) -> list[Chunk]:
    """Twenty-four documents that may be read, and among them eight that may not."""
    rng = np.random.default_rng([seed, 0])
    rows = [a_chunk(number, rng, SOURCES, CATEGORIES[number % 2]) for number in range(24)]
    if hidden:
        rng = np.random.default_rng([seed, 1])
        for number in range(100, 108):
            place = int(rng.integers(len(rows) + 1))
            rows.insert(place, a_chunk(number, rng, SECRET + SOURCES, "secret", odd=seed % 2 == 0))
    return rows


def a_retriever(chunks: list[Chunk], strategy: str, reads_filters: bool) -> PassageRetriever:
    texts, encoder = [chunk.text for chunk in chunks], Vectors()
    search = MultiAspectRetriever(encoder.encode(texts), Parts.of_sentences(encoder, texts), texts=texts)
    extractor = RuleExtractor(FieldVocabulary.from_documents(chunks)) if reads_filters else None
    return PassageRetriever(encoder, FilteredRetriever(search, chunks), extractor, strategy, fetch=5)


def questions(seed: int, count: int) -> list[str]:
    """Questions that name what may be read, what may not, and what does not exist."""
    rng = np.random.default_rng([seed, 2])
    names = [*SOURCES, *SECRET, "Nowhere Times", "secret", "sport"]
    forms = [
        "What does {0} report on the {2}?",
        "Does the {0} article of {1} agree with {3}?",
        "Who won, but not by {0}?",
        "What did {0} say after {1}?",
        "Storm {2} in the category {0}?",
        "The {2}, according to {0} and {3}",
    ]
    return [
        str(rng.choice(forms)).format(
            rng.choice(names), rng.choice([*DAYS, "May 1, 2020"]), rng.choice(["harbour", "verge"]), rng.choice(names)
        )
        for _ in range(count)
    ]


def written(answers: Any) -> str:
    return json.dumps([asdict(answer) | {"filter": to_json(answer.filter)} for answer in answers], default=repr)


@pytest.mark.parametrize("strategy", ["standard", "mrag", "late_interaction", "words", "hybrid"])
@pytest.mark.parametrize("fused", [False, True])
def test_answers_are_the_same_to_the_byte(strategy: str, fused: bool) -> None:
    """10,000 pairs of a question and rights, over all cases."""
    rights: list[dict[str, Any]] = [
        {"categories": ["sport", "court"]},
        {"categories": ["court"]},
        {"documents": [f"n{number}" for number in range(0, 24, 2)]},
        {"categories": []},
    ]
    for seed in range(10):
        texts, outputs = questions(seed, 100), []
        for hidden in (False, True):
            retriever = a_retriever(a_library(seed, hidden), strategy, reads_filters=True)
            system: Any = RAGFusion(retriever) if fused else MultiMetaRAG(retriever)
            queries = {"queries": [[text.upper()] for text in texts]} if fused else {}
            outputs.append(written(system.answer(texts, **queries, **rights[seed % 4])))
        assert outputs[0] == outputs[1]


def test_the_rights_matter() -> None:
    """The hidden documents would change the answers if they could be read: the test above can fail."""
    texts = questions(1, 100)
    outputs = [
        written(MultiMetaRAG(a_retriever(a_library(1, hidden), "hybrid", reads_filters=True)).answer(texts))
        for hidden in (False, True)
    ]
    assert outputs[0] != outputs[1] and "Kestrel Wire" in outputs[1]


def test_a_given_filter_is_answered_alike() -> None:
    for seed in range(8):
        outputs = []
        for hidden in (False, True):
            system = MultiMetaRAG(a_retriever(a_library(seed, hidden), "standard", reads_filters=True))
            rights = ["sport", "court"]
            retriever, _ = system.retriever.scope(["?"], categories=rights)
            assert isinstance(retriever.extractor, RuleExtractor)
            vocabulary = retriever.extractor.vocabulary
            given = parse_filter({"source": {"$nin": ["Kestrel Wire", "Wired"]}}, vocabulary)
            answers = system.answer(["?"], filters=[given], categories=rights)
            outputs.append((written(answers), vocabulary.listing(), vocabulary.keep_known(given)))
        assert outputs[0] == outputs[1]


def test_a_language_model_is_not_shown_hidden_values() -> None:
    for seed in range(4):
        prompts = []
        for hidden in (False, True):
            listening = Listening(ScriptedLLM())
            chunks = a_library(seed, hidden)
            extractor = LLMExtractor(listening, FieldVocabulary.from_documents(chunks), max_new_tokens=4)
            retriever = replace(a_retriever(chunks, "standard", reads_filters=False), extractor=extractor)
            MultiMetaRAG(retriever).answer(questions(seed, 3), categories=["sport"])
            prompts.append(list(listening.prompts))
        assert prompts[0] == prompts[1] and prompts[0]


def test_declared_fields_keep_their_types_and_lose_hidden_values() -> None:
    declared = FieldVocabulary(
        {
            "source": Field("source", "string", {"Wired": 1, "Kestrel Wire": 1}),
            "published_at": Field("published_at", "date", None, "%B %-d, %Y"),
            "author": Field("author", "string", {"Herald": 1}),
        },
        declared=True,
    )
    left = declared.restricted([{"source": ["Wired"], "published_at": "soon"}])
    assert left["source"].values == {"Wired": 1} and left["author"].values == {} and left.declared
    assert left["published_at"] == declared["published_at"]
