"""Publish the tables that `evaluate.py paper` made: their JSON as evidence, and their pages in docs.

    python scripts/make_paper_page.py runs/paper-small
    python scripts/make_paper_page.py runs/paper-real

What stands in docs/paper_tables.md, or docs/paper_tables_real.md, before the first table is written by hand and stays
as it is.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from mrag_rl.evaluation.paper_tables import HOW_TO_READ, paper_page
from mrag_rl.io import atomic_write_text, read_json

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {"paper-small": "paper_tables.md", "paper-real": "paper_tables_real.md"}
"""By the name of the folder of runs, and of the evidence."""
_FIGURES = {"small": "partitions.png", "real": "partitions_real.png"}
_FIRST = re.compile(r"^## (Table|Figure) \d", re.MULTILINE)


def publish(runs: Path) -> None:
    """Copy the tables of a folder of runs, and write the page."""
    evidence, page = DOCS / "evidence" / runs.name, DOCS / PAGES[runs.name]
    evidence.mkdir(exist_ok=True)
    for table in runs.glob("*/table.json"):
        shutil.copy(table, evidence / f"{table.parent.name}.json")
        if (drawn := table.with_name("partitions_plot.png")).is_file():
            shutil.copy(drawn, DOCS / "gallery" / _FIGURES[read_json(table)["scale"]])
    atomic_write_text(page, written_by_hand(page) + tables(evidence))


def written_by_hand(page: Path) -> str:
    """What stands before the first table, with the empty line between."""
    text = page.read_text(encoding="utf-8")
    first = _FIRST.search(text)
    return text if first is None else text[: first.start()]


def tables(folder: Path) -> str:
    """The pages of all tables in a folder, with headings of a lower level and without what all of them say."""
    names = sorted((path.stem for path in folder.glob("*.json")), key=lambda name: ("table" not in name, name))
    return "\n".join(_page(folder / f"{name}.json") for name in names)


def _page(path: Path) -> str:
    report = read_json(path)
    page = paper_page(report).replace("# M-RAG, ", "# ", 1).replace(HOW_TO_READ, "").strip()
    page = re.sub(r"^Figure: .*\n{0,2}", "", page, flags=re.MULTILINE)
    drawn = f"![Scores by partitions](gallery/{_FIGURES[report['scale']]})"
    page = re.sub(r"^Figure of all parts: .*", drawn, page, flags=re.MULTILINE)
    page = re.sub(r"\n{3,}", "\n\n", page)
    return re.sub(r"^#", "##", page, flags=re.MULTILINE) + "\n"


if __name__ == "__main__":
    publish(Path(sys.argv[1]))
