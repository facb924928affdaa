"""Decoder-only models of the transformers library as an `LLM`."""

import hashlib
import inspect
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation import StopStringCriteria

from mrag_rl.errors import InputError
from mrag_rl.generation.kv_cache import growing_cache, prefill_cache
from mrag_rl.generation.llm import Usage, one_seed_per_prompt
from mrag_rl.generation.prompts import TEMPLATES, Prompt, messages, render, shorten
from mrag_rl.generation.sampling import row_key, sample_tokens
from mrag_rl.models.devices import check_device
from mrag_rl.models.quantization import quantize_nf4

_FINGERPRINTED = ("*.safetensors", "*.json", "*.model", "*.jinja", "*.txt")
_PREFILL_TOKENS = 1536  # Prompt tokens in one forward pass on a CPU: what keeps its activations in the core's cache
_SIDE_COLUMNS = 1024  # Most cache columns of one prompt's completions: each is compared, in vain, with the others'
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class _Request:
    """One distinct prompt, tokenised, with the random keys of every completion wanted of it."""

    tokens: list[int]
    keys: list[int]


class TransformersLLM:
    """A decoder-only transformers model that decodes many prompts at once.

    Texts are a function of (weights, prompt, seed, sample index, temperature), whatever the batch (`sampling.py`). A
    completion ends at the end-of-sequence token, and, for
    models without a chat template, at the first newline.

    Speed comes from prompts sorted by length and batched to a token budget, a prompt read and kept once for all its
    samples, a cache that grows in place, logits of the last position only, and finished rows leaving the batch.

    Attributes:
        fingerprint: sha256 over the weights, tokenizer and configuration files, precision and quantization.
        usage: Counters.
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
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.fingerprint = fingerprint
        self.batch_tokens = batch_tokens
        self.usage = Usage()
        self.stop = tuple(stop)
        self._stop_strings = StopStringCriteria(tokenizer, list(self.stop)) if self.stop else None
        self._chat = bool(tokenizer.chat_template)
        self._parameters = set(inspect.signature(model.forward).parameters)
        self._vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self._stops = _stop_tokens(model, tokenizer, self._vocabulary, newline=not self._chat)
        config = model.config.get_text_config(decoder=True)
        self._context = int(getattr(config, "max_position_embeddings", None) or 2**31)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        dtype: str = "float32",
        device: str = "cpu",
        quantization: str | None = None,
        batch_tokens: int = 16384,
        stop: Sequence[str] = (),
        revision: str | None = None,
    ) -> "TransformersLLM":
        """The model in a folder or on the hub, from safetensors only.

        Args:
            name_or_path: A folder with `config.json`, tokenizer and `.safetensors` weights, or a hub name.
            dtype: float32, bfloat16 or float16.
            device: A torch device.
            quantization: None, or "nf4" for 4-bit weights (needs bitsandbytes; see `quantize_nf4`).
            batch_tokens: Upper bound of rows x (longest prompt + new tokens) in a batch.
            stop: Strings that end a text and are no part of it, wherever they fall among the tokens.
            revision: Branch, tag or commit on the hub.

        Raises:
            InputError: There is no usable model there, or no such device.
        """
        check_device(device)
        if dtype not in _DTYPES:
            raise InputError(f"dtype {dtype!r} is unknown; choose one of {', '.join(_DTYPES)}")
        if quantization not in (None, "nf4"):
            raise InputError(f"quantization {quantization!r} is unknown; choose nf4, or null for none")
        folder = _locate(str(name_or_path), revision)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=_DTYPES[dtype], use_safetensors=True, local_files_only=True, trust_remote_code=False,
                attn_implementation="sdpa", output_loading_info=True,
            )  # fmt: skip
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(f"cannot load the LLM at {name_or_path}: {reason}; give a decoder-only model") from error
        model, report = loaded
        for key in sorted(report["missing_keys"]):  # transformers would draw it at random
            raise InputError(f"the LLM at {name_or_path} has no weights for {key}; give a folder with all of them")
        fingerprint = _fingerprint(folder, f"{dtype} {quantization}{' ' + json.dumps([*stop]) if stop else ''}")
        if quantization == "nf4":
            quantize_nf4(model, device)
        else:
            model.to(device)  # type: ignore[arg-type]  # transformers hides the signature behind a wrapper
        return cls(model, tokenizer, fingerprint=fingerprint, batch_tokens=batch_tokens, stop=stop)

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        samples: int = 1,
        temperature: float = 0.0,
        seeds: int | Sequence[int] = 0,
        max_new_tokens: int = 64,
    ) -> list[list[str]]:
        """`samples` texts for each prompt; see `LLM.generate`.

        Raises:
            InputError: A prompt does not fit the model's context or the device's memory even by itself.
        """
        started = time.perf_counter()
        row_seeds = one_seed_per_prompt(seeds, len(prompts))
        greedy = temperature == 0
        texts = [self.render(prompt) for prompt in prompts]
        tokens = dict(zip(texts, self._tokenize(prompts, texts, max_new_tokens), strict=True))

        # Each distinct prompt is prefilled once, whatever the number of its completions.
        keys: dict[str, dict[int, None]] = {text: {} for text in tokens}
        wanted: list[list[int]] = []
        for text, seed in zip(texts, row_seeds, strict=True):
            row = [0] if greedy else [row_key(seed, text, sample) for sample in range(samples)]
            keys[text].update(dict.fromkeys(row))
            wanted.append(row)
        requests = {text: _Request(tokens[text], list(row)) for text, row in keys.items()}
        completions: dict[str, dict[int, str]] = {}
        order = sorted(requests, key=lambda text: -len(requests[text].tokens))
        for batch in self._batches(order, requests, max_new_tokens):
            answers = self._complete([requests[text] for text in batch], temperature, max_new_tokens)
            for text, answer in zip(batch, answers, strict=True):
                completions[text] = dict(zip(requests[text].keys, answer, strict=True))

        self.usage.prompts += len(prompts)
        self.usage.seconds += time.perf_counter() - started
        repeat = samples if greedy else 1
        return [[completions[text][key] for key in row] * repeat for text, row in zip(texts, wanted, strict=True)]

    def render(self, prompt: Prompt) -> str:
        """The prompt as this model reads it: in its chat template if it has one, else plain."""
        if not self._chat:
            return render(prompt)
        return str(self.tokenizer.apply_chat_template(messages(prompt), tokenize=False, add_generation_prompt=True))

    def _tokenize(self, prompts: Sequence[Prompt], texts: list[str], max_new_tokens: int) -> list[list[int]]:
        limit = self._context - max_new_tokens
        rows = self._token_ids(texts)
        for i, row in enumerate(rows):
            if len(row) > limit:
                fitted = shorten(prompts[i], lambda prompt: len(self._token_ids([self.render(prompt)])[0]), limit)
                rows[i] = self._token_ids([self.render(fitted)])[0]
                if len(rows[i]) > limit:
                    raise InputError(
                        f"a prompt of {len(rows[i])} tokens leaves no room for {max_new_tokens} new ones in the LLM's "
                        f"context of {self._context}; lower max_new_tokens or shorten the memories' targets"
                    )
        return rows

    def _token_ids(self, texts: list[str]) -> list[list[int]]:
        # A rendered chat template holds its special tokens already.
        return self.tokenizer(texts, add_special_tokens=not self._chat, verbose=False)["input_ids"] if texts else []

    def _batches(self, order: list[str], requests: dict[str, _Request], max_new_tokens: int) -> list[list[str]]:
        """Consecutive runs of `order` (longest first) of at most `batch_tokens` tokens, at least one prompt each."""
        batches: list[list[str]] = []
        width = rows = 0
        for text in order:
            request = requests[text]
            if not batches or (rows + len(request.keys)) * width > self.batch_tokens:
                batches.append([])
                width, rows = len(request.tokens) + max_new_tokens, 0
            batches[-1].append(text)
            rows += len(request.keys)
        return batches

    def _complete(self, requests: list[_Request], temperature: float, max_new_tokens: int) -> list[list[str]]:
        """The texts of each request, halving the batch as often as memory runs out."""
        try:
            rows = self._decode(requests, temperature, max_new_tokens)
        except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
            if not _out_of_memory(error):
                raise
            if len(requests) > 1:
                half = len(requests) // 2
                halves = (requests[:half], requests[half:])
            elif len(requests[0].keys) > 1:
                (only,) = requests
                half = len(only.keys) // 2
                first, second = (
                    self._complete([_Request(only.tokens, keys)], temperature, max_new_tokens)
                    for keys in (only.keys[:half], only.keys[half:])
                )
                return [first[0] + second[0]]
            else:
                raise InputError(
                    f"one prompt of {len(requests[0].tokens)} tokens does not fit the memory of {self.model.device}; "
                    "use a smaller LLM, a smaller dtype or quantization"
                ) from error
            return [row for part in halves for row in self._complete(part, temperature, max_new_tokens)]
        self.usage.batches += 1
        self.usage.generated_tokens += sum(len(row) for row in rows)
        texts = iter(self.tokenizer.batch_decode(rows, skip_special_tokens=True))
        return [[self._clean(next(texts)) for _ in request.keys] for request in requests]

    def _clean(self, text: str) -> str:
        for stop in self.stop if self._chat else (*self.stop, "\n"):
            text = text.split(stop, 1)[0]
        return text.strip()

    @torch.inference_mode()
    def _decode(self, requests: list[_Request], temperature: float, max_new_tokens: int) -> list[list[int]]:
        """The token ids of every completion (stop token included), request by request."""
        device = self.model.device
        width = max(len(request.tokens) for request in requests)
        side = self._side_by_side(requests, max_new_tokens)
        logits, cache = self._prefill(requests, width + side * max_new_tokens, side)
        keys = np.array([key for request in requests for key in request.keys], dtype=np.uint64)
        cells = len(keys)
        lengths = torch.tensor([len(r.tokens) for r in requests for _ in r.keys[::side]], device=device)
        mask = _mask(lengths, width, side, max_new_tokens)

        out = torch.zeros((cells, max_new_tokens), dtype=torch.long, device=device)
        counts = torch.full((cells,), max_new_tokens, device=device)
        where = torch.arange(cells, device=device)  # The row of `out` that each completion of the batch writes
        alive = torch.ones(cells, dtype=torch.bool, device=device)
        for step in range(max_new_tokens):
            token = self._choose(logits, keys, step, temperature)
            out[where, step] = token
            ended = self._stops[token] & alive
            if self._stop_strings is not None:
                ended |= self._stop_strings(out[where, : step + 1], None) & alive
            if ended.any():
                counts[where[ended]] = step + 1
                alive &= ~ended
                busy = alive.view(-1, side).any(dim=1)
                left = int(busy.sum())
                if left == 0:
                    break
                # Dropping rows copies the cache, so a batch waits until a tenth of it has finished.
                if left <= 0.9 * len(busy):
                    keep = torch.arange(left, device=device)  # The last rows move into the places of finished ones
                    keep[~busy[:left]] = left + busy[left:].nonzero()[:, 0]
                    cache.reorder_cache(keep)  # type: ignore[arg-type]
                    mask, lengths = mask[keep], lengths[keep]
                    token, where, alive = (x.view(-1, side)[keep].flatten() for x in (token, where, alive))
                    keys = keys.reshape(-1, side)[keep.cpu().numpy()].ravel()
            if step + 1 < max_new_tokens:
                positions = (lengths + step)[:, None].expand(-1, side)
                seen = mask[..., : width + side * (step + 1)]
                logits = self._forward(token.view(-1, side), seen, positions, cache, last=side)
        ids_out, counts_out = out.tolist(), counts.tolist()
        return [row[:count] for row, count in zip(ids_out, counts_out, strict=True)]

    def _side_by_side(self, requests: list[_Request], max_new_tokens: int) -> int:
        """How many completions of a prompt share a row of the batch, its prompt kept and read once for all of them.

        They take a column of the cache each at every step, and a mask keeps them from seeing one another. 1 where the
        model's own attention might differ from "all that the mask lets through, at the given positions".
        """
        config = self.model.config.get_text_config(decoder=True)
        plain = (
            "position_ids" in self._parameters
            and config._attn_implementation == "sdpa"
            and not getattr(config, "alibi", False)
            and prefill_cache(growing_cache(config, 1, 1), 0, 0) is not None
        )
        common = math.gcd(*(len(request.keys) for request in requests))
        most = _SIDE_COLUMNS // max_new_tokens if plain else 1
        return max((n for n in range(2, most + 1) if common % n == 0), default=1)

    def _prefill(self, requests: list[_Request], capacity: int, side: int) -> tuple[torch.Tensor, transformers.Cache]:
        """Read every prompt once: the logits (completions, vocabulary) that follow it and the cache, a row for every
        `side` completions.
        """
        device = self.model.device
        width = max(len(request.tokens) for request in requests)
        cache = growing_cache(self.model.config, len(requests), capacity)
        parts = [requests]
        if device.type == "cpu" and prefill_cache(cache, 0, width) is not None:
            parts = _split(requests, _PREFILL_TOKENS)
        logits, row = [], 0
        for part in parts:
            part_width = max(len(request.tokens) for request in part)
            # Left padding, so that every row's next token goes to the same cache column.
            ids = torch.tensor([[0] * (part_width - len(r.tokens)) + r.tokens for r in part], device=device)
            padding = torch.tensor([part_width - len(request.tokens) for request in part], device=device)
            positions = torch.arange(part_width, device=device) - padding[:, None]
            part_cache = cache if len(parts) == 1 else prefill_cache(cache, row, width)
            logits.append(self._forward(ids, (positions >= 0).long(), positions.clamp(min=0), part_cache))
            row += len(part)
        repeats = torch.tensor([len(request.keys) for request in requests], device=device)
        source = torch.arange(len(requests), device=device).repeat_interleave(repeats)
        if len(source) > side * len(requests):
            cache.reorder_cache(source[::side])  # type: ignore[arg-type]
        return torch.cat(logits)[source], cache

    def _forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        positions: torch.Tensor,
        cache: transformers.Cache | None,
        last: int = 1,
    ) -> torch.Tensor:
        """The logits (B * last, vocabulary) float32 that follow each of the `last` columns of `ids` (B, L)."""
        optional: dict[str, Any] = {"position_ids": positions, "logits_to_keep": last}
        extra = {name: value for name, value in optional.items() if name in self._parameters}
        out = self.model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **extra)
        return out.logits[:, -last:].flatten(0, 1).float()

    def _choose(self, logits: torch.Tensor, keys: np.ndarray, step: int, temperature: float) -> torch.Tensor:
        if temperature == 0:
            return logits.argmax(dim=-1)
        return sample_tokens(logits, temperature, keys, step)


def _mask(lengths: torch.Tensor, width: int, side: int, new: int) -> torch.Tensor:
    """What rows may see of their left-padded prompt in `width` columns and of up to `new` steps of `side` columns.

    (rows, columns) int64 for one completion a row; (rows, 1, side, columns) bool for several, each of which sees its
    own column of every step.
    """
    steps = torch.arange(width + (new if side == 1 else 0), device=lengths.device)
    prompt = steps >= (width - lengths)[:, None]
    if side == 1:
        return prompt.long()
    own = torch.eye(side, dtype=torch.bool, device=lengths.device).repeat(1, new)
    rows = len(lengths)
    return torch.cat([prompt[:, None].expand(-1, side, -1), own.expand(rows, -1, -1)], dim=-1)[:, None]


def _split(requests: list[_Request], tokens: int) -> list[list[_Request]]:
    """Consecutive parts of at most `tokens` prompt tokens, at least one request each; longest requests come first."""
    parts: list[list[_Request]] = []
    for request in requests:
        if not parts or (len(parts[-1]) + 1) * len(parts[-1][0].tokens) > tokens:
            parts.append([])
        parts[-1].append(request)
    return parts


def _stop_tokens(
    model: transformers.PreTrainedModel,
    tokenizer: transformers.PreTrainedTokenizerBase,
    vocabulary: int,
    *,
    newline: bool,
) -> torch.Tensor:
    """(vocabulary,) bool: the tokens that end a completion."""
    stops = torch.zeros(vocabulary, dtype=torch.bool)
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    for end in [*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id]:
        if end is not None:
            stops[end] = True
    if newline:
        known = min(vocabulary, len(tokenizer))
        stops[:known] |= torch.tensor(["\n" in text for text in tokenizer.batch_decode([[i] for i in range(known)])])
    return stops.to(model.device)


def _out_of_memory(error: BaseException) -> bool:
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def _locate(name: str, revision: str | None) -> Path:
    """The local folder of a model, fetched from the hub unless it is there."""
    folder = Path(name)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=list(_FINGERPRINTED)))
        except Exception as error:  # The hub client raises a dozen unrelated kinds; to the user they are one
            raise InputError(
                f"no LLM at {name}: there is no such folder and the hub gave none; give a folder with config.json and "
                ".safetensors weights, or a hub name"
            ) from error
    for pattern, what in (("config.json", "config.json"), ("*.safetensors", ".safetensors weights")):
        if not any(folder.glob(pattern)):
            raise InputError(f"no LLM at {name}: the folder has no {what}; give a folder that save_pretrained wrote")
    return folder


def _fingerprint(folder: Path, precision: str) -> str:
    digest = hashlib.sha256(f"{precision}\n{TEMPLATES}\n".encode())
    for path in sorted({path for pattern in _FINGERPRINTED for path in folder.glob(pattern)}):
        digest.update(f"{path.name}\n".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
