"""What ``evaluate.py filters`` does: extract, compare with the filters given, write and show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mrag_rl.data.records import Query, load_documents, load_queries
from mrag_rl.errors import InputError
from mrag_rl.filters.extraction import Extraction, Extractor
from mrag_rl.filters.language import Filter, to_json
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.scoring import agreement, atoms, cost, only_known
from mrag_rl.filters.vocabulary import FieldVocabulary
from mrag_rl.generation.llm import LLM
from mrag_rl.io import write_json


def report_filters(
    queries: Path,
    output: Path,
    *,
    fields: Path | None = None,
    documents: Path | None = None,
    llm: LLM | None = None,
    name: str = "rules",
) -> str:
    """Extract a filter for every query, write ``output`` (see docs/filters.md) and return a table.

    Args:
        queries: JSONL; a query's ``filter`` key, where it has one, is what to agree with.
        fields: the fields and their values; or ``documents``: the corpus to read them from.
        llm: the language model that extracts; None for the rules.
        name: of the extractor, as the output has it.

    Raises:
        InputError: a file that cannot be read, or a given filter that is none, named by its query.
    """
    if output.is_dir():
        raise InputError(f"--output {output} is a folder; give a file to write")
    loaded = load_queries(queries)
    if fields is not None:
        vocabulary = FieldVocabulary.from_file(fields)
    elif documents is not None:
        vocabulary = FieldVocabulary.from_documents(load_documents(documents))
        if not vocabulary.fields:
            raise InputError(f"{documents}: no document has metadata; add some, or give --fields")
    else:
        raise InputError("no fields; give --fields FIELDS.json or --documents DOCUMENTS.jsonl")
    given = _given(queries, loaded, vocabulary)
    extractor: Extractor = RuleExtractor(vocabulary) if llm is None else LLMExtractor(llm, vocabulary)
    extractions = extractor.extract([query.text for query in loaded])
    report = _report(loaded, given, extractions, vocabulary, name)
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, report)
    return _table(report)


def _given(path: Path, queries: list[Query], vocabulary: FieldVocabulary) -> dict[str, Filter]:
    found = {}
    for query in queries:
        if "filter" in query.metadata:
            try:
                found[query.id] = parse_filter(query.metadata["filter"], vocabulary)
            except InputError as error:
                raise InputError(f"{path}: query {query.id!r}: {error}") from error
    return found


def _report(
    queries: list[Query],
    given: dict[str, Filter],
    extractions: list[Extraction],
    vocabulary: FieldVocabulary,
    extractor: str,
) -> dict[str, Any]:
    made = dict(zip((query.id for query in queries), extractions, strict=True))
    known = {name: condition for name, condition in given.items() if only_known(condition, vocabulary)}
    rows = []
    for query in queries:
        row: dict[str, Any] = {"id": query.id, "filter": to_json(made[query.id].filter)}
        if query.id in given:
            row["given"] = to_json(given[query.id])
            row["agrees"] = atoms(given[query.id]) == atoms(made[query.id].filter)
        if made[query.id].dropped:
            row["dropped"] = list(made[query.id].dropped)
        if made[query.id].refused:
            row["refused"] = made[query.id].refused
        rows.append(row)
    return {
        "extractor": extractor,
        **agreement(list(given.values()), [made[name] for name in given]),
        "known_values": agreement(list(known.values()), [made[name] for name in known]),
        **cost(extractions),
        "dropped": sum(len(row.get("dropped", ())) for row in rows),
        "refused": sum("refused" in row for row in rows),
        "extractions": rows,
    }


def _table(report: dict[str, Any]) -> str:
    rows = [("all given filters", report)]
    rows += [(f"  {name}", scores) for name, scores in report["fields"].items()]
    rows += [("those of known values", report["known_values"])]
    rows += [(f"  {name}", scores) for name, scores in report["known_values"]["fields"].items()]
    names = ("exact_match", "precision", "recall")
    lines = [f"{'':<24}{'queries':>8}{'exact':>9}{'precision':>11}{'recall':>9}"]
    for label, scores in rows:
        cells = [f"{scores[name]:.2f}" if scores[name] is not None else "-" for name in names]
        lines.append(f"{label:<24}{scores['queries']:>8}{cells[0]:>9}{cells[1]:>11}{cells[2]:>9}")
    took = f"{report['median_milliseconds']:.3f} ms a question (median), {report['tokens']:g} tokens generated"
    said = f"{report['dropped']} left out, {report['refused']} answers refused"
    return "\n".join([*lines, "", f"{report['extractor']}: {took}; {said}"])
