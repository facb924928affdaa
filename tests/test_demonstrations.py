"""Several demonstrations in training, in a run, and in what the commands print."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evaluate
import train
from mrag_rl import Selector
from mrag_rl.agents.consolidation import Proposal, consolidate
from mrag_rl.agents.context import JointContext
from mrag_rl.agents.joint import train_jointly
from mrag_rl.agents.observer import EvidenceObserver, make_observer
from mrag_rl.data import load_pairs
from mrag_rl.envs.memory_refinement import MemoryRefinementVectorEnv, RefinementEpisode
from mrag_rl.envs.partition_selection import PartitionSelectionVectorEnv, answer_scores
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.writer import Writer
from mrag_rl.io import sealed
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.states import Ledger, ledger_file
from mrag_rl.training_config import RefinementConfig, TrainingConfig
from tests.tiny import Listening, ScriptedLLM, remembering_encoder, tiny_world
from tests.training import joint_context

WORLD, METRIC, K = tiny_world(), get_metric("rouge1"), 3
TRAIN, MEMORIES = WORLD.splits.train, WORLD.splits.database
ENCODER: Any = remembering_encoder()


@pytest.fixture
def database(tmp_path: Path):
    with WORLD.make_database(tmp_path / "database") as made:
        yield made


def context_of(database: MemoryDatabase, llm: LLM, **settings) -> JointContext:
    return joint_context(
        WORLD, database, llm, state="evidence", reward="first_hypothesis", demonstrations=K,
        refinement=RefinementConfig(evidence=4), training=TrainingConfig(rounds=1, slots=8), **settings,
    )  # fmt: skip


def shown(database: MemoryDatabase, row: int, partition: int | None) -> list[int]:
    """The memories that training query `row` is shown, nearest first."""
    partitions = None if partition is None else np.array([partition])
    hits = database.retrieve(WORLD.train[[row]], partitions, k=K)
    return [index for index in hits.indices[0].tolist() if index >= 0]


def as_prompted(database: MemoryDatabase, memories: list[int]) -> tuple[tuple[str, str], ...]:
    """Their current texts in the order of a prompt."""
    return tuple((record.source, record.target) for record in reversed(database.records(memories)))


def test_an_answer_in_training_is_shown_the_nearest_k_of_the_partition(database: MemoryDatabase) -> None:
    llm, episodes = Listening(ScriptedLLM()), list[RefinementEpisode]()

    def refine(batch: list[RefinementEpisode]) -> np.ndarray:
        episodes.extend(batch)
        return np.zeros(len(batch))

    env = PartitionSelectionVectorEnv(
        database, TRAIN, WORLD.train, Writer(llm, "summarization", 10, K), METRIC, num_envs=4, refine=refine
    )
    env.reset(options={"indices": np.arange(4)})
    *_, infos = env.step(np.arange(4))
    for row, (prompt, episode) in enumerate(zip(llm.prompts, episodes, strict=True)):
        memories = shown(database, row, row)
        assert len(memories) == K and prompt.demonstrations == as_prompted(database, memories)
        assert [episode.memory, *episode.beside] == memories and infos["memories"][row] == memories[0]


def test_agent_r_refines_the_nearest_and_the_others_stand_beside_it_unchanged(database: MemoryDatabase) -> None:
    llm = Listening(ScriptedLLM())
    env = MemoryRefinementVectorEnv(database, ENCODER, Writer(llm, "summarization", 10, K), METRIC, num_envs=2, steps=3)
    memories = shown(database, 0, None)
    first = as_prompted(database, memories)
    # The second episode refines, from its first step on, a memory that stands beside the first episode's.
    env.reset(options={"episodes": [
        RefinementEpisode(TRAIN[0], memories[0], "", 2.0, tuple(memories[1:])),
        RefinementEpisode(TRAIN[0], memories[1], "", -1.0),
    ]})  # fmt: skip
    for step in range(3):
        llm.prompts.clear()
        *_, infos = env.step(np.array([step, 0]))
        candidates = infos["candidates"]
        assert llm.prompts[0].demonstrations == (*first[:-1], (first[-1][0], candidates[0]))
        assert llm.prompts[1].demonstrations == ((first[-2][0], candidates[1]),)
    assert database.targets([memories[1]]) != [first[-2][1]] and database.targets([memories[0]]) == [first[-1][1]]


@pytest.mark.parametrize("demonstrated", [False, True])
def test_candidates_are_written_with_the_memories_beside_or_by_the_source_alone(
    demonstrated: bool, database: MemoryDatabase
) -> None:
    llm = Listening(ScriptedLLM())
    env = MemoryRefinementVectorEnv(
        database, ENCODER, Writer(llm, "summarization", 10, K), METRIC, num_envs=2, steps=1, demonstrated=demonstrated,
        state="candidates_and_likelihood",
    )  # fmt: skip
    memories = shown(database, 0, None)
    env.reset(options={"episodes": [
        RefinementEpisode(TRAIN[0], memories[0], "", 2.0, tuple(memories[1:])),
        RefinementEpisode(TRAIN[0], memories[1], "", -1.0),
    ]})  # fmt: skip
    beside = as_prompted(database, memories)[:-1] if demonstrated else ()
    expected = [(MEMORIES[memories[0]].source, beside), (MEMORIES[memories[1]].source, ())]
    asked = [(prompt.query, prompt.demonstrations) for prompt in llm.prompts]
    assert asked == expected * 2  # for the pools, and for their likelihood


@pytest.mark.parametrize("demonstrated", [False, True])
def test_training_shows_candidates_what_the_configuration_says(
    demonstrated: bool, database: MemoryDatabase, tmp_path: Path
) -> None:
    llm, refinement = Listening(ScriptedLLM()), RefinementConfig(evidence=4, steps=1, demonstrated=demonstrated)
    context = joint_context(
        WORLD, database, llm, state="evidence", demonstrations=K, refinement=refinement,
        training=TrainingConfig(rounds=1, slots=8),
    )  # fmt: skip
    train_jointly(context, tmp_path / "training", progress=False)
    asked = {pair.source for pair in (*TRAIN, *WORLD.splits.dev)}
    pools = [prompt for prompt in llm.prompts if prompt.query not in asked]
    assert pools and {len(prompt.demonstrations) for prompt in pools} == {K - 1 if demonstrated else 0}


def test_agent_rs_own_queries_are_answered_with_the_nearest_k(database: MemoryDatabase) -> None:
    llm = Listening(ScriptedLLM())
    env = MemoryRefinementVectorEnv(
        database, ENCODER, Writer(llm, "summarization", 10, K), METRIC, num_envs=2, steps=1,
        pairs=TRAIN, query_embeddings=WORLD.train,
    )  # fmt: skip
    env.reset(seed=0)
    for prompt in llm.prompts[:2]:
        row = [pair.source for pair in TRAIN].index(prompt.query)
        assert prompt.demonstrations == as_prompted(database, shown(database, row, None))


def test_consolidation_tries_a_target_in_the_prompt_that_inference_would_write(database: MemoryDatabase) -> None:
    llm = Listening(ScriptedLLM())
    context = context_of(database, llm)
    partitions = np.arange(len(TRAIN)) % database.partitions
    proposals = [(memory, f"a proposal for {memory}", "nobody") for memory in range(len(database))]
    before = database.targets(range(len(database)))
    counts, _ = consolidate(context, proposals, partitions, step=1, stopwatch=Stopwatch())
    assert counts["trials"] == len(llm.prompts) > 0
    index_of = {memory.source: index for index, memory in enumerate(MEMORIES)}
    rows, inside = [pair.source for pair in TRAIN], 0
    for prompt in llm.prompts:
        row = rows.index(prompt.query)
        memories = [index_of[source] for source, _ in reversed(prompt.demonstrations)]
        nearest = shown(database, row, int(partitions[row]))
        tried = [i for i, (_, target) in zip(memories, reversed(prompt.demonstrations), strict=True)
                 if target != before[i]]  # fmt: skip
        if not set(memories) - set(nearest):
            assert memories == nearest and len(tried) <= 1
            inside += 1
        else:  # a memory farther away takes the place of the last
            assert memories[:-1] == nearest[:-1] and tried in ([], memories[-1:])
    assert 0 < inside < len(llm.prompts)


def test_a_gain_is_out_of_date_if_any_memory_shown_has_changed(database: MemoryDatabase) -> None:
    observer = make_observer(context_of(database, ScriptedLLM()))
    assert isinstance(observer, EvidenceObserver)
    observer.fit()
    rows, partitions = np.indices((len(TRAIN), database.partitions)).reshape(2, -1)
    observer.record_first(rows, partitions, np.linspace(-1, 1, len(rows)))
    for memory in range(len(database)):
        stale = {
            (row, partition)
            for row, partition in zip(rows.tolist(), partitions.tolist(), strict=True)
            if memory in shown(database, row, partition)
        }
        found = observer.out_of_date(np.array([memory]))
        assert set(zip(found[0].tolist(), found[1].tolist(), strict=True)) == stale
        assert all(shown(database, *pair) == row for *pair, row in zip(*(a.tolist() for a in found), strict=True))
    before = observer.gains()
    observer.record_first(rows, partitions, np.zeros(len(rows)))
    np.testing.assert_array_equal(observer.gains(), before)
    observer.replace(rows[:1], partitions[:1], np.zeros(1))
    assert observer.gains()[rows[0], partitions[0]] == 0 != before[rows[0], partitions[0]]
    rows, partitions, _ = observer.out_of_date(np.array([5]))
    observer.forget(rows, partitions)
    assert len(rows) > 0 == len(observer.out_of_date(np.array([5]))[0])
    assert np.isnan(observer.gains()).sum() == len(rows)


def test_agent_s_takes_a_step_for_each_gain_new_or_scored_again(database: MemoryDatabase, tmp_path: Path) -> None:
    context = context_of(database, ScriptedLLM())
    learn, steps = context.agent_s.learn, list[int]()

    def counted(queries: int) -> float | None:
        steps.append(queries)
        return learn(queries)

    context.agent_s.learn = counted  # type: ignore[method-assign]
    result = train_jointly(context, tmp_path / "run", progress=False)
    again = result.history[-1]["scored_again"]
    assert steps[-1] == again > 0
    assert sum(steps[:-1]) == len(TRAIN)  # one round


def test_a_gain_is_scored_again_unless_a_memory_was_mended_for_its_own_query(
    database: MemoryDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[Proposal]()

    def listening(context: JointContext, proposals: list[Proposal], *rest: Any, **named: Any) -> Any:
        found.extend(proposals)
        return consolidate(context, proposals, *rest, **named)

    monkeypatch.setattr("mrag_rl.agents.joint.consolidate", listening)
    context = context_of(database, ScriptedLLM())
    baseline = answer_scores(database, TRAIN, WORLD.train, context.writer, METRIC)
    result = train_jointly(context, tmp_path / "run", progress=False)
    ledger = Ledger.load(ledger_file(database))
    queries, partitions = np.nonzero(ledger.known)
    same = (ledger.queries.standard[:, None] == WORLD.train.standard).all(axis=2)
    rows = same.argmax(axis=1)[queries]
    assert len(rows) == len(TRAIN)

    def gains(*, originals: bool) -> np.ndarray:
        pairs = [TRAIN[row] for row in rows]
        writer, vectors = context.writer, WORLD.train[rows]
        return answer_scores(database, pairs, vectors, writer, METRIC, partitions, originals=originals) - baseline[rows]

    targets = database.targets(range(len(database)))
    mended = np.array(
        [
            any((memory, targets[memory], TRAIN[row].id) in found for memory in shown(database, row, partition))
            for row, partition in zip(rows.tolist(), partitions.tolist(), strict=True)
        ]
    )
    expected = np.where(mended, gains(originals=True), gains(originals=False))
    assert result.history[-1]["scored_again"] > 0 < (mended & (gains(originals=True) != gains(originals=False))).sum()
    np.testing.assert_allclose(ledger.gains[queries, partitions], expected)


def listen_for_proposals(monkeypatch: pytest.MonkeyPatch) -> set[Proposal]:
    """All that Agent-R's episodes will propose from now on."""
    proposed, step = set[Proposal](), MemoryRefinementVectorEnv.step

    def listening(env: MemoryRefinementVectorEnv, actions: np.ndarray) -> Any:
        result = step(env, actions)
        infos, queries = result[-1], [query.id for query in env._queries]
        rows = zip(infos["memories"].tolist(), infos["candidates"], queries, infos["accepted"], strict=True)
        proposed.update((memory, target, query) for memory, target, query, accepted in rows if accepted)
        return result

    monkeypatch.setattr(MemoryRefinementVectorEnv, "step", listening)
    return proposed


def test_no_gain_is_kept_of_an_answer_that_was_shown_what_another_query_of_its_batch_refined(
    database: MemoryDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where refinements replace targets at once, and all training queries are one batch."""
    proposed = listen_for_proposals(monkeypatch)
    at_once, batch = RefinementConfig(consolidate=False), TrainingConfig(rounds=1, slots=len(TRAIN))
    train_jointly(replace(context_of(database, ScriptedLLM()), refinement=at_once, training=batch), tmp_path / "run",
                  progress=False)  # fmt: skip
    ledger, everything = Ledger.load(ledger_file(database)), np.arange(len(database))
    targets = database.targets(everything)
    refined = np.array(targets) != np.array(database.original_targets(everything))
    same = (ledger.queries.standard[:, None] == WORLD.train.standard).all(axis=2)
    queries, partitions = np.nonzero(ledger.known)
    rows, kept = same.argmax(axis=1)[queries], 0
    for row, partition in zip(rows.tolist(), partitions.tolist(), strict=True):
        memories = shown(database, row, partition)
        own = any((memory, targets[memory], TRAIN[row].id) in proposed for memory in memories)
        kept += own
        assert own or not refined[memories].any()
    assert 0 < kept <= len(rows) < len(TRAIN)


def test_no_gain_ever_comes_from_a_memory_refined_for_its_own_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In three rounds, with several memories in a prompt, and an arm that shows them to a query a second time."""
    proposed, noted, replace_gains = listen_for_proposals(monkeypatch), list[int](), EvidenceObserver.replace

    def checking(observer: EvidenceObserver, rows: np.ndarray, partitions: np.ndarray, rewards: np.ndarray) -> None:
        targets = observer.context.database.targets(range(len(observer.context.database)))
        for row, memories in zip(rows.tolist(), observer.shown(rows, partitions).tolist(), strict=True):
            assert not proposed & {(memory, targets[memory], TRAIN[row].id) for memory in memories}
        noted.append(len(rows))
        replace_gains(observer, rows, partitions, rewards)

    monkeypatch.setattr(EvidenceObserver, "replace", checking)
    with WORLD.make_database(tmp_path / "database", state="evidence", arms=("whole",)) as database:
        context = joint_context(
            WORLD, database, ScriptedLLM(), state="evidence", reward="first_hypothesis", demonstrations=K,
            refinement=RefinementConfig(evidence=4), training=TrainingConfig(rounds=3, slots=8, patience=3),
        )  # fmt: skip
        result = train_jointly(context, tmp_path / "run", progress=False)
    rounds = [entry for entry in result.history if entry["kind"] == "round"]
    assert len(rounds) == 3 and all(entry["changed"] for entry in rounds[:2])
    assert sum(noted) > len(TRAIN)


@pytest.fixture(scope="module")
def run(workplace: Path) -> Path:
    """A whole run in which prompts show three memories."""
    arguments = ["--config", str(workplace / "small.yaml"), "--name", "three", "--demonstrations", "3"]
    systems = ["--evaluation.ablations", "true", "--evaluation.systems", "[naive, m_rag, m_rag_without_s]"]
    assert train.main([*arguments, *systems, "--runs", str(workplace / "runs")]) == 0
    return workplace / "runs" / "three"


def test_a_run_says_how_many_memories_it_shows(run: Path) -> None:
    assert "demonstrations: 3" in (run / "config.yaml").read_text()
    assert Selector.load(run / "selector").info.demonstrations == 3
    assert "the 3 nearest memories" in (run / "selector" / "README.md").read_text()


def test_a_selector_from_before_there_was_a_choice_was_trained_with_one(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "selector", tmp_path / "selector")
    config = json.loads((run / "selector" / "config.json").read_text())
    (tmp_path / "selector" / "config.json").write_text(json.dumps(sealed(config | {"demonstrations": "three"})))
    with pytest.raises(InputError, match='"demonstrations" is not of the right type'):
        Selector.load(tmp_path / "selector")
    del config["demonstrations"], config["seal"]
    (tmp_path / "selector" / "config.json").write_text(json.dumps(config))
    assert Selector.load(tmp_path / "selector").info.demonstrations == 1


def test_a_run_with_several_memories_is_evaluated_again_to_the_same_answers(run: Path, tmp_path: Path) -> None:
    assert evaluate.main(["systems", "--run", str(run), "--output", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "answers.jsonl").read_text() == (run / "answers.jsonl").read_text()


def test_asking_shows_every_memory_nearest_first(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = load_pairs(run / "data" / "test.jsonl")[0]
    expected = json.loads((run / "answers.jsonl").read_text().splitlines()[0])["answers"]["m_rag"]
    ask = ["ask", "--run", str(run), "--text", pair.source]
    assert evaluate.main([*ask, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["hypothesis"] == expected["hypothesis"] and answer["memory"] == answer["memories"][0]
    assert answer["memory"]["id"] == expected["memory"]
    similarities = [memory["similarity"] for memory in answer["memories"]]
    assert len(similarities) == 3 and similarities == sorted(similarities, reverse=True)
    assert evaluate.main(ask) == 0
    printed = capsys.readouterr().out
    places = [printed.index(f"Memory {memory['id']} ") for memory in answer["memories"]]
    assert places == sorted(places) and all(memory["target"] in printed for memory in answer["memories"])
