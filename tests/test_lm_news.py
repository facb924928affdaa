"""What the language model for questions learns from: filters, queries and answers in the library's own prompts."""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import pytest

from lm.batches import make_batch, train_tokenizer
from lm.news_abilities import findings_right
from lm.news_answers import ASKED, FINDING, organisation_of
from lm.news_targets import evidence_of, filter_target, search_queries
from lm.news_tokens import TOKEN_PATTERN, separate_fillers
from lm.news_world import TASKS, NewsWorld
from lm.sequences import Span
from lm.source_names import draw_new_words, rename_sources
from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Query
from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.filters import parse_filter
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.scoring import atoms
from mrag_rl.generation.fusion_prompts import MOST_QUERIES, QUESTION_AGAIN, SEPARATOR, answer_prompt, query_prompt
from mrag_rl.generation.prompts import render
from mrag_rl.metrics.answers import answer_scores


@cache
def world() -> NewsWorld:
    return NewsWorld(0, questions=160)


def of(kind: str) -> list[Query]:
    return [query for query in world().queries if query.metadata["question_type"] == kind]


def learned(text: str, spans: list[Span]) -> str:
    first, last, _ = spans[-1]
    return text[first:last].strip()


def test_target_filters_are_equivalent_to_those_of_the_questions() -> None:
    vocabulary = world().vocabulary
    for query in world().queries:
        target = filter_target(query)
        assert atoms(parse_filter(target, vocabulary)) == atoms(parse_filter(query.metadata["filter"], vocabulary))


@pytest.mark.parametrize("n", range(1, MOST_QUERIES + 1))
def test_target_queries_have_the_requested_number_and_leave_out_sources_and_days(n: int) -> None:
    for query in world().queries:
        queries = search_queries(query, n)
        assert len(queries) == len(set(queries)) == n and all(queries)
        assert not any(name in " ".join(queries) for name in query.metadata["about"]["names"] if " " in name)
        assert SEPARATOR not in "".join(queries) and "{" not in "".join(queries) and "2024" not in "".join(queries)
        if n > 1 and len(query.metadata["about"]["claims"]) == 2:
            values = [value for _, value in query.metadata["about"]["claims"]]
            assert all(str(value) in text for value, text in zip(values, queries, strict=False))


@pytest.mark.parametrize("kind", ["inference", "comparison", "temporal", "null"])
def test_target_answers_are_the_reference_if_and_only_if_the_passages_contain_the_evidence(kind: str) -> None:
    rng = np.random.default_rng(0)
    for query in of(kind):
        reference = query.metadata["answer"]
        answer = world().answer_target(query, world().passages(rng, query, 6))
        without = world().answer_target(query, [])
        exact = answer_scores([answer, without], [reference, NO_ANSWER])["exact_match"]
        assert exact.tolist() == [1.0, 1.0], (query.text, answer, without)


def test_an_answer_says_first_where_it_found_what_each_side_says() -> None:
    rng = np.random.default_rng(0)
    for query in [*of("comparison"), *of("temporal")]:
        passages = world().passages(rng, query, 6)
        findings, conclusion = world().answer_target(query, passages).split(" The answer to the question is ")
        assert conclusion.strip('"') == query.metadata["answer"]
        names = query.metadata["about"]["names"]
        assert len(names) == 1 or all(name in findings for name in names)  # days in place of one source's name
        for item in evidence_of(query):
            told = re.findall(rf"\[(\d)\] (?:{re.escape(item['value'])}|{item['day']})(?:\.| \()", findings)
            assert any(item["fact"] in passages[int(number) - 1].text for number in told), (findings, item)


def test_findings_are_compared_with_the_question_and_with_each_other() -> None:
    rng = np.random.default_rng(0)
    endings: dict[str, set[str]] = {"Yes": set(), "No": set()}
    for query in [*of("comparison"), *of("temporal")]:
        answer = query.metadata["answer"]
        if answer in endings:
            target = world().answer_target(query, world().passages(rng, query, 6))
            verdicts = list(ASKED.finditer(target))
            assert verdicts and (answer == "Yes") == all(verdict["verdict"] == "Yes" for verdict in verdicts)
            for verdict in verdicts:
                found = FINDING.findall(target[: verdict.start()])[-1][1]
                one, relation = verdict["value"], str(verdict["relation"] or "").strip()
                holds = {"": found == one, "other than": found != one, "after": found > one}
                assert holds[relation] == (verdict["verdict"] == "Yes"), target
                assert verdict["order"] in (None, "after" if found > one else "before")
                assert (verdict["order"] is None) == (relation != "after")
                endings[answer].add(relation)
    assert endings["Yes"] == {"", "other than", "after"} >= endings["No"] >= {"", "after"}


def test_an_organisation_is_named_where_the_passages_make_every_claim_of_one() -> None:
    rng = np.random.default_rng(0)
    for query in of("inference"):
        passages = world().passages(rng, query, 6)
        findings, conclusion = world().answer_target(query, passages).split(" The answer to the question is ")
        named = [set(re.findall(r"\[\d\] ([^,.]+)", part)) for part in findings.split(". ")]
        listed = [re.findall(r"\d+", numbers) for numbers in re.findall(r"\{(.*?)\}", findings)]
        for numbers, part in zip(listed, findings.split(". "), strict=True):
            assert {*re.findall(r"\[(\d)\]", part)} <= {*numbers}
        assert set.intersection(*named) == {conclusion.strip('"')} == {query.metadata["answer"]}
        for number, name in re.findall(r"\[(\d)\] ([^,.]+)", findings):
            assert organisation_of(passages[int(number) - 1]) == name
    with pytest.raises(ValueError, match="no organisation of the bundled news"):
        organisation_of(Chunk("d#0", "Nothing happened.", document="d"))


def test_sequences_are_the_librarys_prompts_followed_by_the_target() -> None:
    rng = np.random.default_rng(0)
    listing = world().listings[0]
    assert isinstance(listing.extractor, LLMExtractor) and listing.new_words == {}
    texts = {task: [world().sequence(rng, task) for _ in range(20)] for task in TASKS}
    for text, spans in texts["filter"]:
        prompts = [render(listing.extractor.prompt("?")) for listing in world().listings]
        assert any(text.startswith(prompt.rsplit("Question: ", 1)[0]) for prompt in prompts)
        assert len(spans) == 8
        for first, last, _ in spans:
            assert text[first:last].startswith(" {") and set(json.loads(text[first:last])) <= {
                "source", "category", "published_at",
            }  # fmt: skip
    for text, spans in texts["queries"]:
        n = len(learned(text, spans).split(SEPARATOR))
        assert text.startswith(render(query_prompt("?", n)).rsplit("Question: ", 1)[0]) and len(spans) == 3
    start = render(answer_prompt("?", []))[: len("Question: ")]
    assert all(text.startswith(start) and "\nAnswer: " in text for text, _ in texts["answer"])


def test_more_questions_have_the_prompts_wording_and_answers_from_the_same_passages() -> None:
    rng = np.random.default_rng(0)
    known = {query.text: query for query in world().queries}
    lengths = []
    for _ in range(30):
        text, spans = world().sequence(rng, "answer", 4, 1.0, 6)
        passages, *parts = text.split(f"\n{QUESTION_AGAIN} ")
        answers = [text[first:last].strip() for first, last, weight in spans if weight == 1.0]
        assert len(parts) == len(answers) <= 6
        lengths.append(len(parts))
        for part, answer in zip(parts, answers, strict=True):
            question, written = part.split("\nAnswer: ")
            assert written == answer
            if question in known:  # otherwise its sources are renamed
                facts = {item["fact"] for item in known[question].metadata["evidence"] if item["fact"] in passages}
                if len(facts) == len({item["fact"] for item in known[question].metadata["evidence"]}) and facts:
                    assert NO_ANSWER not in answer
                if not facts:
                    assert NO_ANSWER in answer
    assert max(lengths) > 2


def test_findings_are_right_if_passage_and_value_are() -> None:
    targets = [
        "Ember, the cost: [3] 12 crowns. Quill, the cost: [5] 14 crowns (asked: 12 crowns): No. So",
        "Who won: [1] A Rovers, [2] B City.",
        "A: none.",
    ]
    answers = [
        "Ember, the cost: [3] 12 crowns (asked: 12 crowns): Yes. Quill, the cost: [5] 12 crowns.",
        "Who won: [4] A Rovers.",
        "",
    ]
    assert findings_right(targets, targets) == (4, 100.0, 100.0)
    assert findings_right(targets, answers) == (4, 50.0, 25.0)
    assert findings_right(targets, ["", "", "[1] x"]) == (4, 0.0, 0.0)


def test_sources_are_renamed_in_questions_and_filters_alike() -> None:
    new_words = draw_new_words(np.random.default_rng(1))
    assert len(set(new_words.values())) == len(new_words)
    for query in world().queries:
        text = rename_sources(query.text, new_words)
        target = rename_sources(json.dumps(filter_target(query)), new_words)
        for name in query.metadata["about"]["names"]:
            assert rename_sources(name, new_words).removeprefix("The ") in text
        assert len(json.loads(target)["source"]) == 1 and target != json.dumps(filter_target(query))


def test_batches_weight_the_labels_and_keep_to_their_size() -> None:
    rng = np.random.default_rng(0)
    texts = [separate_fillers(world().sequence(rng, str(rng.choice(TASKS)))[0]) for _ in range(60)]
    tokenizer = train_tokenizer(texts, 1200, TOKEN_PATTERN)
    parts = make_batch(tokenizer, lambda r: world().sequence(r, "answer"), rng, 5, 4096, 2500)
    assert sum(len(part.ids) for part in parts) == 5
    for part in parts:
        assert part.ids.numel() <= 2500 or len(part.ids) == 1
        assert ((part.labels != -100) == (part.weights > 0)).all() and (part.weights[part.labels != -100] > 0).all()
        assert (part.labels[part.labels != -100] == part.ids[part.labels != -100]).all()
        for ids, labels in zip(part.ids, part.labels, strict=True):
            text = str(tokenizer.decode(ids, skip_special_tokens=True))
            target = str(tokenizer.decode(labels[labels != -100], skip_special_tokens=True))
            assert target.endswith(text.rsplit("\nAnswer:", 1)[1])


def test_no_token_reaches_beyond_a_number_or_a_name() -> None:
    rng = np.random.default_rng(0)
    tokenizer = train_tokenizer(
        [separate_fillers(world().sequence(rng, "answer")[0]) for _ in range(60)], 1200, TOKEN_PATTERN
    )
    for task in TASKS:  # A completion's tokens begin where its prompt ends
        full, spans = world().sequence(rng, task)
        prompt = tokenizer(full[: spans[-1][0]])["input_ids"]
        assert tokenizer(full)["input_ids"][: len(prompt)] == prompt
    text = "Kestamar Mills pays 36 million crowns on 2024-05-17, it was confirmed."
    pieces = [str(tokenizer.decode([i])) for i in tokenizer(text)["input_ids"]]
    assert "".join(pieces) == text
    for piece in pieces:
        assert not (any(c.isdigit() for c in piece) and any(c.isalpha() for c in piece)), pieces
