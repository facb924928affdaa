"""A key-value cache that grows in place, where transformers' own concatenates at every token."""

from typing import Any

import torch
from transformers import Cache, DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer


class GrowingLayer(DynamicLayer):
    """A `DynamicLayer` with room for `capacity` positions from the start.

    Concatenation copies the whole cache at each decoding step, which for a small model costs more than its arithmetic.
    Here a step writes its own column, and attention reads a view of the columns so far.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append (B, heads, new, d) keys and values; returns all so far, (B, heads, length, d) each."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.key_room, self.value_room = self._room(key_states), self._room(value_states)
        start, self.length = self.length, self.length + key_states.shape[-2]
        self.key_room[:, :, start : self.length] = key_states
        self.value_room[:, :, start : self.length] = value_states
        return self._expose()

    def get_seq_length(self) -> int:
        return self.length

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Make the batch the rows `beam_idx`, which may repeat or leave out any."""
        rooms = []
        for old in (self.key_room, self.value_room):
            new = self._room(old, len(beam_idx))
            torch.index_select(old[:, :, : self.length], 0, beam_idx, out=new[:, :, : self.length])
            rooms.append(new)
        self.key_room, self.value_room = rooms
        self._expose()

    def fill(self, parts: list["GrowingLayer"], rows: torch.Tensor, width: int) -> None:
        """Become the `rows` of the successive `parts`, each with its last column at `width - 1`."""
        self.lazy_initialization(parts[0].key_room, parts[0].value_room)
        self.key_room = self._room(parts[0].key_room, len(rows))
        self.value_room = self._room(parts[0].value_room, len(rows))
        self.length = width
        first = start = 0
        for part in parts:
            last = first + len(part.key_room)
            chosen = rows[(rows >= first) & (rows < last)] - first
            stop, pad = start + len(chosen), width - part.length
            for old, new in ((part.key_room, self.key_room), (part.value_room, self.value_room)):
                new[start:stop, :, :pad] = 0  # Masked out, but 0 times an uninitialised NaN would still be NaN
                torch.index_select(old, 0, chosen, out=new[start:stop, :, pad:width])
            first, start = last, stop
        self._expose()

    def _room(self, states: torch.Tensor, rows: int | None = None) -> torch.Tensor:
        batch, heads, _, dimension = states.shape
        return states.new_empty((batch if rows is None else rows, heads, self.capacity, dimension))

    def _expose(self) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = self.key_room[:, :, : self.length], self.value_room[:, :, : self.length]
        self.keys, self.values = keys, values
        return keys, values


def grows_everywhere(cache: Cache) -> bool:
    """Whether all layers are growing ones, so that `joined_cache` applies."""
    return all(isinstance(layer, GrowingLayer) for layer in cache.layers)


def joined_cache(caches: list[Cache], rows: torch.Tensor, capacity: int) -> Cache:
    """One cache of growing layers from several with other widths, aligned at their last columns.

    Args:
        caches: Caches of successive parts of a batch; all their layers are `GrowingLayer`.
        rows: (R,) non-decreasing rows of that batch, which may repeat, that make up the joined cache.
        capacity: Columns of the joined cache.
    """
    width = max(cache.get_seq_length() for cache in caches)
    layers = []
    for parts in zip(*(cache.layers for cache in caches), strict=True):
        layer = GrowingLayer(capacity)
        layer.fill([part for part in parts if isinstance(part, GrowingLayer)], rows, width)
        layers.append(layer)
    return Cache(layers=[*layers])


def growing_cache(config: PretrainedConfig, capacity: int) -> Cache:
    """A cache for the model of `config`: growing layers where it attends to everything, else the library's own."""
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer(capacity) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache
