"""Benchmark folders as published: BEIR, MTEB, LIMIT, QUEST, BRIGHT."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrag_rl.data.benchmarks import load_benchmark
from mrag_rl.errors import InputError

CORPUS: list[dict] = [
    {"_id": "MED-10", "title": "Statins and breast cancer", "text": "Survival was better in users of statins.",
     "metadata": {"url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299"}},
    {"_id": "MED-14", "title": "", "text": "Vitamin D was low in winter."},
    {"_id": "MED-118", "title": "Alkylphenols in human milk", "text": ""},
    {"_id": "MED-301", "title": "", "text": " "},
]  # fmt: skip
QUERIES: list[dict] = [
    {"_id": "PLAIN-2", "text": "Do statins cause breast cancer?", "metadata": {"url": "http://nutritionfacts.org/"}},
    {"_id": "PLAIN-12", "text": "Is vitamin D lower in winter?"},
    {"_id": "PLAIN-23", "text": "What is in milk?"},
]
QRELS = "query-id\tcorpus-id\tscore\nPLAIN-2\tMED-10\t2\nPLAIN-2\tMED-14\t0\nPLAIN-2\tMED-301\t1\nPLAIN-12\tMED-14\t1\n"


def jsonl(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    jsonl(tmp_path / "corpus.jsonl", CORPUS)
    jsonl(tmp_path / "queries.jsonl", QUERIES)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(QRELS)
    return tmp_path


def test_beir(beir: Path) -> None:
    data = load_benchmark(beir)
    assert [(d.id, d.title, d.text) for d in data.documents] == [
        ("MED-10", "Statins and breast cancer", "Survival was better in users of statins."),
        ("MED-14", "", "Vitamin D was low in winter."),
        ("MED-118", "", "Alkylphenols in human milk"),
    ]
    assert data.documents[0].metadata == {"url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299"}
    assert [(q.id, q.relevant) for q in data.queries] == [("PLAIN-2", ("MED-10",)), ("PLAIN-12", ("MED-14",))]
    assert data.queries[0].text == "Do statins cause breast cancer?"
    assert data.judgements == {"PLAIN-2": {"MED-10": 2, "MED-14": 0, "MED-301": 1}, "PLAIN-12": {"MED-14": 1}}
    assert (data.empty_documents, data.unanswered_queries, data.excluded) == (("MED-301",), ("PLAIN-23",), {})


def test_a_document_with_the_id_of_a_query_is_left_out_for_it(beir: Path) -> None:
    """As in ArguAna, whose queries are documents; unless it is judged relevant."""
    jsonl(beir / "corpus.jsonl", [{"_id": name, "title": "", "text": f"Text {name}."} for name in ("a", "b", "c")])
    jsonl(beir / "queries.jsonl", [{"_id": name, "text": f"Text {name}."} for name in ("a", "b", "q")])
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\tc\t1\nb\tb\t1\nq\ta\t1\n")
    assert load_benchmark(beir).excluded == {"a": frozenset({"a"})}


def test_a_split_has_its_own_judgements_and_a_missing_one_lists_those_there_are(beir: Path) -> None:
    (beir / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nPLAIN-23\tMED-118\t1\n")
    assert [query.id for query in load_benchmark(beir, "dev").queries] == ["PLAIN-23"]
    with pytest.raises(InputError, match=r"train\.tsv: no such split; choose from dev, test$"):
        load_benchmark(beir, "train")


def test_beir_from_windows_reads_as_from_unix(beir: Path) -> None:
    unix = load_benchmark(beir)
    for path in (beir / "corpus.jsonl", beir / "queries.jsonl", beir / "qrels" / "test.tsv"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_benchmark(beir) == unix


def test_mteb_and_limit_have_judgements_in_json_lines(beir: Path) -> None:
    expected = load_benchmark(beir)
    rows = [line.split("\t") for line in QRELS.splitlines()[1:]]
    judged = [{"query-id": query, "corpus-id": doc, "score": float(grade)} for query, doc, grade in rows]
    (beir / "qrels" / "test.tsv").unlink()
    jsonl(beir / "qrels" / "test.jsonl", judged)
    assert load_benchmark(beir) == expected
    (beir / "qrels" / "test.jsonl").rename(beir / "qrels.jsonl")
    assert load_benchmark(beir) == expected
    with pytest.raises(InputError, match=r"dev\.tsv: no such split; choose from test$"):
        load_benchmark(beir, "dev")


def test_keys_that_resemble_others_are_metadata(beir: Path) -> None:
    """Published corpora have such columns, so they are not taken for misspelt keys."""
    jsonl(beir / "corpus.jsonl", [{**row, "og_title": "Statine", "metadata": ["a"]} for row in CORPUS])
    assert load_benchmark(beir).documents[0].metadata == {"og_title": "Statine", "metadata": ["a"]}


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("qrels/test.tsv", "query-id\tscore\nPLAIN-2\t1\n", r'test\.tsv:1: no column "corpus-id"; begin with'),
        ("qrels/test.tsv", QRELS.split("\n", 1)[1], r'test\.tsv:1: no column "query-id"'),
        ("qrels/test.tsv", QRELS + "PLAIN-12 MED-10 1\n", r"test\.tsv:6: 1 columns; give 3"),
        ("qrels/test.tsv", QRELS + "PLAIN-12\tMED-10\thigh\n", r'test\.tsv:6: grade "high" is not a whole number'),
        ("qrels/test.tsv", QRELS + "PLAIN-12\tMED-10\t0.5\n", r'test\.tsv:6: grade "0\.5" is not a whole number'),
        ("qrels/test.tsv", QRELS + "PLAIN-12\tMED-10\tnan\n", r'test\.tsv:6: grade "nan" is not a whole number'),
        ("qrels/test.tsv", QRELS + "PLAIN-3\tMED-10\t1\n", r':6: query "PLAIN-3" is not among the queries; correct'),
        ("qrels/test.tsv", QRELS + "PLAIN-12\tMED-9\t1\n", r':6: document "MED-9" is not in the corpus; correct'),
        ("qrels/test.tsv", QRELS + "PLAIN-2\tMED-10\t1\n", r':6: query "PLAIN-2" and document "MED-10" have grade 1'),
        ("qrels/test.tsv", "", "no query has a relevant document in this split; choose another split"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nPLAIN-2\tMED-14\t0\n", "no query has a relevant document"),
        ("corpus.jsonl", "", r"corpus\.jsonl: no document in the file"),
        ("corpus.jsonl", '{"_id": "a", "title": "t"}\n', r'corpus\.jsonl:1: no "text"'),
        ("corpus.jsonl", '{"id": "a", "text": "t"}\n', r'corpus\.jsonl:1: no "_id"'),
        ("corpus.jsonl", '{"_id": "a", "text": "t"}\n' * 2, r'corpus\.jsonl:2: duplicate id "a" \(first on line 1\)'),
        ("corpus.jsonl", '{"_id": "a", "text": 3}\n', r'corpus\.jsonl:1: "text" is a number'),
        ("queries.jsonl", '{"_id": "PLAIN-2", "text": ""}\n', r'queries\.jsonl:1: "text" is empty'),
        ("queries.jsonl", '{"_id": "a", "text": "t"}\n' * 2, r'queries\.jsonl:2: duplicate id "a"'),
        ("queries.jsonl", "[]\n", r"queries\.jsonl:1: a list, not an object"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_with_how_to_mend_it(beir: Path, file: str, text: str, says: str) -> None:
    (beir / file).write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        load_benchmark(beir)
    assert "\n" not in str(caught.value) and "; " in str(caught.value)


@pytest.mark.parametrize(
    ("score", "says"),
    [('"score": true', 'grade "true"'), ('"score": null', 'grade "None"'), ('"grade": 1', 'no "score"; give 0')],
)
def test_a_bad_score_in_json_lines_is_named(beir: Path, score: str, says: str) -> None:
    (beir / "qrels" / "test.tsv").unlink()
    (beir / "qrels.jsonl").write_text(f'{{"query-id": "PLAIN-2", "corpus-id": "MED-10", {score}}}\n')
    with pytest.raises(InputError, match=rf"qrels\.jsonl:1: {says}"):
        load_benchmark(beir)


def test_repeating_a_judgement_is_harmless(beir: Path) -> None:
    expected = load_benchmark(beir)
    (beir / "qrels" / "test.tsv").write_text(QRELS + "PLAIN-2\tMED-10\t2\n\n")
    assert load_benchmark(beir) == expected


@pytest.fixture
def quest(tmp_path: Path) -> Path:
    jsonl(tmp_path / "documents.jsonl", [
        {"title": "Caprotia", "text": "Caprotia is a genus of flies."},
        {"title": "The Secret of Moonacre", "text": "A 2008 fantasy film, shot in Hungary."},
        {"title": "Moonacre (film  score)", "text": ""},
    ])  # fmt: skip
    jsonl(tmp_path / "val.jsonl", [
        {"query": "fantasy films shot in Hungary", "docs": ["The Secret of Moonacre", "Moonacre (film  score)"],
         "original_query": "<mark>Fantasy films</mark> that are also <mark>Films shot in Hungary</mark>",
         "scores": None, "metadata": {"template": "_ that are also _", "domain": "films"}},
        {"query": "genera of birds", "docs": [], "original_query": "", "scores": None, "metadata": {}},
        {"query": "flies", "docs": ["Caprotia"], "original_query": None, "metadata": {"domain": "animals"}},
    ])  # fmt: skip
    return tmp_path


def test_quest(quest: Path) -> None:
    data = load_benchmark(quest, "val")
    titles = [
        ("Caprotia", "Caprotia"),
        ("The_Secret_of_Moonacre", "The Secret of Moonacre"),
        ("Moonacre_(film_score)", ""),
    ]
    assert [(document.id, document.title) for document in data.documents] == titles
    assert data.documents[2].text == "Moonacre (film  score)"
    assert [(query.id, query.relevant) for query in data.queries] == [
        ("0", ("The_Secret_of_Moonacre", "Moonacre_(film_score)")),
        ("2", ("Caprotia",)),
    ]
    assert data.queries[1].text == "flies" and data.queries[1].metadata["domain"] == "animals"
    assert data.judgements["0"] == {"The_Secret_of_Moonacre": 1, "Moonacre_(film_score)": 1}
    assert data.unanswered_queries == ("1",)


def test_bad_quest_files_are_named(quest: Path) -> None:
    with pytest.raises(InputError, match=r"test\.jsonl: no such split; choose from val$"):
        load_benchmark(quest)
    with pytest.raises(InputError, match=r"documents\.jsonl: no such split"):
        load_benchmark(quest, "documents")
    jsonl(quest / "test.jsonl", [{"query": "flies", "docs": ["Caprotina"]}])
    with pytest.raises(InputError, match=r'test\.jsonl:1: document "Caprotina" is not in the corpus'):
        load_benchmark(quest)
    jsonl(quest / "test.jsonl", [{"query": "flies"}])
    with pytest.raises(InputError, match=r'test\.jsonl:1: no "docs"'):
        load_benchmark(quest)
    jsonl(quest / "documents.jsonl", [{"title": "A film", "text": "One."}, {"title": "A  film", "text": "Two."}])
    with pytest.raises(InputError, match=r'documents\.jsonl:2: duplicate title "A  film" \(first on line 1\)'):
        load_benchmark(quest, "val")


GOLD = ["insects_attracted_to_light/Phototaxis_3.txt", "insects_attracted_to_light/Phototaxis_4.txt"]
EXAMPLE = {"query": "Why are insects attracted to light?", "reasoning": "They navigate by it.", "id": "0",
           "excluded_ids": ["N/A"], "gold_ids_long": ["insects_attracted_to_light/Phototaxis.txt"], "gold_ids": GOLD,
           "gold_answer": "They keep their backs to it."}  # fmt: skip


@pytest.fixture
def bright(tmp_path: Path) -> Path:
    contents = {GOLD[0]: "Moths turn towards lamps.", GOLD[1]: "Bees do not.", "leetcode/1.txt": "Two sums.", "e": ""}
    jsonl(tmp_path / "documents" / "biology.jsonl", [{"id": name, "content": text} for name, text in contents.items()])
    second = {**EXAMPLE, "id": "1", "gold_ids": GOLD[1:], "excluded_ids": ["leetcode/1.txt", "e"]}
    jsonl(tmp_path / "examples" / "biology.jsonl", [EXAMPLE, second])
    return tmp_path


def test_bright(bright: Path) -> None:
    data = load_benchmark(bright, "biology")
    assert [document.text for document in data.documents] == ["Moths turn towards lamps.", "Bees do not.", "Two sums."]
    assert [query.relevant for query in data.queries] == [tuple(GOLD), (GOLD[1],)]
    assert data.queries[0].metadata["reasoning"] == "They navigate by it."
    assert data.excluded == {"1": frozenset({"leetcode/1.txt", "e"})}
    assert data.empty_documents == ("e",) and data.unanswered_queries == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"excluded_ids": ["leetcode/2.txt"]}, r'biology\.jsonl:1: excluded id "leetcode/2\.txt" is not a document'),
        ({"excluded_ids": GOLD[:1]}, r'biology\.jsonl:1: ".*_3\.txt" is both in "gold_ids" and in "excluded'),
        ({"gold_ids": ["x.txt"]}, r'biology\.jsonl:1: document "x\.txt" is not in the corpus'),
        ({"gold_ids": "x.txt"}, r'biology\.jsonl:1: "gold_ids" is a string; give a list of strings'),
    ],
)  # fmt: skip
def test_bad_bright_files_are_named(bright: Path, change: dict, says: str) -> None:
    jsonl(bright / "examples" / "biology.jsonl", [EXAMPLE | change])
    with pytest.raises(InputError, match=says):
        load_benchmark(bright, "biology")
    with pytest.raises(InputError, match=r"test\.jsonl: no such split; choose from biology$"):
        load_benchmark(bright)


def test_a_folder_that_is_not_a_benchmark_and_one_in_parquet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a folder without corpus\.jsonl \(BEIR.*; give the folder of a benchmark"):
        load_benchmark(tmp_path)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "biology-00000-of-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"biology-00000-of-00001\.parquet: Parquet is not read; convert each file"):
        load_benchmark(tmp_path, "biology")
