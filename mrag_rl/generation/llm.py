"""The interface of every language model: texts for prompts, a fingerprint, and counters."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, TypeVar

from mrag_rl.generation.prompts import Prompt

T = TypeVar("T")

SCORES_NEEDED = (
    "The state candidates_and_likelihood and the systems m_rag_likely_r, m_rag_answers, supervised_answers..., selfmem "
    "and self_rag... need them: choose refinement.state candidates and leave them out of evaluation.systems"
)
"""What to say of a language model that has no log-probabilities."""


@dataclass
class Usage:
    """Counters of one language model, summed over its calls.

    Attributes:
        prompts: Prompts answered, or whose completions were scored, including those answered from a cache.
        generated_tokens: Tokens decoded, stop tokens included.
        cache_hits: Prompts whose texts, or scores, all came from a cache.
        batches: Batches that the model ran.
        seconds: Wall-clock time inside the model's `generate` and `log_probabilities`.
    """

    prompts: int = 0
    generated_tokens: int = 0
    cache_hits: int = 0
    batches: int = 0
    seconds: float = 0.0


class LLM(Protocol):
    """A frozen language model: a call's texts are a function of its arguments alone, not of earlier calls.

    A prompt's texts do not depend on the other prompts of the call either, up to rounding (see `TransformersLLM`).

    Attributes:
        fingerprint: A digest of all that the texts depend on other than the arguments: weights, tokenizer, precision.
        usage: Counters.
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def usage(self) -> Usage: ...

    def render(self, prompt: Prompt) -> str:
        """The prompt as the model reads it, including its instruction if the model gets one."""
        ...

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        """Whether each prompt, whole, leaves room for `max_new_tokens` in the model's context."""
        ...

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
        """`samples` texts for each prompt, in order.

        Args:
            prompts: The texts to answer, with their demonstrations.
            samples: Texts per prompt. Sample `i` does not depend on how many there are.
            first: The index of the first of them, so that further samples can be added to those there are.
            temperature: The divisor of the logits; 0 for greedy decoding, whose samples are copies.
            seeds: One seed for all prompts or one per prompt.
            max_new_tokens: The longest completion, in tokens.

        Raises:
            ValueError: `samples` or `max_new_tokens` is less than 1, or there is another number of seeds.
        """
        ...

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        """How probable the model finds given completions of each prompt: their mean log-probability per token.

        The logarithms are natural, and the temperature is 1. The mean is over the completion's tokens and the stop
        token that ends it; any stop token will do, so that their probabilities are added. An empty completion is scored
        as the stop token alone. A completion's score does not depend on the others, up to rounding.

        Args:
            prompts: N texts to answer, with their demonstrations.
            completions: N lists of texts, as `generate` returns them.
            max_new_tokens: As for `generate`: a prompt too long for the context is shortened to leave room for as many
                tokens, or for those of the completion if they are more.

        Returns:
            N lists, a number of at most 0 for each completion.
        """
        ...


class ContinuedLLM(LLM, Protocol):
    """A language model that also tells how an answer that has begun goes on, token for token."""

    def continued(
        self, items: Sequence[tuple[Prompt, str, str]], *, max_new_tokens: int = 64, decided: bool = True
    ) -> list[float]:
        """How probable what follows the beginning of an answer is: its tokens' mean log-probability, without an end.

        Args:
            items: (prompt, beginning of the answer, what follows), the last two as the model reads them, reflection
                tokens included; what follows is not empty.
            max_new_tokens: As for `log_probabilities`.
            decided: See `mrag_rl.generation.reflection.render`.

        Raises:
            InputError: As `log_probabilities`.
        """
        ...


class PiecewiseLLM(ABC):
    """What language models have in common whose answers come in parts, so that a cache can keep each at once.

    A subclass has the two methods of parts and the rest of `LLM`. Both take the arguments of those that they are named
    after. They yield {place of a prompt in the call: its texts, or its scores} for the prompts that are done since the
    last part, until all are. If one fails, those that are done are yielded before the error is raised.
    """

    @abstractmethod
    def generate_in_parts(
        self,
        prompts: Sequence[Prompt],
        *,
        samples: int = 1,
        first: int = 0,
        temperature: float = 0.0,
        seeds: int | Sequence[int] = 0,
        max_new_tokens: int = 64,
    ) -> Iterator[dict[int, list[str]]]: ...

    @abstractmethod
    def log_probabilities_in_parts(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> Iterator[dict[int, list[float]]]: ...

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
        """`samples` texts for each prompt; see `LLM.generate`. Raises what `generate_in_parts` does."""
        parts = self.generate_in_parts(
            prompts, samples=samples, first=first, temperature=temperature, seeds=seeds, max_new_tokens=max_new_tokens
        )
        return _in_order(parts)

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        """The mean log-probability per token of each prompt's completions; see `LLM.log_probabilities`.

        Raises what `log_probabilities_in_parts` does.
        """
        return _in_order(self.log_probabilities_in_parts(prompts, completions, max_new_tokens=max_new_tokens))


def _in_order(parts: Iterable[Mapping[int, list[T]]]) -> list[list[T]]:
    """What the parts of a `PiecewiseLLM` say of each prompt, in the order of the prompts."""
    rows: dict[int, list[T]] = {}
    for part in parts:
        rows |= part
    return [rows[row] for row in range(len(rows))]


def check_counts(samples: int, max_new_tokens: int) -> None:
    """Raises ValueError if `generate` is asked for less than one text of one token."""
    for name, count in (("samples", samples), ("max_new_tokens", max_new_tokens)):
        if count < 1:
            raise ValueError(f"{name} is {count}; give at least 1")


def one_seed_per_prompt(seeds: int | Sequence[int], prompts: int) -> list[int]:
    """The `seeds` argument of `generate` as a list, one per prompt. Raises ValueError for another number of seeds."""
    if isinstance(seeds, int | Integral):  # NumPy's are the latter
        return [int(seeds)] * prompts
    if len(seeds) != prompts:
        raise ValueError(f"{len(seeds)} seeds for {prompts} prompts; give one seed, or one per prompt")
    return [int(seed) for seed in seeds]
