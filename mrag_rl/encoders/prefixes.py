"""What an encoder expects before a text, as the files of its model state it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrag_rl.encoders.sentence_files import read_settings
from mrag_rl.errors import InputError


@dataclass(frozen=True)
class Prefixes:
    """Instructions before texts, such as "query: "; empty where there is none.

    Attributes:
        query: Before what is searched for.
        document: Before what is searched.
        default: Before every other text: memories and their queries are compared with each other, so they share it.
    """

    query: str = ""
    document: str = ""
    default: str = ""


def stated_prefixes(folder: Path) -> Prefixes:
    """The prompts in sentence-transformers' file in a model's folder.

    The prefix of documents is its first prompt for "document", "passage" or "corpus" that is not empty.

    Raises InputError for prompts that are not texts, and for a default that is not among them.
    """
    file = folder / "config_sentence_transformers.json"
    stated = read_settings(file) if file.is_file() else {}
    prompts, name = stated.get("prompts") or {}, stated.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise InputError(f'{file}: "prompts" must map names to texts')
    if name is not None and name not in prompts:
        raise InputError(f'{file}: "default_prompt_name" is {name!r}, which is not one of "prompts"')
    documents = (prompts.get(key) for key in ("document", "passage", "corpus"))
    return Prefixes(
        query=prompts.get("query") or "",
        document=next(filter(None, documents), ""),
        default=prompts.get(name) or "",
    )
