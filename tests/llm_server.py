"""A server with OpenAI's interface around a real language model, on the loopback device, which can misbehave."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import torch

from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.generation import Prompt
from mrag_rl.generation.decoding import Request
from mrag_rl.generation.server_llm import ServerLLM
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.models.bundled import NEWSROOM_LLM

MODEL = "the/bundled"
KEY = "sk-do-not-tell-4711"
LENGTH = 16
"""Tokens that tests let the model write."""


@cache
def bundled_llm() -> TransformersLLM:
    """The bundled model in float64, so that a batch's shape cannot change a text; loaded once."""
    llm = TransformersLLM.load(NEWSROOM_LLM)
    llm.model.double()
    return llm


def some_prompts(count: int) -> list[Prompt]:
    """Articles to summarize, each with another one's summary as a demonstration."""
    pairs = make_newsroom("summarization", seed=0, database=count + 1, train=1, dev=1, test=1).database
    return [Prompt("summarization", pair.source, ((other.source, other.target),)) for pair, other in pairwise(pairs)]


class Refusal(Exception):
    """A status other than 200, with a message, or another JSON object, and headers."""

    def __init__(self, status: int, said: str | dict[str, Any], **headers: str) -> None:
        super().__init__(said)
        self.status, self.headers = status, headers
        self.content = json.dumps({"error": {"message": said}} if isinstance(said, str) else said).encode()


class LLMServer(ThreadingHTTPServer):
    """The texts, tokens and log-probabilities of a `TransformersLLM` over HTTP, as vLLM has them.

    Attributes:
        key: What requests must be authorized by, or None.
        context: What the list of models tells of the context, or None.
        tokenizes: Whether there is a path for tokens.
        faults: Kinds of trouble, one of which every third request or so meets; never more than two in a row.
        rate: If set, every try meets trouble with this probability, drawn by itself, so that any number may follow.
        always: The trouble that every request for more than one token meets.
        slowness: Seconds that an answer in "slow" trouble takes longer.
        delay: Seconds that every completion takes longer.
        asked: How often each completion was answered, by the request's body as canonical JSON.
        most: The most requests that were in hand at a time.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, llm: TransformersLLM) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.llm = llm
        self.key: str | None = None
        self.context: int | None = 2048
        self.tokenizes = True
        self.faults: tuple[str, ...] = ()
        self.rate: float | None = None
        self.always: str | None = None
        self.slowness = 0.3
        self.delay = 0.0
        self.asked: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.troubled: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.most = self.in_hand = 0
        self.lock, self.model_lock = threading.Lock(), threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def completions(self) -> Counter[str]:
        """How often each prompt was answered, but for the single token that a connection begins with."""
        counts: Counter[str] = Counter()
        for request, count in self.asked.items():
            body = json.loads(request)
            if body["max_tokens"] > 1:
                counts[json.dumps([body.get("prompt", body.get("messages")), body.get("seed")])] += count
        return counts

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that are cut on purpose are no news."""

    def fault(self, body: str) -> str | None:
        """The trouble that this try meets: the same in every run, without `rate` the first or the first two."""
        if self.always is not None and '"max_tokens"' in body and '"max_tokens": 1,' not in body:
            return self.always
        with self.lock:
            self.tried[body] += 1
            if self.rate is not None:
                drawn = random.Random(f"{self.tried[body]} {body}")
                if drawn.random() >= self.rate:
                    return None
                self.troubled[body] += 1
                return drawn.choice(self.faults)
            tries = self.troubled[body]
            number = int.from_bytes(hashlib.sha256(body.encode()).digest()[:4], "little")
            if not self.faults or tries >= (0, 1, 2)[number % 3 if number % 10 < 6 else 0]:
                return None
            self.troubled[body] += 1
        return self.faults[(number // 10 + tries) % len(self.faults)]

    def models(self) -> dict[str, Any]:
        entry = {"id": MODEL, "object": "model", "created": time.time_ns(), "root": "bundled"}
        return {"data": [entry | ({"max_model_len": self.context} if self.context else {})]}

    def tokenize(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self.tokenizes:
            raise Refusal(404, "Not Found")
        ids = self.ids(body["prompt"] if "prompt" in body else self.chat_text(body["messages"]))
        return {"count": len(ids), "max_model_len": self.context, "tokens": ids}

    def complete(self, body: dict[str, Any], *, chat: bool) -> dict[str, Any]:
        if body["model"] != MODEL:
            raise Refusal(404, f"The model `{body['model']}` does not exist.")
        time.sleep(self.delay)
        prompt = self.chat_text(body["messages"]) if chat else body["prompt"]
        ids = self.ids(prompt)
        with self.model_lock:
            if body.get("echo"):
                return {"model": MODEL, "choices": [{"text": prompt, "logprobs": self.echo(ids, body["logprobs"])}]}
            ((first,),) = self.text_ids(ids, body)
        text = str(self.llm.tokenizer.decode(first, skip_special_tokens=True))
        ended = len(first) < body["max_tokens"] or bool(self.llm.decoder.stop_tokens[first[-1]])
        for stop in body.get("stop", ()):
            text = text.split(stop)[0]
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if ended else "length"}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        return {"model": MODEL, "choices": [choice], "usage": {"completion_tokens": len(first)}}

    def text_ids(self, ids: list[int], body: dict[str, Any]) -> list[list[list[int]]]:
        request = Request(ids, [body.get("seed", 0)])
        return [self.llm.decoder.decode([request], float(body["temperature"]), body["max_tokens"])]

    def echo(self, ids: list[int], top: int) -> dict[str, Any]:
        """Log-probabilities of the tokens and of the next one, which is the likeliest, as vLLM has them."""
        with torch.inference_mode():
            steps = self.llm.model(torch.tensor([ids])).logits[0].log_softmax(dim=-1)
        likeliest = steps.topk(top)
        tops = [
            {self.llm.tokenizer.decode([token]): value for token, value in zip(*row, strict=True)}
            for row in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
        ]
        values = [None, *(float(steps[i, token]) for i, token in enumerate(ids[1:])), float(steps[-1].max())]
        return {"token_logprobs": values, "top_logprobs": [None, *tops]}

    def ids(self, text: str) -> list[int]:
        chat = bool(self.llm.tokenizer.chat_template)
        ids: list[int] = self.llm.tokenizer(text, add_special_tokens=not chat, verbose=False)["input_ids"]
        return ids

    def chat_text(self, turns: list[dict[str, str]]) -> str:
        return str(self.llm.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


class _Handler(BaseHTTPRequestHandler):
    server: LLMServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *arguments: Any) -> None:
        """Nothing: a test's output is its own."""

    def do_GET(self) -> None:
        self.respond(None)

    def do_POST(self) -> None:
        self.respond(self.rfile.read(int(self.headers["Content-Length"])))

    def respond(self, sent: bytes | None) -> None:
        server = self.server
        with server.lock:
            server.in_hand += 1
            server.most = max(server.most, server.in_hand)
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
        try:
            body = json.loads(sent) if sent is not None else {}
            canonical = json.dumps(body, sort_keys=True)
            fault = server.fault(f"{self.path} {canonical}")
            if fault is not None and self.misbehave(fault):
                return
            answer = self.answer(body)
            if "completions" in self.path:
                with server.lock:
                    server.asked[canonical] += 1
            self.send(200, json.dumps(answer).encode())
        except Refusal as refusal:
            self.send(refusal.status, refusal.content, **refusal.headers)
        finally:
            with server.lock:
                server.in_hand -= 1

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        server, sent = self.server, self.headers.get("Authorization", "")
        if server.key is not None and sent != f"Bearer {server.key}":
            raise Refusal(401, f"Incorrect key provided: {sent}")
        if self.path == "/v1/models":
            return server.models()
        if self.path == "/tokenize":
            return server.tokenize(body)
        if self.path in ("/v1/completions", "/v1/chat/completions"):
            return server.complete(body, chat="chat" in self.path)
        raise Refusal(404, f"nothing at {self.path}")

    def misbehave(self, fault: str) -> bool:
        """Meet the request with trouble; whether that is all that it gets."""
        if fault == "slow":
            time.sleep(self.server.slowness)
            return False
        if fault == "cut":
            self.close_connection = True
            self.connection.close()
        elif fault == "half":
            self.close_connection = True
            self.wfile.write(
                b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"choices"'
            )
            self.wfile.flush()
        elif fault.isdigit():
            self.send(int(fault), b'{"error": {"message": "trouble"}}', **{"Retry-After": "0.05"})
        else:
            self.send(200, fault.encode())
        return True

    def send(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def connect(server: LLMServer, **settings: Any) -> ServerLLM:
    """A connection to the server's model."""
    return ServerLLM.connect(server.url, MODEL, **settings)


@contextmanager
def serving(llm: TransformersLLM) -> Iterator[LLMServer]:
    """The server, while the block lasts."""
    server = LLMServer(llm)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
