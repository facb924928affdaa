"""A content-addressed cache of what a language model wrote and scored on disk, in front of any LLM."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tqdm import tqdm

from mrag_rl.cache_file import CacheFile, Values
from mrag_rl.generation.llm import LLM, ContinuedLLM, PiecewiseLLM, Usage, check_counts, one_seed_per_prompt
from mrag_rl.generation.prompts import Prompt, template

_TABLES = {"texts": Values("text", str), "log_probabilities": Values("value", float)}
_NAME = "generation cache"


class CachedLLM:
    """A language model whose texts are read from an SQLite file where possible, and stored in it where not.

    Several processes may share the file, and threads the object; they take turns. A row's key is the SHA-256 of all
    that its text depends on: the language model's fingerprint, the prompt as the model reads it (instruction and chat
    template included), the end of it that is kept if it is too long, sample index, temperature, seed and token limit.
    Greedy texts depend on neither seed nor sample index, and their keys leave both out. Log-probabilities have a table
    of their own, by model, prompt, completion and token limit.

    A row's seal says whether its value is as it was stored; a damaged one is computed and stored again.

    What comes together is stored together, in one transaction: a whole call, or each part of a `PiecewiseLLM`'s, so
    that a call that fails or is killed loses no more than what was being answered. Where two processes computed the
    same, both return what was stored first.

    Attributes:
        fingerprint: The wrapped model's.
        usage: The wrapped model's counters, to which prompts answered from the cache are added.
    """

    def __init__(self, llm: LLM, path: str | Path, *, progress: bool = False, read_only: bool = False) -> None:
        """Open or create the cache file; ":memory:" is a cache in memory, which lasts until it is closed.

        Args:
            llm: The language model.
            path: The file.
            progress: Whether a call that takes longer than 10 s shows how far it is.
            read_only: Whether to read a file that cannot be written: what it lacks is computed and not stored.

        Raises:
            InputError: The file cannot be used as a cache.
        """
        self.llm = llm
        self._progress = progress
        self._file = CacheFile(path, _TABLES, name=_NAME, read_only=read_only)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def fingerprint(self) -> str:
        return self.llm.fingerprint

    @property
    def usage(self) -> Usage:
        return self.llm.usage

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "CachedLLM":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def render(self, prompt: Prompt) -> str:
        """The prompt as the wrapped model reads it."""
        return self.llm.render(prompt)

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        """Whether each prompt fits the wrapped model's context."""
        return self.llm.fits(prompts, max_new_tokens)

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
        """`samples` texts for each prompt, of which those that the file lacks are generated; see `LLM.generate`.

        Raises:
            InputError: The cache file is damaged or cannot be written.
        """
        check_counts(samples, max_new_tokens)
        greedy = temperature == 0
        draws = 1 if greedy else samples
        prompt_seeds = [0] * len(prompts) if greedy else one_seed_per_prompt(seeds, len(prompts))
        contents = self._contents(prompts)
        keys = [
            [
                _key(self.fingerprint, content, sample, float(temperature), seed, max_new_tokens)
                for sample in range(first, first + draws)
            ]
            for content, seed in zip(contents, prompt_seeds, strict=True)
        ]
        texts = self._file.read("texts", (key for prompt_keys in keys for key in prompt_keys))
        missing: dict[int, dict[tuple[bytes, ...], int]] = {}  # By the first missing sample; equal prompts once
        for i, prompt_keys in enumerate(keys):
            absent = next((sample for sample, key in enumerate(prompt_keys) if key not in texts), None)
            if absent is not None:
                missing.setdefault(absent, {})[tuple(prompt_keys[absent:])] = i
            else:
                self.usage.cache_hits += 1
        for start, rows in missing.items():
            parts = _generate(
                self.llm,
                [prompts[i] for i in rows.values()],
                samples=draws - start,
                first=first + start,
                temperature=temperature,
                seeds=[prompt_seeds[i] for i in rows.values()],
                max_new_tokens=max_new_tokens,
            )
            texts |= self._store("texts", [*rows], parts)
        self.usage.prompts += len(prompts) - sum(map(len, missing.values()))
        repeat = samples if greedy else 1
        return [[texts[key] for key in prompt_keys] * repeat for prompt_keys in keys]

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        """The mean log-probability per token of each prompt's completions; see `LLM.log_probabilities`.

        Raises:
            InputError: The cache file is damaged or cannot be written.
        """
        keys = [
            [_score_key(self.fingerprint, content, text, max_new_tokens) for text in texts]
            for content, texts in zip(self._contents(prompts), completions, strict=True)
        ]
        scores = self._file.read("log_probabilities", (key for prompt_keys in keys for key in prompt_keys))
        hits = sum(all(key in scores for key in prompt_keys) for prompt_keys in keys)
        missing: dict[int, dict[bytes, str]] = {}  # By prompt; equal ones once
        asked = set(scores)
        for i, prompt_keys in enumerate(keys):
            new = {key: text for key, text in zip(prompt_keys, completions[i], strict=True) if key not in asked}
            if new:
                missing[i] = new
                asked.update(new)
        if missing:
            parts = _score(
                self.llm,
                [prompts[i] for i in missing],
                [list(texts.values()) for texts in missing.values()],
                max_new_tokens=max_new_tokens,
            )
            scores |= self._store("log_probabilities", [tuple(texts) for texts in missing.values()], parts)
        self.usage.prompts += len(prompts) - len(missing)
        self.usage.cache_hits += hits
        return [[scores[key] for key in prompt_keys] for prompt_keys in keys]

    def continued(
        self, items: Sequence[tuple[Prompt, str, str]], *, max_new_tokens: int = 64, decided: bool = True
    ) -> list[float]:
        """The mean log-probability of what follows the beginning of an answer; see `ContinuedLLM.continued`.

        Only for a language model that has it. Raises what that does, and InputError as `log_probabilities`.
        """
        llm = cast(ContinuedLLM, self.llm)
        contents = self._contents([prompt for prompt, _, _ in items])
        keys = [
            _score_key(self.fingerprint, f"continued {decided}\0{content}\0{begun}", text, max_new_tokens)
            for content, (_, begun, text) in zip(contents, items, strict=True)
        ]
        scores = self._file.read("log_probabilities", keys)
        missing = {key: item for key, item in zip(keys, items, strict=True) if key not in scores}
        hits = sum(key in scores for key in keys)
        if missing:
            found = llm.continued([*missing.values()], max_new_tokens=max_new_tokens, decided=decided)
            scores |= self._file.write("log_probabilities", dict(zip(missing, found, strict=True)))
        self.usage.prompts += len(items) - len(missing)
        self.usage.cache_hits += hits
        return [scores[key] for key in keys]

    def _contents(self, prompts: Sequence[Prompt]) -> list[str]:
        """What the model reads of each prompt."""
        return [f"{template(prompt.task).keep}\0{self.render(prompt)}" for prompt in prompts]

    def _store(
        self, table: str, keys: Sequence[Sequence[bytes]], parts: Iterable[Mapping[int, Sequence[Any]]]
    ) -> dict[bytes, Any]:
        """Store every part when it comes; returns what the file then has under the keys of the parts' prompts."""
        stored: dict[bytes, Any] = {}
        shown = {"desc": "ask the language model", "unit": "prompt", "disable": not self._progress}
        with tqdm(total=len(keys), delay=10, leave=False, **shown) as bar:
            for part in parts:
                rows = {key: value for i, values in part.items() for key, value in zip(keys[i], values, strict=True)}
                stored |= self._file.write(table, rows)
                bar.update(len(part))
        return stored


def entries(path: Path) -> Iterator[tuple[bytes, str | float, bool]]:
    """A cache file's rows: key, value, and whether the value is as it was stored.

    Raises InputError if the file cannot be read.
    """
    with CacheFile(path, _TABLES, name=_NAME, read_only=True) as file:
        yield from file.entries()


def _generate(llm: LLM, prompts: Sequence[Prompt], **settings: Any) -> Iterable[dict[int, list[str]]]:
    """The texts of each prompt, by its place: all at once, or in parts if they come so."""
    if isinstance(llm, PiecewiseLLM):
        return llm.generate_in_parts(prompts, **settings)
    return [dict(enumerate(llm.generate(prompts, **settings)))]


def _score(
    llm: LLM, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int
) -> Iterable[dict[int, list[float]]]:
    """The scores of each prompt's completions, by its place: all at once, or in parts if they come so."""
    if isinstance(llm, PiecewiseLLM):
        return llm.log_probabilities_in_parts(prompts, completions, max_new_tokens=max_new_tokens)
    return [dict(enumerate(llm.log_probabilities(prompts, completions, max_new_tokens=max_new_tokens)))]


def _key(fingerprint: str, content: str, sample: int, temperature: float, seed: int, max_new_tokens: int) -> bytes:
    return hashlib.sha256(
        f"{fingerprint}\0{sample}\0{temperature!r}\0{seed}\0{max_new_tokens}\0{content}".encode()
    ).digest()


def _score_key(fingerprint: str, content: str, completion: str, max_new_tokens: int) -> bytes:
    # The length says where the content ends.
    return hashlib.sha256(f"{fingerprint}\0{max_new_tokens}\0{len(content)}\0{content}{completion}".encode()).digest()
