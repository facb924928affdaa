"""How well does the DQN select partitions, compared with LinUCB and with a classifier that knows the best partition?

    python -m benchmarks.selection_policies [--run runs/quickstart] [--rounds 3 8] [--seeds 5]

Isolates Agent-S's problem, without refinement, on the data of a finished run. Every training and test query is
answered once with the nearest (original) memory of every partition. The learners then pass over the training queries in
the same order, and each observes only the score of the partition it selected, minus the naive system's (the reward
`first_hypothesis`). The classifier is trained on the best partition of every query. Scores are means of the run's
metric over the test queries, 0 to 100, with the standard deviation over the learners' seeds. The run's cache of
generations is used; nothing else in the run folder changes. The state is one of similarities (`per_head` for a run
whose own is `evidence`, which is not fixed while an agent learns).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegressionCV

from mrag_rl.agents.agent import Agent, Transitions
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.heuristics import LinUCB
from mrag_rl.choices import StateName
from mrag_rl.data.records import TextPair, load_pairs
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.envs.partition_selection import answer_scores
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import load_llm, make_writer, with_cache
from mrag_rl.systems.partitioned import most_similar, random_partition


def walk(agent: Agent, states: np.ndarray, rewards: np.ndarray, *, rounds: int, slots: int, seed: int) -> None:
    """Let `agent` learn in `rounds` passes over states (N, D) from the rewards (N, M) of its own actions alone."""
    order = np.random.default_rng(seed)
    batches = [
        part
        for _ in range(rounds)
        for part in np.split(order.permutation(len(states)), range(slots, len(states), slots))
    ]
    for batch, rows in enumerate(batches):
        actions = agent.act(states[rows], agent.exploration(batch / len(batches)))
        earned, done = rewards[rows, actions].astype(np.float32), np.ones(len(rows), bool)
        agent.remember(Transitions(states[rows], actions, earned, states[rows], done))
        agent.learn(len(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("runs/quickstart"), help="a finished run (%(default)s)")
    parser.add_argument("--rounds", type=int, nargs="+", help="passes over the training queries (default: the run's)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each learner (%(default)s)")
    arguments = parser.parse_args()

    folder = RunFolder(arguments.run)
    config = folder.load_config()
    metric = get_metric(target_metric(config))
    pairs = {part: load_pairs(folder.pairs(part)) for part in ("train", "test")}
    embeddings = {part: Embeddings.load(folder.embeddings(part)) for part in pairs}
    state: StateName = "per_head" if config.state == "evidence" else config.state
    scores: dict[str, np.ndarray] = {}
    naive: dict[str, np.ndarray] = {}
    raw: dict[str, np.ndarray] = {}
    with (
        MemoryDatabase.open(folder.database) as database,
        with_cache(load_llm(config.llm), folder.cache, enabled=config.llm.cache) as llm,
    ):
        writer = make_writer(config, llm)
        partitions, divided = database.partitions, ~database.is_arm
        for part, queries in pairs.items():

            def score(selection: np.ndarray | None, part: str = part, queries: list[TextPair] = queries) -> np.ndarray:
                return answer_scores(database, queries, embeddings[part], writer, metric, selection, originals=True)

            columns = [score(np.full(len(queries), m)) for m in range(partitions)]
            scores[part] = np.stack(columns, axis=1)
            naive[part] = score(None)
            raw[part] = database.states(embeddings[part], state)
    normalizer = StateNormalizer.fit(raw["train"], center=config.training.center)
    states = {part: normalizer(raw[part]) for part in raw}
    rewards = scores["train"] - naive["train"][:, None]

    learners: dict[str, Callable[[int], Agent]] = {
        "LinUCB": lambda seed: LinUCB(normalizer.mean.size, partitions),
        "DQN": lambda seed: DQNAgent(normalizer.mean.size, partitions, config.agent_s, seed),
    }

    def mean(actions: np.ndarray) -> float:
        return 100 * float(scores["test"][np.arange(len(actions)), actions].mean())

    count, texts = len(pairs["test"]), [pair.source for pair in pairs["test"]]
    print(
        f"{arguments.run.name}: {len(rewards)} training and {count} test queries, {partitions} partitions, "
        f"{metric.name}\n"
    )
    print("| policy | rounds | score | best partition chosen |\n|---|---:|---:|---:|")
    best = scores["test"].max(axis=1)

    def row(name: str, rounds: int | str, selections: list[np.ndarray]) -> None:
        means = [mean(actions) for actions in selections]
        hits = np.mean([scores["test"][np.arange(count), actions] >= best - 1e-9 for actions in selections])
        spread = f" ± {np.std(means, ddof=1):.1f}" if len(means) > 1 else ""
        print(f"| {name} | {rounds} | {np.mean(means):.1f}{spread} | {hits:.0%} |", flush=True)

    print(f"| naive (whole database) | | {100 * naive['test'].mean():.1f} | |")
    row(
        "random partition",
        "",
        [
            random_partition(int(divided.sum()), seed)(texts, embeddings["test"]).partitions
            for seed in range(arguments.seeds)
        ],
    )
    row("nearest partition", "", [most_similar(raw["test"], divided)])
    for rounds in arguments.rounds or [config.training.rounds]:
        for name, make in learners.items():
            selections = []
            for seed in range(arguments.seeds):
                agent = make(seed)
                walk(agent, states["train"], rewards, rounds=rounds, slots=config.training.slots, seed=seed)
                selections.append(agent.act(states["test"]))
            row(name, rounds, selections)
    classifier = LogisticRegressionCV(Cs=5, max_iter=2000).fit(states["train"], rewards.argmax(axis=1))
    row("logistic regression, told the best", "", [classifier.predict(states["test"])])
    row("oracle", "", [scores["test"].argmax(axis=1)])


if __name__ == "__main__":
    main()
