"""Models spread over a Ray cluster answer as those of one process do, whoever of the workers dies."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from tqdm import tqdm

import train
from mrag_rl import __version__
from mrag_rl.cluster import Cluster, ClusterEncoder, ClusterLLM, connected, on_loopback_alone
from mrag_rl.cluster.connection import _divided
from mrag_rl.config import load_config
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import Prompt
from mrag_rl.runs.models import RunModels, models_at
from mrag_rl.runs.processes import Jobs, carry_out, is_done
from tests.cluster_jobs import missing_module, refusing, slowly
from tests.cluster_models import Models
from tests.tiny import encoder, outcome, tiny_world

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers

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


@pytest.fixture(scope="module")
def workers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Workers:
    return cluster.start(partial(Models, tmp_path_factory.mktemp("models")))


def test_texts_scores_and_vectors_are_those_of_one_process(workers: Workers, tmp_path: Path) -> None:
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


def test_no_more_jobs_are_taken_than_can_be_begun_and_none_after_an_error(workers: Workers) -> None:
    from mrag_rl.cluster.workers import AHEAD  # Ray is imported by `connected`

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


@pytest.mark.slow
def test_what_cannot_be_spread_says_so(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workplace: Path
) -> None:
    beside = replace(cluster, workers=1, cpus=0)  # The cores are those of `workers`
    with pytest.raises(InputError, match="no such"):
        ClusterLLM(beside.start(partial(RunModels, missing_llm(workplace))), "llm")
    with pytest.raises(InputError, match=r"cannot start \(No module named 'nowhere'\); install the same version"):
        beside.start(missing_module())
    monkeypatch.setattr("mrag_rl.__version__", "0.0.0")
    with pytest.raises(InputError, match=rf"has mrag-rl {__version__}, this process 0.0.0; install the same version"):
        ClusterLLM(beside.start(partial(Models, tmp_path)), "llm")
    monkeypatch.undo()
    monkeypatch.setattr("mrag_rl.cluster.workers.PATIENCE", 2.0)
    with pytest.raises(InputError, match="of 1 workers, 0 have started in 2 s at auto, where others may have what is"):
        replace(beside, cpus=2).start(partial(Models, tmp_path))


def missing_llm(workplace: Path):
    config = load_config(workplace / "small.yaml")
    return replace(config, llm=replace(config.llm, name=str(workplace / "no such folder")))


ALONE = """
import os, psutil, signal, sys
from mrag_rl.cluster import connected

before = signal.getsignal(signal.SIGTERM)
for _ in range(2):  # one after the other in a process
    with connected("auto", 1):
        import ray
        listening = [
            connection.laddr.ip
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert len(listening) > 3 and {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}, listening
        assert os.stat(os.path.expanduser("~/.ray/auth_token")).st_mode & 0o077 == 0
    assert not ray.is_initialized() and not [name for name in os.environ if name.startswith("RAY_ENABLE")]
assert signal.getsignal(signal.SIGTERM) == before
try:
    with connected("127.0.0.1:1"):
        pass
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_cluster_of_this_machine_listens_to_no_other(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    found = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=HERE,
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert "InputError --cluster 127.0.0.1:1: this process has had a cluster of its own; use a new" in found.stdout


def test_what_a_worker_gets_is_on_one_machine() -> None:
    def parts(
        nodes: list[tuple[int, int]], workers: int | None, *, gpus: bool, beside: int = 1
    ) -> tuple[int, int, int]:
        there = [{"CPU": float(cpus), "GPU": float(devices)} for cpus, devices in nodes]
        found = _divided("there", workers, there, gpus, beside)
        return found.workers, found.cpus, found.gpus

    assert parts([(8, 0)], 3, gpus=False) == (3, 2, 0)
    assert parts([(8, 0), (8, 0)], 3, gpus=False) == (3, 4, 0)
    assert parts([(2, 0)], 4, gpus=False) == (4, 0, 0)  # which share
    assert parts([(64, 0), (8, 4), (8, 4)], None, gpus=True) == (8, 0, 1)
    assert parts([(8, 8)], 2, gpus=True) == (2, 0, 4)
    assert parts([(8, 2)] * 4, 2, gpus=True) == (2, 0, 2)
    assert parts([(8, 8)], None, gpus=True, beside=4) == (2, 0, 1)
    assert parts([(8, 8)], 1, gpus=True, beside=4) == (1, 0, 2)
    assert parts([(8, 4)] * 2, 1, gpus=True, beside=3) == (1, 0, 2)
    assert parts([(2, 0)], None, gpus=False, beside=3) == (1, 0, 0)
    with pytest.raises(InputError, match=r"3 workers for each of 2 runs .* has 4; give fewer workers or a smaller"):
        parts([(8, 4)], 3, gpus=True, beside=2)
    for nodes, workers, fewer in (([(8, 0)], None, ""), ([(8, 2)], 3, "give fewer workers, or ")):
        with pytest.raises(InputError, match=rf"has \d; {fewer}set the devices of the models to cpu$"):
            parts(nodes, workers, gpus=True)


@pytest.mark.slow
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
            if (tmp_path / "small" / "database").exists() and len(killed) < 2:
                killed |= kill_a_worker(process.pid, killed)
    assert process.returncode == 0 and killed
    assert outcome(tmp_path / "small") == outcome(small)


@pytest.mark.slow
def test_a_training_that_is_interrupted_leaves_no_process(workplace: Path, tmp_path: Path) -> None:
    command = [sys.executable, "train.py", "--config", str(workplace / "small.yaml"), "--runs", str(tmp_path)]
    started = subprocess.Popen(
        [*command, "--cluster", "auto"], cwd=HERE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's background ignores
    )  # fmt: skip
    with started as process:
        while not (tmp_path / "small" / "database").exists():
            time.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) > 3
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 130 and shown.splitlines()[-1].endswith("--cluster auto")
    assert not psutil.wait_procs(family, timeout=20)[1]


OTHER = """
import sys
from mrag_rl.cluster import connected

with connected("auto"):
    import ray
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def other() -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a cluster of another process, which ends with its input, and the variables to use it."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline().strip(), os.environ | {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "token"}
        process.stdin.close()


@pytest.mark.slow
def test_runs_of_a_sweep_share_a_cluster_and_end_as_alone(
    workplace: Path, other: tuple[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grid.yaml").write_text("seed: [0, 1]\n")
    settings = ["--config", str(workplace / "small.yaml"), "--runs", str(tmp_path), "--jobs", "2"]
    address, environment = other
    spread = [*settings, "--cluster", address]

    def command(*arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], cwd=HERE, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    sweep = ["train.py", "sweep", "--grid", str(tmp_path / "grid.yaml")]
    command(*sweep, "--name", "spread", *spread)
    command(*sweep, "--name", "alone", *settings)
    for seed in (0, 1):
        run = tmp_path / "spread" / f"seed-{seed}"
        ends = [outcome(at) for at in (run, tmp_path / "alone" / run.name)]
        # Losses may be rounded otherwise: which of the two runs encodes a text that both have is a matter of speed
        assert all(ends[0][what] == ends[1][what] for what in ("results", "answers"))
        log = (tmp_path / "spread" / "logs" / f"{run.name}.log").read_text()
        assert "spreading the models over 1 workers with 1 cores each" in log
    again = command("evaluate.py", "systems", "--run", str(run), "--cluster", address, "--workers", "1")
    assert "spreading the models over 1 workers with 2 cores each" in again
    results, evaluated = (json.loads((run / name).read_text()) for name in ("results.json", "evaluation/results.json"))
    assert evaluated["systems"] == results["systems"]

    run, config = tmp_path / "trained" / "small", load_config(workplace / "small.yaml")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with tqdm(disable=True) as bar:  # As `tune` does
        carry_out({run: config}, part="training", jobs=Jobs(1, address, 2), bar=bar)
    assert is_done(run, "training") and not is_done(run, "run")
    assert "spreading the models over 2 workers with 1 cores each" in (run.parent / "logs" / "small.log").read_text()


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


@pytest.mark.parametrize(
    ("command", "options", "error"),
    [
        (
            "sweep",
            ["--cluster", "auto"],
            "--cluster auto would start a cluster for every run; start one with",
        ),
        ("sweep", ["--cluster", "local"], "--cluster local would start a cluster for every run; start one with"),
        ("sweep", ["--cluster", "127.0.0.1:1"], "--cluster 127.0.0.1:1: nothing listens there; start a cluster with"),
        ("sweep", ["--workers", "2"], "--workers goes with --cluster; "),
        ("tune", ["--cluster", "there:1", "--workers", "0"], "--workers is 0; give a number of 1 or more"),
        ("sweep", ["--config", "theirs.yaml"], "theirs.yaml: cluster may not be set in a file; write --cluster on the"),
    ],
)
def test_mistakes_about_several_runs_are_named_before_any(
    command: str, options: list[str], error: str, workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    Path("theirs.yaml").write_text("cluster: 203.0.113.1:6379\n")
    Path("grid.yaml").write_text("seed: [0, 1]\n")
    Path("space.yaml").write_text("agent_s.learning_rate: {low: 0.001, high: 0.01}\n")
    needed = ["--grid", "grid.yaml"] if command == "sweep" else ["--space", "space.yaml"]
    assert train.main([command, *needed, "--config", str(workplace / "small.yaml"), *options]) == 2
    assert error in capsys.readouterr().err.splitlines()[-1]
    assert not Path("runs").exists()


def test_a_run_of_servers_and_own_code_alone_has_nothing_to_spread(workplace: Path) -> None:
    config = load_config(workplace / "small.yaml")
    own = replace(
        config,
        encoder=replace(config.encoder, name="my.encoders:code"),
        llm=replace(config.llm, server="http://127.0.0.1:1/v1"),
    )
    with pytest.raises(InputError, match="a server or code of your own"), models_at("auto")(own, print):
        pass


NOWHERE = """
from mrag_rl.cluster import connected

try:
    with connected("127.0.0.1:1"):
        pass
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "localhost:99999", "a..b:6379", "nowhere.invalid:6379"])
def test_an_address_where_nothing_listens_is_named(address: str) -> None:
    with pytest.raises(InputError, match=rf"^--cluster {re.escape(address)}: nothing listens there; start a cluster"):
        on_loopback_alone(address)


def test_an_address_of_this_machine_alone_is_recognised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert on_loopback_alone(f"127.0.0.1:{port}") and on_loopback_alone(f"localhost:{port}")
    assert not on_loopback_alone("ray://there:10001")


def test_an_address_where_nothing_listens_is_an_error_at_once() -> None:
    found = subprocess.run([sys.executable, "-c", NOWHERE], cwd=HERE, capture_output=True, text=True, timeout=60)
    assert found.stdout.startswith("InputError --cluster 127.0.0.1:1: nothing listens there; start a cluster with"), (
        found
    )
