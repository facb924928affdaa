"""Publish the tables that `evaluate.py paper` made: their JSON as evidence, and their pages in docs/paper_tables.md.

    python scripts/make_paper_page.py runs/paper-small

What stands in docs/paper_tables.md before the first table is written by hand and stays as it is.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from mrag_rl.evaluation.paper_tables import HOW_TO_READ, paper_page
from mrag_rl.io import atomic_write_text, read_json

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "paper_tables.md"
EVIDENCE = DOCS / "evidence" / "paper-small"
FIGURE = DOCS / "gallery" / "partitions.png"
FIRST = "\n## Table 1"


def publish(runs: Path) -> None:
    """Copy the tables of a folder of runs, and write the page."""
    EVIDENCE.mkdir(exist_ok=True)
    for table in runs.glob("*/table.json"):
        shutil.copy(table, EVIDENCE / f"{table.parent.name}.json")
        if (drawn := table.with_name("partitions_plot.png")).is_file():
            shutil.copy(drawn, FIGURE)
    by_hand = PAGE.read_text(encoding="utf-8").split(FIRST)[0]
    atomic_write_text(PAGE, by_hand + "\n" + tables(EVIDENCE))


def tables(folder: Path) -> str:
    """The pages of all tables in a folder, with headings of a lower level and without what all of them say."""
    names = sorted(path.stem for path in folder.glob("*.json"))
    pages = [_page(folder / f"{name}.json") for name in (*(n for n in names if "table" in n), "figure2")]
    return "\n".join(pages)


def _page(path: Path) -> str:
    page = paper_page(read_json(path)).replace("# M-RAG, ", "# ", 1).replace(HOW_TO_READ, "").strip()
    page = re.sub(r"^Figure: .*\n\n?", "", page, flags=re.MULTILINE)
    drawn = f"![Scores by partitions](gallery/{FIGURE.name})"
    page = re.sub(r"^Figure of all parts: .*", drawn, page, flags=re.MULTILINE)
    page = re.sub(r"\n{3,}", "\n\n", page)
    return re.sub(r"^#", "##", page, flags=re.MULTILINE) + "\n"


if __name__ == "__main__":
    publish(Path(sys.argv[1]))
