"""Write the API pages of the documentation. Each page shows one room (subpackage) or several, with all their modules.

python scripts/make_api_pages.py

`make docs` runs it. The pages are generated from the folders, so adding, renaming or removing a module needs no change
here; a new room must be added to PAGES and to the navigation of `mkdocs.yml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mrag_rl"
PAGES = {
    "selector": (
        "selector",
        "selector_info",
        "selector_layers",
        "selector_files",
        "selector_export",
        "hub",
        "normalizer",
    ),
    "encoders": ("encoders",),
    "data": ("data",),
    "partitioning": ("partitioning",),
    "memory": ("memory",),
    "retrieval": ("retrieval",),
    "states": ("states",),
    "filters": ("filters",),
    "generation": ("generation",),
    "cluster": ("cluster",),
    "systems": ("systems",),
    "integrations": ("integrations",),
    "metrics": ("metrics",),
    "evaluation": ("evaluation",),
    "experiments": ("experiments",),
    "runs": ("runs", "report", "ui"),
    "envs": ("envs",),
    "agents": ("agents",),
    "trackers": ("trackers",),
    "models": ("models",),
    "support": (
        "training",
        "commands",
        "subcommands",
        "config",
        "training_config",
        "evaluation_config",
        "llm_config",
        "data_config",
        "encoder_config",
        "settings",
        "shipped",
        "command_line",
        "cautions",
        "contrasts",
        "access",
        "cache_file",
        "checked_json",
        "unit",
        "errors",
        "extras",
        "plugins",
        "choices",
        "io",
        "verified",
    ),
}
"""Pages and the rooms that each shows."""


def modules(room: str) -> Iterator[str]:
    """The dotted names of a room's modules, the room itself first."""
    folder = PACKAGE / room
    yield f"mrag_rl.{room}"
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else ():
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(("mrag_rl", *parts)).removesuffix(".__init__")
        if name != f"mrag_rl.{room}" and not any(part.startswith("_") for part in name.split(".")):
            yield name


def page(title: str, rooms: tuple[str, ...]) -> str:
    """A page of mkdocstrings directives: the room's own docstring, then every module under its name."""
    if title == rooms[0] and len(rooms) == 1:
        first, *rest = modules(rooms[0])
        start = f"# {first}\n\n::: {first}\n    options:\n      members: false\n"
    else:
        rest = [name for room in rooms for name in modules(room)]
        start = f"# {title.capitalize()}\n"
    return start + "".join(f"\n## {name}\n\n::: {name}\n" for name in rest)


def main() -> None:
    """Write the pages to docs/api, next to its index."""
    for title, rooms in PAGES.items():
        (ROOT / "docs" / "api" / f"{title}.md").write_text(page(title, rooms), encoding="utf-8")


if __name__ == "__main__":
    main()
