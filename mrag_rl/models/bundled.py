"""The two language models that come with the package; each knows one of the bundled worlds."""

from __future__ import annotations

from pathlib import Path

_DATA = Path(__file__).parents[1] / "data"

NEWSROOM_LLM = _DATA / "llm"
"""Folder of the model that runs train with (`llm.name: bundled`): summaries, translations, replies of the newsroom."""

NEWS_QUESTION_LLM = _DATA / "question_llm"
"""Folder of the model that reads questions (`--llm bundled`): filters, search queries, answers about the news."""
