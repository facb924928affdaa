"""What the workers of cluster tests do. They import it, as they do not import test files."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from mrag_rl.errors import InputError


def process_id(number: int) -> int:
    return os.getpid()


def slowly(number: int, factor: int) -> tuple[int, int]:
    """The product, and by whom."""
    time.sleep(0.05)
    return number * factor, os.getpid()


def deadly(number: int, factor: int) -> int:
    if factor == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return factor


def refusing(number: int, factor: int) -> int:
    if factor == 3:
        raise InputError("three is refused")
    return factor


def deadly_models(folder: Path, deaths: int) -> SimpleNamespace:
    """Models whose process is killed while it loads them, so many times in all."""
    for death in range(deaths):
        with suppress(FileExistsError):
            (folder / str(death)).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return SimpleNamespace(number=7)


class _Elsewhere:
    """What a machine without this module cannot unpickle."""

    def __reduce__(self):
        return _import_nowhere, ()


def _import_nowhere():
    raise ModuleNotFoundError("No module named 'nowhere'")


def missing_module():
    return _Elsewhere()
