"""A language model that works in batches: what the batches are is decided here, and where they run elsewhere."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from mrag_rl.generation.decoding import Request
from mrag_rl.generation.likelihood import Completion, batches
from mrag_rl.generation.llm import PiecewiseLLM, Usage, check_counts, one_seed_per_prompt
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.reading import PromptReader
from mrag_rl.generation.sampling import row_key


class BatchedLLM(PiecewiseLLM):
    """An `LLM` whose prompts are sorted by length and batched to a token budget.

    A prompt is read once for all its samples, and equal prompts once for all who ask. The batches of a call are a
    function of its arguments and of `batch_tokens`, so that wherever they run, their texts are the same.

    Attributes:
        reader: the prompts as the model reads them.
        fingerprint: see `LLM`.
        batch_tokens: upper bound of rows x (longest prompt + new tokens) in a batch.
        vocabulary: the number of logits of a position.
        usage: Counters.
    """

    def __init__(self, reader: PromptReader, *, fingerprint: str, batch_tokens: int, vocabulary: int) -> None:
        self.reader, self.fingerprint = reader, fingerprint
        self.batch_tokens, self.vocabulary = batch_tokens, vocabulary
        self.usage = Usage()

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """What the weights take of memory, of one copy."""

    @abstractmethod
    def _decode(
        self, batches: Sequence[Sequence[Request]], temperature: float, max_new_tokens: int
    ) -> Iterator[tuple[int, list[list[int]], int]]:
        """Decode batches: for each, in any order, its place, the token ids of its requests' completions one after
        another, and into how many parts it was divided."""

    @abstractmethod
    def _score(self, batches: Sequence[Sequence[Completion]]) -> Iterator[tuple[int, list[float], int]]:
        """Score batches: for each, in any order, its place, the scores, and into how many parts it was divided."""

    def render(self, prompt: Prompt) -> str:
        """The prompt as this model reads it: in its chat template if it has one, else plain.

        What is called as a control token is, in a text, is no such token.
        """
        return self.reader.render(prompt)

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        """Whether each prompt, whole, leaves room for `max_new_tokens` in the model's context."""
        return self.reader.fits(prompts, max_new_tokens)

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

        Raises:
            InputError: A prompt does not fit the model's context, or by itself the device's memory.
        """
        started = time.perf_counter()
        check_counts(samples, max_new_tokens)
        prompt_seeds = one_seed_per_prompt(seeds, len(prompts))
        greedy = temperature == 0
        texts = [self.render(prompt) for prompt in prompts]
        rows: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            rows.setdefault(text, []).append(row)
        tokens = dict(zip(texts, self.reader.tokenize(prompts, texts, max_new_tokens), strict=True))

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
        made = self._batches(order, requests, max_new_tokens)
        asked = [[requests[text] for text in batch] for batch in made]
        for place, completions, divided in self._decode(asked, temperature, max_new_tokens):
            self.usage.batches += divided
            self.usage.generated_tokens += sum(map(len, completions))
            answers = iter(self.reader.texts(completions))
            part: dict[int, list[str]] = {}
            for text in made[place]:
                answer = {key: next(answers) for key in requests[text].keys}
                part |= {row: [answer[key] for key in keys[row]] * repeat for row in rows[text]}
            self.usage.prompts += len(part)
            self.usage.seconds += time.perf_counter() - started
            yield part
            started = time.perf_counter()

    def log_probabilities_in_parts(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> Iterator[dict[int, list[float]]]:
        """The scores of `log_probabilities`, a part whenever a batch completes those of a prompt; see `PiecewiseLLM`.

        A completion is tokenized together with its prompt, as a text; stop strings are not among the stop tokens.

        Raises:
            InputError: A prompt with a completion does not fit the model's context, or by itself the device's memory.
        """
        started = time.perf_counter()
        pairs = [[(prompt, text.strip()) for text in texts] for prompt, texts in zip(prompts, completions, strict=True)]
        distinct = list(dict.fromkeys(pair for row in pairs for pair in row))
        items = dict(zip(distinct, self.reader.tokenize_pairs(distinct, max_new_tokens), strict=True))
        missing = [{items[pair] for pair in row} for row in pairs]
        rows: dict[Completion, list[int]] = {item: [] for item in items.values()}
        for row, its_items in enumerate(missing):
            for item in its_items:
                rows[item].append(row)
        nothing: dict[int, list[float]] = {row: [] for row, its_items in enumerate(missing) if not its_items}
        if nothing:
            self.usage.prompts += len(nothing)
            self.usage.seconds += time.perf_counter() - started
            yield nothing
            started = time.perf_counter()
        scores: dict[Completion, float] = {}
        for found in self._scored(rows):
            scores |= found
            complete = []
            for item in found:
                for row in rows[item]:
                    missing[row].discard(item)
                    if not missing[row]:
                        complete.append(row)
            if complete:
                self.usage.prompts += len(complete)
                self.usage.seconds += time.perf_counter() - started
                yield {row: [scores[items[pair]] for pair in pairs[row]] for row in sorted(complete)}
                started = time.perf_counter()

    def continued(
        self, items: Sequence[tuple[Prompt, str, str]], *, max_new_tokens: int = 64, decided: bool = True
    ) -> list[float]:
        """How probable what follows the beginning of an answer is; see `ContinuedLLM.continued`, and its errors."""
        started = time.perf_counter()
        made = self.reader.tokenize_continuations(items, max_new_tokens, decided=decided)
        scores: dict[Completion, float] = {}
        for found in self._scored(made):
            scores |= found
        self.usage.prompts += len(items)
        self.usage.seconds += time.perf_counter() - started
        return [scores[item] for item in made]

    def _scored(self, completions: Iterable[Completion]) -> Iterator[dict[Completion, float]]:
        """The scores of distinct completions, batch by batch."""
        made = batches(completions, self.batch_tokens, self.vocabulary)
        for place, found, divided in self._score(made):
            self.usage.batches += divided
            yield dict(zip(made[place], found, strict=True))

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
