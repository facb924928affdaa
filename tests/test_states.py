"""Agent-S's evidence and its ledger of gains: what they say, and what they may not know."""

from __future__ import annotations

import gc
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.metrics.text import get_metric
from mrag_rl.retrieval import WordIndex
from mrag_rl.states import (
    Ledger,
    PartitionEvidence,
    StateReader,
    asked_by_memories,
    copied_scores,
    feature_groups,
    feature_names,
)
from mrag_rl.states.evidence import NEIGHBOURS, evidence_names
from mrag_rl.states.ledger import COPIED, LEDGER_NAMES, LINEAR, MEAN
from mrag_rl.states.ridge import PENALTIES, Ridge
from tests.tiny import tiny_world

WORLD = tiny_world()
SOURCES = [pair.source for pair in WORLD.splits.database]
TEXTS = [pair.source for pair in WORLD.splits.train]


def embeddings(rng: np.random.Generator, count: int, heads: int = 3) -> Embeddings:
    def unit(*shape: int) -> np.ndarray:
        vectors = rng.normal(size=shape).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)

    return Embeddings(unit(count, 8), unit(count, heads, 4))


def membership(partitions: int = 4) -> np.ndarray:
    return np.arange(len(SOURCES))[:, None] % partitions == np.arange(partitions)


def evidence_of(members: np.ndarray) -> PartitionEvidence:
    return PartitionEvidence(WORLD.database, WordIndex(SOURCES), members)


def test_leaving_a_row_out_is_fitting_without_it() -> None:
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(12, 5)), rng.normal(size=(12, 2))
    ridge = Ridge.fit(features, targets)

    def refitted(row: int, penalty: float) -> np.ndarray:
        """By the normal equations, with the intercept as an unpenalised column."""
        kept = np.arange(12) != row
        design = np.column_stack([features, np.ones(12)])
        penalties = penalty * np.diag([1.0] * 5 + [0.0])
        weights = np.linalg.solve(design[kept].T @ design[kept] + penalties, design[kept].T @ targets[kept])
        predicted: np.ndarray = design[row] @ weights
        return predicted

    left_out = {p: np.stack([refitted(row, p) for row in range(12)]) for p in PENALTIES}
    best = min(left_out, key=lambda penalty: float(((targets - left_out[penalty]) ** 2).mean()))
    np.testing.assert_allclose(ridge.left_out, left_out[best], atol=1e-8)


def test_a_regression_on_one_row_is_that_row_without_a_warning() -> None:
    """A scope that leaves one memory to read."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ridge = Ridge.fit(np.array([[0.6, 0.8]]), np.array([[1.0, 0.0]]))
    np.testing.assert_array_equal(ridge(np.array([[0.6, 0.8], [1.0, 0.0]])), [[1.0, 0.0]] * 2)
    np.testing.assert_array_equal(ridge.left_out, [[1.0, 0.0]])


def test_evidence_is_what_its_names_say() -> None:
    members, names = membership(), evidence_names(12)
    found = evidence_of(members)(TEXTS[:3], WORLD.train[:3])
    assert found.shape == (3, 4, len(names)) and found.dtype == np.float32
    similarities = WORLD.train.heads[1, 5] @ WORLD.database.heads[:, 5].T
    nearest = np.argsort(-similarities)[:16]
    for partition in range(4):
        own = np.sort(similarities[members[:, partition]])[::-1]
        wanted = [own[0], own[:5].mean(), own.mean(), members[nearest, partition].mean()]
        columns = [names.index(f"head 5: {measure}") for measure in ("best", "best 5", "mean", "neighbours")]
        np.testing.assert_allclose(found[1, partition, columns], wanted, atol=1e-6)
    words = found[..., names.index("words: best")]
    assert (words.max(axis=1) == 1.0).all()  # shares of the query's highest score
    np.testing.assert_allclose(found[..., names.index("size")], np.log(0.25), atol=1e-6)


def test_evidence_follows_the_partitions_wherever_they_are() -> None:
    members = membership()
    order = np.array([2, 0, 3, 1])
    found = evidence_of(members)(TEXTS, WORLD.train)
    np.testing.assert_allclose(evidence_of(members[:, order])(TEXTS, WORLD.train), found[:, order], atol=1e-5)


def test_evidence_of_a_query_does_not_depend_on_the_batch() -> None:
    read = evidence_of(membership())
    whole = read(TEXTS, WORLD.train)
    alone = np.concatenate([read([text], WORLD.train[[row]]) for row, text in enumerate(TEXTS)])
    np.testing.assert_allclose(alone, whole, atol=1e-5)


def test_memories_as_near_as_the_last_that_votes_vote_too() -> None:
    one = WORLD.database[np.zeros(len(SOURCES), np.int64)]
    found = PartitionEvidence(one, WordIndex(SOURCES), membership())(TEXTS[:2], WORLD.train[:2])
    votes = evidence_names(12).index("standard: neighbours")
    assert len(SOURCES) > NEIGHBOURS
    np.testing.assert_allclose(found[..., votes], np.broadcast_to(membership().mean(axis=0), (2, 4)), atol=1e-6)


def test_an_empty_partition_has_nothing_to_say() -> None:
    members = np.column_stack([membership(), np.zeros(len(SOURCES), bool)])
    found = evidence_of(members)(TEXTS, WORLD.train)
    assert np.isfinite(found).all()
    assert (found[:, 4, : 4 * 14] == 0.0).all()


def test_memories_ask_without_their_own_fold() -> None:
    """If partitions are drawn at random, nothing that a memory is told gives its own partition away."""
    rng = np.random.default_rng(0)
    count = 400
    memories = embeddings(rng, count)
    texts = [f"word{i} common" for i in range(count)]
    random = rng.permutation(count)[:, None] % 4 == np.arange(4)
    found, asked = asked_by_memories(memories, texts, random, seed=0)
    assert found.shape[:2] == asked.shape == (count, 4) and (asked.sum(axis=0) == 100).all()
    own = found.argmax(axis=1)  # (n, F): the partition with the greatest value, feature by feature
    hits = asked[np.arange(count)[:, None], own].mean(axis=0)
    assert (np.abs(hits - 0.25) < 0.09).all(), hits  # four standard deviations
    np.testing.assert_array_equal(asked_by_memories(memories, texts, random, seed=0)[0], found)


def ledger() -> Ledger:
    """Gains of 1 in partition 0 for queries of one kind, in partition 1 for the others; a third were never scored."""
    rng = np.random.default_rng(1)
    queries = embeddings(rng, 90)
    first = queries.standard[:, 0] > 0
    gains = np.stack([first, ~first, np.full(90, 0.5)], axis=1).astype(float)
    gains[rng.random(gains.shape) < 1 / 3] = np.nan
    return Ledger(queries, gains)


def test_gains_tell_where_similar_queries_did_well() -> None:
    known, queries = ledger(), embeddings(np.random.default_rng(2), 300)
    earned = known.earned(queries)
    assert earned.shape == (300, 3, len(LEDGER_NAMES))
    right = np.where(queries.standard[:, 0] > 0, 0, 1)
    clear = np.abs(queries.standard[:, 0]) > 0.2
    for column, least in ((0, 0.8), (2, 0.9)):  # the kernel over standard embeddings, the regression
        assert (earned[..., column].argmax(axis=1) == right)[clear].mean() > least
    np.testing.assert_allclose(earned[:, :, 3], np.broadcast_to(np.nanmean(known.gains, axis=0), (300, 3)), atol=1e-6)


def test_a_query_reads_its_own_gain_only_as_one_of_those_in_its_partitions_mean() -> None:
    known = ledger()
    before = known.earned_left_out()
    row, partition = 7, int(np.flatnonzero(known.known[7])[0])
    gains = known.gains.copy()
    gains[row, partition] += 1e-3
    after = known.with_gains(gains).earned_left_out()
    difference, count = after[row, partition] - before[row, partition], known.known[:, partition].sum()
    # The mean is over all gains of the partition, its own included. The kernels have it as their prior, so they read
    # less than that share; the regression leaves the query out, but not in the choice of its penalty.
    np.testing.assert_allclose(difference[MEAN], 1e-3 / count, rtol=0.05)
    assert np.abs(difference[:LINEAR]).max() < 1e-3 / count
    assert np.abs(np.delete(difference, MEAN)).max() < 5e-5
    assert np.abs(after[:, partition, 0] - before[:, partition, 0]).max() > 5e-5  # its neighbours do read it


def test_copies_are_read_as_gains_are_and_beside_them(tmp_path: Path) -> None:
    known, queries = ledger(), embeddings(np.random.default_rng(2), 300)
    hard = np.random.default_rng(3).random((90, 1))  # of a query: it makes no difference between partitions
    scores = np.nan_to_num(known.gains, nan=0.25) + hard
    scores[:5, 2] = np.nan
    both = Ledger(known.queries, known.gains, known.baselines, scores)
    centred = scores - np.nanmean(scores, axis=1, keepdims=True)
    assert both.copied_differences is not None
    np.testing.assert_allclose(both.copied_differences, centred, atol=1e-12)
    for read in (lambda one: one.earned(queries), Ledger.earned_left_out):
        copied = read(Ledger(known.queries, centred))[:, :, : LINEAR + 1]
        np.testing.assert_array_equal(read(both), np.concatenate([read(known)[:, :, :COPIED], copied], axis=2))
        assert not read(known)[:, :, COPIED:].any()
    np.testing.assert_array_equal(both.with_gains(both.gains).earned(queries), both.earned(queries))
    both.save(tmp_path / "ledger.npz")
    loaded = Ledger.load(tmp_path / "ledger.npz")
    assert loaded.copied is not None
    np.testing.assert_array_equal(loaded.copied, scores)
    np.testing.assert_allclose(loaded.earned(queries), both.earned(queries), rtol=1e-5, atol=1e-6)


def test_copies_are_scored_as_they_were_first_stored_and_not_without_memories(tmp_path: Path) -> None:
    metric = get_metric("rouge1")
    with WORLD.make_database(tmp_path / "db", arms=("whole", "none")) as database:
        references = [pair.target for pair in WORLD.splits.train]
        copied = copied_scores(database, WORLD.train, references, metric)
        assert copied.shape == (len(references), database.partitions)
        assert np.isnan(copied[:, database.is_arm]).all()
        cosines = WORLD.train.standard @ WORLD.database.standard.T
        for partition in np.flatnonzero(~database.is_arm).tolist():
            nearest = np.where(database.membership()[:, partition], cosines, -1.0).argmax(axis=1)
            targets = [WORLD.splits.database[index].target for index in nearest]
            np.testing.assert_allclose(copied[:, partition], metric.scores(targets, references))
        database.refine(np.arange(len(database)), references[:1] * len(database), step=1)
        np.testing.assert_array_equal(copied_scores(database, WORLD.train, references, metric), copied)


def test_a_ledger_of_other_gains_is_as_if_made_anew() -> None:
    known, queries = ledger(), embeddings(np.random.default_rng(2), 30)
    known.earned(queries)
    other = known.with_gains(np.random.default_rng(5).permutation(known.gains))
    anew = Ledger(known.queries, other.gains)
    np.testing.assert_array_equal(other.earned(queries), anew.earned(queries))
    np.testing.assert_array_equal(other.earned_left_out(), anew.earned_left_out())
    assert (other.earned(queries) != known.earned(queries)).any()
    with pytest.raises(ValueError, match="read-only"):  # what was fitted to the gains would be out of date
        known.gains[0, 0] = 1.0


def test_a_ledger_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known, queries, fits = ledger(), embeddings(np.random.default_rng(2), 30), []
    fit = Ridge.fit

    def counted(features: np.ndarray, targets: np.ndarray) -> Ridge:
        fits.append(len(features))
        return fit(features, targets)

    monkeypatch.setattr(Ridge, "fit", counted)
    once = known.earned(queries)
    np.testing.assert_array_equal(known.earned(queries), once)
    known.earned_left_out()
    assert len(fits) == known.gains.shape[1]


def scored(follow: float, seed: int = 0) -> tuple[Ledger, np.ndarray]:
    """800 queries' scores in 4 partitions, half of them known, and how far these follow the baselines of the queries.

    Returns the ledger and the scores (P, M) without what the baseline contributes.
    """
    rng = np.random.default_rng(seed)
    baselines, own = rng.random(800), rng.normal(0.5, 0.1, (800, 4))
    gains = own + follow * baselines[:, None] - baselines[:, None]
    gains[rng.random(gains.shape) < 0.5] = np.nan
    return Ledger(embeddings(rng, 800), gains, baselines), own


@pytest.mark.parametrize("follow", [0.0, 0.4, 1.0])
def test_what_gains_are_worth_is_free_of_the_baselines_luck_and_of_nothing_else(follow: float) -> None:
    known, own = scored(follow)
    worth = known.worth
    np.testing.assert_array_equal(np.isfinite(worth), known.known)
    assert np.nanmean(worth) == pytest.approx(np.nanmean(known.gains))
    np.testing.assert_allclose(np.nanstd(worth), 0.1, rtol=0.05)  # of the scores alone; gains have up to 0.3
    assert np.corrcoef(worth[known.known], own[known.known])[0, 1] > 0.98
    both = known.known[:, :2].all(axis=1)
    difference, before = (np.diff(values[both, :2], axis=1) for values in (worth, known.gains))
    np.testing.assert_allclose(difference, before, atol=1e-12)


def test_gains_are_taken_as_they_are_where_they_are_few_or_nothing_is_known_of_the_baselines() -> None:
    known, _ = scored(0.0)
    few = np.full_like(known.gains, np.nan)
    few[:7, 0] = 0.5
    for ledger_ in (known.with_gains(few), Ledger(known.queries, known.gains), ledger()):
        np.testing.assert_array_equal(ledger_.worth, ledger_.gains)
    constant = Ledger(known.queries, known.gains, np.full(800, 0.3))
    np.testing.assert_array_equal(constant.worth, known.gains)


def test_a_ledger_reads_what_gains_are_worth_also_from_its_file(tmp_path: Path) -> None:
    known, _ = scored(0.0)
    queries = embeddings(np.random.default_rng(3), 20)
    free = Ledger(known.queries, known.worth)
    np.testing.assert_array_equal(known.earned(queries), free.earned(queries))
    np.testing.assert_array_equal(known.earned_left_out(), free.earned_left_out())
    known.save(tmp_path / "ledger.npz")
    assert (known.gains[np.isfinite(known.gains)] != known.worth[np.isfinite(known.worth)]).any()
    rows = known.known.any(axis=1)
    np.testing.assert_array_equal(Ledger.load(tmp_path / "ledger.npz").worth, known.worth[rows])


def test_an_empty_ledger_says_nothing(tmp_path: Path) -> None:
    queries = embeddings(np.random.default_rng(0), 5)
    empty = Ledger.empty(queries, 4)
    assert not empty.earned(queries).any() and not empty.earned_left_out().any()
    empty.save(tmp_path / "ledger.npz")
    assert not Ledger.load(tmp_path / "ledger.npz").earned(queries).any()


def test_a_ledger_survives_saving_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    known, path = ledger(), tmp_path / "ledger.npz"
    known.save(path)
    queries = embeddings(np.random.default_rng(3), 20)
    loaded, rows = Ledger.load(path), known.known.any(axis=1)
    np.testing.assert_array_equal(loaded.gains, known.gains[rows])
    for name in ("standard", "heads", "norms"):
        saved = getattr(known.queries, name)[rows]
        np.testing.assert_array_equal(getattr(loaded.queries, name), saved)
        assert getattr(loaded.queries, name).dtype == saved.dtype
    # Without the rows that have no gain, the last digits may round otherwise.
    np.testing.assert_allclose(loaded.earned(queries), known.earned(queries), rtol=1e-5, atol=1e-6)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="not a ledger of gains"):
        Ledger.load(path)


def test_a_database_without_a_ledger_has_states_of_the_same_width(tmp_path: Path) -> None:
    with WORLD.make_database(tmp_path / "db") as database:
        read = StateReader(database, "evidence")
        states = read(TEXTS, WORLD.train)
        assert states.shape[2] == len(read.names) == len(feature_names("evidence", 12)) == len(feature_groups(12))
        assert not states[:, :, -len(LEDGER_NAMES) :].any()
        gains = np.random.default_rng(0).normal(size=(len(TEXTS), database.partitions))
        Ledger(WORLD.train, gains).save(database.folder / "ledger.npz")
        assert StateReader(database, "evidence")(TEXTS, WORLD.train)[:, :, -len(LEDGER_NAMES) :].any()
        database.copy_to(tmp_path / "copy")
    assert (tmp_path / "copy" / "ledger.npz").is_file()


def test_evidence_is_fitted_once_for_each_mask_and_forgotten_with_its_database(tmp_path: Path) -> None:
    half = np.arange(len(SOURCES)) % 2 == 0
    with WORLD.make_database(tmp_path / "db") as database, WORLD.make_database(tmp_path / "other") as other:
        everything = StateReader(database, "evidence").evidence
        part = StateReader(database, "evidence", readable=half).evidence
        assert StateReader(database, "evidence").evidence is everything
        assert StateReader(database, "evidence", readable=half.copy()).evidence is part
        assert (len(everything.memories), len(part.memories)) == (len(SOURCES), half.sum())
        assert StateReader(other, "evidence").evidence is not everything
        others = [StateReader(database, "evidence", readable=np.arange(len(SOURCES)) > row).evidence for row in (3, 5)]
        assert StateReader(database, "evidence").evidence is everything  # which is always kept
        assert StateReader(database, "evidence", readable=half).evidence is not part  # the one read least recently
        gone = weakref.ref(everything)
    del database, everything, part, others
    gc.collect()
    assert gone() is None
