"""How many actions per second does an agent choose for all slots at once, and for one slot at a time?

    OMP_NUM_THREADS=1 python -m benchmarks.action_selection [--slots 64]

Compares the DQN agent with itself, and with stable-baselines3's own `predict`. Prints actions per second and ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.training_config import AgentConfig

PARTITIONS, HEADS = 4, 12


def rate(choose: Callable[[np.ndarray], np.ndarray], states: np.ndarray, slots: int) -> float:
    """Actions per second when `slots` states go into each call."""
    start = time.perf_counter()
    for first in range(0, len(states), slots):
        choose(states[first : first + slots])
    return len(states) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--calls", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    agent = DQNAgent(PARTITIONS * HEADS, PARTITIONS, AgentConfig(), seed=0)
    forms: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "agent, exploring": lambda states: agent.act(states, epsilon=0.3),
        "stable-baselines3": lambda states: agent.model.predict(states, deterministic=True)[0],
    }
    rng = np.random.default_rng(0)
    states = rng.normal(size=(arguments.calls * arguments.slots, PARTITIONS * HEADS)).astype(np.float32)
    for name, choose in forms.items():
        choose(states[: arguments.slots])  # warm-up
        together, alone = rate(choose, states, arguments.slots), rate(choose, states[: arguments.calls], 1)
        print(
            f"{name}: {together:,.0f} actions/s in {arguments.slots} slots, {alone:,.0f} one at a time, "
            f"ratio {together / alone:.0f}x"
        )


if __name__ == "__main__":
    main()
