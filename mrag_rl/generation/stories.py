"""The prompts of multi-aspect data: stories around several documents, which are its queries, and their answers.

Source: Multi-Head RAG: Solving Multi-Aspect Problems with LLMs, Section 3 (the later version: Section 4, Appendix D).
`write_stories` lets a language model write the query texts; `reader_prompt` shows retrieved documents to the model that
answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import Document, Query
from mrag_rl.data.titles import mentions
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import READER_TASK, STORY_TASK, Prompt

MIN_STORY = 100
"""Characters that a story must have in addition to the titles; with fewer it is a mere list of them."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A query whose story never passed the check: its documents' ids, and what the last attempt lacked."""

    relevant: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class Stories:
    """The queries written, each with its number of attempts in `metadata`, and the queries dropped."""

    queries: list[Query]
    dropped: list[Dropped]


def write_stories(
    llm: LLM,
    drawn: Sequence[Sequence[Document]],
    *,
    seed: int = 0,
    attempts: int = 3,
    temperature: float = 0.7,
    max_new_tokens: int = 1024,
    first: int = 0,
) -> Stories:
    """Have a language model write each query's text: a story around its documents that mentions every title.

    A story that fails the check (`story_problem`) is written again with another seed; one that still fails after
    `attempts` is dropped and reported. All stories of one attempt go to the model together.

    Args:
        llm: The language model that writes.
        drawn: The documents of each query, as `draw_aspects` gives them.
        seed: Of the whole call; each attempt has a seed of its own, derived from it.
        temperature, max_new_tokens: As for `LLM.generate`.
        attempts: The maximum number of attempts at one story.
        first: The number of the first query, for writing a dataset in several calls.

    Returns:
        The queries, in order. With `first` 0, query `q7` is about `drawn[7]` even if an earlier one was dropped.

    Raises:
        InputError: A document has no title, `attempts` is below 1, or `temperature` is not above 0.
    """
    if attempts < 1 or temperature <= 0:
        raise InputError(
            f"{attempts} attempts at temperature {temperature} write no story; give at least 1 and more than 0"
        )
    prompts = [story_prompt(documents) for documents in drawn]
    written: dict[int, Query] = {}
    problems: dict[int, str] = {}
    for attempt in range(attempts):
        unwritten = [i for i in range(len(drawn)) if i not in written]
        if not unwritten:
            break
        attempt_seed = int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0])
        texts = llm.generate(
            [prompts[i] for i in unwritten], temperature=temperature, seeds=attempt_seed, max_new_tokens=max_new_tokens
        )
        for i, (text,) in zip(unwritten, texts, strict=True):
            problem = story_problem(text, drawn[i])
            if problem:
                problems[i] = problem
                continue
            ids = tuple(document.id for document in drawn[i])
            written[i] = Query(f"q{first + i}", text.strip(), ids, metadata={"attempts": attempt + 1})
    dropped = [
        Dropped(tuple(document.id for document in drawn[i]), problems[i]) for i in range(len(drawn)) if i not in written
    ]
    return Stories([written[i] for i in sorted(written)], dropped)


def story_prompt(documents: Sequence[Document]) -> Prompt:
    """A prompt for a story around documents: their titles, then each article under its title.

    The titles come first because a text that outgrows the model's context loses its end. Raises InputError for a
    document without a title.
    """
    for document in documents:
        if not document.title.strip():
            raise InputError(f'document "{document.id}" has no title; give it one, because its story has to mention it')
    titles = "; ".join(document.title.strip() for document in documents)
    articles = "\n\n".join(f"{document.title.strip()}\n{document.text.strip()}" for document in documents)
    return Prompt(STORY_TASK, f"{len(documents)} titles to mention: {titles}\n\n{articles}")


def reader_prompt(question: str, documents: Sequence[Document]) -> Prompt:
    """A prompt for the answer to a question from retrieved documents, each in a numbered section, best first.

    A section has title, category and metadata, if they are known. The question and the best documents come first
    because a text that outgrows the model's context loses its end.
    """
    sections = []
    for number, document in enumerate(documents, start=1):
        about = [document.category] if document.category else []
        about += [f"{key}: {value}" for key, value in document.metadata.items()]
        head = f"{number}. {document.title}".rstrip() + (f"\n[{'; '.join(about)}]" if about else "")
        sections.append(f"{head}\n{document.text.strip()}")
    return Prompt(READER_TASK, "\n\n".join([question.strip(), *sections]))


def story_problem(story: str, documents: Sequence[Document]) -> str:
    """Why a text is not a story around these documents (titles missing, too short), or "" if it is one."""
    missing = [document.title for document in documents if not mentions(story, document.title)]
    if missing:
        return f"{len(missing)} of {len(documents)} titles missing: {'; '.join(missing)}"
    characters = len(story.strip()) - sum(len(document.title) for document in documents)
    return "" if characters >= MIN_STORY else f"{max(characters, 0)} characters besides the titles, not {MIN_STORY}"
