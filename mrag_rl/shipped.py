"""The configurations that come with the package, found by name: those of `configs/` in a checkout."""

from __future__ import annotations

from pathlib import Path

from mrag_rl.errors import InputError

CONFIGS = Path(__file__).parent / "configs"
PAPER_TABLES = CONFIGS / "paper" / "tables"
GRIDS = CONFIGS / "sweeps"


def names_in(folder: Path) -> list[str]:
    """The names of the files in a folder of `CONFIGS`: their paths within it, without the ending.

    Tables of the paper and grids of settings have names in their own folders only.
    """
    inner = {PAPER_TABLES, GRIDS} - {folder}
    files = [path for path in folder.rglob("*.yaml") if inner.isdisjoint(path.parents)]
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in files)


def shipped_file(name: str, folder: Path = CONFIGS) -> Path:
    """The file that a user names: a path if there is a file, else one that comes with the package, such as quickstart.

    Raises InputError that lists the names of `folder` if there is neither.
    """
    path, names = Path(name), names_in(folder)
    if path.exists() and not (path.is_dir() and name in names):
        return path
    if name not in names:
        raise InputError(
            f"{name}: no such file, and none of this name comes with mrag-rl; check the path, or choose one of "
            f"{', '.join(names)}"
        )
    return folder / f"{name}.yaml"
