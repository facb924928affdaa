"""Decoder-only models of the transformers library as an `LLM`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
import transformers
from transformers import AutoModelForCausalLM, StopStringCriteria

from mrag_rl.errors import InputError
from mrag_rl.generation import reflection
from mrag_rl.generation.attention import use_blocked_attention
from mrag_rl.generation.batched_llm import BatchedLLM
from mrag_rl.generation.decoding import Decoder, Request
from mrag_rl.generation.likelihood import Completion, log_probabilities
from mrag_rl.generation.packing import pack_linear_layers
from mrag_rl.generation.reading import PromptReader
from mrag_rl.models.devices import free_memory
from mrag_rl.models.plan import placement
from mrag_rl.models.pretrained import load_pretrained
from mrag_rl.models.quantization import NF4_PRECISION, weight_bytes
from mrag_rl.models.weights import files_sha256, find_model, weights_sha256

_SETTINGS = ("*.json", "*.model", "*.jinja", "*.txt")  # Configuration, tokenizer and chat template
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TransformersLLM(BatchedLLM):
    """A decoder-only transformers model that decodes many prompts at once.

    A completion ends at the end-of-sequence token and, for models without a chat template, at the first newline. A
    model with Self-RAG's reflection tokens is asked in Self-RAG's form (`reflection.py`); they are no part of a text.

    Its random numbers are a function of (seed, prompt, sample index, step), whatever the batch (`sampling.py`), so the
    same call gives the same texts, and so does any other batch up to rounding: a matrix product of another shape may
    sum in another order, which changes logits by some 1e-5 in float32. A completion then differs only where two tokens
    are that close, once in thousands of tokens; in 16 bits more often.

    For speed, beside what `BatchedLLM` does, the cache grows in place, only the last position's logits are computed,
    and finished rows leave the batch.

    Attributes:
        fingerprint: SHA-256 of weights, tokenizer and configuration files, precision, quantization and stop strings.
        model, decoder: what reads and writes.
    """

    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        *,
        fingerprint: str,
        batch_tokens: int = 16384,
        stop: Sequence[str] = (),
    ) -> None:
        """Wrap a loaded model; see `load` for the arguments."""
        model.eval()
        pack_linear_layers(model)
        use_blocked_attention(model)
        self.model = model
        config = model.config.get_text_config(decoder=True)
        reader = PromptReader(tokenizer, int(getattr(config, "max_position_embeddings", None) or 2**31), stop=stop)
        self.decoder = Decoder(
            model,
            _stop_tokens(model, tokenizer, newline=not reader.chat, names=reflection.ENDS if reader.reflects else ()),
            StopStringCriteria(tokenizer, list(reader.stop)) if reader.stop else None,
        )
        vocabulary = len(self.decoder.stop_tokens)
        super().__init__(reader, fingerprint=fingerprint, batch_tokens=batch_tokens, vocabulary=vocabulary)

    @property
    def tokenizer(self) -> transformers.PreTrainedTokenizerBase:
        """The model's tokenizer."""
        return self.reader.tokenizer

    @property
    def weight_bytes(self) -> int:
        """What the weights take of memory."""
        return weight_bytes(self.model)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        dtype: str = "float32",
        device: str = "cpu",
        quantization: Literal["nf4"] | None = None,
        batch_tokens: int = 16384,
        stop: Sequence[str] = (),
        revision: str | None = None,
        report: Callable[[str], object] | None = None,
    ) -> TransformersLLM:
        """The model in a folder or on the hub, from safetensors only.

        Args:
            name_or_path: A folder with `config.json`, tokenizer and `.safetensors` weights, or a hub name.
            dtype: float32, bfloat16 or float16.
            device: A torch device, or "auto" for all GPUs (needs accelerate), layer by layer.
            quantization: None, or "nf4" for 4-bit weights (needs bitsandbytes; see `NF4Config`). Weights that are
                quantized in the files (GPTQ, AWQ, ...) are loaded as they are, by transformers; they need None.
            batch_tokens: Upper bound of rows x (longest prompt + new tokens) in a batch.
            stop: Strings that end a text, wherever its tokens break, and are not part of it.
            revision: Branch, tag or commit on the hub.
            report: Receives the plan of a quantized model, or of one on GPUs, line by line before weights are read.

        Raises:
            InputError: There is no usable model there, or no such device, or its weights do not fit the GPUs.
        """
        devices = free_memory(device)
        if dtype not in _DTYPES:
            raise InputError(f"dtype {dtype!r} is unknown; choose one of {', '.join(_DTYPES)}")
        if quantization not in (None, "nf4"):
            raise InputError(f"quantization {quantization!r} is unknown; choose nf4, or null for none")
        folder = find_model(str(name_or_path), role="LLM", revision=revision)
        precision = f"{dtype} {NF4_PRECISION if quantization else None}{' ' + json.dumps([*stop]) if stop else ''}"
        # The plan first: what does not fit should not wait for the hash of a large model's weights.
        device_map = placement(folder, devices, dtype=_DTYPES[dtype], quantization=quantization, report=report)
        weights, settings = weights_sha256(folder, expected=None, role="LLM"), files_sha256(folder, _SETTINGS)
        model, tokenizer, missing = load_pretrained(
            AutoModelForCausalLM,
            folder,
            role="LLM",
            dtype=_DTYPES[dtype],
            attention="sdpa",
            quantization=quantization,
            device_map=device_map,
        )
        if missing:  # transformers has drawn them at random
            raise InputError(f"LLM {folder}: no weights for {missing[0]}; give a folder with all weights")
        if device_map is None:
            model.to(next(iter(devices)))
        return cls(
            model,
            tokenizer,
            fingerprint=hashlib.sha256(f"{precision}\n{weights}\n{settings}".encode()).hexdigest(),
            batch_tokens=batch_tokens,
            stop=stop,
        )

    def _decode(
        self, batches: Sequence[Sequence[Request]], temperature: float, max_new_tokens: int
    ) -> Iterator[tuple[int, list[list[int]], int]]:
        for place, batch in enumerate(batches):
            yield place, *self.decode(batch, temperature, max_new_tokens)

    def _score(self, batches: Sequence[Sequence[Completion]]) -> Iterator[tuple[int, list[float], int]]:
        for place, batch in enumerate(batches):
            yield place, *self.score(batch)

    def decode(
        self, requests: Sequence[Request], temperature: float, max_new_tokens: int
    ) -> tuple[list[list[int]], int]:
        """The token ids of a batch's completions, and into how many parts it was divided: halved as often as memory
        runs out."""
        try:
            return self.decoder.decode([*requests], temperature, max_new_tokens), 1
        except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
            if not _out_of_memory(error):
                raise
            if len(requests) > 1:
                half = len(requests) // 2
                parts = [requests[:half], requests[half:]]
            elif len(requests[0].keys) > 1:
                (only,) = requests
                half = len(only.keys) // 2
                parts = [[Request(only.tokens, keys)] for keys in (only.keys[:half], only.keys[half:])]
            else:
                raise self._too_long(len(requests[0].tokens)) from error
        first, second = (self.decode(part, temperature, max_new_tokens) for part in parts)
        return first[0] + second[0], first[1] + second[1]

    def score(self, batch: Sequence[Completion]) -> tuple[list[float], int]:
        """The score of each completion of a batch, and into how many parts it was divided, as by `decode`."""
        try:
            return log_probabilities(self.decoder, [*batch]), 1
        except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
            if not _out_of_memory(error):
                raise
            if len(batch) == 1:
                raise self._too_long(len(batch[0].prompt) + len(batch[0].tokens)) from error
        half = len(batch) // 2
        first, second = self.score(batch[:half]), self.score(batch[half:])
        return first[0] + second[0], first[1] + second[1]

    def _too_long(self, tokens: int) -> InputError:
        return InputError(
            f"one prompt of {tokens} tokens does not fit into the memory of {self.model.device}; use a smaller LLM, a "
            "smaller dtype or quantization"
        )


def _stop_tokens(
    model: transformers.PreTrainedModel,
    tokenizer: transformers.PreTrainedTokenizerBase,
    *,
    newline: bool,
    names: Sequence[str],
) -> torch.Tensor:
    """(vocabulary,) bool: the tokens that end a completion, those of these names and, if `newline`, all that contain
    a newline."""
    vocabulary = int(model.get_output_embeddings().weight.shape[0])
    stops = torch.zeros(vocabulary, dtype=torch.bool)
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    named = [tokenizer.convert_tokens_to_ids(name) for name in names]
    for end in [*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id, *named]:
        if end is not None:
            stops[end] = True
    if newline:
        # Decoding every token of a large vocabulary takes seconds: only those that may contain a newline are decoded.
        marks = ("\n", "Ċ", "<0x0A>")  # itself, in byte-level vocabularies, as a byte
        for token, i in tokenizer.get_vocab().items():
            if i < vocabulary and any(mark in token for mark in marks) and "\n" in tokenizer.decode([i]):
                stops[i] = True
    return stops.to(model.device)


def _out_of_memory(error: BaseException) -> bool:
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
