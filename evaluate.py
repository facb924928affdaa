"""Evaluate the systems of a run, pool runs, ask one of them; measure retrieval, metadata filters and Multi-Meta-RAG.

python evaluate.py systems --run runs/quickstart
python evaluate.py pool --runs runs/seed0 runs/seed1 runs/seed2 --output runs/seeds
python evaluate.py ask --run runs/quickstart --text "The harbour council met on Monday ..."
python evaluate.py ask --documents documents.jsonl --text "Who reported ...?"
python evaluate.py retrieval --documents documents.jsonl --queries queries.jsonl --output retrieval.json
python evaluate.py filters --queries queries.jsonl --fields fields.json --output filters.json
python evaluate.py multihop --output multihop.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mrag_rl.command_line import run_command
from mrag_rl.errors import InputError

T = TypeVar("T")

SYSTEMS_HELP = """\
Answer the run's test pairs again with every system and compare them, without training anything.

  none                no retrieval at all
  naive               the nearest memory of the whole, unrefined database
  random_partition    the nearest memory of a random partition
  nearest_partition   the nearest memory of the partition that looks nearest
  oracle_partition    the best partition in hindsight: the ceiling for any selector
  oracle_refined      the same over the refined database
  m_rag               the trained selector over the refined database
  m_rag_without_s     one partition, refined by Agent-R (the paper's Table 4)
  m_rag_without_r     the trained selector, refined by the greedy rule (the paper's Table 4)
"""

SYSTEMS_EXAMPLES = """\
examples:
  python evaluate.py systems --run runs/quickstart
      all systems; prints the table, writes runs/quickstart/evaluation/
  python evaluate.py systems --run runs/quickstart --systems naive m_rag --output two
      two of them, written to two
"""

POOL_HELP = """\
Score the answers of several finished runs as one: the same configuration under several seeds, say.

The runs' settings agree but for name, seed and data.world_seed. Give each a test set of its own (--data.world_seed):
answers of several runs to the same test pair count as one draw in the intervals.
"""

POOL_EXAMPLES = """\
examples:
  for s in 0 1 2; do
    python train.py --config configs/summarization.yaml --name s$s --seed $s --data.world_seed $s
  done
  python evaluate.py pool --runs runs/s0 runs/s1 runs/s2 --output runs/seeds
"""

ASK_HELP = """\
Answer one text and show how.

with --run: by the run's M-RAG: the partition chosen, the memory, the per-head similarities and the hypothesis.
with --documents: by RAG-Fusion under the filter that the question names: every query, the filter, the passages with
source, date and their place in each query's list, and the answer.

A filter is JSON on metadata, as {"source": {"$in": ["Wired"]}, "published_at": {"$gte": "2023-10-04"}}; with --run on
the memories' metadata and "labels". One given with --filter is never left aside: where nothing passes, nothing is read.
"""

ASK_EXAMPLES = """\
examples:
  python evaluate.py ask --run runs/quickstart --text "The harbour council met on Monday ..."
  python evaluate.py ask --run runs/quickstart --text "..." --allowed court farm
      reads no partition but these two
  python evaluate.py ask --run runs/quickstart --text "..." --filter '{"labels": {"$in": ["court"]}}'
      chooses among partitions that hold such a memory, and reads no other
  python evaluate.py ask --run runs/quickstart --text "..." --json | jq .hypothesis
  python evaluate.py ask --documents bundled --text "What did Kestrel Wire report on the harbour?" --llm none
      the bundled news; shows queries, filter and passages, no answer
  python evaluate.py ask --documents d.jsonl --text "..." --query "one of your own" --query "another"
  python evaluate.py ask --documents d.jsonl --text "..." --queries 0 --no-filter
      searches with the text alone
"""

RETRIEVAL_HELP = """\
Rank documents for queries with many aspects by each retrieval strategy; write success ratios and print a table.

  standard          the standard embedding
  mrag              every attention head votes for its nearest documents: importance of the head * 2^-place
  mrag_decay        the same without importance
  mrag_distance     a head's vote is 1 / distance
  split             the standard embedding cut in as many pieces as there are heads; each votes 2^-place
  split_weighted    the same with the importance of each piece
  fusion            reciprocal rank fusion over the query and generated questions about it ("questions")
  fusion_mrag       the same over the rankings of mrag
  segment_mrag      every sentence of the query votes in every head
  late_interaction  every sentence of the query shares out a vote in every head and the standard space, by similarity
                    to whole documents and their nearest sentences

documents: {"id", "text", "category", "title"?}; queries: {"id", "text", "relevant": [document id], "questions"?: [...]}

With --llm a language model answers each query from the documents fetched, and the facts in its answers are counted: the
numbers and names it states, and those of them that the relevant documents bear out. It reads as many documents as
--fetch says, of which its context may hold fewer, the best ones then. The bundled model knows nothing but
the bundled news.
"""

RETRIEVAL_EXAMPLES = """\
examples:
  python evaluate.py retrieval --output out.json --plots plots
      the bundled articles
  python evaluate.py retrieval --documents d.jsonl --queries q.jsonl --output out.json --plots plots
  python evaluate.py retrieval --documents d.jsonl --queries q.jsonl --output out.json \\
      --strategies standard mrag late_interaction --encoder BAAI/bge-base-en-v1.5 \\
      --prefix "Represent this sentence for searching relevant passages: "
  python evaluate.py retrieval --output out.json --strategies standard late_interaction --fetch 5 \\
      --llm PATH_OR_HUB_MODEL
"""

FILTERS_HELP = """\
Read a metadata filter out of every question, and compare it with the one given.

The rules find the corpus's values and dates in the question; with --llm a language model writes the filter. A query's
given filter stands under its key "filter"; queries without one are read all the same.
"""

FILTERS_EXAMPLES = """\
examples:
  python evaluate.py filters --queries queries.jsonl --fields fields.json --output filters.json
      fields.json holds the fields and values: {"source": {"type": "string", "values": ["Wired", ...]}, ...}
  python evaluate.py filters --queries queries.jsonl --documents documents.jsonl --output filters.json
      reads them from the documents' metadata
"""

MULTIHOP_HELP = """\
Find chunks of news articles for questions about several of them, with and without the metadata filter that a question
names, with and without reranking, by each retrieval strategy; print tables. With --llm the strategies fusion and
fusion_mrag, too, search with queries that it writes (or with the questions' own "questions", where all have some).

documents and queries: none for the bundled news; two JSONL files; or MultiHop-RAG's corpus.json and MultiHopRAG.json.
In JSONL a query has "relevant" (document ids), "facts" (the sentences that are the evidence), or both, and may have
"answer", "question_type" (inference, comparison, temporal, null) and "filter".
"""

MULTIHOP_EXAMPLES = """\
examples:
  python evaluate.py multihop --config configs/multihop.yaml
      the bundled news, filters by the rules
  python evaluate.py multihop --config configs/multihop.yaml --strategies standard mrag --fetch 40 --output out.json
  python evaluate.py multihop --output out.json --llm bundled --reranker BAAI/bge-reranker-large
      the language model reads filters, too, and answers the questions
  python evaluate.py multihop --documents corpus.json --queries MultiHopRAG.json --output out.json \\
      --encoder BAAI/bge-large-en-v1.5 --prefix "Represent this sentence for searching relevant passages: "
"""


ASK_DOCUMENTS = (
    "no_filter", "queries", "query", "original_weight", "strategy", "passages", "reranker", "llm", "encoder", "device",
    "prefix", "embeddings",
)  # fmt: skip
"""Options of `ask` that need --documents."""


class _Parser(argparse.ArgumentParser):
    """One line on a mistake, as everywhere else."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see python {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="evaluate.py", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(
        dest="command", required=True, parser_class=_Parser, metavar="{systems,pool,ask,retrieval,filters,multihop}"
    )
    systems = commands.add_parser(
        "systems",
        help="compare all systems on the run's test pairs",
        description=SYSTEMS_HELP,
        epilog=SYSTEMS_EXAMPLES,
        formatter_class=form,
    )
    systems.add_argument("--run", type=Path, required=True, metavar="RUN", help="a run folder that train.py made")
    systems.add_argument("--systems", nargs="+", metavar="NAME", help="which systems (default: those of the run)")
    systems.add_argument("--output", type=Path, metavar="DIR", help="where to write (default: RUN/evaluation)")
    pool = commands.add_parser(
        "pool",
        help="several runs as one table",
        description=POOL_HELP,
        epilog=POOL_EXAMPLES,
        formatter_class=form,
    )
    pool.add_argument("--runs", nargs="+", type=Path, required=True, metavar="RUN", help="finished runs of one task")
    pool.add_argument("--output", type=Path, required=True, metavar="DIR", help="where to write")
    ask = commands.add_parser(
        "ask",
        help="answer one text and show how",
        description=ASK_HELP,
        epilog=ASK_EXAMPLES,
        formatter_class=form,
    )
    source = ask.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", type=Path, metavar="RUN", help="a run folder that train.py made")
    source.add_argument("--documents", metavar="FILE", help="JSONL, MultiHop-RAG's corpus.json, or bundled")
    ask.add_argument("--text", required=True, help="the text to answer")
    ask.add_argument(
        "--allowed",
        nargs="*",
        metavar="NAME",
        help="partitions or documents' categories that may be read (default: all)",
    )
    condition = ask.add_mutually_exclusive_group()
    condition.add_argument(
        "--filter", metavar="JSON", help="set the filter (default: of documents, the question's own)"
    )
    condition.add_argument("--no-filter", action="store_true", default=None, help="search documents without a filter")
    ask.add_argument("--json", action="store_true", help="print JSON")
    fused = ask.add_argument_group("with --documents")
    written = fused.add_mutually_exclusive_group()
    written.add_argument("--queries", type=int, metavar="N", help="queries that the LLM writes (default: 4; 0: none)")
    written.add_argument("--query", action="append", metavar="TEXT", help="search with this instead of written queries")
    fused.add_argument("--original-weight", type=float, help="of the text's own list; the others' is 1 (default: 1)")
    fused.add_argument("--strategy", metavar="NAME", help="how each query is searched (default: standard)")
    fused.add_argument("--passages", type=int, help="shown (default: 6)")
    fused.add_argument("--reranker", metavar="NAME", help="a cross-encoder that orders what was found anew")
    fused.add_argument(
        "--llm",
        metavar="NAME",
        help="bundled (knows the bundled news), a folder, a hub name, none (default: bundled)",
    )
    fused.add_argument("--encoder", metavar="NAME", help="folder or hub name (default: all-MiniLM-L6-v2)")
    fused.add_argument("--device", help="torch device (default: cpu)")
    fused.add_argument("--prefix", help="instruction put before every query")
    fused.add_argument("--embeddings", metavar="DIR", type=Path, help="keep the documents' vectors there")
    retrieval = commands.add_parser(
        "retrieval",
        help="compare retrieval strategies on multi-aspect queries",
        description=RETRIEVAL_HELP,
        epilog=RETRIEVAL_EXAMPLES,
        formatter_class=form,
    )
    retrieval.add_argument("--documents", type=Path, metavar="D.jsonl", help="default: the bundled articles")
    retrieval.add_argument("--queries", type=Path, metavar="Q.jsonl", help="default: those of the bundled articles")
    retrieval.add_argument("--output", type=Path, required=True, metavar="OUT.json", help="where to write the results")
    retrieval.add_argument(
        "--strategies", nargs="+", metavar="NAME", help="which (default: all that the queries allow)"
    )
    retrieval.add_argument("--fetch", type=int, default=32, help="documents fetched for a query (default: 32)")
    retrieval.add_argument("--plots", type=Path, metavar="DIR", help="draw the results there")
    retrieval.add_argument(
        "--embeddings", type=Path, metavar="DIR", help="keep vectors there (default: embeddings, beside the output)"
    )
    retrieval.add_argument(
        "--encoder", default="all-MiniLM-L6-v2", metavar="NAME", help="folder or hub name (default: all-MiniLM-L6-v2)"
    )
    retrieval.add_argument("--layer", type=int, nargs="+", default=[-1], help="whose heads (default: -1, the last)")
    retrieval.add_argument("--pooling", choices=("first", "last", "mean"), help="whose heads' outputs, by token")
    retrieval.add_argument("--max-length", type=int, metavar="TOKENS", help="window; longer texts are read in several")
    retrieval.add_argument("--truncate", action="store_true", help="read only the first window of a longer text")
    retrieval.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    retrieval.add_argument("--device", default="cpu", help="torch device (default: cpu)")
    retrieval.add_argument("--prefix", default="", help="instruction put before every query text")
    retrieval.add_argument(
        "--index",
        choices=("exact", "hnsw"),
        default="exact",
        help="how nearest documents are found (late_interaction compares with all)",
    )
    retrieval.add_argument("--reranker", metavar="NAME", help="a cross-encoder that orders what was fetched anew")
    retrieval.add_argument("--llm", metavar="NAME", help="answers from what was fetched: a folder or a hub name")
    retrieval.add_argument(
        "--votes", choices=("sum", "single"), default="sum", help="sum a document's votes, or count its highest alone"
    )
    filters = commands.add_parser(
        "filters",
        help="filters read out of questions, against given ones",
        description=FILTERS_HELP,
        epilog=FILTERS_EXAMPLES,
        formatter_class=form,
    )
    filters.add_argument("--queries", type=Path, required=True, metavar="FILE", help="questions (JSONL)")
    corpus = filters.add_mutually_exclusive_group(required=True)
    corpus.add_argument("--fields", type=Path, metavar="FILE", help="the fields and their values (JSON)")
    corpus.add_argument("--documents", type=Path, metavar="FILE", help="the corpus to read them from (JSONL)")
    filters.add_argument("--output", type=Path, required=True, metavar="FILE", help="where to write (JSON)")
    filters.add_argument(
        "--llm", metavar="NAME", help="bundled (knows the bundled news), a folder or a hub name (default: the rules)"
    )
    # Its settings come from a file as well: see _multihop.
    commands.add_parser("multihop", help="Multi-Meta-RAG and RAG-Fusion on multi-hop questions", add_help=False)
    return parser


def _systems(arguments: argparse.Namespace) -> str:
    from mrag_rl.runs.evaluate import evaluate_again

    return evaluate_again(arguments.run, systems=arguments.systems, output=arguments.output)


def _pool(arguments: argparse.Namespace) -> str:
    from mrag_rl.runs.pool import pool_runs

    return pool_runs(arguments.runs, arguments.output)


def _ask(arguments: argparse.Namespace) -> str:
    answer: dict[str, Any]
    if arguments.run is not None:
        from mrag_rl.runs.ask import answer_text, explanation

        for option in ASK_DOCUMENTS:
            if getattr(arguments, option) is not None:
                raise InputError(f"--{option.replace('_', '-')} goes with --documents, not with --run; leave it out")
        answer = answer_text(arguments.run, arguments.text, allowed=arguments.allowed, condition=arguments.filter)
        return json.dumps(answer, indent=2, ensure_ascii=False) if arguments.json else explanation(answer)

    from mrag_rl.experiments.questions import answer_question
    from mrag_rl.experiments.questions import explanation as documents_explanation
    from mrag_rl.experiments.settings import QuestionSettings

    given = {name: getattr(arguments, name) for name in (*ASK_DOCUMENTS, "allowed", "filter")}
    lists = {name: tuple(given[name]) for name in ("allowed", "query") if given[name] is not None}
    given = {name: value for name, value in given.items() if value is not None} | lists
    if "embeddings" in given:
        given["embeddings"] = str(given["embeddings"])
    answer = answer_question(QuestionSettings(arguments.documents, arguments.text, **given))
    return json.dumps(answer, indent=2, ensure_ascii=False) if arguments.json else documents_explanation(answer)


def _settings(arguments: argparse.Namespace, kind: type[T]) -> T:
    """Settings from options of the same names."""
    values: dict[str, Any] = {field.name: getattr(arguments, field.name) for field in fields(kind)}  # type: ignore
    for name, value in values.items():
        values[name] = tuple(value) if isinstance(value, list) else str(value) if isinstance(value, Path) else value
    return kind(**values)


def _retrieval(arguments: argparse.Namespace) -> str:
    from mrag_rl.experiments.retrieval import run
    from mrag_rl.experiments.settings import RetrievalSettings

    return run(_settings(arguments, RetrievalSettings))


def _filters(arguments: argparse.Namespace) -> str:
    from mrag_rl.experiments.filters import run
    from mrag_rl.experiments.settings import FiltersSettings

    return run(_settings(arguments, FiltersSettings))


def _multihop(arguments: Sequence[str]) -> str:
    from mrag_rl.experiments.multihop_config import read_multihop_config

    config = read_multihop_config(
        arguments, program="evaluate.py multihop", description=MULTIHOP_HELP, epilog=MULTIHOP_EXAMPLES
    )
    from mrag_rl.experiments.multihop import run
    from mrag_rl.experiments.settings import MultihopSettings

    return run(MultihopSettings(**asdict(config)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 0, 2 on bad input, 130 when interrupted."""
    given = sys.argv[1:] if argv is None else list(argv)

    def work() -> str:
        if given[:1] == ["multihop"]:
            return _multihop(given[1:])
        arguments = _parser().parse_args(given)
        commands = {"systems": _systems, "pool": _pool, "ask": _ask, "retrieval": _retrieval, "filters": _filters}
        return commands[arguments.command](arguments)

    return run_command(work, lambda: "nothing is lost: run the same command again")


if __name__ == "__main__":
    sys.exit(main())
