"""train.py and evaluate.py as a user runs them: one small run from end to end, evaluated again, asked."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import evaluate
import train
from mrag_rl import Selector
from mrag_rl.choices import ABLATION_OF, DEFAULT_SYSTEMS, SystemName
from mrag_rl.command_line import run_command
from mrag_rl.commands import main
from mrag_rl.config import load_config
from mrag_rl.data import load_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.evaluate import evaluate_run
from mrag_rl.runs.folder import RunFolder, locked
from mrag_rl.runs.models import load_llm
from mrag_rl.states import StateReader
from mrag_rl.subcommands import EVALUATIONS
from tests.tiny import Listening, outcome


def test_a_run_leaves_everything_behind(finished: Path) -> None:
    for name in ("config.yaml", "log.jsonl", "results.json", "results.md", "answers.jsonl", "run.json", "report.html"):
        assert (finished / name).is_file(), name
    for name in ("tensorboard", "checkpoints", "database", "selector"):
        assert any((finished / name).iterdir()), name
    for stem in ("headline", "learning_curves", "partition_shares", "label_by_partition", "reward_by_partition"):
        assert all((finished / "plots" / f"{stem}.{ending}").is_file() for ending in ("png", "svg", "csv"))
    rows = (finished / "calibration" / "gain.csv").read_text().splitlines()
    assert rows[0] == "expected,realised,n" and sum(int(row.split(",")[2]) for row in rows[1:]) == 8
    assert (finished / "calibration" / "gain.png").is_file()
    assert not [path for path in finished.rglob("*") if path.suffix in {".pkl", ".pt", ".pth", ".zip", ".tmp"}]


def test_results_name_every_system_and_add_up(finished: Path) -> None:
    results = json.loads((finished / "results.json").read_text())
    assert tuple(results["systems"]) == DEFAULT_SYSTEMS == load_config(finished / "config.yaml").evaluation.systems
    assert results["test_size"] == 12 and results["llm"]["prompts"] > 0 and results["seconds"]["total"] > 0
    best = {name: row["rouge1"]["value"] for name, row in results["systems"].items()}
    assert best["oracle_partition"] >= max(best["naive"], best["random_partition"], best["nearest_partition"])
    assert best["oracle_refined"] >= best["m_rag"]


def test_hugging_face_datasets_reads_the_answers(finished: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    read = datasets.load_dataset(
        "json", data_files=str(finished / "answers.jsonl"), split="train", cache_dir=str(tmp_path)
    )
    assert list(read) == [json.loads(line) for line in (finished / "answers.jsonl").read_text().splitlines()]


def test_the_selector_answers_as_the_run_did(finished: Path) -> None:
    from mrag_rl.encoders import Embeddings

    rows = [json.loads(line)["answers"]["m_rag"] for line in (finished / "answers.jsonl").read_text().splitlines()]
    selector = Selector.load(finished / "selector")
    with MemoryDatabase.open(finished / "database") as database:
        texts = [pair.source for pair in load_pairs(finished / "data" / "test.jsonl")]
        read = StateReader(database, selector.info.state)
        chosen = selector.select(read(texts, Embeddings.load(finished / "embeddings" / "test.npz")))
        assert [database.names[partition] for partition in chosen] == [row["partition"] for row in rows]


def test_refined_memories_keep_their_original(finished: Path) -> None:
    originals = {
        pair.id: pair.target
        for pair in make_newsroom("summarization", seed=0, database=60, train=16, dev=8, test=12).database
    }
    refined = 0
    for part in (finished, finished / "ablations" / "without_s", finished / "ablations" / "without_r"):
        with MemoryDatabase.open(part / "database") as database:
            records = database.records(np.arange(len(database)))
            assert database.original_targets(np.arange(len(database))) == [originals[record.id] for record in records]
            refined += sum(record.version > 0 for record in records)
    assert refined > 0


def test_a_complete_run_resumes_to_itself(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(finished)
    assert train.main(["--resume", str(finished)]) == 0
    said = capsys.readouterr()
    assert ": complete already; nothing is left to do" in said.err
    assert "m_rag" in said.out and outcome(finished) == before


def test_evaluating_again_gives_the_same_results(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main(["systems", "--run", str(finished)]) == 0
    assert "oracle_partition" in capsys.readouterr().out
    first, again = (json.loads((path / "results.json").read_text()) for path in (finished, finished / "evaluation"))
    for results in (first, again):
        del results["seconds"], results["llm"]
    assert again == first
    assert (finished / "evaluation" / "answers.jsonl").read_text() == (finished / "answers.jsonl").read_text()


def test_evaluating_some_systems_elsewhere(finished: Path, tmp_path: Path) -> None:
    arguments = ["systems", "--run", str(finished), "--systems", "naive", "m_rag", "--output", str(tmp_path / "two")]
    assert evaluate.main(arguments) == 0
    results = json.loads((tmp_path / "two" / "results.json").read_text())
    assert list(results["systems"]) == ["naive", "m_rag"] and list(results["comparisons"]) == ["m_rag - naive"]
    # Corrected for the three that the run tests, although two of them are left out here
    assert list(results["contrasts"]) == ["m_rag - naive"]
    (tested,) = results["contrasts"]["m_rag - naive"].values()
    assert tested["p_holm"] == pytest.approx(min(1, 3 * tested["p"]), abs=2e-6)


def test_evaluating_on_the_development_queries(finished: Path) -> None:
    assert evaluate.main(["systems", "--run", str(finished), "--systems", "naive", "m_rag", "--queries", "dev"]) == 0
    rows = [json.loads(line) for line in (finished / "evaluation_dev" / "answers.jsonl").read_text().splitlines()]
    pairs = load_pairs(finished / "data" / "dev.jsonl")
    assert [(row["id"], row["reference"]) for row in rows] == [(pair.id, pair.target) for pair in pairs]
    results = json.loads((finished / "evaluation_dev" / "results.json").read_text())
    assert results["test_size"] == len(pairs) and list(results["systems"]) == ["naive", "m_rag"]
    page = (finished / "evaluation_dev" / "results.md").read_text()
    assert results["part"] == "dev" and f"{len(pairs)} development pairs" in page and "test pairs" not in page


def test_systems_that_a_run_left_out_are_evaluated_afterwards_but_for_its_ablations(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [name for name in get_args(SystemName) if name not in ABLATION_OF]
    command = ["systems", "--run", str(small), "--output", str(tmp_path / "all"), "--systems"]
    assert evaluate.main([*command, *names]) == 0
    results = json.loads((tmp_path / "all" / "results.json").read_text())["systems"]
    assert list(results) == names
    before = json.loads((small / "results.json").read_text())["systems"]
    assert {name: results[name] for name in before} == before
    for name in ("m_rag_without_s", "magic"):
        assert evaluate.main([*command, "naive", name]) == 2
        assert f"unknown system '{name}'" in capsys.readouterr().err


def test_without_a_cache_an_evaluation_still_generates_no_text_twice(small: Path) -> None:
    config = load_config(small / "config.yaml", ["--llm.cache", "false"])
    llm = Listening(load_llm(config.llm))
    names = ("naive", "naive_words", "random_partition", "nearest_partition", "oracle_partition")
    answers = evaluate_run(RunFolder(small), config, llm, names).answers
    shown = {(row, answer.memory) for column in answers.values() for row, answer in enumerate(column)}
    assert len(shown) <= len(llm.prompts) == len(set(llm.prompts)) < llm.usage.prompts


def test_asking_gives_the_answer_of_the_evaluation(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = load_pairs(finished / "data" / "test.jsonl")[0]
    expected = json.loads((finished / "answers.jsonl").read_text().splitlines()[0])["answers"]["m_rag"]
    assert evaluate.main(["ask", "--run", str(finished), "--text", pair.source, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["partition"] == expected["partition"]
    assert answer["memory"]["id"] == expected["memory"] and answer["hypothesis"] == expected["hypothesis"]
    assert len(answer["partitions"]) == 4 and all(len(row["similarities"]) == 12 for row in answer["partitions"])
    assert max(answer["partitions"], key=lambda row: row["q_value"])["name"] == answer["partition"]
    info = Selector.load(finished / "selector").info
    assert info.gain_slope is not None and info.gain_intercept is not None and info.gain_slope >= 0.0
    for row in answer["partitions"]:
        line = 100 * (info.gain_slope * row["q_value"] + info.gain_intercept)
        assert row["expected_gain"] == pytest.approx(line, abs=0.02)
    assert evaluate.main(["ask", "--run", str(finished), "--text", pair.source]) == 0
    shown = capsys.readouterr().out
    for words in ("gain", "head 11", "Memory", "Hypothesis", answer["memory"]["target"], f"* {answer['partition']}"):
        assert words in shown


def test_asking_reads_only_what_is_allowed(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MemoryDatabase.open(finished / "database") as database:
        names = database.names
    ask = ["ask", "--run", str(finished), "--text", "The council met.", "--json", "--allowed"]
    for name in names:
        assert evaluate.main([*ask, name]) == 0
        assert json.loads(capsys.readouterr().out)["partition"] == name
    assert evaluate.main(ask) == 0
    nothing = json.loads(capsys.readouterr().out)
    assert nothing["partition"] is None and nothing["memory"] is None


def test_the_installed_command_lists_every_evaluation_and_says_how_in_its_own_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    usage = capsys.readouterr().out
    for name, command in EVALUATIONS.items():
        assert re.search(rf"^  {name} +{command.purpose}$", usage, re.MULTILINE), name
    assert main([]) == 2 and capsys.readouterr().err == usage
    for arguments, example in (
        (["compare"], "mrag-rl compare --runs runs/sizes --output"),
        (["evaluate", "multihop"], "mrag-rl multihop --config multihop"),
        (["sweep"], "mrag-rl sweep --grid grid.yaml --config quickstart"),
        (["tune"], "mrag-rl train --config quickstart --config runs/tuned/best.yaml"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*arguments, "--help"])
        shown = capsys.readouterr().out
        assert stop.value.code == 0 and example in shown and not re.search(r"(train|evaluate)\.py", shown)


def test_the_installed_command_s_errors_name_its_own_commands(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> str:
        raise OSError(errno.ENOSPC, "No space left on device", "runs/a/log.jsonl")

    assert run_command(work, lambda: "", program="mrag-rl train") == 2
    assert "(mrag-rl train goes on with --resume)" in capsys.readouterr().err
    assert run_command(work, lambda: "") == 2
    assert "(train.py goes on with --resume)" in capsys.readouterr().err


def test_two_processes_do_not_share_a_run(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(RunFolder(finished)):
        assert train.main(["--resume", str(finished)]) == 2
    assert "another process" in capsys.readouterr().err


def test_help_shows_how(capsys: pytest.CaptureFixture[str]) -> None:
    pool = "pool --runs runs/s0 runs/s1 runs/s2 --output runs/seeds"
    for arguments, example in (
        ([], "systems --run runs/quickstart"),
        (["systems"], "systems --run runs/quickstart"),
        (["pool"], pool),
        (["ask"], "ask --run runs/quickstart"),
    ):
        with pytest.raises(SystemExit) as stop:
            evaluate.main([*arguments, "--help"])
        assert stop.value.code == 0 and f"python evaluate.py {example}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        train.main(["--help"])
    assert stop.value.code == 0 and "--training.rounds" in capsys.readouterr().out
