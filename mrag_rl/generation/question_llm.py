"""The language model that reads questions: writes filters, search queries and answers."""

from __future__ import annotations

from pathlib import Path

from mrag_rl.generation.transformers_llm import TransformersLLM

BUNDLED_QUESTION_LLM = Path(__file__).parents[1] / "data" / "question_llm"
"""The folder of the one that comes with the package; it knows the bundled news alone."""


def load_question_llm(name: str | None, device: str = "cpu") -> TransformersLLM | None:
    """The language model of ``--llm``: bundled, a folder or a hub name; None for None and "none". Raises InputError."""
    if name in (None, "none"):
        return None
    return TransformersLLM.load(BUNDLED_QUESTION_LLM if name == "bundled" else name, device=device)
