"""Weights & Biases and MLflow, offline: what their own files say of a run is what its log and results say."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import train as train_command
from mrag_rl import Callback, Config, resume, train
from mrag_rl.errors import InputError
from mrag_rl.extras import MissingExtra
from mrag_rl.llm_config import LLMConfig
from mrag_rl.memory import MemoryDatabase
from mrag_rl.trackers import MLflowTracker, WandbTracker, trackers_named
from mrag_rl.trackers.tracker import Progress, without_folders

SYSTEMS = {"m_rag": ".", "m_rag_without_r": "ablations/without_r"}
CHANGES = {"evaluation.systems": ["naive", *SYSTEMS], "evaluation.ablations": True, "evaluation.contrasts": []}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow store, made once: its tables take a second."""
    return tmp_path_factory.mktemp("mlflow") / "mlflow.db"


@pytest.fixture(autouse=True)
def place(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with clients that write there and reach no network."""
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{store}",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


class StopAfter(Callback):
    """Stops at a batch of a system."""

    def __init__(self, system: str, step: int) -> None:
        self.at = (system, step)

    def on_batch(self, record: dict[str, Any]) -> bool:
        return (self.system, record["step"]) != self.at


def log_of(run: Path, system: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / SYSTEMS[system] / "log.jsonl").read_text().splitlines()]


def curve(run: Path, system: str, kind: str, name: str) -> list[tuple[int, float]]:
    return [(line["step"], line[name]) for line in log_of(run, system) if line["kind"] == kind]


def scores_of(run: Path) -> dict[str, float]:
    systems = json.loads((run / "results.json").read_text())["systems"]
    return {f"test/{s}/{metric}": score["value"] for s, row in systems.items() for metric, score in row.items()}


def records(path: Path) -> Iterator[Any]:
    """The records of an offline run's file: LevelDB's log format behind seven bytes, of the client's own messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, whole = path.read_bytes(), 7, b""
    assert data.startswith(b":W&B")
    while len(data) - position >= 7:
        if (left := 32768 - position % 32768) < 7:
            position += left
            continue
        length, kind = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        whole += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(whole)
            whole = b""


def test_both_trackers_have_the_curves_settings_and_scores_of_a_run_that_was_stopped_and_resumed(
    workplace: Path, place: Path
) -> None:
    config = Config.load(workplace / "small.yaml", {"name": "tracked", **CHANGES})
    stop = StopAfter("m_rag_without_r", 1)
    first = train(config, runs=place, callbacks=[WandbTracker(), MLflowTracker(), stop], progress=False)
    assert first.stopped
    known = {name: json.loads((first.folder / "trackers" / f"{name}.json").read_text()) for name in ("wandb", "mlflow")}
    sent = {"m_rag": len(log_of(first.folder, "m_rag")), "m_rag_without_r": 1}
    assert all((progress["sent"], progress["finished"]) == (sent, False) for progress in known.values())
    run = resume(first.folder, callbacks=[WandbTracker(), MLflowTracker(report=True)], progress=False).folder
    _check_mlflow(run, known["mlflow"]["id"])
    _check_wandb(run, known["wandb"]["id"])


def _check_mlflow(run: Path, known: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("mrag-rl").experiment_id])
    assert (found.info.run_id, found.info.run_name, found.info.status) == (known, "tracked", "FINISHED")
    assert found.data.params["agent_s.batch_size"] == "8" and found.data.params["llm.name"] == "llm"
    for system in SYSTEMS:
        for kind, name in (("batch", "reward_s"), ("batch", "final_score"), ("round", "dev")):
            points = client.get_metric_history(known, f"{system}/{kind}/{name}")
            assert [(point.step, point.value) for point in points] == curve(run, system, kind, name)
    with MemoryDatabase.open(run / "database") as database:
        last = log_of(run, "m_rag")[-2]
        shares = [found.data.metrics[f"m_rag/partition_counts/{name}"] for name in database.names]
        assert shares == last["partition_counts"]
    assert scores_of(run).items() <= found.data.metrics.items()
    artifacts = {artifact.path for artifact in client.list_artifacts(known)}
    assert artifacts == {"results.md", "report.html", "selector"}
    assert {artifact.path for artifact in client.list_artifacts(known, "selector")} >= {"selector/README.md"}


def _check_wandb(run: Path, known: str) -> None:
    files = sorted(Path().glob("wandb/offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{known}.wandb"] * 2
    everything = [record for file in files for record in records(file)]
    settings = {item.key: json.loads(item.value_json) for item in everything[0].run.config.update} if everything else {}
    started = [record.run for record in everything if record.HasField("run")]
    assert {(entry.run_id, entry.display_name, entry.project) for entry in started} == {(known, "tracked", "mrag-rl")}
    settings = {item.key: json.loads(item.value_json) for item in started[0].config.update}
    assert settings["agent_s"]["batch_size"] == 8 and settings["llm"]["name"] == "llm"
    history = [record.history for record in everything if record.HasField("history")]
    steps = [entry.step.num for entry in history]
    assert steps == list(range(1, 2 + sum(len(log_of(run, system)) for system in SYSTEMS)))
    points = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row.item} for row in history
    ]
    for system in SYSTEMS:
        for kind, name in (("batch", "reward_s"), ("batch", "final_score"), ("round", "dev")):
            key = f"{system}/{kind}/{name}"
            found = [(point[f"{system}/step"], point[key]) for point in points if key in point]
            assert found == curve(run, system, kind, name)
    summary = {
        "/".join(item.nested_key) or item.key: json.loads(item.value_json)
        for record in everything
        if record.HasField("summary")
        for item in record.summary.update
    }
    assert scores_of(run).items() <= summary.items()
    artifacts = {record.request.log_artifact.artifact.name for record in everything if record.HasField("request")}
    artifacts |= {record.artifact.name for record in everything if record.HasField("artifact")}
    assert artifacts >= {"tracked-results", "tracked-selector"} and "tracked-report" not in artifacts


class Breaking(Callback):
    """Takes a table out of MLflow's store at the first batch."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def on_batch(self, record: dict[str, Any]) -> None:
        if record["step"] == 1:
            with sqlite3.connect(self.store) as database:
                database.execute("ALTER TABLE metrics RENAME TO elsewhere")


def test_a_store_that_fails_does_not_end_the_training_and_gets_the_rest_later(
    workplace: Path, place: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    config = Config.load(workplace / "small.yaml")
    run = train(config, runs=place, callbacks=[MLflowTracker("broken"), Breaking(store)], progress=False)
    assert run.results is not None
    during, at_the_end = (line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: mlflow"))
    assert during == at_the_end and during.endswith(f"train.py --resume {run.folder} --track mlflow")
    with sqlite3.connect(store) as database:
        database.execute("ALTER TABLE elsewhere RENAME TO metrics")
    assert train_command.main(["--resume", str(run.folder), "--track", "mlflow"]) == 0
    progress = Progress.load(run.folder / "trackers" / "mlflow.json")
    points = MlflowClient().get_metric_history(progress.id, "m_rag/batch/reward_s")
    assert [(point.step, point.value) for point in points] == curve(run.folder, "m_rag", "batch", "reward_s")
    assert progress.finished
    assert scores_of(run.folder).items() <= MlflowClient().get_run(progress.id).data.metrics.items()


def test_partitions_may_be_called_anything(place: Path) -> None:
    from mlflow import MlflowClient

    tracker = MLflowTracker("names")
    identity = tracker.open(Config("any"), None)
    names = ["", ".", "..", "a/", "a//b", "a/./b", "R&D", "裁判所", "50%", "a\nb"]
    tracker.log("m_rag", 1, {f"partition_counts/{name}": 1.0 * row for row, name in enumerate(names)})
    assert sorted(MlflowClient().get_run(identity).data.metrics.values()) == list(map(float, range(len(names))))


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"id": "a"}', '{"id": "../a", "sent": {}, "finished": false}',
     '{"id": "a", "sent": {"naive": 1}, "finished": false}', '{"id": "a", "sent": {"m_rag": -1}, "finished": false}',
     '{"id": "a", "sent": {}, "finished": 1}'],
)  # fmt: skip
def test_a_file_that_no_tracker_wrote_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "wandb.json").write_text(content)
    with pytest.raises(InputError, match=r"wandb\.json"):
        Progress.load(tmp_path / "wandb.json")


def test_settings_say_nothing_of_the_machine(tmp_path: Path) -> None:
    config = Config("a", llm=LLMConfig(name=str(tmp_path / "model"), server="http://desk:1", cache_file="c.sqlite"))
    config = replace(config, data=replace(config.data, pairs=str(tmp_path / "pairs.jsonl")))
    told = repr(without_folders(config))
    assert str(tmp_path) not in told and "desk" not in told and "'pairs.jsonl'" in told and "'model'" in told


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_without_its_extra_says_so_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"Tracker needs {name}: pip install 'mrag-rl\[{name}\]'"):
        trackers_named([name])


def test_a_tracker_that_cannot_begin_stops_the_run_before_it_leaves_anything(
    workplace: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracker = MLflowTracker(tracking_uri="http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"^mlflow: .*refused.*; mend that, or leave the tracker out$"):
        train(Config.load(workplace / "small.yaml"), runs=place / "runs", callbacks=[tracker], progress=False)
    assert not (place / "runs").exists()
    with pytest.raises(InputError, match="it must be one of wandb, mlflow"):
        trackers_named(["aim"])
