"""What both environments share: batches of queries, the order they are drawn in, and the form for one query."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mrag_rl.errors import InputError

Infos = dict[str, Any]


class BatchedEnv(VectorEnv):
    """An environment whose slots start and end their episodes together, with no automatic reset.

    A batch may be smaller than `num_envs`, and then all arrays have its length.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(
        self, *, num_envs: int, low: float, high: float, width: int, actions: int, seed: int, **counts: int
    ) -> None:
        """Make the spaces `Box(low, high, (width,))` and `Discrete(actions)`, and seed the order of queries.

        Raises InputError if `num_envs` or one of the other `counts` is below 1.
        """
        for name, value in {"num_envs": num_envs, **counts}.items():
            if value < 1:
                raise InputError(f"{type(self).__name__}: {name} is {value}: give 1 or more")
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(low, high, (width,), np.float32)
        self.single_action_space = spaces.Discrete(actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._order = np.empty(0, np.int64)
        self._steps_left = 0
        super().reset(seed=seed)

    def _reseed(self, seed: int | None) -> None:
        """Restart the order of queries from a seed; None continues the current order."""
        super().reset(seed=seed)
        if seed is not None:
            self._order = np.empty(0, np.int64)

    def _next_queries(self, queries: int) -> np.ndarray:
        """The next `num_envs` rows (num_envs,) of an endless sequence of shuffles of `queries` rows."""
        while len(self._order) < self.num_envs:
            self._order = np.concatenate([self._order, self.np_random.permutation(queries)])
        rows, self._order = self._order[: self.num_envs], self._order[self.num_envs :]
        return rows

    def _begin(self, steps: int) -> None:
        """Record, at a reset, how many steps the episodes have."""
        self._steps_left = steps

    def _count_step(self) -> bool:
        """Count one step; True if it was the episodes' last. Raises ResetNeeded if none is left."""
        if self._steps_left == 0:
            raise ResetNeeded(f"{type(self).__name__}: no episode is running: call reset() before step()")
        self._steps_left -= 1
        return self._steps_left == 0


class SingleEnv(gymnasium.Env):
    """A batched environment with one slot, as a plain `gymnasium.Env`: arrays and infos without the slots' axis."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    batched_form: ClassVar[type[BatchedEnv]]

    def __init__(self, *args: Any, render_mode: str | None = None, **kwargs: Any) -> None:
        """Takes the arguments of `batched_form` except `num_envs`."""
        self.batched = self.batched_form(*args, num_envs=1, **kwargs)
        self.observation_space = self.batched.single_observation_space
        self.action_space = self.batched.single_action_space
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Infos]:
        """Start one episode; `options` are the batched form's, with one query in them."""
        super().reset(seed=seed)
        observations, infos = self.batched.reset(seed=seed, options=options)
        return observations[0], {name: value[0] for name, value in infos.items()}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, Infos]:
        """Take one action. Raises ResetNeeded if no episode is running."""
        observations, rewards, terminated, truncated, infos = self.batched.step(np.array([action]))
        info = {name: value[0] for name, value in infos.items()}
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info
