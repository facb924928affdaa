"""The bundled articles and stories: sizes, titles, how far words and vectors tell the categories apart."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from mrag_rl.data.multi_aspect import ASPECTS, select_documents
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic.articles import MIN_LENGTH, make_articles
from mrag_rl.data.synthetic.names import invented_names
from mrag_rl.data.synthetic.subjects import subjects
from mrag_rl.data.titles import mentions
from mrag_rl.errors import InputError
from mrag_rl.generation.stories import story_problem

CATEGORIES = tuple(subject.name for subject in subjects())


@cache
def world() -> tuple[list[Document], list[Query]]:
    return make_articles(0, per_category=40, queries_per_aspect=5)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", text)


def test_every_category_has_its_articles_and_every_title_is_one_articles_own() -> None:
    documents, _ = world()
    assert len(CATEGORIES) == 25
    assert Counter(document.category for document in documents) == dict.fromkeys(CATEGORIES, 40)
    assert (
        len({d.id for d in documents}) == len({d.title for d in documents}) == len({d.text for d in documents}) == 1000
    )
    for document in documents:
        assert document.title in document.text and "{" not in document.text
        assert len(document.text) >= MIN_LENGTH and len(sentences(document.text)) >= 8
    assert len(invented_names()) == len(set(invented_names())) == 300


def test_the_corpus_passes_the_papers_filters_untouched() -> None:
    documents, _ = world()
    selection = select_documents(documents, per_category=40, categories=25, min_length=MIN_LENGTH)
    assert (selection.too_short, selection.duplicates, selection.small_categories) == (0, 0, {})
    assert {d.id for d in selection.documents} == {d.id for d in documents}


def test_no_two_articles_share_more_than_half_of_their_sentences() -> None:
    """Forms are shared, but the words that fill them are drawn for each article."""
    documents, _ = world()
    for category in CATEGORIES:
        texts = [set(sentences(d.text)) for d in documents if d.category == category]
        for one, other in combinations(texts, 2):
            assert 2 * len(one & other) <= min(len(one), len(other)), one & other


def test_no_single_word_gives_a_category_away_but_all_words_together_do() -> None:
    documents, _ = world()
    labels = np.array([CATEGORIES.index(document.category) for document in documents])
    words = CountVectorizer(binary=True).fit_transform([document.text for document in documents])
    total = np.asarray(words.sum(axis=0)).ravel()
    for label, category in enumerate(CATEGORIES):
        inside = np.asarray(words[labels == label].sum(axis=0)).ravel()
        f1 = 2 * inside / (total + (labels == label).sum())
        assert f1.max() < 0.97, category
    train = np.arange(len(documents)) % 2 == 0
    # Names, places and common sentences do not help; the category's own words do.
    model = LogisticRegression(max_iter=200).fit(words[train], labels[train])
    assert model.score(words[~train], labels[~train]) > 0.97


def test_stories_mention_each_title_in_a_sentence_of_its_own() -> None:
    documents, queries = world()
    by_id = {document.id: document for document in documents}
    assert Counter(len(query.relevant) for query in queries) == dict.fromkeys(ASPECTS, 5)
    for query in queries:
        relevant = [by_id[identifier] for identifier in query.relevant]
        assert len({document.category for document in relevant}) == len(relevant)
        assert story_problem(query.text, relevant) == "" and "{" not in query.text
        story = sentences(query.text)
        places = [[i for i, s in enumerate(story) if mentions(s, document.title)] for document in relevant]
        assert all(len(place) == 1 for place in places), query.text
        assert places == sorted(places) and len({place[0] for place in places}) == len(places)
        # At least a sentence more about each, an opening and a closing.
        assert len(story) >= 2 * len(relevant) + 2
        assert len(query.questions) == len(set(query.questions)) == 4
        others = [d for d in documents if d.id not in query.relevant]
        assert not any(mentions(query.text, document.title) for document in others[::37])


def test_a_story_repeats_no_sentence_of_the_articles() -> None:
    documents, queries = world()
    article_sentences = {sentence for document in documents for sentence in sentences(document.text)}
    assert not article_sentences & {sentence for query in queries for sentence in sentences(query.text)}


def test_the_same_seed_writes_the_same_and_another_seed_something_else() -> None:
    assert make_articles(3, 4, 2) == make_articles(3, 4, 2)
    documents, queries = make_articles(3, 4, 2)
    other_documents, other_queries = make_articles(4, 4, 2)
    assert not {d.text for d in documents} & {d.text for d in other_documents}
    assert not {q.text for q in queries} & {q.text for q in other_queries}


def test_every_form_can_be_filled() -> None:
    """Over a few seeds, every lead and sentence occurs with its placeholders filled."""
    texts = " ".join(d.text for seed in (0, 1) for d in make_articles(seed, 60, 1)[0])
    for subject in subjects():
        assert all(len(words) == 8 for words in subject.words.values()), subject.name
        for form in (*subject.leads, *subject.body):
            longest = max(re.split(r"\{\w+\}", form), key=len)
            assert longest in texts, form


@pytest.mark.parametrize(("per_category", "queries"), [(0, 1), (301, 1), (4, 0)])
def test_impossible_sizes_are_refused(per_category: int, queries: int) -> None:
    with pytest.raises(InputError, match="ask for 1"):
        make_articles(0, per_category, queries)


def test_real_vectors_tell_the_categories_apart_and_miss_what_a_long_story_is_about() -> None:
    """MiniLM: nearest articles are of the same category, yet a story of ten as a whole finds few of them."""
    from tests.tiny import encoder

    documents, queries = make_articles(1, 6, 4)
    vectors = encoder().encode_standard([document.text for document in documents])
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -1)
    labels = np.array([document.category for document in documents])
    assert (labels[similar.argmax(axis=1)] == labels).mean() > 0.9

    place = {document.id: row for row, document in enumerate(documents)}
    ten = [query for query in queries if len(query.relevant) == 10]
    whole, split = [], []
    for query in ten:
        relevant = {place[identifier] for identifier in query.relevant}
        near = np.argsort(-(vectors @ encoder().encode_standard([query.text])[0]))[:30]
        whole.append(len(relevant & set(near.tolist())) / 10)
        scores = encoder().encode_standard(sentences(query.text)) @ vectors.T
        ranks = np.argsort(np.argsort(-scores, axis=1), axis=1)
        best = np.argsort(-(2.0**-ranks).sum(axis=0))[:30]
        split.append(len(relevant & set(best.tolist())) / 10)
    assert np.mean(split) > np.mean(whole) + 0.2, (np.mean(whole), np.mean(split))
