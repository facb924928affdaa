"""Multi-aspect corpora, queries and stories: filters, draws, checks, files; and the facts of an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mrag_rl.data.facts import facts
from mrag_rl.data.multi_aspect import (
    draw_aspects,
    load_documents,
    load_queries,
    save_documents,
    save_queries,
    select_documents,
)
from mrag_rl.data.records import Document, Query
from mrag_rl.data.titles import mentions
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import Usage
from mrag_rl.generation.prompts import Prompt, messages, render
from mrag_rl.generation.stories import reader_prompt, story_problem, story_prompt, write_stories
from mrag_rl.io import read_jsonl
from mrag_rl.metrics.facts import count_facts
from tests.tiny import TextsOnly

CATEGORIES = ("caves", "dances", "knots", "looms", "moths")


def corpus(per_category: int = 6, length: int = 40) -> list[Document]:
    return [
        Document(f"{name}-{i}", f"Text {i} of {name} ".ljust(length, "x"), f"The {name} of Velden {i}", name)
        for i in range(per_category)
        for name in CATEGORIES
    ]


def select(documents: Sequence[Document], **changes: int | None) -> list[str]:
    sizes: dict[str, int | None] = {"per_category": 3, "min_length": 20, "seed": 0}
    return [d.id for d in select_documents(documents, **(sizes | changes)).documents]  # type: ignore[arg-type]


def test_a_corpus_has_equal_categories_without_short_texts_and_duplicates() -> None:
    documents = corpus()
    documents += [
        Document("short", "Too short.", "A short one", "caves"),
        Document("same-text", documents[0].text.upper() + " ", "Another title", "moths"),
        Document("same-title", "An altogether different text".ljust(40, "."), "the  KNOTS of velden 2", "knots"),
        Document("rare", "The only one of its kind".ljust(40, "."), "Rare", "quilts"),
    ]
    selection = select_documents(documents, per_category=5, min_length=20)
    assert Counter(d.category for d in selection.documents) == dict.fromkeys(CATEGORIES, 5)
    assert not {"short", "same-text", "same-title"} & {d.id for d in selection.documents}
    assert (selection.too_short, selection.duplicates, selection.small_categories) == (1, 2, {"quilts": 1})
    # All six of each are drawn where six are wanted, so the draw above was among good documents alone.
    assert set(select(documents, per_category=6)) == {d.id for d in corpus()}


def test_the_draw_follows_its_seed_and_a_category_does_not_disturb_the_others() -> None:
    documents = corpus()
    assert select(documents) == select(documents) != select(documents, seed=1)
    fewer = select([d for d in documents if d.category != "dances"])
    assert fewer == [i for i in select(documents) if not i.startswith("dances")]
    some = {i.split("-")[0] for i in select(documents, categories=2)}
    assert len(some) == 2 and len({frozenset(select(documents, categories=2, seed=s)) for s in range(8)}) > 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"per_category": 7}, "0 of 5 categories have 7 distinct documents of 20 characters or more, but 1 are needed"),
        ({"categories": 6}, "5 of 5 categories have 3 distinct documents .*, but 6 are needed; lower"),
        ({"min_length": 41}, "0 of 5 categories"),
        ({"per_category": 0}, "ask for 1 or more"),
        ({"categories": 0}, "ask for 1 or more"),
    ],
)
def test_a_corpus_that_cannot_be_made_is_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        select(corpus(), **changes)
    assert "\n" not in str(caught.value)


def test_a_document_without_category_is_refused_by_name() -> None:
    documents = [*corpus(), Document("lost", "x" * 40)]
    with pytest.raises(InputError, match='"lost" has no category'):
        select_documents(documents, per_category=1, min_length=1)
    with pytest.raises(InputError, match='"lost" has no category'):
        draw_aspects(documents, aspects=[1], per_aspect=1)


def test_a_query_is_about_one_document_of_each_of_n_categories() -> None:
    drawn = draw_aspects(corpus(), aspects=[1, 3, 5], per_aspect=30, seed=0)
    assert [len(query) for query in drawn] == [1] * 30 + [3] * 30 + [5] * 30
    for query in drawn:
        assert len({d.category for d in query}) == len(query)
    # With one aspect there are exactly 30 documents, so 30 different queries are all of them.
    assert {query[0].id for query in drawn[:30]} == {d.id for d in corpus()}
    assert len({frozenset(d.id for d in query) for query in drawn}) == 90


def test_the_queries_of_one_number_do_not_depend_on_the_other_numbers() -> None:
    both = draw_aspects(corpus(), aspects=[2, 4], per_aspect=5, seed=3)
    assert draw_aspects(corpus(), aspects=[4], per_aspect=5, seed=3) == both[5:]
    assert draw_aspects(corpus(), aspects=[4], per_aspect=5, seed=4) != both[5:]


@pytest.mark.parametrize(
    ("aspects", "per_aspect", "says"),
    [
        (6, 1, "6 aspects, but the documents have 5 categories"),
        (0, 1, "0 aspects"),
        (1, 31, "31 queries of 1 aspects, but only 30 can be drawn"),
    ],
)
def test_more_aspects_or_queries_than_there_are_is_refused(aspects: int, per_aspect: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        draw_aspects(corpus(), aspects=[aspects], per_aspect=per_aspect)


@pytest.mark.parametrize(
    ("text", "title", "found"),
    [
        ("They played Go all night.", "Go (board game)", True),
        ("They played Gobang all night.", "Go (board game)", False),
        ("the lofty ÉLAN-vital of Bergson", "The Elan Vital", True),
        ("vital was her élan", "Elan Vital", False),
        ("Two Kolkraben's feathers, said Rastow's keeper", "Rastow", True),
        ("Dingoes and minerals", "Dingo", True),
        ("Dingoes and minerals", "The Mineral", True),
        ("An unmineralised mind", "Mineral", False),
        ("They sang The Who", "The Who", True),
        ("He wrote C++ and went", "C++", True),
        ("!!!! said the band called !!!", "!!!", True),
        ("Silence", "!!!", False),
    ],
)
def test_a_title_is_found_whatever_its_dress(text: str, title: str, found: bool) -> None:
    assert mentions(text, title) is found


def test_a_story_lacks_a_title_or_is_only_a_list_of_them() -> None:
    documents = corpus(1)[:3]
    titles = "; ".join(d.title for d in documents)
    assert story_problem(f"{titles} {'and so they went on and on. ' * 5}", documents) == ""
    assert story_problem(titles, documents) == "4 characters besides the titles, not 100"
    missing = story_problem(f"{documents[1].title} {'and so they went on and on. ' * 5}", documents)
    assert missing == "2 of 3 titles missing: The caves of Velden 0; The knots of Velden 0"


class ForgetfulLLM(TextsOnly):
    """Writes a passable story, but leaves out the last title with every seed but those it is told are lucky."""

    fingerprint = "forgetful"

    def __init__(self, lucky: Sequence[int]) -> None:
        self.usage = Usage()
        self.lucky = lucky
        self.calls: list[tuple[int, int]] = []

    def render(self, prompt: Prompt) -> str:
        return prompt.query

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(
        self, prompts: Sequence[Prompt], *, temperature: float = 0.0, seeds: int | Sequence[int] = 0, **settings: Any
    ) -> list[list[str]]:
        assert isinstance(seeds, int) and temperature > 0
        self.calls.append((len(prompts), seeds))
        texts = []
        for prompt in prompts:
            titles = prompt.query.split("\n")[0].partition(": ")[2].split("; ")
            # The longest story, of all five, is beyond it.
            keep = titles if len(self.calls) - 1 in self.lucky and len(titles) < 5 else titles[:-1]
            texts.append([" ".join(f"Then they came upon {title} and told many tales of it." for title in keep) * 2])
        return texts


def test_a_story_that_forgets_a_title_is_asked_for_again_and_at_last_dropped_and_reported() -> None:
    drawn = draw_aspects(corpus(), aspects=[2, 5, 3], per_aspect=2)
    llm = ForgetfulLLM(lucky=[1])
    stories = write_stories(llm, drawn, attempts=3)
    assert [calls for calls, _ in llm.calls] == [6, 6, 2] and len({seed for _, seed in llm.calls}) == 3
    assert [query.id for query in stories.queries] == ["q0", "q1", "q4", "q5"]
    for query, documents in zip(stories.queries, (drawn[0], drawn[1], drawn[4], drawn[5]), strict=True):
        assert query.relevant == tuple(d.id for d in documents) and query.metadata == {"attempts": 2}
        assert story_problem(query.text, documents) == ""
    assert [dropped.relevant for dropped in stories.dropped] == [tuple(d.id for d in drawn[i]) for i in (2, 3)]
    assert stories.dropped[0].problem == f"1 of 5 titles missing: {drawn[2][-1].title}"


def test_a_model_that_answers_at_once_is_asked_once() -> None:
    llm = ForgetfulLLM(lucky=[0])
    stories = write_stories(llm, draw_aspects(corpus(), aspects=[3], per_aspect=4))
    assert len(stories.queries) == 4 and not stories.dropped and len(llm.calls) == 1


def test_a_real_model_that_cannot_write_stories_has_none_passed_off_as_written(tmp_path: Path) -> None:
    from tests.tiny import tiny_llm

    llm = tiny_llm(tmp_path)
    drawn = draw_aspects(corpus(), aspects=[1, 2], per_aspect=2)
    stories = write_stories(llm, drawn, attempts=2, max_new_tokens=8)
    assert not stories.queries and len(stories.dropped) == 4 and llm.usage.prompts == 8
    assert all("titles missing" in dropped.problem for dropped in stories.dropped)


def test_stories_are_refused_without_titles_or_attempts() -> None:
    with pytest.raises(InputError, match='"d" has no title'):
        story_prompt([Document("d", "text", category="c")])
    with pytest.raises(InputError, match="0 attempts"):
        write_stories(ForgetfulLLM([0]), [], attempts=0)
    with pytest.raises(InputError, match="temperature 0"):
        write_stories(ForgetfulLLM([0]), [], temperature=0.0)


def test_prompts_show_titles_and_question_before_what_may_be_cut() -> None:
    documents = [Document("a", "Text A.", "Alpha", "letters", {"year": 1921}), Document("b", "Text B.", "Beta")]
    story = story_prompt(documents)
    assert story.query.startswith("2 titles to mention: Alpha; Beta\n\nAlpha\nText A.\n\nBeta\n")
    reader = reader_prompt("What is first?", documents)
    assert reader.query == "What is first?\n\n1. Alpha\n[letters; year: 1921]\nText A.\n\n2. Beta\nText B."
    for prompt in (story, reader):
        assert prompt.query in render(prompt) and prompt.query in messages(prompt)[0]["content"]


def test_saved_documents_and_queries_load_back_equal(tmp_path: Path) -> None:
    documents = [Document("a", "Text A.", "Alpha", "letters", {"year": 1921}), Document("b", "B", category="letters")]
    queries = [Query("q", "Where?", ("b", "a"), ("Who?",), {"attempts": 1}), Query("r", "When?", ("a",))]
    save_documents(tmp_path / "d.jsonl", documents)
    save_queries(tmp_path / "q.jsonl", queries)
    assert load_documents(tmp_path / "d.jsonl") == documents
    assert load_queries(tmp_path / "q.jsonl", documents) == queries


def test_a_good_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def noted(path: Path) -> Iterator[tuple[int, Any]]:
        read.append(path)
        return read_jsonl(path)

    for module in ("rows", "multi_aspect"):
        monkeypatch.setattr(f"mrag_rl.data.{module}.read_jsonl", noted)
    documents = [Document(str(n), "text", category="c") for n in range(3)]
    save_documents(tmp_path / "d.jsonl", documents)
    save_queries(tmp_path / "q.jsonl", [Query("q", "what?", ("1", "2"))])
    assert load_documents(tmp_path / "d.jsonl") == documents
    assert load_queries(tmp_path / "q.jsonl", documents)[0].relevant == ("1", "2")
    assert read == [tmp_path / "d.jsonl", tmp_path / "q.jsonl"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not valid JSON"),
        ('{"id": "b", "category": "c"}', 'no "text"'),
        ('{"id": "b", "text": " ", "category": "c"}', '"text" is empty'),
        ('{"id": "a", "text": "t", "category": "c"}', 'duplicate id "a"'),
        ('{"id": "b", "text": "t"}', 'no "category"; add the one'),
        ('{"id": "b", "text": "t", "category": "  "}', 'no "category"; add the one'),
    ],
)
def test_a_bad_document_is_named_by_its_line(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "d.jsonl").write_text(f'{{"id": "a", "text": "t", "category": "c"}}\n\n{line}\n')
    with pytest.raises(InputError, match=rf"d\.jsonl:3: .*{says}") as caught:
        load_documents(tmp_path / "d.jsonl")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "r", "text": "t", "relevant": "a"}', '"relevant" is a string'),
        ('{"id": "r", "text": "", "relevant": ["a"]}', '"text" is empty'),
        ('{"id": "q", "text": "t", "relevant": ["a"]}', 'duplicate id "q"'),
        ('{"id": "r", "text": "t", "relevant": ["a", "z"]}', 'relevant id "z" is not a document'),
        ('{"id": "r", "text": "t", "relevant": ["a", "a"]}', 'relevant id "a" is listed 2 times'),
        ('{"id": "r", "text": "t"}', 'no "relevant" and no "aspects"'),
        ('{"id": "r", "text": "t", "relevant": ["a"], "aspects": [["a"]]}', 'both "relevant" and "aspects"'),
        ('{"id": "r", "text": "t", "aspects": [["a"], ["z"]]}', 'aspects id "z" is not a document'),
        ('{"id": "r", "text": "t", "aspects": [["a", "a"]]}', 'aspects id "a" is listed 2 times'),
        ('{"id": "r", "text": "t", "aspects": ["a"]}', '"aspects" is not a list of lists of strings'),
        ('{"id": "r", "text": "t", "aspects": [["a"], []]}', '"aspects" is not a list of lists of strings'),
        ('{"id": "r", "text": "t", "aspects": [["a", " "]]}', '"aspects" is not a list of lists of strings'),
        ('{"id": "r", "text": "t", "aspects": "a"}', '"aspects" is not a list of lists of strings'),
    ],
)
def test_a_bad_query_is_named_by_its_line(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "q.jsonl").write_text(f'\n{{"id": "q", "text": "t", "relevant": ["a"]}}\n{line}\n')
    with pytest.raises(InputError, match=rf"q\.jsonl:3: .*{says}") as caught:
        load_queries(tmp_path / "q.jsonl", [Document("a", "t", category="c")])
    assert "\n" not in str(caught.value)


def test_space_around_a_category_makes_no_other_category(tmp_path: Path) -> None:
    save_documents(tmp_path / "d.jsonl", [Document("a", "A", category="towns "), Document("b", "B", category="towns")])
    assert [document.category for document in load_documents(tmp_path / "d.jsonl")] == ["towns", "towns"]


def test_a_text_of_100_000_characters_loads(tmp_path: Path) -> None:
    text = "Velden lies by the sea. " * 4200
    save_documents(tmp_path / "d.jsonl", [Document("a", text, "Velden", "towns")])
    assert load_documents(tmp_path / "d.jsonl")[0].text == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("In 1921 they left. In 1921 they came.", {"1921"}),
        ("It weighed 3.5kg on the 20th, and a 2,5m pole of 1921.", {"1921"}),
        ("It cost 2.5 million and 3,500 men fell on 12 May.", {"2ꞏ5", "3500", "12", "may"}),
        ("There they met Anna Adler's sister. However, nobody spoke.", {"anna adler"}),
        ("The Battle of the Great Plains began.", {"battle of the great plains"}),
        ("Élodie de la Tour fled.", {"elodie de la tour"}),
        ("Velden was lost. Nobody knew.", set()),
        ("Velden was lost, as all Velden knew.", {"velden"}),
        ("NASA said so; the UN did not.", {"nasa", "un"}),
        ("1. First\n2) Then it snowed.\n[3] At last it thawed.", set()),
        ("They met in the café of his fiancée, naïve as ever.", set()),
        ("There stands the Überseering, and Он живёт в Москве.", {"uberseering", "он", "москве"}),
        ("There a 5G mast and a 3D print stood.", set()),
        ("It’s Anna’s, and it's not Boris's.", {"anna", "boris"}),
        ("room B12a, from 1914-1918", {"b12a", "1914", "1918"}),
        ("", set()),
    ],
)  # fmt: skip
def test_the_facts_of_a_text_are_its_numbers_and_names(text: str, found: set[str]) -> None:
    assert facts(text) == found


@pytest.mark.parametrize("filler", ["\n", "Aa. ", "Mr. ", '." ', "1. ", "and "])
def test_the_facts_of_100_000_characters_are_found_at_once(filler: str) -> None:
    text = filler * (100_000 // len(filler)) + "then Anna Adler came in 1921."
    assert {"anna adler", "1921"} <= facts(text)  # Squared in the length, this would take minutes


def test_facts_are_counted_apart_where_the_wanted_documents_bear_them_out() -> None:
    wanted = [
        Document("a", "The lamp was lit in 1821 by Anna Adler.", "Velden Light"),
        Document("b", "It flows to Marbeck.", "River Ostra"),
    ]
    untitled = Document("c", "Nobody has named it.")
    assert count_facts(["A story."], [[untitled]])[0].titles == 0
    answers = ["The Velden Light was lit in 1821, and Boris Becker saw it in 1999.", "Nothing is known."]
    first, second = count_facts(answers, [wanted, wanted])
    assert (first.stated, first.supported, first.titles, first.relevant) == (4, 2, 1, 2)
    assert (second.stated, second.supported, second.titles, second.relevant) == (0, 0, 0, 2)
