"""The bundled news: sizes, splits, and that every question's answer, evidence and filter are true of the articles."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from mrag_rl.data.multihop import QUESTION_TYPES
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_news
from mrag_rl.data.synthetic.names import invented_names, names
from mrag_rl.data.synthetic.news_events import Claim, EventType, news_words
from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.data.synthetic.news_reports import SPLIT_SHARES, split_of
from mrag_rl.errors import InputError
from mrag_rl.filters import FieldVocabulary, RuleExtractor, document_metadata, matches, parse_filter
from mrag_rl.filters.dates import find_dates
from mrag_rl.filters.language import Condition, conditions
from mrag_rl.filters.scoring import agreement, atoms

EVENT_TYPES = {event_type.category: event_type for event_type in news_words().event_types}
SOURCES = news_words().sources


@cache
def world(seed: int = 0, split: str = "test") -> tuple[list[Document], list[Query]]:
    return make_news(seed, split=split)


@cache
def by_id() -> dict[str, Document]:
    return {document.id: document for document in world()[0]}


def organisation(document: Document) -> str:
    """The organisation that an article is about: the two or three words that begin with an invented name."""
    match = organisations(EVENT_TYPES[document.category]).search(document.text)
    assert match, document.text
    return match.group()


def organisations(event_type: EventType) -> re.Pattern[str]:
    """The name of an organisation, and in it the invented name."""
    return re.compile(rf"\b({'|'.join(invented_names())}) (?:{'|'.join(event_type.suffixes)})\b")


def test_there_are_enough_articles_and_questions_of_all_types() -> None:
    documents, queries = world()
    assert len(documents) >= 500 and len(queries) >= 400
    kinds = Counter(query.metadata["question_type"] for query in queries)
    assert kinds == {"inference": 150, "comparison": 150, "temporal": 120, "null": 60} and set(kinds) == set(
        QUESTION_TYPES
    )
    assert {document.category for document in documents} == set(EVENT_TYPES)
    assert {document.metadata["source"] for document in documents} == {source.name for source in SOURCES}
    for values in ([d.id for d in documents], [d.title for d in documents], [d.text for d in documents]):
        assert len(values) == len(set(values))
    for values in ([q.id for q in queries], [q.text for q in queries]):
        assert len(values) == len(set(values))
    for text in [d.text for d in documents] + [d.title for d in documents] + [q.text for q in queries]:
        assert "{" not in text and "}" not in text and "  " not in text and not re.search(r"\b[Tt]he [Tt]he\b", text)


def test_every_event_is_reported_by_several_sources_and_by_some_of_them_twice() -> None:
    by_event: dict[str, list[Document]] = {}
    for document in world()[0]:
        by_event.setdefault(organisation(document), []).append(document)
    assert len(by_event) == 60
    for reports in by_event.values():
        sources = Counter(report.metadata["source"] for report in reports)
        assert len(sources) >= 6 and max(sources.values()) == 2
        assert len({report.category for report in reports}) == 1


def test_splits_share_no_organisation_and_so_no_event() -> None:
    split_by_name: dict[str, str] = {}
    for split in SPLIT_SHARES:
        for seed in (0, 1):
            documents, queries = world(seed, split)
            text = " ".join([d.text for d in documents] + [q.text for q in queries])
            for category, event_type in EVENT_TYPES.items():
                for name in set(organisations(event_type).findall(text)):
                    assert split_by_name.setdefault(f"{category}/{name}", split) == split
    counts = Counter(split_of(event_type, name) for event_type in EVENT_TYPES.values() for name in invented_names())
    total = len(EVENT_TYPES) * len(invented_names())
    assert all(abs(100 * counts[split] / total - share) < 4 for split, share in SPLIT_SHARES.items())


def test_evidence_is_in_the_relevant_articles_and_only_there() -> None:
    documents, queries = world()
    for query in queries:
        facts = query.metadata["facts"]
        if query.metadata["question_type"] == "null":
            assert query.relevant == () and facts == [] and query.metadata["answer"] == NO_ANSWER
            continue
        assert facts and query.relevant
        holders = {d.id for d in documents if any(fact in d.text for fact in facts)}
        same_event = {organisation(by_id()[name]) for name in query.relevant}
        assert len(same_event) == 1
        of_event = {name for name in holders if organisation(by_id()[name]) in same_event}
        assert of_event == set(query.relevant)
        assert all(any(fact in by_id()[name].text for fact in facts) for name in query.relevant)


def test_relevant_articles_pass_the_filter_and_others_of_the_event_do_not_all() -> None:
    documents, queries = world()
    vocabulary = FieldVocabulary.from_documents(documents)
    restricted = 0
    for query in queries:
        condition = parse_filter(query.metadata["filter"], vocabulary)
        known, dropped = vocabulary.keep_known(condition)
        assert dropped == [] and atoms(known) == atoms(condition)
        passing = {d.id for d in documents if matches(condition, document_metadata(d))}
        assert set(query.relevant) <= passing
        if query.relevant:
            event = organisation(by_id()[query.relevant[0]])
            restricted += any(organisation(d) == event and d.id not in passing for d in documents)
    assert restricted > 0.95 * sum(bool(query.relevant) for query in queries)


def test_the_filter_is_what_the_question_names() -> None:
    """The question has its sources by one of their names, its days in one of many forms, and no other source or day."""
    spellings = {source.name: (source.name, *source.short_names) for source in SOURCES}
    documents, queries = world()
    vocabulary = FieldVocabulary.from_documents(documents)
    forms = set()
    for query in queries:
        condition = parse_filter(query.metadata["filter"], vocabulary)
        by_field: dict[str, list[Condition]] = {}
        for part in conditions(condition):
            by_field.setdefault(part.field, []).append(part)
        (sources,) = by_field["source"]
        for value in sources.values:
            short = [name.removeprefix("The ") for name in spellings[str(value)]]
            assert any(name in query.text for name in short), query.text
        left = query.text
        for name in sorted((name for value in sources.values for name in spellings[str(value)]), key=len, reverse=True):
            left = left.replace(name, "").replace(name.removeprefix("The "), "")
        assert not any(name in left for variants in spellings.values() for name in variants), query.text
        days = {mention.day for mention in find_dates(query.text)}
        filter_days = {value for part in by_field.get("published_at", []) for value in part.values}
        assert days == filter_days, query.text
        forms |= {
            re.sub(r"[A-Z][a-z]+", "M", re.sub(r"\d", "9", query.text[m.start : m.end])) for m in find_dates(query.text)
        }
        if "category" in by_field:
            assert "category" in query.text and str(by_field["category"][0].values[0]) in query.text
        assert sources.operator == "$nin" or "except" not in query.text
    assert len(forms) >= 6, forms
    operators = Counter(
        part.operator for q in queries for part in conditions(parse_filter(q.metadata["filter"], vocabulary))
    )
    assert set(operators) == {"$in", "$nin", "$gt", "$lt", "$gte", "$lte"}


def test_yes_and_no_are_both_common() -> None:
    for kind in ("comparison", "temporal"):
        answers = Counter(q.metadata["answer"] for q in world()[1] if q.metadata["question_type"] == kind)
        yes, no = answers["Yes"], answers["No"]
        assert min(yes, no) > 0.35 * (yes + no), answers
    comparisons = [q for q in world()[1] if q.metadata["question_type"] == "comparison"]
    assert {q.metadata["answer"] for q in comparisons} == {"Yes", "No"}


def test_an_inference_question_has_one_answer() -> None:
    """Among the articles that its filter passes, one organisation alone has all of its values."""
    documents, queries = world()
    vocabulary = FieldVocabulary.from_documents(documents)
    for query in queries:
        if query.metadata["question_type"] != "inference":
            continue
        answer = query.metadata["answer"]
        assert answer not in query.text
        assert {organisation(by_id()[name]) for name in query.relevant} == {answer}
        condition = parse_filter(query.metadata["filter"], vocabulary)
        passing = [d for d in documents if matches(condition, document_metadata(d))]
        values = claimed_values(query.text, by_id()[query.relevant[0]].category)
        assert len(values) == 2, query.text
        events: dict[str, str] = {}
        for document in passing:
            if document.category == by_id()[query.relevant[0]].category:
                events[organisation(document)] = events.get(organisation(document), "") + " " + document.text
        organisations_with_all = [
            name for name, text in events.items() if all(sentence_with(form, text) for form in values)
        ]
        assert organisations_with_all == [answer], (query.text, organisations_with_all)


def claimed_values(question: str, category: str) -> list[tuple[Claim, str]]:
    """The claims whose predicate the question holds, with their values."""
    pairs = [(claim, value) for claim in EVENT_TYPES[category].claims for value in claim.values]
    return [(claim, value) for claim, value in pairs if re.search(rf"{claim.predicate.format(v=value)}\b", question)]


def sentence_with(claimed: tuple[Claim, str], text: str) -> bool:
    """Whether a text claims the value in one of the sentences that do."""
    claim, value = claimed
    for sentence in claim.sentences:
        pattern = re.sub(r"\{(org|person)\}", ".{3,40}?", sentence).replace("{v}", re.escape(value))
        if re.search(rf"(?:^|[.] ){pattern}(?=[,.])", text, re.IGNORECASE):
            return True
    return False


def test_the_answer_to_a_bounded_question_is_in_its_evidence() -> None:
    bounded = [q for q in world()[1] if q.metadata["answer"] not in ("Yes", "No", NO_ANSWER)]
    bounded = [q for q in bounded if q.metadata["question_type"] == "temporal"]
    assert len(bounded) >= 20
    for query in bounded:
        assert query.metadata["answer"].lower() in " ".join(query.metadata["facts"]).lower()


def test_the_same_seed_writes_the_same_and_another_seed_something_else() -> None:
    assert make_news(3, events=12, queries=16) == make_news(3, events=12, queries=16)
    documents, queries = make_news(3, events=12, queries=16)
    other_documents, other_queries = make_news(4, events=12, queries=16)
    assert not {d.text for d in documents} & {d.text for d in other_documents}
    assert not {q.text for q in queries} & {q.text for q in other_queries}


def test_every_form_can_be_filled() -> None:
    texts = " ".join(d.text for split in SPLIT_SHARES for seed in (0, 1) for d in world(seed, split)[0])
    for event_type in EVENT_TYPES.values():
        claim_sentences = (sentence for claim in event_type.claims for sentence in claim.sentences)
        for form in (*event_type.leads, *event_type.background, *claim_sentences):
            longest = max(re.split(r"\{\w+\}", form), key=len)
            assert longest in texts or longest[:1].upper() + longest[1:] in texts, form
    assert len(names().places) == len(set(names().places))


def test_rules_read_nearly_all_filters_of_another_split() -> None:
    """Not all: "leaving aside what X had to say" and "Orbit & Field" for "Orbit And Field" are beyond them."""
    documents, queries = world(0, "dev")
    vocabulary = FieldVocabulary.from_documents(documents)
    reference_filters = [parse_filter(query.metadata["filter"], vocabulary) for query in queries]
    scores = agreement(reference_filters, RuleExtractor(vocabulary).extract([query.text for query in queries]))
    assert 90 < scores["exact_match"] < 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "train"}, "news split 'train' is unknown; choose one of llm, dev, test"),
        ({"events": 11}, "11 news events; ask for 12 or more"),
        ({"events": 300}, "375 news events are more than the split test has"),
        ({"queries": 0}, "0 news questions; ask for 1 or more"),
    ],
)
def test_impossible_requests_are_clear_errors(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_news(0, **arguments)  # type: ignore[arg-type]


def test_metadata_say_what_a_question_is_about_and_where_its_evidence_is() -> None:
    """Claims, organisation and names as in the question; each piece of evidence in the article that it names."""
    for query in world()[1]:
        about, evidence = query.metadata["about"], query.metadata["evidence"]
        claims = EVENT_TYPES[about["category"]].claims
        assert about["organisation"] in query.text and about["claims"]
        assert all(name.removeprefix("The ") in query.text for name in about["names"])
        for claim, value in about["claims"]:
            form = claims[claim].topic if value is None else claims[claim].predicate
            assert form.format(org=about["organisation"], v=value) in query.text
        assert [item["fact"] for item in evidence if item["fact"] not in query.metadata["facts"]] == []
        assert {item["document"] for item in evidence} == set(query.relevant)
        for item in evidence:
            document = by_id()[item["document"]]
            assert item["fact"] in document.text and item["value"].lower() in item["fact"].lower()
            assert str(document.metadata["published_at"]).startswith(item["day"])
            assert item["value"] in claims[item["claim"]].values
