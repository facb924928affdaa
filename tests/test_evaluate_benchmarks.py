"""evaluate.py retrieval on the folder of a benchmark: measures from graded judgements, and files for trec_eval."""

from __future__ import annotations

import json
from pathlib import Path

import ir_measures
import numpy as np
import pytest

import evaluate
from mrag_rl.data.benchmarks import load_benchmark
from mrag_rl.data.multi_aspect import save_documents, save_queries
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_articles
from mrag_rl.data.trec import read_qrels, read_run
from mrag_rl.metrics.judgements import MEASURES
from tests.test_benchmarks import jsonl
from tests.test_evaluate_retrieval import error


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first words of 120 bundled articles, and 8 queries, in BEIR's layout; the first relevant article has grade 2,
    an article with a grade of 0 is judged, one query is not, and one article has no text.
    """
    folder = tmp_path_factory.mktemp("beir")
    documents, queries = make_articles(seed=0)
    few = [query for query in queries if 2 <= len(query.relevant) <= 4][:8]
    wanted = {identifier for query in few for identifier in query.relevant}
    others = [document for document in documents if document.id not in wanted]
    corpus = [document for document in documents if document.id in wanted] + others[: 120 - len(wanted)]
    rows = [{"_id": document.id, "title": document.title, "text": document.text[:300]} for document in corpus]
    jsonl(folder / "corpus.jsonl", [*rows, {"_id": "blank", "title": "", "text": ""}])
    jsonl(folder / "queries.jsonl", [{"_id": query.id, "text": query.text} for query in [*few, Query("new", "What?")]])
    lines = [
        f"{query.id}\t{identifier}\t{2 if place == 0 else 1}\n"
        for query in few
        for place, identifier in enumerate(query.relevant)
    ]
    lines += [f"{query.id}\t{others[0].id}\t0\n" for query in few]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return folder


def run(folder: Path, output: Path, *arguments: str) -> int:
    vectors = ("--embeddings", str(folder / "vectors"))
    command = ["retrieval", "--documents", str(folder), "--output", str(output), "--max-length", "64"]
    return evaluate.main([*command, *vectors, *arguments])


def test_a_folder_is_scored_and_trec_eval_finds_the_same_scores_in_the_files(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strategies = ("standard", "mrag_decay", "words", "hybrid")
    output, trec = tmp_path / "out.json", tmp_path / "new" / "trec"
    assert run(beir, output, "--split", "test", "--trec", str(trec), "--strategies", *strategies) == 0
    table = capsys.readouterr().out
    results = json.loads(output.read_text())
    assert "120 documents, 8 queries; dropped: 1 documents without text, 1 queries without a relevant" in table
    assert results["dropped"] == {"documents": 1, "queries": 1}
    assert "| strategy | nDCG@10 | AP | RR | R@100 |" in table and "success ratio" not in table
    assert "| **hybrid** |" in table and "**hybrid** is the recommended strategy." in table
    assert results["strategies"] == results["per_query"] == {}

    judgements = load_benchmark(beir).judgements
    assert read_qrels(trec / "qrels.txt") == judgements
    assert {path.name for path in trec.iterdir()} == {"qrels.txt", *(f"{name}.run" for name in strategies)}
    for name in strategies:
        ranked = read_run(trec / f"{name}.run")
        assert all(len(pairs) == 100 or name == "words" for pairs in ranked.values())
        read = list(ir_measures.read_trec_run(str(trec / f"{name}.run")))
        means = ir_measures.calc_aggregate([measure for measure, _ in MEASURES.values()], judgements, read)
        cells = []
        for label, (measure, _) in MEASURES.items():
            assert results["measures"][name][label] == pytest.approx(means[measure], abs=1e-9)
            values = results["measures_per_query"][name][label]
            assert list(values) == list(judgements) and np.mean(list(values.values())) == pytest.approx(means[measure])
            cells.append(f"{means[measure]:.3f}")
        assert f" | {' | '.join(cells)} |" in table
    assert 0 < results["measures"]["standard"]["nDCG@10"] < 1


def test_titles_are_encoded_and_a_measure_that_needs_more_documents_is_left_out(beir: Path, tmp_path: Path) -> None:
    assert run(beir, tmp_path / "out.json", "--fetch", "10", "--strategies", "standard") == 0
    results = json.loads((tmp_path / "out.json").read_text())
    assert list(results["measures"]["standard"]) == ["nDCG@10", "AP", "RR"]
    folder = tmp_path / "titles"
    # The texts are equal, so that only the titles can tell the documents apart
    corpus = [{"_id": name, "title": name, "text": "An article."} for name in ("Volcanoes", "Sea_otters", "Tax_law")]
    jsonl(folder / "corpus.jsonl", corpus)
    jsonl(folder / "queries.jsonl", [{"_id": "q", "text": "a furry animal that swims and dives"}])
    jsonl(folder / "qrels.jsonl", [{"query-id": "q", "corpus-id": "Sea_otters", "score": 1}])
    assert run(folder, tmp_path / "titles.json", "--strategies", "standard") == 0
    assert json.loads((tmp_path / "titles.json").read_text())["measures"]["standard"]["RR"] == 1


def test_documents_that_a_query_excludes_are_not_found_for_it_but_for_others(tmp_path: Path) -> None:
    """BRIGHT: what is excluded is the very text of the query, which every strategy would rank first."""
    question = "Why do insects fly towards lamps at night?"
    contents = {"same": question, "moths": "Moths keep their backs to the light.", "tides": "The moon pulls the sea."}
    jsonl(tmp_path / "documents" / "biology.jsonl", [{"id": name, "content": text} for name, text in contents.items()])
    example = {"query": question, "gold_ids": ["moths"]}
    jsonl(
        tmp_path / "examples" / "biology.jsonl",
        [{**example, "id": "0", "excluded_ids": ["same"]}, {**example, "id": "1", "excluded_ids": ["N/A"]}],
    )
    trec, output = tmp_path / "trec", tmp_path / "out.json"
    assert run(tmp_path, output, "--split", "biology", "--trec", str(trec)) == 0
    results = json.loads(output.read_text())
    assert {"standard", "mrag", "split", "segment_mrag", "late_interaction", "words", "hybrid"} <= set(
        results["measures"]
    )
    for name in results["measures"]:
        ranked = {query: [document for document, _ in pairs] for query, pairs in read_run(trec / f"{name}.run").items()}
        assert ranked["1"][0] == "same" and "same" not in ranked.get("0", [])
        assert results["measures_per_query"][name]["RR"]["0"] >= results["measures_per_query"][name]["RR"]["1"]
    assert results["measures_per_query"]["standard"]["RR"] == {"0": 1.0, "1": 0.5}


def test_files_of_ones_own_are_measured_too_unless_their_queries_have_aspects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [Document("a", "Otters swim.", category="x"), Document("b", "The moon pulls the sea.", category="y")]
    save_documents(tmp_path / "documents.jsonl", documents)
    files = ["--documents", str(tmp_path / "documents.jsonl"), "--queries", str(tmp_path / "queries.jsonl")]
    arguments = [*files, "--strategies", "standard", "--embeddings", str(tmp_path / "vectors")]
    output, trec = tmp_path / "out.json", tmp_path / "trec"

    save_queries(tmp_path / "queries.jsonl", [Query("q", "What causes tides?", relevant=("b",))])
    assert evaluate.main(["retrieval", *arguments, "--output", str(output), "--trec", str(trec)]) == 0
    results = json.loads(output.read_text())
    assert "Weighted success ratio" in (table := capsys.readouterr().out) and "nDCG" not in table
    assert results["measures"] == {"standard": {"nDCG@10": 1, "AP": 1, "RR": 1, "R@100": 1}}
    assert results["strategies"]["standard"]["1"]["1"] == [1, 1]
    assert [document for document, _ in read_run(trec / "standard.run")["q"]] == ["b", "a"]

    save_queries(tmp_path / "queries.jsonl", [Query("q", "What causes tides?", aspects=(("a", "b"),))])
    assert evaluate.main(["retrieval", *arguments, "--output", str(output)]) == 0
    assert json.loads(output.read_text())["measures"] == {}
    assert evaluate.main(["retrieval", *arguments, "--output", str(output), "--trec", str(trec)]) == 2
    assert 'TREC\'s judgements have no "aspects"' in error(capsys)


def test_bad_input_ends_in_one_line_and_writes_nothing(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.json"
    assert run(beir, output, "--split", "dev") == 2
    assert "dev.tsv: no such split; choose from test" in error(capsys)
    assert run(beir, output, "--queries", "queries.jsonl") == 2
    assert "is a folder, which has queries of its own; leave out --queries" in error(capsys)
    assert run(beir, output, "--plots", str(tmp_path / "plots")) == 2
    assert "--plots draws success ratios" in error(capsys)
    assert run(beir, output, "--trec", str(beir / "corpus.jsonl")) == 2
    assert "corpus.jsonl is a file; give a folder to write" in error(capsys)
    assert run(beir, output, "--strategies", "fusion") == 2
    assert f'{beir}: strategy fusion needs "questions"' in error(capsys)
    assert evaluate.main(["retrieval", "--output", str(output), "--split", "test"]) == 2
    assert "--split chooses from the splits of a folder; leave it out" in error(capsys)
    jsonl(tmp_path / "b" / "corpus.jsonl", [{"_id": "a b", "title": "", "text": "Otters swim."}])
    jsonl(tmp_path / "b" / "queries.jsonl", [{"_id": "q", "text": "Who swims?"}])
    jsonl(tmp_path / "b" / "qrels.jsonl", [{"query-id": "q", "corpus-id": "a b", "score": 1}])
    assert run(tmp_path / "b", output, "--trec", str(tmp_path / "trec")) == 2
    assert "TREC files cannot hold the id 'a b'; give it a name without white space" in error(capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]
