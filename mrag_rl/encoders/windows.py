"""Texts as windows of tokens: how long a window is, and where a long text is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mrag_rl.encoders.sentence_files import MEND, read_setting
from mrag_rl.errors import InputError

LONGEST_WINDOW = 4096
"""Tokens in a window if a model's files state no length: attention that is not fused needs memory for the square."""


@dataclass(frozen=True)
class Windows:
    """W windows of N texts, in the texts' order.

    Attributes:
        ids: The token ids of each window.
        owners: (W,) int64, the text that each window is from.
        shares: (W,) float32, the weight of each window in the mean of its text's windows: its share of their tokens.
        prefix: How many tokens a prefix by itself has, special ones before it included; 0 without one.
    """

    ids: list[list[int]]
    owners: torch.Tensor
    shares: torch.Tensor
    prefix: int


class WindowCutter:
    """Cuts texts into windows of at most ``max_length`` tokens, each beginning in the middle of the one before."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int, *, truncate: bool, name: str) -> None:
        """truncate: keep only the first window of a text. name: of the encoder, for error messages. Raises InputError
        where special tokens leave no room for text."""
        self.tokenizer, self.max_length, self.truncate, self.name = tokenizer, max_length, truncate, name
        self._before, self._after = _special_tokens(tokenizer)
        if max_length <= self._before + self._after:
            raise InputError(f"encoder {name}: no room for text in {max_length} tokens; give a larger max_length")

    def cut(self, texts: Sequence[str], prefix: str = "") -> Windows:
        """The windows of N texts, each window with the prefix before it.

        Raises InputError for a text that is not Unicode or has no tokens, and for a prefix that fills a window.
        """
        ids: list[list[int]] = []
        owners: list[int] = []
        alone = self._tokens([prefix])[0] if prefix else []
        alone = alone[: len(alone) - self._after]
        for i, tokens in enumerate(self._tokens([prefix + text for text in texts])):
            # Where the last token of the prefix grows together with the text, only those before it are repeated.
            before = max(self._before, _equal_start(alone, tokens))
            room, end = self.max_length - before - self._after, len(tokens) - self._after
            if room < 1:
                raise InputError(
                    f"encoder {self.name}: the prefix {prefix[:40]!r} fills all {self.max_length} tokens that the "
                    "encoder reads at once; give a shorter one"
                )
            several = len(tokens) > self.max_length and not self.truncate
            starts = range(before, end - room // 2, room - room // 2) if several else [before]
            for start in starts:
                ids.append(tokens[:before] + tokens[start : min(start + room, end)] + tokens[end:])
                owners.append(i)
        owned = torch.tensor(owners, dtype=torch.int64)
        lengths = torch.tensor([len(window) for window in ids], dtype=torch.float32)
        totals = torch.zeros(len(texts)).index_add_(0, owned, lengths)
        return Windows(ids, owned, lengths / totals[owned], len(alone))

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, special tokens included."""
        try:
            tokens: list[list[int]] = self.tokenizer(list(texts), verbose=False)["input_ids"] if texts else []
        except TypeError as error:
            i = next((i for i, text in enumerate(texts) if text != text.encode(errors="ignore").decode()), None)
            if i is None:
                raise
            raise InputError(f"encoder: text {i} of {len(texts)} contains half a surrogate pair; remove it") from error
        for text, ids in zip(texts, tokens, strict=True):
            if not ids:
                raise InputError(
                    f"encoder {self.name}: its tokenizer finds no tokens in {text[:40]!r}; give some words"
                )
        return tokens


def window_length(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, requested: int | None
) -> int:
    """Tokens in a window: as many as requested, else as sentence-transformers' file in the model's folder states, else
    as the model has positions, at most `LONGEST_WINDOW`.

    Raises InputError when more are requested than there are positions, and for files that state no number.
    """
    positions = position_count(model)
    if requested is not None:
        if positions is not None and requested > positions:
            raise InputError(f"encoder max_length is {requested}; {folder} has {positions} positions, give no more")
        return requested
    stated = read_setting(folder / "sentence_bert_config.json", "max_seq_length", int)
    longest = tokenizer.model_max_length
    for file, name, length in (
        ("sentence_bert_config.json", "max_seq_length", stated),
        ("tokenizer_config.json", "model_max_length", longest),
    ):
        if length is not None and (type(length) not in (int, float) or not length >= 0):
            raise InputError(f"{folder / file}: {name} is {length!r:.60}, no number of tokens; {MEND}")
    return int(min(n for n in (stated or LONGEST_WINDOW, positions, longest) if n))


def position_count(model: PreTrainedModel) -> int | None:
    """How many tokens a model has positions for; None if its configuration sets no limit."""
    positions: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is None:
        return None
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings == positions and module.padding_idx is not None:
            # RoBERTa and its relatives count positions from behind the padding index.
            return positions - (module.padding_idx + 1)
    return positions


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """How many tokens the tokenizer puts before and after every text."""
    text, whole = (tokenizer("a", add_special_tokens=add)["input_ids"] for add in (False, True))
    added = len(whole) - len(text)
    before = next(n for n in range(added + 1) if whole[n : n + len(text)] == text)
    return before, added - before


def _equal_start(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their start."""
    length = min(len(a), len(b))
    return next((n for n in range(length) if a[n] != b[n]), length)
