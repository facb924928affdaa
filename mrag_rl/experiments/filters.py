"""Metadata filters extracted from questions, and how well they agree with reference filters: `evaluate.py filters`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrag_rl.data.records import Query, load_documents, load_queries
from mrag_rl.errors import InputError
from mrag_rl.experiments.corpora import reference_filters
from mrag_rl.experiments.settings import FiltersSettings
from mrag_rl.filters.dates import parse_date
from mrag_rl.filters.extraction import Extraction, Extractor
from mrag_rl.filters.language import Filter, to_json
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.scoring import agreement, atoms, cost, only_known
from mrag_rl.filters.vocabulary import FieldVocabulary
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.question_llm import load_question_llm
from mrag_rl.io import write_json


def run(settings: FiltersSettings, *, llm: LLM | None = None) -> str:
    """Extract a filter from every question, write `output` (see docs/filters.md) and return a table.

    A query's key `filter` is its reference, if it has one. llm: extracts the filters; None loads the one that the
    settings name; if they name none, the rules extract them.

    Raises InputError: a file that cannot be read, or an invalid reference filter, with its query's id.
    """
    output = Path(settings.output)
    name = "rules" if settings.llm in (None, "none") else settings.llm
    if output.is_dir():
        raise InputError(f"--output {output} is a folder; give a file to write")
    today = None if settings.today is None else parse_date(settings.today)
    if settings.today is not None and today is None:
        raise InputError(f"--today {settings.today!r} is not a day; give one such as 2026-11-30")
    queries = load_queries(settings.queries)
    vocabulary = _vocabulary(settings)
    references = reference_filters(queries, vocabulary, settings.queries)
    # Last: a mistake in the files should not wait for a large model to load.
    if llm is None:
        llm = load_question_llm(settings.llm)
    rules = RuleExtractor(vocabulary, today=today)
    extractor: Extractor = rules if llm is None else LLMExtractor(llm, vocabulary)
    extractions = extractor.extract([query.text for query in queries])
    report = {"extractor": name, **_report(queries, references, extractions, vocabulary)}
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, report)
    return _table(report)


def _vocabulary(settings: FiltersSettings) -> FieldVocabulary:
    """The fields and their values, from their own file or from the corpus. Raises InputError if there are none."""
    if settings.fields is not None:
        return FieldVocabulary.from_file(settings.fields)
    assert settings.documents is not None  # the settings have one of the two
    vocabulary = FieldVocabulary.from_documents(load_documents(settings.documents))
    if not vocabulary.fields:
        raise InputError(f"{settings.documents}: no document has metadata; add some, or give --fields")
    return vocabulary


def _report(
    queries: Sequence[Query],
    references: Mapping[str, Filter],
    extractions: Sequence[Extraction],
    vocabulary: FieldVocabulary,
) -> dict[str, Any]:
    by_id = dict(zip((query.id for query in queries), extractions, strict=True))
    known = {name: condition for name, condition in references.items() if only_known(condition, vocabulary)}
    rows = []
    for name, extraction in by_id.items():
        row: dict[str, Any] = {"id": name, "filter": to_json(extraction.filter)}
        if name in references:
            row["given"] = to_json(references[name])
            row["agrees"] = atoms(references[name]) == atoms(extraction.filter)
        if extraction.dropped:
            row["dropped"] = list(extraction.dropped)
        if extraction.refused:
            row["refused"] = extraction.refused
        rows.append(row)
    return {
        **agreement(list(references.values()), [by_id[name] for name in references]),
        "known_values": agreement(list(known.values()), [by_id[name] for name in known]),
        **cost(extractions),
        "dropped": sum(len(extraction.dropped) for extraction in extractions),
        "refused": sum(bool(extraction.refused) for extraction in extractions),
        "extractions": rows,
    }


def _table(report: Mapping[str, Any]) -> str:
    rows = [("all given filters", report)]
    rows += [(f"  {name}", scores) for name, scores in report["fields"].items()]
    rows += [("those of known values", report["known_values"])]
    rows += [(f"  {name}", scores) for name, scores in report["known_values"]["fields"].items()]
    lines = [f"{'':<24}{'queries':>8}{'exact':>9}{'precision':>11}{'recall':>9}"]
    for label, scores in rows:
        exact, precision, recall = (
            "-" if scores[name] is None else f"{scores[name]:.2f}" for name in ("exact_match", "precision", "recall")
        )
        lines.append(f"{label:<24}{scores['queries']:>8}{exact:>9}{precision:>11}{recall:>9}")
    cost_line = f"{report['median_milliseconds']:.3f} ms a question (median), {report['tokens']:g} tokens generated"
    problems = f"{report['dropped']} left out, {report['refused']} answers refused"
    return "\n".join([*lines, "", f"{report['extractor']}: {cost_line}; {problems}"])
