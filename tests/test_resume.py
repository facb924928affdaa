"""A joint training that is stopped anywhere and resumed ends as if it had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.agents.context import JointResult
from mrag_rl.agents.heuristics import BestCandidate, RandomAction
from mrag_rl.agents.joint import train_jointly
from mrag_rl.choices import ArmName, CandidateStateName, StateName
from mrag_rl.encoders import CachedEncoder
from mrag_rl.encoders.kept import vectors_file
from mrag_rl.envs.candidates import candidate_features
from mrag_rl.memory import MemoryDatabase
from mrag_rl.training_config import RefinementConfig, TrainingConfig
from tests.tiny import NotingEncoder, ScriptedLLM, encoder, tiny_llm, tiny_world
from tests.training import joint_context


class Stopped(Exception):
    """The kill."""


class StoppingLLM:
    """Passes everything on, and dies at one call."""

    def __init__(self, llm, calls: int) -> None:
        self.llm, self.calls = llm, calls
        self.fingerprint, self.usage = llm.fingerprint, llm.usage

    def fits(self, prompts, max_new_tokens):
        return self.llm.fits(prompts, max_new_tokens)

    def generate(self, prompts, **arguments):
        self.calls -= 1
        if self.calls == 0:
            raise Stopped
        return self.llm.generate(prompts, **arguments)

    def log_probabilities(self, prompts, completions, **arguments):
        self.calls -= 1
        if self.calls == 0:
            raise Stopped
        return self.llm.log_probabilities(prompts, completions, **arguments)


def train(
    folder: Path,
    llm,
    *,
    embedder=None,
    kind: str = "dqn",
    state: StateName = "per_head",
    consolidate: bool = True,
    candidates: CandidateStateName = "candidates",
    demonstrations: int = 1,
    arms: tuple[ArmName, ...] = (),
) -> tuple[JointResult, dict, str, bytes]:
    """One sitting: opens or makes the database in `folder`; the result, agents' arrays, database digest and log."""
    world = tiny_world()
    folder.mkdir(exist_ok=True)
    if (folder / "database").exists():
        database = MemoryDatabase.open(folder / "database")
    else:
        database = world.make_database(folder / "database", state=state, arms=arms)
    agents = None
    if kind == "random":
        features = len(candidate_features(database.heads))
        agents = RandomAction(database.partitions, seed=3), BestCandidate(0, features)
    with database:
        context = joint_context(
            world, database, llm, state=state, encoder=embedder, agents=agents, demonstrations=demonstrations,
            reward="first_hypothesis" if state == "evidence" else "fixed_baseline",
            refinement=RefinementConfig(consolidate=consolidate, state=candidates),
            training=TrainingConfig(rounds=2, slots=8, checkpoint_every=2),
        )  # fmt: skip
        result = train_jointly(context, folder / "run", progress=False)
        arrays = {
            f"{i}.{name}": array
            for i, agent in enumerate((context.agent_s, context.agent_r))
            for name, array in agent.state_dict().items()
        }
        return result, arrays, database.digest(), (folder / "run" / "log.jsonl").read_bytes()


def assert_same(first, second) -> None:
    assert first[2] == second[2], "databases differ"
    assert first[3] == second[3], "logs differ"
    assert first[1].keys() == second[1].keys()
    for name in first[1]:
        np.testing.assert_array_equal(first[1][name], second[1][name], err_msg=name)
    assert (first[0].best_round, first[0].best_dev) == (second[0].best_round, second[0].best_dev)
    np.testing.assert_array_equal(first[0].normalizer.mean, second[0].normalizer.mean)


# Calls of the language model: in the baseline, a batch, a consolidation, a validation, the second round.
STOPS = {("dqn", False): (1, 4, 9, 17, 18, 25), ("dqn", True): (9, 18, 25), ("random", True): (10,)}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("dqn", {}),
        ("dqn", {"state": "evidence"}),
        ("dqn", {"state": "evidence", "demonstrations": 2}),
        ("dqn", {"state": "evidence", "arms": ("whole", "none")}),
        ("dqn", {"state": "peeking"}),
        ("dqn", {"candidates": "candidates_and_likelihood"}),
        (
            "dqn",
            {
                "state": "evidence",
                "demonstrations": 2,
                "arms": ("whole", "none"),
                "candidates": "candidates_and_likelihood",
            },
        ),
        ("dqn", {"state": "equation_1"}),
        ("random", {"consolidate": False}),
    ],
)
def test_stopped_at_any_call_and_resumed_it_ends_the_same(kind, changes, tmp_path) -> None:
    straight = train(tmp_path / "straight", ScriptedLLM(), kind=kind, **changes)
    assert straight[0].history[-1]["refined_memories"] > 0
    for calls in STOPS[kind, bool(changes)]:
        folder = tmp_path / f"stopped-{calls}"
        with pytest.raises(Stopped):
            train(folder, StoppingLLM(ScriptedLLM(), calls), kind=kind, **changes)
        assert_same(train(folder, ScriptedLLM(), kind=kind, **changes), straight)


@pytest.mark.parametrize(
    "kept", [pytest.param(False, marks=pytest.mark.slow, id="vectors computed"), pytest.param(True, id="vectors kept")]
)
def test_stopped_again_and_again_around_a_real_language_model(kept: bool, tmp_path) -> None:
    noting: Any = NotingEncoder()

    def sitting(name: str, llm: Any) -> tuple[JointResult, dict, str, bytes]:
        if not kept:
            return train(tmp_path / name, llm, embedder=encoder())
        with vectors_file(tmp_path / f"{name}.sqlite") as file:
            return train(tmp_path / name, llm, embedder=CachedEncoder(noting, file))

    def computed() -> list[tuple[str, str]]:
        return [(how, text) for how, texts in zip(noting.how, noting.asked, strict=True) for text in texts]

    llm, stops = tiny_llm(tmp_path), 0
    straight = sitting("straight", llm)
    once = computed()
    for calls in (6, 14, 13, 17, 1000):
        try:
            resumed = sitting("stopped", StoppingLLM(llm, calls))
        except Stopped:
            stops += 1
    assert stops >= 3
    assert_same(resumed, straight)
    assert len(set(once)) == len(once)
    assert computed() == [*once, *once] and bool(once) == kept  # although much was done twice


def test_a_finished_training_has_nothing_left_to_do(tmp_path) -> None:
    first = train(tmp_path, ScriptedLLM())
    llm = ScriptedLLM()
    assert_same(train(tmp_path, llm), first)
    assert llm.usage.prompts == 0
