"""What the workers of `test_cluster` hold: they import it, as they do not import test files."""

from __future__ import annotations

import os
from pathlib import Path

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
