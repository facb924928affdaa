"""RAG-Fusion: the article's example, query generation and its repairs, searching with any strategy, the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.data.records import Document
from mrag_rl.errors import InputError
from mrag_rl.generation import CachedLLM, Prompt, Usage, answer_prompt, messages, query_prompt, render
from mrag_rl.generation.fusion_prompts import EXAMPLES, MOST_QUERIES
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.retrieval import MultiAspectRetriever
from mrag_rl.retrieval.fusion_queries import (
    FusionQueries,
    generate_queries,
    generation_tokens,
    parse_queries,
)
from mrag_rl.retrieval.voting import Ranking, by_owner, reciprocal_rank_fusion
from tests.tiny import TextsOnly, encoder, write_tiny_llm

# What the article's four searches find; documents by their number.
ARTICLE = ([8, 9], [10, 2, 3, 8], [8, 9, 5, 2], [9, 2, 4, 5, 8])


def lists(rankings: Sequence[Sequence[int]]) -> np.ndarray:
    """One question's rankings, (1, Q, c)."""
    width = max(map(len, rankings))
    return np.array([[[*ranking, *[-1] * (width - len(ranking))] for ranking in rankings]])


def fused(rankings: Sequence[Sequence[int]], **settings: float) -> dict[int, float]:
    documents = {document for ranking in rankings for document in ranking}
    ranking = reciprocal_rank_fusion(lists(rankings), len(documents), **settings)  # type: ignore[arg-type]
    return dict(zip(ranking.indices[0].tolist(), ranking.scores[0].tolist(), strict=True))


def test_the_articles_example_to_the_last_digit() -> None:
    # The scores that the article prints list by list. Its picture is hard to read in places: where a digit of it is
    # no sum of 1 / (60 + rank), the sum stands here.
    assert {document: repr(score) for document, score in fused(ARTICLE[:1]).items()} == {
        8: "0.016666666666666666", 9: "0.01639344262295082",
    }  # fmt: skip
    assert {document: repr(score) for document, score in fused(ARTICLE[:2]).items()} == {
        8: "0.032539682539682535", 10: "0.016666666666666666", 2: "0.01639344262295082", 9: "0.01639344262295082",
        3: "0.016129032258064516",
    }  # fmt: skip
    assert {document: repr(score) for document, score in fused(ARTICLE[:3]).items()} == {
        8: "0.0492063492063492", 9: "0.03278688524590164", 2: "0.032266458495966696", 10: "0.016666666666666666",
        3: "0.016129032258064516", 5: "0.016129032258064516",
    }  # fmt: skip
    whole = fused(ARTICLE)
    assert list(whole) == [8, 9, 2, 5, 10, 3, 4]
    assert whole == {
        8: 1 / 60 + 1 / 63 + 1 / 60 + 1 / 64, 9: 1 / 61 + 1 / 61 + 1 / 60, 2: 1 / 61 + 1 / 63 + 1 / 61,
        5: 1 / 62 + 1 / 63, 10: 1 / 60, 3: 1 / 62, 4: 1 / 62,
    }  # fmt: skip


def test_the_formula_counts_ranks_from_one() -> None:
    assert fused(ARTICLE, first_rank=1)[9] == 1 / 62 + 1 / 62 + 1 / 61
    assert fused([[4]], first_rank=1, k=0) == {4: 1.0}


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_fusion_equals_its_definition(data: st.DataObject) -> None:
    places = data.draw(st.integers(0, 5))
    one = st.permutations(range(7)).map(lambda order: order[:places])
    rankings = np.array(data.draw(st.lists(st.lists(one, min_size=3, max_size=3), min_size=1, max_size=4)), dtype=int)
    rankings[rankings == 6] = -1
    weight = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    k, first, fetch = data.draw(st.sampled_from([1.0, 60.0])), data.draw(st.sampled_from([0, 1])), 4
    result = reciprocal_rank_fusion(rankings, fetch, original_weight=weight, k=k, first_rank=first)
    assert result.indices.shape == result.scores.shape == (len(rankings), fetch)
    for row, question in enumerate(rankings):
        scores = dict.fromkeys(sorted({int(x) for x in question.ravel() if x >= 0}), 0.0)
        for number, ranking in enumerate(question):
            for place, document in enumerate(ranking):
                if document >= 0:
                    scores[int(document)] += (1.0 if number else weight) / (k + first + place)
        best = sorted(scores.items(), key=lambda item: -item[1])[:fetch]
        best += [(-1, 0.0)] * (fetch - len(best))
        assert result.indices[row].tolist() == [document for document, _ in best]
        assert result.scores[row].tolist() == [score for _, score in best]


def test_an_original_that_weighs_more_wins() -> None:
    rankings = lists([[1], [2, 3], [3, 2]])
    assert reciprocal_rank_fusion(rankings, 3).indices[0, 0] == 2
    heavy = reciprocal_rank_fusion(rankings, 3, original_weight=70.0)
    assert heavy.indices[0].tolist() == [1, 2, 3]  # 2 and 3 are equal
    assert heavy.scores[0, 0] == 70 / 60


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"first_rank": 2}, "first_rank is 2; give 0"),
        ({"k": 0.0}, "k is 0.0; give a number above 0"),
        ({"k": float("nan")}, "k is nan"),
        ({"original_weight": -1.0}, "original_weight is -1.0; give a finite number of 0 or more"),
        ({"original_weight": np.inf}, "original_weight is inf; give a finite number"),
        ({"fetch": 0}, "fetch is 0"),
    ],
)
def test_bad_settings_of_fusion_are_named(settings: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        reciprocal_rank_fusion(lists([[1], [2]]), **{"fetch": 3, **settings})


class Writer(TextsOnly):
    """An LLM that writes prepared texts for each question: the first at the first attempt, then the second."""

    fingerprint = "writer"

    def __init__(self, texts: dict[str, Sequence[str]]) -> None:
        self.texts = {question: iter(answers) for question, answers in texts.items()}
        self.usage = Usage()
        self.calls: list[tuple[list[str], float, int]] = []

    def render(self, prompt: Prompt) -> str:
        return prompt.query

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(
        self, prompts: Sequence[Prompt], *, temperature: float = 0.0, seeds: int | Sequence[int] = 0, **settings: Any
    ) -> list[list[str]]:
        assert isinstance(seeds, int)
        self.calls.append(([prompt.query for prompt in prompts], temperature, seeds))
        return [[next(self.texts[prompt.query])] for prompt in prompts]


def test_all_questions_are_tried_at_once_and_those_with_too_few_queries_once_more() -> None:
    llm = Writer(
        {
            "Who won?": ["the winner || the final || WHO WON || the cup"],
            "And then?": ["1. the end\n\n2. The end.", "3. the end\n4. after the end\n5. later\n6. much later"],
            "Why?": ["", "- because"],
        }
    )
    results = generate_queries(llm, ["Who won?", "And then?", "Why?"], 3, seed=7)
    assert [queries.generated for queries in results] == [
        ("the winner", "the final", "the cup"),
        ("the end", "after the end", "later"),
        ("because",),
    ]
    assert [queries.note for queries in results] == ["", "", "the LLM wrote 1 of 3 usable queries, asked twice"]
    assert results[0].all == ("Who won?", "the winner", "the final", "the cup")
    assert llm.calls == [(["Who won?", "And then?", "Why?"], 0.7, 7), (["And then?", "Why?"], 0.7, 8)]


def test_a_second_attempt_is_never_greedy() -> None:
    llm = Writer({"Why?": ["", "so"]})
    assert generate_queries(llm, ["Why?"], 1, temperature=0.0)[0].generated == ("so",)
    assert [temperature for _, temperature, _ in llm.calls] == [0.0, 0.7]


def test_queries_can_be_switched_off_given_and_edited() -> None:
    llm = Writer({})
    assert generate_queries(llm, ["Why?", "How?"], 0) == [FusionQueries("Why?"), FusionQueries("How?")]
    assert llm.calls == []
    assert FusionQueries.of("Why?", ["  so  it is", "", "why", "2. Bundesliga", "So it is!"]) == FusionQueries(
        "Why?", ("so it is", "2. Bundesliga")
    )


def test_names_that_differ_in_a_sign_are_other_queries() -> None:
    assert FusionQueries.of("C speed", ["C++ speed", "C# speed", "c++, speed"]).generated == ("C++ speed", "C# speed")


def test_bad_questions_and_numbers_are_named() -> None:
    with pytest.raises(InputError, match="9 generated queries; give 0 to 8"):
        generate_queries(Writer({}), ["Why?"], 9)
    with pytest.raises(InputError, match="question 1 of 2 is blank"):
        generate_queries(Writer({}), ["Why?", " "])


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("1. climate and health", "climate and health"),
        ("(2) climate and health", "climate and health"),
        ("[3] climate  and\thealth", "climate and health"),
        ("4: climate and health", "climate and health"),
        ("b) climate and health", "climate and health"),
        ("  -  climate and health", "climate and health"),
        ("* **climate and health**", "climate and health"),
        ('1. "climate and health"', "climate and health"),
        ("Query 3: climate and health", "climate and health"),
        ("- Search query: “climate and health”", "climate and health"),
        ("3.5 million displaced", "3.5 million displaced"),
        ("12:30 train to Oslo", "12:30 train to Oslo"),
        ("2023 elections", "2023 elections"),
        ("A. Smith's new book", "A. Smith's new book"),
        ('"Apple" against "Google"', '"Apple" against "Google"'),
        ("The Roar | Sports Writers Blog on rugby", "The Roar | Sports Writers Blog on rugby"),
        ("Wer gewann 東京?", "Wer gewann 東京?"),
    ],
)
def test_a_line_becomes_a_query(line: str, query: str) -> None:
    assert parse_queries(line) == [query]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ('["a storm", "its costs"]', ["a storm", "its costs"]),
        ('```json\n["a storm",\n "its costs"]\n```', ["a storm", "its costs"]),
        ('Sure! ["1. a storm", "2. its costs"]', ["a storm", "its costs"]),
        ("1. a storm; 2. its costs", ["a storm", "its costs"]),
        ("1) a storm 2) its costs 3) who paid", ["a storm", "its costs", "who paid"]),
        ("Sure! 1. a storm", ["a storm"]),
        ("Here you are: 1. a storm, 2. its costs", ["a storm", "its costs"]),
        ("Sure! Here you are:\n1. a storm\n2. its costs", ["a storm", "its costs"]),
        ("the storm of 1. May and 2. June", ["the storm of 1. May and 2. June"]),
        ("Windows 1. version", ["Windows 1. version"]),
        ("the report [1] of the storm [2]", ["the report [1] of the storm [2]"]),
        ('["a storm", 7]', ['["a storm", 7]']),
        ('["a storm", "its costs"', ["a storm", "its costs"]),
        ('["a storm", "its costs", "who pa', ["a storm", "its costs"]),
        ('```json\n["a storm",\n "its costs"\n```', ["a storm", "its costs"]),
        ("['a storm', 'the king's speech']", ["a storm", "the king's speech"]),
        ("['it\\'s a storm', \"its costs\"]", ["it's a storm", "its costs"]),
        ('[\n  "a storm",\n  "its \\"costs\\" there",\n]', ["a storm", 'its "costs" there']),
        ('[1] "storm" damage', ['"storm" damage']),
    ],
)
def test_lists_in_other_forms_become_queries(text: str, queries: list[str]) -> None:
    assert parse_queries(text) == queries


@pytest.mark.parametrize(
    "text", ["", "\n \n", "```", "---", "Here are four search queries:", "1.", "1. ||2)", "|| || "]
)
def test_text_without_words_has_no_query(text: str) -> None:
    assert parse_queries(text) == []


@given(st.text(alphabet="ab1.|:- \n\"*'?", max_size=60))
@settings(max_examples=300, deadline=None)
def test_parsed_queries_are_distinct_clean_and_parse_to_themselves(text: str) -> None:
    queries = parse_queries(text)
    assert all(query == query.strip() and any(map(str.isalnum, query)) and "\n" not in query for query in queries)
    assert len({query.casefold() for query in queries}) == len(queries)
    assert parse_queries("\n".join(queries)) == queries


def test_a_real_llm_writes_queries_that_repeat_with_their_seed(tmp_path: Path) -> None:
    texts = ["bridge || harbour || council || market || river || the || a || new"] * 3
    llm = TransformersLLM.load(write_tiny_llm(tmp_path / "llm", texts))
    questions = ["new bridge", "the river market"]
    first = generate_queries(llm, questions, 4, seed=1)
    assert all(0 < len(queries.generated) <= 4 for queries in first)
    assert all(set(" ".join(queries.generated).split()) <= set(texts[0].split()) | {"<unk>"} for queries in first)
    assert generate_queries(llm, questions[1:], 4, seed=1) == first[1:]
    assert generate_queries(llm, questions, 4, seed=2) != first
    with CachedLLM(llm, tmp_path / "cache.sqlite") as cached:
        assert generate_queries(cached, questions, 4, seed=1) == first
        batches = llm.usage.batches
        assert generate_queries(cached, questions, 4, seed=1) == first
        assert llm.usage.batches == batches


def test_search_and_fusion_of_all_queries_are_the_fusion_strategies() -> None:
    texts = ["Cats purr.", "Dogs bark loudly.", "A harbour has ships.", "Ships sail to the harbour.", "Rain falls."]
    retriever = MultiAspectRetriever.build(encoder(), texts)
    queries = [FusionQueries("ships in rain", ("a harbour", "weather")), FusionQueries("pets")]

    def search_fused(queries: Sequence[FusionQueries], strategy: str, **settings: float) -> Ranking:
        flat = [text for query in queries for text in query.all]
        owners = np.repeat(np.arange(len(queries)), [len(query.all) for query in queries])
        indices = retriever.search(encoder(), flat, strategy=strategy, fetch=3).indices
        return reciprocal_rank_fusion(by_owner(indices, owners, len(queries)), 3, **settings)  # type: ignore[arg-type]

    for strategy, fusion in (("standard", "fusion"), ("mrag", "fusion_mrag")):
        result = search_fused(queries, strategy)
        expected = retriever.search(
            encoder(), ["ships in rain", "pets"], strategy=fusion, fetch=3, questions=[["a harbour", "weather"], []]
        )
        assert result.indices.tolist() == expected.indices.tolist()
        np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert search_fused([], "mrag").indices.shape == (0, 3)
    alone = retriever.search(encoder(), ["ships in rain"], strategy="mrag", fetch=3).indices
    assert search_fused(queries[:1], "mrag", original_weight=1000.0).indices.tolist() == alone.tolist()


def test_the_tokens_of_generation_are_those_of_prompt_and_queries() -> None:
    questions, queries = ["Who won the cup?", "Why?"], [["cup winner", "final"], ["reason"]]
    prompts = [render(query_prompt("Who won the cup?", 2)), render(query_prompt("Why?", 1))]
    words = encoder().tokenizer.tokenize
    assert generation_tokens(encoder().tokenizer, questions, queries) == {
        "prompt": sum(len(words(prompt)) for prompt in prompts) / 2,
        "completion": (len(words("cup winner || final")) + len(words("reason"))) / 2,
    }
    many = generation_tokens(encoder().tokenizer, ["Why?"], [["reason"] * 12])  # More than one prompt asks for
    assert many["completion"] == 12 + 11 * len(words("||"))


def test_the_query_prompt_shows_as_many_queries_as_it_requests() -> None:
    for _, queries in EXAMPLES:
        assert len(set(queries)) == MOST_QUERIES
    for n in range(1, MOST_QUERIES + 1):
        prompt = query_prompt("Who won?", n)
        assert [len(parse_queries(target)) for _, target in prompt.demonstrations] == [n, n]
        assert render(prompt).endswith(f"Question: Who won?\n{n} search {'queries' if n > 1 else 'query'}:")
        assert f"Write {n} search" in messages(prompt)[0]["content"]


def test_the_answer_prompt_names_sources_and_sets_the_question_first_and_last() -> None:
    passages = [
        Document("1", "It\nwon.", "\nCup\n", metadata={"source": "The Verge", "published_at": "May 2, 2023", "x": 1}),
        Document("2", "It lost."),
    ]
    assert render(answer_prompt("Who won?", passages, ["winner", "cup final"])) == (
        "Question: Who won?\n"
        "Related queries, which count less: winner || cup final\n"
        "Passage 1 (Cup, The Verge, May 2, 2023): It won.\n"
        "Passage 2: It lost.\n"
        "The question to answer: Who won?\n"
        "Answer:"
    )
    plain = answer_prompt("Who won?", passages[1:])
    assert render(plain) == "Question: Who won?\nPassage 1: It lost.\nThe question to answer: Who won?\nAnswer:"
    assert "this question that counts" in messages(plain)[0]["content"]
