"""python -m lm.train: it learns, resumes to the same weights, and takes a user's own pairs."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lm import news, news_abilities
from lm.train import train
from mrag_rl.command_line import run_command
from mrag_rl.data import save_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.generation.fusion_prompts import query_prompt
from mrag_rl.generation.prompts import Prompt, translation
from mrag_rl.generation.transformers_llm import TransformersLLM

ROOT = Path(__file__).resolve().parents[1]
SMALL = ["--steps", "6", "--batch", "2", "--width", "32", "--layers", "1", "--checkpoint-every", "2"]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lm.train", *SMALL, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def run(*arguments: str) -> tuple[int, str]:
    """The command's status and errors, in this process."""
    errors = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(errors):
        patch.setattr(sys, "argv", ["lm.train", *SMALL, *arguments])
        return run_command(train, lambda: ""), errors.getvalue()


def error_of(*arguments: str) -> str:
    status, errors = run(*arguments)
    assert status == 2
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    return line


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.slow
def test_a_killed_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    world = make_newsroom("translation", seed=0, database=40, train=1, dev=1, test=1)
    save_pairs(tmp_path / "pairs.jsonl", world.database)
    own = ["--pairs", str(tmp_path / "pairs.jsonl"), "--task", "translation", "--languages", "Welsh", "Dutch"]
    own += ["--vocabulary", "400", "--group", "(.)$"]
    assert run(*own, "--output", str(tmp_path / "whole"))[0] == 0
    killed = start(*own, "--output", str(tmp_path / "killed"))
    checkpoint = tmp_path / "killed.partial" / "state.json"
    while not checkpoint.exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    if not (tmp_path / "killed").exists():
        assert run(*own, "--output", str(tmp_path / "killed"))[0] == 0
    assert digest(tmp_path / "whole") == digest(tmp_path / "killed")
    data, killed_data = (
        next(line for line in (tmp_path / name / "README.md").read_text().splitlines() if "tokens in" in line)
        for name in ("whole", "killed")
    )
    assert data == killed_data and " 0 tokens" not in data
    assert not (tmp_path / "killed.partial").exists()
    llm = TransformersLLM.load(tmp_path / "killed")
    assert len(llm.generate([Prompt(translation("Welsh", "Dutch"), "Hello.")], max_new_tokens=4)) == 1
    card = (tmp_path / "killed" / "README.md").read_text(encoding="utf-8")
    assert "pairs.jsonl" in card and "6 steps" in card and "from Welsh to Dutch" in card


def test_a_training_starts_from_another_models_weights_and_says_so(tmp_path: Path) -> None:
    pairs = make_newsroom("dialogue", seed=0, database=40, train=1, dev=1, test=1).database
    save_pairs(tmp_path / "pairs.jsonl", pairs)
    own = ["--pairs", str(tmp_path / "pairs.jsonl"), "--task", "dialogue", "--vocabulary", "400"]
    assert run(*own, "--output", str(tmp_path / "first"))[0] == 0
    still = [*own, "--start", str(tmp_path / "first"), "--learning-rate", "1e-30", "--width", "64"]
    assert run(*still, "--output", str(tmp_path / "second"))[0] == 0
    assert digest(tmp_path / "first") == digest(tmp_path / "second")
    for name in ("first", "second"):
        assert "(32 wide, 1 layers), 4" in " ".join((tmp_path / name / "README.md").read_text().split())
    assert f"trained from the weights of `{tmp_path / 'first'}`" in (tmp_path / "second" / "README.md").read_text()
    (tmp_path / "first" / "config.json").write_text('{"architectures": ["PhiForCausalLM"]}')
    assert "PhiForCausalLM" in error_of(*own, "--start", str(tmp_path / "first"), "--output", str(tmp_path / "third"))


@pytest.mark.slow
def test_the_news_is_learned_and_the_card_says_with_what_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a few steps the form of the prompts is learned, and nothing more."""
    monkeypatch.setattr(news, "WORLDS", 2)
    monkeypatch.setattr(news, "_TOKENIZER_TEXTS", 300)
    monkeypatch.setattr(news_abilities, "_QUESTIONS", 24)
    options = ["--world", "news", "--width", "64", "--steps", "30", "--checkpoint-every", "10", "--vocabulary", "2000"]
    status, errors = run(*options, "--output", str(tmp_path / "made"))
    assert status == 0, errors
    card = (tmp_path / "made" / "README.md").read_text(encoding="utf-8")
    losses = [
        [float(x) for x in line.split("|")[1:-1]] for line in card.splitlines() if line.startswith(("| 10 |", "| 30 |"))
    ]
    assert len(losses[0]) == 5 and all(
        after < before for before, after in zip(losses[0][1:], losses[1][1:], strict=True)
    )
    assert "| overall |" in card and "| null |" in card and "the bundled news" in card and "30 steps" in card
    llm = TransformersLLM.load(tmp_path / "made")
    assert len(llm.generate([query_prompt("Who won?", 2)], max_new_tokens=4)) == 1


def test_mistakes_are_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    good = tmp_path / "good.jsonl"
    save_pairs(good, make_newsroom("dialogue", seed=0, database=40, train=1, dev=1, test=1).database)
    for arguments, word in (
        (["--output", str(tmp_path / "there")], "exists"),
        (["--output", str(tmp_path / "new"), "--task", "dialogue"], "--pairs"),
        (["--output", str(tmp_path / "new"), "--pairs", str(good), "--task", "dialogue", "--group", "("], "group '('"),
        (["--output", str(tmp_path / "new"), "--pairs", str(tmp_path / "no.jsonl"), "--task", "dialogue"], "no.jsonl"),
        (["--output", str(tmp_path / "new"), "--width", "40"], "--width is 40; give a multiple of 32"),
        (["--output", str(tmp_path / "new"), "--steps", "0"], "--steps is 0"),
        (["--output", str(tmp_path / "new"), "--start", str(tmp_path / "there")], "has no config.json"),
        (["--output", str(tmp_path / "new"), "--world", "news"], "--width is 32; give a multiple of 64"),
        (
            ["--output", str(tmp_path / "new"), "--world", "news", "--pairs", str(good)],
            "--world news and --pairs do not go together",
        ),
    ):
        assert word in error_of(*arguments)
    assert not (tmp_path / "new.partial").exists()


@pytest.mark.slow
def test_texts_that_are_all_too_long_are_reported_in_one_line(tmp_path: Path) -> None:
    line = error_of("--output", str(tmp_path / "new"), "--max-tokens", "20")
    assert line.startswith("error: none of 2") and "--max-tokens" in line
