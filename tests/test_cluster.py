"""Models spread over a Ray cluster answer as those of one process do, whoever of the workers dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import train
from mrag_rl import __version__
from mrag_rl.cluster import Cluster, ClusterEncoder, ClusterLLM, connected
from mrag_rl.config import load_config
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import Prompt
from mrag_rl.runs.models import RunModels, models_at
from tests.cluster_models import Models, missing_module, process_id, refusing, slowly
from tests.tiny import encoder, outcome, tiny_world

PROMPTS = [
    Prompt("summarization", pair.source, ((pair.source[::-1], pair.target),)) for pair in tiny_world().splits.train
]
HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    before = os.environ.pop("RAY_ADDRESS", None)
    assert before is None
    with connected("auto", 2) as found:
        yield found


def test_texts_scores_and_vectors_are_those_of_one_process(cluster: Cluster, tmp_path: Path) -> None:
    workers = cluster.start(lambda: Models(tmp_path))
    local, spread = Models(tmp_path).llm, ClusterLLM(workers, "llm")
    assert spread.fingerprint == local.fingerprint and spread.weight_bytes == local.weight_bytes
    asked: dict[str, Any] = {"samples": 3, "temperature": 0.7, "seeds": 5, "max_new_tokens": 12}
    texts = local.generate(PROMPTS, **asked)
    assert spread.generate(PROMPTS, **asked) == texts and len({tuple(row) for row in texts}) > 5
    assert spread.log_probabilities(PROMPTS, texts) == local.log_probabilities(PROMPTS, texts)
    assert replace(spread.usage, seconds=0) == replace(local.usage, seconds=0)
    assert spread.log_probabilities(PROMPTS[:2], [[], ["a"]])[0] == []
    assert spread.fits(PROMPTS, 9) == local.fits(PROMPTS, 9) and spread.render(PROMPTS[0]) == local.render(PROMPTS[0])
    assert spread.usage.batches > 10  # Several for each worker

    far, near = ClusterEncoder(workers, "encoder"), encoder()
    texts = [f"{prompt.query} {'and so on ' * (place % 150)}" for place, prompt in enumerate(PROMPTS * 8)]
    found, expected = far.encode(texts), near.encode(texts)
    for name in ("standard", "heads", "norms"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.encoder == expected.encoder == far.fingerprint and far.prefixes == near.prefixes
    assert np.array_equal(far.encode_standard([*texts[:9], ""]), near.encode_standard([*texts[:9], ""]))
    with pytest.raises(InputError, match="empty"):
        far.encode(["a", " "])


def test_jobs_of_a_worker_that_is_killed_are_done_again(cluster: Cluster, tmp_path: Path) -> None:
    workers = cluster.start(lambda: Models(tmp_path))
    first, second = workers.on_all(process_id, "number")
    assert first != second
    jobs = ((factor,) for factor in range(60))
    done = []
    for place, result in workers.results(slowly, "number", jobs, in_order=True):
        assert result == 7 * place
        done.append(place)
        if place in (5, 25):
            os.kill(first if place == 5 else second, signal.SIGKILL)
    assert done == [*range(60)]
    assert not {first, second} & {*workers.on_all(process_id, "number")}


def test_no_more_jobs_are_taken_than_can_be_begun_and_none_after_an_error(cluster: Cluster, tmp_path: Path) -> None:
    from mrag_rl.cluster.workers import AHEAD  # Ray is imported by `connected`

    workers = cluster.start(lambda: Models(tmp_path))
    taken: list[int] = []

    def jobs() -> Iterator[tuple[int]]:
        for factor in range(1000):
            taken.append(factor)
            yield (factor,)

    results: Any = workers.results(slowly, "number", jobs())
    next(results)
    assert len(taken) <= 2 * AHEAD + 1
    results.close()
    taken.clear()
    with pytest.raises(InputError, match=r"^three is refused$"):
        for _ in workers.results(refusing, "number", jobs(), in_order=True):
            pass
    assert len(taken) <= 4 + 2 * AHEAD
    assert [*workers.results(refusing, "number", [])] == []


def test_what_cannot_be_spread_says_so(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workplace: Path
) -> None:
    with pytest.raises(InputError, match="no such"):
        ClusterLLM(cluster.start(partial(RunModels, missing_llm(workplace))), "llm")
    with pytest.raises(InputError, match=r"cannot start \(No module named 'nowhere'\); install the same version"):
        cluster.start(missing_module())
    monkeypatch.setattr("mrag_rl.__version__", "0.0.0")
    with pytest.raises(InputError, match=rf"has mrag-rl {__version__}, this process 0.0.0; install the same version"):
        cluster.start(lambda: Models(tmp_path))


def missing_llm(workplace: Path):
    config = load_config(workplace / "small.yaml")
    return replace(config, llm=replace(config.llm, name=str(workplace / "no such folder")))


def test_only_this_machine_is_listened_to(cluster: Cluster) -> None:
    if "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ:
        pytest.skip("another test imported Ray before")
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    ours = [process for process in mine if "ray" in " ".join(process.cmdline()).lower()]
    listening = [
        connection.laddr.ip
        for process in ours
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) > 3 and {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_a_training_whose_workers_are_killed_ends_as_that_of_one_process(
    small: Path, workplace: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "train.py", "--config", str(workplace / "small.yaml"), "--runs", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("RAY_ADDRESS", None)
    killed: set[int] = set()
    with subprocess.Popen([*command, "--cluster", "auto", "--workers", "2"], cwd=HERE, env=environment) as process:
        while process.poll() is None:
            time.sleep(0.2)
            if (tmp_path / "small" / "database").exists() and len(killed) < 3:
                killed |= kill_a_worker(process.pid, killed)
    assert process.returncode == 0 and killed
    assert outcome(tmp_path / "small") == outcome(small)


def kill_a_worker(driver: int, killed: set[int]) -> set[int]:
    for process in psutil.Process(driver).children(recursive=True):
        try:
            if process.pid not in killed and process.cmdline()[:1] == ["ray::_Worker.apply"]:
                process.kill()
                return {process.pid}
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return set()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--workers", "2"], "--workers goes with --cluster; write --cluster auto for this machine"),
        (["--cluster", "auto", "--workers", "none"], "--workers is none; give a number of 1 or more"),
        (["--cluster=auto", "--workers=0"], "--workers is 0; give a number of 1 or more"),
    ],
)
def test_mistakes_are_named(
    options: list[str], error: str, workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["--config", str(workplace / "small.yaml"), "--runs", str(tmp_path / "runs"), *options]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {error}"
    assert not (tmp_path / "runs").exists()


def test_a_run_of_servers_and_own_code_alone_has_nothing_to_spread(workplace: Path) -> None:
    config = load_config(workplace / "small.yaml")
    own = replace(
        config,
        encoder=replace(config.encoder, name="my.encoders:code"),
        llm=replace(config.llm, server="http://127.0.0.1:1/v1"),
    )
    with pytest.raises(InputError, match="a server or code of your own"), models_at("auto")(own, print):
        pass
