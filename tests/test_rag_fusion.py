"""RAG-Fusion as a system: generated, given and no queries, fused passages with their places, filters and rights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from mrag_rl.data.records import Document
from mrag_rl.data.synthetic import make_news
from mrag_rl.errors import InputError
from mrag_rl.filters import EVERYTHING, Condition, FieldVocabulary, RuleExtractor, parse_filter
from mrag_rl.generation.fusion_prompts import answer_prompt, query_prompt
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.retrieval.filtered import FilteredRetriever
from mrag_rl.retrieval.fusion_queries import FusionQueries, generate_queries
from mrag_rl.systems import MultiMetaRAG, PassageReader, PassageRetriever, RAGFusion
from tests.tiny import Listening, encoder, write_tiny_llm

QUESTIONS = ["Which club has a new striker?", "Who closes a bridge, and when?"]
GIVEN = [["striker joins club", "football transfer", "captain injured"], ["bridge closed"]]


@cache
def documents() -> list[Document]:
    return make_news(5, split="dev", events=12, queries=24)[0][:40]


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> TransformersLLM:
    """A Llama with random weights that writes words of the articles."""
    texts = ["bridge || harbour || council || striker || river || the || a || new"] * 3
    return TransformersLLM.load(write_tiny_llm(tmp_path_factory.mktemp("llm"), texts))


@pytest.fixture(scope="module")
def fusion(llm: TransformersLLM) -> RAGFusion:
    return RAGFusion(PassageRetriever.build(documents(), encoder()), PassageReader(llm))


def over(system: RAGFusion, llm: Any, **settings: Any) -> RAGFusion:
    """The same passages with another language model and other settings."""
    return replace(system, reader=None if llm is None else PassageReader(llm), **settings)


@pytest.mark.parametrize(("strategy", "fused"), [("standard", "fusion"), ("mrag", "fusion_mrag")])
def test_its_passages_are_those_of_the_fusion_strategies(fusion: RAGFusion, strategy: str, fused: str) -> None:
    retriever = replace(fusion.retriever, strategy=strategy)
    answers = RAGFusion(retriever).answer(QUESTIONS, queries=GIVEN)
    library = retriever.library
    assert isinstance(library, FilteredRetriever)
    expected = library.retriever.search(
        encoder(), QUESTIONS, strategy=fused, fetch=retriever.fetch, questions=GIVEN
    ).indices
    for answer, row, given in zip(answers, expected, GIVEN, strict=True):
        assert list(answer.retrieved) == [library.chunks[i] for i in row]
        assert answer.passages == answer.retrieved[:6]
        assert answer.queries.generated == tuple(given)


def test_the_questions_own_first_places_stay_first(fusion: RAGFusion) -> None:
    plain = RAGFusion(fusion.retriever, generated=0).answer(QUESTIONS)
    fused = fusion.answer(QUESTIONS, queries=GIVEN)
    assert any(a.retrieved[:4] != b.retrieved[:4] for a, b in zip(plain, fused, strict=True))
    for kept in (1, 4, 100):
        answers = replace(fusion, kept=kept).answer(QUESTIONS, queries=GIVEN)
        for answer, own, other in zip(answers, plain, fused, strict=True):
            first = [chunk for chunk in own.retrieved[:kept] if chunk in other.retrieved]
            assert list(answer.retrieved) == first + [chunk for chunk in other.retrieved if chunk not in first]
            assert len(answer.places) == len(answer.passages)
    with pytest.raises(InputError, match="kept is -1"):
        replace(fusion, kept=-1)


def test_places_are_those_of_each_querys_own_search(fusion: RAGFusion) -> None:
    library = fusion.retriever.library
    assert isinstance(library, FilteredRetriever)
    few = RAGFusion(replace(fusion.retriever, fetch=6))
    answers = few.answer(QUESTIONS, queries=GIVEN)
    for answer in answers:
        lists = library.retriever.search(encoder(), answer.queries.all, strategy="standard", fetch=6).indices
        own = [[library.chunks[i].id for i in row] for row in lists]
        for passage, places in zip(answer.passages, answer.places, strict=True):
            assert len(places) == len(answer.queries.all) and any(places)
            for place, row in zip(places, own, strict=True):
                assert place == (row.index(passage.id) + 1 if passage.id in row else None)
    assert any(place is None for answer in answers for places in answer.places for place in places)


def test_generated_queries_are_searched_shown_and_part_of_the_result(fusion: RAGFusion, llm: TransformersLLM) -> None:
    listening = Listening(llm)
    answers = over(fusion, listening, generated=3, seed=4).answer(QUESTIONS)
    expected = generate_queries(llm, QUESTIONS, 3, seed=4)
    assert [answer.queries for answer in answers] == expected and any(some.generated for some in expected)
    assert listening.prompts[:2] == [query_prompt(question, 3) for question in QUESTIONS]
    prompts = [
        answer_prompt(question, answer.passages, answer.queries.generated)
        for question, answer in zip(QUESTIONS, answers, strict=True)
    ]
    assert listening.prompts[-2:] == prompts
    assert [answer.hypothesis for answer in answers] == [
        texts[0].strip() for texts in llm.generate(prompts, max_new_tokens=128)
    ]
    given = over(fusion, None).answer(QUESTIONS, queries=[some.generated for some in expected])
    assert [answer.passages for answer in given] == [answer.passages for answer in answers]
    for answer, some in zip(answers, expected, strict=True):
        assert (some.note in answer.notes) if some.note else not answer.notes


def test_an_answer_does_not_depend_on_its_neighbours(fusion: RAGFusion) -> None:
    together = fusion.answer(QUESTIONS)
    assert together == [fusion.answer([question])[0] for question in QUESTIONS]
    assert fusion.answer([]) == []


def test_queries_given_replace_those_of_the_language_model(fusion: RAGFusion, llm: TransformersLLM) -> None:
    listening = Listening(llm)
    answers = over(fusion, listening).answer(QUESTIONS, queries=[["  a  bridge", "", "A bridge!", QUESTIONS[0]], []])
    assert [answer.queries for answer in answers] == [
        FusionQueries(QUESTIONS[0], ("a bridge",)),
        FusionQueries(QUESTIONS[1]),
    ]
    assert len(listening.prompts) == 2 and all(answer.notes == () for answer in answers)


def test_switched_off_it_is_the_search_with_the_question_alone(fusion: RAGFusion, llm: TransformersLLM) -> None:
    listening, plain = Listening(llm), Listening(llm)
    answers = over(fusion, listening, generated=0).answer(QUESTIONS)
    expected = MultiMetaRAG(fusion.retriever, PassageReader(plain)).answer(QUESTIONS)
    assert [answer.passages for answer in answers] == [answer.passages for answer in expected]
    assert [answer.hypothesis for answer in answers] == [answer.hypothesis for answer in expected]
    assert listening.prompts == plain.prompts
    assert all(answer.places == tuple((i,) for i in range(1, 7)) for answer in answers)
    heavy = over(fusion, None, original_weight=1000.0).answer(QUESTIONS, queries=GIVEN)
    assert [answer.passages for answer in heavy] == [answer.passages for answer in expected]


def test_without_a_language_model_there_are_passages_and_a_note(fusion: RAGFusion) -> None:
    (answer,) = over(fusion, None).answer(QUESTIONS[:1])
    assert answer.hypothesis == "" and len(answer.passages) == 6
    assert answer.notes == ("no language model to write queries; searched with the question alone",)
    (answer,) = over(fusion, None, generated=0).answer(QUESTIONS[:1])
    assert answer.notes == ()


def test_too_few_queries_are_said(fusion: RAGFusion, llm: TransformersLLM) -> None:
    class Silent(Listening):
        def generate(self, prompts: Sequence[Prompt], **settings: Any) -> list[list[str]]:
            super().generate(prompts, **settings)
            return [["one query"] for _ in prompts]

    silent = Silent(llm)
    (answer,) = over(fusion, silent).answer(QUESTIONS[:1])
    assert answer.queries.generated == ("one query",)
    assert answer.notes == ("the LLM wrote 1 of 4 usable queries, asked twice",) and len(silent.prompts) == 3


def sources(passages: Sequence[Document]) -> set[str]:
    return {passage.metadata["source"] for passage in passages}


def test_a_filter_holds_for_all_queries_and_gives_way_only_where_it_was_read_from_the_question(
    fusion: RAGFusion,
) -> None:
    ((source, _),) = Counter(document.metadata["source"] for document in documents()).most_common(1)
    vocabulary = FieldVocabulary.from_documents(documents())
    filtered = RAGFusion(replace(fusion.retriever, extractor=RuleExtractor(vocabulary)))
    asked = [f"What does {source} say of the weather?", f"What did {source} write after October 1, 2031?", "Who is it?"]
    answers = filtered.answer(asked, queries=[["bridge", "striker"]] * 3)
    assert sources(answers[0].passages) == {source}
    assert answers[0].filter == Condition("source", "$in", (source,)) and answers[0].notes == ()
    assert answers[1].filter == EVERYTHING and len(sources(answers[1].passages)) > 1
    assert answers[1].notes == ("no readable document passes the filter; searched without it",)
    assert answers[2].filter == EVERYTHING and answers[2].notes == ()

    nobody = parse_filter({"source": source, "published_at": {"$gt": "2031-10-01"}}, vocabulary)
    given = filtered.answer(asked, queries=[["bridge"]] * 3, filters=[EVERYTHING, nobody, nobody])
    assert given[0].filter == EVERYTHING and len(sources(given[0].passages)) > 1
    for answer in given[1:]:
        assert answer.filter == nobody and answer.passages == () and answer.places == ()
        assert answer.notes == ("no document that passes the filter may be read",)


def test_sentences_of_all_queries_vote_where_a_strategy_reads_them(fusion: RAGFusion) -> None:
    questions = ["Which club has a new striker? Who closes a bridge?", "Who is it?"]
    (one, two) = RAGFusion(replace(fusion.retriever, strategy="segment_mrag")).answer(questions, queries=GIVEN)
    library = fusion.retriever.library
    assert isinstance(library, FilteredRetriever)
    for answer in (one, two):
        texts = list(answer.queries.all)
        lists = library.retriever.search(encoder(), texts, strategy="segment_mrag", fetch=20).indices
        for passage, places in zip(answer.passages, answer.places, strict=True):
            for place, row in zip(places, lists.tolist(), strict=True):
                assert place is None or library.chunks[row[place - 1]] == passage


def test_access_rights_hold_for_all_queries(fusion: RAGFusion) -> None:
    one = documents()[3]
    (answer,) = over(fusion, None).answer(QUESTIONS[:1], queries=GIVEN[:1], documents=[one.id])
    assert {passage.document for passage in answer.passages} == {one.id}
    (answer,) = over(fusion, None).answer(QUESTIONS[:1], queries=GIVEN[:1], categories=[])
    assert answer.passages == () and answer.notes == ("no document may be read",)


def test_multi_meta_rag_keeps_to_a_filter_given_to_it(fusion: RAGFusion) -> None:
    source = documents()[0].metadata["source"]
    rag = MultiMetaRAG(fusion.retriever)
    (answer,) = rag.answer(["Who is it?"], filters=[Condition("source", "$eq", (source,))])
    assert answer.passages and sources(answer.passages) == {source} and answer.hypothesis == ""
    barred = [document.id for document in documents() if document.metadata["source"] != source]
    (answer,) = rag.answer(["Who is it?"], filters=[Condition("source", "$eq", (source,))], documents=barred)
    assert answer.passages == () and answer.notes == ("no document that passes the filter may be read",)


def test_bad_input_is_named(fusion: RAGFusion) -> None:
    with pytest.raises(InputError, match="1 lists of queries for 2 questions; give one for each question"):
        fusion.answer(QUESTIONS, queries=[[]])
    with pytest.raises(InputError, match="1 filters for 2 questions"):
        fusion.answer(QUESTIONS, filters=[EVERYTHING])
    with pytest.raises(InputError, match="question 1 of 2 is blank"):
        fusion.answer(["Who?", " "])
    with pytest.raises(InputError, match="would fuse twice"):
        RAGFusion(replace(fusion.retriever, strategy="fusion"))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"original_weight": -1.0}, "original_weight is -1.0; give a finite number of 0 or more"),
        ({"k": 0.0}, "k is 0.0; give a number above 0"),
        ({"first_rank": 2}, "first_rank is 2"),
    ]
    for settings, says in wrong:
        with pytest.raises(InputError, match=says):
            over(fusion, None, **settings)
