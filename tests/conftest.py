"""Shared by every test: no hub, no accelerator, one thread; and the runs that several test files look at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mrag_rl.generation.transformers_llm import TransformersLLM
    from tests.hub_server import HubServer
    from tests.llm_server import LLMServer

# Before torch and transformers are imported by any test.
os.environ["OMP_NUM_THREADS"] = "1"  # a forked process would wait for the threads that it does not have
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny language model, `config.yaml` of a run with all systems, `small.yaml` of one with two."""
    from tests.tiny import write_workplace

    return write_workplace(tmp_path_factory.mktemp("workplace"))


@pytest.fixture(scope="session")
def finished(workplace: Path) -> Path:
    """The run of `config.yaml`, never stopped. Tests that change it copy it first."""
    import train

    assert train.main(["--config", str(workplace / "config.yaml"), "--runs", str(workplace / "runs")]) == 0
    return workplace / "runs" / "tiny"


@pytest.fixture(scope="session")
def small(workplace: Path) -> Path:
    """The run of `small.yaml`, never stopped."""
    import train

    assert train.main(["--config", str(workplace / "small.yaml"), "--runs", str(workplace / "runs")]) == 0
    return workplace / "runs" / "small"


@pytest.fixture
def local() -> TransformersLLM:
    """The bundled model in this process."""
    from tests.llm_server import bundled_llm

    return bundled_llm()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LLMServer]:
    """The bundled model at a server; no key in the environment."""
    from tests.llm_server import bundled_llm, serving

    for name in ("MRAG_RL_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with serving(bundled_llm()) as running:
        yield running


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A hub that huggingface_hub takes for the real one, its token in the environment, and an empty cache."""
    from tests.hub_server import TOKEN, serving

    with serving() as running:
        for name, value in {
            "ENDPOINT": running.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": running.url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_OFFLINE": False,
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_TOKEN_PATH": str(tmp_path / "no_token"),
            "HF_STORED_TOKENS_PATH": str(tmp_path / "no_tokens"),
        }.items():
            monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield running
