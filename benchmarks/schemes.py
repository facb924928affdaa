"""What do parent documents and RAPTOR's summaries bring over one vector for each document, on one corpus?

    python -m benchmarks.schemes --documents D.jsonl --queries Q.jsonl --max-length 512 [--llm NAME] [--around 0 1]

Prints, for each scheme, the mean over the numbers of aspects of the weighted success ratio (2:1) at three documents for
each aspect, 32 at most, for the half of the queries that settings are chosen on and for the other half; and what it
gains over `standard`, in points, with 95% intervals from a paired bootstrap over the queries of both halves. All
schemes search the standard space with whole queries. The summaries of one tree are written by the language model, those
of the other are what it is shown, and a placebo has the first tree with every summary's vector in another's place.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.hybrid_ablations import gain
from benchmarks.multi_aspect import FETCH, Corpus, add_arguments
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.question_llm import load_question_llm
from mrag_rl.generation.writer import Writer
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever
from mrag_rl.retrieval.parents import encode_windows, rank_parents
from mrag_rl.retrieval.summary_tree import SummaryTree
from mrag_rl.retrieval.voting import top

TOKENS = 48
WEIGHT = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--llm", help="a language model that writes summaries, too")
    parser.add_argument(
        "--around", type=int, nargs="*", default=[0], help="sentences on each side of a window's middle"
    )
    arguments = parser.parse_args()
    corpus = Corpus(parser, arguments)
    encoder = TransformerEncoder.load(arguments.encoder, max_length=arguments.max_length)
    store = EmbeddingStore(encoder, arguments.embeddings)
    texts, titled = [document.text for document in corpus.documents], [d.titled for d in corpus.documents]
    documents = store.encode(texts, prefix=encoder.prefixes.document, progress=True)
    queries = EncodedQueries.of(store, [query.text for query in corpus.queries], [], progress=True)
    fetch = min(FETCH, len(texts))
    rows = {"`standard`": MultiAspectRetriever(documents).rank(queries, "standard", fetch).indices}
    for around in arguments.around:
        parts = encode_windows(store, titled, around=around, progress=True)
        rows[f"parents of windows of {2 * around + 1}"] = rank_parents(queries.whole, parts, fetch).indices

    trees = {"RAPTOR, excerpts": SummaryTree.build(store, titled, documents, lambda shown: shown)}
    llm = load_question_llm(arguments.llm)
    if llm is not None:
        with CachedLLM(llm, store.folder / "summaries.sqlite", progress=True) as cached:
            writer = Writer(cached, "summarization", max_new_tokens=TOKENS)

            def summarize(shown: Sequence[str]) -> list[str]:
                return writer.answer(shown, [[]] * len(shown))

            trees[f"RAPTOR, {arguments.llm}"] = SummaryTree.build(store, titled, documents, summarize)
    own = queries.whole.standard @ documents.standard.T
    for name, tree in trees.items():
        sizes = np.array([len(rows) for rows in tree.below])
        print(f"{name}: {np.bincount(tree.levels)[1:]} summaries by level, {sizes.mean():.1f} documents below each")
        order = np.random.default_rng(0).permutation(len(tree.texts))
        for label, used in ((name, tree), (f"{name}: placebo", replace(tree, embeddings=tree.embeddings[order]))):
            rows[label] = used.rank(queries.whole, documents, fetch).indices
            added = own + WEIGHT * used.above(queries.whole)
            rows[f"{label}: own cosine + {WEIGHT} x the nearest summary's"] = top(added, fetch).indices

    everything, other = np.ones(len(queries), bool), ~corpus.development
    found = {name: corpus.success(indices) for name, indices in rows.items()}
    print("\n| | development half | other half | gain, both halves | gain, other half |\n|---|---:|---:|---:|---:|")
    for name, success in found.items():
        halves = " | ".join(f"{corpus.mean(success, half):.3f}" for half in (corpus.development, other))
        gains = " | ".join(gain(corpus, success - found["`standard`"], half) for half in (everything, other))
        print(f"| {name} | {halves} | {gains} |", flush=True)


if __name__ == "__main__":
    main()
