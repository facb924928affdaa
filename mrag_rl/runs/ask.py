"""One text answered by a run, with all that led to the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.runs.folder import (
    RunFolder,
    check_encoder,
    load_encoder,
    load_llm,
    open_trained,
    with_cache,
)
from mrag_rl.filters.language import to_json
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.vocabulary import other_forms
from mrag_rl.memory import MemoryDatabase
from mrag_rl.systems import Writer


def answer_text(
    run: Path, text: str, *, allowed: Sequence[str] | None = None, condition: str | None = None
) -> dict[str, Any]:
    """Answer one text with a run's M-RAG.

    Args:
        run: the run folder. text: what to answer.
        allowed: names of the partitions that may be read, None for all; with none of them nothing is read.
        condition: a filter as JSON on the memories' metadata and `labels`, None for none. Only memories that pass are
            read, and only partitions that hold one are chosen; where there are none nothing is read.

    Returns:
        {"text", "hypothesis", "partition" (name or None), "partitions": [{"name", "memories" (how many may be read),
        "allowed", "q_value", "similarities": [H floats]}], "filter": JSON or None, "notes": [lines], "memory": {"id",
        "similarity", "version", "source", "target"} or None}.

    Raises:
        InputError: no complete run there, an empty text, an unknown partition, a broken filter.
    """
    folder = RunFolder(run)
    config = folder.load_config()
    if not text.strip():
        raise InputError('--text is empty; give the text to answer, as in --text "The council met ..."')
    with open_trained(folder) as trained:
        database, selector = trained.database, trained.selector
        names = database.names
        mask = np.ones(len(names), dtype=bool) if allowed is None else np.isin(names, list(allowed))
        unknown = sorted(set(allowed or ()) - set(names))
        if unknown:
            raise InputError(f"unknown partition {unknown[0]!r}; this run has {', '.join(names)}")
        allowed_memories, parsed, notes = _under_filter(database, condition, mask)
        readable = database.count_in_partitions(allowed_memories)
        if condition is not None:
            mask &= readable > 0
        llm = load_llm(config.llm)
        encoder = load_encoder(config)
        check_encoder(database, encoder)
        query = encoder.encode([text])
        states = database.states(query, config.state)
        q_values = np.zeros((1, len(names))) if selector is None else selector.q_values(states)
        chosen = int(np.where(mask, q_values[0], -np.inf).argmax()) if mask.any() else -1
        hits = database.retrieve(query, np.array([chosen]), allowed_memories=allowed_memories)
        memory = int(hits.indices[0, 0])
        with with_cache(llm, folder, config.llm) as cached:
            writer = Writer(cached, config.prompt_task, config.llm.max_new_tokens)
            hypothesis = writer.write([text], database, hits.indices[:, 0])[0]
        record = database.records([memory])[0] if memory >= 0 else None
    return {
        "text": text,
        "hypothesis": hypothesis,
        "partition": names[chosen] if chosen >= 0 else None,
        "partitions": [
            {
                "name": name,
                "memories": int(readable[index]),
                "allowed": bool(mask[index]),
                "q_value": round(float(q_values[0, index]), 6),
                "similarities": [round(float(value), 4) for value in states[0, index]],
            }
            for index, name in enumerate(names)
        ],
        "filter": parsed,
        "notes": notes,
        "memory": None
        if record is None
        else {
            "id": record.id,
            "similarity": round(float(hits.scores[0, 0]), 4),
            "version": record.version,
            "source": record.source,
            "target": record.target,
        },
    }


def _under_filter(
    database: MemoryDatabase, condition: str | None, mask: np.ndarray
) -> tuple[np.ndarray, dict[str, Any] | None, list[str]]:
    """The memories that pass a filter, (N,) bool, the filter as JSON, and what there is to say about it; `mask`: the
    partitions that may be read. Raises InputError."""
    if condition is None:
        return np.ones(len(database), dtype=bool), None, []
    vocabulary = database.vocabulary()
    parsed = parse_filter(condition, vocabulary)
    allowed_memories = database.allowed_memories(parsed)
    # Values that no memory has are told, but stay in the filter: without them it would let more through.
    _, notes = vocabulary.keep_known(parsed)
    notes += other_forms(parsed, vocabulary)
    if not allowed_memories.any():
        notes.append("no memory passes the filter; nothing is read")
    elif not (database.count_in_partitions(allowed_memories)[mask] > 0).any():
        notes.append("no memory of the partitions that may be read passes the filter; nothing is read")
    return allowed_memories, to_json(parsed), notes


def explanation(answer: dict[str, Any]) -> str:
    """An answer of `answer_text` for people to read: partitions with values and similarities, memory, hypothesis."""
    partitions = answer["partitions"]
    width = max(len("partition"), *(len(row["name"]) for row in partitions)) + 2
    heads = len(partitions[0]["similarities"])
    columns = "".join(f"{f'head {head}' if heads > 1 else 'nearest':>9}" for head in range(heads))
    lines = [f"{'partition':<{width}}{'q':>9}{columns}"]
    for row in partitions:
        mark = "*" if row["name"] == answer["partition"] else " " if row["allowed"] else "x"
        cells = "".join(f"{value:9.3f}" for value in row["similarities"])
        lines.append(f"{mark} {row['name']:<{width - 2}}{row['q_value']:9.4f}{cells}")
    lines += ["", "* chosen, x may not be read; q is the expected reward, the rest the best cosine similarity per head"]
    if answer["filter"] is not None:
        lines += ["", f"Filter: {json.dumps(answer['filter'], ensure_ascii=False)}"]
        lines += ["Memories that pass: " + ", ".join(f"{row['name']} {row['memories']}" for row in partitions)]
    lines += answer["notes"]
    memory = answer["memory"]
    if memory is None:
        lines += ["", "Memory: none may be read"]
    else:
        origin = "as first stored" if memory["version"] == 0 else f"refined, version {memory['version']}"
        lines += [
            "",
            f"Memory {memory['id']} ({origin}; similarity {memory['similarity']:.3f})",
            f"  source: {memory['source']}",
            f"  target: {memory['target']}",
        ]
    return "\n".join([*lines, "", "Hypothesis:", f"  {answer['hypothesis']}"])
