"""Selectors on a hub: what is uploaded comes back byte by byte, and nothing but a whole selector is taken."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

from mrag_rl.commands import main
from mrag_rl.errors import InputError
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.selector import Selector
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo
from tests.hub_server import TOKEN, HubServer, Repository, serving

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
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A hub that huggingface_hub takes for the real one, and knows the token of."""
    with serving() as server:
        for name, value in {
            "ENDPOINT": server.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": server.url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_OFFLINE": False,
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_TOKEN_PATH": str(tmp_path / "no_token"),
            "HF_STORED_TOKENS_PATH": str(tmp_path / "no_tokens"),
        }.items():
            monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


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
