"""The prompts: one readable place for what the LLM is shown, per task."""

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Prompt:
    """A text to answer, with the retrieved memories shown before it.

    Attributes:
        task: What `template` takes.
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


def _translation(source: str, target: str) -> Template:
    wish = f"Translate the {source} text into {target} with the examples' wording. Write the {target} only."
    return Template(source, target, wish)


TEMPLATES: dict[str, Template] = {
    "summarization": Template(
        "Article", "Summary", "Summarize the article in the style of the example summaries. Write the summary only."
    ),
    "translation": _translation("English", "German"),
    "dialogue": Template(
        "Dialogue",
        "Reply",
        "Write the next reply in the style of the example replies. Write the reply only.",
        keep="tail",
    ),
    "story": Template(
        "Articles",
        "Story",
        "Invent one connected story that draws on all of these articles. Give every article at least two sentences "
        "that use what it says, and call it by its full title once. Leave none out; their order is up to you. Write "
        "the story only, as running text in a single paragraph, without a heading or a list.",
    ),
    "reader": Template(
        "Question and articles",
        "Answer",
        "Answer the question from the numbered articles, each of which may cover another side of it. Say what each "
        "article contributes and name the article you take a fact from; weigh them where they differ, pass over those "
        "that do not bear on the question, and add nothing that none of them says. Be clear and brief.",
    ),
    "filter": Template(
        "Question",
        "Filter",
        "Write the metadata filter that each question names, as one JSON object on one line and nothing else. Use only "
        "the fields and values of the first answer, and the operators $in, $nin, $eq, $ne, $gt, $gte, $lt, $lte, $and, "
        "$or. Write {} for a question that names none.",
        keep="tail",
    ),
}


def template(task: str) -> Template:
    """The template of `task`: a key of `TEMPLATES`, or "translation" with its languages, as `translation` names it."""
    if task.startswith("translation from "):
        source, target = task.removeprefix("translation from ").split(" to ")
        return _translation(source, target)
    return TEMPLATES[task]


def translation(source: str, target: str) -> str:
    """The task of translating between two languages: "translation from German to English"."""
    return f"translation from {source} to {target}"


def render(prompt: Prompt) -> str:
    """The prompt as plain text for completion models; the completion starts with a space and ends at a newline."""
    form = template(prompt.task)
    shown = "".join(f"{form.source}: {source}\n{form.target}: {target}\n\n" for source, target in prompt.demonstrations)
    return f"{shown}{form.source}: {prompt.query}\n{form.target}:"


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat turns: demonstrations are earlier turns, the instruction opens the first user turn.

    Not a system turn, because several chat templates (Mistral's, Gemma's) have none.
    """
    form = template(prompt.task)
    turns: list[dict[str, str]] = []
    for source, target in prompt.demonstrations:
        turns.append({"role": "user", "content": f"{form.source}: {source}"})
        turns.append({"role": "assistant", "content": target})
    turns.append({"role": "user", "content": f"{form.source}: {prompt.query}"})
    turns[0]["content"] = f"{form.instruction}\n\n{turns[0]['content']}"
    return turns


def shorten(prompt: Prompt, length: Callable[[Prompt], int], limit: int) -> Prompt:
    """The prompt with its longest sources cut until `length(prompt) <= limit` tokens, targets untouched.

    All sources get the same cap in words, the largest that fits (found by bisection), so that a long demonstration does
    not push out the query. Each keeps its head or tail as its template says.
    """
    if length(prompt) <= limit:
        return prompt
    keep = template(prompt.task).keep

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
