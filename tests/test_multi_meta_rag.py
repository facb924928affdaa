"""Search under filters and access rights, Multi-Meta-RAG, and evaluate.py multihop from files to tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import evaluate
from mrag_rl.data.chunks import Chunk, split_documents
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_news
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.filters import (
    EVERYTHING,
    Condition,
    Extraction,
    FieldVocabulary,
    Filter,
    RuleExtractor,
    document_metadata,
    matches,
    parse_filter,
)
from mrag_rl.generation.prompts import render
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import write_jsonl
from mrag_rl.metrics.ranking import RANKING_METRICS, evidence_scores, textbook_scores
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever, Parts
from mrag_rl.retrieval.filtered import FilteredRetriever
from mrag_rl.retrieval.fusion_queries import generate_queries
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.systems import MultiMetaRAG, PassageReader, PassageRetriever
from tests.tiny import Listening, encoder, write_tiny_llm

STRATEGIES = ("standard", "mrag", "late_interaction")
SOURCES = ("Wired", "Harbour Gazette", "Copper Lantern")


@cache
def world() -> tuple[list[Document], list[Query]]:
    """Twelve events and 24 questions."""
    return make_news(5, split="dev", events=12, queries=24)


@cache
def chunks() -> list[Chunk]:
    return split_documents(world()[0], encoder().tokenizer)


@cache
def library() -> FilteredRetriever:
    """The chunks under random vectors: what is asked here is who may be ranked, not how well."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(len(chunks())), 2)
    retriever = MultiAspectRetriever(vectors(rng, len(chunks())), Parts(vectors(rng, len(owners)), owners))
    return FilteredRetriever(retriever, chunks())


def vectors(rng: np.random.Generator, count: int) -> Embeddings:
    standard, heads = rng.standard_normal((count, 8)), rng.standard_normal((count, 3, 4))
    return Embeddings(
        (standard / np.linalg.norm(standard, axis=-1, keepdims=True)).astype(np.float32),
        (heads / np.linalg.norm(heads, axis=-1, keepdims=True)).astype(np.float32),
    )


def asked(count: int) -> EncodedQueries:
    rng = np.random.default_rng(1)
    return EncodedQueries(vectors(rng, count), Parts(vectors(rng, 2 * count), np.repeat(np.arange(count), 2)))


@cache
def filters() -> list[Filter]:
    """Those of the questions, nothing, and one that no article passes."""
    vocabulary = FieldVocabulary.from_documents(world()[0])
    given = [parse_filter(query.metadata["filter"], vocabulary) for query in world()[1]]
    nowhere = parse_filter({"source": "Kestrel Wire", "published_at": {"$lt": "2001-01-01"}}, vocabulary)
    return [*given, EVERYTHING, nowhere]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_ranked_passes_the_filter_by_its_plain_reading(strategy: str) -> None:
    found = library().rank(asked(len(filters())), strategy, 20, filters=filters())
    for row, condition, unfiltered in zip(found.ranking.indices, filters(), found.unfiltered, strict=True):
        passing = {i for i, chunk in enumerate(chunks()) if matches(condition, document_metadata(chunk))}
        assert unfiltered == (not passing)
        ranked = [i for i in row.tolist() if i >= 0]
        assert len(ranked) == len(set(ranked)) == min(20, len(passing) or len(chunks()))
        assert not passing or set(ranked) <= passing
    assert found.unfiltered[-1] and not found.unfiltered[-2]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_filter_that_leaves_nothing_gives_the_unfiltered_ranking(strategy: str) -> None:
    queries = asked(2)
    found = library().rank(queries, strategy, 10, filters=[filters()[-1]] * 2)
    free = library().rank(queries, strategy, 10)
    assert found.unfiltered.all() and not free.unfiltered.any()
    assert found.ranking.indices.tolist() == free.ranking.indices.tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_access_rights_never_give_way(strategy: str) -> None:
    """Neither where the filter leaves nothing that may be read, nor where nothing may be read at all."""
    sport = library().readable(categories=["sport"])
    assert sport is not None
    queries, business = asked(len(filters())), Condition("category", "$eq", ("business",))
    found = library().rank(queries, strategy, 20, filters=filters(), allowed=sport)
    assert all(chunks()[i].category == "sport" for i in found.ranking.indices.ravel().tolist() if i >= 0)
    assert (found.ranking.indices[:, 0] >= 0).all()
    barred = library().rank(queries, strategy, 20, filters=[business] * len(queries), allowed=sport)
    assert barred.unfiltered.all()
    assert all(chunks()[i].category == "sport" for i in barred.ranking.indices.ravel().tolist())
    for nothing in (library().readable(documents=[]), library().readable(categories=()), np.zeros_like(sport)):
        none = library().rank(queries, strategy, 20, filters=filters(), allowed=nothing)
        assert (none.ranking.indices == -1).all() and not none.unfiltered.any()
        none = library().rank(queries, strategy, 20, allowed=nothing)
        assert (none.ranking.indices == -1).all()


def test_rights_of_each_query_its_own_are_its_rows() -> None:
    queries = asked(2)
    rights = np.zeros((2, len(chunks())), bool)
    rights[0, 3] = rights[1, [4, 5]] = True
    found = library().rank(queries, "standard", 5, filters=[EVERYTHING, filters()[-1]], allowed=rights)
    assert found.ranking.indices[0].tolist() == [3, -1, -1, -1, -1]
    assert set(found.ranking.indices[1].tolist()) == {4, 5, -1} and found.unfiltered.tolist() == [False, True]


def test_readable_wants_both_and_names_what_does_not_exist() -> None:
    first = chunks()[0]
    assert library().readable() is None
    mask = library().readable([first.document], [first.category])
    assert mask is not None
    assert [chunks()[i].document for i in np.flatnonzero(mask)] == [first.document] * int(mask.sum()) and mask.any()
    with pytest.raises(InputError, match="allowed category 'sports' does not exist"):
        library().readable(categories=["sports"])
    with pytest.raises(InputError, match="'sport' is a single category; give a list"):
        library().readable(categories="sport")
    assert library().readable(iter([first.document])).tolist() == library().readable([first.document]).tolist()  # type: ignore
    with pytest.raises(InputError, match="allowed document 'x' does not exist"):
        library().readable(documents=[first.document, "x"])


def test_other_numbers_of_filters_chunks_or_columns_are_clear_errors() -> None:
    with pytest.raises(InputError, match="1 filters for 2 queries; give one for each query"):
        library().rank(asked(2), "standard", filters=[EVERYTHING])
    with pytest.raises(InputError, match="embeddings; give one for each chunk"):
        FilteredRetriever(library().retriever, chunks()[1:])
    retriever = MultiAspectRetriever(library().retriever.documents)
    changed = FilteredRetriever(retriever, chunks())
    retriever.remove([0])
    with pytest.raises(InputError, match="build the filtered retriever again after adding or removing documents"):
        changed.rank(asked(1), "standard")
    with pytest.raises(InputError, match="build the filtered retriever again after adding or removing documents"):
        changed.restricted(np.ones(len(chunks()), bool))
    with pytest.raises(InputError, match="a column for each chunk"):
        library().rank(asked(1), "standard", filters=[filters()[0]], allowed=np.ones(3, bool))


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> TransformersLLM:
    """A Llama with random weights."""
    texts = [query.text for query in world()[1]] + ["Yes No Insufficient information."]
    return TransformersLLM.load(write_tiny_llm(tmp_path_factory.mktemp("llm"), texts))


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder with random weights and MiniLM's tokenizer."""
    folder = tmp_path_factory.mktemp("reranker")
    encoder().tokenizer.save_pretrained(folder)
    assert isinstance(encoder().tokenizer, PreTrainedTokenizerFast)
    labels: dict[str, Any] = {"num_labels": 1}
    config = BertConfig(
        vocab_size=len(encoder().tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=512, initializer_range=0.5, **labels,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def rules(documents: Sequence[Document]) -> RuleExtractor:
    return RuleExtractor(FieldVocabulary.from_documents(documents))


@pytest.fixture(scope="module")
def retriever() -> PassageRetriever:
    documents = world()[0][:40]
    return PassageRetriever.build(documents, encoder(), extractor=rules(documents))


@pytest.fixture(scope="module")
def system(retriever: PassageRetriever, llm: TransformersLLM) -> MultiMetaRAG:
    return MultiMetaRAG(retriever, PassageReader(llm))


def test_the_system_searches_under_the_questions_filter_and_shows_source_and_date(
    retriever: PassageRetriever, llm: TransformersLLM
) -> None:
    documents = world()[0][:40]
    listening = Listening(llm)
    rag = MultiMetaRAG(replace(retriever, passages=3), PassageReader(listening))
    ((source, _),) = Counter(document.metadata["source"] for document in documents).most_common(1)
    answers = rag.answer([f"What does {source} say of the weather?", "Who is it?"])
    assert answers[0].filter == Condition("source", "$in", (source,)) and answers[1].filter == EVERYTHING
    assert len(answers[0].passages) == len(answers[1].passages) == 3 and answers[0].notes == ()
    assert {passage.metadata["source"] for passage in answers[0].passages} == {source}
    library = retriever.library
    assert isinstance(library, FilteredRetriever)
    nearest = library.retriever.search(encoder(), ["Who is it?"], strategy="standard", fetch=20).indices[0]
    assert list(answers[1].retrieved) == [library.chunks[i] for i in nearest]
    assert answers[1].passages == answers[1].retrieved[:3]
    for answer, prompt in zip(answers, listening.prompts, strict=True):
        shown = render(prompt)
        for passage in answer.passages:
            assert passage.text in shown and passage.title in shown
            assert passage.metadata["source"] in shown and passage.metadata["published_at"] in shown
    assert [answer.hypothesis for answer in answers] == [
        texts[0].strip() for texts in llm.generate(listening.prompts, max_new_tokens=128)
    ]


def test_equal_prompts_are_read_once(retriever: PassageRetriever, llm: TransformersLLM) -> None:
    listening = Listening(llm)
    first, other, again = MultiMetaRAG(retriever, PassageReader(listening)).answer(["Who?", "Where?", "Who?"])
    assert first == again != other and len(listening.prompts) == 2


def test_the_system_says_where_a_filter_matched_nothing_and_keeps_to_access_rights(system: MultiMetaRAG) -> None:
    documents = world()[0][:40]
    source, category = documents[0].metadata["source"], documents[0].category
    question = f"What did {source} write after October 1, 2031?"
    (answer,) = system.answer([question])
    assert answer.filter == EVERYTHING and answer.filter_dropped and len(answer.passages) == 6
    assert answer.notes == ("no readable document passes the filter; searched without it",)
    (answer,) = system.answer([question], categories=[category])
    assert answer.passages and {passage.category for passage in answer.passages} == {category}
    other = next(document for document in documents if document.metadata["source"] != source)
    (answer,) = system.answer([f"What does {source} say?"], documents=[other.id])
    assert {passage.document for passage in answer.passages} == {other.id}
    # As for a source that does not exist
    assert answer.filter == EVERYTHING and answer.notes == (f"no passage mentions {source}",)
    (answer,) = system.answer([question], documents=[])
    assert answer.passages == () and not answer.filter_dropped
    with pytest.raises(InputError, match="question 1 of 2 is blank"):
        system.answer(["Who?", " "])
    assert system.answer([]) == []


def test_filters_extracted_before_are_as_if_extracted_here(system: MultiMetaRAG, retriever: PassageRetriever) -> None:
    """They give way like the extractor's own; filters that the caller sets never do."""
    source = world()[0][0].metadata["source"]
    questions = [f"What did {source} write after October 1, 2031?", f"What does {source} say?"]
    extractions = rules(world()[0][:40]).extract(questions)
    plain = MultiMetaRAG(replace(retriever, extractor=None), system.reader)
    assert plain.answer(questions, extractions=extractions) == system.answer(questions)
    strict = plain.answer(questions, filters=[extraction.filter for extraction in extractions])
    assert strict[0].passages == () and strict[1].passages == system.answer(questions)[1].passages
    with pytest.raises(InputError, match="extractions and filters are both set"):
        plain.answer(questions, filters=[EVERYTHING] * 2, extractions=extractions)
    with pytest.raises(InputError, match="1 filters for 2 questions"):
        plain.answer(questions, extractions=extractions[:1])


def test_the_system_reranks_what_it_fetched_and_reads_sentences_where_a_strategy_does(reranker: Path) -> None:
    documents = world()[0][:20]
    model = CrossEncoder.load(str(reranker))
    retriever = PassageRetriever.build(documents, encoder(), strategy="late_interaction", reranker=model)
    question = "Which club has a new striker? Its captain is injured."
    (answer,) = MultiMetaRAG(retriever).answer([question])
    library = retriever.library
    assert isinstance(library, FilteredRetriever)
    ranking = library.retriever.search(encoder(), [question], strategy="late_interaction", fetch=20).indices[0]
    scores = model.scores([(question, library.chunks[i].text) for i in ranking])
    assert list(answer.retrieved) == [library.chunks[i] for i in ranking[np.argsort(-scores, kind="stable")]]
    assert answer.passages == answer.retrieved[:6] and answer.hypothesis == ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"passages": 0}, "passages is 0"), ({"fetch": -1}, "fetch is -1"), ({"strategy": "best"}, "'best' is unknown")],
)
def test_settings_that_cannot_be_are_refused_at_once(
    retriever: PassageRetriever, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        replace(retriever, **settings)


class Dropping:
    """An extractor that finds no filter and has something to say about it."""

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        return [
            Extraction(question, EVERYTHING, ("source: the corpus has no 'X'",), "no mapping") for question in questions
        ]

    def restricted(self, records: Sequence[Mapping[str, Any]]) -> Dropping:
        return self


def test_what_the_extractor_left_out_is_in_the_notes(retriever: PassageRetriever) -> None:
    (answer,) = MultiMetaRAG(replace(retriever, extractor=Dropping())).answer(["What does X say?"])
    assert answer.notes == ("left out of the filter: source: the corpus has no 'X'", "no filter: no mapping")
    (answer,) = MultiMetaRAG(replace(retriever, extractor=None)).answer(["What does Kestrel Wire say?"])
    assert answer.filter == EVERYTHING and answer.notes == ("no passage mentions Kestrel Wire",)
    (answer,) = MultiMetaRAG(replace(retriever, extractor=None)).answer(["What does it say?"])
    assert answer.filter == EVERYTHING and answer.notes == ()


def save(folder: Path, documents: Sequence[Document], queries: Sequence[Query]) -> list[str]:
    write_jsonl(folder / "d.jsonl", [asdict(document) for document in documents])
    write_jsonl(folder / "q.jsonl", [flat(query) for query in queries])
    return ["--documents", str(folder / "d.jsonl"), "--queries", str(folder / "q.jsonl")]


def flat(query: Query) -> dict[str, Any]:
    return {"id": query.id, "text": query.text, "relevant": query.relevant, **query.metadata}


def multihop(files: Sequence[str], output: Path, *arguments: str) -> int:
    return evaluate.main(["multihop", *files, "--output", str(output), *arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("multihop")


@pytest.fixture(scope="module")
def results(folder: Path, llm: TransformersLLM, reranker: Path) -> dict[str, Any]:
    """The whole comparison on a small world."""
    files = save(folder, *world())
    llm_folder = write_tiny_llm(folder / "llm", [query.text for query in world()[1]])
    extra = ["--llm", str(llm_folder), "--reranker", str(reranker), "--strategies", "standard", "late_interaction"]
    assert multihop(files, folder / "out.json", *extra) == 0
    return dict(json.loads((folder / "out.json").read_text()))


def test_every_combination_is_scored_and_compared(results: Mapping[str, Any]) -> None:
    filtered = ("rules", "llm", "given")
    names = [
        "+".join([strategy, *some, *again])
        for strategy in ("standard", "late_interaction")
        for again in ([], ["rerank"])
        for some in ([], *([name] for name in filtered))
    ]
    assert list(results["systems"]) == names
    assert results["documents"] == len(world()[0]) and results["chunks"] == len(chunks())
    assert results["with_evidence"] == {"evidence": 22, "textbook": 22}
    assert "standard+rules+rerank - standard+rerank" in results["comparisons"]
    assert len(results["comparisons"]) == len(names) * 3 // 4
    for name in names:
        assert set(results["systems"][name]) == {"evidence", "textbook", "answers"}
        assert set(results["systems"][name]["answers"]) == {"overall", "inference", "comparison", "temporal", "null"}
        assert set(results["answers"][name]) == {query.id for query in world()[1]}
    for pair, by_rule in results["comparisons"].items():
        one, other = pair.split(" - ")
        for rule in ("evidence", "textbook"):
            for metric in RANKING_METRICS:
                difference = by_rule[rule][metric]
                value = (
                    results["systems"][one][rule][metric]["value"] - results["systems"][other][rule][metric]["value"]
                )
                assert difference["difference"] == pytest.approx(value, abs=2e-4)
                assert difference["low"] <= difference["difference"] <= difference["high"]


def test_scores_are_those_of_the_chunks_it_says_were_retrieved(results: Mapping[str, Any]) -> None:
    documents, queries = world()
    number = {document.id: i for i, document in enumerate(documents)}
    texts = {chunk.id: chunk.text for chunk in chunks()}
    for name in results["systems"]:
        rows = [results["retrieved"][name][query.id] for query in queries]
        ranked = np.full((len(queries), 10), -1)
        for row, found in zip(ranked, rows, strict=True):
            row[: len(found)] = [number[chunk.split("#")[0]] for chunk in found]
        passages = [[texts[chunk] for chunk in row] for row in rows]
        expected = {
            "evidence": evidence_scores(passages, [query.metadata["facts"] for query in queries]),
            "textbook": textbook_scores(ranked, [[number[i] for i in query.relevant] for query in queries]),
        }
        for rule, scores in expected.items():
            for metric, value in scores.report().items():
                assert results["systems"][name][rule][metric]["value"] == pytest.approx(value, abs=1e-4)


def test_the_filters_in_the_results_are_the_rules_own_and_nothing_else_is_retrieved(results: Mapping[str, Any]) -> None:
    documents, queries = world()
    by_id = {document.id: document for document in documents}
    extractions = RuleExtractor(FieldVocabulary.from_documents(documents)).extract([query.text for query in queries])
    aside = 0
    for query, extraction in zip(queries, extractions, strict=True):
        passing = {d.id for d in documents if matches(extraction.filter, document_metadata(d))}
        found = {chunk.split("#")[0] for chunk in results["retrieved"]["standard+rules"][query.id]}
        aside += not passing
        assert found <= (passing or set(by_id))
    assert results["filters"]["rules"]["nothing_left"] == aside
    assert results["filters"]["rules"]["exact_match"] > 80
    assert set(results["filters"]["llm"]["extractions"]) == {query.id for query in queries}


@pytest.mark.parametrize("strategy", ["standard", "words", "late_interaction", "hybrid"])
def test_a_heading_is_embedded_searched_for_words_and_reranked(strategy: str, reranker: Path) -> None:
    documents = [Document(f"d{i}", "It rained all day.", metadata={"source": name}) for i, name in enumerate(SOURCES)]
    model = CrossEncoder.load(str(reranker))
    headed = PassageRetriever.build(documents, encoder(), strategy=strategy, heading=("source",), reranker=model)
    plain = PassageRetriever.build(documents, encoder(), strategy=strategy)
    asked = [f"source: {name}" for name in SOURCES]
    scores = headed.search(headed.encode(asked), headed.scope(asked)[1]).ranking
    assert [int(row[0]) for row in scores.indices] == list(range(len(SOURCES)))
    if strategy == "standard":
        assert len(np.unique(plain.search(plain.encode(asked), plain.scope(asked)[1]).ranking.scores[0])) == 1
    reranked = headed.rerank(asked, scores)
    pairs = [(asked[0], f"source: {SOURCES[i]}\nIt rained all day.") for i in scores.indices[0]]
    np.testing.assert_allclose(reranked.scores[0], np.sort(model.scores(pairs))[::-1], atol=1e-5)
    assert all("source:" not in chunk.text for chunk in headed.library.chunks)


@pytest.mark.parametrize("strategy", ["standard", "late_interaction"])
def test_questions_and_chunks_have_the_prefixes_that_the_encoder_states(strategy: str) -> None:
    documents, stating = world()[0][:3], copy(encoder())
    stating.prefixes = Prefixes(query="find: ", document="passage: ")
    by_itself = PassageRetriever.build(documents, stating, strategy=strategy)
    written = PassageRetriever.build(
        documents, encoder(), strategy=strategy, prefix="find: ", document_prefix="passage: "
    )
    plain = PassageRetriever.build(documents, encoder(), strategy=strategy)
    texts = [query.text for query in world()[1][:3]]
    found = [one.search(one.encode(texts), one.scope(texts)[1]).ranking.scores for one in (by_itself, written, plain)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_a_row_is_what_a_user_of_the_system_gets(folder: Path, results: Mapping[str, Any], reranker: Path) -> None:
    documents, queries = world()
    store = EmbeddingStore(encoder(), folder / "embeddings")
    retriever = PassageRetriever.build(
        documents, store, extractor=rules(documents), reranker=CrossEncoder.load(str(reranker))
    )
    reader = PassageReader(TransformersLLM.load(folder / "llm"))
    answers = MultiMetaRAG(retriever, reader).answer([query.text for query in queries])
    for query, answer in zip(queries, answers, strict=True):
        assert results["retrieved"]["standard+rules+rerank"][query.id] == [c.id for c in answer.retrieved[:10]]
        assert results["answers"]["standard+rules+rerank"][query.id] == answer.hypothesis


def test_filters_help_on_the_bundled_news(results: Mapping[str, Any]) -> None:
    """A small world with real vectors; the whole one is measured in docs/multihop.md."""
    for strategy in ("standard", "late_interaction"):
        gained = results["comparisons"][f"{strategy}+rules - {strategy}"]["evidence"]
        assert gained["hits@4"]["difference"] > 0 and gained["map@10"]["low"] > 0


def test_vectors_are_found_again_and_results_stay_the_same(
    folder: Path, results: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--documents", str(folder / "d.jsonl"), "--queries", str(folder / "q.jsonl")]
    made = {path: path.stat().st_mtime_ns for path in (folder / "embeddings").iterdir()}
    assert multihop(files, folder / "again.json", "--strategies", "standard") == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "embeddings").iterdir()} == made
    again = json.loads((folder / "again.json").read_text())
    assert list(again["systems"]) == ["standard", "standard+rules", "standard+given"]
    for name, row in again["systems"].items():
        assert row["evidence"] == results["systems"][name]["evidence"] and "answers" not in row
    table = capsys.readouterr().out
    assert "| standard+rules |" in table and "22 questions" in table and "ms a question" in table


def test_the_benchmarks_two_files(folder: Path, tmp_path: Path) -> None:
    documents, queries = world()
    article = {document.id: document for document in documents}
    corpus = [
        {"title": d.title, "source": d.metadata["source"], "published_at": d.metadata["published_at"],
         "category": d.category, "url": f"https://example.org/{d.id}", "body": d.text}
        for d in documents
    ]  # fmt: skip
    questions = [
        {"query": q.text, "answer": q.metadata["answer"], "question_type": f"{q.metadata['question_type']}_query",
         "evidence_list": [
             {"fact": fact, "title": article[name].title, "url": f"https://example.org/{name}"}
             for fact in q.metadata["facts"] for name in q.relevant if fact in article[name].text
         ]}
        for q in queries
    ]  # fmt: skip
    (tmp_path / "corpus.json").write_text(json.dumps(corpus))
    (tmp_path / "MultiHopRAG.json").write_text(json.dumps(questions))
    files = ["--documents", str(tmp_path / "corpus.json"), "--queries", str(tmp_path / "MultiHopRAG.json")]
    output = tmp_path / "out.json"
    kept = ["--embeddings", str(folder / "embeddings"), "--strategies", "standard"]
    assert multihop(files, output, *kept) == 0
    found = json.loads(output.read_text())
    assert list(found["systems"]) == ["standard", "standard+rules"]  # It comes without filters
    ours = folder / "same.json"
    assert multihop(save(tmp_path, documents, queries), ours, *kept) == 0
    expected = json.loads(ours.read_text())["systems"]
    for name, row in found["systems"].items():
        assert row == expected[name]


@pytest.mark.slow
def test_fusion_searches_with_queries_that_the_language_model_writes(
    folder: Path, results: Mapping[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert results["fusion"] is None
    files = [f"documents: {folder / 'd.jsonl'}", f"queries: {folder / 'q.jsonl'}", f"llm: {folder / 'llm'}"]
    (tmp_path / "m.yaml").write_text("\n".join([*files, "strategies: [standard]", "fusion_queries: 2", ""]))
    kept = ["--embeddings", str(folder / "embeddings"), "--config", str(tmp_path / "m.yaml")]
    output = tmp_path / "out.json"
    assert multihop([], output, *kept, "--strategies", "fusion", "fusion_mrag", "standard") == 0
    found = json.loads(output.read_text())
    names = ["".join(pair) for pair in product(("fusion", "fusion_mrag", "standard"), ("", "+rules", "+llm", "+given"))]
    assert list(found["systems"]) == names and all("answers" in row for row in found["systems"].values())
    asked = [query.text for query in world()[1]]
    llm = TransformersLLM.load(folder / "llm")
    made = generate_queries(llm, asked, 2)
    written = [list(some.generated) for some in made]
    assert list(found["fusion"]["queries"].values()) == written and any(written)
    assert found["fusion"]["generated"] and found["fusion"]["short"] == sum(len(some) < 2 for some in written)
    assert found["fusion"]["llm_tokens"] == pytest.approx(llm.usage.generated_tokens / len(asked))
    retriever = MultiAspectRetriever(encoder().encode([chunk.text for chunk in chunks()]))
    for strategy in ("fusion", "fusion_mrag"):
        ranking = retriever.search(encoder(), asked, strategy=strategy, fetch=20, questions=written).indices[:, :10]
        ranked = [[chunks()[i].id for i in row] for row in ranking]
        same = [a == b for a, b in zip(found["retrieved"][strategy].values(), ranked, strict=True)]
        assert np.mean(same) > 0.9  # Vectors of another batch may differ in the last digit
    fused = [pair for pair in found["comparisons"] if " - standard" in pair and pair.startswith("fusion")]
    assert fused == [f"fusion{name} - standard{name}" for name in ("", "+rules", "+llm", "+given")]
    row, other = (found["systems"][name]["evidence"]["hits@4"]["value"] for name in ("fusion+rules", "standard+rules"))
    gain = found["comparisons"]["fusion+rules - standard+rules"]["evidence"]["hits@4"]["difference"]
    assert gain == pytest.approx(row - other, abs=2e-4)
    table = capsys.readouterr().out
    assert "queries of fusion: written by the language model" in table
    assert "Hits@4 gained by the queries of fusion+given: " in table and "queries of fusion_mrag:" not in table


def test_fusion_takes_the_questions_own_questions_where_all_have_some(folder: Path, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "q.jsonl", [flat(query) | {"questions": ["a bridge"]} for query in world()[1]])
    files = ["--documents", str(folder / "d.jsonl"), "--queries", str(tmp_path / "q.jsonl")]
    kept = ["--embeddings", str(folder / "embeddings"), "--strategies", "fusion"]
    assert multihop(files, tmp_path / "out.json", *kept) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert list(found["systems"]) == ["fusion", "fusion+rules", "fusion+given"] and found["llm"] is None
    assert not found["fusion"]["generated"] and found["fusion"]["llm_tokens"] == 0


def test_bad_input_ends_in_one_line_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = Document("a", "A text.", metadata={"source": "Kestrel Wire"})
    output = tmp_path / "out.json"
    for change, says in (
        ({"relevant": ["b"]}, "query 'q': relevant id \"b\" is not a document"),
        ({"relevant": ["a"], "facts": "A text."}, "query 'q': \"facts\" is not a list of sentences"),
        ({"relevant": ["a"], "question_type": "bridge"}, "query 'q': question_type 'bridge' is unknown"),
        ({"relevant": ["a"], "answer": 3}, "query 'q': \"answer\" is not a string"),
        ({"relevant": ["a"], "filter": {"sauce": "x"}}, "query 'q': filter: unknown field 'sauce'"),
        ({}, 'no query has evidence; give "relevant"'),
        ({"relevant": ["a"], "facts": ["A"], "question_type": "null"}, 'no query has evidence; give "relevant"'),
    ):
        write_jsonl(tmp_path / "d.jsonl", [asdict(document)])
        write_jsonl(tmp_path / "q.jsonl", [{"id": "q", "text": "What?", **change}])
        files = ["--documents", str(tmp_path / "d.jsonl"), "--queries", str(tmp_path / "q.jsonl")]
        assert multihop(files, output) == 2
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert line.startswith("error: ") and says in line, line
    write_jsonl(tmp_path / "q.jsonl", [{"id": "q", "text": "What?", "relevant": ["a"]}])
    for extra, says in (
        (["--strategies", "fusion"], "strategy fusion needs generated questions; name a language model"),
        (["--fetsh", "3"], "unknown option --fetsh; did you mean --fetch?"),
        (["--strategies", "standrad"], "did you mean standard?"),
        (["--strategies", "[]"], "--strategies is empty"),
        (["--fetch", "0"], "fetch is 0; it must be 1 or more"),
        (["--passages", "0"], "passages is 0; it must be 1 or more"),
        (["--chunk-overlap", "256"], "chunks that overlap by 256 of 256 tokens"),
    ):
        assert multihop(files, output, *extra) == 2
        assert says in capsys.readouterr().err
    assert multihop(files, tmp_path) == 2
    assert "is a folder; give a file to write" in capsys.readouterr().err
    assert multihop(files[:2], output) == 2
    assert "--documents and --queries go together" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.jsonl", "q.jsonl"]


def test_libraries_that_are_kept_have_no_more_chunks_than_all() -> None:
    """Many rights over a large corpus would otherwise be as many copies of it."""
    everything = library()
    rows = np.arange(len(everything.chunks))
    half, other, most = rows % 2 == 0, rows % 2 == 1, rows > 0
    first = everything.restricted(half)
    everything.restricted(other)
    assert everything.restricted(half) is first
    everything.restricted(most)
    assert everything.restricted(half) is not first
