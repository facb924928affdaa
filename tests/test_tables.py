"""One's own pairs in CSV, TSV, Parquet, TMX, XML and `datasets` folders: columns, and one line for each mistake."""

from __future__ import annotations

import csv
import json
import pickle
import re
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mrag_rl.config import load_config
from mrag_rl.data import TextPair
from mrag_rl.data.cleaning import without_copies, without_long
from mrag_rl.data.columns import Columns
from mrag_rl.data.tables import read_pairs
from mrag_rl.errors import InputError
from mrag_rl.runs.splits import read_splits

SUMMARIES = Columns(source="document", target="summary")
HEADER = "id,document,summary,year\n"
TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="de-AT"><seg>Größe  <bpt i="1"/>zwei</seg></tuv><tuv xml:lang="EN"><seg>Size two</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Nur hier</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Ende</seg></tuv><tuv xml:lang="en"><seg>End</seg></tuv></tu>
</body></tmx>
"""
ALIGNED = """<?xml version="1.0" encoding="UTF-8"?>
<TEI.2><text select="de en"><body>
<linkGrp targType="head p" n="22002D0163" select="de en" type="1-1" xtargets="jrc22002D0163-de;jrc22002D0163-en">
<link type="1-1" xtargets="1;1"><s1>Beschluss</s1><s2>Decision</s2></link>
<link type="2-1" xtargets="2 3;2"><s1><p>Eins</p><p>zwei</p></s1><s2>One two</s2></link>
<link type="1-0" xtargets="4;"><s1>Allein</s1><s2/></link>
</linkGrp>
<linkGrp targType="head p" n="31990R0001" select="de en">
<link type="1-1" xtargets="1;1"><s1>a</s1><s2>b</s2></link>
</linkGrp>
</body></text></TEI.2>
"""

characters = st.characters(exclude_categories=["Cc", "Cs"], include_characters='\n\t\r"')
some_text = st.text(characters, min_size=1).filter(str.strip)


def texts(pairs: Iterable[TextPair]) -> list[tuple[str, str, str]]:
    return [(pair.id, pair.source, pair.target) for pair in pairs]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package `datasets`, with a cache of the test's own."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return datasets


@given(st.lists(st.tuples(some_text, some_text), min_size=1, max_size=5), st.sampled_from([",", "\t"]))
@example([('say "no", or\nleave', "a;b"), ("x" * 200_000, "long")], ",")
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_python_writes_as_csv_reads_back_equal(
    tmp_path: Path, pairs: list[tuple[str, str]], separator: str
) -> None:
    path = tmp_path / ("pairs.csv" if separator == "," else "pairs.tsv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([("document", "summary"), *pairs])
    assert texts(read_pairs(path, SUMMARIES)) == [(str(number), *pair) for number, pair in enumerate(pairs, start=1)]


def test_columns_are_named_on_the_command_line_or_called_as_ours(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("\ufeff" + HEADER + "a,d,s,1999\n\nb,e,t,\n", encoding="utf-8")
    (tmp_path / "c.yaml").write_text("name: c\n")
    config = load_config(
        tmp_path / "c.yaml",
        [
            "--data.pairs",
            str(tmp_path / "p.csv"),
            "--data.columns",
            "{source: document, target: summary, labels: year}",
        ],
    )
    assert config.data.columns == Columns(source="document", target="summary", labels="year")
    first, second = read_pairs(tmp_path / "p.csv", config.data.columns)
    assert first == TextPair("a", "d", "s", ("1999",)) and second == TextPair("b", "e", "t")
    (tmp_path / "q.tsv").write_text("source\ttarget\ttopic\nx\ty\tz\n")
    assert [*read_pairs(tmp_path / "q.tsv", Columns())] == [TextPair("1", "x", "y", metadata={"topic": "z"})]


def test_columns_inside_others_are_named_with_a_dot(tmp_path: Path, hub: Any) -> None:
    rows = [{"id": f"n{n}", "translation": {"de": f"Satz {n}", "en": f"sentence {n}"}} for n in range(3)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    features = hub.Features({"id": hub.Value("string"), "translation": hub.Translation(languages=["de", "en"])})
    dataset = hub.Dataset.from_list(rows, features=features)
    dataset.to_parquet(tmp_path / "p.parquet")
    dataset.save_to_disk(tmp_path / "folder")
    columns = Columns(source="translation.de", target="translation.en")
    for name in ("p.jsonl", "p.parquet", "folder"):
        assert texts(read_pairs(tmp_path / name, columns)) == [
            (f"n{n}", f"Satz {n}", f"sentence {n}") for n in range(3)
        ]
        with pytest.raises(
            InputError, match=r'no column "translation\.fr" \(source\); there are "id", "translation\.de"'
        ):
            read_pairs(tmp_path / name, Columns(source="translation.fr", target="translation.en"))
        with pytest.raises(InputError, match=r'column "translation" \(source\) has an object; .*translation\.de'):
            read_pairs(tmp_path / name, Columns(source="translation", target="translation.en"))


def test_class_labels_become_their_names_and_media_are_left_out(tmp_path: Path, hub: Any) -> None:
    topic = hub.ClassLabel(names=["law", "sport"])
    features = hub.Features(
        {"source": hub.Value("string"), "target": hub.Value("string"), "topic": topic, "topics": hub.List(topic),
         "picture": hub.Image(), "year": hub.Value("int64")}
    )  # fmt: skip
    row = {"source": "s", "target": "t", "topic": 1, "topics": [0, 1], "picture": None, "year": 1999}
    hub.Dataset.from_list([row, row | {"topic": -1}], features=features).save_to_disk(tmp_path / "d")
    first, second = read_pairs(tmp_path / "d", Columns(labels="topic"))
    assert (first.labels, first.metadata, second.labels) == (("sport",), {"year": 1999}, ())
    assert read_pairs(tmp_path / "d", Columns(labels="topics"))[0].labels == ("law", "sport")


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1"])
def test_tmx_is_a_table_of_languages(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "de-en.tmx").write_text(TMX.format(encoding=encoding), encoding=encoding)
    columns = Columns(source="de", target="en")
    assert texts(read_pairs(tmp_path / "de-en.tmx", columns)) == [("1", "Größe zwei", "Size two"), ("3", "Ende", "End")]
    with pytest.raises(InputError, match=r'no column "es" \(source\); there are "de", "en"; name the languages'):
        read_pairs(tmp_path / "de-en.tmx", Columns(source="es", target="en"))


def test_aligned_documents_name_their_pairs(tmp_path: Path) -> None:
    (tmp_path / "jrc-de-en_withText.xml").write_text(ALIGNED, encoding="utf-8")
    pairs = read_pairs(tmp_path / "jrc-de-en_withText.xml", Columns(source="en", target="de"))
    assert texts(pairs) == [
        ("22002D0163.1", "Decision", "Beschluss"),
        ("22002D0163.2", "One two", "Eins zwei"),
        ("31990R0001.1", "b", "a"),
    ]


@pytest.mark.parametrize("layout", [TMX, ALIGNED])
def test_of_a_large_aligned_file_little_is_in_memory(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "large.xml"
    before, body, after = re.split("(?<=<body>)|(?=</body>)", layout)
    body = f"<p>{'not read ' * 300}</p>" + body.replace("two", "two " * 600)
    with path.open("w", encoding="utf-8") as file:
        file.write(before.format(encoding="UTF-8"))
        for number in range(1000):
            file.write(body.replace('n="', f'n="{number}-'))
        file.write(after)
    tracemalloc.start()
    pairs = read_pairs(path, Columns(source="de", target="en"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(pairs) >= 2000 and peak < path.stat().st_size / 4


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ('[<!ENTITY a "ha"><!ENTITY b "&a;&a;">]', ":1: declares the entity &a;, and entities are not expanded; write"),
        ('[<!ENTITY b SYSTEM "file:///etc/passwd">]', ":1: declares the entity &b;"),
        ('SYSTEM "tmx14.dtd"', ":5: the entity &b; is not declared; write its text in its place"),
        ("", ":5: not valid XML (undefined entity); "),
    ],
)
def test_entities_are_not_expanded(tmp_path: Path, head: str, says: str) -> None:
    path = tmp_path / "p.tmx"
    path.write_text(f"<!DOCTYPE tmx {head}>\n" + TMX.split("\n", 2)[2].replace("Ende", "&b;"))
    with pytest.raises(InputError) as caught:
        read_pairs(path, Columns(source="de", target="en"))
    assert str(caught.value).startswith(f"{path}{says}")


def test_units_without_a_language_are_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "p.tmx").write_text("<tmx><body><tu><note>x</note></tu></body></tmx>")
    with pytest.raises(InputError, match="no <tu> of TMX"):
        read_pairs(tmp_path / "p.tmx", Columns(source="de", target="en"))


@pytest.mark.parametrize(
    ("name", "content", "says", "mends"),
    [
        ("p.csv", HEADER + "a,d,s,1\nb,, ,2\n", ':3: column "document" (source) is empty', "remove the row"),
        ("p.csv", HEADER + "a,d,s,1\n\nb,e,  ,2\n", ':4: column "summary" (target) is empty', "give some text"),
        ("p.csv", HEADER + 'a,"d\nd",s,1\na,e,t,2\n', ':4: column "id" (id): duplicate id "a" (first at', "its own id"),
        ("p.csv", HEADER + ",d,s,1\n", ':2: column "id" (id) has an empty string', "a whole number"),
        ("p.csv", "id,document,sumary\na,d,s\n", 'no column "summary" (target); there are "id", "document", "sumary"',
         "--data.columns '{target: sumary}'"),
        ("p.csv", "id;document;summary\na;d;s\n", "there are \"id;document;summary\"", "separated by semicolons"),
        ("p.csv", "id\tdocument\tsummary\na\td\ts\n", 'no column "document"', "rename it to .tsv"),
        ("p.tsv", "document,summary\nd,s\n", 'no column "document"', "rename it to .csv"),
        ("p.csv", HEADER + "a,d,s, or so,1\n", ":2: 5 fields, but the first line has 4 columns", "quote texts"),
        ("p.csv", HEADER + "a,d\n", ":2: 2 fields", "quote texts"),
        ("p.csv", HEADER + 'a,"d,s,1\nb,e,t,2\n', ":2: not valid CSV", "close every quote"),
        ("p.csv", HEADER + 'a,"d" d,s,1\n', ":2: not valid CSV", 'as ""'),
        ("p.csv", "document,summary,\nd,s,x\n", ":1: column 3 has no name", "the first line"),
        ("p.csv", "document,summary,document\nd,s,x\n", ':1: two columns are called "document"', "rename"),
        ("p.csv", "", "no rows", "the columns' names on the first line"),
        ("p.csv", HEADER, "no rows", "give a file that has pairs"),
        ("p.csv", (HEADER + "a,d,s,1\n").encode("utf-16"), "UTF-16, not UTF-8", "iconv -f UTF-16 -t UTF-8"),
        ("p.csv", (HEADER + "a,d,s,1\n").encode("utf-16-le"), ":1: a zero byte", "iconv -f UTF-16LE -t UTF-8"),
        ("p.csv", (HEADER + "a,Größe,s,1\n").encode("latin-1"), ":2: not UTF-8", "iconv -f LATIN1 -t UTF-8"),
        ("p.jsonl", '{"document": "d"}'.encode("utf-16"), "UTF-16, not UTF-8", "iconv"),
        ("p.jsonl", '{"document": "d", "summary": 3}', ':1: column "summary" (target) has a number', "column of texts"),
        ("p.jsonl", '{"document": "d", "summary": "s"}\n{"document": "d"}', ':2: column "summary" (target) is', "give"),
        ("p.jsonl", '{"document": "d", "summary": "s", "labels": [{}]}', ':1: column "labels" (labels) has an object',
         "a list of texts"),
        ("p.jsonl", '{"document": "d", "summary": "s", "id": 1.5}', ':1: column "id" (id) has a number', "a whole"),
        ("p.csv.gz", b"\x1f\x8b", "is compressed", "unpack it"),
        ("p.xlsx", b"PK", "is a spreadsheet", "CSV in UTF-8"),
        ("p.tmx", "<tmx><body>", ":1: not valid XML", "download it again"),
        ("p.tmx", "<tmx><body/></tmx>", "no <tu> of TMX", "an aligned corpus"),
        ("p.tmx", b'<?xml version="1.0" encoding="magic"?><tmx/>', "p.tmx", "save it as UTF-8"),
        ("nowhere.csv", None, "no such file", "check the path"),
        ("nowhere.tmx", None, "no such file", "check the path"),
    ],
)  # fmt: skip
def test_a_bad_file_gets_one_line(
    tmp_path: Path, name: str, content: str | bytes | None, says: str, mends: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        read_pairs(path, SUMMARIES)
    said = str(caught.value)
    assert said.startswith(str(path)) and says in said and mends in said and "\n" not in said, said


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path, rows, hub: path.write_bytes(b"PAR1 and no more"), "not a Parquet file"),
        (lambda path, rows, hub: None, "no such file"),
        (lambda path, rows, hub: hub.Dataset.from_list([*rows, rows[0] | {"summary": None}]).to_parquet(path),
         ': row 3: column "summary" (target) is empty'),
        (lambda path, rows, hub: hub.Dataset.from_list([row | {"summary": 7} for row in rows]).to_parquet(path),
         ': row 1: column "summary" (target) has a number'),
        (lambda path, rows, hub: hub.Dataset.from_list([{"text": "d"}]).to_parquet(path), 'there are "text"'),
        (lambda path, rows, hub: hub.Dataset.from_list([rows[0], rows[0]]).to_parquet(path),
         ': row 2: column "id" (id): duplicate id "0" (first at'),
        (lambda path, rows, hub: hub.Dataset.from_dict({"document": [], "summary": []}).to_parquet(path), "no rows"),
    ],
)  # fmt: skip
def test_a_bad_parquet_file_gets_one_line(tmp_path: Path, hub: Any, make: Callable, says: str) -> None:
    path = tmp_path / "p.parquet"
    make(path, [{"id": n, "document": f"d{n}", "summary": f"s{n}"} for n in range(2)], hub)
    with pytest.raises(InputError) as caught:
        read_pairs(path, SUMMARIES)
    assert says in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_folders_that_are_no_datasets_or_have_several_splits(tmp_path: Path, hub: Any) -> None:
    dataset = hub.Dataset.from_list([{"document": "d", "summary": "s"}])
    hub.DatasetDict(train=dataset).save_to_disk(tmp_path / "one")
    assert texts(read_pairs(tmp_path / "one", SUMMARIES)) == [("1", "d", "s")]
    hub.DatasetDict(train=dataset, test=dataset).save_to_disk(tmp_path / "two")
    assert texts(read_pairs(tmp_path / "two" / "test", SUMMARIES)) == [("1", "d", "s")]
    with pytest.raises(InputError, match=r"has the splits train, test; give one .*two/train, or .* data\.folder"):
        read_pairs(tmp_path / "two", SUMMARIES)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no dataset_dict\.json or dataset_info\.json"):
        read_pairs(tmp_path / "empty", SUMMARIES)
    for damaged in (tmp_path / "one" / "train").glob("*.arrow"):
        damaged.write_bytes(b"no more")
    with pytest.raises(InputError, match="one: cannot be read"):
        read_pairs(tmp_path / "one", SUMMARIES)


@pytest.mark.parametrize("name", ["p.pkl", "p.jsonl", "p.csv", "p.parquet", "folder"])
def test_a_pickle_is_never_run_whatever_its_name(tmp_path: Path, name: str) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "trapped",))

    if name == "p.parquet" or name == "folder":
        pytest.importorskip("datasets")
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        for file in ("dataset_info.json", "state.json", "data-00000-of-00001.arrow"):
            (path / file).write_bytes(pickle.dumps(Trap()))
    else:
        path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError):
        read_pairs(path, SUMMARIES)
    assert not (tmp_path / "trapped").exists()


def write_csv(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source},{target}\n" for source, target in [("source", "target"), *pairs]))
    return str(path)


def test_four_tables_number_their_rows_apart(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: c\n")
    options = []
    for part in ("database", "train", "dev", "test"):
        options += [f"--data.files.{part}", write_csv(tmp_path / f"{part}.csv", [(part, "t"), (part, "u")])]
    splits = read_splits(load_config(tmp_path / "c.yaml", options).data, "summarization")
    assert [pair.id for pair in splits.dev] == ["dev-1", "dev-2"]
    write_csv(tmp_path / "test.csv", [("train", "t"), ("new", "t")])
    with pytest.raises(InputError, match=r'pair "test-1" has .* of "train-1" .*deduplicate'):
        read_splits(load_config(tmp_path / "c.yaml", options).data, "summarization")
    mended = load_config(tmp_path / "c.yaml", [*options, "--data.deduplicate"])
    splits = read_splits(mended.data, "summarization")
    assert [pair.id for pair in (*splits.train, *splits.test)] == ["train-2", "test-1", "test-2"]
    assert (splits.too_long, splits.copies) == (0, 1)


def test_long_pairs_and_copies_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: c\n")
    pairs = [(f"a source of {n} words", f"t {n}") for n in range(20)]
    path = write_csv(tmp_path / "p.csv", [*pairs, *pairs, ("one two three four five six", "t"), ("one", "t t t")])
    options = ["--data.pairs", path, "--data.max_source_words", "5", "--data.max_target_words", "2"]
    counts = []
    for more in ([], ["--data.deduplicate"]):
        splits = read_splits(load_config(tmp_path / "c.yaml", [*options, *more]).data, "summarization")
        left = len(splits.database) + len(splits.train) + len(splits.dev) + len(splits.test)
        counts.append((left, splits.too_long, splits.copies))
    assert counts == [(40, 2, 0), (20, 2, 20)]
    none_left = load_config(tmp_path / "c.yaml", [*options[:2], "--data.max_target_words", "1", *options[2:4]])
    with pytest.raises(InputError, match="leave no pair of 40; raise them"):
        write_csv(tmp_path / "p.csv", [*pairs, *pairs])
        read_splits(none_left.data, "summarization")


pair_lists = st.lists(st.builds(TextPair, st.just("x"), st.sampled_from("ab "), st.sampled_from(["c", "c ", "d"])))


@given(st.fixed_dictionaries(dict.fromkeys(("database", "train", "dev", "test"), pair_lists)))
def test_without_copies_a_pair_is_in_one_part_and_the_test_split_keeps_all_of_its_own(parts: dict) -> None:
    def keys(pairs: Iterable[TextPair]) -> list[tuple[str, str]]:
        return [(pair.source.strip(), pair.target.strip()) for pair in pairs]

    kept = without_copies(parts)
    everything = [key for pairs in kept.values() for key in keys(pairs)]
    assert len(everything) == len(set(everything))
    assert set(everything) == {key for pairs in parts.values() for key in keys(pairs)}
    assert list(kept) == list(parts) and set(keys(kept["test"])) == set(keys(parts["test"]))
    assert not set(keys(kept["database"])) & {key for part in ("train", "dev", "test") for key in keys(parts[part])}


def test_lengths_count_words_of_source_and_target_apart() -> None:
    parts = {"test": [TextPair("1", "a b", "c"), TextPair("2", "a", "b c d")]}
    assert without_long(parts, source=None, target=None) == parts
    assert [pair.id for pair in without_long(parts, source=1, target=None)["test"]] == ["2"]
    assert [pair.id for pair in without_long(parts, source=None, target=2)["test"]] == ["1"]
