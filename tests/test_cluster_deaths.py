"""What a worker was doing when it died, or lost with its machine, another does."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mrag_rl.cluster import Cluster, connected
from mrag_rl.errors import InputError
from tests.cluster_jobs import deadly, deadly_models, process_id, refusing, slowly

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers

HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    assert "RAY_ADDRESS" not in os.environ
    with connected("auto", 2) as found:
        yield found


@pytest.fixture(scope="module")
def workers(cluster: Cluster) -> Workers:
    return cluster.start(partial(SimpleNamespace, number=7))


def test_jobs_of_workers_that_are_killed_are_done_again(workers: Workers) -> None:
    first, second = workers.on_all(process_id, "number")
    assert first != second
    jobs = ((factor,) for factor in range(200))
    done, by = [], set()
    for place, (product, process) in workers.results(slowly, "number", jobs, in_order=True):
        assert product == 7 * place
        done.append(place)
        by.add(process)
        if place == 10:  # both at once: one that is alone would be spared the wait for another
            os.kill(first, signal.SIGKILL)
            os.kill(second, signal.SIGKILL)
    assert done == [*range(200)]
    assert {first, second} < by and len(by) >= 3


def test_a_job_whose_result_is_lost_is_done_again(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray
    from ray.exceptions import (
        LocalRayletDiedError,
        NodeDiedError,
        ObjectLostError,
        OutOfMemoryError,
        OwnerDiedError,
        WorkerCrashedError,
    )

    lost: list[Exception] = [NodeDiedError("gone"), OutOfMemoryError("killed"), WorkerCrashedError()]
    lost += [ObjectLostError("", None, ""), OwnerDiedError("", None, "")]
    real = ray.get

    def get(reference: Any) -> Any:
        if lost:
            raise lost.pop()
        return real(reference)

    monkeypatch.setattr(ray, "get", get)
    found = [*workers.results(refusing, "number", [(factor,) for factor in (5, 6, 7)], in_order=True)]
    assert found == [(0, 5), (1, 6), (2, 7)] and not lost
    lost.append(LocalRayletDiedError())  # of this process
    with pytest.raises(InputError, match=r"^the cluster is lost .*; resume or begin again when it is there$"):
        next(workers.results(refusing, "number", [(5,)]))


LOSING = """
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import ray
from ray.cluster_utils import Cluster as Machines

from mrag_rl.cluster import Cluster

def large(number):
    time.sleep(0.5)
    return np.full(10**6, float(number)), ray.get_runtime_context().get_node_id()

machines = Machines(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = {node.node_id: node for node in [machines.add_node(num_cpus=1) for _ in range(2)]}
ray.init(machines.address, log_to_driver=False)
workers = Cluster(machines.address, 2, 1, 0).start(partial(SimpleNamespace, number=7))
assert {node for _, node in workers.on_all(large, "number")} == {*nodes}
found, by = [], []
for place, (numbers, node) in workers.results(large, "number", [()] * 8, in_order=True):
    found.append((place, numbers.sum()))
    by.append(node)
    if place == 0:
        time.sleep(5)  # until it has done its next job, whose result nobody has fetched
        machines.remove_node(nodes[node], allow_graceful=False)
assert found == [(place, 7e6) for place in range(8)], found
assert by.count(by[0]) == 1, by
ray.shutdown()
machines.shutdown()
"""


@pytest.mark.slow
def test_results_that_are_lost_with_a_machine_are_made_again() -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = os.environ | token | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # the loopback interface alone
    found = subprocess.run([sys.executable, "-c", LOSING], cwd=HERE, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@pytest.mark.slow
def test_a_job_that_kills_its_workers_is_named_in_the_end(workers: Workers) -> None:
    with pytest.raises(InputError, match=r"^5 workers .* died with the same batch .*lower llm.batch_tokens"):
        for _ in workers.results(deadly, "number", [(factor,) for factor in range(6)]):
            pass
    assert sorted(result for _, result in workers.results(deadly, "number", [(1,), (2,)])) == [1, 2]


@pytest.mark.slow
def test_a_worker_that_dies_while_it_loads_its_models_is_asked_again(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = replace(cluster, cpus=0)  # The cores are those of `workers`
    found = beside.start(partial(deadly_models, tmp_path, 1)).on_all(process_id, "number")
    assert len({*found}) == 2 and [*tmp_path.iterdir()] == [tmp_path / "0"]
    monkeypatch.setattr("mrag_rl.cluster.workers.DEATHS", 2)
    with pytest.raises(InputError, match=r"^a worker .* died 2 times while it loaded its models \(.*\); if memory ran"):
        replace(beside, workers=1).start(partial(deadly_models, tmp_path, 9)).on_all(process_id, "number")
    assert len([*tmp_path.iterdir()]) == 3
