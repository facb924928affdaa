"""Training sequences about the bundled news, in the prompts that use them: filters, search queries and answers.

The text of a sequence is what `mrag_rl.generation.prompts.render` makes of the library's own prompts with the wanted
text behind it; its spans say which characters are learned, and with what weight.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mrag_rl.data.synthetic.news_kinds import KINDS
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from lm.training import Span
from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic.news import NAMED, NO_ANSWER, make_news
from mrag_rl.filters import FieldVocabulary, document_metadata, matches, parse_filter
from mrag_rl.filters.dates import find_dates
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.generation import LLM
from mrag_rl.generation.fusion_prompts import (
    ANSWER_TASK,
    MOST_QUERIES,
    QUESTION_AGAIN,
    SEPARATOR,
    answer_prompt,
    query_prompt,
)
from mrag_rl.generation.prompts import Prompt, render, template

TASKS = ("filter", "queries", "answer")
WORLDS, QUESTIONS = 8, 4000
PASSAGES = 6
_SHARES = (0.15, 0.1, 0.75)  # Of the tasks
# From a share of the training on: most passages, share of their sentences, questions about them.
_STAGES = ((0.0, 3, 0.25, 10), (0.85, PASSAGES, 1.0, 6))
_MORE = {"filter": 8, "queries": 3}  # Questions behind one prompt's examples: all but the last are examples of it too
_DATED = 0.5  # Share of the filters' questions that are drawn from those that name days: what is most often misread
_OF_EVENTS = 0.7  # Share of answers from passages about one or two events, for which there are many questions
_FACT_WEIGHT = 0.3  # Evidence in the passages is learned, too: the question foretells it, and so does other evidence
_PROMPT_WEIGHT = 0.05  # All else of a sequence: it teaches the news' language, which the wanted texts are few to teach
_RENAMED = 0.25  # Share of sequences in which sources go by names of our making, to be copied and not known by heart

SENTENCE_END = re.compile(r"(?<=[.?!]) ")
NEWS_DATA = f"the bundled news, split `llm`, {WORLDS} seeds of {QUESTIONS:,} questions, sources renamed in a quarter"
NEWS_LIMITS = (
    "It knows nothing but the bundled news: its six kinds of event, its places, people and forms of question.\n"
    "A corpus with other fields than source, category and published_at, other subjects or another wording is beyond it."
)

KINDS, NAMED = news_words().event_types, source_names()
_KINDS = {kind.category: kind for kind in KINDS}
_KEPT_WORDS = {"The", "And", "Of", "Business", "Technology", "Sport", "News"}
_WORD = re.compile(r"[A-Z][a-z]+")
_SOURCE_NAMES = sorted({form for name in NAMED for form in (name, name.removeprefix("The "))}, key=len, reverse=True)
_SOURCE_NAME = re.compile("|".join(map(re.escape, _SOURCE_NAMES)))
_SOURCE_WORDS = sorted({word for name in NAMED for word in _WORD.findall(name)} - _KEPT_WORDS)
_OTHER_WORDS = (
    "Anchor", "Arrow", "Aspen", "Banner", "Birch", "Bridge", "Cedar", "Chronicle", "Clarion", "Cobalt", "Comet",
    "Compass", "Coral", "Crane", "Delta", "Dispatch", "Dune", "Echo", "Ember", "Falcon", "Fern", "Forge", "Garnet",
    "Granite", "Gull", "Harbour", "Hazel", "Herald", "Heron", "Hollow", "Indigo", "Iron", "Island", "Ivory", "Juniper",
    "Keystone", "Lark", "Laurel", "Ledger", "Linden", "Maple", "Marble", "Meadow", "Meridian", "Mirror", "Monitor",
    "Observer", "Opal", "Osprey", "Pebble", "Pillar", "Pioneer", "Quarry", "Raven", "Record", "Ridge", "River",
    "Saffron", "Sentinel", "Silver", "Slate", "Sparrow", "Summit", "Thistle", "Timber", "Tower", "Tribune",
    "Valley", "Willow",
)  # fmt: skip


def text_of(prompt: Prompt, target: str, weight: float, first: int = 0) -> tuple[str, list[Span]]:
    """A prompt with the wanted text, and the spans of the answers of its demonstrations from number `first` on."""
    text = f"{render(prompt)} {target}"
    spans: list[Span] = []
    for i in range(first, len(prompt.demonstrations)):
        begin = render(replace(prompt, query=prompt.demonstrations[i][0], demonstrations=prompt.demonstrations[:i]))
        spans.append((len(begin), len(begin) + len(prompt.demonstrations[i][1]) + 2, weight))
    return text, [*spans, (len(text) - len(target) - 1, len(text) + 1, weight)]


# -- sources by other names ----------------------------------------------------------------------------------------


def other_names(rng: np.random.Generator) -> dict[str, str]:
    """New words for those that make up the sources' names."""
    words = (*_SOURCE_WORDS, *_OTHER_WORDS)
    drawn = rng.permutation(len(words))[: len(_SOURCE_WORDS)]
    return {old: words[i] for old, i in zip(_SOURCE_WORDS, drawn, strict=True)}


def renamed(text: str, words: Mapping[str, str]) -> str:
    """A text with its sources' names in other words."""
    if not words:
        return text
    return _SOURCE_NAME.sub(lambda name: _WORD.sub(lambda word: words.get(word[0], word[0]), name[0]), text)


def renamed_document(document: Document, words: Mapping[str, str]) -> Any:
    metadata = {**document.metadata, "source": renamed(str(document.metadata["source"]), words)}
    return replace(document, metadata=metadata)


# -- filters -------------------------------------------------------------------------------------------------------


def filter_target(query: Query) -> dict[str, Any]:
    """The query's filter with names and days in the order in which the question has them."""
    wanted = json.loads(json.dumps(query.metadata["filter"]))
    source = wanted["source"]
    (operator,) = source
    held = [found for name in _as_mentioned(query) for found in NAMED[name] if found in source[operator]]
    source[operator] = list(dict.fromkeys(held))
    days = wanted.get("published_at", {})
    if "$in" in days:
        days["$in"] = [found.day.isoformat() for found in find_dates(query.text)]
    return wanted


def evidence_of(query: Query) -> list[dict[str, Any]]:
    return list(query.metadata["evidence"])


def _as_mentioned(query: Query) -> list[str]:
    return sorted(query.metadata["about"]["names"], key=lambda name: query.text.find(name.removeprefix("The ")))


# -- search queries ------------------------------------------------------------------------------------------------


def search_queries(query: Query, n: int) -> list[str]:
    """`n` queries that a librarian would try: what is claimed in several wordings, side by side; then the event.

    They leave out who wrote it and when, for that is not in the articles' text.
    """
    about = query.metadata["about"]
    kind, org = _KINDS[about["category"]], about["organisation"]
    sides = [_wordings(kind, org, claim, value) for claim, value in about["claims"]]
    given = [(claim, value) for claim, value in about["claims"] if value is not None]
    if n == 1 and len(given) == 2:
        does = " and ".join(kind.claims[claim].predicate.format(v=value) for claim, value in given)
        return [f"{org} {does}" if org else f"{kind.noun} that {does}"]
    found = [side[i] for i in range(max(map(len, sides))) for side in sides if i < len(side)]
    if org:
        found += [form.format(org=org) for form in kind.titles if "{place}" not in form]
        found += [f"news of {org}", f"the {kind.noun} {org}", f"reports on {org}", f"what is known of {org}"]
    found = list(dict.fromkeys(found))[:n]
    if len(found) < n:
        raise AssertionError(f"{len(found)} queries for {query.text!r}")
    return found


def _wordings(kind: EventType, org: str, index: int, value: str | None) -> list[str]:
    claim = kind.claims[index]
    about = claim.topic.format(org=org)
    if value is None:
        return [about]
    words = {"org": org or f"the {kind.noun}", "person": "its head", "v": value}
    says = [form.format_map(words) for form in claim.sentences]
    does = claim.predicate.format(v=value)
    return [f"{org} {does}", *says, about] if org else [f"{kind.noun} that {does}", *says]


# -- answers -------------------------------------------------------------------------------------------------------


def answer_target(query: Query, passages: Sequence[Chunk]) -> str:
    """The answer that the passages allow.

    Where the question names the organisation, what is looked up in which source comes first, and what is found: one
    side at a time, for a small model cannot do it all at once.
    """
    metadata, about = query.metadata, query.metadata["about"]
    answer, org, names = metadata["answer"], about["organisation"], list(about["names"])
    evidence = [
        item
        if any(chunk.document == item["document"] and item["fact"] in chunk.text for chunk in passages)
        else {**item, "value": None}
        for item in evidence_of(query)
    ]
    if not org:
        claims = {item["claim"] for item in evidence if item["value"] is not None}
        told = evidence and all(claim in claims for claim, _ in about["claims"])
        return answer if told else NO_ANSWER
    ordered = metadata["question_type"] == "temporal" and about["claims"][0][1] is not None
    labels = [item["day"] for item in evidence] if len(names) == 1 and answer in ("Yes", "No") else names
    sides = ["none"] * len(labels)
    for i, item in enumerate(evidence[: len(labels)]):
        if item["value"] is not None:
            sides[i] = item["day"] if ordered else item["value"]
    if "none" in sides:
        answer = NO_ANSWER
    asked = [_KINDS[about["category"]].claims[claim].topic.format(org=org) for claim, _ in about["claims"]]
    order: Sequence[int] = range(len(labels))
    if len(names) == 2:
        order = [names.index(name) for name in _as_mentioned(query)]
    said = " ".join(f"{labels[i]}, {asked[min(i, len(asked) - 1)]}: {sides[i]}." for i in order)
    return f'{said} The answer to the question is "{answer}"'


def shortened(rng: np.random.Generator, chunk: Chunk, kept: float, facts: Collection[str]) -> Chunk:
    """A chunk with a share of its sentences; `facts` stay."""
    sentences = SENTENCE_END.split(chunk.text)
    some = [sentence for sentence in sentences if sentence in facts or rng.random() < kept]
    return replace(chunk, text=" ".join(some or sentences[:1]))


def chunked(document: Document, size: int, overlap: int) -> list[Chunk]:
    """Chunks of whole sentences of at most `size` characters that begin with the last ones of the chunk before."""
    sentences = SENTENCE_END.split(document.text)
    chunks: list[list[str]] = [[]]
    for sentence in sentences:
        if chunks[-1] and len(" ".join([*chunks[-1], sentence])) > size:
            kept = [chunks[-1][-1]] if len(chunks[-1][-1]) <= overlap else []
            chunks.append(kept)
        chunks[-1].append(sentence)
    return [
        Chunk(
            f"{document.id}#{i}",
            " ".join(part),
            document.title,
            document.category,
            document.metadata,
            document=document.id,
        )
        for i, part in enumerate(chunks)
    ]


# -- one world -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Listing:
    """What a filter prompt shows of a corpus whose sources go by other names, or by their own (no `words`)."""

    words: dict[str, str]
    extractor: LLMExtractor


class NewsWorld:
    """The articles and questions of one seed of a split, cut in chunks that can be searched."""

    def __init__(self, seed: int, split: str = "llm", questions: int = QUESTIONS) -> None:
        rng = np.random.default_rng([seed, 5])
        self.documents, self.queries = make_news(seed, split=split, queries=questions)
        self.chunks = [
            chunk
            for document in self.documents
            for chunk in chunked(document, int(rng.integers(950, 1160)), int(rng.integers(60, 140)))
        ]
        self.vocabulary = FieldVocabulary.from_documents(self.documents)
        self._dated = [query for query in self.queries if "published_at" in query.metadata["filter"]]
        self._metadata = [document_metadata(chunk) for chunk in self.chunks]
        places: dict[str, list[int]] = {}
        for i, chunk in enumerate(self.chunks):
            places.setdefault(chunk.document, []).append(i)
        self._holders = [
            sorted(
                {
                    i
                    for item in evidence_of(query)
                    for i in places[item["document"]]
                    if item["fact"] in self.chunks[i].text
                }
            )
            for query in self.queries
        ]
        self._asked: dict[int, list[int]] = {}
        for number, holders in enumerate(self._holders):
            for i in holders:
                self._asked.setdefault(i, []).append(number)
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        self._vectors: csr_matrix = self._vectorizer.fit_transform([chunk.text for chunk in self.chunks])
        self.listings = [self._listing(rng, words) for words in ({}, {}, other_names(rng), other_names(rng))]

    def _listing(self, rng: np.random.Generator, words: dict[str, str]) -> _Listing:
        """Of some of the articles, for their number sets the order of the values."""
        some = rng.permutation(len(self.documents))[: int(len(self.documents) * rng.uniform(0.4, 1.0))]
        shown = [renamed_document(self.documents[i], words) for i in some]
        return _Listing(words, LLMExtractor(None, FieldVocabulary.from_documents(shown)))  # type: ignore[arg-type]

    def sequence(
        self, rng: np.random.Generator, task: str, passages: int = PASSAGES, kept: float = 1.0, questions: int = 1
    ) -> tuple[str, list[Span]]:
        """Of a task; answers to so many questions from at most so many passages, of whose sentences a share is kept."""
        if task == "answer":
            return self.answer(rng, passages, kept, questions)
        return self.filters(rng) if task == "filter" else self.questions(rng)

    def filters(self, rng: np.random.Generator) -> tuple[str, list[Span]]:
        """Filters of some questions behind one listing."""
        listing = self.listings[int(rng.integers(2)) if rng.random() > _RENAMED else 2 + int(rng.integers(2))]
        known = listing.extractor.vocabulary["source"].values or {}
        pairs: list[tuple[str, str]] = []
        while len(pairs) < _MORE["filter"]:
            query = self._query(rng) if rng.random() > _DATED else self._dated[int(rng.integers(len(self._dated)))]
            written = renamed(json.dumps(filter_target(query), ensure_ascii=False), listing.words)
            if all(name in known for name in json.loads(written)["source"].popitem()[1]):
                pairs.append((renamed(query.text, listing.words), written))
        prompt = listing.extractor.prompt(pairs[-1][0])
        shown = prompt.demonstrations
        return text_of(replace(prompt, demonstrations=(*shown, *pairs[:-1])), pairs[-1][1], 1.0, len(shown))

    def questions(self, rng: np.random.Generator) -> tuple[str, list[Span]]:
        """Search queries for some questions, as many for each."""
        n = int(rng.integers(1, MOST_QUERIES + 1))
        pairs = [
            (query.text, f" {SEPARATOR} ".join(search_queries(query, n)))
            for query in (self._query(rng) for _ in range(_MORE["queries"]))
        ]
        words = other_names(rng) if rng.random() < _RENAMED else {}
        pairs = [(renamed(question, words), written) for question, written in pairs]
        prompt = query_prompt(pairs[-1][0], n)
        shown = prompt.demonstrations
        return text_of(replace(prompt, demonstrations=(*shown, *pairs[:-1])), pairs[-1][1], 0.5, len(shown))

    def answer(self, rng: np.random.Generator, most: int, kept: float, questions: int = 1) -> tuple[str, list[Span]]:
        """An answer from what a search under the filter found, put in another order or mended at times.

        Behind it further questions about the same passages are asked and answered: what is to be learned is to find
        one fact among many, and few tokens of a sequence teach it.
        """
        first = int(rng.integers(len(self.queries)))
        count = int(rng.integers(1, most + 1)) if rng.random() < 0.7 else most
        of_events = questions > 1 and rng.random() < _OF_EVENTS
        chosen = self._of_events(rng, first, count) if of_events else self._found(rng, self.queries[first], count)
        asked = [self.queries[i] for i in (first, *self._further(rng, first, chosen, questions - 1))]
        facts = {item["fact"] for query in asked for item in evidence_of(query)}
        shown = [shortened(rng, self.chunks[i], kept, facts) for i in chosen]
        words = other_names(rng) if rng.random() < _RENAMED else {}
        queries = [] if rng.random() < 0.75 else search_queries(asked[0], int(rng.integers(1, 5)))
        texts = [renamed(query.text, words) for query in asked]
        targets = [renamed(answer_target(query, shown), words) for query in asked]
        prompt = answer_prompt(texts[0], [renamed_document(chunk, words) for chunk in shown], queries)
        text, spans = text_of(prompt, targets[0], 1.0)
        places = [match.span() for fact in sorted(facts) for match in re.finditer(re.escape(fact), text)]
        for question, target in zip(texts[1:], targets[1:], strict=True):
            text += f"\n{QUESTION_AGAIN} {question}\n{template(ANSWER_TASK).target}:"
            spans.append((len(text), len(text) + len(target) + 2, 1.0))
            text += f" {target}"
        return text, [*((first, last, _FACT_WEIGHT) for first, last in places), *spans]

    def _of_events(self, rng: np.random.Generator, number: int, count: int) -> list[int]:
        """Chunks about the event of a question, and of another one."""
        other = int(rng.integers(len(self.queries)))
        near = self._beside(rng, number, count - int(rng.integers(0, count // 2 + 1)))
        both = list(dict.fromkeys([*near, *self._beside(rng, other, count - len(near))]))[:count]
        return [both[i] for i in rng.permutation(len(both))] or self._best(rng, self.queries[number], count)

    def _beside(self, rng: np.random.Generator, number: int, count: int) -> list[int]:
        """Chunks that hold a question's evidence, then those of questions that share some with it, one by one."""
        own = self._holders[number]
        near = sorted({question for i in own for question in self._asked[i]} - {number})
        found = [own[i] for i in rng.permutation(len(own))]
        for i in rng.permutation(len(near)):
            if len(set(found)) >= count:
                break
            found += self._holders[near[i]]
        return list(dict.fromkeys(found))[:count]

    def _further(self, rng: np.random.Generator, first: int, chosen: Sequence[int], count: int) -> list[int]:
        """Questions about some of these chunks: mostly such that these tell all, some of which they tell one side."""
        if not count:
            return []
        near = sorted({number for i in chosen for number in self._asked.get(i, ())} - {first})
        shown = [self.chunks[i] for i in chosen]
        groups: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for i in rng.permutation(len(near)):
            target = answer_target(self.queries[near[i]], shown)
            groups[0 if NO_ANSWER not in target else 2 if target == NO_ANSWER else 1].append(near[i])
        drawn = [*groups[0][: count - count // 3], *groups[1][: count // 3 - 1], *groups[2][:1]]
        return [drawn[i] for i in rng.permutation(len(drawn))]

    def _query(self, rng: np.random.Generator) -> Query:
        return self.queries[int(rng.integers(len(self.queries)))]

    def passages(self, rng: np.random.Generator, query: Query, count: int) -> list[Chunk]:
        """A chunk for each of a question's claims, among the best of others, in random order."""
        chosen = self._mended(rng, query, self._best(rng, query, count), count)
        return [self.chunks[chosen[i]] for i in rng.permutation(len(chosen))]

    def _found(self, rng: np.random.Generator, query: Query, count: int) -> list[int]:
        """Chunks as a search finds them, put in another order or mended at times."""
        chosen = self._best(rng, query, count)
        if rng.random() < 0.6:
            chosen = self._mended(rng, query, chosen, count)
        if rng.random() < 0.5:
            chosen = [chosen[i] for i in rng.permutation(len(chosen))]
        return chosen

    def _best(self, rng: np.random.Generator, query: Query, count: int) -> list[int]:
        """The chunks that share most with the question, more or less, mostly under its filter."""
        scores = (self._vectors @ self._vectorizer.transform([query.text]).T).toarray()[:, 0]
        scores = scores * rng.uniform(0.7, 1.3, len(scores))
        if rng.random() < 0.9:
            condition = parse_filter(query.metadata["filter"], self.vocabulary)
            passing = np.array([matches(condition, metadata) for metadata in self._metadata])
            if passing.any():
                scores = np.where(passing, scores, -1.0)
        return [int(i) for i in np.argsort(-scores)[:count] if scores[i] >= 0]

    def _mended(self, rng: np.random.Generator, query: Query, chosen: list[int], count: int) -> list[int]:
        """With a chunk for each claim, in the place of others."""
        needed: dict[tuple[int, str], int] = {}
        evidence = evidence_of(query)
        for item in (evidence[i] for i in rng.permutation(len(evidence))):
            holder = item["document"] if query.metadata["about"]["organisation"] else ""
            if (item["claim"], holder) not in needed:
                needed[item["claim"], holder] = next(
                    i
                    for i, chunk in enumerate(self.chunks)
                    if chunk.document == item["document"] and item["fact"] in chunk.text
                )
        wanted = list(dict.fromkeys(needed.values()))
        others = [i for i in chosen if i not in wanted]
        return [*wanted, *others][: max(count, len(wanted))]


# -- tokens --------------------------------------------------------------------------------------------------------

PIECES = (
    r"\n+"
    r"|T\d\d:\d\d:\d\d\+\d\d:\d\d"
    r"| ?\d+"
    r"|[A-Z][a-z]*"  # Without the space before it: in a filter's JSON it stands behind a quotation mark
    r"|[,.]?(?: ?[a-z_'’]+(?:-[a-z]+)*)+"
    r"|:"  # Ends every prompt
    r"| ?[^A-Za-z0-9\s]+(?: +[^A-Za-z0-9\s]+)*"
    r"|\s+"
)
"""What a token may not reach beyond: a number, a capitalised word, a run of other words, a run of punctuation."""


def _parts(form: str) -> list[str]:
    return [part.strip(" ,.") for part in re.split(r"\{\w+\}", form)]


def cut_pattern() -> re.Pattern[str]:
    """The fillers of sentences and questions, for these to be tokens of their own in whatever sentence they stand."""
    parts = {kind.noun for kind in KINDS}
    for claim in (claim for kind in KINDS for claim in kind.claims):
        parts |= {
            *_parts(claim.predicate),
            *_parts(claim.topic),
            *(re.sub(r"^\d+ ?", "", value) for value in claim.values),
        }
    inner = "|".join(re.escape(part) for part in sorted(parts, key=len, reverse=True) if part and part[0].islower())
    starts, ends = "|".join(name_lists().invented_starts), "|".join(name_lists().invented_ends)
    return re.compile(rf" ?\b(?:{inner})\b|(?P<start> ?\b(?:{starts}))(?P<end>{ends})\b")


_CUT = cut_pattern()


def cut(text: str) -> str:
    """A text with new lines around its fillers, and at the joint of invented names, to train a tokenizer on."""
    return _CUT.sub(lambda m: f"{m['start']}\n{m['end']}\n" if m["start"] else f"\n{m[0]}\n", text)


# -- all worlds ----------------------------------------------------------------------------------------------------


class News:
    """What is learned: sequences of all three tasks from several seeds of the split `llm`, `dev` being held out."""

    tasks = TASKS
    held_out_batches = 1
    pieces = PIECES
    part_tokens = 2048

    def __init__(self, seed: int) -> None:
        self._worlds = [NewsWorld(WORLDS * seed + i) for i in range(WORLDS)]
        self._held_out = NewsWorld(seed, "dev")

    def draw(self, rng: np.random.Generator, done: float) -> tuple[str, list[Span]]:
        """A sequence when the share `done` of the training is over: few short passages first, more and longer later."""
        _, passages, kept, questions = [stage for stage in _STAGES if stage[0] <= done][-1]
        world = self._worlds[int(rng.integers(len(self._worlds)))]
        text, spans = world.sequence(rng, str(rng.choice(TASKS, p=_SHARES)), passages, kept, questions)
        return text, [(0, len(text), _PROMPT_WEIGHT), *spans]

    def draw_held_out(self, rng: np.random.Generator, task: str) -> tuple[str, list[Span]]:
        """A sequence of a task, of which nothing but the wanted text counts."""
        text, spans = self._held_out.sequence(rng, task)
        return text, [(first, last, 1.0) for first, last, weight in spans if weight != _FACT_WEIGHT]

    def texts(self, rng: np.random.Generator) -> list[str]:
        """What to train a tokenizer on."""
        return [cut(self.draw(rng, 0.5)[0]) for _ in range(3_000)]

    def abilities(self, llm: LLM) -> str:
        """For the card: what it can do, measured on articles and questions of the split `dev`."""
        from lm.news_abilities import measured

        return measured(llm, self._held_out)
