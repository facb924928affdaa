"""What does each choice in multi-head retrieval contribute?

    python -m benchmarks.retrieval_ablations [--documents D.jsonl --queries Q.jsonl] [--embeddings DIR]

Layer (first, middle, last), pooling, vote rule, summed or single votes, importance (exact, sampled, none), number of
heads searched, the parts of `late_interaction`, and how far words alone get (TF-IDF). Prints weighted success ratios
(2:1) at three documents fetched for each aspect, at most 32: means over the numbers of aspects, for every other query
(the development half) and for the rest, and their ratio to the unchanged strategy. Vectors are stored in DIR and
reused. Without files, the bundled articles are searched.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import numpy as np
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.multi_aspect import FETCH, Corpus, add_arguments
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.encoders.pooling import HeadPooling
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever, Parts
from mrag_rl.retrieval.encoded import encode_documents
from mrag_rl.retrieval.importance import importance_scores, sampled_importance_scores
from mrag_rl.retrieval.late_interaction import STANDARD_SHARE, TEMPERATURE, late_interaction
from mrag_rl.retrieval.sentences import split_all
from mrag_rl.retrieval.voting import count_votes, importance_votes, top


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    corpus = Corpus(parser, arguments)
    documents, queries = corpus.documents, corpus.queries

    def encoded(layers: Sequence[int], pooling: HeadPooling | None) -> tuple[Embeddings, Parts, EncodedQueries]:
        encoder = TransformerEncoder.load(
            arguments.encoder, layer=[*layers], pooling=pooling, max_length=arguments.max_length
        )
        store = EmbeddingStore(encoder, arguments.embeddings)
        texts, query_texts = [document.text for document in documents], [query.text for query in queries]
        titled = [document.titled for document in documents]
        return (
            *encode_documents(store, texts, titled, progress=True),
            EncodedQueries.of(store, query_texts, ["late_interaction"], progress=True),
        )

    def success(ranking: np.ndarray) -> np.ndarray:
        """Development half, other half: (2,)."""
        reached = corpus.success(ranking)
        return np.array([corpus.mean(reached, half) for half in (corpus.development, ~corpus.development)])

    depth = TransformerEncoder.load(arguments.encoder).model.config.get_text_config().num_hidden_layers
    layers = [0, depth // 2, depth - 1]
    whole, sentences, encoded_queries = encoded(layers, None)
    heads = whole.heads.shape[1] // len(layers)

    def of_heads(spaces: np.ndarray) -> tuple[Embeddings, Parts, EncodedQueries]:
        def cut(embeddings: Embeddings) -> Embeddings:
            return Embeddings(embeddings.standard, embeddings.heads[:, spaces], embeddings.norms[:, spaces])

        assert encoded_queries.sentences is not None
        cut_sentences = Parts(cut(encoded_queries.sentences.embeddings), encoded_queries.sentences.owners)
        return (
            cut(whole),
            Parts(cut(sentences.embeddings), sentences.owners),
            EncodedQueries(cut(encoded_queries.whole), cut_sentences),
        )

    last = of_heads(np.arange(2 * heads, 3 * heads))
    retriever = MultiAspectRetriever(last[0], last[1])
    compared = ("mrag", "segment_mrag", "late_interaction")

    def on(parts: tuple[Embeddings, Parts, EncodedQueries], strategy: str, *, single: bool = False) -> np.ndarray:
        return success(MultiAspectRetriever(parts[0], parts[1], single=single).rank(parts[2], strategy, FETCH).indices)

    by_layer = {
        f"layer {layer + 1} of {depth}": of_heads(np.arange(i * heads, (i + 1) * heads))
        for i, layer in reversed([*enumerate(layers)])
    }
    by_layer["all three"] = whole, sentences, encoded_queries
    for strategy in compared:
        _table(f"{strategy}: layer", {name: on(parts, strategy) for name, parts in by_layer.items()})
    mean_pooled = encoded([depth - 1], "mean")
    for strategy in compared:
        rows = {"the encoder's own": on(last, strategy), "mean": on(mean_pooled, strategy)}
        _table(f"{strategy}: pooling of heads", rows)
    _table("vote rule", {name: on(last, name) for name in ("mrag", "mrag_decay", "mrag_distance")})
    for strategy in ("mrag", "segment_mrag"):
        _table(f"{strategy}: votes", {"summed": on(last, strategy), "single": on(last, strategy, single=True)})

    def with_importance(importance: np.ndarray, strategy: str) -> np.ndarray:
        voters = last[2].sentences if strategy == "segment_mrag" else Parts.of_wholes(last[2].whole)
        assert voters is not None
        fetch = min(FETCH, len(documents))
        indices, similarities = retriever.heads.search(voters.embeddings, fetch)
        votes = importance_votes(similarities, importance)
        return success(count_votes(indices, votes, voters.owners, queries=len(queries), fetch=fetch).indices)

    exact = importance_scores(last[0])
    rules = {"exact": exact}
    rules |= {f"sampled, {count} a document": sampled_importance_scores(last[0], count) for count in (1, 10, 100)}
    rules["none"] = np.ones(heads)
    for strategy in ("mrag", "segment_mrag"):
        _table(f"{strategy}: importance", {name: with_importance(rule, strategy) for name, rule in rules.items()})
    exact_seconds = _seconds(partial(importance_scores, last[0]))
    for count in (1, 10, 100):
        ratio = _seconds(partial(sampled_importance_scores, last[0], count)) / exact_seconds
        off = np.abs(rules[f"sampled, {count} a document"] / exact - 1).max()
        print(f"exact importance is {ratio:.0f}x faster than {count} samples a document, which are off by {off:.2%}")

    order = np.argsort(-retriever.importance, kind="stable")
    counts = sorted({heads, heads * 3 // 4, heads // 2, heads // 4, 1}, reverse=True)
    for strategy in compared:
        rows = {str(count): on(of_heads(2 * heads + np.sort(order[:count])), strategy) for count in counts}
        _table(f"{strategy}: most important heads alone", rows)

    def late(*, temperature: float = TEMPERATURE, standard_share: float = STANDARD_SHARE) -> np.ndarray:
        voters, fetch = last[2].sentences, min(FETCH, len(documents))
        assert voters is not None
        ranking = late_interaction(
            voters, len(queries), last[0], last[1], fetch, temperature=temperature, standard_share=standard_share
        )
        return success(ranking.indices)

    only_wholes = Parts.of_wholes(last[0])  # Every document is its only sentence
    rows = {"unchanged": late(), "whole documents only": on((last[0], only_wholes, last[2]), "late_interaction")}
    rows |= {
        f"the standard space weighs {share:g} of all heads": late(standard_share=share) for share in (0.0, 0.5, 1.0)
    }
    rows |= {f"temperature {value:g}": late(temperature=value) for value in (0.01, 0.02, 0.04, 0.06)}
    _table("late_interaction: its parts", rows)

    words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    texts = words.fit_transform([document.text for document in documents]).T
    pieces, owners = split_all([query.text for query in queries])
    by_query = (words.transform([query.text for query in queries]) @ texts).toarray()
    by_sentence = (words.transform(pieces) @ texts).toarray()

    def votes(temperature: float) -> np.ndarray:
        totals: np.ndarray = np.zeros_like(by_query)
        np.add.at(totals, owners, softmax(by_sentence / temperature, axis=1))
        return totals

    rows = {"late_interaction": on(last, "late_interaction")}
    rows["TF-IDF, the whole query"] = success(top(by_query, FETCH).indices)
    rows |= {
        f"TF-IDF, sentences, temperature {value:g}": success(top(votes(value), FETCH).indices)
        for value in (0.01, 0.02, 0.03, 0.05)
    }
    _table("words alone", rows)


def _table(title: str, rows: dict[str, np.ndarray]) -> None:
    """Print the success in both halves of the queries, (2,) for each row, and its ratio to the first row."""
    print(f"\n| {title} | development | other half | ratio |\n|---|---:|---:|---:|")
    first = next(iter(rows.values()))
    for name, halves in rows.items():
        print(f"| {name} | {halves[0]:.3f} | {halves[1]:.3f} | {halves.mean() / first.mean():.2f} |", flush=True)


def _seconds(work: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


if __name__ == "__main__":
    main()
