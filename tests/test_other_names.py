"""Other names of values: words of other languages, synonyms, and surnames of persons."""

from __future__ import annotations

from importlib.resources import files

import pytest

from mrag_rl.filters import Field, FieldVocabulary, RuleExtractor, to_json
from mrag_rl.filters.names import key
from mrag_rl.filters.other_names import other_names

FIELDS = [
    Field("kind", "string", dict.fromkeys(["television", "washing machine", "laptop", "headphones"], 5)),
    Field("colour", "string", dict.fromkeys(["red", "black", "white"], 5)),
    Field("destination", "string", dict.fromkeys(["Vienna", "Lisbon", "Crete"], 5)),
    Field("lang", "string", dict.fromkeys(["en", "fr", "de"], 5), description="language of the manual"),
    Field("presidingJudge", "string", dict.fromkeys(["Eleanor Whitcombe", "Rajiv Menon", "Ann Menon", "Li"], 5)),
    Field("agent", "string", dict.fromkeys(["Tom Becker", "Mei Tanaka", "Mei Long", "Daniel O'Connor"], 5)),
    Field("maker", "string", dict.fromkeys(["LG Electronics", "Acme Electronics"], 5)),
    Field("court", "string", dict.fromkeys(["Employment Appeal Tribunal", "High Court"], 5)),
    Field("hall", "string", dict.fromkeys(["Wigmore Hall", "Royal Opera House"], 5)),
]
RULES = RuleExtractor(FieldVocabulary({field.name: field for field in FIELDS}))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("TVs for sale in Vienna", {"kind": ["television"], "destination": ["Vienna"]}),
        ("Fernseher in Wien", {"kind": ["television"], "destination": ["Vienna"]}),
        ("televisores rojos", {"kind": ["television"], "colour": ["red"]}),
        ("un lave-linge blanc", {"kind": ["washing machine"], "colour": ["white"]}),
        ("schwarze Kopfhörer", {"kind": ["headphones"], "colour": ["black"]}),
        ("séjours à Lisbonne ou en Crète", {"destination": ["Lisbon", "Crete"]}),
        ("laptops with a manual in French", {"kind": ["laptop"], "lang": ["fr"]}),
        ("rulings by Judge Whitcombe", {"presidingJudge": ["Eleanor Whitcombe"]}),
        ("rulings by Menon", {}),  # Two judges
        ("rulings by Eleanor Whitcombe", {"presidingJudge": ["Eleanor Whitcombe"]}),
        ("concerts in the Opera House", {}),  # A hall has no surname
        ("everything that Tom has closed", {"agent": ["Tom Becker"]}),
        ("tickets of Mei", {}),  # Two agents
        ("tickets of O'Connor", {"agent": ["Daniel O'Connor"]}),
        ("something by LG", {"maker": ["LG Electronics"]}),
        ("something by Acme", {}),
        ("EAT rulings", {"court": ["Employment Appeal Tribunal"]}),
    ],
)
def test_values_are_known_by_their_other_names(question: str, expected: dict[str, list[str]]) -> None:
    assert to_json(RULES.extract([question])[0].filter) == {name: {"$in": values} for name, values in expected.items()}


def test_blank_values_and_fields_without_a_word_have_no_short_forms() -> None:
    blank = Field("maker", "string", {"": 3, "  ": 3, "LG Electronics": 3})
    rules = RuleExtractor(FieldVocabulary({"maker": blank, "###": Field("###", "string", {"red": 3, "blue": 3})}))
    assert to_json(rules.extract(["something by LG, well-made"])[0].filter) == {"maker": {"$in": ["LG Electronics"]}}


def test_what_is_a_value_itself_stands_for_nothing_else() -> None:
    both = Field("kind", "string", {"television": 2, "TV": 3})
    rules = RuleExtractor(FieldVocabulary({"kind": both}))
    assert to_json(rules.extract(["a TV in the kitchen"])[0].filter) == {"kind": {"$in": ["TV"]}}
    assert other_names(both)["Fernseher"] == ("television", "TV")


def test_the_table_has_a_meaning_in_each_row_and_no_form_twice_in_it() -> None:
    lines = files("mrag_rl.filters").joinpath("equal_words.txt").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line and not line.startswith("#")]
    assert len(rows) > 1000
    for row in rows:
        parts = [part.split(": ", 1) for part in row.split("; ")]
        languages = [language for language, _ in parts]
        assert languages == [language for language in ("en", "de", "fr", "es") if language in languages], row
        for _, words in parts:
            forms = words.split(", ")
            assert all(form == form.strip() and key(form) for form in forms), row
            assert len(set(forms)) == len(forms), row
