"""One text answered by a run's trained agents, with everything that led to the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.errors import InputError
from mrag_rl.filters.language import to_json
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.vocabulary import other_forms
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import check_encoder, load_models, make_writer, with_cache
from mrag_rl.runs.plugins import load_trusted_plugins
from mrag_rl.runs.settings import AskSettings
from mrag_rl.runs.systems import trained_system
from mrag_rl.runs.trained import open_trained
from mrag_rl.systems import PartitionAnswer


def run(settings: AskSettings) -> str:
    """The answer of `answer_text` for people to read, or as JSON. Raises InputError."""
    answer = answer_text(settings)
    return json.dumps(answer, indent=2, ensure_ascii=False) if settings.json else explanation(answer)


def answer_text(settings: AskSettings) -> dict[str, Any]:
    """Answer one text with a run's M-RAG.

    Only partitions in `settings.allowed` and memories that pass `settings.filter` (on their metadata and `labels`) are
    read, for the choice and the similarities, too, and only partitions with such a memory are selected; nothing is read
    if there are none. What the agents learned in training came from all memories. Arms are partitions here; that of no
    memory, which has nothing to read, is selected only if nothing is restricted or if it is named.

    Returns:
        {"text", "hypothesis", "partition" (name or None), "partitions": those in `settings.allowed` [{"name",
        "memories" (how many pass the filter), "allowed" (whether one does), "q_value", "expected_gain" (points; None
        if the selector has no line of gains), "similarities": [H floats, or None if none passes]}], "filter": JSON or
        None, "notes": [lines], "memory": the first of "memories" or None, "memories": [{"id", "similarity", "version",
        "source", "target"}], nearest first}. Nothing in it depends on memories that are in none of these partitions.

    Raises:
        InputError: no complete run there, an empty text, an unknown partition, an invalid filter.
    """
    folder = RunFolder(Path(settings.run))
    config = folder.load_config()
    text, allowed, condition = settings.text, settings.allowed, settings.filter
    if not text.strip():
        raise InputError('--text is empty; give the text to answer, as in --text "The council met ..."')
    load_trusted_plugins(config, settings.trust, ("task",), folder.root)
    with open_trained(folder) as trained:
        database, names = trained.database, trained.database.names
        mask = np.ones(len(names), dtype=bool) if allowed is None else np.isin(names, list(allowed))
        listed = np.flatnonzero(mask).tolist()
        unknown = sorted(set(allowed or ()) - set(names))
        if unknown:
            raise InputError(f"unknown partition {unknown[0]!r}; this run has {', '.join(names)}")
        allowed_memories, applied, notes = _under_filter(database, condition, mask)
        readable = database.count_in_partitions(allowed_memories)
        if condition is not None:
            nothing_to_read = np.arange(len(names)) == database.arms.get("none", -1)
            mask &= (readable > 0) | (nothing_to_read & np.isin(names, list(allowed or ())))
        encoder, llm = load_models(config)
        check_encoder(database, encoder)
        with with_cache(llm, config.llm, folder.cache) as cached:
            writer = make_writer(config, cached)
            system = trained_system(
                "m_rag", trained, writer, encoder=encoder, allowed_partitions=mask, allowed_memories=allowed_memories
            )
            (answer,) = system.answer([text])
        gains = None
        if isinstance(answer, PartitionAnswer) and answer.values is not None:
            partition, values, selector = answer.partition, answer.values, trained.selector
            if selector is not None and selector.info.gain_slope is not None:
                (gains,) = selector.expected_gain_by(values[None])
        else:  # One partition: it is searched if it may be read, and there are no q-values
            partition, values = 0 if mask.any() else -1, np.zeros(len(names))
        shown: StateName = "per_head" if config.state == "evidence" else config.state
        masks = {"allowed_partitions": mask, "allowed_memories": allowed_memories}
        states = database.states(encoder.encode([text]), shown, **masks)[0]
        records = database.records(answer.memories)
    memories = [
        {
            "id": record.id,
            "similarity": round(similarity, 4),
            "version": record.version,
            "source": record.source,
            "target": record.target,
        }
        for record, similarity in zip(records, answer.similarities, strict=True)
    ]
    return {
        "text": text,
        "hypothesis": answer.hypothesis,
        "partition": names[partition] if partition >= 0 else None,
        "partitions": [
            {
                "name": names[index],
                "memories": int(readable[index]),
                "allowed": bool(mask[index]),
                "q_value": round(float(values[index]), 6),
                "expected_gain": None if gains is None else round(float(gains[index]), 2),
                "similarities": [
                    round(float(similarity), 4) if mask[index] and readable[index] else None
                    for similarity in states[index]
                ],
            }
            for index in listed
        ],
        "filter": applied,
        "notes": notes,
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


def explanation(answer: dict[str, Any]) -> str:
    """An answer of `answer_text` as text: partitions with gains (or q-values), similarities, memories, hypothesis."""
    partitions = answer["partitions"]
    calibrated = any(row["expected_gain"] is not None for row in partitions)
    width = max([len("partition"), *(len(row["name"]) for row in partitions)]) + 2
    heads = max((len(row["similarities"]) for row in partitions), default=1)
    columns = "".join(f"{f'head {head}' if heads > 1 else 'nearest':>9}" for head in range(heads))
    lines = [f"{'partition':<{width}}{'gain' if calibrated else 'q':>9}{columns}"]
    for row in partitions:
        mark = "*" if row["name"] == answer["partition"] else " " if row["allowed"] else "x"
        cells = "".join(f"{'-':>9}" if value is None else f"{value:9.3f}" for value in row["similarities"])
        value = f"{row['expected_gain']:+9.2f}" if calibrated else f"{row['q_value']:9.4f}"
        lines.append(f"{mark} {row['name']:<{width - 2}}{value}{cells}")
    first = "gain is the expected gain over the naive system in points" if calibrated else "q is the expected reward"
    lines += ["", f"* chosen, x has no memory that passes; {first}, the rest the best cosine similarity per head"]
    if answer["filter"] is not None:
        lines += ["", f"Filter: {json.dumps(answer['filter'], ensure_ascii=False)}"]
        lines += ["Memories that pass: " + ", ".join(f"{row['name']} {row['memories']}" for row in partitions)]
    lines += answer["notes"]
    if not answer["memories"]:
        chosen = answer["partition"] is not None  # the arm of no memory, whatever other partitions are called
        lines += ["", "Memory: none was chosen" if chosen else "Memory: none may be read"]
    for memory in answer["memories"]:
        origin = "as first stored" if memory["version"] == 0 else f"refined, version {memory['version']}"
        lines += [
            "",
            f"Memory {memory['id']} ({origin}; similarity {memory['similarity']:.3f})",
            f"  source: {memory['source']}",
            f"  target: {memory['target']}",
        ]
    return "\n".join([*lines, "", "Hypothesis:", f"  {answer['hypothesis']}"])
