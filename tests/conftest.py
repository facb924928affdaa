"""Shared by every test: no hub, no accelerator, one thread; and the runs that several test files look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

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
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of pytest-xdist have in common."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def workplace(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny language model, `config.yaml` of a run with all systems, `small.yaml` of one with two."""
    from tests.tiny import write_workplace

    folder = tmp_path_factory.mktemp("workplace")
    with FileLock(shared / "lock"):
        write_workplace(folder, shared / "llm")
    return folder


@pytest.fixture(scope="session")
def finished(workplace: Path, shared: Path) -> Path:
    """The run of `config.yaml`, never stopped. Tests that change it copy it first."""
    return trained_once(workplace, "config.yaml", shared, "tiny")


@pytest.fixture(scope="session")
def small(workplace: Path, shared: Path) -> Path:
    """The run of `small.yaml`, never stopped."""
    return trained_once(workplace, "small.yaml", shared, "small")


def trained_once(workplace: Path, config: str, shared: Path, name: str) -> Path:
    """This worker's copy of a run that the first worker trains that needs it."""
    import train

    with FileLock(shared / "lock"):
        if not (shared / name).exists():
            assert train.main(["--config", str(workplace / config), "--runs", str(shared)]) == 0
        return Path(shutil.copytree(shared / name, workplace / "runs" / name))


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
