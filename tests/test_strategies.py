"""Every strategy against its definition written out in loops, and what a retriever refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.errors import InputError
from mrag_rl.retrieval import STRATEGIES, EncodedQueries, MultiAspectRetriever, Parts, Ranking, WordIndex
from mrag_rl.retrieval.hybrid import HybridSettings, hybrid
from mrag_rl.retrieval.importance import RunningImportance
from mrag_rl.retrieval.index import IndexKind
from mrag_rl.retrieval.late_interaction import STANDARD_SHARE, TEMPERATURE
from mrag_rl.retrieval.strategies import DOCUMENT_SENTENCES, EXHAUSTIVE, QUERY_SENTENCES, QUESTIONS, check_strategies
from mrag_rl.retrieval.strategies import TEXTS as TEXT_STRATEGIES
from tests.test_rivals import bm25 as written_out_bm25
from tests.tiny import encoder

DOCUMENTS, QUERIES, HEADS, WIDTH, HEAD_WIDTH = 60, 6, 4, 16, 5


def random_embeddings(rng: np.random.Generator, count: int) -> Embeddings:
    standard = rng.standard_normal((count, WIDTH)) + 0.5
    heads = rng.standard_normal((count, HEADS, HEAD_WIDTH)) + np.linspace(0, 2, HEADS)[:, None]
    norms = np.linalg.norm(heads, axis=-1)
    return Embeddings(
        (standard / np.linalg.norm(standard, axis=-1, keepdims=True)).astype(np.float32),
        (heads / norms[..., None]).astype(np.float32),
        norms.astype(np.float32),
    )


def random_parts(rng: np.random.Generator, texts: int, low: int) -> Parts:
    """`low` to 3 parts of every text."""
    owners = np.repeat(np.arange(texts), rng.integers(low, 4, size=texts))
    return Parts(random_embeddings(rng, len(owners)), owners)


RNG = np.random.default_rng(0)
CORPUS = random_embeddings(RNG, DOCUMENTS)
CORPUS_SENTENCES = random_parts(RNG, DOCUMENTS, 1)
QUERY_PARTS = random_parts(RNG, QUERIES, 1)


def random_sentence(rng: np.random.Generator, length: int) -> str:
    """Words of which every text has one, "the"."""
    return " ".join(["the", *rng.choice(["goal", "storm", "river", "train", "bridge", "market", "ice"], length)]) + "."


CORPUS_TEXTS = [random_sentence(np.random.default_rng([7, row]), 3 + row % 5) for row in range(DOCUMENTS)]
QUERY_SENTENCE_TEXTS = [
    [random_sentence(RNG, 2 + 5 * row) for row in range(n)] for n in np.bincount(QUERY_PARTS.owners)
]
ENCODED = EncodedQueries(
    random_embeddings(RNG, QUERIES),
    QUERY_PARTS,
    random_parts(RNG, QUERIES, 0),
    tuple(" ".join(sentences) for sentences in QUERY_SENTENCE_TEXTS),
)
assert ENCODED.sentences is not None and ENCODED.questions is not None and ENCODED.texts is not None

Vector = np.ndarray
Vote = Callable[[int, int, float], float]  # (space, place, cosine) -> vote


def cosine(a: Vector, b: Vector) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True)) / float(np.linalg.norm(a) * np.linalg.norm(b))


def nearest(query: Vector, documents: np.ndarray | Sequence[Vector], fetch: int) -> list[tuple[int, float]]:
    """The `fetch` nearest documents with their cosines."""
    cosines = [(i, cosine(query, document)) for i, document in enumerate(documents)]
    return sorted(cosines, key=lambda pair: (-pair[1], pair[0]))[:fetch]


def elected(
    lists: Sequence[Sequence[tuple[int, float]]], vote: Vote, fetch: int, single: bool
) -> list[tuple[int, float]]:
    """Lists of all spaces, voter by voter, to one: (document, votes), most votes first."""
    votes: dict[int, float] = {}
    for number, ranked in enumerate(lists):
        for place, (document, similarity) in enumerate(ranked):
            worth = vote(number % HEADS, place, similarity)
            votes[document] = max(votes.get(document, 0), worth) if single else votes.get(document, 0) + worth
    return sorted(votes.items(), key=lambda pair: (-pair[1], pair[0]))[:fetch]


def spread(vectors: np.ndarray | Sequence[Vector], norms: np.ndarray | Sequence[float]) -> float:
    """s_i = a_i b_i over all pairs of distinct documents."""
    distances = [1 - cosine(a, b) for i, a in enumerate(vectors) for j, b in enumerate(vectors) if i != j]
    return float(np.mean(norms) * np.mean(distances))


def piece(embedding: Vector, number: int) -> Vector:
    return embedding[number * WIDTH // HEADS : (number + 1) * WIDTH // HEADS]


IMPORTANCE = [spread(CORPUS.heads[:, head], CORPUS.norms[:, head]) for head in range(HEADS)]
PIECES = [[piece(document, number) for document in CORPUS.standard] for number in range(HEADS)]
PIECE_IMPORTANCE = [spread(pieces, [float(np.linalg.norm(part)) for part in pieces]) for pieces in PIECES]


def by_place(weights: Sequence[float] | None) -> Vote:
    return lambda space, place, _: 2.0**-place * (1 if weights is None else weights[space])


def by_heads(voters: Sequence[Vector], vote: Vote, fetch: int, single: bool) -> list[tuple[int, float]]:
    lists = [nearest(heads[h], CORPUS.heads[:, h], fetch) for heads in voters for h in range(HEADS)]
    return elected(lists, vote, fetch, single)


def own(parts: Parts | None, query: int) -> Embeddings:
    assert parts is not None
    return parts.embeddings[np.flatnonzero(parts.owners == query)]


def written_out(
    strategy: str, query: int, fetch: int, single: bool, found: Sequence[int] = ()
) -> list[tuple[int, float]]:
    """A strategy's ranking of one query: (document, score), best first; see `written_out_hybrid` for `found`."""
    standard, heads = ENCODED.whole.standard[query], ENCODED.whole.heads[query]
    match strategy:
        case "standard":
            return nearest(standard, CORPUS.standard, fetch)
        case "mrag":
            return by_heads([heads], by_place(IMPORTANCE), fetch, single)
        case "mrag_decay":
            return by_heads([heads], by_place(None), fetch, single)
        case "mrag_distance":
            return by_heads([heads], lambda _, __, similarity: 1 / (1 - similarity), fetch, single)
        case "split" | "split_weighted":
            lists = [nearest(piece(standard, number), PIECES[number], fetch) for number in range(HEADS)]
            return elected(lists, by_place(PIECE_IMPORTANCE if strategy == "split_weighted" else None), fetch, single)
        case "fusion" | "fusion_mrag":
            questions = own(ENCODED.questions, query)
            if strategy == "fusion":
                lists = [nearest(v, CORPUS.standard, fetch) for v in (standard, *questions.standard)]
            else:
                lists = [by_heads([v], by_place(IMPORTANCE), fetch, single) for v in (heads, *questions.heads)]
            return elected(lists, lambda _, place, __: 1 / (60 + place), fetch, False)
        case "segment_mrag":
            return by_heads(list(own(ENCODED.sentences, query).heads), by_place(IMPORTANCE), fetch, single)
        case "words":
            assert ENCODED.texts is not None
            return sorted(enumerate(bm25(ENCODED.texts[query])), key=lambda pair: (-round(pair[1], 4), pair[0]))[:fetch]
        case "late_interaction":
            rows = sentence_vote_rows(query, STANDARD_SHARE * HEADS, 1.0, TEMPERATURE, TEMPERATURE)
            votes = [sum(row[document] for row in rows) for document in range(DOCUMENTS)]
            return sorted(enumerate(votes), key=lambda pair: (-pair[1], pair[0]))[:fetch]
    assert strategy == "hybrid"
    return written_out_hybrid(query, fetch, 0.5, 0.0, found)


def written_out_hybrid(
    query: int, fetch: int, standard: float, heads: float, found: Sequence[int]
) -> list[tuple[int, float]]:
    """found: the ranking under test, which decides where two documents gain the same but for rounding."""
    rows = sentence_vote_rows(query, standard, heads / HEADS, 0.02, 0.03)
    pieces = QUERY_SENTENCE_TEXTS[query]
    for row, sentence in zip(rows, pieces, strict=True):
        row[:] = [a + b for a, b in zip(row, powers(bm25(sentence), 1.0), strict=True)]
    words = [sentence.split() for sentence in pieces]
    windows = [
        row[start : start + 8] for row in words for start in range(0, len(row), 4) if start == 0 or start + 4 < len(row)
    ]
    for window in windows:
        weight = 2 * min(1.0, len(pieces) / len(windows))
        rows.append([weight * vote for vote in powers(bm25(" ".join(window)), 1.0)])
    ranked: list[tuple[int, float]] = []
    left = [1.0] * len(rows)
    while len(ranked) < fetch:
        taken = {document for document, _ in ranked}
        gains = {
            d: sum(a * row[d] for a, row in zip(left, rows, strict=True)) for d in range(DOCUMENTS) if d not in taken
        }
        best = max(gains, key=lambda document: (gains[document], -document))
        if found and gains.get(found[len(ranked)], 0) > gains[best] * (1 - 1e-5):
            best = found[len(ranked)]
        ranked.append((best, gains[best]))
        left = [a * (1 - 0.8 * row[best] / max(row)) for a, row in zip(left, rows, strict=True)]
    return ranked


def powers(scores: Sequence[float], temperature: float) -> list[float]:
    """The softmax of scores."""
    values = [np.exp((score - max(scores)) / temperature) for score in scores]
    return [float(value) / sum(values) for value in values]


def bm25(query: str) -> list[float]:
    return written_out_bm25(CORPUS_TEXTS, query)


def sentence_vote_rows(
    query: int, standard: float, head: float, standard_temperature: float, temperature: float
) -> list[list[float]]:
    """The votes of each sentence for each document: those of every space, weighed and summed."""
    sentences, rows = own(ENCODED.sentences, query), []
    for voter in range(len(sentences)):
        votes = [0.0] * DOCUMENTS
        for space in range(-1, HEADS):
            similarities = []
            for document in range(DOCUMENTS):
                parts = own(CORPUS_SENTENCES, document)
                if space < 0:
                    a, b, pieces = sentences.standard[voter], CORPUS.standard[document], parts.standard
                else:
                    a, b = sentences.heads[voter, space], CORPUS.heads[document, space]
                    pieces = parts.heads[:, space]
                similarities.append((cosine(a, b) + max(cosine(a, part) for part in pieces)) / 2)
            weight = standard if space < 0 else head
            split = powers(similarities, standard_temperature if space < 0 else temperature)
            votes = [total + weight * vote for total, vote in zip(votes, split, strict=True)]
        rows.append(votes)
    return rows


def assert_written_out(ranking: Ranking, strategy: str, fetch: int, *, single: bool = False) -> None:
    assert ranking.indices.shape == ranking.scores.shape == (QUERIES, min(fetch, DOCUMENTS))
    assert ranking.indices.dtype == np.int64 and ranking.scores.dtype == np.float64
    for query in range(QUERIES):
        expected = written_out(strategy, query, min(fetch, DOCUMENTS), single, ranking.indices[query].tolist())
        places = len(expected)
        assert ranking.indices[query].tolist() == [document for document, _ in expected] + [-1] * (fetch - places)
        np.testing.assert_allclose(ranking.scores[query, :places], [score for _, score in expected], rtol=2e-4)


@pytest.mark.parametrize("fetch", [1, 7, DOCUMENTS])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_is_its_definition(strategy: str, fetch: int) -> None:
    assert_written_out(
        MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS).rank(ENCODED, strategy, fetch),
        strategy,
        fetch,
    )


@pytest.mark.parametrize(
    "strategy", ["mrag", "mrag_decay", "mrag_distance", "split", "split_weighted", "fusion_mrag", "segment_mrag"]
)
def test_single_votes_are_sorted_on_request(strategy: str) -> None:
    ranking = MultiAspectRetriever(CORPUS, single=True).rank(ENCODED, strategy, 7)
    assert_written_out(ranking, strategy, 7, single=True)
    summed = MultiAspectRetriever(CORPUS).rank(ENCODED, strategy, 7)
    assert (ranking.indices != summed.indices).any()


def test_importance_is_that_of_the_documents() -> None:
    np.testing.assert_allclose(MultiAspectRetriever(CORPUS).importance, IMPORTANCE, rtol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fetching_more_than_there_are_ranks_every_document(strategy: str) -> None:
    retriever = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS)
    more, all_ = retriever.rank(ENCODED, strategy, 10 * DOCUMENTS), retriever.rank(ENCODED, strategy, DOCUMENTS)
    np.testing.assert_array_equal(more.indices, all_.indices)
    np.testing.assert_array_equal(np.sort(more.indices), np.broadcast_to(np.arange(DOCUMENTS), (QUERIES, DOCUMENTS)))
    assert (np.diff(more.scores) <= 0).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_document_is_found(strategy: str) -> None:
    sentence = Parts(CORPUS_SENTENCES.embeddings[:2], np.array([0, 0]))
    ranking = MultiAspectRetriever(CORPUS[:1], sentence, texts=CORPUS_TEXTS[:1]).rank(ENCODED, strategy, 3)
    assert ranking.indices.tolist() == [[0]] * QUERIES


def rows_of(parts: Parts, rows: np.ndarray) -> Parts:
    """The parts of the texts in `rows`, in their order, with owners counted among these texts."""
    by_text = [np.flatnonzero(parts.owners == row) for row in rows]
    owners = np.repeat(np.arange(len(rows)), [len(own_rows) for own_rows in by_text])
    return Parts(parts.embeddings[np.concatenate(by_text)], owners)


def retriever_of(rows: np.ndarray, index: IndexKind = "exact") -> MultiAspectRetriever:
    texts = [CORPUS_TEXTS[row] for row in rows]
    return MultiAspectRetriever(CORPUS[rows], rows_of(CORPUS_SENTENCES, rows), texts=texts, index=index)


def added(retriever: MultiAspectRetriever, rows: np.ndarray) -> None:
    retriever.add(CORPUS[rows], rows_of(CORPUS_SENTENCES, rows), texts=[CORPUS_TEXTS[row] for row in rows])


@pytest.mark.parametrize("index", ["exact", "hnsw"])
@pytest.mark.parametrize("searched", [False, True])
def test_a_corpus_that_changed_ranks_as_one_built_from_the_documents_left(index: IndexKind, searched: bool) -> None:
    first, more = np.arange(25), np.arange(25, DOCUMENTS)
    changed = retriever_of(first, index)
    staying = np.setdiff1d(np.arange(DOCUMENTS), leaving := [3, 59, 0, 24, 25])
    for rows, change in (
        (first, lambda: None),
        (np.arange(40), lambda: added(changed, more[:15])),
        (np.arange(DOCUMENTS), lambda: added(changed, more[15:])),
        (staying, lambda: changed.remove(leaving)),
        (np.append(staying, 3), lambda: added(changed, np.array([3]))),
    ):
        change()
        if not searched and len(rows) != len(staying) + 1:
            continue
        rebuilt = retriever_of(rows, index)
        np.testing.assert_allclose(changed.importance, rebuilt.importance, rtol=1e-9)
        for strategy in STRATEGIES:
            ranked, expected = (retriever.rank(ENCODED, strategy, 8) for retriever in (changed, rebuilt))
            assert ranked.indices.tolist() == expected.indices.tolist(), strategy
            np.testing.assert_allclose(ranked.scores, expected.scores, rtol=1e-5)


def test_importance_is_brought_up_to_date_by_the_documents_that_change_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    retriever = MultiAspectRetriever(CORPUS[:50])
    retriever.prepare("split_weighted")
    retriever.prepare("mrag")
    counts: list[int] = []
    change = RunningImportance._change

    def count(self: RunningImportance, embeddings: Embeddings, sign: int) -> None:
        counts.append(len(embeddings))
        change(self, embeddings, sign)

    monkeypatch.setattr(RunningImportance, "_change", count)
    retriever.add(CORPUS[50:])
    retriever.remove([7, 51])
    for strategy in ("mrag", "split_weighted"):
        retriever.rank(ENCODED, strategy, 3)
    assert counts == [10, 10, 2, 2]


def test_changes_that_cannot_be_made_change_nothing() -> None:
    retriever = retriever_of(np.arange(5))
    before = retriever.rank(ENCODED, "late_interaction", 5)
    narrow = Embeddings(CORPUS.standard[:, :8], CORPUS.heads, CORPUS.norms)
    parts, texts = rows_of(CORPUS_SENTENCES, np.arange(3)), CORPUS_TEXTS[:3]
    for documents, sentences, new, says in (
        (narrow[:3], parts, texts, r"new documents' vectors have \(8, 4, 5\) numbers, the documents' \(16, 4, 5\)"),
        (CORPUS[:3], None, texts, "give the sentences of the new documents if and only if"),
        (CORPUS[:3], parts, None, "give the texts of the new documents if and only if"),
        (CORPUS[:3], parts, texts[:2], "2 texts for 3 documents; give one for each document"),
        (CORPUS[:4], parts, CORPUS_TEXTS[:4], "sentences are not those of 4 documents, one or more of each, in order"),
    ):
        with pytest.raises(InputError, match=says):
            retriever.add(documents, sentences, texts=new)
    for rows in ([5], [-1], [2, 2], [0, 1, 2, 3, 4]):
        with pytest.raises(InputError, match="name rows from 0 to 4, each once, and leave at least one"):
            retriever.remove(rows)
    after = retriever.rank(ENCODED, "late_interaction", 5)
    assert after.indices.tolist() == before.indices.tolist() and after.scores.tolist() == before.scores.tolist()
    with pytest.raises(InputError, match="if and only if"):
        MultiAspectRetriever(CORPUS).add(CORPUS[:3], parts)
    retriever.add(CORPUS[:0], Parts(CORPUS[:0], np.zeros(0, np.int64)), texts=[])
    retriever.remove([])
    assert retriever.rank(ENCODED, "mrag", 9).indices.shape == (QUERIES, 5)


def built(retriever: MultiAspectRetriever) -> set[str]:
    """The indexes and importance scores that a retriever has built, as "heads index"."""
    spaces = {"standard": retriever.standard, "heads": retriever.heads, "pieces": retriever.pieces}
    names = {f"{name} index" for name, space in spaces.items() if space._index is not None}
    names |= {f"{name} importance" for name, space in spaces.items() if space._importance is not None}
    return names | ({"words"} if retriever._words is not None else set())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_prepared_is_all_that_a_ranking_builds(strategy: str) -> None:
    prepared, ranked = (MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS) for _ in range(2))
    prepared.prepare(strategy)
    ranked.rank(ENCODED, strategy, 3)
    assert built(prepared) == built(ranked)
    assert built(ranked) - {"words"} if strategy not in EXHAUSTIVE else not built(ranked) - {"words"}
    assert ("words" in built(ranked)) == (strategy in TEXT_STRATEGIES)


def test_parts_that_are_not_the_queries_own_are_a_clear_error() -> None:
    for owners, says in (
        ([0, 1, 3, 4, 5, 5], "query 2 has no sentence; give every query one or more"),
        ([0, 1, 2, 3, 4, 6], "owners of sentences do not fit 6 queries; give the query of each, 0 to 5"),
        ([-1, 1, 2, 3, 4, 5], "owners of sentences do not fit 6 queries; give the query of each, 0 to 5"),
        ([0, 1, 2, 3, 4], "owners of sentences do not fit 6 queries; give the query of each, 0 to 5"),
    ):
        with pytest.raises(InputError, match=says):
            EncodedQueries(ENCODED.whole, Parts(CORPUS[:6], np.array(owners)))


def test_late_interaction_compares_with_all_documents_whatever_the_index() -> None:
    exact, graphs = (
        MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS, index=index) for index in ("exact", "hnsw")
    )
    rankings = [retriever.rank(ENCODED, "late_interaction", 8) for retriever in (exact, graphs)]
    np.testing.assert_array_equal(rankings[0].scores, rankings[1].scores)
    assert rankings[0].indices.tolist() == rankings[1].indices.tolist()
    assert not built(graphs)


def one_query(number: int) -> EncodedQueries:
    assert ENCODED.texts is not None
    sentences, questions = own(ENCODED.sentences, number), own(ENCODED.questions, number)
    return EncodedQueries(
        ENCODED.whole[[number]],
        Parts(sentences, np.zeros(len(sentences), np.int64)),
        Parts(questions, np.zeros(len(questions), np.int64)),
        (ENCODED.texts[number],),
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_batch_is_its_queries_one_at_a_time(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    retriever = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS)
    whole = retriever.rank(ENCODED, strategy, 9)
    for number in range(QUERIES):
        single = retriever.rank(one_query(number), strategy, 9)
        assert single.indices[0].tolist() == whole.indices[number].tolist()
        np.testing.assert_allclose(single.scores[0], whole.scores[number], rtol=1e-4)
    monkeypatch.setattr("mrag_rl.retrieval.late_interaction._VOTERS", 4)
    monkeypatch.setattr("mrag_rl.retrieval.hybrid._VOTERS", 4)
    in_parts = retriever.rank(ENCODED, strategy, 9)
    assert in_parts.indices.tolist() == whole.indices.tolist()


def test_heads_vote_in_hybrid_if_they_weigh_anything() -> None:
    assert ENCODED.sentences is not None and ENCODED.texts is not None
    settings = HybridSettings(standard=0.8, heads=0.7)
    ranking = hybrid(
        ENCODED.texts, ENCODED.sentences, CORPUS, CORPUS_SENTENCES, WordIndex(CORPUS_TEXTS), 9, settings=settings
    )
    for query in range(QUERIES):
        found = ranking.indices[query].tolist()
        documents, scores = zip(*written_out_hybrid(query, 9, 0.8, 0.7, found), strict=True)
        assert found == [*documents]
        np.testing.assert_allclose(ranking.scores[query], scores, rtol=1e-4)


def restricted(rng: np.random.Generator) -> np.ndarray:
    """Allowed documents by query: many, a third, one, none, all but one, all."""
    allowed = rng.random((QUERIES, DOCUMENTS)) < np.array([0.7, 0.3, 0.0, 0.0, 1.0, 1.0])[:, None]
    allowed[2, 31] = True
    allowed[4, 7] = False
    return allowed


class WordsOf(WordIndex):
    """Some documents' words, as they weigh in the whole corpus."""

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(CORPUS_TEXTS)
        self.rows = rows

    def _scores(self, query: str) -> np.ndarray:
        return super()._scores(query)[self.rows]


@pytest.mark.parametrize("index", ["exact", "hnsw"])
@pytest.mark.parametrize("fetch", [1, 7, DOCUMENTS])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_allowed_documents_are_ranked_as_if_there_were_no_others(
    strategy: str, fetch: int, index: IndexKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS, index=index)
    for spaces in (retriever.heads, retriever.pieces):
        spaces.prepare(importance=True)
    allowed = restricted(np.random.default_rng(1))
    ranking = retriever.rank(ENCODED, strategy, fetch, allowed)
    assert ranking.indices.shape == ranking.scores.shape == (QUERIES, fetch)
    for query in range(QUERIES):
        rows = np.flatnonzero(allowed[query])
        places = min(fetch, len(rows))
        assert ranking.indices[query, places:].tolist() == [-1] * (fetch - places)
        assert (ranking.scores[query, places:] == -np.inf).all()
        if len(rows) == 0:
            continue
        # A retriever of these documents alone, but for the importance of spaces and words, which is the whole corpus's.
        alone = retriever_of(rows)
        alone._words = WordsOf(rows)
        monkeypatch.setattr(alone.heads, "_importance", retriever.heads._importance)
        monkeypatch.setattr(alone.pieces, "_importance", retriever.pieces._importance)
        expected = alone.rank(one_query(query), strategy, fetch)
        assert ranking.indices[query, :places].tolist() == rows[expected.indices[0, :places]].tolist()
        np.testing.assert_allclose(ranking.scores[query, :places], expected.scores[0, :places], rtol=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_allowing_every_document_changes_nothing(strategy: str) -> None:
    retriever = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS)
    free = retriever.rank(ENCODED, strategy, 7)
    all_ = retriever.rank(ENCODED, strategy, 7, np.ones((QUERIES, DOCUMENTS), bool))
    assert free.indices.tolist() == all_.indices.tolist()
    np.testing.assert_allclose(free.scores, all_.scores, rtol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_that_is_not_allowed_is_ever_ranked(strategy: str) -> None:
    rng = np.random.default_rng(2)
    retriever = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS)
    for share in (0.0, 0.05, 0.5):
        allowed = rng.random((QUERIES, DOCUMENTS)) < share
        ranking = retriever.rank(ENCODED, strategy, 20, allowed)
        for readable, indices in zip(allowed, ranking.indices, strict=True):
            assert readable[indices[indices >= 0]].all()
            assert (indices >= 0).sum() == min(20, readable.sum())


@pytest.mark.parametrize(
    "allowed", [np.ones(DOCUMENTS, bool), np.ones((QUERIES, DOCUMENTS - 1), bool), np.ones((QUERIES, DOCUMENTS), int)]
)
def test_allowed_documents_of_another_form_are_a_clear_error(allowed: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"give booleans of shape \(6, 60\), a row for each query"):
        MultiAspectRetriever(CORPUS).rank(ENCODED, "standard", 3, allowed)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_queries_have_no_ranking(strategy: str) -> None:
    no_parts = Parts(ENCODED.whole[:0], np.zeros(0, np.int64))
    none = EncodedQueries(ENCODED.whole[:0], no_parts, no_parts, ())
    ranking = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS).rank(none, strategy, 5)
    assert ranking.indices.shape == ranking.scores.shape == (0, 5) and len(ranking) == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_hnsw_of_a_small_corpus_ranks_as_exact_search(strategy: str) -> None:
    exact, graphs = (
        MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS, index=index).rank(ENCODED, strategy, 8)
        for index in ("exact", "hnsw")
    )
    assert exact.indices.tolist() == graphs.indices.tolist()
    np.testing.assert_allclose(exact.scores, graphs.scores, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mrga", "did you mean mrag"),
        ("segment-mrag", "did you mean segment_mrag"),
        ("zzzz", "choose from standard, mrag, "),
        ("standard,mrag", "separate names by spaces, not commas; choose from standard, mrag, "),
    ],
)
def test_an_unknown_strategy_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"strategy '{name}' is unknown; {hint}"):
        check_strategies(["mrag", name])
    with pytest.raises(InputError, match=hint):
        MultiAspectRetriever(CORPUS).rank(ENCODED, name, 3)


def test_every_strategy_is_known() -> None:
    check_strategies(STRATEGIES)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_a_strategy_needs_and_only_that_is_required(strategy: str) -> None:
    retriever = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS)
    if strategy in QUERY_SENTENCES:
        says = "needs the queries' sentences; give them, or choose another strategy"
    elif strategy in QUESTIONS:
        says = "needs questions about the queries; give them, or choose another strategy"
    elif strategy in TEXT_STRATEGIES:
        says = "needs the queries' texts; give them, or choose another strategy"
    else:
        assert len(retriever.rank(EncodedQueries(ENCODED.whole), strategy, 3)) == QUERIES
        return
    with pytest.raises(InputError, match=f"strategy {strategy} {says}"):
        retriever.rank(EncodedQueries(ENCODED.whole), strategy, 3)


@pytest.mark.parametrize("strategy", DOCUMENT_SENTENCES)
def test_a_strategy_without_the_documents_sentences_is_a_clear_error(strategy: str) -> None:
    with pytest.raises(InputError, match=f"strategy {strategy} needs the documents' sentences; give them"):
        MultiAspectRetriever(CORPUS, texts=CORPUS_TEXTS).rank(ENCODED, strategy, 3)


@pytest.mark.parametrize("strategy", TEXT_STRATEGIES)
def test_a_strategy_without_texts_is_a_clear_error(strategy: str) -> None:
    retriever = MultiAspectRetriever(CORPUS, CORPUS_SENTENCES)
    for use in (lambda: retriever.rank(ENCODED, strategy, 3), lambda: retriever.prepare(strategy)):
        with pytest.raises(InputError, match=f"strategy {strategy} needs the documents' texts; give them"):
            use()
    with pytest.raises(InputError, match=f"strategy {strategy} needs the queries' texts; give them"):
        retriever_of(np.arange(DOCUMENTS)).rank(replace(ENCODED, texts=None), strategy, 3)


def test_texts_that_are_not_those_of_the_vectors_are_a_clear_error() -> None:
    assert ENCODED.texts is not None
    with pytest.raises(InputError, match="59 texts for 60 documents; give one for each document"):
        MultiAspectRetriever(CORPUS, texts=CORPUS_TEXTS[1:])
    with pytest.raises(InputError, match="5 texts for 6 queries; give one for each query"):
        replace(ENCODED, texts=ENCODED.texts[1:])
    joined = replace(ENCODED, texts=tuple(text.replace(".", "") for text in ENCODED.texts))
    with pytest.raises(InputError, match=r"sentences are not those of their texts; make both with EncodedQueries\.of"):
        retriever_of(np.arange(DOCUMENTS)).rank(joined, "hybrid", 3)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("fetch", [0, -3])
def test_fetching_less_than_one_is_a_clear_error(strategy: str, fetch: int) -> None:
    with pytest.raises(InputError, match=f"fetch is {fetch}; give 1 or more"):
        MultiAspectRetriever(CORPUS, CORPUS_SENTENCES, texts=CORPUS_TEXTS).rank(ENCODED, strategy, fetch)


def test_no_documents_is_a_clear_error() -> None:
    with pytest.raises(InputError, match="retrieval: no documents; give at least one"):
        MultiAspectRetriever(CORPUS[:0])


@pytest.mark.parametrize("missing", [0, 20, DOCUMENTS - 1])
def test_a_document_without_a_sentence_is_a_clear_error(missing: int) -> None:
    covered = CORPUS_SENTENCES.owners != missing
    sentences = Parts(CORPUS_SENTENCES.embeddings[covered], CORPUS_SENTENCES.owners[covered])
    with pytest.raises(InputError, match=r"not those of 60 documents, .* in order; make them with Parts\.of_sentences"):
        MultiAspectRetriever(CORPUS, sentences)


@pytest.mark.parametrize(
    "owners", [CORPUS_SENTENCES.owners[::-1], CORPUS_SENTENCES.owners + 1, CORPUS_SENTENCES.owners - 1]
)
def test_sentences_out_of_order_are_a_clear_error(owners: np.ndarray) -> None:
    with pytest.raises(InputError, match="not those of 60 documents, one or more of each, in order"):
        MultiAspectRetriever(CORPUS, Parts(CORPUS_SENTENCES.embeddings, owners))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_queries_of_another_encoder_are_a_clear_error(strategy: str) -> None:
    whole = Embeddings(ENCODED.whole.standard, ENCODED.whole.heads[:, :2], ENCODED.whole.norms[:, :2])
    of_another = replace(ENCODED.whole, encoder="b" * 64)
    retriever = MultiAspectRetriever(replace(CORPUS, encoder="a" * 64), CORPUS_SENTENCES)
    for embeddings, message in (
        (whole, r"\(16, 2, 5\) numbers, the documents' \(16, 4, 5\); encode all with the same encoder"),
        (of_another, "the queries' vectors are of the encoder b{12}…, the documents' of a{12}…; encode all with"),
    ):
        with pytest.raises(InputError, match=message):
            retriever.rank(EncodedQueries(embeddings, ENCODED.sentences, ENCODED.questions), strategy, 3)


def test_documents_of_another_encoder_are_a_clear_error() -> None:
    one, other = replace(CORPUS, encoder="a" * 64), replace(CORPUS, encoder="b" * 64)
    with pytest.raises(InputError, match=r"the new documents' vectors are of the encoder b{12}…"):
        MultiAspectRetriever(one).add(other)
    with pytest.raises(InputError, match=r"the sentences' vectors are of the encoder b{12}…"):
        MultiAspectRetriever(
            one, replace(CORPUS_SENTENCES, embeddings=replace(CORPUS_SENTENCES.embeddings, encoder="b" * 64))
        )
    with pytest.raises(InputError, match=r"vectors of one list are of the encoder b{12}…"):
        Embeddings.concatenate([one, other])
    with pytest.raises(InputError, match=r"vectors of one list are of the encoder b{12}…"):
        Embeddings.concatenate([CORPUS, one, other])
    assert Embeddings.concatenate([CORPUS, one]).encoder == "a" * 64  # One is not known


def test_pieces_that_are_not_equal_are_a_clear_error() -> None:
    odd, queries = (
        Embeddings(e.standard[:, :15] / np.linalg.norm(e.standard[:, :15], axis=1)[:, None], e.heads, e.norms)
        for e in (CORPUS, ENCODED.whole)
    )
    for strategy in ("split", "split_weighted"):
        with pytest.raises(InputError, match="15 dimensions cannot be cut into 4 equal pieces; use another strategy"):
            MultiAspectRetriever(odd).rank(EncodedQueries(queries), strategy, 3)


TEXTS = [
    "The violin has four strings. It is played with a bow.",
    "The frigate was sunk by a torpedo in 1942. Her wreck lies off Malta.",
    "Chess is played on 64 squares. Each side has sixteen pieces.",
    "The volcano erupted in 1883. Its ash darkened the sky for months.",
    "The longsword has two edges. It was swung with both hands.",
]
STORIES = [
    "My aunt plays the violin. On holiday we dived to a sunken frigate.",
    "After a game of chess the old man took a longsword from the wall.",
    "The volcano woke us.",
]
FUSION_QUESTIONS = [["Who plays the violin?", "Where is the frigate?"], ["What is a longsword?"], []]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_texts_are_searched_together_as_one_at_a_time(strategy: str) -> None:
    retriever = MultiAspectRetriever.build(encoder(), TEXTS)
    options = {"strategy": strategy, "fetch": 4}
    together = retriever.search(encoder(), STORIES, questions=FUSION_QUESTIONS, **options)  # type: ignore[arg-type]
    assert together.indices.shape == (3, 4)
    for i, (story, questions) in enumerate(zip(STORIES, FUSION_QUESTIONS, strict=True)):
        single = retriever.search(encoder(), [story], questions=[questions], **options)  # type: ignore[arg-type]
        assert single.indices[0].tolist() == together.indices[i].tolist()
        np.testing.assert_allclose(single.scores[0], together.scores[i], rtol=5e-3)


@pytest.mark.parametrize("strategy", ["standard", "late_interaction"])
def test_an_instruction_comes_before_all_that_is_searched_with(strategy: str) -> None:
    retriever = MultiAspectRetriever.build(encoder(), TEXTS)
    prefixed = retriever.search(encoder(), ["Chess."], strategy=strategy, prefix="find: ")
    written, plain = (retriever.search(encoder(), [text], strategy=strategy) for text in ("find: Chess.", "Chess."))
    np.testing.assert_array_equal(prefixed.scores, written.scores)
    assert (prefixed.scores != plain.scores).any()


def test_what_the_model_expects_comes_before_documents_and_queries() -> None:
    stating = copy(encoder())
    stating.prefixes = Prefixes(query="find: ", document="passage: ", default="other: ")
    for strategy in ("standard", "late_interaction"):
        by_itself = MultiAspectRetriever.build(stating, TEXTS).search(stating, ["Chess."], strategy=strategy)
        written = MultiAspectRetriever.build(encoder(), TEXTS, prefix="passage: ").search(
            encoder(), ["Chess."], strategy=strategy, prefix="find: "
        )
        np.testing.assert_array_equal(by_itself.scores, written.scores)
        without = MultiAspectRetriever.build(stating, TEXTS, prefix="").search(
            stating, ["Chess."], strategy=strategy, prefix=""
        )
        plain = MultiAspectRetriever.build(encoder(), TEXTS).search(encoder(), ["Chess."], strategy=strategy)
        np.testing.assert_array_equal(without.scores, plain.scores)
        assert (by_itself.scores != plain.scores).any()


def test_sentences_find_every_aspect_of_a_story() -> None:
    retriever = MultiAspectRetriever.build(encoder(), TEXTS)
    for strategy in QUERY_SENTENCES:
        indices = retriever.search(encoder(), STORIES[:1], strategy=strategy, fetch=2).indices[0]
        assert sorted(indices.tolist()) == [0, 1], strategy


def test_titles_are_sentences_and_words_to_find() -> None:
    titles = ["Fiddle", "", "Royal game", "Mountain of fire", "Sword"]
    retriever = MultiAspectRetriever.build(encoder(), TEXTS, titles=titles)
    plain = MultiAspectRetriever.build(encoder(), TEXTS)
    assert retriever.sentences is not None and plain.sentences is not None
    # A title of one or two words is one with the sentence that follows.
    assert np.bincount(retriever.sentences.owners).tolist() == [2, 2, 2, 3, 2]
    assert np.bincount(plain.sentences.owners).tolist() == [2, 2, 2, 2, 2]
    assert retriever.search(encoder(), ["fiddle"], strategy="words", fetch=2).indices.tolist() == [[0, -1]]
    assert plain.search(encoder(), ["fiddle"], strategy="words", fetch=2).indices.tolist() == [[-1, -1]]
    np.testing.assert_array_equal(retriever.documents.standard, plain.documents.standard)
    with pytest.raises(InputError, match="4 titles for 5 texts; give one for each text"):
        MultiAspectRetriever.build(encoder(), TEXTS, titles=titles[1:])


def test_what_cannot_be_searched_for_is_a_clear_error() -> None:
    retriever = MultiAspectRetriever.build(encoder(), TEXTS)
    for strategy in STRATEGIES:
        with pytest.raises(InputError, match="text 1 of 2 is empty"):
            retriever.search(encoder(), ["Chess.", " \n"], strategy=strategy, questions=[[], []])
    with pytest.raises(InputError, match="text 0 of 1 is empty"):
        MultiAspectRetriever.build(encoder(), [""])
    with pytest.raises(InputError, match="no documents; give at least one"):
        MultiAspectRetriever.build(encoder(), [])
    with pytest.raises(InputError, match="1 lists of questions for 2 queries; give one for each query"):
        retriever.search(encoder(), STORIES[:2], strategy="fusion", questions=[["Who?"]])
    with pytest.raises(InputError, match="strategy fusion needs questions about the queries"):
        retriever.search(encoder(), STORIES, strategy="fusion")
