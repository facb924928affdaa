"""The names of models on the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

MINILM_NAMES = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")


def hub_name(name: str) -> str | None:
    """The hub's name, NAME or OWNER/NAME, of a model that settings call `name`; None if that can only be a path.

    It is a path if a folder of that name, or a folder OWNER, is here.
    """
    repository = MINILM_NAMES[1] if name in MINILM_NAMES else name
    owner, slash, _ = repository.partition("/")
    plain = re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", repository) is not None
    here = Path(repository).is_dir() or (bool(slash) and Path(owner).is_dir())
    return repository if plain and ".." not in repository and not here and not repository.endswith(".bin") else None
