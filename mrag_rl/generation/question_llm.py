"""Loading the language model that reads questions: it writes filters, search queries and answers."""

from __future__ import annotations

from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.models.bundled import NEWS_QUESTION_LLM


def load_question_llm(name: str | None, device: str = "cpu") -> TransformersLLM | None:
    """The language model that `--llm` names: "bundled", a folder or a hub name; None for None and "none".

    "bundled" is `NEWS_QUESTION_LLM`, which knows the bundled news alone. Raises InputError if it cannot be loaded.
    """
    if name in (None, "none"):
        return None
    return TransformersLLM.load(NEWS_QUESTION_LLM if name == "bundled" else name, device=device)
