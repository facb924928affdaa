"""What the bundled news is about: publications, and six kinds of event with the claims that reports make about them.

In sentences `{org}` is the organisation that the event is about and `{v}` the value claimed; `{person}`, `{place}`,
`{place2}`, `{day}` and `{n}` (a number) are drawn for each sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mrag_rl.data.synthetic.data_files import load
from mrag_rl.data.synthetic.names import names


@dataclass(frozen=True, slots=True)
class Source:
    """A publication.

    Attributes:
        name: Its name in the metadata.
        short_names: Other names that questions use; a name that two sources share stands for both.
        category: The one category that it covers, "" for all.
    """

    name: str
    short_names: tuple[str, ...] = ()
    category: str = ""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Values that are numbers: `form` filled with every `step`-th number from `first` to `last`."""

    form: str
    first: int
    last: int
    step: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that reports say of an event, each with a value of its own.

    Attributes:
        topic: What it is about, a noun phrase: "the price that {org} pays for its rival".
        predicate: The claim as a predicate: "pays {v} for its rival".
        sentences: Sentences of an article, without the full stop.
        values: What `{v}` may be. The file lists the values, or says how to make them:
        numbers: they are numbers; or
        names: they are all "places", or 200 "people".
    """

    topic: str
    predicate: str
    sentences: tuple[str, ...]
    values: tuple[str, ...] = ()
    numbers: Numbers | None = None
    names: str = ""

    def __post_init__(self) -> None:
        if self.numbers is not None:
            numbers = range(self.numbers.first, self.numbers.last + 1, self.numbers.step)
            object.__setattr__(self, "values", tuple(self.numbers.form.format(number) for number in numbers))
        elif self.names == "places":
            object.__setattr__(self, "values", names().places)
        elif self.names == "people":
            people = (f"{first} {last}" for first in names().first_names for last in names().last_names[::3])
            object.__setattr__(self, "values", tuple(people))
        if not self.values:
            raise ValueError(f'no values for "{self.topic}"')


@dataclass(frozen=True, slots=True)
class EventType:
    """A kind of event, the only one in its category.

    Attributes:
        category: The category of its articles.
        noun: What the organisation is: "company".
        suffixes: Last words of the organisation's name.
        titles, leads: Titles and first sentences of articles.
        claims: What reports may claim.
        background: Other sentences about the organisation.
    """

    category: str
    noun: str
    suffixes: tuple[str, ...]
    titles: tuple[str, ...]
    leads: tuple[str, ...]
    claims: tuple[Claim, ...]
    background: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewsWords:
    """The contents of `news_events.json`.

    Attributes:
        sources: The publications.
        event_types: The kinds of event.
        title_endings: What may follow a title.
        follow_up_leads: First sentences of a source's second report.
        attributions: Where a claim comes from; follows its sentence.
        common: What any report may say.
    """

    sources: tuple[Source, ...]
    event_types: tuple[EventType, ...]
    title_endings: tuple[str, ...]
    follow_up_leads: tuple[str, ...]
    attributions: tuple[str, ...]
    common: tuple[str, ...]


@cache
def news_words() -> NewsWords:
    """Publications, kinds of event and their sentences, read once. Raises InputError if the file is damaged."""
    return load("news_events.json", NewsWords)


@cache
def source_names() -> dict[str, tuple[str, ...]]:
    """Every name that questions use for sources, with the full names of the sources that it stands for."""
    sources = news_words().sources
    every_name = dict.fromkeys(name for source in sources for name in (source.name, *source.short_names))
    return {
        name: tuple(source.name for source in sources if name in (source.name, *source.short_names))
        for name in every_name
    }
