"""Punctuation, spelling and periods by which questions say what they exclude, and when."""

from __future__ import annotations

import datetime as dt
import unicodedata
from typing import Any

import pytest

from mrag_rl.filters import FieldVocabulary, RuleExtractor, to_json

RECORDS = [
    {"source": source, "published_at": day, "wireless": wireless, "category": category}
    for source, day, wireless, category in (
        ("Wired", "2023-10-04", True, "tech"),
        ("Die Müller-Post", "2023-10-05", False, "sports"),
        ("Fortune", "2023-11-01", True, "business"),
        ("TechCrunch", "2023-11-04", False, "tech"),
    )
] * 3
BOTH, ONE = {"source": {"$nin": ["Wired", "Fortune"]}}, {"source": {"$nin": ["Wired"]}}
NAMED = {"source": {"$in": ["Wired", "Fortune"]}}
MUTE = {"wireless": {"$eq": False}}


@pytest.fixture(scope="module")
def rules() -> RuleExtractor:
    return RuleExtractor(FieldVocabulary.from_metadata(RECORDS), today=dt.date(2026, 11, 28))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What happened with AI? Exclude the following sources: Wired, Fortune.", BOTH),
        ("All sources except these two: Wired and Fortune", BOTH),
        ("Do not use: Wired", ONE),
        ("Don't include: Wired", ONE),
        ("Excluded sources: Wired, Fortune", BOTH),
        ("Please leave these out: Wired, Fortune", BOTH),
        ("Everything except the following (Wired, Fortune)", BOTH),
        ("NOT (Wired OR Fortune)", BOTH),
        ("exclude \n- Wired\n- Fortune", BOTH),
        ("exclude:\n1. Wired\n2. Fortune", BOTH),
        ("Please leave these out:\n* Wired\n* Fortune", BOTH),
        ("NOT source:Wired", ONE),
        ("AI -source:(Wired OR Fortune)", BOTH),
        ('NOT source="Wired"', ONE),
        ("-category:tech", {"category": {"$nin": ["tech"]}}),
        ("Schließe folgende Quellen aus: Wired, Fortune.", BOTH),
        ("Ohne folgende Quellen: Wired", ONE),
        ("Sauf les sources suivantes : Wired et Fortune", BOTH),
        ("Excluye las siguientes fuentes: Wired y Fortune", BOTH),
        ("articles **not** by Wired", ONE),
        ("Exclude the following dates: October 4, 2023", {"published_at": {"$nin": ["2023-10-04"]}}),
        ("wireless: no", MUTE),
        ("wireless = false", MUTE),
        ("wireless: yes", {"wireless": {"$eq": True}}),
        ("Exclude: wireless", MUTE),
        ("exclude wireless headphones", MUTE),
        ("headphones without (wireless)", MUTE),
        ("Only these sources: Wired, Fortune", NAMED),
        ("Nothing but: Wired, Fortune", NAMED),
    ],
)
def test_lists_are_excluded_with_any_punctuation(rules: RuleExtractor, question: str, expected: Any) -> None:
    assert to_json(rules.extract([question])[0].filter) == expected


@pytest.mark.parametrize("apostrophe", ["", "'", "’", "ʼ", "`", "´", "′", "＇"])
def test_contractions_deny_with_any_apostrophe(rules: RuleExtractor, apostrophe: str) -> None:
    for question in ("don't use Wired", "pls don't show Wired articles", "AI stories that weren't published by Wired"):
        assert to_json(rules.extract([question.replace("'", apostrophe)])[0].filter) == ONE
    question = "don't use articles published after October 4, 2023".replace("'", apostrophe)
    assert to_json(rules.extract([question])[0].filter) == {"published_at": {"$lte": "2023-10-04"}}
    assert to_json(rules.extract(["headphones that aren't wireless".replace("'", apostrophe)])[0].filter) == MUTE


def test_what_may_be_denied_in_a_heading_is_left_out(rules: RuleExtractor) -> None:
    for question in (
        "! Wired",
        "Exclude these silly papers: Wired and Fortune",
        "Nothing silly, please: Wired",
        "What did these not report (Wired, Fortune)?",
        "les articles dont la source est Wired",
        "Un article dont Wired n'est pas la source",
    ):
        extraction = rules.extract([question])[0]
        assert to_json(extraction.filter) == {} and extraction.dropped, question


def test_letters_may_be_composed_or_not(rules: RuleExtractor) -> None:
    for question in ("Was schreibt Die Müller-Post vor dem 4. März 2023?", "nichts aus Die Müller-Post"):
        composed, decomposed = rules.extract([unicodedata.normalize(form, question) for form in ("NFC", "NFD")])
        assert to_json(composed.filter) and composed.filter == decomposed.filter


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("before last year", {"$lte": "2024-12-31"}),
        ("before last week", {"$lte": "2026-11-15"}),
        ("after last week", {"$gte": "2026-11-23"}),
        ("since last month", {"$gte": "2026-10-01"}),
        ("until yesterday", {"$lte": "2026-11-27"}),
        ("between last month and now", {"$gte": "2026-10-01"}),
        ("from last week to today", {"$gte": "2026-11-16"}),
        ("before the last 30 days", {"$lte": "2026-10-28"}),
        ("last week", {"$gte": "2026-11-16", "$lte": "2026-11-22"}),
        ("vor letztem Jahr", {"$lte": "2024-12-31"}),
        ("avant l'année dernière", {"$lte": "2024-12-31"}),
        ("antes del año pasado", {"$lte": "2024-12-31"}),
        ("in 2023 at the latest", {"$lte": "2023-12-31"}),
        ("in 2023 at the earliest", {"$gte": "2023-01-01"}),
        ("after or in 2023", {"$gte": "2023-01-01"}),
        ("2023-10-04..2023-11-01", {"$gte": "2023-10-04", "$lte": "2023-11-01"}),
        ("the day before yesterday", None),
        ("avant hier", None),
        ("between last month and last week", None),
        ("from 2023 to 2022", None),
    ],
)
def test_periods_are_bounds_where_the_words_before_say_so(rules: RuleExtractor, phrase: str, expected: Any) -> None:
    extraction = rules.extract([f"articles published {phrase}"])[0]
    assert to_json(extraction.filter) == ({"published_at": expected} if expected else {})
    assert expected or extraction.dropped


def test_today_may_be_told_anew_for_each_question() -> None:
    days = iter([dt.date(2026, 11, 28), dt.date(2026, 11, 29)])
    rules = RuleExtractor(FieldVocabulary.from_metadata(RECORDS), today=lambda: next(days))
    first, second = rules.extract(["articles published since yesterday"] * 2)
    assert to_json(first.filter) == {"published_at": {"$gte": "2026-11-27"}}
    assert to_json(second.filter) == {"published_at": {"$gte": "2026-11-28"}}
