"""Make a multi-aspect retrieval dataset from any corpus whose documents have categories.

    python scripts/make_multi_aspect.py --documents corpus.jsonl --output my_corpus
        my_corpus/documents.jsonl: 50 documents of at least 800 characters from each category that has that many
    python scripts/make_multi_aspect.py --documents corpus.jsonl --output my_data --llm PATH_OR_HUB_MODEL \\
            --device cuda --dtype bfloat16
        the same documents, and my_data/queries.jsonl: for each number of aspects n, 25 stories, each about one document
        from each of n categories, with search questions about each story
    python evaluate.py retrieval --documents my_data/documents.jsonl --queries my_data/queries.jsonl --output out.json
        measures which strategy finds the documents that a story is about

The corpus is JSON Lines, one document each: {"id": "7", "text": "...", "category": "bridges", "title": "Rialto"}.
Documents that are too short, or repeat an earlier title or text, are left out. The same --seed draws the same documents
again.

A story has to mention the title of each of its documents, so with --llm every drawn document needs a title. A story
that leaves a title out is requested again, up to --attempts times in all, and then dropped; my_data/report.json says
what each dropped story lacked. Choose a model that follows instructions and whose context has room for as many
documents as a story has aspects: the end of a longer prompt is cut off, but never a title. The bundled models cannot
write stories.

The command can be stopped at any moment; run it again to resume. What the model has written is kept in OUTPUT.partial.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mrag_rl.command_line import run_command
from mrag_rl.data.multi_aspect import (
    ASPECTS,
    Selection,
    draw_aspects,
    load_documents,
    save_documents,
    save_queries,
    select_documents,
)
from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.fusion_prompts import MOST_QUERIES
from mrag_rl.generation.stories import Dropped, story_prompt, write_stories
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import atomic_directory, write_json
from mrag_rl.llm_config import LLMConfig
from mrag_rl.retrieval.fusion_queries import generate_queries

AT_ONCE = 16  # stories requested together, and the most that are lost when the command is stopped


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True, help="JSONL of a corpus with categories")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--per-category", type=int, default=50, help="documents in each category (%(default)s)")
    parser.add_argument("--categories", type=int, help="categories to draw (default: all with enough documents)")
    parser.add_argument(
        "--min-length", type=int, default=800, help="minimum length of a text, in characters (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every draw (%(default)s)")
    stories = parser.add_argument_group("queries, with --llm")
    stories.add_argument("--llm", metavar="NAME", help="folder or hub name of the model that writes the stories")
    stories.add_argument(
        "--aspects",
        type=int,
        nargs="+",
        metavar="N",
        help=f"numbers of aspects (default: {' '.join(map(str, ASPECTS))}, up to the number of categories)",
    )
    stories.add_argument("--per-aspect", type=int, default=25, help="queries for each number of aspects (%(default)s)")
    stories.add_argument(
        "--questions", type=int, default=4, help="search questions for each story, 0 to 8 (%(default)s)"
    )
    stories.add_argument(
        "--attempts", type=int, default=3, help="maximum number of times that a story is requested (%(default)s)"
    )
    stories.add_argument(
        "--temperature", type=float, default=0.7, help="temperature of the model's texts (%(default)s)"
    )
    stories.add_argument("--max-new-tokens", type=int, default=1024, help="longest story, in tokens (%(default)s)")
    stories.add_argument("--device", default="cpu", help="torch device (%(default)s)")
    stories.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    stories.add_argument("--quantization", choices=("nf4",), help="weights in 4 bits (extra: gpu)")
    return parser.parse_args(argv)


def make(arguments: argparse.Namespace) -> str:
    """Write the dataset; returns what it contains and what was left out. Raises InputError."""
    check_arguments(arguments)
    selection = select_documents(
        load_documents(arguments.documents),
        per_category=arguments.per_category,
        categories=arguments.categories,
        min_length=arguments.min_length,
        seed=arguments.seed,
    )
    report = describe(selection)
    queries: list[Query] = []
    partial = arguments.output.with_name(arguments.output.name + ".partial")
    if arguments.llm:
        queries, query_report = make_queries(selection.documents, len(report["categories"]), partial, arguments)
        report |= query_report
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_directory(arguments.output) as folder:
        save_documents(folder / "documents.jsonl", selection.documents)
        if queries:
            save_queries(folder / "queries.jsonl", queries)
        write_json(folder / "report.json", report)
    if arguments.llm:
        shutil.rmtree(partial, ignore_errors=True)
    return summary(arguments.output, report)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises InputError if settings are out of range or contradict each other, or if the output exists."""
    for name, least in (("seed", 0), ("per_aspect", 1), ("questions", 0), ("attempts", 1), ("max_new_tokens", 1)):
        if getattr(arguments, name) < least:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(arguments, name)}; give {least} or more")
    if arguments.questions > MOST_QUERIES:
        raise InputError(f"--questions is {arguments.questions}; give {MOST_QUERIES} at most")
    if arguments.temperature <= 0:
        raise InputError(f"--temperature is {arguments.temperature:g}; give more than 0, or every attempt is the same")
    if arguments.aspects and not arguments.llm:
        raise InputError("--aspects without --llm: name the model that writes the stories")
    if arguments.output.exists():
        raise InputError(f"{arguments.output} exists; remove it or give another --output")


def make_queries(
    documents: Sequence[Document], categories: int, partial: Path, arguments: argparse.Namespace
) -> tuple[list[Query], dict[str, Any]]:
    """The queries, and their part of the report; what the model writes is kept in `partial`. Raises InputError."""
    aspects = list(dict.fromkeys(arguments.aspects or [n for n in ASPECTS if n <= categories]))
    subjects = draw_aspects(documents, aspects=aspects, per_aspect=arguments.per_aspect, seed=arguments.seed)
    story_prompt(documents)  # raises if a document has no title, even one that no story is about
    llm = TransformersLLM.load(
        LLMConfig(name=arguments.llm).path,
        dtype=arguments.dtype,
        device=arguments.device,
        quantization=arguments.quantization,
    )
    with CachedLLM(llm, partial / "generations.sqlite") as cached:
        queries, dropped = write_queries(cached, subjects, arguments)
    if not queries:
        raise InputError(
            f"none of {len(subjects)} stories could be used (the first: {dropped[0].problem}); give another --llm, "
            "or fewer --aspects"
        )
    return queries, {
        "llm": {"name": arguments.llm, "fingerprint": llm.fingerprint},
        "wanted": counts(len(relevant) for relevant in subjects),
        "written": counts(len(query.relevant) for query in queries),
        "attempts": counts(query.metadata["attempts"] for query in queries),
        "without_questions": [query.id for query in queries if not query.questions],
        "dropped": [asdict(story) for story in dropped],
    }


def write_queries(
    llm: CachedLLM, subjects: Sequence[Sequence[Document]], arguments: argparse.Namespace
) -> tuple[list[Query], list[Dropped]]:
    """A query with questions about each group of documents, and the stories that were dropped."""
    queries: list[Query] = []
    dropped: list[Dropped] = []
    with tqdm(total=len(subjects), unit="story") as bar:
        for first in range(0, len(subjects), AT_ONCE):
            batch = subjects[first : first + AT_ONCE]
            stories = write_stories(
                llm,
                batch,
                first=first,
                seed=arguments.seed,
                attempts=arguments.attempts,
                temperature=arguments.temperature,
                max_new_tokens=arguments.max_new_tokens,
            )
            questions = generate_queries(
                llm,
                [query.text for query in stories.queries],
                arguments.questions,
                temperature=arguments.temperature,
                seed=arguments.seed,
            )
            queries += [
                replace(query, questions=generation.generated)
                for query, generation in zip(stories.queries, questions, strict=True)
            ]
            dropped += stories.dropped
            bar.update(len(batch))
            bar.set_postfix(dropped=len(dropped))
    return queries, dropped


def describe(selection: Selection) -> dict[str, Any]:
    """The documents' part of the report: how many there are, and what was left out."""
    return {
        "documents": len(selection.documents),
        "categories": list(dict.fromkeys(document.category.strip() for document in selection.documents)),
        "too_short": selection.too_short,
        "duplicates": selection.duplicates,
        "small_categories": selection.small_categories,
    }


def counts(numbers: Iterable[int]) -> dict[str, int]:
    """How often each number occurs, smallest first."""
    return {str(number): times for number, times in sorted(Counter(numbers).items())}


def summary(output: Path, report: dict[str, Any]) -> str:
    """The report as text, with a table of the stories."""
    lines = [
        f"{output}: {report['documents']} documents in {len(report['categories'])} categories; left out: "
        f"{report['too_short']} too short, {report['duplicates']} duplicates, "
        f"{len(report['small_categories'])} categories with too few"
    ]
    if "llm" in report:
        lines += ["", "| aspects | stories requested | written | dropped |", "|---:|---:|---:|---:|"]
        for n, requested in report["wanted"].items():
            written = report["written"].get(n, 0)
            lines.append(f"| {n} | {requested} | {written} | {requested - written} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 0, 2 on bad input, 130 when interrupted."""
    return run_command(
        lambda: make(parse_arguments(argv)), lambda: "the same command resumes after the stories written so far"
    )


if __name__ == "__main__":
    sys.exit(main())
