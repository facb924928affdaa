"""A language model of the user's own: a function that the setting `llm.name` names by import path (docs/plugins.md)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence

from mrag_rl.errors import InputError
from mrag_rl.generation.llm import SCORES_NEEDED, PiecewiseLLM, Usage, check_counts, one_seed_per_prompt
from mrag_rl.generation.prompts import Prompt, render
from mrag_rl.generation.sampling import SEEDS, row_key
from mrag_rl.plugins import Plugin, check_parameters, loaded_plugin, trial, wrong_plugin

LLM_FORM = (
    "def llm(prompts: Sequence[str], max_new_tokens: int, temperature: float, seeds: Sequence[int], "
    "stop: Sequence[str]) -> Sequence[str], a text for each prompt"
)
AT_ONCE = 64
"""The most texts that are asked of the function in one call, unless a single prompt needs more samples."""


class OwnLLM(PiecewiseLLM):
    """A loaded plug-in as an `LLM`: a function from prompts to texts.

    It gets prompts as plain text, as models without a chat template do, and whole: how long its context is, only the
    function knows. What it returns is cut at the first newline or stop string. It gives no log-probabilities.

    A prompt that is sampled several times comes several times, with a seed each, which is a function of seed, prompt
    and sample index. So a text depends on nothing else if the function keeps to its arguments.

    Attributes:
        fingerprint: SHA-256 of the import path, the SHA-256 of the file that the function is in, and the stop strings.
        usage: Counters. Batches are calls of the function; tokens are not counted.
    """

    def __init__(self, path: str, *, stop: Sequence[str] = ()) -> None:
        """path: the import path of a plug-in. Raises InputError if it has not been loaded."""
        self._plugin = loaded_plugin(path)
        self.stop = (*stop, "\n")
        self.usage = Usage()
        depends_on = [path, self._plugin.sha256, self.stop]
        self.fingerprint = hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()

    def render(self, prompt: Prompt) -> str:
        """The prompt as plain text."""
        return render(prompt)

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        """True for each prompt: the function gets it whole."""
        return [True] * len(prompts)

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
        """The texts of `generate`, call by call; see `PiecewiseLLM`.

        Raises:
            InputError: The function does not return a text for each prompt.
        """
        check_counts(samples, max_new_tokens)
        greedy = temperature == 0
        draws, repeat = (1, samples) if greedy else (samples, 1)
        rows = [
            [(text, 0 if greedy else row_key(seed, text, sample) % SEEDS) for sample in range(first, first + draws)]
            for text, seed in zip(map(render, prompts), one_seed_per_prompt(seeds, len(prompts)), strict=True)
        ]
        step = max(1, AT_ONCE // max(1, draws))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            requests = [*dict.fromkeys(request for row in part for request in row)]
            started = time.perf_counter()
            texts = dict(zip(requests, self._ask(requests, temperature, max_new_tokens), strict=True))
            self.usage.seconds += time.perf_counter() - started
            self.usage.batches += 1
            self.usage.prompts += len(part)
            yield {start + i: [texts[request] for request in row] * repeat for i, row in enumerate(part)}

    def log_probabilities_in_parts(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> Iterator[dict[int, list[float]]]:
        """Raises InputError: the function writes texts and scores none."""
        raise InputError(f"llm.name {self._plugin.path} is a function that gives no log-probabilities. {SCORES_NEEDED}")

    def _ask(self, requests: Sequence[tuple[str, int]], temperature: float, max_new_tokens: int) -> list[str]:
        """The function's texts for prompts with their seeds, cut where they end."""
        found = self._plugin.value(
            prompts=[text for text, _ in requests],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seeds=[seed for _, seed in requests],
            stop=[*self.stop],
        )
        if isinstance(found, str) or not isinstance(found, Sequence):
            raise wrong_plugin(self._plugin, f"it returned {type(found).__name__}, no list of texts", LLM_FORM)
        if len(found) != len(requests):
            raise wrong_plugin(self._plugin, f"it returned {len(found)} texts for {len(requests)} prompts", LLM_FORM)
        return [self._cut(text) for text in found]

    def _cut(self, text: object) -> str:
        if not isinstance(text, str):
            raise wrong_plugin(self._plugin, f"it returned {type(text).__name__} for a prompt, no text", LLM_FORM)
        for stop in self.stop:
            text = text.split(stop, 1)[0]
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise wrong_plugin(self._plugin, "it returned a text with half of a character", LLM_FORM) from error
        return text.strip()


def check_llm(plugin: Plugin) -> None:
    """Raises InputError that shows the signature wanted if the plug-in writes no texts: two prompts are answered."""
    check_parameters(plugin, ("prompts", "max_new_tokens", "temperature", "seeds", "stop"), LLM_FORM)
    prompts = [Prompt("summarization", "The river rose."), Prompt("summarization", "It fell.", (("A text.", "A."),))]
    with trial(plugin, "two prompts", LLM_FORM):
        OwnLLM(plugin.path).generate(prompts, max_new_tokens=8)
