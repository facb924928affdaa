"""The standardisation of Agent-S's states, part of every selector; NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.errors import InputError


@dataclass(frozen=True)
class StateNormalizer:
    """Standardises raw states (M partitions, F features) for the Q-network.

    With `center`, the mean over partitions of each (query, feature) is subtracted first, because the similarity of a
    query to the whole database says nothing about which partition is best. Then every entry is standardised by the mean
    and standard deviation of the training states: partition by partition, or, if the partitions share a row, feature by
    feature, so that their number may be any.

    Attributes:
        mean: (M, F) or (1, F) float32, mean of the (centred) training states.
        scale: (M, F) or (1, F) float32, their standard deviation, replaced by 1 where it is almost zero.
        center: whether the mean over partitions is subtracted first.
    """

    mean: np.ndarray
    scale: np.ndarray
    center: bool = True

    @classmethod
    def fit(cls, states: np.ndarray, *, center: bool = True, shared: bool = False) -> StateNormalizer:
        """The normaliser of training states (B, M, F); shared: with one row for all partitions."""
        values = as_states(states).astype(np.float64)
        if center:
            values = values - values.mean(axis=1, keepdims=True)
        if shared:
            values = values.reshape(-1, 1, values.shape[2])
        scale = values.std(axis=0)
        scale[scale < 1e-6] = 1.0
        return cls(values.mean(axis=0).astype(np.float32), scale.astype(np.float32), center)

    @property
    def shared(self) -> bool:
        """Whether all partitions are standardised alike."""
        return len(self.mean) == 1

    def __call__(self, states: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """Normalise raw states (B, M, F) to (B, M*F) float32.

        allowed: (B, M) bool, the partitions that may be read, None for all. The others have no part in the mean that is
        subtracted, and are 0 in the result, the mean of training, whatever their states are.

        Raises:
            InputError: the states are not (B, M, F) with this normaliser's M and F.
        """
        values = as_states(states)
        self.check(values)
        if self.center:
            mean = values.mean(axis=1, keepdims=True) if allowed is None else mean_over_partitions(values, allowed)
            values = values - mean
        normalised: np.ndarray = (values - self.mean) / self.scale
        if allowed is not None:
            normalised = np.where(allowed[:, :, None], normalised, np.float32(0))
        return normalised.reshape(len(values), -1)

    def check(self, states: np.ndarray) -> None:
        """Raises InputError for states of another M or F."""
        partitions, features = self.mean.shape
        if states.shape[2] != features or (not self.shared and states.shape[1] != partitions):
            raise InputError(
                f"states of shape {tuple(states.shape)} do not fit (B, {'M' if self.shared else partitions}, "
                f"{features}): pass one entry per query, partition and head"
            )


def mean_over_partitions(values: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """The mean (B, 1, F) of values (B, M, F) over the partitions `allowed` (B, M), 0 where there is none; None: all."""
    if allowed is None:  # einsum sums the middle axis several times as fast as mean does
        mean: np.ndarray = np.einsum("bmf->bf", values)[:, None] / values.dtype.type(values.shape[1])
        return mean
    weights = (allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1)).astype(values.dtype)
    weighted: np.ndarray = np.einsum("bm,bmf->bf", weights, values)[:, None]
    return weighted


def as_states(states: np.ndarray) -> np.ndarray:
    """States as float32. Raises InputError if they are not (B, M, F)."""
    values = np.asarray(states, dtype=np.float32)
    if values.ndim != 3:
        raise InputError(f"states have shape {values.shape}: pass (B, M, H), one entry per query, partition and head")
    return values
