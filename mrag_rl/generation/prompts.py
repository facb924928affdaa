"""The prompts: one readable place for what the LLM is shown, per task."""

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Prompt:
    """A text to answer, with the retrieved memories shown before it.

    Attributes:
        task: A key of `TEMPLATES`.
        query: The text to answer.
        demonstrations: (source, target) pairs, shown in this order.
    """

    task: str
    query: str
    demonstrations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Template:
    """How a task names its two sides, and what a chat model is told.

    Attributes:
        source: Label of the given text.
        target: Label of the wanted text.
        instruction: The line that a chat model reads first; plain completion models get none.
        keep: The end of a text that is kept when a prompt outgrows the model's context.
    """

    source: str
    target: str
    instruction: str
    keep: str = "head"


TEMPLATES: dict[str, Template] = {
    "summarization": Template(
        "Article", "Summary", "Summarize the article in the style of the example summaries. Write the summary only."
    ),
    "translation": Template(
        "English", "German", "Translate the English text into German with the examples' wording. Write the German only."
    ),
    "dialogue": Template(
        "Dialogue",
        "Reply",
        "Write the next reply in the style of the example replies. Write the reply only.",
        keep="tail",
    ),
}


def render(prompt: Prompt) -> str:
    """The prompt as plain text for completion models; the completion starts with a space and ends at a newline."""
    template = TEMPLATES[prompt.task]
    shown = "".join(
        f"{template.source}: {source}\n{template.target}: {target}\n\n" for source, target in prompt.demonstrations
    )
    return f"{shown}{template.source}: {prompt.query}\n{template.target}:"


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat turns: demonstrations are earlier turns, the instruction opens the first user turn.

    Not a system turn, because several chat templates (Mistral's, Gemma's) have none.
    """
    template = TEMPLATES[prompt.task]
    turns: list[dict[str, str]] = []
    for source, target in prompt.demonstrations:
        turns.append({"role": "user", "content": f"{template.source}: {source}"})
        turns.append({"role": "assistant", "content": target})
    turns.append({"role": "user", "content": f"{template.source}: {prompt.query}"})
    turns[0]["content"] = f"{template.instruction}\n\n{turns[0]['content']}"
    return turns


def shorten(prompt: Prompt, length: Callable[[Prompt], int], limit: int) -> Prompt:
    """The prompt with its longest sources cut until `length(prompt) <= limit` tokens, targets untouched.

    All sources get the same cap in words, the largest that fits (found by bisection), so that a long demonstration does
    not push out the query. Each keeps its head or tail as its template says.
    """
    if length(prompt) <= limit:
        return prompt
    keep = TEMPLATES[prompt.task].keep

    def capped(words: int) -> Prompt:
        def cut(text: str) -> str:
            parts = text.split(" ")
            if len(parts) <= words:
                return text
            return " ".join(parts[:words] if keep == "head" else parts[len(parts) - words :])

        demonstrations = tuple((cut(source), target) for source, target in prompt.demonstrations)
        return replace(prompt, query=cut(prompt.query), demonstrations=demonstrations)

    sources = [prompt.query, *(source for source, _ in prompt.demonstrations)]
    low, high = 0, max(len(source.split(" ")) for source in sources)
    while low < high:
        middle = (low + high + 1) // 2
        if length(capped(middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return capped(low)
