"""Vocabularies of a corpus, filters read out of questions by rules and by a language model, and their evaluation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import evaluate
from mrag_rl.data.records import Document
from mrag_rl.errors import InputError
from mrag_rl.filters import EVERYTHING, FieldVocabulary, LLMExtractor, RuleExtractor, parse_filter, to_json
from mrag_rl.filters.language import conditions
from mrag_rl.filters.llm import examples
from mrag_rl.filters.names import aliases
from mrag_rl.filters.scoring import agreement, atoms, cost, only_known
from mrag_rl.generation import Prompt, Usage
from tests.tiny import TextsOnly

SOURCES = [
    "The Harbour Post", "Meridian", "The Tide", "NewsForge", "Northern Broadcasting - Sport",
    "Northern Broadcasting - Arts", "Cnx | World Trade Leader", "Deep Field: The Boldest Papers", "PlayDaily.com",
    "Rock & Root", "Morning Ledger",
]  # fmt: skip
DAYS = ["October 4, 2023", "October 5, 2023", "October 28, 2023", "November 6, 2023", "December 15, 2023"]


def corpus() -> list[Document]:
    """Three articles of every source: one a day, by turns, and by turns about sport and trade."""
    return [
        Document(
            f"{source}-{copy}",
            "Text.",
            title=f"Title {number} {copy}",
            category=["sport", "trade"][(number + copy) % 2],
            metadata={"source": source, "published_at": DAYS[(number + copy) % 5], "words": 100 * copy, "tags": None},
        )
        for number, source in enumerate(SOURCES)
        for copy in range(3)
    ]


VOCABULARY = FieldVocabulary.from_documents(corpus())
RULES = RuleExtractor(VOCABULARY)
BROADCASTING = ["Northern Broadcasting - Arts", "Northern Broadcasting - Sport"]


def read(question: str) -> dict[str, Any]:
    condition = to_json(RULES.extract([question])[0].filter)
    for operators in condition.values():
        for name, values in operators.items():
            if isinstance(values, list):
                operators[name] = sorted(values)
    return condition


# -- vocabulary ----------------------------------------------------------------------------------------------------


def test_fields_and_values_come_from_the_documents() -> None:
    assert {field.name: (field.type, field.facet) for field in VOCABULARY} == {
        "title": ("string", False),
        "category": ("string", True),
        "source": ("string", True),
        "published_at": ("date", True),
        "words": ("number", True),
    }
    assert dict(VOCABULARY["source"].values or {}) == dict.fromkeys(SOURCES, 3)
    assert {str(day) for day in VOCABULARY["published_at"].values or ()} == {
        "2023-10-04", "2023-10-05", "2023-10-28", "2023-11-06", "2023-12-15"
    }  # fmt: skip
    assert list(VOCABULARY["words"].values or ()) == [0, 100, 200]


def test_fields_of_mixed_types_or_of_objects_are_omitted() -> None:
    fields = FieldVocabulary.from_metadata(
        [{"a": 1, "b": {"x": 1}, "c": True, "d": [1, 2], "e": None, "$f": 1, "g": "2023-10-04"},
         {"a": "1", "b": "x", "c": False, "d": 3, "g": "soon"}]
    )  # fmt: skip
    assert {field.name: field.type for field in fields} == {"c": "boolean", "d": "number", "g": "string"}
    assert len(list(FieldVocabulary.from_metadata([{"a": 10**400}]))) == 0  # beyond all floats
    assert list(fields["c"].values or ()) == [False, True] and list(fields["d"].values or ()) == [1, 2, 3]


def test_what_cannot_be_encoded_is_neither_field_nor_value() -> None:
    broken = "Wi\ud800red"
    fields = FieldVocabulary.from_metadata(
        [{"source": name, broken: "x", "tag": broken} for name in ("Wired", "Wired", broken)]
    )
    assert [field.name for field in fields] == ["source"] and list(fields["source"].values or ()) == ["Wired"]
    (extraction,) = RuleExtractor(fields).extract([f"What do {broken} and Wired report on x?"])
    assert to_json(extraction.filter) == {"source": {"$in": ["Wired"]}}


def test_fields_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fields.json"
    path.write_text(
        json.dumps(
            {
                "source": {"type": "string", "values": SOURCES},
                "day": {"type": "date", "format": "%B %-d, %Y", "values": ["October 4, 2023"]},
                "author": {},
            }
        )
    )
    fields = FieldVocabulary.from_file(path)
    assert list(fields["source"].values or ()) == SOURCES and fields["author"].values is None
    (day,) = list(fields["day"].values or [])
    assert str(day) == "2023-10-04" and fields["day"].written(day) == "October 4, 2023"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "no fields"),
        ("{}", "no fields"),
        ('{"a": 1}', "field 'a' is not an object"),
        ('{"$in": {}}', "cannot be a field's name"),
        ('{"a": {"type": "text"}}', "choose one of string, number, date, boolean"),
        ('{"a": {"kind": "string"}}', "unknown key 'kind'"),
        ('{"a": {"values": []}}', '"values" is not a list of values'),
        ('{"a": {"values": ["x", 1]}}', "1 is not a string"),
        ('{"a": {"type": "date", "values": ["soon"]}}', "'soon' is not a date"),
        ('{"a": {"format": 1}}', '"format" is not a string'),
        ('{"a": {"type": "number", "values": [1' + "0" * 400 + "]}}", "too large for 64 bits"),
        ('{"a": ' + "[" * 100_000, "nested too deep"),
        ('{"a": 1' + "0" * 5_000 + "}", "too large for 64 bits"),
    ],
)
def test_a_bad_file_of_fields_is_named(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "fields.json").write_text(text)
    with pytest.raises(InputError) as error:
        FieldVocabulary.from_file(tmp_path / "fields.json")
    assert says in str(error.value) and "fields.json" in str(error.value) and "\n" not in str(error.value)


def test_values_that_the_corpus_lacks_are_dropped_and_reported() -> None:
    def known(written: dict[str, Any]) -> tuple[dict[str, Any], int]:
        condition, dropped = VOCABULARY.keep_known(parse_filter(written, VOCABULARY))
        return to_json(condition), len(dropped)

    assert known({"source": {"$in": ["Meridian", "The Onion"]}}) == ({"source": {"$in": ["Meridian"]}}, 1)
    assert known({"source": "The Onion"}) == ({}, 1)
    assert known({"source": "CNX"}) == ({"source": {"$eq": "Cnx | World Trade Leader"}}, 0)
    assert known({"source": {"$ne": "northern broadcasting"}})[0] == {"source": {"$nin": BROADCASTING}}
    assert known({"published_at": {"$in": ["2023-10-04", "2024-01-01"]}}) == (
        {"published_at": {"$in": ["2023-10-04"]}}, 1
    )  # fmt: skip
    assert known({"published_at": {"$gt": "2024-01-01"}}) == ({"published_at": {"$gt": "2024-01-01"}}, 0)
    assert known({"$or": [{"source": "The Onion"}, {"words": 100}]}) == ({"words": {"$eq": 100}}, 1)
    either = {"$or": [{"source": {"$ne": "The Onion"}}, {"words": {"$eq": 100}}]}
    assert known(either) == (either, 1)
    assert known({"source": {"$nin": ["The Onion"]}}) == ({"source": {"$nin": ["The Onion"]}}, 1)
    assert known({"$or": [{"source": "x"}, {"words": 7}]}) == ({}, 2)


def test_a_name_has_its_shorter_forms() -> None:
    assert aliases("The Tide") == ["The Tide", "Tide"]
    assert set(aliases("Deep Field: The Boldest Papers")) == {"Deep Field: The Boldest Papers", "Deep Field"}
    assert {"PlayDaily", "Play Daily"} <= set(aliases("PlayDaily.com"))
    assert "Rock and Root" in aliases("Rock & Root") and "Tide & Shore" in aliases("Tide And Shore: Papers")


# -- rules ---------------------------------------------------------------------------------------------------------

QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    # names and their other forms
    ("What does Meridian say of the storm?", {"source": {"$in": ["Meridian"]}}),
    ("Do 'Meridian' and \"The Harbour Post\" agree?", {"source": {"$in": ["Meridian", "The Harbour Post"]}}),
    ("Did a Harbour Post article praise the bridge?", {"source": {"$in": ["The Harbour Post"]}}),
    ("Is the Harbour Post's report of the flood right?", {"source": {"$in": ["The Harbour Post"]}}),
    ("Was it Meridian’s view that the dam would hold?", {"source": {"$in": ["Meridian"]}}),
    ("who won, according to meridian and newsforge?", {"source": {"$in": ["Meridian", "NewsForge"]}}),
    ("what did morning ledger write of the flood?", {"source": {"$in": ["Morning Ledger"]}}),
    ("What did MORNING LEDGER write of the flood?", {"source": {"$in": ["Morning Ledger"]}}),
    ("Who, as News Forge has it, built the mill?", {"source": {"$in": ["NewsForge"]}}),
    ("How does CNX see the merger?", {"source": {"$in": ["Cnx | World Trade Leader"]}}),
    ("How does 'Cnx | World Trade Leader' see it?", {"source": {"$in": ["Cnx | World Trade Leader"]}}),
    ("What has Deep Field found out?", {"source": {"$in": ["Deep Field: The Boldest Papers"]}}),
    ("What has 'Deep Field: The Boldest Papers' found out?", {"source": {"$in": ["Deep Field: The Boldest Papers"]}}),
    ("Which record did Rock and Root like?", {"source": {"$in": ["Rock & Root"]}}),
    ("Who scored, if PlayDaily is right?", {"source": {"$in": ["PlayDaily.com"]}}),
    ("What did Northern Broadcasting show?", {"source": {"$in": BROADCASTING}}),
    ("What did Northern Broadcasting – Arts show?", {"source": {"$in": BROADCASTING[:1]}}),
    ("Meridian, NewsForge, Meridian again: who is right?", {"source": {"$in": ["Meridian", "NewsForge"]}}),
    # ordinary words are names only where they are meant so
    ("How high is the tide?", {}),
    ("How high was the Spring Tide of that year?", {}),
    ("Who measured the Tide?", {"source": {"$in": ["The Tide"]}}),
    ("Who died, according to the tide?", {"source": {"$in": ["The Tide"]}}),
    ("Who died in the tide report?", {"source": {"$in": ["The Tide"]}}),
    ("Meridian 500 members met. Who led them?", {}),
    ("Where does the meridian run?", {}),
    ("Meridian lines: where do they run?", {}),
    ("Meridian reported a storm. Where?", {"source": {"$in": ["Meridian"]}}),
    ("Which sport is the oldest?", {}),
    ("Which sport articles name the mayor?", {"category": {"$in": ["sport"]}}),
    ("Who is named in the trade category?", {"category": {"$in": ["trade"]}}),
    ("Is there a harbour, post, or tide gauge?", {}),
    ("What became of Harbour, Post and Sons?", {}),
    ("Is Title 3 1 a title?", {}),
    ("Meridian and NewsForge disagree. On what?", {"source": {"$in": ["Meridian", "NewsForge"]}}),
    ("The Harbour Post's story vs. Meridian's: which is right?", {"source": {"$in": ["Meridian", "The Harbour Post"]}}),
    # exclusion
    ("What was reported by neither Meridian nor NewsForge?", {"source": {"$nin": ["Meridian", "NewsForge"]}}),
    ("Who wasn't mentioned in Meridian?", {"source": {"$nin": ["Meridian"]}}),
    ("Who was praised, but not by Meridian?", {"source": {"$nin": ["Meridian"]}}),
    ("Who was praised, but not by Meridian or The Tide?", {"source": {"$nin": ["Meridian", "The Tide"]}}),
    ("Who was praised by anyone except for NewsForge?", {"source": {"$nin": ["NewsForge"]}}),
    ("Who, in sources other than the Harbour Post, won?", {"source": {"$nin": ["The Harbour Post"]}}),
    ("Who, excluding articles by Meridian, was praised?", {"source": {"$nin": ["Meridian"]}}),
    ("Who was praised by all but Meridian?", {"source": {"$nin": ["Meridian"]}}),
    ("Who was praised by newspapers, not Meridian or The Tide?", {"source": {"$nin": ["Meridian", "The Tide"]}}),
    ("Apart from the report in Meridian, who praised him?", {"source": {"$nin": ["Meridian"]}}),
    ("Who was praised by Meridian but not by NewsForge?", {"source": {"$in": ["Meridian"]}}),
    ("Who was praised, not by Meridian but by NewsForge?", {"source": {"$in": ["NewsForge"]}}),
    ("Not only by Meridian but by The Tide: who was praised?", {"source": {"$in": ["Meridian", "The Tide"]}}),
    ("Likened to a king but not by Meridian, who was tried, as Meridian says?", {"source": {"$in": ["Meridian"]}}),
    ("Did Meridian not report the storm?", {"source": {"$in": ["Meridian"]}}),
    # dates
    ("What happened on October 4, 2023?", {"published_at": {"$in": ["2023-10-04"]}}),
    ("What happened on October 4th, 2023?", {"published_at": {"$in": ["2023-10-04"]}}),
    ("What happened on 2023-10-04T21:11:57+00:00?", {"published_at": {"$in": ["2023-10-04"]}}),
    ("What happened on Oct 4, 2023 and 28 October 2023?", {"published_at": {"$in": ["2023-10-04", "2023-10-28"]}}),
    ("What happened on October 4?", {}),
    ("What happened in October 2023?", {}),
    ("What happened on January 9, 2024?", {}),
    ("What did Meridian publish before October 28, 2023?",
     {"source": {"$in": ["Meridian"]}, "published_at": {"$lt": "2023-10-28"}}),
    ("What was new after October 28, 2023?", {"published_at": {"$gt": "2023-10-28"}}),
    ("What is new since October 28, 2023?", {"published_at": {"$gte": "2023-10-28"}}),
    ("What was known until October 28, 2023?", {"published_at": {"$lte": "2023-10-28"}}),
    ("What was written between October 1, 2023 and October 28, 2023?",
     {"published_at": {"$gte": "2023-10-01", "$lte": "2023-10-28"}}),
    ("What was written from 2023-10-01 to 2023-10-28?", {"published_at": {"$gte": "2023-10-01", "$lte": "2023-10-28"}}),
    ("Which articles published in October 2023 name him?",
     {"published_at": {"$gte": "2023-10-01", "$lte": "2023-10-31"}}),
    ("What was written after October 4, 2023 and before November 6, 2023?",
     {"published_at": {"$gt": "2023-10-04", "$lt": "2023-11-06"}}),
    ("Which articles not from October 4, 2023 name him?", {"published_at": {"$nin": ["2023-10-04"]}}),
    ("Which articles not from October 4, 2023 or October 5, 2023 name him?",
     {"published_at": {"$nin": ["2023-10-04", "2023-10-05"]}}),
    ("Which articles not from October 4 or October 5, 2023 name him?",
     {"published_at": {"$nin": ["2023-10-04", "2023-10-05"]}}),
    ("Which articles not published on 4 or 5 October 2023 name him?",
     {"published_at": {"$nin": ["2023-10-04", "2023-10-05"]}}),
    ("Which articles weren't published on October 4, 2023?", {"published_at": {"$nin": ["2023-10-04"]}}),
    ("What was written between 4 and 28 October 2023?", {"published_at": {"$gte": "2023-10-04", "$lte": "2023-10-28"}}),
    ("What was written from October 4th to October 28th, 2023?",
     {"published_at": {"$gte": "2023-10-04", "$lte": "2023-10-28"}}),
    ("What was written between December 20 and January 5, 2024?",
     {"published_at": {"$gte": "2023-12-20", "$lte": "2024-01-05"}}),
    ("What was written on October 4, October 5 and October 28, 2023?",
     {"published_at": {"$in": ["2023-10-04", "2023-10-05", "2023-10-28"]}}),
    ("Between the Meridian reports of October 4 and October 28, 2023, what changed?",
     {"source": {"$in": ["Meridian"]}, "published_at": {"$in": ["2023-10-04", "2023-10-28"]}}),
    ("What was known by October 28, 2023?", {"published_at": {"$lte": "2023-10-28"}}),
    ("What was not known until October 28, 2023?", {}),
    ("Ignore everything after October 28, 2023: who won?", {"published_at": {"$lte": "2023-10-28"}}),
    ("Who won? Please show nothing from before October 28, 2023.", {"published_at": {"$gte": "2023-10-28"}}),
    ("Nothing that came out after October 4, 2023, please", {}),
    ("Which articles were not published between October 4, 2023 and October 6, 2023?", {}),
    ("Which articles are not from October 4-6, 2023?", {}),
    ("Which articles, excluding those from October 4, 2023 to October 6, 2023, name him?", {}),
    ("Which articles were not published in October 2023?", {}),
    ("Who won, except in articles published in October 2023?", {}),
    ("No, show me what Meridian says", {"source": {"$in": ["Meridian"]}}),
    ("Not by Meridian,and,and,and,and,and,and,and,and,and,and,and,and,and,and,and,and,and,and,and,and,and x NewsForge",
     {"source": {"$nin": ["Meridian"]}}),
    ("What was new not until October 28, 2023?", {"published_at": {"$gte": "2023-10-28"}}),
    ("What was written before or on October 28, 2023?", {"published_at": {"$lte": "2023-10-28"}}),
    ("What was written from October 28, 2023 onwards?", {"published_at": {"$gte": "2023-10-28"}}),
    ("What does the Sun, 4 October 2023, say?", {"published_at": {"$in": ["2023-10-04"]}}),
    ("Between the Meridian report before October 28, 2023, and the NewsForge report, what changed?",
     {"source": {"$in": ["Meridian", "NewsForge"]}}),
    ("Did a later report differ from what Meridian wrote before October 28, 2023?", {"source": {"$in": ["Meridian"]}}),
    ("Between the Meridian report of October 4, 2023, and the NewsForge report of October 28, 2023, what changed?",
     {"source": {"$in": ["Meridian", "NewsForge"]}, "published_at": {"$in": ["2023-10-04", "2023-10-28"]}}),
    ("Leaving aside what Meridian had to say, who won?", {"source": {"$nin": ["Meridian"]}}),
    ("Apart from what Meridian says, who won?", {"source": {"$nin": ["Meridian"]}}),
    ("What was written on October 4 and 5, 2023?", {"published_at": {"$in": ["2023-10-04", "2023-10-05"]}}),
    ("What was written on October 4, 5 and the 28, 2023?",
     {"published_at": {"$in": ["2023-10-04", "2023-10-05", "2023-10-28"]}}),
    ("What was written October 4-28, 2023?", {"published_at": {"$gte": "2023-10-04", "$lte": "2023-10-28"}}),
    ("What was written between Oct. 4 and 28, 2023?", {"published_at": {"$gte": "2023-10-04", "$lte": "2023-10-28"}}),
    ("", {}),
]  # fmt: skip


@pytest.mark.parametrize(("question", "expected"), QUESTIONS, ids=[question[:50] for question, _ in QUESTIONS])
def test_the_rules_read_a_question_as_a_person_would(question: str, expected: dict[str, Any]) -> None:
    assert read(question) == expected


def test_unused_values_and_dates_are_reported() -> None:
    (bound, yearless, unknown, both, ambiguous, impossible, as_of) = RULES.extract(
        [
            "Did Meridian before October 28, 2023 and NewsForge agree?",
            "What did Meridian say on October 4th?",
            "What did Meridian say on January 9, 2024?",
            "Not by Meridian, who was tried, as Meridian says?",
            "What did Meridian say on 10/11/2023?",
            "What did Meridian say on February 31, 2023?",
            "What was the price in Meridian as of October 4, 2023?",
        ]
    )
    assert "one of several reports" in bound.dropped[0] and "no year" in yearless.dropped[0]
    assert "the corpus has no '2024-01-09'" in unknown.dropped[0] and "both named and excluded" in both.dropped[0]
    assert ambiguous.dropped == ("'10/11/2023' does not name one day",)
    assert impossible.dropped == ("'February 31, 2023' does not name one day",)
    assert as_of.dropped == ("'as of October 4, 2023' is not the day of a report",)


def test_words_of_any_script_and_encoding_are_whole() -> None:
    papers = ["हिन्दुस्तान", "Café Journal"]
    fields = FieldVocabulary.from_metadata([{"source": paper} for paper in papers * 2])
    assert fields.keep_known(parse_filter({"source": "हिन्दुस्तानी"}, fields))[0] == EVERYTHING
    (extraction,) = RuleExtractor(fields).extract(["What does the Cafe\u0301 Journal say?"])
    assert to_json(extraction.filter) == {"source": {"$in": ["Café Journal"]}}
    months = ["Who won on Auguſt 4, 2023, or aprıl 4, 2023?", "Which articles published in Auguſt 2023 name him?"]
    assert [extraction.filter for extraction in RULES.extract(months)] == [EVERYTHING] * 2


@pytest.mark.parametrize(
    "question",
    [
        "What did Morning@, Ledger say?",
        "Who, not by Meridian@; Morning Ledger, won?",
        "October 4@x",
        "October 4,@5,@6 and@7,@2023",
        "the@not@Meridian@x",
    ],
)
def test_the_time_of_a_question_grows_with_its_length_and_not_with_its_square(question: str) -> None:
    def best(blanks: int) -> float:
        return min(
            extraction.seconds for _ in range(3) for extraction in RULES.extract([question.replace("@", " " * blanks)])
        )

    assert best(16_000) < 0.02 + 40 * best(1_000)


def test_of_two_date_fields_the_question_names_one() -> None:
    fields = FieldVocabulary.from_metadata(
        [{"published": "2023-10-04", "event_day": "2023-10-04"}, {"published": "2023-10-05"}]
    )
    named, unnamed = RuleExtractor(fields).extract(
        ["What was published on October 4, 2023?", "What of October 4, 2023?"]
    )
    assert to_json(named.filter) == {"published": {"$in": ["2023-10-04"]}}
    assert unnamed.filter == EVERYTHING and "no date field" in unnamed.dropped[0]


PIECES = st.sampled_from(
    [*SOURCES, "The Onion", "not by", "except", "or", "and", ",", ".", "'", "October 4, 2023", "2024-01-01", "before",
     "between", "the", "article", "according to", "sport", "category", "Who", "\n", "$in", "{", "’s", "İ", "ß", "𝟜"]
)  # fmt: skip


@settings(deadline=None)
@example("The Harbour Post Deep Field: The Boldest Papers and October 4, 2023")
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=14).map(" ".join))
def test_no_question_yields_a_value_that_the_corpus_lacks(question: str) -> None:
    (extraction,) = RULES.extract([question])
    assert extraction.question == question and extraction.seconds > 0 and extraction.tokens == 0
    for condition in conditions(extraction.filter):
        if condition.operator == "$in":  # What is excluded may be unknown
            assert set(condition.values) <= set(VOCABULARY[condition.field].values or ())
        if condition.field == "source":
            low = question.casefold()
            assert all(any(word.casefold() in low for word in str(value).split()) for value in condition.values)


# -- language model ------------------------------------------------------------------------------------------------


class ScriptedLLM(TextsOnly):
    """Answers prompts from a script, and remembers them."""

    fingerprint = "scripted"

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.usage = Usage()
        self.prompts: list[Prompt] = []

    def render(self, prompt: Prompt) -> str:
        return prompt.query

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(self, prompts: Sequence[Prompt], **settings: Any) -> list[list[str]]:
        self.prompts += prompts
        self.usage.generated_tokens += 10 * len(prompts)
        return [[self.answers.pop(0)] for _ in prompts]


def test_the_few_shot_prompt_is_made_of_the_corpus() -> None:
    llm = ScriptedLLM(["{}"])
    LLMExtractor(llm, VOCABULARY).extract(["Who\nwon?"])
    (prompt,) = llm.prompts
    assert prompt.query == "Who won?" and prompt.task == "filter"
    listed = json.loads(prompt.demonstrations[0][1])
    assert sorted(listed["source"]) == sorted(SOURCES) and listed["published_at"] == "any date"
    assert listed["title"] == "any string"  # nobody filters by one of a thousand titles
    pairs = examples(VOCABULARY)
    assert prompt.demonstrations[1:] == pairs and len(pairs) >= 4
    for question, written in pairs:
        condition = parse_filter(written, VOCABULARY)
        assert VOCABULARY.keep_known(condition) == (condition, [])
        assert all(str(value) in question for value in json.loads(written).get("source", {}).get("$in", []))


def test_the_examples_are_of_the_field_with_the_most_shared_values() -> None:
    records = [
        {"category": category, "source": source}
        for category in ("sport", "health")
        for source in ("NewsForge", "Morning Ledger", "Meridian")
    ]
    filters = [json.loads(written) for _, written in examples(FieldVocabulary.from_metadata(records))]
    assert {field for condition in filters for field in condition} == {"source"}


def test_a_corpus_of_one_source_and_day_has_examples_that_make_sense() -> None:
    fields = FieldVocabulary.from_metadata([{"source": "Meridian", "published_at": DAYS[0]}] * 2)
    for question, written in examples(fields):
        assert " both " not in question
        for values in json.loads(written).values():
            assert all(len(set(items)) == len(items) for items in values.values() if isinstance(items, list))


def test_the_rules_agree_with_the_examples_of_a_corpus_of_sources() -> None:
    fields = FieldVocabulary.from_metadata(
        [{"source": source, "published_at": day} for source in ("NewsForge", "Morning Ledger") for day in DAYS]
    )
    pairs = examples(fields)
    for (question, written), extraction in zip(
        pairs, RuleExtractor(fields).extract([q for q, _ in pairs]), strict=True
    ):
        assert atoms(extraction.filter) == atoms(parse_filter(written, fields)), question


def test_answers_are_checked_against_the_corpus() -> None:
    llm = ScriptedLLM(
        [
            "{'source': {'$in': ['Meridian', 'The Onion']}, 'published_at': {'$gt': 'October 5, 2023'}}",
            "Sure: {'source': 'meridian'}",
            "I cannot tell.",
            "{'editor': 'Meridian'}",
            "{'source': __import__('os').getcwd()}",
        ]
    )
    extractions = LLMExtractor(llm, VOCABULARY).extract(["a", "b", "c", "d", "e"])
    assert to_json(extractions[0].filter) == {"source": {"$in": ["Meridian"]}, "published_at": {"$gt": "2023-10-05"}}
    assert extractions[0].dropped == ("source: the corpus has no 'The Onion'",) and not extractions[0].refused
    assert to_json(extractions[1].filter) == {"source": {"$eq": "Meridian"}}
    assert all(extraction.filter == EVERYTHING and extraction.refused for extraction in extractions[2:])
    assert (
        "no mapping" in extractions[2].refused
        and "editor" in extractions[3].refused
        and "__import__" in extractions[4].refused
    )
    assert [extraction.tokens for extraction in extractions] == [10] * 5 and all(
        extraction.seconds > 0 for extraction in extractions
    )
    assert LLMExtractor(llm, VOCABULARY).extract([]) == []


def test_a_real_language_model_extracts_in_batches(tmp_path: Path) -> None:
    from tests.tiny import tiny_llm

    extractions = LLMExtractor(tiny_llm(tmp_path), VOCABULARY, max_new_tokens=8).extract(
        ["Who won?", "What did Meridian say?"]
    )
    assert [extraction.question for extraction in extractions] == ["Who won?", "What did Meridian say?"]
    # Random weights write no filter: the answers are refused, and say so.
    assert (
        all(extraction.filter == EVERYTHING and extraction.refused for extraction in extractions)
        and extractions[0].tokens > 0
    )


# -- evaluation ----------------------------------------------------------------------------------------------------


def test_agreement_counts_parts_and_whole_filters() -> None:
    references: list[dict[str, Any]] = [
        {"source": {"$in": ["Meridian", "NewsForge"]}},
        {"source": "Meridian", "published_at": {"$in": ["October 4, 2023"]}},
        {},
        {"source": {"$nin": ["Meridian"]}},
    ]
    questions = [
        "What do Meridian and The Tide say?",
        "What did Meridian say on 2023-10-04?",
        "Who won?",
        "What does Meridian say?",
    ]
    reference_filters = [parse_filter(reference, VOCABULARY) for reference in references]
    scores = agreement(reference_filters, RULES.extract(questions))
    assert scores["queries"] == 4 and scores["exact_match"] == 50.0
    assert scores["precision"] == 60.0 and scores["recall"] == 60.0  # 3 of 5 parts on either side
    assert scores["fields"]["source"] == {
        "queries": 3, "exact_match": pytest.approx(100 / 3, abs=1e-4), "precision": 50.0, "recall": 50.0
    }  # fmt: skip
    assert scores["fields"]["published_at"]["exact_match"] == 100.0
    assert agreement([], [])["exact_match"] is None


def test_order_and_spelling_make_no_difference_but_or_does() -> None:
    def parts(written: dict[str, Any]) -> Any:
        return atoms(parse_filter(written, VOCABULARY))

    assert parts({"source": {"$in": ["a", "b"]}, "words": 1}) == parts(
        {"$and": [{"words": {"$in": [1.0]}}, {"source": {"$in": ["b", "a", "b"]}}]}
    )
    assert parts({"published_at": "Oct 4, 2023"}) == parts({"published_at": {"$in": ["2023-10-04"]}})
    either = {"$or": [{"source": "a"}, {"words": 1}]}
    assert parts(either) == parts({"$or": [{"words": 1}, {"source": "a"}]}) != parts({"source": "a", "words": 1})
    assert only_known(parse_filter({"source": "Meridian"}, VOCABULARY), VOCABULARY)
    assert not only_known(parse_filter({"source": "The Onion"}, VOCABULARY), VOCABULARY)


def test_cost_has_tokens_and_milliseconds() -> None:
    assert set(cost(RULES.extract(["a", "b"]))) == {"tokens", "milliseconds", "median_milliseconds"}


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_command_line_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = write_lines(
        tmp_path / "queries.jsonl",
        [
            {"id": "a", "text": "What does Meridian say?", "filter": {"source": {"$in": ["Meridian"]}}},
            {"id": "b", "text": "What does The Onion say?", "filter": {"source": "The Onion"}},
            {"id": "c", "text": "What did NewsForge say on October 4, 2023?"},
        ],
    )
    documents = write_lines(
        tmp_path / "documents.jsonl",
        [{"id": document.id, "text": document.text, "metadata": dict(document.metadata)} for document in corpus()],
    )
    fields = tmp_path / "fields.json"
    fields.write_text(json.dumps({"source": {"values": SOURCES}, "published_at": {"type": "date"}}))
    reports = []
    for corpus_of in (["--documents", str(documents)], ["--fields", str(fields)]):
        output = tmp_path / f"{corpus_of[0][2:]}.out.json"
        assert evaluate.main(["filters", "--queries", str(queries), *corpus_of, "--output", str(output)]) == 0
        assert "those of known values" in capsys.readouterr().out
        reports.append(json.loads(output.read_text()))
    for report in reports:
        assert report["queries"] == 2 and report["exact_match"] == 50.0 and report["precision"] == 100.0
        assert report["known_values"]["queries"] == 1 and report["known_values"]["exact_match"] == 100.0
        assert report["fields"]["source"]["recall"] == 50.0 and report["tokens"] == 0 and report["milliseconds"] > 0
        assert [row.get("agrees") for row in report["extractions"]] == [True, False, None]
        assert report["extractions"][2]["filter"] == {
            "source": {"$in": ["NewsForge"]}, "published_at": {"$in": ["2023-10-04"]}
        }  # fmt: skip


@pytest.mark.parametrize(
    ("files", "arguments", "says"),
    [
        ({}, [], "no fields; give --fields FIELDS.json"),
        ({}, ["--fields", "fields.json"], "fields.json"),
        ({"fields.json": '{"day": {"type": "date"}}'}, ["--fields", "fields.json"], "query 'a': filter: unknown field"),
        (
            {"fields.json": '{"source": {"type": "number"}}'},
            ["--fields", "fields.json"],
            "filter at source: 'x' is not",
        ),
        ({"d.jsonl": '{"id": "1", "text": "x"}'}, ["--documents", "d.jsonl"], "no document has metadata"),
        ({"fields.json": '{"source": {}}'}, ["--fields", "fields.json", "--llm", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    files: dict[str, str],
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "q.jsonl", [{"id": "a", "text": "Who?", "filter": {"source": "x"}}])
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert evaluate.main(["filters", "--queries", "q.jsonl", *arguments, "--output", "out.json"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and says in error
    assert not (tmp_path / "out.json").exists()


def test_the_output_may_be_in_a_new_folder_and_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = write_lines(tmp_path / "q.jsonl", [{"id": "a", "text": "Who?"}])
    (tmp_path / "fields.json").write_text('{"source": {}}')
    start = ["filters", "--queries", str(queries), "--fields", str(tmp_path / "fields.json"), "--output"]
    assert evaluate.main([*start, str(tmp_path)]) == 2
    assert "is a folder; give a file to write" in capsys.readouterr().err
    assert evaluate.main([*start, str(tmp_path / "new" / "out.json")]) == 0
    assert json.loads((tmp_path / "new" / "out.json").read_text())["extractions"] == [{"id": "a", "filter": {}}]
