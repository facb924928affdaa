"""What does each part of the recommended strategy bring, on one corpus?

    python -m benchmarks.hybrid_ablations --documents D.jsonl --queries Q.jsonl [--embeddings DIR]

Each row takes something away from `hybrid`, or lets the attention heads vote, too, with twice the weight of the
standard space; as placebos, heads whose vectors belong to other documents and sentences, and pieces of the standard
embedding in place of heads. Prints the mean over the numbers of aspects of the weighted success ratio (2:1) at three
documents for each aspect, 32 at most, for the half of the queries that settings were chosen on and for the other half;
what `hybrid` gains over the row, with 95% intervals from a paired bootstrap over the queries with each number of
aspects; and the same gain for each number of aspects, over both halves.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from benchmarks.multi_aspect import FETCH, Corpus, add_arguments
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever, Parts
from mrag_rl.retrieval.encoded import encode_documents
from mrag_rl.retrieval.hybrid import HybridSettings, hybrid
from mrag_rl.retrieval.words import WordIndex

RESAMPLES = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    corpus = Corpus(parser, arguments)
    encoder = TransformerEncoder.load(arguments.encoder, max_length=arguments.max_length)
    store = EmbeddingStore(encoder, arguments.embeddings)
    texts, titled = [document.text for document in corpus.documents], [d.titled for d in corpus.documents]
    asked = [query.text for query in corpus.queries]
    whole, sentences = encode_documents(store, texts, titled, progress=True)
    queries = EncodedQueries.of(store, asked, ["hybrid"], progress=True)
    words = WordIndex(titled)
    assert queries.sentences is not None
    voters, fetch, settings = queries.sentences, min(FETCH, len(texts)), HybridSettings()

    with_heads = replace(settings, heads=2 * settings.standard)
    without_words = replace(settings, words=0, windows=0)

    def found(
        changed: HybridSettings = settings,
        documents: Embeddings = whole,
        parts: Parts = sentences,
        asking: Parts = voters,
    ) -> np.ndarray:
        return corpus.success(hybrid(asked, asking, documents, parts, words, fetch, settings=changed).indices)

    rng = np.random.default_rng(0)
    rows = {
        "hybrid": found(),
        "with heads": found(with_heads),
        "placebo: with heads of shuffled documents and sentences": found(
            with_heads,
            _shuffled_heads(whole, rng),
            Parts(_shuffled_heads(sentences.embeddings, rng), sentences.owners),
        ),
        "placebo: with pieces of the standard embedding as heads": found(
            with_heads,
            _pieces(whole),
            Parts(_pieces(sentences.embeddings), sentences.owners),
            Parts(_pieces(voters.embeddings), voters.owners),
        ),
        "heads in place of the standard space": found(replace(settings, standard=0, heads=settings.standard)),
        "without the standard space": found(replace(settings, standard=0)),
        "without BM25 of sentences": found(replace(settings, words=0)),
        "without BM25 of windows": found(replace(settings, windows=0)),
        "without words": found(without_words),
        "without words, with heads": found(replace(without_words, heads=with_heads.heads)),
        "without the documents' sentences": found(parts=Parts.of_wholes(whole)),
        "places by the sum of votes": found(replace(settings, satisfaction=0)),
    }
    retriever = MultiAspectRetriever(whole, sentences, texts=titled)
    for strategy in ("standard", "mrag", "late_interaction", "words"):
        rows[f"`{strategy}`"] = corpus.success(retriever.rank(queries, strategy, fetch).indices)

    everything = np.ones(len(asked), bool)
    other = ~corpus.development
    print("\n| | development half | other half | gain, both halves | gain, other half |\n|---|---:|---:|---:|---:|")
    for name, success in rows.items():
        halves = " | ".join(f"{corpus.mean(success, half):.3f}" for half in (corpus.development, other))
        gains = " | ".join(
            gain(corpus, rows["hybrid"] - success, half) if name != "hybrid" else "" for half in (everything, other)
        )
        print(f"| {name} | {halves} | {gains} |", flush=True)
    numbers = np.unique(corpus.aspects)
    print(f"\n| aspects | {' | '.join(map(str, numbers))} |\n|---|{'---:|' * len(numbers)}")
    for name, success in list(rows.items())[1:]:
        cells = [gain(corpus, rows["hybrid"] - success, corpus.aspects == n) for n in numbers]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def gain(corpus: Corpus, gains: np.ndarray, queries: np.ndarray) -> str:
    """The mean gain over numbers of aspects, in points, with its interval. gains: (Q,). queries: (Q,) bool."""
    rng = np.random.default_rng(0)
    draws, values = np.zeros(RESAMPLES), []
    numbers = np.unique(corpus.aspects[queries])
    for n in numbers:
        own = gains[queries & (corpus.aspects == n)]
        values.append(own.mean())
        draws += own[rng.integers(len(own), size=(RESAMPLES, len(own)))].mean(axis=1) / len(numbers)
    low, high = np.percentile(draws, [2.5, 97.5])
    return f"{100 * np.mean(values):+.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _shuffled_heads(embeddings: Embeddings, rng: np.random.Generator) -> Embeddings:
    """Every row with the heads of another row."""
    order = rng.permutation(len(embeddings))
    return Embeddings(embeddings.standard, embeddings.heads[order], embeddings.norms[order])


def _pieces(embeddings: Embeddings) -> Embeddings:
    """The standard embedding, cut into as many pieces as there are heads, in place of the heads; each a unit vector."""
    pieces = np.stack(np.split(embeddings.standard, embeddings.heads.shape[1], axis=1), axis=1)
    return Embeddings(embeddings.standard, pieces / np.linalg.norm(pieces, axis=-1, keepdims=True))


if __name__ == "__main__":
    main()
