"""A language model at a server: the texts of one on this machine, and nothing is asked twice."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import train
from mrag_rl.config import Config, config_sha256, validate_config
from mrag_rl.errors import InputError
from mrag_rl.generation import CachedLLM, Prompt
from mrag_rl.generation.parallel import by_row, in_parallel
from mrag_rl.generation.server_llm import ServerLLM
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.llm_config import LLMConfig
from mrag_rl.models.bundled import NEWSROOM_LLM
from tests.llm_server import KEY, LENGTH, MODEL, LLMServer, Refusal, connect, serving, some_prompts
from tests.test_likelihood import CHAT

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> TransformersLLM:
    """The bundled model with a chat template."""
    folder = tmp_path_factory.mktemp("llm") / "chat"
    shutil.copytree(NEWSROOM_LLM, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": CHAT}))
    llm = TransformersLLM.load(folder)
    llm.model.double()
    return llm


# -- what it writes ----------------------------------------------------------------------------------------------------


def test_greedy_texts_are_those_of_the_model_on_this_machine(local: TransformersLLM, server: LLMServer) -> None:
    prompts = some_prompts(6)
    llm = connect(server, concurrency=4)
    texts = llm.generate([*prompts, prompts[0]], samples=2, max_new_tokens=LENGTH)
    assert texts == local.generate([*prompts, prompts[0]], samples=2, max_new_tokens=LENGTH)
    assert set(server.completions().values()) == {1} and len(server.completions()) == 6
    assert (llm.usage.prompts, llm.usage.batches) == (7, 6) and 6 < llm.usage.generated_tokens <= 6 * LENGTH


def test_stop_strings_end_a_text_and_are_not_part_of_it(local: TransformersLLM, server: LLMServer) -> None:
    (whole,) = connect(server).generate(some_prompts(1), max_new_tokens=LENGTH)[0]
    word = whole.split()[2]
    stopped = connect(server, stop=[word])
    assert stopped.generate(some_prompts(1), max_new_tokens=LENGTH) == [[whole.split(word)[0].strip()]]
    assert stopped.fingerprint != connect(server).fingerprint


def test_a_sample_depends_on_its_seed_and_neither_on_the_others_nor_on_the_call(server: LLMServer) -> None:
    prompts = some_prompts(3)
    llm = connect(server)
    many = llm.generate(prompts, samples=3, temperature=3.0, seeds=[1, 2, 3], max_new_tokens=LENGTH)
    assert [row[:1] for row in many] == llm.generate(prompts, temperature=3.0, seeds=[1, 2, 3], max_new_tokens=LENGTH)
    assert llm.generate(prompts[1:2], samples=2, temperature=3.0, seeds=2, max_new_tokens=LENGTH) == [many[1][:2]]
    rest = llm.generate(prompts[1:2], samples=2, first=1, temperature=3.0, seeds=2, max_new_tokens=LENGTH)
    assert rest == [many[1][1:]]
    assert len({text for row in many for text in row}) == 9
    assert llm.generate(prompts[1:2], temperature=3.0, seeds=9, max_new_tokens=LENGTH) != [many[1][:1]]
    seeds = [json.loads(request)["seed"] for request in server.asked if '"seed"' in request]
    assert all(0 <= seed < 2**31 - 1 for seed in seeds)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_here_and_there_at_least_one_text_of_one_token_is_asked_for(
    temperature: float, local: TransformersLLM, server: LLMServer, tmp_path: Path
) -> None:
    for llm in (local, connect(server), CachedLLM(local, tmp_path / "cache.sqlite")):
        for name in ("samples", "max_new_tokens"):
            with pytest.raises(ValueError, match=f"^{name} is 0; give at least 1$"):
                settings: dict[str, Any] = {"max_new_tokens": 2, "temperature": temperature, name: 0}
                llm.generate(some_prompts(1), **settings)


def test_a_seed_may_be_a_number_of_numpys(local: TransformersLLM, server: LLMServer) -> None:
    for llm in (local, connect(server)):
        texts = llm.generate(some_prompts(2), temperature=3.0, seeds=3, max_new_tokens=4)
        seed: Any = np.int64(3)
        assert llm.generate(some_prompts(2), temperature=3.0, seeds=seed, max_new_tokens=4) == texts


def test_chat_messages_are_put_into_the_servers_template(chatting: TransformersLLM) -> None:
    prompts = some_prompts(4)
    with serving(chatting) as server:
        llm = connect(server, chat=True)
        assert llm.generate(prompts, max_new_tokens=LENGTH) == chatting.generate(prompts, max_new_tokens=LENGTH)
        assert "Summarize the article" in llm.render(prompts[0])
        with pytest.raises(InputError, match=r"log-probabilities.*chat messages.*refinement\.state candidates"):
            llm.log_probabilities(prompts[:1], [["x"]])
        tight = connect(server, chat=True, context=220)
        long = Prompt("summarization", " ".join(prompt.query for prompt in prompts))
        assert tight.fits([long, prompts[0]], LENGTH) == [False, True]
        tight.generate([long], max_new_tokens=LENGTH)
        turns = max((json.loads(request) for request in server.asked), key=lambda body: body["max_tokens"])["messages"]
        assert len(server.ids(server.chat_text(turns))) <= 220


def test_a_server_that_tells_the_tokens_of_texts_alone_is_not_asked_for_those_of_messages(
    chatting: TransformersLLM,
) -> None:
    long = Prompt("summarization", " ".join(prompt.query for prompt in some_prompts(12)))
    with serving(chatting) as server:
        tokenize = server.tokenize

        def texts_alone(body: dict) -> dict:
            if "prompt" not in body:
                raise Refusal(422, "Field required: prompt")
            return tokenize(body)

        server.tokenize = texts_alone  # type: ignore[method-assign]
        llm = connect(server, chat=True, context=900)
        assert llm.fits([long, some_prompts(1)[0]], LENGTH) == [False, True]
        assert llm.generate([long], max_new_tokens=LENGTH) != [[""]]
        assert not llm.server.tokenizes and connect(server).server.tokenizes


def test_prompts_that_outgrow_the_context_are_shortened_as_on_this_machine(
    local: TransformersLLM, server: LLMServer
) -> None:
    prompts = some_prompts(12)
    long = Prompt("summarization", " ".join(prompt.query for prompt in prompts * 8), prompts[0].demonstrations)
    assert local.fits([long, prompts[0]], LENGTH) == [False, True]
    llm = connect(server)
    assert llm.fits([long, prompts[0]], LENGTH) == [False, True]
    assert llm.generate([long], max_new_tokens=LENGTH) == local.generate([long], max_new_tokens=LENGTH)
    server.tokenizes = False
    guessing = connect(server)
    assert guessing.fits([long, prompts[0]], LENGTH) == [False, True] and guessing.fingerprint != llm.fingerprint
    server.asked.clear()
    guessing.generate([long], max_new_tokens=LENGTH)
    (request,) = server.completions()
    assert len(server.ids(json.loads(request)[0])) <= 2048 - LENGTH
    with pytest.raises(InputError, match="leaves no room for 16 new ones"):
        connect(server, context=30).generate([prompts[0]], max_new_tokens=LENGTH)


def test_a_context_that_the_server_does_not_report_has_to_be_given(server: LLMServer) -> None:
    server.context = None
    with pytest.raises(InputError, match=r"does not report.*set llm\.context"):
        connect(server)
    assert connect(server, context=512).context == 512
    server.context = 2048
    assert connect(server, context=4096).context == 2048


def test_log_probabilities_are_those_of_the_model_on_this_machine(local: TransformersLLM, server: LLMServer) -> None:
    prompts = some_prompts(3)
    texts = [[text, "ü", ""] for (text,) in local.generate(prompts, max_new_tokens=64)]
    llm = connect(server)
    found, expected = (model.log_probabilities(prompts, texts, max_new_tokens=64) for model in (llm, local))
    assert np.allclose([row[0] for row in found], [row[0] for row in expected], atol=1e-3)
    # An end that is not among the 20 likeliest tokens is estimated.
    assert [np.argmax(row) for row in found] == [0, 0, 0]
    assert np.allclose(found, expected, atol=3)
    assert llm.usage.prompts == 3
    server.tokenizes = False
    with pytest.raises(InputError, match=r"tell a text's tokens.*m_rag_likely_r"):
        connect(server).log_probabilities(prompts, texts)


def test_a_server_without_log_probabilities_is_named_with_what_needs_them(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "echo", lambda ids, top: None)
    with pytest.raises(InputError, match=r"gives no log-probabilities.* 3 answers.*refinement\.state candidates"):
        connect(server).log_probabilities(some_prompts(1), [["x"]])


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_log_probabilities_that_are_no_finite_numbers_are_named_and_not_stored(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: float
) -> None:
    echo = server.echo
    monkeypatch.setattr(server, "echo", lambda ids, top: echo(ids, top) | {"token_logprobs": [value] * (len(ids) + 1)})
    with CachedLLM(connect(server), tmp_path / "cache.sqlite") as cached:
        with pytest.raises(InputError, match=r"gives no log-probabilities .*no finite numbers"):
            cached.log_probabilities(some_prompts(1), [["x"]])


def test_an_end_that_the_server_holds_for_impossible_has_a_score(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = server.echo

    def without_end(ids: list[int], top: int) -> dict:
        told = echo(ids, top)
        return told | {"top_logprobs": [*told["top_logprobs"][:-1], {"a": -0.1, "\n": -9999.0}]}

    monkeypatch.setattr(server, "echo", without_end)
    ((score,),) = connect(server).log_probabilities(some_prompts(1), [["x"]])
    assert -9999 < score < -1000


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"server": "http://a"}, r"llm\.name is bundled.*set llm\.name to its name there"),
        (
            {"server": "http://a", "name": "m", "dtype": "bfloat16"},
            r"llm\.dtype is set, but the server at llm\.server decides it",
        ),
        ({"server": "http://a", "name": "m", "quantization": "nf4"}, r"llm\.quantization is set"),
        ({"server": "http://a", "name": "m", "device": "cuda"}, r"llm\.device is set"),
        ({"server": "http://a", "name": "m", "revision": "main"}, r"llm\.revision is set"),
        ({"chat": True}, r"llm\.chat is set, but llm\.server is not"),
        ({"server": "localhost:8000", "name": "m"}, r"give an address such as http://127\.0\.0\.1:8000"),
        ({"server": "http://a:port", "name": "m"}, "give an address"),
        ({"server": "http://127.0.0.1:1/v1\n", "name": "m"}, r"llm\.server is 'http://127\.0\.0\.1:1/v1\\n'"),
        ({"server": "http://a/\0", "name": "m"}, "give an address"),
        ({"server": "http://☃..x", "name": "m"}, "give an address"),
        ({"server": "http://a..b", "name": "m"}, "give an address"),
        ({"server": f"http://{'a' * 64}.b", "name": "m"}, "give an address"),
        ({"server": f"http://user:{KEY}@a", "name": "m"}, "holds more than an address"),
        ({"server": f"http://user:{KEY}@a:port", "name": "m"}, "holds more than an address"),
        ({"server": f"http://a/v1?key={KEY}", "name": "m"}, "holds more than an address"),
        ({"server": "http://a", "name": "m", "concurrency": 0}, r"llm\.concurrency is 0"),
        ({"server": "http://a", "name": "m", "timeout": 0.0}, r"llm\.timeout is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_line(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        validate_config(Config("a", llm=LLMConfig(**settings)))
    assert "\n" not in str(error.value) and KEY not in str(error.value)


def test_a_run_may_go_on_at_another_address_but_not_with_another_model() -> None:
    config = Config("a", llm=LLMConfig(name="m", server="http://a"))
    validate_config(config)

    def hash_with(**changes) -> str:
        return config_sha256(dataclasses.replace(config, llm=dataclasses.replace(config.llm, **changes)))

    same = config_sha256(config)
    assert {hash_with(server="http://b:1"), hash_with(concurrency=1), hash_with(timeout=9.0)} == {same}
    assert len({same, hash_with(name="n"), hash_with(chat=True), hash_with(context=9), hash_with(server=None)}) == 5


# -- nothing is asked twice --------------------------------------------------------------------------------------------


def test_a_call_that_fails_at_its_last_prompt_keeps_all_the_others(server: LLMServer, tmp_path: Path) -> None:
    prompts = some_prompts(8)
    hopeless = Prompt("summarization", "x", (("y", "never-ending " * 900),))
    with CachedLLM(connect(server), tmp_path / "cache.sqlite") as cached:
        with pytest.raises(InputError, match="leaves no room"):
            cached.generate([*prompts, hopeless], max_new_tokens=LENGTH)
    server.asked.clear()
    complete = server.complete

    def failing(body: dict, *, chat: bool) -> dict:
        if prompts[-1].query in body.get("prompt", "").split("\n\n")[-1]:
            raise Refusal(400, "not this one")
        return complete(body, chat=chat)

    server.complete = failing  # type: ignore[method-assign]
    with CachedLLM(connect(server, concurrency=1), tmp_path / "cache.sqlite") as cached:
        with pytest.raises(InputError, match="refuses a request"):
            cached.generate(prompts, max_new_tokens=LENGTH)
    server.complete = complete  # type: ignore[method-assign]
    with CachedLLM(connect(server), tmp_path / "cache.sqlite") as cached:
        cached.generate(prompts, max_new_tokens=LENGTH)
        cached.generate(prompts, max_new_tokens=LENGTH)
    assert set(server.completions().values()) == {1} and len(server.completions()) == 8


def test_killed_and_resumed_nothing_that_had_come_is_asked_again(
    local: TransformersLLM, server: LLMServer, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "from mrag_rl.generation.cache import CachedLLM\n"
        "from mrag_rl.generation.server_llm import ServerLLM\n"
        "from tests.llm_server import LENGTH, MODEL, some_prompts\n"
        "llm = CachedLLM(ServerLLM.connect(sys.argv[1], MODEL, concurrency=2), sys.argv[2])\n"
        "llm.generate(some_prompts(24), max_new_tokens=LENGTH)\n"
    )
    cache = tmp_path / "cache.sqlite"
    process = subprocess.Popen([sys.executable, "-c", code, server.url, str(cache)], cwd=ROOT)
    while len(server.completions()) < 10:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(server.completions()) < 24
    with CachedLLM(connect(server), cache) as cached:
        texts = cached.generate(some_prompts(24), max_new_tokens=LENGTH)
    assert texts == local.generate(some_prompts(24), max_new_tokens=LENGTH)
    twice = [request for request, count in server.completions().items() if count > 1]
    assert len(server.completions()) == 24
    assert len(twice) <= 4  # Those that were being answered, or whose answers had come but were not yet stored


@pytest.mark.slow
def test_a_run_that_is_killed_and_resumed_asks_nothing_twice_and_has_the_results_of_one_without_trouble(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training through a server that also has its troubles; the run is killed while it trains."""
    monkeypatch.setenv("MRAG_RL_API_KEY", KEY)
    llm = TransformersLLM.load(workplace / "llm")
    run = tmp_path / "small"
    with serving(llm) as server:
        server.context, server.faults = 512, ("cut", "429", "500", "slow", "<html>")
        arguments = ["--config", str(workplace / "small.yaml"), "--llm.name", MODEL]
        arguments += ["--llm.server", server.url, "--llm.concurrency", "4"]
        command = [sys.executable, str(ROOT / "train.py"), *arguments, "--runs", str(tmp_path)]
        process = subprocess.Popen(command, cwd=workplace, stderr=subprocess.PIPE)
        while len(server.completions()) < 40:
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (run / "results.json").exists()
        assert train.main(["--resume", str(run)]) == 0
        twice = {json.loads(request)[0] for request, count in server.completions().items() if count > 1}
        assert sum(server.troubled.values()) > 0.3 * len(server.completions())
        server.faults = ()
        assert train.main([*arguments, "--runs", str(tmp_path / "untroubled")]) == 0
    results = json.loads((run / "results.json").read_text())
    assert set(results["systems"]) == {"naive", "m_rag"}
    expected = json.loads((tmp_path / "untroubled" / "small" / "results.json").read_text())
    assert (results["systems"], results["contrasts"]) == (expected["systems"], expected["contrasts"])
    assert len(twice) <= 8  # Prompts that were being answered, or whose answers had come but were not yet stored
    assert not [path for path in run.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


# -- a real server of others' ------------------------------------------------------------------------------------------


def test_transformers_serve_gives_the_texts_of_the_model_on_this_machine(
    local: TransformersLLM, tmp_path: Path
) -> None:
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason="pip install 'transformers[serving]'")
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve"]
    command += [str(NEWSROOM_LLM), "--host", "127.0.0.1", "--port", "0", "--device", "cpu", "--dtype", "float32"]
    (tmp_path / "hub").mkdir()
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "hub"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(found[1] for line in lines if (found := re.search(r"running on (http://\S+)", line)))
        llm = ServerLLM.connect(url, str(NEWSROOM_LLM), context=2048, concurrency=4)
        prompts = some_prompts(6)
        assert llm.generate(prompts, max_new_tokens=LENGTH) == local.generate(prompts, max_new_tokens=LENGTH)
        with pytest.raises(InputError, match="gives no log-probabilities of given texts"):
            llm.log_probabilities(prompts[:1], [["x"]])
        with pytest.raises(InputError, match="another"):
            ServerLLM.connect(url, "another", context=2048)
    finally:
        process.kill()
        process.communicate()


# -- jobs in parallel --------------------------------------------------------------------------------------------------


def test_rows_come_when_their_last_job_is_done_and_an_error_after_what_was_under_way() -> None:
    def after(seconds: float, value: int) -> int:
        time.sleep(seconds)
        return value

    def fail() -> int:
        raise KeyError(after(0.05, 0))

    jobs = {"a": lambda: 1, "c": lambda: 3}
    parts = list(by_row([["a"], ["c", "a", "c"], []], jobs, 2))
    assert {row: values for part in parts for row, values in part.items()} == {0: [1], 1: [3, 1, 3], 2: []}
    many: dict[str, Callable[[], int]] = {"b": fail, "slow": partial(after, 0.2, 5)}
    many |= {f"later {i}": partial(after, 0.02, 4) for i in range(50)}
    seen: dict[str, int] = {}
    with pytest.raises(KeyError):
        for part in in_parallel(many, 2):
            seen |= part
    assert seen["slow"] == 5 and len(seen) < 10
    assert list(in_parallel({}, 4)) == []
