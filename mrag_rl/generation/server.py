"""A server with OpenAI's HTTP interface: the connection, what it reports of its model, and its faults by name."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from mrag_rl.errors import InputError
from mrag_rl.extras import require

require("server", "openai", by=__name__)

import openai

T = TypeVar("T")
_NO_KEY = "none"  # The client wants one, a server of one's own need not
_RETRIES = 6  # After faults that pass, by the client: 18 to 24 s in all, or as long as the server says (Retry-After)
_LONGEST_WAIT = 120  # Seconds; if the server says more, the client does not try again
_LACKING = 3  # Answers to one request that lack what was asked for; a third empty text may count
_GARBAGE = 6  # Other answers to one request that make no sense
_PAUSE = 0.25  # Seconds before the second try, then twice as long each time, up to 16 times
_ABSENT = (400, 404, 405, 422, 501)  # What servers say of a path that they do not have; a 500 may pass


class Unusable(Exception):
    """An answer that makes no sense, with what is wrong with it."""


class Lacking(Unusable):
    """An answer that can be read and lacks what was asked for: an empty text, or no log-probabilities."""


class Unanswered(InputError):
    """A request that the server refuses, or answers with nothing that makes sense."""


class _Client(openai.OpenAI):
    """OpenAI's client without the organization, the project and the headers that the environment names for OpenAI."""

    @property
    def default_headers(self) -> dict[str, str | openai.Omit]:
        return {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": self.user_agent,
            "Authorization": f"Bearer {self.api_key}",
        }


@dataclass(frozen=True)
class Answer:
    """One text of the server's.

    Attributes:
        text: As it came, whitespace and stop string included.
        tokens: Tokens decoded for it, 0 if the server does not count them.
    """

    text: str
    tokens: int


class Server:
    """A connection to one model of a server; threads may share it.

    Faults that pass (a cut connection, silence for too long, status 408, 409, 429 and 5xx) are tried again with growing
    pauses, as are answers that make no sense; all others end in one line at once.

    Attributes:
        url: The address, without the key.
        model: The model's name at the server.
        chat: Whether it is sent chat messages.
        reported: What tells the model from others of its name, as far as the server reports any of it.
        context: The model's context in tokens, or None if the server does not report it.
        tokenizes: Whether the server tells the tokens of a text.
        llama_cpp: Whether it is llama.cpp's, whose paths beside OpenAI's differ from the others'.
    """

    def __init__(self, url: str, model: str, *, chat: bool, timeout: float) -> None:
        """Connect, and ask for one token, so that a wrong address, key or model is known at once.

        Args:
            url: The address; without a path, it gets "/v1".
            model: The model's name at the server.
            chat: Whether to send chat messages.
            timeout: Seconds without a byte of an answer before asking again; httpx has no limit for a whole answer.

        Raises:
            InputError: The server cannot be reached or does not accept the key, or it has no such model.
        """
        self.url, self.model, self.chat, self.timeout = url, model, chat, timeout
        base = url.rstrip("/")
        base = base if base.count("/") > 2 else f"{base}/v1"
        self._root = base.removesuffix("/v1")
        self._key = _key()
        self._again = ""  # Nothing has been answered yet
        limit = openai.Timeout(timeout, connect=min(timeout, 10.0))
        try:
            self._client = _Client(base_url=base, api_key=self._key, max_retries=_RETRIES, timeout=limit)
        except Exception as error:  # InvalidURL, a plain Exception of a package that openai does not name
            why = self._quoted(error)
            raise InputError(
                f"llm.server {url!r}: {why}; correct the address, or the proxy in the environment"
            ) from None
        entries = self._facts("/models", "data")
        models = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        self._listed = [str(entry.get("id")) for entry in models]
        entry = next((entry for entry in models if entry.get("id") == model), {})
        if not entry and any("max_model_len" in other or "meta" in other for other in models):
            raise self._no_such_model("it is not listed")  # SGLang and llama.cpp answer to any name
        self.llama_cpp = "meta" in entry
        self.context = self._context(entry)
        sent: str | list[dict[str, str]] = [{"role": "user", "content": "A"}] if chat else "A"
        body = {"messages" if chat else "prompt": sent, "model": model, "max_tokens": 1, "temperature": 0}
        probe = self._ask(self._path, body, _first_choice)[1]
        self.reported = {"name": model, "answers as": probe.get("model")}
        self.reported |= {key: entry[key] for key in ("root", "parent", "meta") if entry.get(key) is not None}
        self.tokenizes = bool(self._facts(f"{self._root}/tokenize", "tokens", self._tokenize_body(sent)))
        self._again = "; what it answered so far is in the cache, unless that is off: resume the run"

    def complete(self, body: dict[str, Any]) -> Answer:
        """The server's answer to a request of its completions or chat endpoint, without model.

        An empty text is asked for again; the third counts if the server says that the model ended one of them, which a
        model may do at once. Raises InputError if no try gave a usable answer.
        """
        reasons: list[object] = []  # Why each empty text ended

        def read(data: object) -> Answer:
            choice, whole = _first_choice(data)
            text = _text(choice, chat=self.chat)
            if not text:
                reasons.append(choice.get("finish_reason"))
                if len(reasons) < _LACKING or "stop" not in reasons:
                    raise Lacking(f"an empty text (finish_reason {reasons[-1]!r})")
            usage = whole.get("usage")
            tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
            return Answer(text, tokens if isinstance(tokens, int) else 0)

        return self._ask(self._path, {"model": self.model, **body}, read)

    def echo(self, text: str, top: int) -> dict[str, list[Any]]:
        """The log-probabilities of a text's tokens and of the likeliest tokens to come next.

        Args:
            text: A prompt with its completion.
            top: How many of the likeliest tokens to tell at every place.

        Returns:
            "token_logprobs" and "top_logprobs" of OpenAI's completions, whose last entries are those of the next token.

        Raises:
            Unanswered: The server has no log-probabilities of given texts.
        """

        def read(data: object) -> dict[str, list[Any]]:
            told = _first_choice(data)[0].get("logprobs")
            keys = ("token_logprobs", "top_logprobs")
            if not isinstance(told, dict) or not all(isinstance(told.get(key), list) for key in keys):
                raise Lacking("no log-probabilities")
            return {key: told[key] for key in keys}

        body = {"model": self.model, "prompt": text, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": top}
        return self._ask("/completions", body, read)

    def tokens(self, sent: str | list[dict[str, str]]) -> list[int]:
        """The token ids of a text, or of chat messages; only if the server `tokenizes`.

        llama.cpp is asked for those of the messages' texts alone, the others for those in the model's template.
        """

        def read(data: object) -> list[int]:
            ids = data.get("tokens") if isinstance(data, dict) else None
            if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
                raise Unusable("no tokens")
            return ids

        return self._ask(f"{self._root}/tokenize", self._tokenize_body(sent), read)

    @property
    def _path(self) -> str:
        return "/chat/completions" if self.chat else "/completions"

    def _tokenize_body(self, sent: str | list[dict[str, str]]) -> dict[str, Any]:
        if self.llama_cpp:
            text = sent if isinstance(sent, str) else "\n".join(turn["content"] for turn in sent)
            return {"content": text, "add_special": True}
        if isinstance(sent, str):
            return {"model": self.model, "prompt": sent}
        return {"model": self.model, "messages": sent}

    def _context(self, entry: dict[str, Any]) -> int | None:
        length = entry.get("max_model_len")  # vLLM and SGLang
        if self.llama_cpp:  # A slot has its share of the context, which may be far less than the model was trained with
            settings = self._facts(f"{self._root}/props", "default_generation_settings")
            length = settings.get("n_ctx") if isinstance(settings, dict) else None
        return length if isinstance(length, int) and length > 0 else None

    def _facts(self, path: str, key: str, body: dict[str, Any] | None = None) -> Any:
        """What a JSON object at a path that not every server has tells under a key; None if there is no such thing."""
        # Outside of /v1, a gateway may forbid everything, whatever the key.
        absent = _ABSENT if path.startswith("/") else (401, 403, *_ABSENT)
        client = self._client.with_options(max_retries=2)
        for _ in range(_GARBAGE):
            try:
                told = self._told(client, path, body)
            except openai.APIError as error:
                if isinstance(error, openai.APIStatusError) and error.status_code in absent:
                    return None
                raise self._named(error) from None
            except Unusable:
                continue
            if isinstance(told, dict) and key in told:
                return told[key]
        return None

    def _ask(self, path: str, body: dict[str, Any], read: Callable[[object], T]) -> T:
        """What `read` makes of the answer to a request. Raises Unanswered if it finds too many of them `Unusable`."""
        tries, lacking, problem = 0, 0, ""
        while lacking < _LACKING and tries - lacking < _GARBAGE:
            if tries:
                time.sleep(_PAUSE * 2 ** min(tries - 1, 4))
            tries += 1
            try:
                return read(self._told(self._client, path, body))
            except openai.APIError as error:
                # The error itself is not passed on: it holds the request, and what the server made of the key.
                raise self._named(error) from None
            except Unusable as error:
                lacking, problem = lacking + isinstance(error, Lacking), str(error)
        raise Unanswered(
            f"llm.server {self.url}: {tries} answers in a row made no sense, the last: {self._quoted(problem)}; "
            "see the server's log, or check that the address is that of a server with OpenAI's interface"
        )

    def _told(self, client: openai.OpenAI, path: str, body: dict[str, Any] | None) -> object:
        """The answer to a request. Raises Unusable if it is not JSON, and the client's APIError."""
        try:
            return client.get(path, cast_to=object) if body is None else client.post(path, cast_to=object, body=body)
        except UnicodeError as error:
            if isinstance(error, UnicodeDecodeError):
                raise Unusable("not JSON") from None
            # Nothing has been sent: the address has two dots in a row, or the text half a character.
            raise InputError(
                f"llm.server {self.url} cannot be asked ({self._quoted(error)}); correct the address or the text"
            ) from None
        except (ValueError, RecursionError):
            raise Unusable("not JSON") from None

    def _named(self, error: openai.APIError) -> InputError:
        """What went wrong, and what to do about it, in a line without the key."""
        where, again = f"llm.server {self.url}", self._again
        repeatedly = "repeatedly " if error.request.headers.get("x-stainless-retry-count", "0") != "0" else ""
        if isinstance(error, openai.APITimeoutError):
            advice = f"raise llm.timeout, lower llm.concurrency, or check the server{again}"
            return InputError(f"{where}: {repeatedly}no answer within {self.timeout:g} s; {advice}")
        if not isinstance(error, openai.APIStatusError):
            why = self._quoted(error.__cause__ or error)
            return InputError(f"{where}: no connection ({why}); start the server or correct the address{again}")
        status = error.status_code
        if status in (401, 403):  # What else the server says may repeat the key
            return InputError(
                f"{where} does not accept the key (status {status}); set the environment variable MRAG_RL_API_KEY, or "
                "OPENAI_API_KEY, to one that it does"
            )
        if status in (408, 409, 429) or status >= 500:
            path = error.request.url.path
            wait = _wait(error.response.headers.get("retry-after", ""))
            if wait > _LONGEST_WAIT:
                return InputError(
                    f"{where}: status {status} at {path}, to be tried again in {wait:.0f} s; do so{again}"
                )
            return InputError(f"{where}: {repeatedly}status {status} at {path}; check the server{again}")
        detail = self._quoted(_detail(error))
        if self._listed and self.model not in self._listed:
            return self._no_such_model(f"status {status}: {detail}")
        if status == 404:
            other = "false" if self.chat else "true"
            return InputError(
                f"{where} has no model {self.model!r}, or nothing at {self._path} (status 404: {detail}); check "
                f"llm.name and the address, or set llm.chat to {other}"
            )
        return Unanswered(
            f"{where} refuses a request for {self.model!r} (status {status}: {detail}); check the settings under llm"
        )

    def _no_such_model(self, why: str) -> InputError:
        names = ", ".join(map(self._quoted, self._listed[:8]))
        return InputError(f"llm.server {self.url} has no model {self.model!r} ({why}); set llm.name to one of {names}")

    def _quoted(self, told: object) -> str:
        """What the server told, in a line of at most 200 characters without the key."""
        text = str(told)
        if self._key != _NO_KEY:  # JSON and Python's notation may put backslashes before its characters
            text = re.sub(r"\\*".join(map(re.escape, self._key)), "***", text)
        return " ".join(text.split())[:200]  # Only now: a cut through the key would hide it from the search


def _key() -> str:
    for name in ("MRAG_RL_API_KEY", "OPENAI_API_KEY"):
        if key := os.environ.get(name, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise InputError(f"{name} contains characters that cannot be part of a key; set it again")
            return key
    return _NO_KEY


def _wait(said: str) -> float:
    """The seconds of a Retry-After header, which may be a number or a date; 0 for what is neither."""
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return 0.0
    return seconds if math.isfinite(seconds) else 0.0


def _first_choice(data: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first choice of an answer, and the whole answer."""
    if not isinstance(data, dict):
        raise Unusable("not a JSON object")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Unusable("no choices")
    return choices[0], data


def _text(choice: dict[str, Any], *, chat: bool) -> str:
    message = choice.get("message") if chat else choice
    text = message.get("content" if chat else "text", "") if isinstance(message, dict) else None
    if text is None and isinstance(message, dict):  # Some servers' word for an empty text
        text = ""
    if not isinstance(text, str):
        raise Unusable("no text")
    if text.strip() and not text.strip().strip("\ufffd"):
        raise Unusable("replacement characters alone")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Unusable("half a character, which cannot be stored")
    return text


def _detail(error: openai.APIStatusError) -> object:
    """What the server says of an error."""
    body = error.body
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    return body or error.message
