"""What a cache answers, whatever is asked of it through two connections, against dictionaries in memory."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.prompts import Prompt
from tests.test_cache import EchoLLM, prompts_of

connections = st.integers(0, 1)
names = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)
limits = st.sampled_from([5, 6])
Key = tuple[object, ...]


class NeverTwice(EchoLLM):
    """Writes another text, and another score, each time."""

    fails = False
    count = 0

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **arguments: Any) -> list[list[str]]:
        if self.fails:
            raise RuntimeError("no answer")
        return [[f"text {self.next()}" for _ in range(samples)] for _ in prompts]

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], **arguments: Any
    ) -> list[list[float]]:
        return [[-float(self.next()) for _ in texts] for texts in completions]

    def next(self) -> int:
        self.count += 1
        return self.count


class TwoCaches(RuleBasedStateMachine):
    """What was stored first is what both answer ever after, until it is damaged; only what is missing is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.open: list[CachedLLM] = []
        self.texts: dict[Key, str] = {}
        self.scores: dict[Key, float] = {}

    @initialize()
    def create(self) -> None:
        self.llm = NeverTwice()
        self.open = [self.connection() for _ in range(2)]

    def connection(self) -> CachedLLM:
        return CachedLLM(self.llm, self.folder / "cache.sqlite")

    def teardown(self) -> None:
        for cache in self.open:
            cache.close()
        shutil.rmtree(self.folder)

    @rule(
        which=connections, asked=names, samples=st.integers(1, 2), temperature=st.sampled_from([0.0, 1.0]),
        seed=st.integers(0, 1), limit=limits, fails=st.booleans(),
    )  # fmt: skip
    def generate(
        self, which: int, asked: list[str], samples: int, temperature: float, seed: int, limit: int, fails: bool
    ) -> None:
        draws, of_seed = (samples, seed) if temperature else (1, 0)
        keys = {name: [(name, sample, temperature, of_seed, limit) for sample in range(draws)] for name in asked}
        missing = {
            name: [key not in self.texts for key in row].index(True)
            for name, row in keys.items()
            if not all(key in self.texts for key in row)
        }
        self.llm.fails, before = fails, self.llm.count
        prompts, cache = prompts_of(asked), self.open[which]
        arguments: dict[str, Any] = {
            "samples": samples,
            "temperature": temperature,
            "seeds": seed,
            "max_new_tokens": limit,
        }
        if fails and missing:
            with pytest.raises(RuntimeError, match="no answer"):
                cache.generate(prompts, **arguments)
            return
        # Prompts that lack the same samples are asked for together
        wanted = [
            key
            for first in dict.fromkeys(missing.values())
            for name, start in missing.items()
            if start == first
            for key in keys[name][start:]
        ]
        for number, key in enumerate(wanted, start=before + 1):
            self.texts.setdefault(key, f"text {number}")
        expected = [[self.texts[key] for key in keys[name]] * (samples // draws) for name in asked]
        assert cache.generate(prompts, **arguments) == expected
        assert self.llm.count - before == len(wanted)

    @rule(which=connections, asked=names, completion=st.sampled_from("xy"), limit=limits)
    def score(self, which: int, asked: list[str], completion: str, limit: int) -> None:
        keys: list[Key] = [(name, completion, limit) for name in asked]
        before = self.llm.count
        missing = [key for key in dict.fromkeys(keys) if key not in self.scores]
        self.scores |= {key: -float(number) for number, key in enumerate(missing, start=before + 1)}
        found = self.open[which].log_probabilities(prompts_of(asked), [[completion]] * len(asked), max_new_tokens=limit)
        assert found == [[self.scores[key]] for key in keys]
        assert self.llm.count - before == len(missing)

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def damage_a_text(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.texts, key=str)))
        self.change("UPDATE texts SET text = text || '!' WHERE text = ?", self.texts.pop(key))

    @precondition(lambda self: self.scores)
    @rule(data=st.data())
    def damage_a_score(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.scores, key=str)))
        self.change("UPDATE log_probabilities SET value = value - 0.5 WHERE value = ?", self.scores.pop(key))

    def change(self, sql: str, value: str | float) -> None:
        connection = sqlite3.connect(self.folder / "cache.sqlite")
        with connection:
            assert connection.execute(sql, (value,)).rowcount == 1
        connection.close()

    @rule(which=connections)
    def reopen(self, which: int) -> None:
        self.open[which].close()
        self.open[which] = self.connection()

    @rule(which=connections)
    def read_only(self, which: int) -> None:
        """One that is only read computes what is missing, and stores nothing."""
        self.llm.fails = False
        with CachedLLM(self.llm, self.folder / "cache.sqlite", read_only=True) as cache:
            before, key = self.llm.count, ("a", 0, 1.0, which, 5)
            found = cache.generate(prompts_of("a"), temperature=1.0, seeds=which, max_new_tokens=5)
        assert found == [[self.texts.get(key, f"text {before + 1}")]]


TestTwoCaches = TwoCaches.TestCase
TestTwoCaches.settings = settings(
    max_examples=20, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
