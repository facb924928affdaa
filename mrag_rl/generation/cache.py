"""A content-addressed cache of generated texts on disk, in front of any LLM."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM, Usage, one_seed_per_prompt
from mrag_rl.generation.prompts import Prompt, render

_SCHEMA = "CREATE TABLE IF NOT EXISTS texts (key BLOB PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID"
_AT_ONCE = 500  # Keys per SELECT; SQLite's bound-variable limit was once 999


class CachedLLM:
    """An LLM that looks into a SQLite file before it computes; several processes may share the file.

    A row's key is the sha256 of all that its text depends on: the LLM's fingerprint, the rendered prompt, sample index,
    temperature, seed and token limit. Greedy texts depend on neither seed nor sample index, nor do their keys.

    One `generate` call is one transaction, so a run that was killed and resumed computes the same batches again, whole.
    Where two processes computed the same text, both return the one stored first.

    Attributes:
        fingerprint: The LLM's.
        usage: The LLM's counters, to which this adds cached prompts.
    """

    def __init__(self, llm: LLM, path: str | Path) -> None:
        """Open or create the cache file.

        Raises:
            InputError: The file cannot be used as a cache.
        """
        self.llm = llm
        self.path = Path(path)
        with self._named_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=300, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_SCHEMA)
            self._connection.execute("SELECT key, text FROM texts LIMIT 1")

    @property
    def fingerprint(self) -> str:
        return self.llm.fingerprint

    @property
    def usage(self) -> Usage:
        return self.llm.usage

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "CachedLLM":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

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
            InputError: The cache file is damaged or cannot be written.
        """
        greedy = temperature == 0
        draws = 1 if greedy else samples
        row_seeds = [0] * len(prompts) if greedy else one_seed_per_prompt(seeds, len(prompts))
        keys = [
            [
                _key(self.fingerprint, render(prompt), sample, float(temperature), seed, max_new_tokens)
                for sample in range(draws)
            ]
            for prompt, seed in zip(prompts, row_seeds, strict=True)
        ]
        with self._named_errors():
            texts = self._read(key for row in keys for key in row)
        hits = [all(key in texts for key in row) for row in keys]
        missing = {tuple(row): i for i, row in enumerate(keys) if not hits[i]}
        if missing:
            asked = list(missing.values())
            answers = self.llm.generate(
                [prompts[i] for i in asked],
                samples=draws,
                temperature=temperature,
                seeds=[row_seeds[i] for i in asked],
                max_new_tokens=max_new_tokens,
            )
            fresh = {
                key: text
                for row, answer in zip(missing, answers, strict=True)
                for key, text in zip(row, answer, strict=True)
            }
            with self._named_errors():
                texts |= self._write(fresh)
        self.usage.prompts += len(prompts) - len(missing)
        self.usage.cache_hits += sum(hits)
        repeat = samples if greedy else 1
        return [[texts[key] for key in row] * repeat for row in keys]

    def _read(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, str] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            found.update(self._connection.execute(f"SELECT key, text FROM texts WHERE key IN ({marks})", some))
        return found

    def _write(self, texts: dict[bytes, str]) -> dict[bytes, str]:
        """Store the texts in one transaction; returns what the file then holds for their keys."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts.items())
            stored = self._read(texts)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return stored

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, FileExistsError, NotADirectoryError) as error:
            raise InputError(
                f"generation cache {self.path}: {error}; free or mend the disk, or delete the file to start it afresh"
            ) from error


def _key(fingerprint: str, text: str, sample: int, temperature: float, seed: int, max_new_tokens: int) -> bytes:
    return hashlib.sha256(
        f"{fingerprint}\0{sample}\0{temperature!r}\0{seed}\0{max_new_tokens}\0{text}".encode()
    ).digest()
