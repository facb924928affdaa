"""`evaluate.py gate`: what each of its systems shows the language model, and what it concludes."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

import evaluate
from mrag_rl.data import TextPair, save_pairs
from mrag_rl.errors import InputError
from mrag_rl.evaluation.tables import gate_table
from mrag_rl.generation.prompts import Prompt, render
from mrag_rl.runs import gate
from mrag_rl.runs.settings import GateSettings
from tests.tiny import Copier, encoder, write_workplace

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


@pytest.mark.parametrize("low", [-1.0, 0.5])
def test_the_verdict_needs_an_interval_above_zero(settings: GateSettings, low: float) -> None:
    gate.run(settings, models=(encoder(), Recorder()))
    report = json.loads((settings.folder() / "gate.json").read_text())
    for name, gain in report["gains"].items():
        gain["bleu"] |= {"difference": 2.0 if name == "hybrid" else 9.0 if name == "copy" else 1.0, "low": low}
    verdict = gate_table(report, memories=30, task="translation").splitlines()[-1]
    assert verdict.startswith(
        "Memories help: hybrid gains +2.00" if low > 0 else "Memories are not seen to help: hybrid"
    )


def test_a_stopped_gate_resumes_and_asks_nothing_twice(settings: GateSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_AT_ONCE", 4)

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


def test_the_command_runs_on_a_configuration_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_workplace(tmp_path)
    command = ["gate", "--config", str(tmp_path / "small.yaml"), "--output", str(tmp_path / "out"), "--queries", "3"]
    assert evaluate.main(command) == 0
    assert "summarization: 3 development queries, 30 memories" in capsys.readouterr().out
    assert (tmp_path / "out" / "gate.json").is_file()


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
