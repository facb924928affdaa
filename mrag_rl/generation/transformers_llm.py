"""Decoder-only models of the transformers library as an `LLM`."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
import transformers
from transformers import AutoModelForCausalLM, StopStringCriteria

from mrag_rl.errors import InputError
from mrag_rl.generation.attention import use_blocked_attention
from mrag_rl.generation.decoding import Decoder, Request
from mrag_rl.generation.likelihood import Completion, batches, log_probabilities
from mrag_rl.generation.llm import Usage, check_counts, in_order, one_seed_per_prompt
from mrag_rl.generation.packing import pack_linear_layers
from mrag_rl.generation.prompts import (
    Prompt,
    control_tokens,
    defused,
    defused_prompt,
    make_room,
    messages,
    render,
)
from mrag_rl.generation.sampling import row_key
from mrag_rl.models.devices import free_memory
from mrag_rl.models.plan import placement
from mrag_rl.models.pretrained import load_pretrained
from mrag_rl.models.quantization import NF4_PRECISION
from mrag_rl.models.weights import files_sha256, find_model, weights_sha256

_SETTINGS = ("*.json", "*.model", "*.jinja", "*.txt")  # Configuration, tokenizer and chat template
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TransformersLLM:
    """A decoder-only transformers model that decodes many prompts at once.

    A completion ends at the end-of-sequence token and, for models without a chat template, at the first newline. Its
    random numbers are a function of (seed, prompt, sample index, step), whatever the batch (`sampling.py`), so the same
    call gives the same texts, and so does any other batch up to rounding: a matrix product of another shape may sum in
    another order, which changes logits by some 1e-5 in float32. A completion then differs only where two tokens are
    that close, once in thousands of tokens; in 16 bits more often.

    For speed, prompts are sorted by length and batched to a token budget, a prompt is read and kept once for all its
    samples, the cache grows in place, only the last position's logits are computed, and finished rows leave the batch.

    Attributes:
        fingerprint: SHA-256 of weights, tokenizer and configuration files, precision, quantization and stop strings.
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
        """Wrap a loaded model; see `load` for the arguments."""
        model.eval()
        pack_linear_layers(model)
        use_blocked_attention(model)
        self.model = model
        self.tokenizer = tokenizer
        self.fingerprint = fingerprint
        self.batch_tokens = batch_tokens
        self.stop = tuple(stop)
        self.usage = Usage()
        self._chat = bool(tokenizer.chat_template)
        added = (token.content for token in tokenizer.added_tokens_decoder.values() if token.special)
        self._control = control_tokens([*tokenizer.all_special_tokens, *added])
        self.decoder = Decoder(
            model,
            _stop_tokens(model, tokenizer, newline=not self._chat),
            StopStringCriteria(tokenizer, list(self.stop)) if self.stop else None,
        )
        config = model.config.get_text_config(decoder=True)
        self._context = int(getattr(config, "max_position_embeddings", None) or 2**31)

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

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        samples: int = 1,
        first: int = 0,
        temperature: float = 0.0,
        seeds: int | Sequence[int] = 0,
        max_new_tokens: int = 64,
    ) -> list[list[str]]:
        """`samples` texts for each prompt; see `LLM.generate`.

        Raises:
            InputError: A prompt does not fit the model's context, or by itself the device's memory.
        """
        parts = self.generate_in_parts(
            prompts, samples=samples, first=first, temperature=temperature, seeds=seeds, max_new_tokens=max_new_tokens
        )
        return in_order(parts)

    def generate_in_parts(
        self,
        prompts: Sequence[Prompt],
        *,
        samples: int = 1,
        first: int = 0,
        temperature: float = 0.0,
        seeds: int | Sequence[int] = 0,
        max_new_tokens: int = 64,
    ) -> Iterator[dict[int, list[str]]]:
        """The texts of `generate`, batch by batch; see `PiecewiseLLM`.

        The prompts that are left after a part make the same batches in a call of their own.
        """
        started = time.perf_counter()
        check_counts(samples, max_new_tokens)
        prompt_seeds = one_seed_per_prompt(seeds, len(prompts))
        greedy = temperature == 0
        texts = [self.render(prompt) for prompt in prompts]
        rows: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            rows.setdefault(text, []).append(row)
        tokens = dict(zip(texts, self._tokenize(prompts, texts, max_new_tokens), strict=True))

        # Each distinct prompt is prefilled once, whatever the number of its completions.
        keys = [
            [0] if greedy else [row_key(seed, text, sample) for sample in range(first, first + samples)]
            for text, seed in zip(texts, prompt_seeds, strict=True)
        ]
        distinct_keys: dict[str, dict[int, None]] = {text: {} for text in tokens}
        for text, prompt_keys in zip(texts, keys, strict=True):
            distinct_keys[text].update(dict.fromkeys(prompt_keys))
        requests = {text: Request(tokens[text], list(prompt_keys)) for text, prompt_keys in distinct_keys.items()}
        repeat = samples if greedy else 1
        order = sorted(requests, key=lambda text: -len(requests[text].tokens))
        for batch in self._batches(order, requests, max_new_tokens):
            answers = self._complete([requests[text] for text in batch], temperature, max_new_tokens)
            part: dict[int, list[str]] = {}
            for text, answer in zip(batch, answers, strict=True):
                completions = dict(zip(requests[text].keys, answer, strict=True))
                part |= {row: [completions[key] for key in keys[row]] * repeat for row in rows[text]}
            self.usage.prompts += len(part)
            self.usage.seconds += time.perf_counter() - started
            yield part
            started = time.perf_counter()

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        """The mean log-probability per token of each prompt's completions; see `LLM.log_probabilities`.

        A completion is tokenized together with its prompt, as a text; stop strings are not among the stop tokens.

        Raises:
            InputError: A prompt with a completion does not fit the model's context, or by itself the device's memory.
        """
        return in_order(self.log_probabilities_in_parts(prompts, completions, max_new_tokens=max_new_tokens))

    def log_probabilities_in_parts(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> Iterator[dict[int, list[float]]]:
        """The scores of `log_probabilities`, a part whenever a batch completes those of a prompt."""
        started = time.perf_counter()
        pairs = [[(prompt, text.strip()) for text in texts] for prompt, texts in zip(prompts, completions, strict=True)]
        distinct = list(dict.fromkeys(pair for row in pairs for pair in row))
        items = dict(zip(distinct, self._tokenize_pairs(distinct, max_new_tokens), strict=True))
        missing = [{items[pair] for pair in row} for row in pairs]
        rows: dict[Completion, list[int]] = {item: [] for item in items.values()}
        for row, its_items in enumerate(missing):
            for item in its_items:
                rows[item].append(row)
        scores: dict[Completion, float] = {}
        complete = {row for row, its_items in enumerate(missing) if not its_items}
        for batch in [[], *batches(rows, self.batch_tokens, len(self.decoder.stop_tokens))]:
            scores |= zip(batch, self._score(batch) if batch else [], strict=True)
            for item in batch:
                for row in rows[item]:
                    missing[row].discard(item)
                    if not missing[row]:
                        complete.add(row)
            if complete:
                self.usage.prompts += len(complete)
                self.usage.seconds += time.perf_counter() - started
                yield {row: [scores[items[pair]] for pair in pairs[row]] for row in sorted(complete)}
                started, complete = time.perf_counter(), set()

    def render(self, prompt: Prompt) -> str:
        """The prompt as this model reads it: in its chat template if it has one, else plain.

        What is called as a control token is, in a text, is no such token.
        """
        prompt = defused_prompt(prompt, self._control)
        if not self._chat:
            return render(prompt)
        return str(self.tokenizer.apply_chat_template(messages(prompt), tokenize=False, add_generation_prompt=True))

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        """Whether each prompt, whole, leaves room for `max_new_tokens` in the model's context."""
        limit = self._context - max_new_tokens
        return [len(ids) <= limit for ids in self._token_ids([self.render(prompt) for prompt in prompts])]

    def _tokenize(self, prompts: Sequence[Prompt], texts: list[str], max_new_tokens: int) -> list[list[int]]:
        """The token ids of each rendered prompt, shortened if it does not fit the context."""
        ids = self._token_ids(texts)
        for i, prompt in enumerate(prompts):
            if len(ids[i]) > self._context - max_new_tokens:
                ids[i] = self._token_ids([self._shortened(prompt, max_new_tokens)])[0]
        return ids

    def _shortened(self, prompt: Prompt, room: int) -> str:
        """The rendered prompt, shortened so that it leaves room for so many new tokens in the context."""

        def length(prompt: Prompt) -> int:
            return len(self._token_ids([self.render(prompt)])[0])

        return self.render(make_room(prompt, length, self._context, room))

    def _tokenize_pairs(self, pairs: Sequence[tuple[Prompt, str]], max_new_tokens: int) -> list[Completion]:
        """The token ids of each prompt with a completion, the prompt shortened if they do not fit the context."""
        rendered = {prompt: self.render(prompt) for prompt, _ in pairs}
        texts = [defused(text, self._control) for _, text in pairs]
        endings = [text if self._chat or not text else f" {text}" for text in texts]
        prompt_ids = dict(zip(rendered, self._token_ids([*rendered.values()]), strict=True))
        whole_ids = self._token_ids([rendered[pair[0]] + ending for pair, ending in zip(pairs, endings, strict=True)])
        items = []
        for (prompt, _), ending, whole in zip(pairs, endings, whole_ids, strict=True):
            item = Completion.after(prompt_ids[prompt], whole)
            room = max(max_new_tokens, len(item.tokens))
            if len(item.prompt) + room > self._context:
                text = self._shortened(prompt, room)
                item = Completion.after(*self._token_ids([text, text + ending]))
            items.append(item)
        return items

    def _token_ids(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        # A rendered chat template already contains its special tokens.
        ids: list[list[int]] = self.tokenizer(texts, add_special_tokens=not self._chat, verbose=False)["input_ids"]
        return ids

    def _batches(self, order: list[str], requests: dict[str, Request], max_new_tokens: int) -> list[list[str]]:
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

    def _complete(self, requests: list[Request], temperature: float, max_new_tokens: int) -> list[list[str]]:
        """The texts of each request, halving the batch as often as memory runs out."""
        try:
            completions = self.decoder.decode(requests, temperature, max_new_tokens)
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
                    self._complete([Request(only.tokens, keys)], temperature, max_new_tokens)
                    for keys in (only.keys[:half], only.keys[half:])
                )
                return [first[0] + second[0]]
            else:
                raise self._too_long(len(requests[0].tokens)) from error
            return [texts for part in halves for texts in self._complete(part, temperature, max_new_tokens)]
        self.usage.batches += 1
        self.usage.generated_tokens += sum(len(ids) for ids in completions)
        decoded = iter(self.tokenizer.batch_decode(completions, skip_special_tokens=True))
        return [[self._clean(next(decoded)) for _ in request.keys] for request in requests]

    def _score(self, batch: list[Completion]) -> list[float]:
        """The score of each completion, halving the batch as often as memory runs out."""
        try:
            scores = log_probabilities(self.decoder, batch)
        except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
            if not _out_of_memory(error):
                raise
            if len(batch) == 1:
                raise self._too_long(len(batch[0].prompt) + len(batch[0].tokens)) from error
        else:
            self.usage.batches += 1
            return scores
        half = len(batch) // 2
        return self._score(batch[:half]) + self._score(batch[half:])

    def _too_long(self, tokens: int) -> InputError:
        return InputError(
            f"one prompt of {tokens} tokens does not fit into the memory of {self.model.device}; use a smaller LLM, a "
            "smaller dtype or quantization"
        )

    def _clean(self, text: str) -> str:
        for stop in self.stop if self._chat else (*self.stop, "\n"):
            text = text.split(stop, 1)[0]
        return text.strip()


def _stop_tokens(
    model: transformers.PreTrainedModel, tokenizer: transformers.PreTrainedTokenizerBase, *, newline: bool
) -> torch.Tensor:
    """(vocabulary,) bool: the tokens that end a completion, with all that contain a newline if `newline`."""
    vocabulary = int(model.get_output_embeddings().weight.shape[0])
    stops = torch.zeros(vocabulary, dtype=torch.bool)
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    for end in [*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id]:
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
