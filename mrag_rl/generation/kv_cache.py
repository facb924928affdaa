"""A key-value cache that grows in place, where transformers' own concatenates at every token."""

from typing import Any

import torch
from transformers import Cache, DynamicCache, PretrainedConfig

from mrag_rl.models.private_apis import CacheLayer, cache_with_layers, keeps_everything, may_keep_everything


class GrowingLayer(CacheLayer):
    """The keys and values of one layer, in buffers for `rows` sequences of `capacity` positions.

    Concatenation copies the whole cache at each decoding step, which for a small model costs more than its arithmetic.
    Here a step writes its own column, and attention reads a view of the columns so far.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers has not annotated it
        self.rows = rows
        self.capacity = capacity
        self.length = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append (B, heads, new, d) keys and values; returns all so far, (B, heads, length, d) each."""
        self.write(0, self.length, key_states, value_states)
        return self.expose(self.length + key_states.shape[-2])

    def write(self, row: int, column: int, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Put (B, heads, L, d) keys and values at rows `row:row + B`, columns `column:column + L`."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.key_buffer, self.value_buffer = (
                states.new_empty((self.rows, states.shape[1], self.capacity, states.shape[3]))
                for states in (key_states, value_states)
            )
        rows, columns = slice(row, row + len(key_states)), slice(column, column + key_states.shape[-2])
        self.key_buffer[rows, :, columns] = key_states
        self.value_buffer[rows, :, columns] = value_states

    def expose(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Make the first `length` columns the layer's keys and values, (B, heads, length, d) each, and return them."""
        self.length = length
        self.keys, self.values = self.key_buffer[:, :, :length], self.value_buffer[:, :, :length]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """The number of columns written so far."""
        return self.length

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Make the batch the rows `beam_idx`, which may repeat or omit any.

        If rows only move up into the places of dropped ones, just these rows are copied, in place.
        """
        rows, count = len(self.key_buffer), len(beam_idx)
        beam_idx = beam_idx.to(self.key_buffer.device)  # Layers may lie on several devices
        moved = (beam_idx != torch.arange(count, device=beam_idx.device)).nonzero()[:, 0]
        buffers = (self.key_buffer, self.value_buffer)
        # Whole rows, unused columns too: contiguous rows are copied several times faster than strided ones.
        if count <= rows and bool((beam_idx[moved] >= count).all()):
            for buffer in buffers:
                buffer[moved] = buffer.index_select(0, beam_idx[moved])
            self.key_buffer, self.value_buffer = (buffer[:count] for buffer in buffers)
        else:
            self.key_buffer, self.value_buffer = (buffer.index_select(0, beam_idx) for buffer in buffers)
        self.expose(self.length)


class PrefillLayer(CacheLayer):
    """Stands in for a `GrowingLayer` while some of its rows are prefilled, their last column at `width - 1`.

    The tokens that all of these rows begin with may have been read before, once for all: their keys and values then
    follow each row's padding, before those of its other tokens.
    """

    def __init__(
        self,
        whole: GrowingLayer,
        row: int,
        width: int,
        read: tuple[GrowingLayer, torch.Tensor] | None = None,
    ) -> None:
        """read: one row of keys and values, and (B, their columns + L) int64, where each column of the rows comes from:
        these, then the L columns of the tokens that are to be read."""
        super().__init__()  # type: ignore[no-untyped-call]  # transformers has not annotated it
        self.whole, self.row, self.width, self.read = whole, row, width, read

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write whole prompts' keys and values (B, heads, L, d) to the `GrowingLayer`; returns what it wrote."""
        if self.read is not None:
            first, order = self.read
            key_states = _in_order(first.key_buffer, key_states, order)
            value_states = _in_order(first.value_buffer, value_states, order)
        padding = self.width - key_states.shape[-2]
        self.whole.write(self.row, padding, key_states, value_states)
        rows = slice(self.row, self.row + len(key_states))
        for buffer in (self.whole.key_buffer, self.whole.value_buffer):
            buffer[rows, :, :padding] = 0  # Masked out, but 0 times an uninitialised NaN would still be NaN
        self.whole.expose(self.width)
        return key_states, value_states

    def get_seq_length(self) -> int:
        """The columns that were read before."""
        return 0 if self.read is None else self.read[0].length


def _in_order(first: torch.Tensor, states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """The columns of `first` (1, heads, P, d) and `states` (B, heads, L, d) by their places (B, P + L) in each row."""
    both = torch.cat([first.expand(len(states), -1, -1, -1), states], dim=-2)
    places = order.to(states.device)[:, None, :, None].expand(-1, both.shape[1], -1, both.shape[3])
    return both.gather(2, places)


def growing_cache(config: PretrainedConfig, rows: int, capacity: int) -> Cache:
    """A cache of `capacity` columns for the model of `config`: growing layers for attention, else the library's own."""
    cache, text = DynamicCache(config=config), config.get_text_config(decoder=True)
    cache.layers = [
        GrowingLayer(rows, capacity) if may_keep_everything(layer, text) else layer for layer in cache.layers
    ]
    return cache


def attends_to_all(config: PretrainedConfig, tokens: int) -> bool:
    """Whether every layer of the model of `config` attends to all of so many tokens, by its cache."""
    return all(keeps_everything(layer, tokens) for layer in DynamicCache(config=config).layers)


def positions_follow_length(config: PretrainedConfig) -> bool:
    """Whether the model of `config` encodes a position otherwise in a longer text (RoPE "dynamic" and "longrope")."""
    stated = getattr(config, "rope_parameters", None) or {}
    kinds = {part.get("rope_type") for part in (stated, *stated.values()) if isinstance(part, dict)}
    return not kinds.isdisjoint({"dynamic", "longrope"})


def prefill_cache(
    cache: Cache, row: int, width: int, prefix: Cache | None = None, padding: torch.Tensor | None = None
) -> Cache | None:
    """A cache that prefills the rows of `cache` from `row` on, ending at column `width - 1`.

    None unless all layers of `cache` are growing ones.

    prefix: a growing cache of one row, what all rows begin with. padding: (B, L) bool, the columns to be read that are
    none of a row's tokens; they are its first.
    """
    layers = _growing_layers(cache)
    if layers is None:
        return None
    firsts = _growing_layers(prefix) if prefix is not None else None
    if firsts is None or padding is None:
        return cache_with_layers([PrefillLayer(layer, row, width) for layer in layers])
    # The padding first, then the prefix, then what is read
    before = torch.ones_like(padding[:, :1]).int().expand(-1, firsts[0].length)
    order = torch.cat([before, 2 - 2 * padding.int()], dim=1).argsort(dim=1, stable=True)
    pairs = zip(layers, firsts, strict=True)
    return cache_with_layers([PrefillLayer(layer, row, width, (first, order)) for layer, first in pairs])


def _growing_layers(cache: Cache) -> list[GrowingLayer] | None:
    """The layers of a cache; None unless all of them grow in place."""
    layers = [layer for layer in cache.layers if isinstance(layer, GrowingLayer)]
    return layers if len(layers) == len(cache.layers) else None
