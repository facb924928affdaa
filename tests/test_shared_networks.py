"""One network for all partitions or candidates: order changes nothing, the number is free, and it learns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.agents.calibration import Calibration, GainLine, deciles
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.agents.heuristics import BestCandidate, RandomAction
from mrag_rl.encoders import Embeddings
from mrag_rl.envs.candidates import CandidateEvidence, TargetVectors, candidate_features, scaled
from mrag_rl.errors import InputError
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.selector import Selector, margins
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.states import Ledger
from mrag_rl.training_config import AgentConfig
from tests.tiny import remembering_encoder, tiny_world

M, F = 4, 6
GROUPS = np.array([0, 0, 1, 1, 2, 3])
INFO = SelectorInfo(
    state="evidence",
    partition_names=("a", "b", "c", "d"),
    task="summarization",
    metric="rouge1",
    encoder="all-MiniLM-L6-v2",
    encoder_fingerprint="f" * 64,
    features=tuple(f"feature {i}" for i in range(F)),
)


def states(count: int, seed: int, partitions: int = M) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, partitions, F)).astype(np.float32)


def exported(folder: Path) -> tuple[Selector, EvidenceAgent, StateNormalizer]:
    agent = EvidenceAgent(GROUPS, M, AgentConfig(), seed=3)
    normalizer = StateNormalizer.fit(states(500, 0) * 3 + 1, shared=True)
    return export_selector(folder, weights=agent.weights(), normalizer=normalizer, info=INFO), agent, normalizer


@pytest.fixture(scope="module")
def selector(tmp_path_factory: pytest.TempPathFactory) -> Selector:
    folder = tmp_path_factory.mktemp("shared") / "selector"
    exported(folder)
    return Selector.load(folder)


@settings(max_examples=30, deadline=None)
@given(partitions=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_the_order_and_the_number_of_partitions_change_no_choice(
    selector: Selector, partitions: int, seed: int
) -> None:
    raw, order = states(20, seed, partitions), np.random.default_rng(seed).permutation(partitions)
    values = selector.q_values(raw)
    np.testing.assert_allclose(selector.q_values(raw[:, order]), values[:, order], atol=1e-5)
    clear = partitions == 1 or np.diff(np.sort(values, axis=1)[:, -2:], axis=1)[:, 0] > 1e-4
    np.testing.assert_array_equal(
        (order[selector.select(raw[:, order])] == selector.select(raw)) | ~np.array(clear), True
    )


def test_the_exported_selector_is_the_agent_and_the_graph(tmp_path: Path) -> None:
    import onnxruntime

    selector, agent, normalizer = exported(tmp_path / "s")
    raw = states(300, 4)
    np.testing.assert_allclose(selector.q_values(raw), agent.q_values(normalizer(raw)), atol=1e-5)
    assert Selector.load(tmp_path / "s").info == INFO
    session = onnxruntime.InferenceSession(tmp_path / "s" / "model.onnx", providers=["CPUExecutionProvider"])
    for partitions in (1, M, 7):
        raw = states(50, 5, partitions)
        (values,) = session.run(["q_values"], {"states": raw})
        np.testing.assert_allclose(values, selector.q_values(raw), atol=1e-5)


def test_what_may_not_be_read_changes_no_value(selector: Selector) -> None:
    raw = states(40, 6)
    changed = raw.copy()
    changed[:, 2] += 100.0
    allowed = np.array([True, True, False, True])
    values = selector.q_values(raw, allowed)[:, allowed]
    np.testing.assert_array_equal(selector.q_values(changed, allowed)[:, allowed], values)
    np.testing.assert_allclose(selector.q_values(raw[:, allowed]), values, atol=1e-5)
    assert (selector.select(raw, np.zeros(M, bool)) == -1).all()


def test_states_of_another_width_are_refused(selector: Selector) -> None:
    with pytest.raises(InputError, match="reads 6 numbers of a partition, not 5"):
        selector.q_values(states(3, 0)[:, :, :5])


def test_a_choice_is_trusted_from_the_margin_on(tmp_path: Path) -> None:
    selector, *_ = exported(tmp_path / "s")
    raw = states(200, 9)
    gaps = np.sort(selector.q_values(raw), axis=1)
    gap = gaps[:, -1] - gaps[:, -2]
    middle = float(np.median(gap))
    cautious = replace(selector, info=replace(INFO, margin=middle))
    np.testing.assert_array_equal(cautious.confident(raw), gap >= middle)
    assert selector.confident(raw).all()
    only_one = np.array([False, True, False, False])
    assert cautious.confident(raw, only_one).all()
    assert cautious.confident(raw, np.zeros(M, bool)).all()


def test_the_margin_is_the_smallest_of_the_precision_asked_for() -> None:
    values = np.zeros((6, 2))
    values[:, 0] = [0.6, 0.5, 0.4, 0.3, 0.3, 0.1]
    chosen, whole = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0]), np.full(6, 0.5)
    found = Calibration.of(values, chosen, whole)
    np.testing.assert_allclose(found.margins, [0.6, 0.5, 0.4, 0.3, 0.1])
    np.testing.assert_allclose(found.coverage, [1 / 6, 2 / 6, 3 / 6, 5 / 6, 1])
    np.testing.assert_allclose(found.precision, [1, 1, 2 / 3, 4 / 5, 5 / 6])
    assert found.margin(0.99) == pytest.approx(0.5) and found.margin(0.8) == pytest.approx(0.1)
    assert Calibration.of(values[:, :1], chosen, whole).margin() == 0.0  # one partition is never in doubt
    assert not (margins(values) >= Calibration.of(values, whole, chosen + whole).margin()).any()


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 5), st.floats(-1, 1), st.integers(2, 40), st.integers(0, 10**6))
def test_the_line_of_gains_is_exact_where_gains_lie_on_one(slope: float, intercept: float, n: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=n)
    line = GainLine.fit(values, slope * values + intercept)
    np.testing.assert_allclose([line.slope, line.intercept], [slope, intercept], atol=1e-8)
    falling = GainLine.fit(values, -(slope + 0.1) * values + intercept)
    assert falling.slope == 0.0 and falling.intercept == pytest.approx((-(slope + 0.1) * values + intercept).mean())


def test_the_line_of_gains_is_the_best_one_that_does_not_fall() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, gains = rng.normal(size=30).astype(np.float32), rng.normal(size=30)
        line = GainLine.fit(values, gains)
        error = ((line(values) - gains) ** 2).sum()
        for slope, shift in rng.normal(scale=0.2, size=(200, 2)):
            other = GainLine(max(0.0, line.slope + slope), line.intercept + shift)
            assert ((other(values) - gains) ** 2).sum() >= error - 1e-9
    assert GainLine.fit(np.full(5, 0.1, np.float32), np.arange(5.0)) == GainLine(0.0, 2.0)


def test_deciles_hold_every_choice_once_and_rise() -> None:
    rng = np.random.default_rng(0)
    expected = rng.normal(size=47)
    realised = 2.0 * expected
    means, found, counts = deciles(expected, realised)
    assert len(counts) == 10 and counts.sum() == 47 and counts.max() - counts.min() <= 1
    assert (np.diff(means) > 0).all() and counts @ means == pytest.approx(expected.sum())
    np.testing.assert_allclose(found, 2.0 * means)
    assert deciles(expected[:3], realised[:3])[2].tolist() == [1, 1, 1]


def test_the_expected_gain_is_the_line_in_points(tmp_path: Path) -> None:
    selector, *_ = exported(tmp_path / "s")
    raw, allowed = states(30, 2), np.array([True, False, True, True])
    with pytest.raises(InputError, match="gain_slope"):
        selector.expected_gain(raw)
    line = replace(INFO, gain_slope=0.5, gain_intercept=-0.02)
    weights = {name: getattr(selector, name) for name in ("w1", "b1", "w2", "b2")}
    export_selector(tmp_path / "t", weights=weights, normalizer=selector.normalizer, info=line)
    loaded = Selector.load(tmp_path / "t")
    assert loaded.info == line and "0.5 q -0.02" in (tmp_path / "t" / "README.md").read_text()
    for mask in (None, allowed):
        np.testing.assert_allclose(loaded.expected_gain(raw, mask), 50.0 * loaded.q_values(raw, mask) - 2.0, atol=1e-5)
    config = json.loads((tmp_path / "t" / "config.json").read_text())
    del config["gain_slope"], config["gain_intercept"], config["seal"]  # as an earlier version wrote it
    (tmp_path / "t" / "config.json").write_text(json.dumps(config))
    assert Selector.load(tmp_path / "t").info == INFO


def memories_asking(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Observations whose third feature is highest in one's own partition, and the last always 0."""
    raw, own = states(count, 7), np.random.default_rng(8).integers(0, M, count)
    raw[np.arange(count), own, 2] += 3.0
    raw[:, :, 5] = 0.0
    raw -= raw.mean(axis=1, keepdims=True)
    return raw.reshape(count, -1), (own[:, None] == np.arange(M)).astype(float)


def test_its_start_leaves_out_what_is_not_known() -> None:
    observations, own = memories_asking()
    starts = []
    for unknown in (np.nan, 100.0):
        agent = EvidenceAgent(GROUPS, M, AgentConfig(), seed=0)
        targets = own.copy()
        targets[:, 3] = unknown
        agent.start([(observations, targets)])
        starts.append(agent.q_values(observations))
    right = own.argmax(axis=1)
    assert (starts[0].argmax(axis=1) == right)[right != 3].mean() > 0.9
    assert starts[1].mean() > starts[0].mean() + 0.03


def test_minibatches_of_one_have_something_of_each_lesson() -> None:
    agent = EvidenceAgent(GROUPS, M, AgentConfig(batch_size=1), seed=0)
    agent.start([memories_asking(), memories_asking()])
    assert all(np.isfinite(weights).all() for weights in agent.weights().values())


def test_it_learns_its_lessons_and_gives_silent_features_no_weight() -> None:
    agent = EvidenceAgent(GROUPS, M, AgentConfig(), seed=0)
    observations, own = memories_asking()
    agent.start([(observations, own)])
    assert (agent.act(observations) == own.argmax(axis=1)).mean() > 0.9
    assert not agent.weights()["w1"][:, 5].any()


def test_gains_move_it_from_its_start_and_without_any_it_stays() -> None:
    agent = EvidenceAgent(GROUPS, M, AgentConfig(weight_decay=0.03), seed=0)
    observations, own = memories_asking()
    agent.start([(observations, own)])
    start = agent.weights()["w1"]
    agent.study(observations, np.full((len(observations), M), np.nan))
    assert agent.learn(100) is None
    np.testing.assert_array_equal(agent.weights()["w1"], start)
    best = observations.reshape(-1, M, F)[:, :, 0].argmax(axis=1)  # rewards contradict the start
    gains = np.where(best[:, None] == np.arange(M), 0.5, 0.0)
    gains[np.random.default_rng(0).random(gains.shape) < 0.7] = np.nan
    agent.study(observations, gains)
    agent.learn(3000)
    assert (agent.act(observations) == best).mean() > 0.85


def test_a_stored_agent_continues_bit_by_bit_and_remembers_its_start() -> None:
    observations, own = memories_asking()
    gains = np.random.default_rng(1).normal(size=own.shape)
    agents = [EvidenceAgent(GROUPS, M, AgentConfig(), seed=2) for _ in range(2)]
    agents[0].start([(observations, own)])
    agents[0].study(observations, gains)
    agents[0].learn(200)
    agents[1].load_state_dict(agents[0].state_dict())
    agents[1].study(observations, gains)
    for agent in agents:
        agent.learn(200)
    first, second = (agent.state_dict() for agent in agents)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


class TestCandidates:
    """Agent-R's features of the candidates in a pool."""

    WORLD = tiny_world()
    NAMES = candidate_features(12)

    def evidence(self, folder: Path, pools: list[list[str]], steps: int) -> CandidateEvidence:
        encoder: Any = remembering_encoder()
        database = self.WORLD.make_database(folder)
        return CandidateEvidence(TargetVectors(database, encoder), encoder, np.arange(len(pools)), pools, steps=steps)

    def pools(self) -> list[list[str]]:
        texts = [pair.target for pair in self.WORLD.splits.train]
        return [texts[6 * row : 6 * row + 6] for row in range(3)]

    def test_the_features_are_what_their_names_say(self, tmp_path: Path) -> None:
        pools = self.pools()
        evidence = self.evidence(tmp_path / "db", pools, steps=2)
        hypotheses = evidence.vectors[:, 1, 0].copy()
        evidence.try_candidates(0, np.array([2, 0, 1]))
        seen = evidence(1, hypotheses).reshape(3, 3, len(self.NAMES))
        column = {name: seen[:, :, i] for i, name in enumerate(self.NAMES)}
        pool = evidence.vectors[1, 1]
        np.testing.assert_allclose(column["hypothesis"][1], scaled(pool @ hypotheses[1]), atol=1e-5)
        np.testing.assert_allclose(column["hypothesis"][:, 0], 2.0, atol=1e-5)  # the hypothesis itself
        np.testing.assert_allclose(column["agreement"][1, 0], scaled((pool[0] @ pool[1:].T).mean()), atol=1e-5)
        np.testing.assert_allclose(column["tried"][1], scaled(pool @ evidence.vectors[1, 0, 0]), atol=1e-5)
        old = remembering_encoder().encode([self.WORLD.splits.database[1].target])
        np.testing.assert_allclose(column["old target"][1], scaled(pool @ old.standard[0]), atol=1e-5)
        assert not evidence(0, hypotheses).reshape(seen.shape)[:, :, self.NAMES.index("steps left")].min() < 1.0
        np.testing.assert_allclose(column["steps left"], 0.5)
        words = len(pools[1][4].split()), len(self.WORLD.splits.database[1].target.split())
        np.testing.assert_allclose(column["length"][1, 1], np.log((words[0] + 1) / (words[1] + 1)), atol=1e-5)

    def test_reordered_candidates_have_the_same_values(self, tmp_path: Path) -> None:
        agent = DQNAgent(3 * len(self.NAMES), 3, AgentConfig(), seed=0, features=len(self.NAMES))
        order = [2, 0, 1]
        pools = [pool[:3] for pool in self.pools()]
        evidence = self.evidence(tmp_path / "db", pools, steps=1)
        other = self.evidence(tmp_path / "again", [[pool[i] for i in order] for pool in pools], steps=1)
        hypotheses = evidence.vectors[:, 0, 1].copy()
        values = agent.q_values(evidence(0, hypotheses))
        np.testing.assert_allclose(agent.q_values(other(0, hypotheses)), values[:, order], atol=1e-5)

    def test_an_empty_candidate_is_similar_to_nothing(self, tmp_path: Path) -> None:
        evidence = self.evidence(tmp_path / "db", [["", "word"]], steps=1)
        seen = evidence(0, evidence.vectors[:, 0, 1].copy()).reshape(2, -1)
        assert np.isfinite(seen).all() and seen[0, 0] == scaled(np.zeros(1))[0]

    def test_rules_read_their_feature_and_random_is_random(self) -> None:
        observations = np.random.default_rng(0).normal(size=(900, 3 * 5)).astype(np.float32)
        best = observations.reshape(900, 3, 5)[:, :, 2].argmax(axis=1)
        np.testing.assert_array_equal(BestCandidate(2, 5).act(observations), best)
        drawn = RandomAction(3, seed=0)
        shares = np.bincount(drawn.act(observations), minlength=3) / 900
        assert np.abs(shares - 1 / 3).max() < 0.06
        resumed = RandomAction(3, seed=1)
        resumed.load_state_dict(drawn.state_dict())
        np.testing.assert_array_equal(resumed.act(observations), drawn.act(observations))


def test_a_ledger_is_not_read_twice_for_the_same_query() -> None:
    """The kernel of a new query reads all gains; that of a training query, those of the others."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = Embeddings(vectors, vectors.reshape(40, 2, 4) * np.sqrt(2))
    gains = np.zeros((40, 2))
    gains[3, 0] = 10.0
    ledger = Ledger(queries, gains)
    assert ledger.earned(queries)[3, 0, 0] > 1.0 > ledger.earned_left_out()[3, 0, 0]
