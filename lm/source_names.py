"""Sources of the bundled news under made-up names, so that a model learns to copy names instead of memorizing them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from mrag_rl.data.records import Document
from mrag_rl.data.synthetic.news_events import source_names

_Document = TypeVar("_Document", bound=Document)

_CAPITALIZED = re.compile(r"[A-Z][a-z]+")
# Full names first, because the shorter ones are parts of them.
_NAMES = sorted(
    {spelling for name in source_names() for spelling in (name, name.removeprefix("The "))}, key=len, reverse=True
)
_NAME = re.compile("|".join(map(re.escape, _NAMES)))
_FIXED_WORDS = {"The", "And", "Of", "Business", "Technology", "Sport", "News"}
_NAME_WORDS = sorted({word for name in source_names() for word in _CAPITALIZED.findall(name)} - _FIXED_WORDS)
_NEW_WORDS = (
    "Anchor", "Arrow", "Aspen", "Banner", "Birch", "Bridge", "Cedar", "Chronicle", "Clarion", "Cobalt", "Comet",
    "Compass", "Coral", "Crane", "Delta", "Dispatch", "Dune", "Echo", "Ember", "Falcon", "Fern", "Forge", "Garnet",
    "Granite", "Gull", "Harbour", "Hazel", "Herald", "Heron", "Hollow", "Indigo", "Iron", "Island", "Ivory", "Juniper",
    "Keystone", "Lark", "Laurel", "Ledger", "Linden", "Maple", "Marble", "Meadow", "Meridian", "Mirror", "Monitor",
    "Observer", "Opal", "Osprey", "Pebble", "Pillar", "Pioneer", "Quarry", "Raven", "Record", "Ridge", "River",
    "Saffron", "Sentinel", "Silver", "Slate", "Sparrow", "Summit", "Thistle", "Timber", "Tower", "Tribune",
    "Valley", "Willow",
)  # fmt: skip


def draw_new_words(rng: np.random.Generator) -> dict[str, str]:
    """A different word for each word of the sources' names; some names swap words."""
    words = (*_NAME_WORDS, *_NEW_WORDS)
    indices = rng.permutation(len(words))[: len(_NAME_WORDS)]
    return {old: words[i] for old, i in zip(_NAME_WORDS, indices, strict=True)}


def rename_sources(text: str, new_words: Mapping[str, str]) -> str:
    """The text with new words in all names of sources."""
    if not new_words:
        return text
    return _NAME.sub(lambda name: _CAPITALIZED.sub(lambda word: new_words.get(word[0], word[0]), name[0]), text)


def rename_source_of(document: _Document, new_words: Mapping[str, str]) -> _Document:
    """The document with the new name of its source in its metadata."""
    metadata = {**document.metadata, "source": rename_sources(str(document.metadata["source"]), new_words)}
    return replace(document, metadata=metadata)
