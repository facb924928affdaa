"""The reflection tokens of a language model that Self-RAG trained (Asai et al., 2023, arXiv:2310.11511, Table 1).

Such a model, selfrag/selfrag_llama2_7b for one, reads prompts in a form of its own, with what was retrieved between
tags, and writes what it thinks of it as tokens: whether to retrieve, whether the passage is relevant and supports the
answer, and how useful that is.
"""

from __future__ import annotations

from collections.abc import Container

from mrag_rl.generation.prompts import Prompt, quoted, template

RETRIEVE = ("[Retrieval]", "[No Retrieval]")
RELEVANCE = ("[Relevant]", "[Irrelevant]")
SUPPORT = ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")
USEFULNESS = ("[Utility:1]", "[Utility:2]", "[Utility:3]", "[Utility:4]", "[Utility:5]")
_PARAGRAPH = ("<paragraph>", "</paragraph>")
_CONTINUE = "[Continue to Use Evidence]"
TOKENS = (*RETRIEVE, _CONTINUE, *RELEVANCE, *SUPPORT, *USEFULNESS, *_PARAGRAPH)
ENDS = (RETRIEVE[0], *USEFULNESS, _PARAGRAPH[0])
"""With these an answer ends: it is judged as a whole, and what is retrieved is in the prompt."""


def reflects(special: Container[str]) -> bool:
    """Whether all reflection tokens are among a tokenizer's special tokens."""
    return all(token in special for token in TOKENS)


def render(prompt: Prompt, *, decided: bool = True) -> str:
    """A prompt as such a model reads it: instruction and input, and the demonstrations as one retrieved paragraph.

    Inputs are below their instruction, as in Self-RAG's own evaluations.

    decided: end a prompt without demonstrations by the token that says that nothing is retrieved.
    """
    form = template(prompt.task)
    labels = (form.source, form.target, "### Instruction", "## Input", "### Response")
    query = quoted(f"\n{prompt.query}", labels)  # its first line, too, could pass for a part of the prompt
    asked = f"### Instruction:\n{form.instruction}\n\n## Input:\n{query}\n\n### Response:\n"
    if not prompt.demonstrations:
        return asked + RETRIEVE[1] * decided
    shown = "\n\n".join(
        f"{form.source}: {quoted(source, labels)}\n{form.target}: {quoted(target, labels)}"
        for source, target in prompt.demonstrations
    )
    return f"{asked}{RETRIEVE[0]}{_PARAGRAPH[0]}{shown}{_PARAGRAPH[1]}"
