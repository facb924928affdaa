"""Access masks are booleans, checked alike by every room, and what they forbid changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from benchmarks.hidden_partitions import differing
from mrag_rl.access import memory_indices
from mrag_rl.choices import StateName
from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.retrieval import MultiAspectRetriever
from mrag_rl.retrieval.encoded import EncodedQueries
from mrag_rl.selector import Selector
from mrag_rl.selector_info import SelectorInfo
from tests.tiny import tiny_world

M, H, HIDDEN = 4, 3, 8
NO_MASKS: dict[str, Callable[[np.ndarray], object]] = {
    "int": lambda mask: mask.astype(int),
    "uint8": lambda mask: mask.astype(np.uint8),
    "float": lambda mask: mask.astype(float),
    "object": lambda mask: mask.astype(object),
    "list of numbers": lambda mask: mask.astype(int).tolist(),
    "ids": lambda mask: np.flatnonzero(mask).tolist(),
    "fractions": lambda mask: [-0.5],
    "names": lambda mask: ["court"],
    "masked": lambda mask: np.ma.array(np.ones_like(mask), mask=~mask),
    "empty": lambda mask: [],
    "another length": lambda mask: np.append(mask, True),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> MemoryDatabase:
    return tiny_world().make_database(tmp_path_factory.mktemp("access") / "database")


def a_selector(state: StateName, seed: int = 0) -> Selector:
    rng = np.random.default_rng(seed)
    shared = state == "evidence"
    inputs, outputs, rows = (H, 1, 1) if shared else (M * H, M, M)
    normal = (rng.normal(size=shape).astype(np.float32) for shape in ((HIDDEN, inputs), HIDDEN, (outputs, HIDDEN)))
    w1, b1, w2 = normal
    normalizer = StateNormalizer(np.full((rows, H), 0.1, np.float32), np.full((rows, H), 0.3, np.float32), True)
    info = SelectorInfo(
        state=state, partition_names=tuple("abcd"), task="summarization", metric="rouge1", encoder="x",
        encoder_fingerprint="y",
    )  # fmt: skip
    return Selector(w1, b1, w2, np.zeros(outputs, np.float32), normalizer, info)


@pytest.mark.parametrize("kind", NO_MASKS)
def test_what_is_no_mask_is_refused_everywhere(kind: str, database: MemoryDatabase) -> None:
    """None of these was meant as a set of ids for certain, and some opened partitions that they should close."""
    query = tiny_world().train[:2]
    partitions, memories = np.arange(M) == 1, np.arange(len(database)) == 3
    wrong, few = NO_MASKS[kind](partitions), NO_MASKS[kind](memories)
    retriever = MultiAspectRetriever(tiny_world().database)
    calls: list[Callable[[], object]] = [
        lambda: database.retrieve(query, None, allowed_partitions=wrong),  # type: ignore[arg-type]
        lambda: database.states(query, allowed_partitions=wrong),  # type: ignore[arg-type]
        lambda: database.retrieve(query, None, allowed_memories=few),  # type: ignore[arg-type]
        lambda: database.states(query, allowed_memories=few),  # type: ignore[arg-type]
        lambda: database.vocabulary(few),  # type: ignore[arg-type]
        lambda: database.count_in_partitions(few),  # type: ignore[arg-type]
        lambda: a_selector("per_head").select(np.zeros((2, M, H)), wrong),  # type: ignore[arg-type]
        lambda: a_selector("per_head").confident(np.zeros((2, M, H)), wrong),  # type: ignore[arg-type]
        lambda: _rank(retriever, NO_MASKS[kind](np.stack([memories] * 2))),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"has type .* and shape .*; give booleans of shape \("):
            call()


def _rank(retriever: MultiAspectRetriever, allowed: object) -> object:
    return retriever.rank(EncodedQueries(tiny_world().train[:2]), "standard", 3, allowed)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["evidence", "per_head", "peeking"])
@pytest.mark.parametrize("center", [True, False])
def test_a_choice_is_a_function_of_the_allowed_partitions_alone(state: StateName, center: bool) -> None:
    """2,000 queries: the states of forbidden partitions, whatever they are, change neither choices nor values."""
    selector, rng = a_selector(state), np.random.default_rng(1)
    object.__setattr__(selector.normalizer, "center", center)
    states = rng.uniform(-1, 1, (2000, M, H)).astype(np.float32)
    allowed = rng.random((2000, M)) < 0.6
    for other in (rng.uniform(-1, 1, states.shape), np.full(states.shape, -1.0), np.full(states.shape, np.nan)):
        replaced = np.where(allowed[:, :, None], states, other).astype(np.float32)
        assert np.array_equal(selector.select(states, allowed), selector.select(replaced, allowed))
        values, same = selector.q_values(states, allowed), selector.q_values(replaced, allowed)
        assert values.tobytes() == same.tobytes()
    everything = np.ones(M, dtype=bool)
    assert np.allclose(selector.q_values(states, everything), selector.q_values(states), atol=1e-5)


def test_hidden_partitions_change_no_byte_of_any_output(tmp_path: Path) -> None:
    """A short version of `benchmarks.hidden_partitions`: databases, states, selectors, filters, counts and answers."""
    counts = list(differing(3, tmp_path, batches=1))
    assert np.sum(counts, axis=0).tolist() == [960, 0, 0]


def test_hidden_partitions_would_change_them_if_they_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: here rights are not looked at."""
    monkeypatch.setattr("mrag_rl.memory.database.partition_mask", lambda _, count: np.ones(count, bool))
    monkeypatch.setattr("mrag_rl.memory.database.memory_mask", lambda _, count: np.ones(count, bool))
    assert np.sum(list(differing(3, tmp_path, batches=1)), axis=0).min() > 500


def test_masks_are_documented_where_they_are_checked() -> None:
    """The vocabulary of masks has one home."""
    package = Path(__file__).parents[1] / "mrag_rl"
    homes = [path for path in package.rglob("*.py") if "np.bool_" in path.read_text(encoding="utf-8")]
    assert homes == [package / "access.py"]


@pytest.mark.parametrize(
    "indices", [[True, False], np.array([True, False]), [1.9], np.ma.array([1, 0], mask=[True, False])]
)
def test_what_may_be_a_mask_is_no_list_of_memories(indices: ArrayLike) -> None:
    with pytest.raises(InputError, match=r"indices of memories have type .*; give whole numbers"):
        memory_indices(indices, 3)
    assert memory_indices([], 3).tolist() == [] and memory_indices(np.array([2], np.uint8), 3).dtype == np.int64
