"""Tokenizers, and batches of training sequences as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lm.guidance import TokenHint
from lm.sequences import Span, TrainingSequence
from mrag_rl.errors import InputError

HintsOf = Callable[[str, list[Span], np.ndarray], list[TokenHint]]

_MOST_REJECTIONS = 2000  # sequences in a row that are too long

_IGNORED = -100  # the label that PyTorch's cross-entropy ignores


@dataclass(frozen=True)
class Part:
    """A part of a batch: token ids, labels (-100 where nothing is learned) and the labels' weights, (B, T) each.

    Attributes:
        hints: Of each sequence; empty if nothing is guided.
        batch: Sequences in the whole batch.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    hints: tuple[list[TokenHint], ...] = ()
    batch: int = 1


class _Row(NamedTuple):
    """One tokenized sequence."""

    ids: list[int]
    labels: list[int]
    weights: list[float]
    hints: list[TokenHint]


def train_tokenizer(texts: list[str], vocabulary: int, pattern: str | None = None) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, which can write any text.

    No token reaches beyond a match of `pattern`, by default beyond a word.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pattern is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    make = cast(Callable[..., PreTrainedTokenizerFast], PreTrainedTokenizerFast)  # its constructor has no types
    return make(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def make_batch(
    tokenizer: PreTrainedTokenizerFast,
    draw: Callable[[np.random.Generator], TrainingSequence],
    rng: np.random.Generator,
    size: int,
    max_tokens: int,
    part_tokens: int | None = None,
    hints_of: HintsOf | None = None,
) -> list[Part]:
    """Draw a batch of `size` sequences, divided into parts.

    Args:
        tokenizer: Its end-of-sequence token is appended, with the weight of the span that reaches beyond the text.
        draw: Draws a sequence.
        rng: Source of every draw.
        size: Sequences in the batch.
        max_tokens: Longer sequences, end of sequence included, are dropped and others drawn.
        part_tokens: Most tokens in a part, padding included, whose sequences are of about the same length; a longer
            sequence is a part of its own. None for a single part in the order of the draws.
        hints_of: The hints of a text with these spans whose tokens begin at these characters (T,). None for none.

    Raises:
        InputError: 2,000 sequences or more in a row are too long.
    """
    rows: list[_Row] = []
    attempts = 0
    while len(rows) < size:
        if not rows and attempts >= _MOST_REJECTIONS:
            raise InputError(
                f"none of {attempts} sequences in a row has fewer than {max_tokens} tokens; "
                "raise --max-tokens or --vocabulary, or shorten the texts"
            )
        attempts += size - len(rows)
        sequences = [draw(rng) for _ in range(size - len(rows))]
        rows += [row for row in _tokenize(tokenizer, sequences, hints_of) if len(row.ids) <= max_tokens]
    if part_tokens is None:
        return [_pad(rows, tokenizer.pad_token_id, size)]
    parts: list[list[_Row]] = []
    for row in sorted(rows, key=lambda row: -len(row.ids)):
        if not parts or (len(parts[-1]) + 1) * len(parts[-1][0].ids) > part_tokens:
            parts.append([])
        parts[-1].append(row)
    return [_pad(part, tokenizer.pad_token_id, size) for part in parts]


def total_weight(parts: list[Part]) -> float:
    """The sum of the weights of all labels that are predicted, which is all but those in the first column."""
    return float(sum(part.weights[:, 1:].sum() for part in parts))


def _tokenize(
    tokenizer: PreTrainedTokenizerFast, sequences: list[TrainingSequence], hints_of: HintsOf | None
) -> Iterator[_Row]:
    """The sequences, each with an end-of-sequence token."""
    eos = tokenizer.eos_token_id
    encodings = tokenizer.backend_tokenizer.encode_batch([text for text, _ in sequences])
    for encoding, (text, spans) in zip(encodings, sequences, strict=True):
        starts = np.array([start for start, _ in encoding.offsets])
        weights = np.zeros(len(starts))
        for first, end, weight in spans:
            weights[(starts >= first) & (starts < end)] = weight
        labels = np.where(weights > 0, encoding.ids, _IGNORED)
        hints = [] if hints_of is None else hints_of(text, spans, starts)
        last = next(weight for _, end, weight in reversed(spans) if end > len(text))
        yield _Row([*encoding.ids, eos], [*labels.tolist(), eos], [*weights.tolist(), last], hints)


def _pad(rows: list[_Row], pad: int, batch: int) -> Part:
    longest = max(len(row.ids) for row in rows)
    return Part(
        torch.tensor([row.ids + [pad] * (longest - len(row.ids)) for row in rows]),
        torch.tensor([row.labels + [_IGNORED] * (longest - len(row.labels)) for row in rows]),
        torch.tensor([row.weights + [0.0] * (longest - len(row.weights)) for row in rows]),
        hints=tuple(row.hints for row in rows) if any(row.hints for row in rows) else (),
        batch=batch,
    )
