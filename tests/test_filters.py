"""The filter language: what it reads and refuses, and one meaning in Python and in every store."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters import (
    EVERYTHING,
    And,
    Condition,
    Field,
    FieldVocabulary,
    Filter,
    Or,
    matches,
    parse_filter,
    to_json,
)
from mrag_rl.filters.columns import Columns
from mrag_rl.filters.dates import find_dates, parse_date
from mrag_rl.filters.language import MAX_HEIGHT
from mrag_rl.filters.lenient_json import read_mapping
from mrag_rl.filters.parsing import MAX_CONDITIONS, MAX_DEPTH, MAX_VALUES
from mrag_rl.filters.sql import lay_out, where
from mrag_rl.filters.values import Period
from mrag_rl.memory.store import RecordStore
from mrag_rl.retrieval import MultiAspectRetriever
from mrag_rl.retrieval.disk.columns import ColumnsWriter, open_columns
from mrag_rl.retrieval.filtered import FilteredRetriever

VOCABULARY = FieldVocabulary(
    {
        "source": Field("source", "string"),
        "day": Field("day", "date"),
        "words": Field("words", "number"),
        "free": Field("free", "boolean"),
    }
)

RECORDS: dict[str, dict[str, Any]] = {
    "verge": {"source": "The Verge", "day": "October 4, 2023", "words": 900, "free": True},
    "wired": {"source": "Wired", "day": "2023-10-04T23:30:00-05:00", "words": 900.5, "free": False},
    "lower": {"source": "wired", "day": "5 Oct 2023", "words": 0},
    "two": {"source": ["The Verge", "Wired"], "day": ["2023-10-03", "2023-10-06"], "words": [1, 2000]},
    "bare": {},
    "null": {"source": None, "day": None, "words": None, "free": None},
    "empty": {"source": [], "day": "", "words": [], "free": {}},
    "wrong": {"source": 7, "day": 20231004, "words": "900", "free": 1},
    "nested": {"source": {"$eq": "Wired"}, "day": "soon", "words": [[900]], "free": [True, False]},
    "odd": {"source": "O'Hara\"; DROP TABLE memories; --", "day": "10/11/2023", "words": 2**70, "free": "true"},
    "text": {"source": "2023-10-04", "day": "Wed, 04 Oct 2023 21:11:57 GMT", "words": True},
    "nothing": {"source": "", "day": "0001-01-01", "words": float("nan")},
    "cafe": {"source": "Café\u0000", "day": "9999-12-31", "words": -1.5},
}

DAYS = ["verge", "wired", "lower", "two", "text", "nothing", "cafe"]
MEANING: list[tuple[dict[str, Any], list[str]]] = [
    ({}, list(RECORDS)),
    ({"source": "Wired"}, ["wired", "two"]),
    ({"source": {"$eq": "The Verge"}}, ["verge", "two"]),
    ({"source": ["Wired", "wired"]}, ["wired", "lower", "two"]),
    ({"source": {"$in": ["Wired"]}}, ["wired", "two"]),
    ({"source": {"$in": "Wired"}}, ["wired", "two"]),
    ({"source": {"$ne": "Wired"}}, ["verge", "lower", "odd", "text", "nothing", "cafe"]),
    ({"source": {"$nin": ["Wired", "wired"]}}, ["verge", "odd", "text", "nothing", "cafe"]),
    ({"source": ""}, ["nothing"]),
    ({"source": "2023-10-04"}, ["text"]),
    ({"source": "7"}, []),
    ({"source": "O'Hara\"; DROP TABLE memories; --"}, ["odd"]),
    ({"source": "Café\u0000"}, ["cafe"]),
    ({"source": "Café"}, []),
    ({"source": "%"}, []),
    ({"day": "October 4, 2023"}, ["verge", "wired", "text"]),
    ({"day": {"$in": ["2023-10-04", "5.10.2023"]}}, ["verge", "wired", "lower", "text"]),
    ({"day": {"$ne": "2023-10-04"}}, ["lower", "two", "nothing", "cafe"]),
    ({"day": {"$nin": ["2023-10-04", "2023-10-06"]}}, ["lower", "nothing", "cafe"]),
    ({"day": {"$gt": "2023-10-04"}}, ["lower", "two", "cafe"]),
    ({"day": {"$gte": "2023-10-04"}}, ["verge", "wired", "lower", "two", "text", "cafe"]),
    ({"day": {"$lt": "2023-10-04"}}, ["two", "nothing"]),
    ({"day": {"$lte": "2023-10-04"}}, ["verge", "wired", "two", "text", "nothing"]),
    ({"day": {"$gte": "0001-01-01"}}, DAYS),
    ({"day": {"$gt": "2023-10-03", "$lt": "2023-10-05"}}, ["verge", "wired", "two", "text"]),
    ({"day": "2023"}, ["verge", "wired", "lower", "two", "text"]),
    ({"day": "2023-10"}, ["verge", "wired", "lower", "two", "text"]),
    ({"day": ["2023-09", "0001"]}, ["nothing"]),
    ({"day": ["2023-09", "2023-10-05", "9999-12"]}, ["lower", "cafe"]),
    ({"day": {"$ne": "2023-10"}}, ["nothing", "cafe"]),
    ({"day": {"$nin": ["9999", "2023-10-04"]}}, ["lower", "two", "nothing"]),
    ({"day": {"$gt": "2023-10"}}, ["cafe"]),
    ({"day": {"$gte": "2023-10"}}, ["verge", "wired", "lower", "two", "text", "cafe"]),
    ({"day": {"$lt": "2023-10"}}, ["nothing"]),
    ({"day": {"$lte": "2023"}}, ["verge", "wired", "lower", "two", "text", "nothing"]),
    ({"day": {"$not": {"$gt": "2023-10-04"}}}, ["verge", "wired", "text", "nothing"]),
    ({"day": {"$not": {"$gte": "2023-10-04", "$lte": "2023-10-05"}}}, ["nothing", "cafe"]),
    ({"words": {"$not": {"$lt": 900}}}, ["verge", "wired", "odd"]),
    ({"words": {"$not": {"$in": [0, 1]}}}, ["verge", "wired", "odd", "cafe"]),
    ({"source": {"$exists": True}}, [n for n in RECORDS if n not in ("bare", "null", "empty", "nested")]),
    ({"source": {"$exists": False}}, ["bare", "null", "empty", "nested"]),
    ({"free": {"$exists": False}, "words": {"$exists": True}}, ["lower", "two", "text", "cafe"]),
    ({"words": 900}, ["verge"]),
    ({"words": 900.0}, ["verge"]),
    ({"words": {"$ne": 900}}, ["wired", "lower", "two", "odd", "cafe"]),
    ({"words": {"$gt": 900}}, ["wired", "two", "odd"]),
    ({"words": {"$gte": 900}}, ["verge", "wired", "two", "odd"]),
    ({"words": {"$lt": 1}}, ["lower", "cafe"]),
    ({"words": {"$lte": 0}}, ["lower", "cafe"]),
    ({"words": -0.0}, ["lower"]),
    ({"free": True}, ["verge", "nested"]),
    ({"free": {"$ne": True}}, ["wired"]),
    ({"free": {"$in": [True, False]}}, ["verge", "wired", "nested"]),
    ({"source": "Wired", "words": {"$gt": 950}}, ["two"]),
    ({"$and": [{"source": "Wired"}, {"source": "The Verge"}]}, ["two"]),
    ({"$or": [{"source": "wired"}, {"words": 900}]}, ["verge", "lower"]),
    ({"$or": [{"source": {"$ne": "Wired"}}, {"source": "Wired"}]}, [n for n in RECORDS if n not in
      ("bare", "null", "empty", "wrong", "nested")]),
    ({"$or": [{"$and": [{"source": "Wired"}, {"free": False}]}, {"source": "wired"}], "words": {"$lt": 1000}},
     ["wired", "lower"]),
]  # fmt: skip


def by_matches(records: Mapping[str, Mapping[str, Any]], tmp_path: Path) -> Callable[[Any], list[str]]:
    return lambda condition: [name for name, metadata in records.items() if matches(condition, metadata)]


def by_store(
    records: Mapping[str, Mapping[str, Any]], tmp_path: Path, parameters: int | None = None
) -> Callable[[Any], list[str]]:
    """parameters: how many SQLite takes."""
    finite = {name: {key: value for key, value in row.items() if value == value} for name, row in records.items()}
    pairs = [TextPair(name, "source", "target", metadata=metadata) for name, metadata in finite.items()]
    membership = scipy.sparse.csr_array(np.ones((len(pairs), 1), dtype=bool))
    RecordStore.create(tmp_path / "memories.sqlite", pairs, membership, ["all"], {})
    store = RecordStore.open(tmp_path / "memories.sqlite")
    if parameters is not None:
        store._connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, parameters)
    names = list(records)
    return lambda condition: [names[memory] for memory in store.matching(condition)]


def by_chunks(records: Mapping[str, Mapping[str, Any]], tmp_path: Path) -> Callable[[Any], list[str]]:
    """Each record the metadata of a document's two chunks."""
    chunks = [
        Chunk(f"{name}#{number}", "text", metadata=metadata, document=name)
        for name, metadata in records.items()
        for number in range(2)
    ]
    vectors = np.full((len(chunks), 4), 0.5, np.float32)
    library = FilteredRetriever(MultiAspectRetriever(Embeddings(vectors, vectors[:, None])), chunks)

    def find(condition: Any) -> list[str]:
        (passing,) = library.passing([condition])
        assert (passing[::2] == passing[1::2]).all()
        return [chunk.document for chunk, passes in zip(chunks[::2], passing[::2], strict=True) if passes]

    return find


def by_store_of_few_parameters(records: Mapping[str, Mapping[str, Any]], tmp_path: Path) -> Callable[[Any], list[str]]:
    return by_store(records, tmp_path, 4)


@pytest.mark.parametrize("store", [by_matches, by_store, by_store_of_few_parameters, by_chunks])
def test_every_store_has_the_same_meaning(store: Callable[..., Any], tmp_path: Path) -> None:
    find = store(RECORDS, tmp_path)
    for written, names in MEANING:
        assert find(parse_filter(written, VOCABULARY)) == names, written


@pytest.mark.parametrize("values", [[1, 0, 2.5, 2**63 - 1, 0.1 + 0.2, -7], ["a", "a\0b", "1", "", "ä", "a' OR 1"]])
def test_a_condition_has_any_number_of_values(values: list[Any], tmp_path: Path) -> None:
    """More than SQLite takes parameters (250,000 here)."""
    others = [f"no {number}" if isinstance(values[0], str) else 1000.5 + number for number in range(260_000)]
    records = {str(number): {"field": value} for number, value in enumerate(values)} | {"true": {"field": True}}
    find = by_store(records, tmp_path)
    chosen = (*others, values[1], values[3])
    assert find(Condition("field", "$in", chosen)) == ["1", "3"]
    assert find(Condition("field", "$nin", chosen)) == ["0", "2", "4", "5"]


def test_a_filter_survives_json_and_text() -> None:
    for written, names in MEANING:
        condition = parse_filter(written, VOCABULARY)
        for again in (written, read_mapping(repr(written)), json.dumps(written), json.dumps(to_json(condition))):
            read = parse_filter(again, VOCABULARY)
            assert [name for name, metadata in RECORDS.items() if matches(read, metadata)] == names, again


def test_a_database_is_searched_under_a_filter(tmp_path: Path) -> None:
    from mrag_rl.memory import MemoryDatabase
    from mrag_rl.partitioning import fit_partitioning
    from tests.tiny import encoder, tiny_world

    world = tiny_world()
    pairs = [
        dataclasses.replace(pair, metadata={"words": index}) for index, pair in enumerate(world.splits.database)
    ]  # fmt: skip
    partitioning = fit_partitioning("none", world.database.standard, seed=0)
    with MemoryDatabase.create(
        tmp_path / "db", pairs, world.database, partitioning, encoder_fingerprint=encoder().fingerprint
    ) as database:
        allowed = database.allowed_memories(parse_filter({"words": {"$gte": 30}}, VOCABULARY))
        assert allowed.tolist() == [index >= 30 for index in range(len(pairs))]
        hits = database.retrieve(world.train, None, k=3, allowed_memories=allowed)
        assert (hits.indices >= 30).all() and not (database.retrieve(world.train, None, k=3).indices >= 30).all()


# -- properties ----------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.sampled_from(["a", "A", "b", "", "a'", '"', "$in", "2023-10-04", "October 5, 2023", "4 Oct 2023", "1", "\0"]),
    st.text(max_size=4),
    st.dates(dt.date(2023, 10, 1), dt.date(2023, 10, 8)).map(dt.date.isoformat),
)
HELD = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=1), SCALARS, max_size=1))
METADATA = st.dictionaries(st.sampled_from(["source", "day", "words", "free"]), HELD)
OPERANDS: dict[str, st.SearchStrategy[Any]] = {
    "source": st.one_of(st.sampled_from(["a", "A", "b", "", "a'", '"', "2023-10-04", "1", "\0"]), st.text(max_size=4)),
    "day": st.one_of(
        st.dates(dt.date(2023, 10, 1), dt.date(2023, 10, 8)),
        st.builds(Period, st.sampled_from([2022, 2023]), st.sampled_from([None, 9, 10])),
    ),
    "words": st.one_of(
        st.integers(-3, 3), st.integers(-(2**63) + 1, 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
    ),
    "free": st.booleans(),
}


@st.composite
def a_condition(draw: st.DrawFn) -> Condition:
    field = draw(st.sampled_from(sorted(OPERANDS)))
    ordered = field in ("day", "words")
    orders = ["$gt", "$gte", "$lt", "$lte"]
    names: list[Any] = ["$eq", "$ne", "$in", "$nin", "$exists", *(orders if ordered else [])]
    operator = draw(st.sampled_from(names))
    if operator == "$exists":
        return Condition(field, operator, (draw(st.booleans()),))
    many = operator in ("$in", "$nin")
    values = draw(st.lists(OPERANDS[field], min_size=1, max_size=3 if many else 1))
    if operator in orders:
        values = [value.first if isinstance(value, Period) else value for value in values]
        return Condition(field, operator, tuple(values), negated=draw(st.booleans()))
    return Condition(field, operator, tuple(values))


FILTERS = st.recursive(
    a_condition(),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda filters: And(tuple(filters))),
        st.lists(parts, min_size=1, max_size=3).map(lambda filters: Or(tuple(filters))),
    ),
    max_leaves=6,
)


def plainly(condition: Any, metadata: Mapping[str, Any]) -> bool:
    """The documented meaning, implemented again without the package's own reading of values."""
    if isinstance(condition, And):
        return all(plainly(part, metadata) for part in condition.parts)
    if isinstance(condition, Or):
        return any(plainly(part, metadata) for part in condition.parts)
    value = metadata.get(condition.field)
    items: list[Any] = value if isinstance(value, list) else [value]
    if condition.operator == "$exists":
        kept = [
            item for item in items if isinstance(item, (str, int)) or (isinstance(item, float) and item - item == 0)
        ]
        return bool(kept) == condition.values[0]
    kind = type(condition.values[0])
    if kind is str:
        items = [item for item in items if isinstance(item, str)]
    elif kind is bool:
        items = [item for item in items if isinstance(item, bool)]
    elif issubclass(kind, (dt.date, Period)):
        items = [day for item in items if isinstance(item, str) and (day := parse_date(item)) is not None]
        days = [(v.first, v.last) if isinstance(v, Period) else (v, v) for v in condition.values]
        if condition.operator in ("$ne", "$nin", "$eq", "$in"):
            inside = any(first <= item <= last for item in items for first, last in days)
            return inside if condition.operator in ("$eq", "$in") else len(items) > 0 and not inside
    else:
        items = [item for item in items if isinstance(item, (int, float)) and not isinstance(item, bool)]
        items = [float(item) if abs(item) >= 2**63 else item for item in items if math.isfinite(item)]
    if condition.operator in ("$ne", "$nin"):
        return len(items) > 0 and all(item not in condition.values for item in items)
    if condition.operator in ("$eq", "$in"):
        return any(item in condition.values for item in items)
    operand = condition.values[0]
    compare = {"$gt": lambda item: item > operand, "$gte": lambda item: item >= operand,
               "$lt": lambda item: item < operand, "$lte": lambda item: item <= operand}  # fmt: skip
    if condition.negated:
        return len(items) > 0 and not any(compare[condition.operator](item) for item in items)
    return any(compare[condition.operator](item) for item in items)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(METADATA, min_size=1, max_size=6), st.lists(FILTERS, min_size=1, max_size=4))
def test_all_stores_and_json_agree_with_the_documented_meaning(
    records: list[dict[str, Any]], filters: Sequence[Any]
) -> None:
    connection = sqlite3.connect(":memory:")
    columns = [Columns.of(records)]
    with TemporaryDirectory() as folder:
        writer = ColumnsWriter(Path(folder))
        writer.append(records[:2])
        writer.append(records[2:])
        writer.close()
        columns.append(open_columns(Path(folder), len(records)))
    try:
        connection.execute("CREATE TABLE memories (memory INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO memories VALUES (?)", [(index,) for index in range(len(records))])
        lay_out(connection, enumerate(records))
        for condition in filters:
            text, parameters = where(condition)
            rows = connection.execute(f"SELECT memory FROM memories WHERE {text} ORDER BY memory", parameters)
            expected = [index for index, metadata in enumerate(records) if plainly(condition, metadata)]
            assert [memory for (memory,) in rows] == expected
            assert [index for index, metadata in enumerate(records) if matches(condition, metadata)] == expected
            assert all(np.flatnonzero(some.passing(condition)).tolist() == expected for some in columns)
            read = parse_filter(json.dumps(to_json(condition)), VOCABULARY)
            assert [index for index, metadata in enumerate(records) if matches(read, metadata)] == expected
    finally:
        connection.close()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(METADATA, min_size=1, max_size=6))
def test_metadata_mean_the_same_after_a_round_trip_through_json(records: list[dict[str, Any]]) -> None:
    """Storing metadata as JSON does not change which records pass a filter."""
    stored = [json.loads(json.dumps(metadata, ensure_ascii=False)) for metadata in records]
    for written, _ in MEANING:
        condition = parse_filter(written, VOCABULARY)
        assert [matches(condition, now) for now in stored] == [matches(condition, before) for before in records]


@given(FILTERS)
def test_no_value_and_no_field_is_part_of_the_sql(condition: Any) -> None:
    text, parameters = where(condition)
    assert text.count("?") == len(parameters)
    words = set(text.replace("(", " ").replace(")", " ").replace(",", " ").split())
    known = "memory IN SELECT FROM temp.metadata_values WHERE field type value AND OR NOT = > >= < <= ? substr 1 4 7"
    assert words <= set(known.split())


# -- refusals ------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Any, str]] = [
    ({"author": "x"}, "filter: unknown field 'author'"),
    ({"$and": [{"source": "a"}, {"author": "x"}]}, "filter at $and[1]: unknown field 'author'"),
    ({"$and": [{"source": "a"}, {"": "x"}]}, "filter at $and[1]: unknown field ''"),
    ({"$and": [{"source": "a"}, {"source": {"$like": "x"}}]}, "filter at $and[1].source: unknown operator '$like'"),
    ({"$and": [{"source": "a"}, {"source": {"$in": ["a", 7]}}]}, "filter at $and[1].source.$in[1]: 7 is not a string"),
    ({"$or": [{"$and": [{"day": {"$gt": "soon"}}]}]}, "filter at $or[0].$and[0].day.$gt: 'soon' is not a date"),
    ({"source": {"$gt": "a"}}, "filter at source.$gt: source has string values, which have no order"),
    ({"free": {"$lte": True}}, "filter at free.$lte: free has boolean values"),
    ({"source": None}, "filter at source: None is not a string"),
    ({"source": {"$in": []}}, "filter at source.$in: an empty list"),
    ({"source": {}}, "filter at source: no operator"),
    ({"source": {"$in": [["a"]]}}, "filter at source.$in[0]: a list is not a string"),
    ({"source": {"$eq": ["a"]}}, "filter at source.$eq: a list is not a string"),
    ({"words": True}, "filter at words: True is not a number"),
    ({"words": "900"}, "filter at words: '900' is not a number"),
    ({"words": math.nan}, "filter at words: nan is not a number"),
    ({"words": 2**63}, "filter at words: an integer beyond 64 bits"),
    ({"free": 1}, "filter at free: 1 is not a boolean"),
    ({"day": 20231004}, "filter at day: 20231004 is not a date"),
    ({"day": "10/11/2023"}, "filter at day: '10/11/2023' is not a date"),
    ({"$and": {}}, "filter at $and: a mapping is not a list"),
    ({"$or": []}, "filter at $or: an empty list"),
    ({"$or": [{}]}, "filter at $or[0]: an empty mapping"),
    ({"$and": ["source"]}, "filter at $and[0]: 'source' is not a mapping"),
    ({"$in": ["a"]}, "filter: '$in' where a field is expected"),
    ({"$where": "1"}, "filter: '$where' where a field is expected"),
    ({"source": "x" * 1001}, "filter at source: 1001 characters"),
    ({"source": "\ud800"}, "is not valid Unicode"),
    ({"a\nb": 1}, r"filter: unknown field 'a\nb'"),
    ({7: 1}, "filter: the key 7 is not a string"),
    ({10**5000: 1}, "filter: the key an integer beyond 64 bits is not a string"),
    ({"day": dt.datetime(2023, 10, 4)}, "names a time, and dates are compared by the day; give the day alone"),
    ({"day": {"$in": ["2023-10-04T00:00:00Z"]}}, "filter at day.$in[0]: '2023-10-04T00:00:00Z' names a time"),
    ({"words": {"$not": 5}}, "filter at words.$not: 5 is not a mapping of comparisons"),
    ({"words": {"$not": {"$gt": "5"}}}, "filter at words.$not.$gt: '5' is not a number"),
    ({"words": {"$exists": 0}}, "filter at words.$exists: 0 is not a boolean"),
    ('{"source": "a"} or so', "filter: not JSON at character 17"),
    ("{'source': 'a'}", "filter: not JSON at character 2"),
    ('{"source": "a", "source": "b"}', "filter: the key 'source' twice"),
    ('{"words": NaN}', "filter: NaN is not JSON"),
    ('{"words": ' + "9" * 5000 + "}", "too long a number"),
    ("[" * 19_000, "filter: too deep"),
    ('[{"source": "a"}]', "filter: a list is not a mapping"),
    ("NOT {}", "filter: not JSON at character 1"),
    ("", "filter: not JSON at character 1"),
]


@pytest.mark.parametrize(("written", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_a_filter_outside_the_language_is_refused_with_its_place(written: Any, says: str) -> None:
    with pytest.raises(InputError) as error:
        parse_filter(written, VOCABULARY)
    assert says in str(error.value) and "\n" not in str(error.value) and "; " in str(error.value)


def test_size_and_depth_are_bounded() -> None:
    def nested(levels: int) -> dict[str, Any]:
        written: dict[str, Any] = {"source": "a"}
        for _ in range(levels):
            written = {"$or": [written]}
        return written

    def values(count: int) -> dict[str, Any]:
        return {"source": {"$in": [str(number) for number in range(count)]}}

    def many(count: int) -> dict[str, Any]:
        return {"$and": [{"words": {"$ne": number}} for number in range(count)]}

    for make, bound in ((nested, MAX_DEPTH), (values, MAX_VALUES), (many, MAX_CONDITIONS)):
        text, parameters = where(parse_filter(make(bound), VOCABULARY))
        connection = sqlite3.connect(":memory:")
        lay_out(connection, [(0, {"source": "a"})])
        connection.execute(f"SELECT 1 FROM (SELECT 0 AS memory) WHERE {text}", parameters).fetchall()
        connection.close()
        with pytest.raises(InputError, match=f"{bound}"):
            parse_filter(make(bound + 1), VOCABULARY)


def test_the_largest_filter_fits_the_smallest_sqlite() -> None:
    """The number of parameters that SQLite took before 2020 is 999."""
    parts = [{"words": {"$nin": list(range(index * 5, index * 5 + 5))}} for index in range(MAX_CONDITIONS)]
    _, parameters = where(parse_filter({"$and": parts}, VOCABULARY))
    assert len(parameters) == 4 * MAX_CONDITIONS + MAX_VALUES < 999


# -- dates ---------------------------------------------------------------------------------------------------------

FOURTH = dt.date(2023, 10, 4)
WRITTEN = [
    "2023-10-04", "2023/10/04", "2023-10-4", "2023-10-04T21:11:57", "2023-10-04T21:11:57Z", "2023-10-04 21:11",
    "2023-10-04T21:11:57.123456+05:30", "2023-10-04T23:30:00-0500", "October 4, 2023", "october 4 2023",
    "OCTOBER 4TH, 2023", "Oct 4, 2023", "Oct. 4th, 2023", "4 October 2023", "4th of October, 2023",
    "the 4th of October 2023", "04 Oct 2023", "4-Oct-2023", "Wednesday, October 4, 2023", "4.10.2023", "04.10.2023",
    "Wed, 04 Oct 2023 21:11:57 GMT",
    "October 4, 2023 at 5 pm", "October 4, 2023, 5:15 PM EDT", "  2023-10-04  ",
]  # fmt: skip
NO_DATES = [
    "", "today", "October", "October 2023", "October 4", "2023", "4", "10/11/2023", "2023-13-04", "2023-02-30",
    "2023-10",
    "February 30, 2023", "Monday, October 4, 2023", "20231004", "1696453917", "October 4, 23", "32 October 2023",
    "2023-10-04x", "x2023-10-04", "2023-10-04; DROP TABLE", "2023-10-04\n2023-10-05", "0000-01-01", "2023-10-04T25:00",
    "Octobber 4, 2023", "2023-10-04 to 2023-10-05", "Auguſt 4, 2023", "aprıl 4, 2023",
    "٢٠٢٣-١٠-٠٤", "４ October 2023" * 9,
]  # fmt: skip


@pytest.mark.parametrize("written", WRITTEN)
def test_common_ways_of_writing_a_day_are_understood(written: str) -> None:
    assert parse_date(written) == FOURTH


@pytest.mark.parametrize("written", NO_DATES)
def test_an_incomplete_or_ambiguous_day_is_not_guessed(written: str) -> None:
    assert parse_date(written) is None


def test_day_and_month_are_told_apart_if_only_one_order_is_a_date() -> None:
    assert parse_date("10/13/2023") == parse_date("13/10/2023") == dt.date(2023, 10, 13)
    assert parse_date("10/10/2023") == dt.date(2023, 10, 10)


@given(st.dates())
def test_days_written_in_common_ways_are_read_back(day: dt.date) -> None:
    year = f"{day.year:04d}"
    for form in (day.isoformat(), f"{day:%B} {day.day}, {year}", f"{day.day} {day:%b} {year}", f"{day:%d.%m}.{year}"):
        assert parse_date(form) == day, form


@given(st.text(max_size=80))
def test_no_text_breaks_the_date_parser(text: str) -> None:
    parse_date(text)
    for mention in find_dates(text):
        assert 0 <= mention.start < mention.end <= len(text)


def test_days_are_found_inside_a_text() -> None:
    text = "After October 31, 2023, and on 2023-12-15T08:00:00+00:00, not on 1/2/2023 or in version 2.10.2023.1."
    assert [str(mention.day) for mention in find_dates(text)] == ["2023-10-31", "2023-12-15"]


def test_everything_is_the_filter_without_conditions() -> None:
    assert parse_filter({}, VOCABULARY) == EVERYTHING and matches(EVERYTHING, {})
    assert to_json(EVERYTHING) == {} and not matches(Or(()), {"source": "a"})
    with pytest.raises(ValueError, match="needs parts"):
        to_json(Or(()))


def highest(levels: int) -> Filter:
    filter_: Filter = EVERYTHING
    for level in range(levels - 1):
        filter_ = (And, Or)[level % 2]((filter_, Condition("source", "$in", ("a",))))
    return filter_


BY_HAND: list[tuple[Callable[[], Any], str]] = [
    (lambda: Condition("source", "$regex", (".*",)), "has the operator '$regex'; choose one of $eq"),  # type: ignore[arg-type]
    (lambda: Condition("source", "$in", ()), "has the values (); give a tuple of one or more"),
    (lambda: Condition("source", "$in", ["Wired"]), "give a tuple"),  # type: ignore[arg-type]
    (lambda: Condition("source", "$eq", ("a", "b")), "compares 2 values by $eq"),
    (lambda: Condition("source", "$in", ("a", 1)), "has values of the types number, string"),
    (lambda: Condition("source", "$eq", (None,)), "has the value None"),  # type: ignore[arg-type]
    (lambda: Condition("source", "$eq", ("\ud800",)), "valid Unicode"),
    (lambda: Condition("words", "$eq", (math.inf,)), "has the value inf"),
    (lambda: Condition("words", "$eq", (2**63,)), "has the value an integer beyond 64 bits"),
    (lambda: Condition("day", "$gt", (dt.datetime(2023, 10, 4),)), "datetime.datetime(2023, 10, 4, 0, 0)"),
    (lambda: Condition("day", "$gt", (Period(2023),)), "by order; give a number or a day"),
    (lambda: Condition("source", "$lt", ("a",)), "compares 'a' by order"),
    (lambda: Condition("source", "$exists", ("yes",)), "give True or False"),
    (lambda: Condition("source", "$in", ("a",), negated=True), "use the opposite operator"),
    (lambda: Condition("\ud800", "$in", ("a",)), "names no field"),
    (lambda: Condition("words", "$in", (10**5000,)), "has the value an integer beyond 64 bits; give a string"),
    (lambda: Condition(7, "$in", ("a",)), "names no field"),  # type: ignore[arg-type]
    (lambda: And(({"source": "a"},)), "is not a filter"),  # type: ignore[arg-type]
    (lambda: highest(MAX_HEIGHT + 1), f"more than {MAX_HEIGHT} deep"),
]


@pytest.mark.parametrize(("make", "says"), BY_HAND, ids=[says for _, says in BY_HAND])
def test_a_filter_made_by_hand_is_checked_when_it_is_made(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value).startswith("filter: ") and says in str(error.value) and "; " in str(error.value)


@pytest.mark.parametrize("store", [by_matches, by_store, by_store_of_few_parameters, by_chunks])
def test_a_filter_of_many_parts_is_read_by_every_store(store: Callable[..., Any], tmp_path: Path) -> None:
    parts = tuple(Condition("words", "$eq", (number,)) for number in range(1500))
    find = store({"a": {"words": 1499}, "b": {"words": 1500}}, tmp_path)
    assert find(Or(parts)) == ["a"] and find(And(parts)) == []


def test_the_highest_filter_made_by_hand_is_read_by_every_store(tmp_path: Path) -> None:
    for store in (by_matches, by_store, by_chunks):
        find = store({"a": {"source": "a"}, "b": {}}, tmp_path)
        assert find(highest(MAX_HEIGHT)) == ["a"]
