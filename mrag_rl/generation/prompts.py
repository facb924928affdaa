"""Prompts and their templates: everything that a language model is shown, per task.

The modules that build prompts (`writer`, `stories`, `fusion_prompts`, `filter_prompts`) decide which texts go into one;
the words around the texts are all here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import get_args

from mrag_rl.choices import MetricName
from mrag_rl.errors import InputError
from mrag_rl.plugins import Plugin, is_import_path, loaded_plugin, wrong_plugin


@dataclass(frozen=True)
class Prompt:
    """A text to answer, with demonstrations before it.

    Attributes:
        task: The name of its template; see `template`.
        query: The text to answer.
        demonstrations: (source, target) pairs, shown in this order.
    """

    task: str
    query: str
    demonstrations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Template:
    """The words around a task's texts.

    Attributes:
        source: Label of the given text.
        target: Label of the text to write.
        instruction: The line that a chat model reads first; plain completion models get none.
        keep: The end of a text, "head" or "tail", that is kept when a prompt outgrows the model's context.
    """

    source: str
    target: str
    instruction: str
    keep: str = "head"


@dataclass(frozen=True)
class OwnTask(Template):
    """A task of the user's own, which the setting `task` names by import path (docs/plugins.md).

    Attributes:
        stop: Strings that end a text, in addition to those of `llm.stop`.
        metrics: Names of further metrics that results report, beside that of the setting `metric`.
    """

    stop: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


MOST_QUERIES = 8
"""The most search queries that a prompt requests."""

SEPARATOR = "||"
"""Between the search queries in a line: a completion model's text ends with its line, and a single bar occurs in the
names of news sources."""

ANSWER_TASK = "answer from passages"
NO_ANSWER = "Insufficient information."
"""The answer to a question that the passages do not answer, in MultiHop-RAG (Tang and Yang 2024), too."""
FILTER_TASK = "filter"
RETRIEVE_TASK, RELEVANCE_TASK = "retrieve or not", "relevance"
SUPPORT_TASK, USEFULNESS_TASK = "support", "usefulness"
"""Yes-or-no judgements in the place of Self-RAG's reflection tokens; see `mrag_rl.generation.critic`."""
READER_TASK = "reader"
STORY_TASK = "story"


_LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"


def query_task(n: int) -> str:
    """The name of the task of writing n search queries, 1 to `MOST_QUERIES`."""
    return f"{n} search {'queries' if n > 1 else 'query'}"


def translation(source: str, target: str) -> str:
    """The name of the task of translating between two languages: "translation from German to English"."""
    return f"translation from {source} to {target}"


def _translation_template(source: str, target: str) -> Template:
    instruction = f"Translate the {source} text into {target} with the examples' wording. Write the {target} only."
    return Template(source, target, instruction)


def _query_template(n: int) -> Template:
    goal = f"Write {query_task(n)} to find what answers the question"
    form = f", each from another side. Write them in one line with {SEPARATOR} between them" if n > 1 else ""
    return Template("Question", query_task(n).capitalize(), f"{goal}{form}. Write nothing else.")


TEMPLATES: Mapping[str, Template] = MappingProxyType(
    {
        "summarization": Template(
            "Article",
            "Summary",
            "Summarize the article in the style of the example summaries. Write the summary only.",
        ),
        "translation": _translation_template("English", "German"),
        "dialogue": Template(
            "Dialogue",
            "Reply",
            "Write the next reply in the style of the example replies. Write the reply only.",
            keep="tail",
        ),
        "question_answering": Template(
            "Question",
            "Answer",
            "Answer the question in as few words as the example answers. Write the answer only.",
        ),
        STORY_TASK: Template(
            "Articles",
            "Story",
            "Invent one connected story that draws on all of these articles. Give every article at least two sentences "
            "that use what it says, and call it by its full title once. Leave none out; their order is up to you. "
            "Write the story only, as running text in a single paragraph, without a heading or a list.",
        ),
        READER_TASK: Template(
            "Question and articles",
            "Answer",
            "Answer the question from the numbered articles, each of which may cover another side of it. Say what each "
            "article contributes and name the article you take a fact from; weigh them where they differ, pass over "
            "those that do not bear on the question, and add nothing that none of them says. Be clear and brief.",
        ),
        FILTER_TASK: Template(
            "Question",
            "Filter",
            "Write the metadata filter that each question names, as one JSON object on one line and nothing else. Use "
            "only the fields and values of the first answer, and the operators $in, $nin, $eq, $ne, $gt, $gte, $lt, "
            "$lte, $and, $or. Write {} for a question that names none.",
            keep="tail",
        ),
        RETRIEVE_TASK: Template(
            "Text", "Examples help", "Say whether seeing examples would help to answer the text. Write yes or no only."
        ),
        RELEVANCE_TASK: Template(
            "Text and example", "Relevant", "Say whether the example is relevant to the text. Write yes or no only."
        ),
        SUPPORT_TASK: Template(
            "Example and answer", "Supported", "Say whether the example supports the answer. Write yes or no only."
        ),
        USEFULNESS_TASK: Template(
            "Text and answer", "Useful", "Say whether the answer is a good one to the text. Write yes or no only."
        ),
        **{query_task(n): _query_template(n) for n in range(1, MOST_QUERIES + 1)},
        ANSWER_TASK: Template(
            "Question",
            "Answer",
            "Answer the question from the passages, in as few words as you can. It is this question that counts; the "
            "related queries only say what else it may mean. Behind each sentence put the numbers of the passages that "
            f"state it in brackets, as in [2]. Where the passages do not tell, answer: {NO_ANSWER}",
        ),
    }
)
"""The templates by task; read-only. Those of other translations are made by `template`."""


def template(task: str) -> Template:
    """The template of a task: a key of `TEMPLATES`, a translation task as named by `translation`, or an import path.

    Raises InputError for an import path that has not been loaded.
    """
    if is_import_path(task):
        return own_task(task)
    if task.startswith("translation from "):
        source, target = task.removeprefix("translation from ").split(" to ")
        return _translation_template(source, target)
    return TEMPLATES[task]


TASK_FORM = 'OwnTask("Question", "Answer", "Answer the question.", stop=("?",), metrics=("f1",)), of mrag_rl.generation'


def own_task(path: str) -> OwnTask:
    """A task of the user's own that has been loaded. Raises InputError if it has not."""
    found: OwnTask = loaded_plugin(path).value
    return found


def check_task(plugin: Plugin) -> None:
    """Raises InputError that shows what is wanted if a plug-in is no usable task."""
    task = plugin.value
    if not isinstance(task, OwnTask):
        raise wrong_plugin(plugin, f"it is {type(task).__name__}", TASK_FORM)
    texts, lists = (task.source, task.target, task.instruction), (task.stop, task.metrics)
    if not all(isinstance(text, str) and text.strip() and len(text.splitlines()) == 1 for text in texts):
        raise wrong_plugin(plugin, "a label or the instruction is not one line of text", TASK_FORM)
    if task.source == task.target or task.keep not in ("head", "tail"):
        problem = "both labels are the same" if task.source == task.target else f"keep is {task.keep!r}"
        raise wrong_plugin(plugin, f"{problem}; give two labels, and head or tail", TASK_FORM)
    if not all(isinstance(names, tuple) and all(isinstance(name, str) and name for name in names) for names in lists):
        raise wrong_plugin(plugin, "stop and metrics are not tuples of texts", TASK_FORM)
    if unknown := set(task.metrics) - set(get_args(MetricName)):
        problem = f"metrics has {min(unknown)!r}; choose from {', '.join(get_args(MetricName))}"
        raise wrong_plugin(plugin, problem, TASK_FORM)


def render(prompt: Prompt) -> str:
    """The prompt as plain text for completion models; the completion starts with a space and ends at a newline.

    No text can begin a part of its own: see `quoted`.
    """
    form = template(prompt.task)
    labels = (form.source, form.target)
    shots = "".join(
        f"{form.source}: {quoted(source, labels)}\n{form.target}: {quoted(target, labels)}\n\n"
        for source, target in prompt.demonstrations
    )
    return f"{shots}{form.source}: {quoted(prompt.query, labels)}\n{form.target}:"


def quoted(text: str, labels: Sequence[str]) -> str:
    """A text to put behind a label, in which each later line that begins as a label does has a bar before it.

    So a memory whose target has such lines cannot pass for several demonstrations. Other texts stay as they are.
    """
    if ":" not in text:
        return text
    names = "|".join(map(re.escape, labels))
    return re.sub(rf"(?<=[{_LINE_ENDS}])(?=(?:\| )*[ \t]*(?:{names})[ \t]*:)", "| ", text, flags=re.IGNORECASE)


def control_tokens(names: Iterable[str]) -> re.Pattern[str] | None:
    """What finds the names of a tokenizer's control tokens, such as <eos>, in a text; None if there are none."""
    distinct = sorted({name for name in names if len(name.strip()) > 1}, key=lambda name: (-len(name), name))
    return re.compile("|".join(map(re.escape, distinct))) if distinct else None


def defused(text: str, tokens: re.Pattern[str] | None) -> str:
    """A text in which the name of a control token is a few characters as others are, with a space inside."""
    return text if tokens is None else tokens.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


def defused_prompt(prompt: Prompt, tokens: re.Pattern[str] | None) -> Prompt:
    """A prompt of such texts."""
    if tokens is None:
        return prompt
    shown = tuple((defused(source, tokens), defused(target, tokens)) for source, target in prompt.demonstrations)
    return replace(prompt, query=defused(prompt.query, tokens), demonstrations=shown)


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat turns: demonstrations are earlier turns, and the instruction opens the first user turn.

    There is no system turn because several chat templates (Mistral's, Gemma's) have none.
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
    not push out the query. Each keeps its head or tail, as its template says.
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


def make_room(prompt: Prompt, length: Callable[[Prompt], int], context: int, room: int) -> Prompt:
    """The prompt, shortened so that it leaves `room` for so many new tokens in a context of so many tokens.

    Raises InputError if there is no room even without its sources. length: a prompt's tokens, as for `shorten`.
    """
    short = shorten(prompt, length, context - room)
    count = length(short)
    if count > context - room:
        raise InputError(
            f"a prompt of {count} tokens leaves no room for {room} new ones in the LLM's context of {context}; lower "
            "max_new_tokens or shorten the memories' targets"
        )
    return short
