"""What the workers of `test_cluster` hold and do: they import it, as they do not import test files."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mrag_rl.errors import InputError
from tests.tiny import encoder, tiny_llm


class Models:
    """What a worker of these tests holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def encoder(self):
        return encoder()

    @property
    def llm(self):
        llm = tiny_llm(self.folder / str(os.getpid()))
        llm.batch_tokens = 256
        return llm

    @property
    def number(self) -> int:
        return 7


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


class _Elsewhere:
    """What a machine without this module cannot unpickle."""

    def __reduce__(self):
        return _import_nowhere, ()


def _import_nowhere():
    raise ModuleNotFoundError("No module named 'nowhere'")


def missing_module():
    return _Elsewhere()
