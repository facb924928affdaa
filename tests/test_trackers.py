"""Weights & Biases and MLflow, offline: what their own files say of a run is what its log and results say."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import train as train_command
from mrag_rl import Callback, Config, Run, train
from mrag_rl.agents.callback import TrainingStopped
from mrag_rl.agents.joint import train_jointly
from mrag_rl.errors import InputError
from mrag_rl.extras import MissingExtra
from mrag_rl.llm_config import LLMConfig
from mrag_rl.memory import MemoryDatabase
from mrag_rl.trackers import MLflowTracker, WandbTracker, trackers_named
from mrag_rl.trackers.tracker import Progress, without_folders
from mrag_rl.training_config import AgentConfig, RefinementConfig, TrainingConfig
from tests.tiny import ScriptedLLM, tiny_world
from tests.training import joint_context

pytestmark = pytest.mark.skipif(  # to import them takes seconds
    None in map(find_spec, ("wandb", "mlflow")), reason="pip install 'mrag-rl[wandb,mlflow]'"
)

SYSTEMS = {"m_rag": ".", "m_rag_without_r": "ablations/without_r"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow store, made once: its tables take a second."""
    return tmp_path_factory.mktemp("mlflow") / "mlflow.db"


@pytest.fixture(autouse=True)
def place(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with clients that write there and reach no network."""
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(store.parent))  # the client reads them once in a process
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{store}",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


class Breaking(Callback):
    """Takes a table out of MLflow's store when the training begins, and stops it in the second system."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def on_batch(self, record: dict[str, Any]) -> bool:
        if (self.system, record["step"]) == ("m_rag", 1):
            rename_table(self.store, "metrics", "elsewhere")
        return self.system == "m_rag"


def train_both(run: Path, config: Config, callbacks: Sequence[Callback]) -> bool:
    """Train two systems as a run does, or go on with them; returns whether a callback stopped it."""
    stopped, world = False, tiny_world()
    for callback in callbacks:
        callback.on_start(run, config)
    for system, place in SYSTEMS.items():
        folder = run / place / "database"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with MemoryDatabase.open(folder) if folder.exists() else world.make_database(folder) as database:
            context = joint_context(
                world, database, ScriptedLLM(), refinement=RefinementConfig(),
                training=TrainingConfig(rounds=1, slots=8, checkpoint_every=2),
            )  # fmt: skip
            for callback in callbacks:
                callback.system, callback.context = system, context
            try:
                train_jointly(context, run / place, progress=False, callbacks=callbacks)
            except TrainingStopped:
                stopped = True
    for callback in callbacks:
        callback.on_end(Run(run, stopped=True))  # without results
    return stopped


def rename_table(store: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(store)) as database:
        database.execute(f"ALTER TABLE {old} RENAME TO {new}")


def log_of(run: Path, system: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / SYSTEMS[system] / "log.jsonl").read_text().splitlines()]


def curve(run: Path, system: str, kind: str, name: str) -> list[tuple[int, float]]:
    return [(line["step"], line[name]) for line in log_of(run, system) if line["kind"] == kind]


def scores_of(run: Path) -> dict[str, float]:
    systems = json.loads((run / "results.json").read_text())["systems"]
    return {f"test/{s}/{metric}": score["value"] for s, row in systems.items() for metric, score in row.items()}


def records(path: Path) -> Iterator[Any]:
    """The records of an offline run's file: LevelDB's log format behind seven bytes, of the client's own messages."""
    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
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
            yield messages.Record.FromString(whole)
            whole = b""


def test_a_training_that_is_stopped_and_resumed_is_tracked_once_though_a_store_fails_meanwhile(
    place: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, config = place / "run", Config("tracked", agent_s=AgentConfig(batch_size=8))
    run.mkdir()
    assert train_both(run, config, [WandbTracker(), MLflowTracker(), Breaking(store)])
    rename_table(store, "elsewhere", "metrics")
    during, at_the_end = (line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: mlflow"))
    assert during == at_the_end and during.endswith(f"train.py --resume {run} --track mlflow")
    wandb, mlflow = (Progress.load(run / "trackers" / f"{name}.json") for name in ("wandb", "mlflow"))
    assert wandb.sent == {"m_rag": len(log_of(run, "m_rag")), "m_rag_without_r": 1}
    assert mlflow.sent == {"m_rag": 1}
    assert not train_both(run, config, [WandbTracker(), MLflowTracker()])
    _check_mlflow(run, mlflow.id)
    _check_wandb(run, wandb.id, store.parent)


def _check_mlflow(run: Path, known: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    (experiment,) = client.search_experiments(filter_string="name = 'mrag-rl'")
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.run_id, found.info.run_name, found.info.status) == (known, "tracked", "KILLED")
    assert found.data.params["agent_s.batch_size"] == "8" and found.data.params["data.pairs"] == "null"
    for system in SYSTEMS:
        for kind, name in (("batch", "reward_s"), ("batch", "final_score"), ("round", "dev")):
            points = client.get_metric_history(known, f"{system}/{kind}/{name}")
            assert [(point.step, point.value) for point in points] == curve(run, system, kind, name)
    with MemoryDatabase.open(run / "database") as database:
        last = log_of(run, "m_rag")[-2]
        shares = [found.data.metrics[f"m_rag/partition_counts/{name}"] for name in database.names]
        assert shares == last["partition_counts"]


def _check_wandb(run: Path, known: str, folder: Path) -> None:
    files = sorted(folder.glob(f"wandb/offline-run-*/run-{known}.wandb"))
    assert len(files) == 2  # one for each sitting
    everything = [record for file in files for record in records(file)]
    started = [record.run for record in everything if record.HasField("run")]
    assert {(entry.run_id, entry.display_name, entry.project) for entry in started} == {(known, "tracked", "mrag-rl")}
    settings = {item.key: json.loads(item.value_json) for item in started[0].config.update}
    assert settings["agent_s"]["batch_size"] == 8
    history = [record.history for record in everything if record.HasField("history")]
    steps = [entry.step.num for entry in history]
    assert steps == list(range(1, 1 + sum(len(log_of(run, system)) for system in SYSTEMS)))
    points = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row.item} for row in history
    ]
    for system in SYSTEMS:
        for kind, name in (("batch", "reward_s"), ("batch", "final_score"), ("round", "dev")):
            key = f"{system}/{kind}/{name}"
            found = [(point[f"{system}/step"], point[key]) for point in points if key in point]
            assert found == curve(run, system, kind, name)


def test_a_run_that_is_complete_can_be_tracked_from_the_command_line(small: Path, place: Path, store: Path) -> None:
    from mlflow import MlflowClient

    run = place / "small"
    shutil.copytree(small, run)
    for _ in range(2):  # the second time, there is nothing to send
        assert train_command.main(["--resume", str(run), "--track", "mlflow", "--track=wandb"]) == 0
    client, progress = MlflowClient(), Progress.load(run / "trackers" / "mlflow.json")
    points = client.get_metric_history(progress.id, "m_rag/batch/reward_s")
    assert [(point.step, point.value) for point in points] == curve(run, "m_rag", "batch", "reward_s")
    assert len(client.get_metric_history(progress.id, "test/m_rag/rouge1")) == 1
    found = client.get_run(progress.id)
    assert scores_of(run).items() <= found.data.metrics.items() and found.info.status == "FINISHED"
    assert found.data.params["llm.name"] == "llm"
    assert {artifact.path for artifact in client.list_artifacts(progress.id)} == {"results.md", "selector"}
    assert "selector/README.md" in {artifact.path for artifact in client.list_artifacts(progress.id, "selector")}

    known = Progress.load(run / "trackers" / "wandb.json").id
    files = store.parent.glob(f"wandb/offline-run-*/run-{known}.wandb")
    everything = [record for file in files for record in records(file)]
    summary = [item for entry in everything if entry.HasField("summary") for item in entry.summary.update]
    assert scores_of(run).items() <= {item.key: json.loads(item.value_json) for item in summary}.items()
    uploads = [entry.request.log_artifact.artifact for entry in everything if entry.HasField("request")]
    uploads += [entry.artifact for entry in everything if entry.HasField("artifact")]
    names = [artifact.name for artifact in uploads if artifact.name.startswith("small-")]
    assert sorted(names) == ["small-results", "small-selector"]


def test_the_page_s_snippet_sends_the_report_along(small: Path, place: Path) -> None:
    from mlflow import MlflowClient

    page = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
    (snippet,) = (
        text for text in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "Tracker" in text
    )
    run = shutil.copytree(small, place / "runs" / "watched")
    exec(compile(snippet, "docs/plugins.md", "exec"), {})
    progress = Progress.load(run / "trackers" / "mlflow.json")
    assert "report.html" in {artifact.path for artifact in MlflowClient().list_artifacts(progress.id)}
    assert Progress.load(run / "trackers" / "wandb.json").finished


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
    pairs = replace(config.data, pairs=str(tmp_path / "pairs.jsonl"))
    config = replace(config, data=pairs, store="postgresql://me@desk:5432/memories")
    told = repr(without_folders(config))
    assert str(tmp_path) not in told and "desk:" not in told and "'pairs.jsonl'" in told and "'model'" in told


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
