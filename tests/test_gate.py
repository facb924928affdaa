"""`evaluate.py gate`: what each of its systems shows the language model, and what it concludes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

import evaluate
from mrag_rl.data import TextPair, save_pairs
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import holm
from mrag_rl.evaluation.tables import gate_table
from mrag_rl.generation.prompts import Prompt, render
from mrag_rl.runs import gate
from mrag_rl.runs.settings import GateSettings
from tests.tiny import Copier, encoder

WORDS = ["harbour", "bridge", "council", "ferry", "tram", "school", "storm", "budget", "market", "museum"]


class Recorder(Copier):
    """Remembers every prompt that it is given, and tells prompts apart by their demonstrations, too."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[Prompt] = []

    def render(self, prompt: Prompt) -> str:
        return render(prompt)

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        self.prompts += prompts
        return super().generate(prompts, samples=samples, **settings)


def some_pairs(part: str, count: int) -> list[TextPair]:
    """Pairs about two words each; every target says which pair it is from."""
    rng = np.random.default_rng(sum(map(ord, part)))
    return [
        TextPair(
            f"{part}{i}", f"{i} news of the {' and the '.join(rng.choice(WORDS, 2, replace=False))}", f"{part} {i}"
        )
        for i in range(count)
    ]


@pytest.fixture
def settings(tmp_path: Path) -> GateSettings:
    paths = {}
    for part, count in {"database": 30, "train": 4, "dev": 12, "test": 5}.items():
        paths[part] = tmp_path / f"{part}.jsonl"
        save_pairs(paths[part], some_pairs(part, count))
    data = GateSettings("g").data
    files = dataclasses.replace(data.files, **{part: str(path) for part, path in paths.items()})
    return GateSettings(
        "g", task="translation", data=dataclasses.replace(data, files=files), output=str(tmp_path / "out"), queries=10
    )


def answers_of(settings: GateSettings) -> dict[str, list[str]]:
    """System name to its answers."""
    rows = [json.loads(line) for line in (settings.folder() / "answers.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"dev{i}" for i in range(10)]
    return {name: [row["answers"][name] for row in rows] for name in rows[0]["answers"]}


def test_each_system_shows_what_its_name_says(settings: GateSettings) -> None:
    llm = Recorder()
    gate.run(settings, models=(encoder(), llm))
    memories = {pair.target: pair.source for pair in some_pairs("database", 30)}
    queries = [pair.source for pair in some_pairs("dev", 10)]
    shown: dict[int, list[Prompt]] = {}
    for prompt in llm.prompts:
        assert prompt.query in queries, "only development queries are answered"
        assert all(memories[target] == source for source, target in prompt.demonstrations)
        assert len({target for _, target in prompt.demonstrations}) == len(prompt.demonstrations)
        shown.setdefault(len(prompt.demonstrations), []).append(prompt)
    assert shown.keys() == {0, 1, 3} and len(shown[0]) == 10
    assert all(20 < len(prompts) <= 40 for count, prompts in shown.items() if count)  # Searches may agree

    answers = answers_of(settings)
    vectors = encoder().encode_standard([*memories.values()])
    nearest = [[*memories][i] for i in (encoder().encode_standard(queries) @ vectors.T).argmax(axis=1)]
    assert answers["none"] == [" ".join(query.split()[:8]) for query in queries]
    assert answers["naive"] == answers["naive_3"] == answers["copy"] == nearest
    assert answers["words"] == answers["words_3"] == answers["copy_words"]
    for query, target in zip(queries, answers["words"], strict=True):
        assert set(query.split()) & set(memories[target].split()) - {"news", "of", "the", "and"}
    assert answers["random"] != answers["naive"] and len(set(answers["random"])) > 4


def test_scores_are_sacrebleus_and_gains_are_over_no_memory(settings: GateSettings) -> None:
    page = gate.run(settings, models=(encoder(), Recorder()))
    report, answers = json.loads((settings.folder() / "gate.json").read_text()), answers_of(settings)
    references = [[pair.target for pair in some_pairs("dev", 10)]]
    for name, hypotheses in answers.items():
        chrf = sacrebleu.corpus_chrf(hypotheses, references).score
        assert report["systems"][name]["chrf"]["value"] == pytest.approx(chrf, abs=1e-3)
    gain = report["systems"]["words"]["bleu"]["value"] - report["systems"]["none"]["bleu"]["value"]
    assert report["gains"]["words"]["bleu"]["difference"] == pytest.approx(gain, abs=2e-4)
    assert (report["queries"], report["target"]) == (10, "bleu")
    assert (settings.folder() / "gate.md").read_text() == page + "\n"
    assert "10 development queries, 30 memories" in page


TESTED = ["naive", "naive_3", "words", "words_3", "hybrid", "hybrid_3"]


def test_p_values_of_the_systems_that_retrieve_are_corrected_for_their_number(settings: GateSettings) -> None:
    gate.run(settings, models=(encoder(), Recorder()))
    gains = json.loads((settings.folder() / "gate.json").read_text())["gains"]
    assert sorted(name for name in gains if "p_holm" in gains[name]["bleu"]) == sorted(TESTED)
    p_holm = holm([gains[name]["bleu"]["p"] for name in TESTED])
    assert [gains[name]["bleu"]["p_holm"] for name in TESTED] == pytest.approx(p_holm)
    assert all("p_holm" not in gain["chrf"] for gain in gains.values())


@pytest.mark.parametrize(
    ("p", "difference", "verdict"),
    [
        (0.008, 2.0, "Memories help: hybrid gains +2.00 [-1.00, +3.00] over no memory, p = 0.0480 after Holm's"),
        (0.009, 2.0, "Memories are not seen to help: hybrid, the best, gains +2.00 [-1.00, +3.00] over no memory, p ="),
        (0.001, 0.5, "Memories help: hybrid gains +0.50"),  # The rest gain more, but are not significant
        (0.001, -2.0, "Memories are not seen to help: "),
    ],
)
def test_the_verdict_is_corrected_and_leaves_out_random_and_copied_memories(
    settings: GateSettings, p: float, difference: float, verdict: str
) -> None:
    gate.run(settings, models=(encoder(), Recorder()))
    report = json.loads((settings.folder() / "gate.json").read_text())
    for gain in report["gains"].values():  # random and copy gain most, and most surely
        gain["bleu"] = {"difference": 9.0, "low": 8.0, "high": 10.0, "p": 0.001}
    p_values = [p if name == "hybrid" else 0.5 for name in TESTED]
    for name, p_holm in zip(TESTED, holm(p_values), strict=True):
        gain = difference if name == "hybrid" else 1.0
        report["gains"][name]["bleu"] = {"difference": gain, "low": -1.0, "high": 3.0, "p_holm": p_holm}
    last = gate_table(report, memories=30, task="translation").splitlines()[-1]
    assert last.startswith(verdict) and "correction for the 6 systems that retrieve" in last


def dialogue_pairs(count: int) -> list[TextPair]:
    """Dialogues of one to five turns each."""
    return [
        TextPair(f"{d}.{turn}", f"{turn} and the {WORDS[d % 10]} {d}", f"{d} says {turn}")
        for d in range(count)
        for turn in range(1 + d % 5)
    ]


def test_queries_with_groups_are_whole_dialogues_drawn_at_random(settings: GateSettings, tmp_path: Path) -> None:
    save_pairs(tmp_path / "all.jsonl", dialogue_pairs(100))
    data = dataclasses.replace(GateSettings("g").data, pairs=str(tmp_path / "all.jsonl"), group=r"^([^.]+)")

    def asked(**changes: Any) -> tuple[list[str], dict[str, Any], str]:
        page = gate.run(dataclasses.replace(settings, data=data, **changes), models=(encoder(), Recorder()))
        rows = [json.loads(line) for line in (settings.folder() / "answers.jsonl").read_text().splitlines()]
        return [row["id"] for row in rows], json.loads((settings.folder() / "gate.json").read_text()), page

    few, report, page = asked(queries=12)
    every, _, _ = asked(queries=1000)
    other, _, _ = asked(queries=12, seed=1)
    assert len(few) == 12 and few == every[:12] and other != few and set(other) <= set(every)
    dialogues = list(dict.fromkeys(identifier.split(".")[0] for identifier in few))
    in_file_order = sorted(every, key=lambda identifier: [int(part) for part in identifier.split(".")])
    assert in_file_order[:12] != few, "not the first of the file"
    turns = [[int(i.split(".")[1]) for i in few if i.split(".")[0] == name] for name in dialogues]
    assert [f"{name}.{turn}" for name, own in zip(dialogues, turns, strict=True) for turn in own] == few
    assert all(own == list(range(1 + int(name) % 5)) for name, own in zip(dialogues[:-1], turns[:-1], strict=True))
    assert report["groups"] == len(dialogues)
    assert f"12 development queries in {len(dialogues)} groups" in page and "95% intervals over the groups." in page


def test_intervals_are_over_dialogues(settings: GateSettings, tmp_path: Path) -> None:
    said = [TextPair(f"{d}.{copy}", f"the {WORDS[d % 10]} {d}", f"{d} says") for d in range(100) for copy in range(4)]
    told = [pair for pair in said if pair.id.endswith(".0")]
    found = []
    for name, pairs, count in (("once", told, 10), ("often", said, 40)):
        save_pairs(tmp_path / f"{name}.jsonl", pairs)
        data = dataclasses.replace(GateSettings("g").data, pairs=str(tmp_path / f"{name}.jsonl"), group=r"^([^.]+)")
        gate.run(dataclasses.replace(settings, data=data, queries=count), models=(encoder(), Recorder()))
        found.append(json.loads((settings.folder() / "gate.json").read_text()))
    once, often = found
    assert (once["queries"], often["queries"]) == (10, 40) and once["groups"] == often["groups"] == 10
    for metric, row in once["systems"]["none"].items():
        assert often["systems"]["none"][metric] == pytest.approx(row, abs=1e-3)


def test_a_stopped_gate_resumes_and_asks_nothing_twice(settings: GateSettings) -> None:
    class Stopped(Recorder):
        def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
            if len(self.prompts) > 20:
                raise KeyboardInterrupt
            return super().generate(prompts, samples=samples, **settings)

    first, second = Stopped(), Recorder()
    with pytest.raises(KeyboardInterrupt):
        gate.run(settings, models=(encoder(), first))
    assert not (settings.folder() / "gate.json").exists()
    assert [path.name for path in settings.folder().iterdir() if path.is_dir()] == []
    gate.run(settings, models=(encoder(), second))
    assert len(first.prompts) > 20 and not set(first.prompts) & set(second.prompts)
    third = Recorder()
    gate.run(settings, models=(encoder(), third))
    assert third.prompts == []


def test_the_command_runs_on_a_configuration_file(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["gate", "--config", str(workplace / "small.yaml"), "--output", str(tmp_path / "out"), "--queries", "3"]
    assert evaluate.main(command) == 0
    assert "summarization: 3 development queries, 30 memories" in capsys.readouterr().out
    assert (tmp_path / "out" / "gate.json").is_file()


def test_the_script_of_all_measurements_finds_files_from_where_it_was_called(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "scripts" / "real_text.sh"
    for arguments, message in (
        (["dialogsum", "gone.jsonl", "out"], f"{tmp_path}/gone.jsonl: no such file"),
        (["dialogsum"], "usage: scripts/real_text.sh NAME PAIRS.jsonl OUTPUT"),
    ):
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = ["bash", str(script), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr


def test_help_names_every_system(settings: GateSettings, capsys: pytest.CaptureFixture[str]) -> None:
    gate.run(settings, models=(encoder(), Recorder()))
    with pytest.raises(SystemExit):
        evaluate.main(["gate", "--help"])
    table = re.findall(r"^  ([a-z][a-z0-9_, ]*?)  +[a-z]", capsys.readouterr().out, re.M)
    assert {name for row in table for name in row.split(", ")} == set(answers_of(settings))


def test_bad_settings_are_named(settings: GateSettings) -> None:
    missing = dataclasses.replace(settings.data, files=dataclasses.replace(settings.data.files, dev="no.jsonl"))
    with pytest.raises(InputError, match=r"no\.jsonl: no such file"):
        gate.run(dataclasses.replace(settings, data=missing), models=(encoder(), Recorder()))
    with pytest.raises(InputError, match="queries is 0; it must be 1 or more"):
        gate.run(dataclasses.replace(settings, queries=0), models=(encoder(), Recorder()))
