"""Selectors on a hub: what is uploaded comes back byte by byte, and nothing but a whole selector is taken."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

from mrag_rl.commands import main
from mrag_rl.errors import InputError
from mrag_rl.evaluation.tables import score_cell
from mrag_rl.hub import model_card
from mrag_rl.io import read_json
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.selector import Selector
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo
from tests.hub_server import TOKEN, HubServer, Repository

ROOT = Path(__file__).parents[1]
REPO = "me/desks"
INFO = SelectorInfo(
    state="evidence",
    partition_names=("arts", "business", "science"),
    task="question_answering",
    metric="f1",
    encoder="all-MiniLM-L6-v2",
    encoder_fingerprint="f" * 64,
)
STATES = np.random.default_rng(5).uniform(-1, 1, (20, 3, 6)).astype(np.float32)


@pytest.fixture
def selector(tmp_path: Path) -> Selector:
    return export(tmp_path / "selector")


def export(folder: Path, seed: int = 1, info: SelectorInfo = INFO) -> Selector:
    rng = np.random.default_rng(seed)
    weights = {"w1": rng.normal(size=(4, 6)), "b1": np.zeros(4), "w2": rng.normal(size=(1, 4)), "b2": np.zeros(1)}
    normalizer = StateNormalizer(np.zeros((1, 6), np.float32), np.ones((1, 6), np.float32), center=True)
    return export_selector(folder, weights=weights, normalizer=normalizer, info=info)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_what_is_uploaded_comes_back_byte_by_byte(hub: HubServer, selector: Selector, tmp_path: Path) -> None:
    address = selector.push_to_hub(REPO)
    assert re.fullmatch(rf"{hub.url}/{REPO}/commit/[0-9a-f]{{40}}", address)
    assert main(["pull", REPO, "--output", str(tmp_path / "pulled")]) == 0
    exported, pulled = contents(tmp_path / "selector"), contents(tmp_path / "pulled")
    assert pulled == hub.files(REPO) and pulled.keys() == exported.keys()
    assert {name for name in pulled if pulled[name] != exported[name]} == {"README.md"}
    loaded = Selector.from_pretrained(REPO)
    np.testing.assert_array_equal(loaded.q_values(STATES), selector.q_values(STATES))
    loaded.push_to_hub("me/again")  # a card that is one of the hub stays as it is
    assert hub.files("me/again") == hub.files(REPO)


def test_only_the_files_of_a_selector_travel(hub: HubServer, selector: Selector, tmp_path: Path) -> None:
    (tmp_path / "selector" / "notes.txt").write_text("not for the public")
    selector.push_to_hub(REPO)
    assert "notes.txt" not in hub.files(REPO)
    hub.repositories[REPO].commit("main", {"image.png": b"\x89PNG", "data/more.json": b"{}"})
    assert main(["pull", REPO, "--output", str(tmp_path / "pulled")]) == 0
    assert contents(tmp_path / "pulled").keys() == {"README.md", "config.json", "model.onnx", "model.safetensors"}
    assert not [request for request in hub.requests if "image.png" in request or "more.json" in request]


def test_a_card_says_what_the_hub_reads_and_its_snippet_runs(
    hub: HubServer, selector: Selector, capsys: pytest.CaptureFixture[str]
) -> None:
    selector.push_to_hub(REPO)
    text = hub.files(REPO)["README.md"].decode()
    card = ModelCard(text)
    assert card.data["library_name"] == "mrag-rl" and {"m-rag", "question-answering"} <= set(card.data["tags"])
    assert card.data["base_model"] == "sentence-transformers/all-MiniLM-L6-v2" and card.data["eval_results"] is None
    lines = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0].splitlines()
    assert len([line for line in lines if line]) == 5 and any(f'"{REPO}"' in line for line in lines)
    exec("\n".join(lines), {})
    assert re.fullmatch(r"\[[012] [012] [012]\]\n", capsys.readouterr().out)


@pytest.mark.parametrize("encoder", ["llm", "my-encoder", "./models/mini", "/models/mini", "tests/mini"])
def test_an_encoder_that_is_not_on_the_hub_is_no_base_model(tmp_path: Path, encoder: str) -> None:
    card = ModelCard(model_card("text", replace(INFO, encoder=encoder, task="my_tasks:headlines")))
    assert card.data["base_model"] is None and not [tag for tag in card.data["tags"] if "headlines" in tag]


def test_the_card_of_a_run_has_its_scores(hub: HubServer, small: Path, tmp_path: Path) -> None:
    assert main(["push", str(small), REPO]) == 0
    pushed, trained = hub.files(REPO), contents(small / "selector")
    assert {name for name in trained if pushed[name] != trained[name]} == {"README.md"}
    text, results = pushed["README.md"].decode(), read_json(small / "results.json")
    scores = results["systems"]["m_rag"]
    card = ModelCard(text)
    assert {result.metric_type: result.metric_value for result in card.data["eval_results"]} == {
        metric: round(score["value"], 2) for metric, score in scores.items()
    }
    assert {(result.task_type, result.dataset_split) for result in card.data["eval_results"]} == {
        ("summarization", "test")
    }
    for score in scores.values():
        assert score_cell(score) in text  # with its interval
    for fact in ("| Task | summarization |", f"| Seed | {results['seed']}; of the data 0 |", "| Partitions | 4, by"):
        assert fact in text
    assert main(["export", str(small), "--output", str(tmp_path / "out")]) == 0
    exported = contents(tmp_path / "out")
    assert exported.pop("README.md").decode().replace('"."', f'"{REPO}"') == text
    assert exported == {name: content for name, content in pushed.items() if name != "README.md"}


def test_a_run_that_is_not_complete_is_not_exported(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (("config.yaml", (small / "config.yaml").read_text()), ("results.json", '{"systems": 1}')):
        (tmp_path / name).write_text(content)
        assert main(["export", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
        shown = capsys.readouterr().err
        assert ("no results.json" if name == "config.yaml" else "no selector in it") in shown
    shutil.copytree(small / "selector", tmp_path / "selector")
    assert main(["export", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    assert "results.json: not the results of a run" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_branch_is_made_and_a_revision_is_read(hub: HubServer, tmp_path: Path) -> None:
    first, second = export(tmp_path / "a", 1), export(tmp_path / "b", 2)
    first.push_to_hub(REPO)
    for _ in range(2):  # the second time, it is there
        assert main(["push", str(tmp_path / "b"), REPO, "--revision", "second"]) == 0
    for selector, revision in ((first, None), (first, "main"), (second, "second")):
        loaded = Selector.from_pretrained(REPO, revision=revision)
        np.testing.assert_array_equal(loaded.q_values(STATES), selector.q_values(STATES))
    with pytest.raises(InputError, match=f"{REPO}: no revision 'third': give a branch"):
        Selector.from_pretrained(REPO, revision="third")


def test_a_private_repository_is_private(hub: HubServer, selector: Selector, monkeypatch: pytest.MonkeyPatch) -> None:
    selector.push_to_hub("me/secret", private=True)
    assert hub.repositories["me/secret"].private
    selector.push_to_hub("me/secret", private=True)
    selector.push_to_hub(REPO)
    before = hub.files(REPO)
    with pytest.raises(InputError, match=f"{REPO}: there already, and public"):
        export(Path(str(selector.folder)).with_name("b"), 2).push_to_hub(REPO, private=True)
    assert hub.files(REPO) == before
    monkeypatch.delenv("HF_TOKEN")
    for name in ("me/secret", "me/nothing"):
        with pytest.raises(InputError, match=rf"{name}: no such repository, or it is private.*HF_TOKEN"):
            Selector.from_pretrained(name)


@pytest.mark.parametrize(
    ("repo_id", "token", "words"),
    [
        (REPO, None, r"me/desks: the hub knows no token of yours: log in \(hf auth login\), or set HF_TOKEN"),
        (REPO, "hf_wrong", r"me/desks: the hub knows no token of yours"),
        ("others/desks", TOKEN, "others/desks: your token does not allow this"),
        ("a/b/c", TOKEN, r"'a/b/c': no such folder, and no name of a repository \(OWNER/NAME\)"),
    ],
)
def test_an_upload_that_is_not_allowed_changes_nothing(
    hub: HubServer, selector: Selector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    repo_id: str, token: str | None, words: str,
) -> None:  # fmt: skip
    if token is None:
        monkeypatch.delenv("HF_TOKEN")
    else:
        monkeypatch.setenv("HF_TOKEN", token)
    assert main(["push", str(selector.folder), repo_id]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(lines) == 1 and re.match(f"error: {words}", lines[0])
    assert not hub.repositories and not hub.large


def test_a_damaged_selector_is_not_uploaded(hub: HubServer, selector: Selector) -> None:
    Path(str(selector.folder), "model.onnx").write_bytes(b"else")
    with pytest.raises(InputError, match=r"model\.onnx: SHA-256"):
        selector.push_to_hub(REPO)
    with pytest.raises(InputError, match="no folder yet"):
        replace(selector, folder=None).push_to_hub(REPO)
    assert not hub.requests


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model.safetensors": b"cut"}, r"me/desks: model\.safetensors: SHA-256 is .*; nothing was kept"),
        ({"config.json": b"{}"}, r"me/desks: config\.json: selector format version None"),
        ({"model.onnx": pickle.dumps({"w1": 1})}, r"me/desks: model\.onnx: a pickle or archive"),
        ({"extra/policy.pkl": b"x"}, r"me/desks: extra/policy\.pkl is a pickle or archive.*nothing was downloaded"),
        ({"weights.ZIP": b"x"}, r"me/desks: weights\.ZIP is a pickle or archive"),
        (None, r"me/desks: no config\.json in it: give a repository that mrag-rl push made"),
        ("me/nothing", "me/nothing: no such repository, or it is private"),
        ("nothing", r"nothing: no such repository"),
        ("../up", r"'\.\./up': no such folder, and no name of a repository"),
    ],
)
def test_what_is_not_a_whole_selector_leaves_nothing_behind(
    hub: HubServer, selector: Selector, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    change: dict[str, bytes] | str | None, words: str,
) -> None:  # fmt: skip
    if isinstance(change, dict):
        selector.push_to_hub(REPO)
        hub.repositories[REPO].commit("main", change)
    else:
        hub.repositories[REPO] = Repository(private=False)
    before = contents(tmp_path)
    capsys.readouterr()
    repo_id = change if isinstance(change, str) else REPO
    assert main(["pull", repo_id, "--output", str(tmp_path / "new" / "pulled")]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and re.match(f"error: {words}", lines[0])
    assert contents(tmp_path) == before and not (tmp_path / "new").exists()


def test_a_folder_that_is_there_is_kept(hub: HubServer, selector: Selector, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(Path(str(selector.folder)))
    assert main(["pull", REPO, "--output", str(selector.folder)]) == 2
    assert "there already; choose another folder" in capsys.readouterr().err
    assert contents(Path(str(selector.folder))) == before and not hub.requests


def test_a_folder_comes_before_a_repository(hub: HubServer, selector: Selector) -> None:
    assert Selector.from_pretrained(str(selector.folder)).folder == selector.folder
    assert not hub.requests


def test_what_was_downloaded_loads_without_the_hub(
    hub: HubServer, selector: Selector, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector.push_to_hub(REPO)
    Selector.from_pretrained(REPO)
    hub.requests.clear()
    assert Selector.from_pretrained(REPO, local_files_only=True).info == INFO
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert Selector.from_pretrained(REPO).info == INFO
    for only in (False, True):
        with pytest.raises(InputError, match="me/other: not downloaded before"):
            Selector.from_pretrained("me/other", local_files_only=only)
    with pytest.raises(InputError, match=r"not downloaded before.*unset HF_HUB_OFFLINE"):
        selector.push_to_hub(REPO)
    assert not hub.requests


def test_a_hub_that_cannot_be_reached_is_named_in_one_line(
    hub: HubServer, selector: Selector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    for work in (lambda: selector.push_to_hub(REPO), lambda: Selector.from_pretrained(REPO)):
        with pytest.raises(InputError, match=f"{REPO}: ConnectError: .*; try again") as caught:
            work()
        assert "\n" not in str(caught.value)


def test_the_commands_ask_the_hub_of_the_environment(hub: HubServer, selector: Selector, tmp_path: Path) -> None:
    own = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    code = (
        "import sys; from mrag_rl.commands import main; "
        f"sys.exit(main(['push', {str(selector.folder)!r}, {REPO!r}]) "
        f"or main(['pull', {REPO!r}, '--output', {str(tmp_path / 'pulled')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | own, capture_output=True, text=True)
    assert done.returncode == 0 and f"{hub.url}/{REPO}/commit/" in done.stdout, done.stderr
    assert contents(tmp_path / "pulled") == hub.files(REPO)
