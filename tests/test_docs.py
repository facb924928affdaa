"""The documentation: every room has its page, and what Markdown needs to show lists and tables."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from mrag_rl.config import config_reader, validate_config
from mrag_rl.shipped import CONFIGS, names_in
from scripts.make_api_pages import PACKAGE, PAGES, modules, page
from scripts.make_paper_page import PAGES as PAPER_PAGES
from scripts.make_paper_page import tables, written_by_hand

ROOT = Path(__file__).parents[1]


def test_every_room_is_on_one_page_that_the_navigation_names() -> None:
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.name != "py.typed"}
    rooms -= {"__init__", "__pycache__", "configs"}
    assert sorted(room for shown in PAGES.values() for room in shown) == sorted(rooms)
    navigation = re.findall(r"api/(\w+)\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(navigation) == sorted({*PAGES, "index"})


def test_a_page_shows_every_module_of_its_rooms() -> None:
    assert "mrag_rl.encoders.transformer" in modules("encoders")
    assert list(modules("errors")) == ["mrag_rl.errors"]
    text = page("envs", ("envs",))
    assert [line for line in text.splitlines() if line.startswith(":::")] == [f"::: {name}" for name in modules("envs")]


@pytest.mark.parametrize(("folder", "count"), [("paper-small", 7), ("paper-real", 3)])
def test_the_published_tables_of_the_paper_are_those_of_their_evidence(folder: str, count: int) -> None:
    page, evidence = ROOT / "docs" / PAPER_PAGES[folder], ROOT / "docs" / "evidence" / folder
    by_hand = written_by_hand(page)
    assert by_hand.endswith("\n\n")
    assert page.read_text(encoding="utf-8") == by_hand + tables(evidence)
    assert len([*evidence.iterdir()]) == count


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.stem)
def test_an_empty_line_precedes_every_list_and_table(path: Path) -> None:
    """GitHub does without it, the site does not."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines = prose.splitlines()
    for before, line in pairwise(lines):
        if before and not before.startswith(("#", " ", "|", "- ")) and not re.match(r"\d+\. ", before):
            assert not line.startswith(("|", "- "))


PAGES_WITH_COMMANDS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
STARTS = ("python train.py --config ", "mrag-rl train --config ")


@pytest.mark.parametrize("path", PAGES_WITH_COMMANDS, ids=lambda path: path.stem)
def test_every_command_that_trains_has_settings_that_go_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        for command in filter(lambda line: line.startswith(STARTS), block.splitlines()):
            arguments = shlex.split(command, comments=True)
            arguments = arguments[arguments.index("--config") :]
            named = [value for option, value in pairwise(arguments) if option == "--config"]
            if not all(Path(value).exists() or value in names_in(CONFIGS) for value in named):
                continue  # a reader's own, or a run's
            config, _ = config_reader("train.py", runs=True).read(arguments)
            validate_config(config)
