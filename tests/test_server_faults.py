"""A server that misbehaves: trouble that passes changes nothing, other trouble is named, and the key stays hidden."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import openai
import pytest

from mrag_rl.config import Config, config_to_yaml
from mrag_rl.errors import InputError
from mrag_rl.generation import CachedLLM, Prompt
from mrag_rl.generation import server as connection
from mrag_rl.generation.server_llm import ServerLLM
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.llm_config import LLMConfig
from tests.llm_server import KEY, LENGTH, MODEL, LLMServer, Refusal, _Handler, connect, some_prompts


def refuse(status: int) -> dict:
    raise Refusal(status, f"the key {KEY} may not do this")


# -- trouble -----------------------------------------------------------------------------------------------------------

EMPTY = '{"choices": [{"text": "", "finish_reason": "stop"}]}'
GARBAGE = {
    "not JSON": "<html>",
    "not a JSON object": "[1, 2]",
    "no choices": '{"choices": []}',
    "no text": '{"choices": [{"text": 7, "finish_reason": "stop"}]}',
    "replacement characters": '{"choices": [{"text": "\\ufffd\\ufffd", "finish_reason": "stop"}]}',
    "half a character": '{"choices": [{"text": "\\ud83d", "finish_reason": "stop"}]}',
    "an empty text": '{"choices": [{"text": null, "finish_reason": "length"}]}',
}


def test_through_trouble_that_passes_the_texts_are_the_same_and_none_is_lost(
    local: TransformersLLM, server: LLMServer
) -> None:
    prompts = some_prompts(24)
    server.faults = ("cut", "429", "500", "slow", "half", "409", EMPTY, *GARBAGE.values())
    llm = connect(server)
    texts = llm.generate(prompts, max_new_tokens=LENGTH)
    assert sum(server.troubled.values()) > 0.3 * len(prompts)
    server.faults = ()
    assert texts == local.generate(prompts, max_new_tokens=LENGTH)
    assert llm.usage.prompts == 24 and set(server.completions().values()) == {1}
    assert llm.fingerprint == connect(server).fingerprint


def test_trouble_that_strikes_by_chance_changes_nothing_and_neither_do_texts_that_are_rightly_empty(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some_empty(body: dict, *, chat: bool) -> dict:
        number = int(body["prompt"].split()[-2]) if body["max_tokens"] > 1 else 1
        return {"choices": [{"text": f"text {number}" if number % 5 else "", "finish_reason": "stop"}]}

    prompts = [Prompt("summarization", f"article {number}") for number in range(100)]
    server.complete = some_empty  # type: ignore[method-assign]
    texts = connect(server).generate(prompts, max_new_tokens=LENGTH)
    assert texts == [[f"text {number}" if number % 5 else ""] for number in range(100)]
    monkeypatch.setattr(connection, "_PAUSE", 0.001)
    monkeypatch.setattr(openai.OpenAI, "_calculate_retry_timeout", lambda *_: 0.001)
    server.faults, server.rate = ("cut", "429", "500", "slow", "half", "409", EMPTY, *GARBAGE.values()), 0.3
    server.tried.clear()
    server.slowness = 0.01
    llm = connect(server)
    assert llm.generate(prompts, max_new_tokens=LENGTH) == texts
    assert 0.2 < server.troubled.total() / server.tried.total() < 0.4
    assert llm.fingerprint == connect(server).fingerprint


def test_neither_an_empty_text_uses_up_the_tries_for_broken_answers_nor_they_its_own(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = connect(server)
    monkeypatch.setattr(connection, "_PAUSE", 0.001)
    bad, cut = GARBAGE["no choices"], '{"choices": [{"te'
    for answers, last in (((EMPTY, cut, EMPTY, bad, bad), EMPTY), ((EMPTY, cut, bad, cut, EMPTY, bad, bad), cut)):
        following = iter((*answers, last))
        monkeypatch.setattr(server, "fault", lambda body, following=following: next(following))
        if last == EMPTY:
            assert llm.generate(some_prompts(1), max_new_tokens=LENGTH) == [[""]]
        else:
            with pytest.raises(InputError, match="8 answers in a row made no sense, the last: not JSON"):
                llm.generate(some_prompts(1), max_new_tokens=LENGTH)
        assert next(following, None) is None


def test_a_500_where_tokens_are_asked_for_does_not_pass_for_a_server_that_does_not_count_them(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint, statuses = connect(server).fingerprint, iter((500, 500))
    tokenize = server.tokenize
    monkeypatch.setattr(server, "tokenize", lambda body: refuse(s) if (s := next(statuses, None)) else tokenize(body))
    assert connect(server).fingerprint == fingerprint
    assert next(statuses, None) is None
    monkeypatch.setattr(server, "tokenize", lambda body: refuse(500))
    with pytest.raises(InputError, match="repeatedly status 500 at /tokenize; check the server"):
        connect(server)


@pytest.mark.parametrize("problem", GARBAGE)
def test_answers_that_never_make_sense_are_named(
    problem: str, server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PAUSE", 0.001)
    llm = connect(server)
    server.always, tries = GARBAGE[problem], 3 if problem == "an empty text" else 6
    with pytest.raises(
        InputError, match=rf"{tries} answers in a row made no sense, the last: {problem}.*see the server's log"
    ):
        llm.generate(some_prompts(1), max_new_tokens=LENGTH)


def test_an_empty_text_counts_if_it_stays_and_the_model_ended_it(server: LLMServer) -> None:
    llm = connect(server)
    server.always = EMPTY
    before = len(server.headers)
    assert llm.generate(some_prompts(1), max_new_tokens=LENGTH) == [[""]]
    assert len(server.headers) == before + 3


@pytest.mark.parametrize(
    ("fault", "message"),
    [("503", "repeatedly status 503"), ("cut", "no connection"), ("slow", "repeatedly no answer within 3 s")],
)
def test_trouble_that_does_not_pass_is_named(
    fault: str, message: str, server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_RETRIES", 1)
    llm = connect(server, timeout=3.0 if fault == "slow" else 60.0)
    server.always, server.slowness = fault, 4.0
    with pytest.raises(InputError, match=message):
        llm.generate(some_prompts(1), max_new_tokens=LENGTH)


def test_the_timeout_is_for_silence_not_for_a_whole_answer(server: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As gateways keep a connection open while the model writes, by a blank now and then."""

    def drip(handler: _Handler, fault: str) -> bool:
        content = GARBAGE["no text"].replace("7", '"late"').encode()
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        handler.wfile.write(b"Content-Length: %d\r\n\r\n" % (len(content) + 4))
        for part in (b" ", b" ", b" ", b" ", content):
            handler.wfile.write(part)
            handler.wfile.flush()
            time.sleep(0.3)
        return True

    llm = connect(server, timeout=0.9)
    monkeypatch.setattr(_Handler, "misbehave", drip)
    server.always = "drip"
    begun, before = time.perf_counter(), len(server.headers)
    assert llm.generate(some_prompts(1), max_new_tokens=LENGTH) == [["late"]]
    assert time.perf_counter() - begun > 0.9 and len(server.headers) == before + 1


@pytest.mark.parametrize("wait", ["600", "600.2", lambda: formatdate(time.time() + 600, usegmt=True)])
def test_a_longer_wait_than_the_client_has_patience_for_is_told(
    wait: str | Callable[[], str], server: LLMServer
) -> None:
    def busy(*_: object, **__: object) -> dict:
        raise Refusal(429, "busy", **{"Retry-After": wait if isinstance(wait, str) else wait()})

    llm = connect(server)
    server.complete = busy  # type: ignore[method-assign]
    before = len(server.headers)
    message = r"status 429 at /v1/completions, to be tried again in (600|59\d) s.*resume the run"
    with pytest.raises(InputError, match=message):
        llm.generate(some_prompts(1), max_new_tokens=LENGTH)
    assert len(server.headers) == before + 1


@pytest.mark.parametrize("retries", [0, 1])
def test_only_what_was_repeated_is_called_so(retries: int, server: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai.OpenAI, "_calculate_retry_timeout", lambda *_: 0.001)
    tries = iter(range(retries + 1))

    def failing(*_: object, **__: object) -> dict:
        raise Refusal(500, "no", **{"x-should-retry": str(next(tries) < retries).lower(), "Retry-After": "soon"})

    llm = connect(server)
    server.complete = failing  # type: ignore[method-assign]
    before = len(server.headers)
    expected = "repeatedly status 500 at" if retries else ": status 500 at"
    with pytest.raises(InputError, match=f"{expected} /v1/completions; check the server"):
        llm.generate(some_prompts(1), max_new_tokens=LENGTH)
    assert len(server.headers) == before + 1 + retries


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/v1\n", "http://☃..x", "http://☃.x", "http://a..b", f"http://{'a' * 64}.b"]
)
def test_an_address_that_nothing_can_be_sent_to_is_named_at_once(url: str) -> None:
    with pytest.raises(InputError, match=r"^llm\.server .*correct the address") as error:
        ServerLLM.connect(url, MODEL)
    assert "\n" not in str(error.value) and "answers" not in str(error.value)


def test_an_answer_nested_too_deep_to_be_read_makes_no_sense(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PAUSE", 0.001)
    llm = connect(server)
    server.always = "[" * 200_000
    with pytest.raises(InputError, match="6 answers in a row made no sense, the last: not JSON"):
        llm.generate(some_prompts(1), max_new_tokens=LENGTH)
    monkeypatch.setattr(server, "fault", lambda body: server.always if "/tokenize" in body else None)
    assert not connect(server).server.tokenizes


def test_nothing_is_resumed_before_there_is_a_run() -> None:
    with pytest.raises(InputError, match=r"start the server or correct the address$"):
        ServerLLM.connect("http://127.0.0.1:9", MODEL)


def test_a_wrong_address_model_or_interface_ends_at_once_in_one_line(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.perf_counter()
    for url, model, chat, message in (
        (server.url, "another", False, r"has no model 'another' .*set llm\.name to one of the/bundled"),
        (f"{server.url}/api", MODEL, False, r"nothing at /completions.*check llm\.name and the address"),
        ("http://127.0.0.1:9", MODEL, False, r"no connection \(.*refused.*start the server or correct the address"),
        ("http://no-such-host.invalid", MODEL, False, "no connection"),
    ):
        with pytest.raises(InputError, match=message) as error:
            ServerLLM.connect(url, model, chat=chat)
        assert "\n" not in str(error.value)
    assert time.perf_counter() - begun < 20
    monkeypatch.setattr(connection, "_PAUSE", 0.001)
    monkeypatch.setattr(server, "models", lambda: "<html>hello</html>")
    monkeypatch.setattr(server, "complete", lambda body, chat: "<html>hello</html>")
    with pytest.raises(InputError, match=r"not a JSON object.*OpenAI's interface"):
        connect(server)


def test_a_model_that_is_not_listed_is_refused_only_by_servers_that_list_what_they_serve(server: LLMServer) -> None:
    """llama.cpp and SGLang would answer to any name."""
    listed = server.models()["data"][0]
    with pytest.raises(
        InputError, match=r"has no model 'the/bundled' \(it is not listed\); set llm\.name to one of other"
    ):
        server.models = lambda: {"data": [listed | {"id": "other"}]}  # type: ignore[method-assign]
        connect(server)
    server.models = lambda: {"data": [{"id": "some model in the hub's cache"}]}  # type: ignore[method-assign]
    assert connect(server, context=2048).context == 2048


def test_no_more_requests_than_allowed_are_under_way(server: LLMServer) -> None:
    llm = connect(server, concurrency=3)
    server.delay, server.most = 0.05, 0
    llm.generate(some_prompts(9), max_new_tokens=2)
    assert server.most == 3


# -- the key -----------------------------------------------------------------------------------------------------------


def test_the_key_reaches_the_server_and_nothing_else(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    server.key = KEY
    told = []
    with caplog.at_level(logging.DEBUG):
        for wrong in ("", "sk-wrong-0815"):
            monkeypatch.setenv("MRAG_RL_API_KEY", wrong)
            with pytest.raises(InputError, match=r"does not accept the key \(status 401\).*MRAG_RL_API_KEY") as error:
                connect(server)
            told += traceback.format_exception(error.value)
        monkeypatch.setenv("MRAG_RL_API_KEY", "")
        monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
        llm = connect(server)
        assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
        with CachedLLM(llm, tmp_path / "cache.sqlite") as cached:
            cached.generate(some_prompts(2), max_new_tokens=2)
        for answer in (400, 500):
            monkeypatch.setattr(server, "complete", lambda *_, status=answer, **__: refuse(status))
            monkeypatch.setattr(connection, "_RETRIES", 1)
            with pytest.raises(InputError) as error:
                connect(server)
            told += traceback.format_exception(error.value)
    assert any("***" in line for line in told)
    told += [llm.fingerprint, repr(llm), repr(llm.server), repr(llm.server.reported), caplog.text]
    told += [repr(record.__dict__) for record in caplog.records]
    told.append(config_to_yaml(Config("a", llm=LLMConfig(name=MODEL, server=server.url))))
    assert caplog.records and not [text for text in told if KEY in text or "sk-wrong-0815" in text]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_nothing_that_the_environment_holds_for_openai_is_sent(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRAG_RL_API_KEY", KEY)
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://secret.invalid")
    custom = "authorization: Bearer secret\nX-Team: secret\nUser-Agent: secret\nOpenAI-Organization: secret"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", custom)
    connect(server).generate(some_prompts(1), max_new_tokens=2)
    assert len(server.headers) >= 4  # The models, the first token, the tokens, a text
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert not [name for headers in server.headers for name in headers if name in ("x-team", "openai-organization")]
    assert not [value for headers in server.headers for value in headers.values() if "secret" in value]


QUOTED = 'sk-"do\\not/tell"-4711'


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (KEY, lambda key: {"error": {"message": "x" * 190 + key}}),
        (KEY, lambda key: {"detail": {"headers": {"authorization": f"Bearer {key}"}}}),
        (QUOTED, lambda key: {"detail": {"headers": {"authorization": f"Bearer {key}"}}}),
        (QUOTED, lambda key: {"error": {"message": json.dumps({"authorization": key}).replace("/", r"\/")}}),
        (QUOTED, lambda key: {"error": {"message": json.dumps([json.dumps(key)])}}),
    ],
)
def test_no_part_of_the_key_is_in_what_a_refusal_repeats(
    key: str, said: Callable[[str], dict], server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRAG_RL_API_KEY", key)

    def refusing(body: dict, *, chat: bool) -> dict:
        raise Refusal(400, said(key))

    server.complete = refusing  # type: ignore[method-assign]
    with pytest.raises(InputError, match="status 400") as error:
        connect(server)
    assert "sk-" not in str(error.value) and "4711" not in str(error.value) and "\n" not in str(error.value)


def test_the_key_is_in_no_list_of_models_and_not_among_the_reasons_of_answers_without_sense(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRAG_RL_API_KEY", QUOTED)
    monkeypatch.setattr(connection, "_PAUSE", 0.001)
    server.always = json.dumps({"choices": [{"text": "", "finish_reason": QUOTED}]})
    with pytest.raises(InputError, match=r"an empty text.*\*\*\*") as first:
        connect(server).generate(some_prompts(1), max_new_tokens=LENGTH)
    server.models = lambda: {"data": [{"id": f"model of {QUOTED}", "meta": {}}]}  # type: ignore[method-assign]
    with pytest.raises(InputError, match=r"set llm\.name to one of model of \*\*\*") as second:
        connect(server)
    assert not [error for error in (first, second) if "tell" in str(error.value)]


def test_a_key_that_cannot_be_sent_is_refused_unseen(server: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRAG_RL_API_KEY", "sk-schlüssel")
    with pytest.raises(InputError, match="MRAG_RL_API_KEY contains characters that cannot be part of a key") as error:
        connect(server)
    assert "schl" not in str(error.value)
