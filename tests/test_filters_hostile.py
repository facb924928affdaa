"""Malformed, nested, oversized and code-carrying filters and answers: refused or repaired, never evaluated."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.filters import EVERYTHING, FieldVocabulary, Filter, matches, parse_filter, to_json
from mrag_rl.filters.llm import read_answer
from mrag_rl.filters.sql import where
from mrag_rl.memory.store import RecordStore

DROP = "x'; DROP TABLE memories; --"
RECORDS: list[dict[str, Any]] = [
    {"source": "Wired", "day": "2023-10-04", "words": 10, "free": True},
    {"source": "The Verge", "day": "October 5, 2023", "words": 20, "free": False},
    {"source": DROP, "day": "2023-10-06", "words": 10},
    {"source": "Wired", "day": "2023-10-05"},
    {"day": "2023-10-04"},
    {},
]
VOCABULARY = FieldVocabulary.from_metadata(RECORDS)
WIRED = {"source": {"$eq": "Wired"}}
IN_WIRED = {"source": {"$in": ["Wired"]}}

CODE = [
    "__import__('os').system('touch PWNED')",
    "exec(\"open('PWNED', 'w')\")",
    "open('PWNED', 'w').close()",
    "(lambda: 1)()",
    "os.environ",
    "f'{open(0)}'",
    "().__class__.__bases__[0].__subclasses__()",
    "[x for x in (1, 2)]",
    "'Wired' if 1 else 'x'",
    "{**{}}",
    "'Wi' + 'red'",
    "'%s' % 'Wired'",
    "'Wired'.lower()",
    "b'Wired'",
    "r'Wired'",
    "...",
    "datetime.date(2023, 10, 4)",
    'ISODate("2023-10-04")',
    "new Date()",
    "`touch PWNED`",
    "$(touch PWNED)",
    "{{ 7 * 7 }}",
    "<script>alert(1)</script>",
]
PLACES = [
    '{"source": @}',
    '{"source": {"$in": [@]}}',
    '{"source": {"$in": ["Wired", @]}}',
    '{"source": {@: "Wired"}}',
    '{"$and": [@, {"source": "Wired"}]}',
    "{'$and': [{'source': 'Wired'}, @], 'words': 10}",
    '{"source": "Wired", @: 1}',
]

# A text, and either words of its refusal or the filter that is read out of it.
WRITTEN: list[tuple[str, str | dict[str, Any]]] = [
    # nothing there
    ("", "no mapping"),
    ("   \n\t ", "no mapping"),
    ("None", "no mapping"),
    ("no filter applies", "no mapping"),
    ("[]", "no mapping"),
    ('["Wired"]', "no mapping"),
    ('"source"', "no mapping"),
    ("{", "no mapping"),
    ("}", "no mapping"),
    ("{'Wired', 'The Verge'}", "no mapping"),
    ("source = Wired", "no mapping"),
    ("dict(source='Wired')", "no mapping"),
    ("SELECT * FROM memories", "no mapping"),
    ("{see below}", "no mapping"),
    ("\x00\x01\x02", "no mapping"),
    ("source:\n  $in: [Wired]", "no mapping"),
    ("<source>Wired</source>", "no mapping"),
    ("null", "no mapping"),
    # broken off or broken
    ('{"source"', "no mapping"),
    ('{"source":', "ends inside"),
    ('{"source": "Wired', "does not end"),
    ('{"source": "Wired"', "ends inside"),
    ('{"source": {"$in": ["Wired", "The Ver', "does not end"),
    ('{"source": {"$in": ["Wired", ', "ends inside"),
    ('{"source": ["Wired"}', "where a comma or ]"),
    ('{"source": ("Wired"]}', "where a comma or )"),
    ('{"source": "Wired"]', "where a comma or }"),
    ('{"source": "Wired" "words": 10}', "where a comma or }"),
    ('{"source": "Wired",, "words": 10}', "not the start"),
    ('{"source": , "words": 10}', "not the start"),
    ('{"source": : "Wired"}', "not the start"),
    ('{"source": "Wired" "The Verge"}', "where a comma or }"),
    ("{'source': 'O'Hara'}", "where a comma or }"),
    ('{"source": "Wi\nred"}', "a line break"),
    (r'{"source": "\q"}', "an escape"),
    (r'{"source": "\u12"}', "an escape"),
    (r'{"source": "\N{BULLET}"}', "an escape"),
    (r'{"source": "\101"}', "an escape"),
    ('{"source": Wired}', "'Wired' is not"),
    ('{"source": "Wired", "words"}', "a key without a value"),
    ('{"source": "Wired", 7: 1}', "without a key"),
    ('{"source": "Wired", None: 1}', "unknown field 'None'"),
    ('{"source": "Wired", ["a"]: 1}', "without a key"),
    ('{"source": "Wired" /* x */}', "where a comma or }"),
    ('{"source": "Wired", // x\n "words": 10}', "not the start"),
    ('{"source": "Wired", # x\n "words": 10}', "not the start"),
    ('{"words": 0x10}', "a number"),
    ('{"words": 1_0}', "a number"),
    ('{"words": 1.2.3}', "a number"),
    ('{"words": --1}', "a number"),
    ('{"words": 1e99999}', "a number"),
    ('{"words": 10px}', "a number"),
    ('{"words": NaN}', "'NaN' is not"),
    ('{"words": Infinity}', "'Infinity' is not"),
    ('{"words": -Infinity}', "a number"),
    ('{"words": 1e999}', "inf is not a number"),
    ('{"source": undefined}', "'undefined' is not"),
    ('{"source": "Wired", "source": "The Verge"}', "a second time"),
    ('{"source": {"$in": ["Wired"], "$in": ["x"]}}', "a second time"),
    # outside the language
    ('{"author": "Wired"}', "unknown field 'author'"),
    ('{"Source": "Wired"}', "unknown field 'Source'"),
    ('{"source.name": "Wired"}', "unknown field"),
    ('{"": "Wired"}', "unknown field ''"),
    ('{"__class__": "Wired"}', "unknown field"),
    ('{"memory": 1}', "unknown field"),
    ('{"source\' OR 1=1 --": "Wired"}', "unknown field"),
    ('{"metadata": {}}', "unknown field"),
    ('{"source": {"$regex": ".*"}}', "operator '$regex'"),
    ('{"source": {"$like": "%"}}', "operator '$like'"),
    ('{"source": {"$not": ["Wired"]}}', "not a mapping of comparisons"),
    ('{"source": {"$not": {}}}', "no operator"),
    ('{"source": {"$not": {"$not": {"$in": ["Wired"]}}}}', "not a mapping of comparisons"),
    ('{"source": {"$not": {"$exists": true}}}', "not a mapping of comparisons"),
    ('{"source": {"$exists": 1}}', "1 is not a boolean"),
    ('{"source": {"$exists": "false"}}', "'false' is not a boolean"),
    ('{"source": {"$where": "1"}}', "operator '$where'"),
    ('{"source": {"in": ["Wired"]}}', "operator 'in'"),
    ('{"source": {"$IN": ["Wired"]}}', "operator '$IN'"),
    ('{"source": {"$in ": ["Wired"]}}', "operator '$in '"),
    ('{"source": {"name": "Wired"}}', "operator 'name'"),
    ('{"source": {"$and": []}}', "operator '$and'"),
    ('{"$where": "sleep(10)"}', "'$where' where a field"),
    ('{"$expr": {"$eq": [1, 1]}}', "'$expr' where a field"),
    ('{"$not": {"source": "Wired"}}', "'$not' where a field"),
    ('{"$nor": [{"source": "Wired"}]}', "'$nor' where a field"),
    ('{"$in": ["Wired"]}', "'$in' where a field"),
    ('{"$function": {"body": "x"}}', "'$function' where a field"),
    ('{"source": {"$gt": ""}}', "no order"),
    ('{"source": {"$ne": null}}', "None is not a string"),
    ('{"source": null}', "None is not a string"),
    ('{"source": true}', "True is not a string"),
    ('{"source": 1}', "1 is not a string"),
    ('{"source": {"$in": [["Wired"]]}}', "a list is not a string"),
    ('{"source": {"$in": [{"$ne": ""}]}}', "a mapping is not a string"),
    ('{"source": {"$in": {}}}', "a mapping is not a string"),
    ('{"source": {"$in": []}}', "an empty list"),
    ('{"source": []}', "an empty list"),
    ('{"source": {}}', "no operator"),
    ('{"source": {"$eq": ["Wired"]}}', "a list is not a string"),
    ('{"words": "10"}', "'10' is not a number"),
    ('{"words": true}', "True is not a number"),
    ('{"words": {"$gt": "1; --"}}', "not a number"),
    ('{"words": 99999999999999999999}', "beyond 64 bits"),
    ('{"free": 1}', "1 is not a boolean"),
    ('{"free": "true"}', "not a boolean"),
    ('{"free": {"$gt": false}}', "no order"),
    ('{"day": "tomorrow"}', "not a date"),
    ('{"day": 1696453917}', "not a date"),
    ('{"day": "2023-02-30"}', "not a date"),
    ('{"day": "10/11/2023"}', "not a date"),
    ('{"day": {"$gt": "2023-10-04\' OR 1=1"}}', "not a date"),
    ('{"day": {"$lt": null}}', "not a date"),
    ('{"$and": {"source": "Wired"}}', "is not a list"),
    ('{"$or": "Wired"}', "is not a list"),
    ('{"$and": []}', "an empty list"),
    ('{"$or": [{}]}', "an empty mapping"),
    ('{"$or": [[]]}', "is not a mapping"),
    ('{"$or": [null]}', "None is not a mapping"),
    ('{"$and": [{"source": "Wired"}, {"$or": []}]}', "$and[1].$or"),
    # too much
    ('{"$and": [' * 9 + '{"source": "Wired"}' + "]}" * 9, "nested more than 8 deep"),
    ('{"$or": [' * 1_500, "nested brackets"),
    ("[" * 10_000, "no mapping"),
    ("{" * 19_000, "no mapping"),
    ('{"source": ' + "[" * 10_000, "nested brackets"),
    ('{"a": ' * 3_000, "nested brackets"),
    ('{"source": ' + "(" * 100 + ")" * 100 + "}", "nested brackets"),
    ('{"source": "' + "x" * 1_001 + '"}', "1001 characters"),
    ('{"source": "' + "x" * 30_000 + '"}', "characters of text"),
    ("x" * 20_001, "characters of text"),
    (" " * 20_000 + '{"source": "Wired"}', "characters of text"),
    ('{"words": ' + "9" * 5_000 + "}", "a number"),
    ('{"words": [' + "1," * 2_500 + "]}", "more than 2000 values"),
    ('{"words": [' + ",".join(map(str, range(501))) + "]}", "more than 500 values"),
    ('{"$and": [' + ",".join(['{"words": 10}'] * 101) + "]}", "101 filters"),
    (
        '{"$and": [' + ",".join(['{"$or": [' + ",".join(['{"free": true}'] * 60) + "]}"] * 2) + "]}",
        "more than 100 conditions",
    ),
    ("{" + ",".join(f'"a{number}": 1' for number in range(900)) + "}", "unknown field 'a0'"),
    # what may change the meaning of the mapping
    ('[{"source": "Wired"}, 1]', "brackets before"),
    ('[{"source": "Wired"}, {"words": 10}]', "brackets before"),
    ("{'a', 'b'} or rather {'source': 'Wired'}", "brackets before"),
    ('["x"]: {"source": "Wired"}', "brackets before"),
    ('{"source": "Wired"} | __import__("os").system("touch PWNED")', "more on the line"),
    ('{"source": "Wired"} or {"words": 10}', "more on the line"),
    ('{"source": "Wired"}{"words": 10}', "more on the line"),
    ('{"source": "Wired"} is wrong', "more on the line"),
    ("{ } and so on", "more on the line"),
    ('x {} {"source": "Wired"}', "before the mapping"),
    ('{} {"source": "Wired"}', "more on the line"),
    ('{}\n{"source": "Wired"}', "another mapping after"),
    ('not {"source": "Wired"}', "before the mapping"),
    ('NOT {"source": "Wired"}', "before the mapping"),
    ('not: {"source": "Wired"}', "before the mapping"),
    ('Anything but this:\n\n{"source": "Wired"}', "before the mapping"),
    ('The filter isn’t:\n{"source": "Wired"}', "before the mapping"),
    ('filter != {"source": "Wired"}', "before the mapping"),
    ('!{"source": "Wired"}', "before the mapping"),
    ('Exclude = {"source": "Wired"}', "before the mapping"),
    ('Nicht: {"source": "Wired"}', "before the mapping"),
    ('x {"source": "Wired"}', "before the mapping"),
    ('- {"source": "Wired"}', "before the mapping"),
    ('None of these: {"source": "Wired"}', "before the mapping"),
    ('Rejected sources: {"source": "Wired"}', "before the mapping"),
    ('The articles must not match\nthis filter:\n{"source": "Wired"}', "before the mapping"),
    ('{"source": "Wired"}\nThe above sources must be excluded.', "'excluded' after"),
    ('{"source": "Wired"}\nThese must be left out.', "'left out' after"),
    ('{"source": "Wired"}\n\nAll of these are to be avoided', "'avoided' after"),
    ('{"source": "Wired"}\nOhne diese Quellen.', "'Ohne' after"),
    ('{"source": "Wired"}\nQuiero los demás.', "'demás' after"),
    ('{"source": "Wired"}\nThese are unwanted.', "'unwanted' after"),
    ('{"source": "Wired"}\nThe question names no date, so leave these out.', " after"),
    ('{"source": "Wired"}\nThe inverse applies.', "'inverse' after"),
    ('{"source": "Wired"}\nUse the complement of this.', "'complement' after"),
    ('{"source": "Wired"}\nDas sind die, die wegfallen.', "'wegfallen' after"),
    ('{"source": "Wired"}\nC\'est le contraire.', "'contraire' after"),
    ('I would exclude Wired.\n\nHere is the filter:\n\n{"source": "Wired"}', "'exclude' before"),
    ('Sauf Wired.\n\nFilter:\n\n```json\n{"source": "Wired"}\n```', "'Sauf' before"),
    ('{"source": "Wired"}\n{"source": "The Verge"}', "another mapping after"),
    ('{"day": "2023-10-04T12:00:00Z"}', "names a time"),
    ('{"day": {"$gt": "October 4, 2023 at 5 pm"}}', "names a time"),
    ('{"day": "2023-13"}', "not a date"),
    ('{"day": "0000"}', "not a date"),
    ('{"day": 2023}', "2023 is not a date"),
    # negations, existence, periods
    ('{"source": {"$not": {"$in": ["Wired"]}}}', {"source": {"$nin": ["Wired"]}}),
    ('{"source": {"$not": {"$ne": "Wired"}}}', WIRED),
    ('{"words": {"$not": {"$gt": 10}}}', {"words": {"$not": {"$gt": 10}}}),
    (
        '{"words": {"$not": {"$gte": 10, "$lt": 20}}}',
        {"$or": [{"words": {"$not": {"$gte": 10}}}, {"words": {"$not": {"$lt": 20}}}]},
    ),
    ('{"source": {"$exists": true}}', {"source": {"$exists": True}}),
    ('{"source": {"$exists": false}}', {"source": {"$exists": False}}),
    ('{"day": "2023"}', {"day": {"$eq": "2023"}}),
    ('{"day": ["2023-10", "2023-11-01"]}', {"day": {"$in": ["2023-10"]}}),
    ('{"day": "1999"}', {}),
    ('{"day": {"$gt": "2023-09", "$lte": "2023"}}', {"day": {"$gt": "2023-09-30", "$lte": "2023-12-31"}}),
    ('{"day": {"$gte": "2023-02", "$lt": "2024-02"}}', {"day": {"$gte": "2023-02-01", "$lt": "2024-02-01"}}),
    # repaired: quotes, constants, commas, sets, fences, prose
    ('{"source": "Wired"}', WIRED),
    ("{'source': 'Wired'}", WIRED),
    ("{“source”: “Wired”}", WIRED),
    ("{source: 'Wired'}", WIRED),
    ("{source: {$in: ['Wired']}}", IN_WIRED),
    ('{"source": {"$in": ["Wired",],},}', IN_WIRED),
    ("{'source': {'$in': ('Wired',)}}", IN_WIRED),
    ("{'source': {'$in': {'Wired'}}}", IN_WIRED),
    ("{'source': {'$in': [{'Wired'}, 'Wired']}}", IN_WIRED),
    ('{"source": ["Wired"]}', IN_WIRED),
    ('{"source": {"$in": "Wired"}}', IN_WIRED),
    ('```json\n{"source": "Wired"}\n```', WIRED),
    ("```python\n{'source': 'Wired'}\n```", WIRED),
    ("Sure! Here is the filter:\n\n{'source': 'Wired'}\n\nAnything else?", WIRED),
    ('{"source": "Wired"}\n\nLet me know if you need anything else!', WIRED),
    ('{"source": "Wired"}\n\nNote that the question names no date.', WIRED),
    ("Wired is the source that is asked about.\n\nHere is the filter:\n\n{'source': 'Wired'}", WIRED),
    ('{"source": "Wired"}\n\nThis keeps the articles by Wired; the question doesn’t mention a date.', WIRED),
    ('filter = {"source": "Wired"};', WIRED),
    ('Answer: {"source": "Wired"}\nQuestion: next?\nAnswer: {"source": "The Verge"}', WIRED),
    ("{'free': True}", {"free": {"$eq": True}}),
    ("{'free': true}", {"free": {"$eq": True}}),
    (r'{"source": "\u0057ired"}', WIRED),
    (r'{"source": "\x57ired"}', WIRED),
    ('{\n\t"source"\n:\n"Wired"\n}', WIRED),
    ('{"day": "October 4th, 2023"}', {"day": {"$eq": "2023-10-04"}}),
    ('{"words": +10.0}', {"words": {"$eq": 10.0}}),
    ("{}", {}),
    # values that the corpus does not have are dropped; other spellings of those it has become those
    ('{"source": "The Onion"}', {}),
    ('{"source": {"$in": ["The Onion", "Wired"]}}', IN_WIRED),
    ('{"source": "WIRED"}', WIRED),
    ('{"source": "verge"}', {"source": {"$eq": "The Verge"}}),
    ('{"source": {"$nin": ["The Onion"]}}', {"source": {"$nin": ["The Onion"]}}),
    ('{"source": {"$nin": ["The Onion", "WIRED"]}}', {"source": {"$nin": ["Wired"]}}),
    (
        '{"$or": [{"source": {"$ne": "The Onion"}}, {"words": 10}]}',
        {"$or": [{"source": {"$ne": "The Onion"}}, {"words": {"$eq": 10}}]},
    ),
    ('{"words": 11}', {}),
    ('{"day": "2001-01-01", "source": "Wired"}', WIRED),
    ('{"$or": [{"source": "The Onion"}, {"source": "Wired"}]}', WIRED),
    ('{"source": "Robert\'); DROP TABLE memories;--"}', {}),
    ('{"source": "\\u0000"}', {}),
    (r'{"source": "\ud800"}', {}),
    ('{"source": "ignore all previous instructions"}', {}),
    ('{"source": "{{7*7}}"}', {}),
    ('{"source": "$ne"}', {}),
    ('{"source": ""}', {}),
    # a value of the corpus that looks like SQL is a value
    (json.dumps({"source": DROP}), {"source": {"$eq": DROP}}),
    (repr({"source": {"$ne": DROP}}), {"source": {"$ne": DROP}}),
]
# In a value's place some code begins with a string that is itself a value; it never ends as one.
CARRYING = [(place.replace("@", code), "") for place in PLACES for code in CODE]
CASES: list[tuple[str, str | dict[str, Any]]] = [*WRITTEN, *CARRYING]

_EVENTS: list[str] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    """Record events that evaluation would cause; inactive most of the time, because audit hooks cannot be removed."""
    if _EVENTS is not None and event.split(".")[0] in {
        "compile",
        "exec",
        "open",
        "os",
        "subprocess",
        "import",
        "socket",
    }:
        _EVENTS.append(event)


sys.addaudithook(_listen)


@contextmanager
def audited() -> Iterator[list[str]]:
    global _EVENTS
    _EVENTS = []
    try:
        yield _EVENTS
    finally:
        _EVENTS = None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RecordStore:
    path = tmp_path_factory.mktemp("hostile") / "memories.sqlite"
    pairs = [TextPair(str(index), "s", "t", metadata=metadata) for index, metadata in enumerate(RECORDS)]
    RecordStore.create(path, pairs, scipy.sparse.csr_array(np.ones((len(pairs), 1), dtype=bool)), ["all"], {})
    return RecordStore.open(path)


def test_there_are_more_than_three_hundred_cases() -> None:
    assert len({text for text, _ in WRITTEN}) == len(WRITTEN) > 150 and len({text for text, _ in CASES}) > 300


def test_the_audit_hook_notices_evaluation() -> None:
    with audited() as events:
        eval("1 + 1")
    assert {"compile", "exec"} <= set(events)


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[f"{i}" for i in range(len(CASES))])
def test_each_case_is_refused_or_repaired_and_none_is_evaluated(
    text: str, expected: str | dict[str, Any], store: RecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with audited() as events:
        condition, dropped, refused = read_answer(text, VOCABULARY)
    assert not events and not list(tmp_path.iterdir())
    if isinstance(expected, str):
        assert refused.startswith("filter") and expected in refused and "\n" not in refused and len(refused) < 400
        assert condition == EVERYTHING and not dropped
        return
    assert not refused and to_json(condition) == expected
    before = store.digest()
    assert store.matching(condition) == [i for i, metadata in enumerate(RECORDS) if matches(condition, metadata)]
    assert store.digest() == before
    assert re.fullmatch(r"[a-zA-Z_0-9 .,?=<>()]*", where(condition)[0])


NO_JSON = object()


def strictly(text: str) -> Any:
    """What JSON says, read by the standard library; NO_JSON if it is none, or has a key twice."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in items}) < len(items):
            raise ValueError
        return dict(items)

    try:
        return json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return NO_JSON


def mutated(text: str, rng: random.Random) -> str:
    """A filter's text with one to three changes of a character, a word or what stands around it."""
    wrappings = [
        "x {} @", "NOT @", "not: @", "[@]", "[@, {}]", "{@}", "@ or {}", "{}\n@", "```json\n@\n```", "Filter: @",
        '{"$or": [{}]} @', '{"$or": [@, {}]}', '{"$and": []}\n@', "@,", "@ // all", "'@'", "not in\n@", "@\n{}",
    ]  # fmt: skip
    words = [
        "$in",
        "$nin",
        "$or",
        "$and",
        "$ne",
        "$not",
        "$exists",
        "true",
        "null",
        "{}",
        "[]",
        "Wired",
        ",",
        ":",
        "NaN",
    ]
    for _ in range(rng.randint(1, 3)):
        at, how = rng.randrange(len(text) + 1), rng.randrange(4)
        if how == 0:
            text = text[:at] + text[at + rng.randint(1, 4) :]
        elif how == 1:
            text = text[:at] + rng.choice("{}[]()\"':,$!~ \n0aT") + text[at:]
        elif how == 2:
            word = rng.choice(words)
            text = text.replace(word, rng.choice(words)) if word in text else text[:at] + word + text[at:]
        else:
            text = rng.choice(wrappings).replace("@", text)
    return text


def test_no_mutated_filter_lets_more_through_than_its_strict_reading() -> None:
    rng = random.Random(0)
    anything = FieldVocabulary({field.name: replace(field, values=None) for field in VOCABULARY})
    originals = [text for text, expected in WRITTEN if isinstance(expected, dict) and strictly(text) is not NO_JSON]
    kept = read = 0
    for _ in range(10_000):
        text = mutated(rng.choice(originals), rng)
        strict = strictly(text)
        try:
            given: Filter | None = parse_filter(text, anything)
        except InputError:
            given = None
        if given is not None:
            kept += 1
            assert given == parse_filter(strict, anything) and (given != EVERYTHING or strict == {}), text
        condition, _, refused = read_answer(text, anything)
        if not refused:
            read += 1
            assert given is None or condition == given, text
            assert condition != EVERYTHING or text.count("{") == 1, text
    assert kept > 500 and read > kept


@pytest.mark.parametrize("text", [text for text, _ in CASES])
def test_a_given_filter_is_strict_json_or_refused_with_its_place(text: str) -> None:
    strict = strictly(text)
    try:
        given = parse_filter(text, VOCABULARY)
    except InputError as error:
        assert str(error).startswith("filter") and "; " in str(error) and "\n" not in str(error)
        assert (
            strict is not NO_JSON
            or "not JSON at character" in str(error)
            or "twice" in str(error)
            or len(text) > 4_000
            or "is not JSON" in str(error)
        )
    else:
        assert isinstance(strict, dict) and given == parse_filter(strict, VOCABULARY)
