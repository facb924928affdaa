"""Selfmem: the chosen candidate becomes the nearest memory, iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrag_rl.config import load_config
from mrag_rl.encoders import Embeddings
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.writer import Writer
from mrag_rl.runs.evaluate import evaluate_run
from mrag_rl.runs.folder import RunFolder
from mrag_rl.systems import MemoryAnswer, Selfmem
from tests.test_rivals import QUERIES, TEXTS, run, systems_of  # noqa: F401
from tests.tiny import Copier


class Numbering(Copier):
    """Its greedy answers are "greedy", its samples "sample 1", "sample 2", ...; it remembers what it was shown."""

    def __init__(self, first: str = "greedy") -> None:
        super().__init__()
        self.first = first
        self.shown: list[tuple[Prompt, int]] = []

    def generate(
        self, prompts: Sequence[Prompt], *, samples: int = 1, temperature: float = 0.0, **settings: Any
    ) -> list[list[str]]:
        self.shown += [(prompt, samples) for prompt in prompts]
        texts = [self.first] if temperature == 0.0 else [f"sample {i + 1}" for i in range(samples)]
        return [texts for _ in prompts]


def choose_last(texts: Sequence[str], queries: Embeddings, answers: Sequence[Sequence[MemoryAnswer]]) -> list[int]:
    return [len(row) - 1 for row in answers]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("iterations", [1, 2])
def test_the_chosen_candidate_takes_the_place_of_the_farthest_memory_as_the_nearest(
    run: Any,  # noqa: F811
    iterations: int,
    k: int,
) -> None:
    database, llm = run[1].database, Numbering()
    text, query = TEXTS[:1], QUERIES[:1]
    writer = Writer(llm, "summarization", demonstrations=k)
    (answer,) = Selfmem("selfmem", writer, database, choose_last, 3, 0, iterations, originals=True).answer(text, query)
    nearest = database.retrieve(query, None, k=k).indices
    retrieved = database.demonstrations(nearest, originals=True)[0]
    own = [(text[0], "sample 2"), *retrieved[: k - 1]]
    shown = [*([retrieved] * 2), *([own] * (2 * iterations - 1))]
    assert [[*reversed(prompt.demonstrations)] for prompt, _ in llm.shown] == [list(row) for row in shown]
    assert [samples for _, samples in llm.shown] == [1, 2] * iterations + [1]
    assert answer == MemoryAnswer("greedy", -1, (-1, *nearest[0, : k - 1].tolist()))
    assert answer.similarities[0] == 1.0 and len(answer.similarities) == k


def test_an_empty_candidate_is_no_memory(run: Any) -> None:  # noqa: F811
    system = systems_of(run, Numbering(first=" ")).make("selfmem_without_selector")
    naive = systems_of(run, Numbering()).make("naive").answer(TEXTS, QUERIES)
    assert [answer.memory for answer in system.answer(TEXTS, QUERIES)] == [answer.memory for answer in naive]


@pytest.mark.parametrize("name", ["selfmem", "selfmem_without_selector", "selfmem_one_iteration"])
def test_a_run_makes_it_with_a_selector_that_was_trained_on_its_candidates(run: Any, name: str) -> None:  # noqa: F811
    """Candidates of more than one sample are longer, and the training queries' references are longer still."""

    class Longer(Numbering):
        def generate(self, prompts: Sequence[Prompt], **settings: Any) -> list[list[str]]:
            answers = super().generate(prompts, **settings)
            return [
                [prompt.query if text == "sample 2" else text for text in row]
                for prompt, row in zip(prompts, answers, strict=True)
            ]

    llm = Longer()
    system = systems_of(run, llm).make(name)
    learning = len(llm.shown)
    # Greedy and sampled, at two temperatures, train and dev
    assert learning == (0 if name == "selfmem_without_selector" else 2 * 2 * 2 * 30)
    system.answer(TEXTS, QUERIES)
    iterations = 1 if name == "selfmem_one_iteration" else 2
    each = 1 if name == "selfmem_without_selector" else 2  # Only the greedy one would be taken
    assert len(llm.shown) - learning == len(TEXTS) * (each * iterations + 1)
    written = "greedy" if name == "selfmem_without_selector" else None
    for prompt, _ in llm.shown[-len(TEXTS) :]:
        assert prompt.demonstrations == ((prompt.query, written or prompt.query),)


def test_a_run_may_set_another_number_of_candidates(run: Any) -> None:  # noqa: F811
    llm = Numbering()
    system = replace(systems_of(run, llm), selfmem_candidates=7).make("selfmem")
    learning = len(llm.shown)
    system.answer(TEXTS, QUERIES)
    assert {samples for _, samples in llm.shown[:learning]} == {1, 6}
    assert sum(samples for _, samples in llm.shown[learning:]) == len(TEXTS) * (2 * 7 + 1)


def test_the_setting_of_a_run_arrives(small: Path) -> None:
    config, llm = load_config(small / "config.yaml"), Numbering()
    set_to_five = replace(config, evaluation=replace(config.evaluation, selfmem_candidates=5))
    evaluate_run(RunFolder(small), set_to_five, llm, ["selfmem"])
    assert {samples for _, samples in llm.shown} == {1, 4}


@pytest.mark.parametrize(("better", "expected"), [(0.3, 0.3), (1.0, 1.0), (None, 0.3)])
def test_the_temperature_is_the_one_that_serves_the_selector_on_development_queries(
    run: Any,  # noqa: F811
    better: float | None,
    expected: float,
) -> None:
    """At the better one, a sample is the reference itself; where none is, the lower one stays."""

    class Warm(Numbering):
        def generate(
            self, prompts: Sequence[Prompt], *, samples: int = 1, temperature: float = 0.0, **settings: Any
        ) -> list[list[str]]:
            if temperature != better:
                return [["greedy"] * samples for _ in prompts]
            return [[prompt.query] * samples for prompt in prompts]

    system = systems_of(run, Warm()).make("selfmem")
    assert isinstance(system, Selfmem) and system.temperature == expected
