"""What answers a form: a run's trained agents, or questions from documents; both by the code of `ask`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mrag_rl.choices import ARM_NAMES
from mrag_rl.errors import InputError
from mrag_rl.experiments.questions import Session, models_of
from mrag_rl.experiments.settings import QuestionSettings
from mrag_rl.memory import MemoryDatabase
from mrag_rl.report import Partition
from mrag_rl.runs.ask import Scope, answering
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.plugins import TO_ANSWER, load_trusted_plugins
from mrag_rl.runs.trained import open_trained
from mrag_rl.runs.ui_settings import UISettings

ORIGINS = ("own", "given", "off")
MOST_CHARACTERS = 20_000
"""Of a text."""


@dataclass(frozen=True)
class Form:
    """What somebody asks.

    Attributes:
        text: the text to answer, or the question.
        allowed: names of the partitions or categories that may be read; None is all that the desk allows.
        filter_is: `own`: read from the question, if it is one; `given`: `filter`, JSON; `off`: none.
        queries_are: `own`: written by the language model; `given`: `queries`, a line each; `off`: none.
    """

    text: str = ""
    allowed: tuple[str, ...] | None = None
    filter_is: str = "own"
    filter: str = ""
    queries_are: str = "own"
    queries: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> Form:
        """A form from a browser's fields; nothing is ticked that may be read if there is no field `allowed`."""
        last = {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}
        names = ("text", "filter_is", "filter", "queries_are", "queries")
        return cls(allowed=tuple(fields.get("allowed", ())), **{name: last[name] for name in names if name in last})

    def check(self) -> None:
        """Raises InputError if there is no text, it is too long, or a choice is none of those there are."""
        for name in ("filter_is", "queries_are"):
            if getattr(self, name) not in ORIGINS:
                raise InputError(f"{name} is {getattr(self, name)}; it must be one of {', '.join(ORIGINS)}")
        if not self.text.strip():
            raise InputError("there is no text to answer; write one")
        if len(self.text) > MOST_CHARACTERS:
            raise InputError(f"the text has {len(self.text):,} characters; give {MOST_CHARACTERS:,} or fewer")


class Desk(ABC):
    """Answers forms, one at a time and in the thread that opened it.

    Attributes:
        template: of its page. title: its heading.
        allowed: names of partitions or categories that may be read, None for all; nobody gets any other.
        names: these, in order.
    """

    template: str
    title: str
    allowed: tuple[str, ...] | None
    names: Sequence[str]

    def answer(self, form: Form) -> tuple[Form, dict[str, Any]]:
        """The form with what was read and written for it filled in, to be edited, and the answer for the template.

        Raises InputError for a form that does not hold, for a name that may not be read, whether it exists or not, and
        as `ask` does.
        """
        form.check()
        for name in form.allowed or ():
            if name not in self.names:
                raise InputError(f"{name!r} is none of those that may be read here")
        narrowed = form.allowed is not None and set(form.allowed) < set(self.names)
        return self._answered(form, form.allowed if narrowed else self.allowed)

    @abstractmethod
    def _answered(self, form: Form, allowed: tuple[str, ...] | None) -> tuple[Form, dict[str, Any]]:
        """As `answer`, for names that may be read; None is all there are."""


@dataclass(frozen=True)
class RunDesk(Desk):
    """The trained agents of a run."""

    template = "run.html"
    title: str
    allowed: tuple[str, ...] | None
    names: Sequence[str]
    database: MemoryDatabase
    answer_in: Callable[[Sequence[str], Scope], list[dict[str, Any]]]

    def _answered(self, form: Form, allowed: tuple[str, ...] | None) -> tuple[Form, dict[str, Any]]:
        if form.allowed is not None and self._offered - {*form.allowed}:
            # Every memory belongs to it, those of the partitions that were left out, too
            allowed = tuple(name for name in allowed or () if name != ARM_NAMES["whole"])
            form = replace(form, allowed=allowed)
        scope = Scope.of(self.database, allowed, form.filter.strip() or None)
        (found,) = self.answer_in([form.text], scope)
        return form, {
            "answer": found,
            "partitions": [_partition(row, found["partition"]) for row in found["partitions"]],
        }

    @property
    def _offered(self) -> set[str]:
        """The names that are partitions, not arms."""
        database = self.database
        return {name for name, arm in zip(database.names, database.is_arm, strict=True) if not arm} & {*self.names}


def _partition(row: Mapping[str, Any], chosen: str | None) -> Partition:
    similarities = row["similarities"] if None not in row["similarities"] else None
    return Partition(
        row["name"], row["memories"], row["q_value"], row["expected_gain"], similarities, row["name"] == chosen
    )


@dataclass(frozen=True)
class DocumentsDesk(Desk):
    """Documents, searched and read for questions."""

    template = "documents.html"
    title: str
    allowed: tuple[str, ...] | None
    names: Sequence[str]
    session: Session

    @property
    def has_llm(self) -> bool:
        """Whether a language model writes further queries and the answer."""
        return self.session.system.reader is not None

    def _answered(self, form: Form, allowed: tuple[str, ...] | None) -> tuple[Form, dict[str, Any]]:
        queries = tuple(filter(None, map(str.strip, form.queries.splitlines())))
        if form.queries_are == "given" and not queries:
            raise InputError("there are no further queries; write some, a line each, or choose another setting")
        if form.filter_is == "given" and not form.filter.strip():
            raise InputError("there is no filter; write one, or choose another setting")
        found = self.session.changed(
            text=form.text,
            allowed=allowed,
            filter=form.filter if form.filter_is == "given" else None,
            no_filter=form.filter_is == "off",
            queries=0 if form.queries_are == "off" else None,
            query=queries if form.queries_are == "given" else None,
        ).answer(form.text)
        condition = json.dumps(found["filter"], ensure_ascii=False) if found["filter"] else ""
        if form.filter_is != "given":
            form = replace(form, filter=condition)
        if form.queries_are != "given":
            form = replace(form, queries="\n".join(found["queries"][1:]))
        return form, {"answer": found, "filter": condition}


@contextmanager
def open_desk(settings: UISettings) -> Iterator[Desk]:
    """The desk that the settings name, with its models loaded. Raises InputError as `ask` does."""
    if settings.run is None:
        questions = QuestionSettings(
            documents=settings.documents, index=settings.index, allowed=settings.allowed, strategy=settings.strategy,
            reranker=settings.reranker, llm=settings.llm, encoder=settings.encoder, device=settings.device,
        )  # fmt: skip
        session = Session.open(questions, models_of(questions))
        library = session.system.retriever.library
        library.readable(categories=settings.allowed)  # raises InputError for an unknown one
        names = library.categories if settings.allowed is None else sorted(set(settings.allowed))
        name = Path(settings.documents or settings.index or "").name
        yield DocumentsDesk(f"Documents {name}", settings.allowed, names, session)
        return
    folder = RunFolder(Path(settings.run))
    config = folder.load_config()
    load_trusted_plugins(config, settings.trust, TO_ANSWER, folder.root)
    with open_trained(folder) as trained:
        scope = Scope.of(trained.database, settings.allowed)
        names = [trained.database.names[index] for index in scope.listed]
        with answering(trained, folder, config) as answer_in:
            yield RunDesk(f"Run {config.name}", settings.allowed, names, trained.database, answer_in)
