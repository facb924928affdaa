"""One text answered by a run's trained agents, with everything that led to the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.config import Config
from mrag_rl.encoders import TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.filters.language import to_json
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.vocabulary import other_forms
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import check_encoder, load_models, make_writer, with_cache
from mrag_rl.runs.plugins import TO_ANSWER, load_trusted_plugins
from mrag_rl.runs.settings import AskSettings
from mrag_rl.runs.systems import trained_system
from mrag_rl.runs.trained import TrainedSystem, open_trained
from mrag_rl.systems import MemoryAnswer, PartitionAnswer


def run(settings: AskSettings) -> str:
    """The answer to a text for people to read, or as JSON. Raises InputError."""
    found = answer_text(settings)
    return json.dumps(found, indent=2, ensure_ascii=False) if settings.json else explanation(found)


def answer_text(settings: AskSettings) -> dict[str, Any]:
    """Answer one text with a run's M-RAG: `answers` with the run's database, selector and models.

    Raises:
        InputError: no complete run there, an empty text, an unknown partition, an invalid filter.
    """
    folder = RunFolder(Path(settings.run))
    config = folder.load_config()
    if not settings.text.strip():
        raise InputError('--text is empty; give the text to answer, as in --text "The council met ..."')
    load_trusted_plugins(config, settings.trust, TO_ANSWER, folder.root)
    with open_trained(folder) as trained:
        scope = Scope.of(trained.database, settings.allowed, settings.filter)  # An error before models are loaded
        with answering(trained, folder, config) as answer_in:
            (found,) = answer_in([settings.text], scope)
            return found


@contextmanager
def answering(
    trained: TrainedSystem, folder: RunFolder, config: Config
) -> Iterator[Callable[[Sequence[str], Scope], list[dict[str, Any]]]]:
    """Load the run's models, for any number of calls: yields `answers` to texts in a scope.

    Raises InputError if a model cannot be loaded, or is not the one that the database was made with.
    """
    encoder, llm = load_models(config)
    check_encoder(trained.database, encoder)
    state: StateName = "per_head" if config.state == "evidence" else config.state
    with with_cache(llm, config.llm, folder.cache) as cached:
        writer = make_writer(config, cached)
        yield lambda texts, scope: answers(trained, encoder, writer, texts, scope, state)


@dataclass(frozen=True)
class Scope:
    """What may be read for an answer.

    Attributes:
        listed: indices of the partitions that are named in the answer.
        partitions: (M,) bool, those that may be selected.
        memories: (N,) bool, those that may be read.
        readable: (M,) int64, how many of these each partition has.
        filter: the filter as JSON, None without one.
        notes: lines on the filter.
    """

    listed: Sequence[int]
    partitions: np.ndarray
    memories: np.ndarray
    readable: np.ndarray
    filter: dict[str, Any] | None
    notes: Sequence[str]

    @classmethod
    def of(cls, database: MemoryDatabase, allowed: Sequence[str] | None = None, condition: str | None = None) -> Scope:
        """The scope of some partitions and a filter (JSON, on the memories' metadata and `labels`); None is all.

        Arms are partitions here; that of no memory, which has nothing to read, is selected only if nothing is
        restricted or if it is named. Raises InputError for an unknown partition and an invalid filter.
        """
        names = database.names
        unknown = sorted(set(allowed or ()) - set(names))
        if unknown:
            raise InputError(f"unknown partition {unknown[0]!r}; this run has {', '.join(names)}")
        mask = np.ones(len(names), dtype=bool) if allowed is None else np.isin(names, list(allowed))
        listed = np.flatnonzero(mask).tolist()
        memories, applied, notes = _under_filter(database, condition, mask)
        readable = database.count_in_partitions(memories)
        if condition is not None:
            nothing_to_read = np.arange(len(names)) == database.arms.get("none", -1)
            mask &= (readable > 0) | (nothing_to_read & np.isin(names, list(allowed or ())))
        return cls(listed, mask, memories, readable, applied, notes)


def answers(
    trained: TrainedSystem, encoder: TextEncoder, writer: Writer, texts: Sequence[str], scope: Scope, state: StateName
) -> list[dict[str, Any]]:
    """Answer texts with M-RAG.

    Only partitions and memories in `scope` are read, for the choice and the similarities, too, and only partitions with
    such a memory are selected; nothing is read if there are none. What the agents learned in training came from all
    memories. state: the state that is shown; Agent-S reads its own.

    Returns:
        For each text {"text", "hypothesis", "partition" (name or None), "partitions": those that `scope` lists
        [{"name", "memories" (how many pass the filter), "allowed" (whether one does), "q_value" (None if none passes),
        "expected_gain" (points; None, too, if the selector has no line of gains), "similarities": [H floats, or None if
        none passes]}],
        "filter": JSON or None, "notes": [lines], "memory": the first of "memories" or None, "memories": [{"id",
        "similarity", "version", "source", "target"}], nearest first}. Nothing in it depends on memories that are in
        none of these partitions.
    """
    masks = {"allowed_partitions": scope.partitions, "allowed_memories": scope.memories}
    queries = encoder.encode(texts)
    found = trained_system("m_rag", trained, writer, **masks).answer(texts, queries)
    states = trained.database.states(queries, state, **masks)
    return [_shown(trained, scope, *row) for row in zip(texts, found, states, strict=True)]


def _shown(trained: TrainedSystem, scope: Scope, text: str, found: MemoryAnswer, state: np.ndarray) -> dict[str, Any]:
    """One of `answers`; state: (M, H)."""
    database, names, mask, gains = trained.database, trained.database.names, scope.partitions, None
    if isinstance(found, PartitionAnswer) and found.values is not None:
        partition, values, selector = found.partition, found.values, trained.selector
        if selector is not None and selector.info.gain_slope is not None:
            (gains,) = selector.expected_gain_by(values[None])
    else:  # One partition: it is searched if it may be read, and there are no q-values
        partition, values = 0 if mask.any() else -1, np.zeros(len(names))
    memories = [
        {
            "id": record.id,
            "similarity": round(similarity, 4),
            "version": record.version,
            "source": record.source,
            "target": record.target,
        }
        for record, similarity in zip(database.records(found.memories), found.similarities, strict=True)
    ]
    return {
        "text": text,
        "hypothesis": found.hypothesis,
        "partition": names[partition] if partition >= 0 else None,
        "partitions": [
            {
                "name": names[index],
                "memories": int(scope.readable[index]),
                "allowed": bool(mask[index]),
                "q_value": round(float(values[index]), 6) if mask[index] else None,
                "expected_gain": round(float(gains[index]), 2) if mask[index] and gains is not None else None,
                "similarities": [
                    round(float(similarity), 4) if mask[index] and scope.readable[index] else None
                    for similarity in state[index]
                ],
            }
            for index in scope.listed
        ],
        "filter": scope.filter,
        "notes": list(scope.notes),
        "memory": memories[0] if memories else None,
        "memories": memories,
    }


def _under_filter(
    database: MemoryDatabase, condition: str | None, mask: np.ndarray
) -> tuple[np.ndarray, dict[str, Any] | None, list[str]]:
    """The memories that may be read and pass a filter, (N,) bool, the filter as JSON, and notes on it.

    mask: (M,) bool, the partitions that may be read. Raises InputError.
    """
    readable = np.asarray(database.membership()[:, mask].any(axis=1))
    if condition is None:
        return readable, None, []
    # Fields and values of memories that may not be read are none here
    vocabulary = database.vocabulary(readable)
    parsed = parse_filter(condition, vocabulary)
    allowed_memories = database.allowed_memories(parsed) & readable
    # Values that no memory has are reported but stay in the filter: without them it would let more through.
    _, notes = vocabulary.keep_known(parsed)
    notes += other_forms(parsed, vocabulary)
    if not allowed_memories.any():
        notes.append("no memory passes the filter; nothing is read")
    return allowed_memories, to_json(parsed), notes


def explanation(found: dict[str, Any]) -> str:
    """An answer as text: partitions with gains (or q-values), similarities, memories, hypothesis."""
    partitions = found["partitions"]
    calibrated = any(row["expected_gain"] is not None for row in partitions)
    width = max([len("partition"), *(len(row["name"]) for row in partitions)]) + 2
    heads = max((len(row["similarities"]) for row in partitions), default=1)
    columns = "".join(f"{f'head {head}' if heads > 1 else 'nearest':>9}" for head in range(heads))
    lines = [f"{'partition':<{width}}{'gain' if calibrated else 'q':>9}{columns}"]
    for row in partitions:
        mark = "*" if row["name"] == found["partition"] else " " if row["allowed"] else "x"
        cells = "".join(f"{'-':>9}" if value is None else f"{value:9.3f}" for value in row["similarities"])
        number = row["expected_gain" if calibrated else "q_value"]
        value = f"{'-':>9}" if number is None else f"{number:{'+9.2f' if calibrated else '9.4f'}}"
        lines.append(f"{mark} {row['name']:<{width - 2}}{value}{cells}")
    first = "q is the expected reward"
    if calibrated:
        first = "gain is the expected gain over the naive system in points, fitted where all may be read"
    lines += ["", f"* chosen, x has no memory that passes; {first}, the rest the best cosine similarity per head"]
    if found["filter"] is not None:
        lines += ["", f"Filter: {json.dumps(found['filter'], ensure_ascii=False)}"]
        lines += ["Memories that pass: " + ", ".join(f"{row['name']} {row['memories']}" for row in partitions)]
    lines += found["notes"]
    if not found["memories"]:
        chosen = found["partition"] is not None  # the arm of no memory, whatever other partitions are called
        lines += ["", "Memory: none was chosen" if chosen else "Memory: none may be read"]
    for memory in found["memories"]:
        origin = "as first stored" if memory["version"] == 0 else f"refined, version {memory['version']}"
        lines += [
            "",
            f"Memory {memory['id']} ({origin}; similarity {memory['similarity']:.3f})",
            f"  source: {memory['source']}",
            f"  target: {memory['target']}",
        ]
    return "\n".join([*lines, "", "Hypothesis:", f"  {found['hypothesis']}"])
