"""evaluate.py retrieval, from files to results, tables and pictures."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import evaluate
from mrag_rl.data.multi_aspect import load_documents, load_queries, save_documents, save_queries
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_articles
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.experiments import retrieval
from mrag_rl.experiments.settings import RetrievalSettings
from mrag_rl.generation.stories import reader_prompt
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.metrics.facts import count_facts
from mrag_rl.metrics.multi_aspect import success_ratios, weighted_success
from mrag_rl.retrieval import MultiAspectRetriever
from mrag_rl.retrieval.strategies import RECOMMENDED, STRATEGIES
from tests.tiny import encoder, write_tiny_llm


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 bundled articles and the queries with one or two aspects that are about them."""
    folder = tmp_path_factory.mktemp("data")
    documents, queries = make_articles(seed=0)
    few = [query for query in queries if len(query.relevant) <= 2][:12]
    wanted = {identifier for query in few for identifier in query.relevant}
    kept = [document for document in documents if document.id in wanted]
    kept += [document for document in documents if document.id not in wanted][: 60 - len(kept)]
    save_documents(folder / "documents.jsonl", kept)
    save_queries(folder / "queries.jsonl", few)
    return folder


@pytest.fixture
def encoded_once(data: Path, tmp_path: Path) -> None:
    """What a test encodes is there already if another test has encoded it."""
    (data / "embeddings").mkdir(exist_ok=True)
    (tmp_path / "embeddings").symlink_to(data / "embeddings")


def run(data: Path, output: Path, *arguments: str) -> int:
    files = ["--documents", str(data / "documents.jsonl"), "--queries", str(data / "queries.jsonl")]
    return evaluate.main(["retrieval", *files, "--output", str(output), "--max-length", "64", *arguments])


def error(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: "), lines
    return lines[-1]


@pytest.mark.usefixtures("encoded_once")
def test_every_strategy_table_pictures_and_vectors_used_again(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tmp_path / "first.json"
    assert run(data, first, "--fetch", "6", "--plots", str(tmp_path / "plots")) == 0
    table = capsys.readouterr().out
    assert all(f"| {name} |" in table for name in STRATEGIES if name != RECOMMENDED)
    assert f"| **{RECOMMENDED}** |" in table and f"**{RECOMMENDED}** is the recommended strategy." in table
    results = json.loads(first.read_text())
    costly = {name for name, cost in results["llm_tokens"].items() if cost["prompt"] > 0 and cost["completion"] > 0}
    assert costly == {"fusion", "fusion_mrag"} and list(results["llm_tokens"]) == list(STRATEGIES)
    assert "fusion_mrag: a language model reads " in table and "\nmrag: a language model" not in table
    assert list(results["strategies"]) == list(STRATEGIES)
    for name, by_aspects in results["strategies"].items():
        for aspects, by_fetched in by_aspects.items():
            assert list(by_fetched) == [str(k) for k in range(1, 7)]
            each = results["per_query"][name][aspects]["6"]
            np.testing.assert_allclose(np.mean(list(each.values()), axis=0), by_fetched["6"])
    for picture in ("strategies", "improvement_by_aspects", "success_by_fetched"):
        assert all((tmp_path / "plots" / f"{picture}.{kind}").is_file() for kind in ("png", "svg", "csv"))
    assert list((tmp_path / "plots").glob("documents_by_head_*.csv"))
    assert list((tmp_path / "plots").glob("head_attention_*.png"))

    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "embeddings").iterdir()}
    second = tmp_path / "second.json"
    assert run(data, second, "--fetch", "6", "--strategies", "standard", "late_interaction", "hybrid") == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "embeddings").iterdir()} == made
    again = json.loads(second.read_text())
    for name in ("standard", "late_interaction"):
        assert again["strategies"][name] == results["strategies"][name]


@pytest.mark.usefixtures("encoded_once")
def test_a_language_model_answers_from_what_was_fetched_and_its_facts_are_counted(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = load_documents(data / "documents.jsonl")
    queries = {query.id: query for query in load_queries(data / "queries.jsonl", documents)}
    write_tiny_llm(tmp_path / "llm", [document.text for document in documents], words=400)
    output, strategies = tmp_path / "out.json", ("standard", "late_interaction")
    command = ("--fetch", "2", "--llm", str(tmp_path / "llm"), "--strategies", *strategies)
    assert run(data, output, *command) == 0
    table = capsys.readouterr().out
    results = json.loads(output.read_text())
    llm = TransformersLLM.load(tmp_path / "llm")
    assert results["llm"] == llm.fingerprint

    retriever = MultiAspectRetriever.build(TransformerEncoder.load(max_length=64), [d.text for d in documents])
    asked = list(queries.values())
    found = retriever.search(
        TransformerEncoder.load(max_length=64), [q.text for q in asked], strategy="standard", fetch=2
    )
    prompts = [
        reader_prompt(query.text, [documents[i] for i in row])
        for query, row in zip(asked, found.indices.tolist(), strict=True)
    ]
    written = [text.strip() for (text,) in llm.generate(prompts, max_new_tokens=256)]
    assert results["answers"]["standard"] == {query.id: text for query, text in zip(asked, written, strict=True)}
    assert any(written) and results["answers"]["standard"] != results["answers"]["late_interaction"]

    by_id = {document.id: document for document in documents}
    for name in strategies:
        answers = results["answers"][name]
        counts = count_facts(
            list(answers.values()), [[by_id[i] for i in queries[identifier].relevant] for identifier in answers]
        )
        for n, means in results["facts"][name].items():
            some = [count for count in counts if count.relevant == int(n)]
            for what, mean in means.items():
                np.testing.assert_allclose(mean, np.mean([getattr(count, what) for count in some]))
        assert results["seconds"][f"{name}, answers"] > 0
    stated = np.mean([means["stated"] for means in results["facts"]["standard"].values()])
    assert f"| standard | {stated:.2f} |" in table

    before = (tmp_path / "embeddings" / "answers.sqlite").read_bytes()
    assert run(data, tmp_path / "again.json", *command) == 0
    again = json.loads((tmp_path / "again.json").read_text())
    assert (again["answers"], again["facts"]) == (results["answers"], results["facts"])
    assert (tmp_path / "embeddings" / "answers.sqlite").read_bytes() == before


@pytest.mark.usefixtures("encoded_once")
def test_what_the_index_has_no_part_in_is_said_and_its_building_is_timed_apart(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strategies = ("--strategies", "mrag", "late_interaction", "--fetch", "3")
    note = "late_interaction: compared with all documents; --index hnsw has no part in it."
    found = {}
    for index in ("exact", "hnsw"):
        assert run(data, tmp_path / f"{index}.json", "--index", index, *strategies) == 0
        assert (note in capsys.readouterr().out) is (index == "hnsw")
        found[index] = json.loads((tmp_path / f"{index}.json").read_text())
        assert list(found[index]["seconds"]) == ["encode", "index", "mrag", "late_interaction"]
        assert found[index]["seconds"]["index"] > 0
    late = [results["per_query"]["late_interaction"] for results in found.values()]
    assert late[0] == late[1]
    assert found["exact"]["llm"] is None and found["exact"]["facts"] == found["exact"]["answers"] == {}


def test_an_encoder_in_four_bits(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    assert run(data, tmp_path / "out.json", "--strategies", "standard", "--fetch", "3", "--quantization", "nf4") == 0
    results = json.loads((tmp_path / "out.json").read_text())
    whole = TransformerEncoder.load(max_length=64)
    assert results["encoder"]["fingerprint"] != whole.fingerprint
    assert results["encoder"]["parameters"] == whole.model.num_parameters()
    assert results["strategies"]["standard"]["1"]["3"][0] > 0.5


@pytest.mark.usefixtures("encoded_once")
def test_fetching_more_than_there_is(data: Path, tmp_path: Path) -> None:
    assert run(data, tmp_path / "out.json", "--fetch", "100", "--strategies", "mrag", "standard", "split") == 0
    results = json.loads((tmp_path / "out.json").read_text())
    assert all(by_aspects["1"]["60"][0] <= 1 for by_aspects in results["strategies"].values())
    assert results["strategies"]["standard"]["1"]["60"] == [1, 1]  # all documents are fetched
    assert "61" not in results["strategies"]["standard"]["1"]


def test_layers_whose_heads_do_not_divide_the_standard_embedding_leave_out_the_split_strategies(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.json"
    layers = ("--layer", "1", "3", "5", "--fetch", "3")
    assert run(data, output, *layers, "--strategies", "mrag", "split_weighted") == 2
    assert "strategy split_weighted: 384 dimensions cannot be cut into equal pieces for 36 heads" in error(capsys)
    assert not list(tmp_path.iterdir())
    assert run(data, output, *layers) == 0
    assert set(STRATEGIES) - set(json.loads(output.read_text())["strategies"]) == {"split", "split_weighted"}


def test_results_go_to_a_new_folder_whatever_the_ids_of_the_queries(tmp_path: Path) -> None:
    save_documents(tmp_path / "documents.jsonl", [Document("a", "A text.", category="x")])
    save_queries(tmp_path / "queries.jsonl", [Query("wiki/../1 ?", "What?", relevant=("a",))])
    output, plots = tmp_path / "new" / "deep" / "out.json", tmp_path / "plots"
    arguments = ("--embeddings", str(tmp_path / "vectors"), "--plots", str(plots), "--strategies", "standard", "mrag")
    assert run(tmp_path, output, *arguments, "--prefix", "query: ") == 0
    results = json.loads(output.read_text())
    assert list(results["per_query"]["mrag"]["1"]["1"]) == ["wiki/../1 ?"]
    assert (results["prefix"], results["reranker"]) == ("query: ", None)
    assert (plots / "documents_by_head_wiki_.._1__.png").is_file()
    assert (plots / "head_attention_wiki_.._1__.csv").is_file()


def test_texts_are_kept_in_blocks_of_which_only_the_changed_are_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag_rl.encoders.store.BLOCK", 2)
    texts = ["One.", "Two.", "Three.", "Four.", "Five."]
    store = EmbeddingStore(encoder(), tmp_path)
    vectors = store.encode(texts)
    np.testing.assert_allclose(vectors.heads, encoder().encode(texts).heads, atol=1e-5)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(made) == 3
    np.testing.assert_array_equal(store.encode([*texts, "Six."])[:4].heads, vectors[:4].heads)
    assert {path: path.stat().st_mtime_ns for path in made} == made and len(list(tmp_path.iterdir())) == 4
    assert len(store.encode([])) == 0


def test_a_store_has_the_encoders_default_prefix_and_tells_prefixes_apart(tmp_path: Path) -> None:
    stating = copy(encoder())
    stating.prefixes = Prefixes(default="other: ")
    store, texts = EmbeddingStore(stating, tmp_path), ["One.", "Two."]
    for _ in range(2):  # made, then read
        for prefix in (None, "", "find: "):
            found, expected = store.encode(texts, prefix=prefix), stating.encode(texts, prefix=prefix)
            np.testing.assert_allclose(found.standard, expected.standard, atol=1e-5)
            assert found.encoder == encoder().fingerprint
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.usefixtures("encoded_once")
def test_prompts_that_the_encoder_states_are_used_recorded_and_replaced(data: Path, tmp_path: Path) -> None:
    stating = copy(encoder())
    stating.prefixes = Prefixes(query="find: ", document="passage: ")
    settings = RetrievalSettings(
        output="", documents=str(data / "documents.jsonl"), queries=str(data / "queries.jsonl"), fetch=3,
        strategies=("standard", "late_interaction"), embeddings=str(tmp_path / "vectors"),
    )  # fmt: skip
    results = {}
    for case, model, prefixes in (
        ("stated", stating, (None, None)),
        ("written", encoder(), ("find: ", "passage: ")),
        ("off", stating, ("", "")),
        ("none", encoder(), (None, None)),
    ):
        output = tmp_path / f"{case}.json"
        retrieval.run(
            replace(settings, output=str(output), prefix=prefixes[0], document_prefix=prefixes[1]), encoder=model
        )
        results[case] = json.loads(output.read_text())
        del results[case]["seconds"]
    assert (results["stated"]["prefix"], results["stated"]["document_prefix"]) == ("find: ", "passage: ")
    assert results["stated"] == results["written"] and results["off"] == results["none"]
    assert len(list((tmp_path / "vectors").iterdir())) == 2 * 4  # documents, queries, and the sentences of both


def test_bad_input_ends_in_one_line_and_writes_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.json"
    assert run(data, output, "--strategies", "mragg") == 2
    assert "'mragg' is unknown; did you mean mrag?" in error(capsys)
    assert run(data, output, "--fetch", "0") == 2
    assert "fetch is 0" in error(capsys)
    assert run(data, tmp_path) == 2
    assert "is a folder; give a file to write" in error(capsys)
    assert run(data, output, "--device", "nowhere") == 2
    assert "device 'nowhere' cannot be used" in error(capsys)
    assert evaluate.main(["retrieval", "--documents", str(data / "documents.jsonl"), "--output", str(output)]) == 2
    assert "--documents and --queries go together" in error(capsys)

    documents, queries = (
        [Document("a", "A text.", category="x"), Document("b", "Another.", category="y")],
        "queries.jsonl",
    )
    save_documents(tmp_path / "documents.jsonl", documents)
    save_queries(tmp_path / queries, [Query("q", "What?", relevant=("c",))])
    assert run(tmp_path, output) == 2
    assert 'queries.jsonl:1: relevant id "c" is not a document' in error(capsys)
    save_queries(tmp_path / queries, [Query("q", "What?", relevant=("a",))])
    assert run(tmp_path, output, "--strategies", "fusion") == 2
    assert 'strategy fusion needs "questions", and query "q" has none' in error(capsys)
    save_documents(tmp_path / "documents.jsonl", [Document("a", "A text."), *documents[1:]])
    assert run(tmp_path, output) == 2
    assert 'documents.jsonl:1: no "category"' in error(capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["documents.jsonl", "queries.jsonl"]


def test_success_ratios_against_the_definition() -> None:
    rng = np.random.default_rng(0)
    categories = [str(kind) for kind in rng.integers(5, size=30)]
    rankings = np.stack([rng.permutation(30)[:8] for _ in range(40)])
    rankings[3, 5:] = -1
    relevant = [rng.choice(30, size=rng.integers(1, 6), replace=False).tolist() for _ in range(40)]
    ratios = success_ratios(rankings, [[[i] for i in wanted] for wanted in relevant], categories)
    for row, (found, wanted) in enumerate(zip(rankings.tolist(), relevant, strict=True)):
        for k in range(8):
            fetched = {i for i in found[: k + 1] if i >= 0}
            kinds, needed = {categories[i] for i in fetched}, {categories[i] for i in wanted}
            success, category = len(fetched & set(wanted)) / len(wanted), len(kinds & needed) / len(needed)
            np.testing.assert_allclose(ratios[row, k], (success, category))
            np.testing.assert_allclose(weighted_success(ratios[row, k], 3), (3 * success + category) / 4)


def test_any_document_of_an_aspect_answers_it() -> None:
    categories = ["a", "a", "b", "b", "c", "c"]
    aspects = [[[0, 1], [2, 3]], [[0], [1]], [[0, 2], [3]], [[4]]]
    rankings = np.array([[1, 0, 2], [1, 0, 2], [3, 5, 2], [0, -1, -1]])
    expected = [
        [(1 / 2, 1 / 2), (1 / 2, 1 / 2), (1, 1)],
        [(1 / 2, 1), (1, 1), (1, 1)],  # Both relevant documents have one category
        [(1 / 2, 1), (1 / 2, 1), (1, 1)],  # A document of either category is of the first aspect's kind
        [(0, 0), (0, 0), (0, 0)],
    ]
    np.testing.assert_allclose(success_ratios(rankings, aspects, categories), np.array(expected, float))


def test_queries_whose_aspects_have_several_documents(data: Path, tmp_path: Path) -> None:
    """With one document each, aspects give the figures of relevant documents; with more, any one of them does."""
    documents = load_documents(data / "documents.jsonl")
    queries = load_queries(data / "queries.jsonl", documents)
    results = {}
    category = {d.id: d.category for d in documents}
    by_category = {kind: [d.id for d in documents if d.category == kind] for kind in category.values()}

    def aspects(query: Query, more: int) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(dict.fromkeys([i, *by_category[category[i]][:more]])) for i in query.relevant)

    for case, more in (("relevant", None), ("single", 0), ("several", 4)):
        folder = tmp_path / case
        folder.mkdir()
        save_documents(folder / "documents.jsonl", documents)
        changed = [q if more is None else replace(q, relevant=(), aspects=aspects(q, more)) for q in queries]
        save_queries(folder / "queries.jsonl", changed)
        assert load_queries(folder / "queries.jsonl", documents) == changed
        command = ("--fetch", "2", "--strategies", "standard", "--embeddings", str(tmp_path / "vectors"))
        assert run(folder, tmp_path / f"{case}.json", *command, "--plots", str(folder / "plots")) == 0
        results[case] = json.loads((tmp_path / f"{case}.json").read_text())["strategies"]["standard"]
        assert any(path.name.startswith("documents_by_head") for path in (folder / "plots").iterdir())
    assert results["single"] == results["relevant"]
    assert (
        all(results["several"][n]["2"][0] >= results["single"][n]["2"][0] for n in results["single"])
        and results["several"] != results["single"]
    )
