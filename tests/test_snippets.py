"""Every Python snippet of README and docs runs as it stands there, after those above it on the same page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.stores import own_server
from mrag_rl.data.synthetic import make_news
from mrag_rl.io import write_jsonl
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.memory.sharing import export_database
from tests.hub_server import HubServer
from tests.llm_server import MODEL, LLMServer

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if FENCE.search(path.read_text()) and path.stem != "plugins"  # tests/test_plugins.py runs that one's
]


@pytest.fixture(scope="module")
def place(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs and files that the pages name."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "runs").mkdir()
    (folder / "quickstart").write_text((small.parents[1] / "small.yaml").read_text())  # comes before a name
    for name in ("quickstart", "NAME"):
        (folder / "runs" / name).symlink_to(small)
    documents, _ = make_news(seed=0, split="dev", events=12, queries=4)
    write_jsonl(folder / "documents.jsonl", map(asdict, documents[:10]))
    with MemoryDatabase.open(small / "database") as database:
        export_database(database, folder / "desks-memories")
    write_jsonl(folder / "more.jsonl", [asdict(replace(documents[0], id="moths"))])
    shutil.copytree(small, folder / "runs" / "large")  # its memories are moved and deleted
    return folder


@pytest.fixture
def postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with own_server() as address:
        yield address


@pytest.fixture
def addresses(server: LLMServer, hub: HubServer) -> dict[str, str]:
    """What stands for the addresses and models that pages name as examples."""
    return {"http://127.0.0.1:8000": server.url, "microsoft/phi-2": MODEL, "OWNER/NAME": "me/desks"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_snippets_run(
    page: Path,
    place: Path,
    addresses: dict[str, str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    if page.stem == "stores":
        addresses["postgresql://me@db.example.org/memories"] = request.getfixturevalue("postgres")
    names: dict[str, object] = {}
    for found in FENCE.finditer(page.read_text()):
        code = found[1]
        for example, real in addresses.items():
            code = code.replace(example, real)
        exec(compile(code, str(page), "exec"), names)
