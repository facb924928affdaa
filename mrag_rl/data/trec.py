"""The text files of TREC: judgements (qrels) and runs, as trec_eval and the tools after it read them.

- qrels: ``QUERY 0 DOCUMENT GRADE``; a grade of 1 or more is relevant, 0 or less is not
- run: ``QUERY Q0 DOCUMENT RANK SCORE TAG``

trec_eval ignores the rank: it sorts by score, as 32-bit numbers, and equal scores by document id, the highest first. So
`write_run` writes scores that fall from each rank to the next.

Source: trec_eval (https://github.com/usnistgov/trec_eval), README and `form_res_rels.c`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, atomic_write_text, read_lines

_HIGHEST = 1e38  # Below the largest 32-bit number, so that a score can be lowered
_LARGEST = float(np.finfo(np.float32).max)
_QRELS = ("query", "0", "document", "grade")
_RUN = ("query", "Q0", "document", "rank", "score", "tag")


def write_qrels(path: StrPath, judgements: Mapping[str, Mapping[str, int]]) -> None:
    """Write the grades of documents by query, {query id: {document id: grade}}, atomically.

    Raises InputError for an id that `check_trec_ids` refuses.
    """
    for query, grades in judgements.items():
        check_trec_ids([query, *grades])
    lines = [
        f"{query} 0 {document} {grade}\n" for query, grades in judgements.items() for document, grade in grades.items()
    ]
    atomic_write_text(path, "".join(lines))


def read_qrels(path: StrPath) -> dict[str, dict[str, int]]:
    """The grades of documents by query, {query id: {document id: grade}}, in file order.

    Raises InputError naming file and line: fields missing, a grade that is not a whole number, a document that a query
    has twice.
    """
    judgements: dict[str, dict[str, int]] = {}
    for where, (query, _, document, grade) in _fields(path, _QRELS):
        grades = judgements.setdefault(query, {})
        if document in grades:
            raise InputError(f'{where}: document "{document}" is judged twice for query "{query}"; remove one line')
        grades[document] = parse_grade(grade, where)
    if not judgements:
        raise InputError(
            f'{os.fspath(path)}: no judgement in the file; write "{" ".join(_QRELS).upper()}" on each line'
        )
    return judgements


def write_run(path: StrPath, rankings: Mapping[str, Sequence[tuple[str, float]]], tag: str) -> None:
    """Write the ranked documents of each query, {query id: [(document id, score), ...]}, best first, atomically.

    A score that is not below the one before it, as a 32-bit number, is written as the next lower 32-bit number, so that
    tools that sort by score find the order of the ranks. tag: the name of the run.

    Raises InputError for an id or tag that `check_trec_ids` refuses, a document that a query has twice, and a score
    that is not finite or beyond 1e38.
    """
    check_trec_ids([tag])
    lines = []
    for query, ranking in rankings.items():
        check_trec_ids([query, *(document for document, _ in ranking)])
        if len({document for document, _ in ranking}) < len(ranking):
            raise InputError(f'{os.fspath(path)}: query "{query}": a document is ranked twice; rank each once')
        for rank, (_, score) in enumerate(ranking, start=1):
            if not abs(score) < _HIGHEST:
                raise InputError(
                    f'{os.fspath(path)}: query "{query}": score {score} at rank {rank}; give finite 32-bit numbers'
                )
        scores = _falling([score for _, score in ranking])
        for rank, ((document, _), score) in enumerate(zip(ranking, scores, strict=True), start=1):
            lines.append(f"{query} Q0 {document} {rank} {score:.9g} {tag}\n")
    atomic_write_text(path, "".join(lines))


def read_run(path: StrPath) -> dict[str, list[tuple[str, float]]]:
    """The ranked documents of each query, {query id: [(document id, score), ...]}, in the order of trec_eval.

    An empty file is a run in which nothing was found. Raises InputError naming file and line: fields missing, a score
    that is not a finite 32-bit number, a document that a query has twice.
    """
    found: dict[str, dict[str, float]] = {}
    for where, (query, _, document, _, score, _) in _fields(path, _RUN):
        scores = found.setdefault(query, {})
        if document in scores:
            raise InputError(f'{where}: document "{document}" is ranked twice for query "{query}"; remove one line')
        try:
            scores[document] = math.nan if "_" in score else float(score)
        except ValueError:
            scores[document] = math.nan
        if not abs(scores[document]) <= _LARGEST:
            raise InputError(f'{where}: score "{score}" is not a finite 32-bit number; give one')
    return {
        query: sorted(scores.items(), key=lambda pair: (np.float32(pair[1]), pair[0].encode()), reverse=True)
        for query, scores in found.items()
    }


def check_trec_ids(ids: Iterable[str]) -> None:
    """Raises InputError for an id that is empty or has white space, which separates the fields of TREC's files."""
    for identifier in ids:
        if not identifier or any(character.isspace() or "\ud800" <= character <= "\udfff" for character in identifier):
            raise InputError(f"TREC files cannot hold the id {identifier!r}; give it a name without white space")


def parse_grade(text: str, where: str) -> int:
    """The grade in a judgement: a whole number, which may be written as 1.0. Raises InputError naming `where`."""
    try:
        grade = float(text)
    except ValueError:
        grade = math.nan
    if not grade.is_integer() or abs(grade) >= 2**31 or "_" in text:
        raise InputError(
            f'{where}: grade "{text}" is not a whole number; give 0 for not relevant, 1 or more for relevant'
        )
    return int(grade)


def _falling(scores: Sequence[float]) -> list[float]:
    """The scores as 32-bit numbers, each below the one before it."""
    falling = np.asarray(scores, np.float32)
    for i in np.flatnonzero(np.diff(falling) >= 0)[:1].tolist():  # Nothing before the first tie needs to change
        for place in range(i + 1, len(falling)):
            falling[place] = min(falling[place], np.nextafter(falling[place - 1], np.float32(-np.inf)))
    return [float(score) for score in falling]


def _fields(path: StrPath, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The place and the fields of every line that is not blank. Raises InputError."""
    name = os.fspath(path)
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != len(names):
            raise InputError(f'{name}:{number}: {len(fields)} fields; write {len(names)}: "{" ".join(names).upper()}"')
        yield f"{name}:{number}", fields
