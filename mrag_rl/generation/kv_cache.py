"""A key-value cache that grows in place, where transformers' own concatenates at every token."""

from typing import Any

import torch
from transformers import Cache, DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer


class GrowingLayer(DynamicLayer):
    """A `DynamicLayer` with room for `rows` sequences of `capacity` positions from the start.

    Concatenation copies the whole cache at each decoding step, which for a small model costs more than its arithmetic.
    Here a step writes its own column, and attention reads a view of the columns so far.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        super().__init__()
        self.rows = rows
        self.capacity = capacity
        self.length = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append (B, heads, new, d) keys and values; returns all so far, (B, heads, length, d) each."""
        self.write(0, self.length, key_states, value_states)
        return self._expose(self.length + key_states.shape[-2])

    def write(self, row: int, column: int, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Put (B, heads, L, d) keys and values at rows `row:row + B`, columns `column:column + L`."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.key_room, self.value_room = (
                states.new_empty((self.rows, states.shape[1], self.capacity, states.shape[3]))
                for states in (key_states, value_states)
            )
        rows, columns = slice(row, row + len(key_states)), slice(column, column + key_states.shape[-2])
        self.key_room[rows, :, columns] = key_states
        self.value_room[rows, :, columns] = value_states

    def get_seq_length(self) -> int:
        return self.length

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Make the batch the rows `beam_idx`, which may repeat or leave out any.

        In place where rows only move up into the places of dropped ones: then just those are copied.
        """
        rows, count = len(self.key_room), len(beam_idx)
        moved = (beam_idx != torch.arange(count, device=beam_idx.device)).nonzero()[:, 0]
        rooms = (self.key_room, self.value_room)
        # Whole rows, unused columns too: contiguous rows are copied several times faster than strided ones.
        if count <= rows and bool((beam_idx[moved] >= count).all()):
            for room in rooms:
                room[moved] = room.index_select(0, beam_idx[moved])
            self.key_room, self.value_room = (room[:count] for room in rooms)
        else:
            self.key_room, self.value_room = (room.index_select(0, beam_idx) for room in rooms)
        self._expose(self.length)

    def _expose(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.length = length
        self.keys, self.values = self.key_room[:, :, :length], self.value_room[:, :, :length]
        return self.keys, self.values


class PrefillLayer(DynamicLayer):
    """Stands in for a `GrowingLayer` while some of its rows are prefilled, their last column at `width - 1`."""

    def __init__(self, whole: GrowingLayer, row: int, width: int) -> None:
        super().__init__()
        self.whole, self.row, self.width = whole, row, width

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take the (B, heads, L, d) keys and values of whole prompts, and give them back."""
        padding = self.width - key_states.shape[-2]
        self.whole.write(self.row, padding, key_states, value_states)
        last = slice(self.row, self.row + len(key_states))
        for room in (self.whole.key_room, self.whole.value_room):
            room[last, :, :padding] = 0  # Masked out, but 0 times an uninitialised NaN would still be NaN
        self.whole._expose(self.width)
        return key_states, value_states


def growing_cache(config: PretrainedConfig, rows: int, capacity: int) -> Cache:
    """A cache for the model of `config`: growing layers where it attends to everything, else the library's own."""
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer(rows, capacity) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def prefill_cache(cache: Cache, row: int, width: int) -> Cache | None:
    """A cache that prefills the rows of `cache` from `row` on, ending at column `width - 1`; None if it cannot."""
    layers = [PrefillLayer(layer, row, width) for layer in cache.layers if isinstance(layer, GrowingLayer)]
    return Cache(layers=[*layers]) if len(layers) == len(cache.layers) else None
