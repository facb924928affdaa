"""A language model that runs at a server with OpenAI's HTTP interface: vLLM, SGLang, llama.cpp, Ollama and others."""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.generation.likelihood import Completion
from mrag_rl.generation.llm import SCORES_NEEDED, PiecewiseLLM, Usage, check_counts, one_seed_per_prompt
from mrag_rl.generation.parallel import by_row, in_parallel
from mrag_rl.generation.prompts import Prompt, make_room, messages, render
from mrag_rl.generation.sampling import SEEDS, row_key
from mrag_rl.generation.server import Server, Unanswered

_BYTES_PER_TOKEN = 2  # Fewer than texts have (English about 4, German 3.5), so that the estimate is too high
_TEMPLATE_TOKENS = 256  # More than chat templates add to the messages themselves
_START_TOKENS = 4  # More than tokenizers put before a text
_TOP = 20  # As many of the likeliest tokens as vLLM tells unless it is set otherwise
_SPECIAL = re.compile(r"<[^<>\s]+>")  # </s>, <eos>, <|im_end|>


class ServerLLM(PiecewiseLLM):
    """The texts of a server's model, requested many at a time, each text by a request of its own.

    A completion ends where the model ends it and, unless the server is sent chat messages, at the first newline. Every
    request has a seed, a function of (seed, prompt, sample index), so that a prompt's texts depend neither on the other
    prompts of the call nor on how many samples there are, *as far as the server keeps to the seed*. Most do not keep to
    it exactly: requests share batches, whose shape changes the rounding, so that asked again a server may give another
    text where two tokens are close. docs/servers.md says what each server promises. A `CachedLLM` in front makes the
    first text the only one.

    Faults that pass are tried again, and so are answers that make no sense (`mrag_rl.generation.server`). An empty text
    is asked for three times; it counts if the server says that the model ended it, as a model on this machine may.

    Attributes:
        fingerprint: SHA-256 of the model's name and what else the server reports of it, its context, chat or not, and
            the stop strings. It has neither the address, so that the model may move, nor the key. A server does not
            report its weights: after changing them under the same name, delete the cache.
        usage: Counters. Batches are requests; tokens are counted if the server counts them.
    """

    def __init__(self, server: Server, *, context: int, stop: Sequence[str] = (), concurrency: int = 32) -> None:
        """Wrap a connection; see `connect` for the arguments."""
        self.server = server
        self.context = context
        self.stop = tuple(stop) if server.chat else (*stop, "\n")
        self.concurrency = concurrency
        self.usage = Usage()
        self._counting = threading.Lock()
        depends_on = [server.reported, server.chat, context, server.tokenizes, self.stop]
        self.fingerprint = hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()

    @classmethod
    def connect(
        cls,
        url: str,
        model: str,
        *,
        chat: bool = False,
        stop: Sequence[str] = (),
        context: int | None = None,
        concurrency: int = 32,
        timeout: float = 120.0,
    ) -> ServerLLM:
        """The model of this name at a server.

        The key is that of the environment variable MRAG_RL_API_KEY, else OPENAI_API_KEY, else none.

        Args:
            url: The server's address, such as http://127.0.0.1:8000; without a path, it gets "/v1".
            model: The model's name there.
            chat: Send chat messages, for the server's chat template, rather than texts to complete.
            stop: Strings that end a text and are not part of it.
            context: The longest prompt with its answer, in tokens; None for what the server reports.
            concurrency: Most requests at a time.
            timeout: Seconds without a byte of an answer before asking again.

        Raises:
            InputError: The server cannot be reached or does not accept the key, it has no such model, or it does not
                report the model's context and none is given.
        """
        server = Server(url, model, chat=chat, timeout=timeout)
        known = [length for length in (context, server.context) if length is not None]
        if not known:
            raise InputError(
                f"llm.server {url} does not report how long the context of {model!r} is; set llm.context to its tokens"
            )
        return cls(server, context=min(known), stop=stop, concurrency=concurrency)

    def render(self, prompt: Prompt) -> str:
        """The prompt as the server gets it: its chat messages as JSON, or plain text."""
        return json.dumps(messages(prompt), ensure_ascii=False) if self.server.chat else render(prompt)

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        """Whether each prompt, whole, leaves room for `max_new_tokens` in the model's context.

        A text has at most as many tokens as bytes. Where that does not decide, the server is asked; if it tells no
        tokens, a text is taken to have one for every two bytes, which is more than most have.
        """
        limit = self.context - max_new_tokens
        surely = [self._most_tokens(prompt) <= limit for prompt in prompts]
        jobs = {row: partial(self._length, prompt) for row, prompt in enumerate(prompts) if not surely[row]}
        lengths = {row: length for part in in_parallel(jobs, self.concurrency) for row, length in part.items()}
        return [sure or lengths[row] <= limit for row, sure in enumerate(surely)]

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
        """The texts of `generate` as they come; see `PiecewiseLLM`.

        Raises:
            InputError: The server fails for good, or a prompt does not fit the model's context.
        """
        check_counts(samples, max_new_tokens)
        greedy = temperature == 0
        texts = [self.render(prompt) for prompt in prompts]
        rows: list[list[tuple[str, int | None]]] = [
            [(text, None)]
            if greedy
            else [(text, row_key(seed, text, sample) % SEEDS) for sample in range(first, first + samples)]
            for text, seed in zip(texts, one_seed_per_prompt(seeds, len(prompts)), strict=True)
        ]
        sent = self._shortened(dict(zip(texts, prompts, strict=True)), max_new_tokens)
        jobs = {
            (text, seed): partial(self._complete, sent[text], seed, temperature, max_new_tokens)
            for text, seed in dict.fromkeys(request for row in rows for request in row)
        }
        repeat = samples if greedy else 1
        for part in self._counted(by_row(rows, jobs, self.concurrency)):
            yield {row: answers * repeat for row, answers in part.items()}

    def log_probabilities_in_parts(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> Iterator[dict[int, list[float]]]:
        """The scores of `log_probabilities` as they come; see `PiecewiseLLM`.

        The end is as probable as those of the 20 likeliest tokens there that hold a newline or look like a special
        token, such as </s>. If there is none among them, it counts as probable as the last of them: an estimate, which
        is mostly too high.

        Raises:
            InputError: The server has no log-probabilities of given texts, or fails for good, or a prompt with a
                completion does not fit the model's context.
        """
        if self.server.chat or not self.server.tokenizes:
            raise self._no_scores(
                "it is sent chat messages" if self.server.chat else "it does not tell a text's tokens"
            )
        rows = [[(prompt, text.strip()) for text in texts] for prompt, texts in zip(prompts, completions, strict=True)]
        jobs = {
            pair: partial(self._score, *pair, max_new_tokens)
            for pair in dict.fromkeys(pair for row in rows for pair in row)
        }
        yield from self._counted(by_row(rows, jobs, self.concurrency))

    def _complete(self, prompt: Prompt, seed: int | None, temperature: float, max_new_tokens: int) -> str:
        body: dict[str, Any] = {"messages": messages(prompt)} if self.server.chat else {"prompt": render(prompt)}
        body |= {"max_tokens": max_new_tokens, "temperature": temperature}
        if seed is not None:
            body |= {"seed": seed, "top_p": 1}  # Several servers would leave out the least likely tokens
        if self.stop:
            body["stop"] = [*self.stop]
        answer = self.server.complete(body)
        with self._counting:
            self.usage.batches += 1
            self.usage.generated_tokens += answer.tokens
        text = answer.text
        for stop in self.stop:  # Some servers leave it at the end
            text = text.split(stop, 1)[0]
        return text.strip()

    def _score(self, prompt: Prompt, text: str, max_new_tokens: int) -> float:
        ending = f" {text}" if text else ""
        item = self._tokenized(prompt, ending)
        room = max(max_new_tokens, len(item.tokens))
        if len(item.prompt) + room > self.context:
            prompt = make_room(prompt, self._length, self.context, room)
            item = self._tokenized(prompt, ending)
        whole = len(item.prompt) + len(item.tokens)
        try:
            told = self.server.echo(render(prompt) + ending, _TOP)
            written = [float(value) for value in told["token_logprobs"][len(item.prompt) : whole]]
            (following,) = told["top_logprobs"][whole:]  # and with that, that all tokens are there
            ended = _end_probability({str(token): float(value) for token, value in following.items()})
            score = (sum(written) + ended) / (len(item.tokens) + 1)
            if not math.isfinite(score):
                raise ValueError("not a number, or infinite")
        except Unanswered as error:
            raise self._no_scores(str(error)) from None
        except (TypeError, ValueError, AttributeError):
            raise self._no_scores("they are incomplete or no finite numbers") from None
        with self._counting:
            self.usage.batches += 1
        return score

    def _tokenized(self, prompt: Prompt, ending: str) -> Completion:
        text = render(prompt)
        return Completion.after(self.server.tokens(text), self.server.tokens(text + ending))

    def _no_scores(self, why: str) -> InputError:
        return InputError(
            f"llm.server {self.server.url} gives no log-probabilities of given texts ({why}). {SCORES_NEEDED}, or "
            "use vLLM or SGLang with llm.chat false"
        )

    def _shortened(self, prompts: dict[str, Prompt], room: int) -> dict[str, Prompt]:
        """The prompts, shortened so that they leave room for so many new tokens in the context."""
        limit = self.context - room
        jobs = {
            text: partial(make_room, prompt, self._length, self.context, room)
            for text, prompt in prompts.items()
            if self._most_tokens(prompt) > limit
        }
        shorter = {text: prompt for part in in_parallel(jobs, self.concurrency) for text, prompt in part.items()}
        return prompts | shorter

    def _most_tokens(self, prompt: Prompt) -> int:
        return len(self.render(prompt).encode()) + (_TEMPLATE_TOKENS if self.server.chat else _START_TOKENS)

    def _length(self, prompt: Prompt) -> int:
        """The prompt's tokens: counted by the server, or else estimated."""
        if not self.server.tokenizes:
            extra = _TEMPLATE_TOKENS if self.server.chat else _START_TOKENS
            return math.ceil(len(self.render(prompt).encode()) / _BYTES_PER_TOKEN) + extra
        if not self.server.chat:
            return len(self.server.tokens(render(prompt)))
        return len(self.server.tokens(messages(prompt))) + (_TEMPLATE_TOKENS if self.server.llama_cpp else 0)

    def _counted(self, parts: Iterator[dict[int, Any]]) -> Iterator[dict[int, Any]]:
        """The parts, with the prompts and seconds that they take counted."""
        started = time.perf_counter()
        try:
            for part in parts:
                self.usage.prompts += len(part)
                yield part
        finally:
            self.usage.seconds += time.perf_counter() - started


def _end_probability(following: dict[str, float]) -> float:
    """The log-probability that a text ends, from those of the likeliest next tokens by the tokens themselves."""
    ends = [value for token, value in following.items() if "\n" in token or _SPECIAL.fullmatch(token)]
    if not ends:
        return min(following.values())
    most = max(ends)  # vLLM's least is -9999, whose probability would be 0
    return most + math.log(sum(math.exp(value - most) for value in ends))
