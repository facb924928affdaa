"""Does the rule that refuses a question refuse more of those without an answer than thresholds on scores?

    python -m benchmarks.refusals [--reach 0.05]

The rule: a name of the question is in none of the six passages (`mrag_rl.systems.evidence`). Its rivals refuse below a
threshold of what retrieval says: the best passage's cosine or BM25 score, the lead of the first over the sixth, and a
logistic regression on all four. On the split `dev` of two seeds, each threshold is set to refuse the same share of the
questions that have an answer as the rule does; the split `test` is scored. No language model is asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mrag_rl.data.synthetic import make_news
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.filters import FieldVocabulary, RuleExtractor
from mrag_rl.systems.evidence import missing
from mrag_rl.systems.passages import PassageRetriever

SCORES = ("cosine", "lead in cosine", "BM25", "lead in BM25")
RESAMPLES = 10_000


class Judged(NamedTuple):
    """Questions: scores (N, 4), whether the rule refuses them, whether they have an answer."""

    scores: np.ndarray
    refused: np.ndarray
    answerable: np.ndarray


def judge(store: EmbeddingStore, seed: int, split: str) -> Judged:
    """The questions of a world, with what each judge of them knows."""
    documents, queries = make_news(seed, split=split)
    texts = [query.text for query in queries]
    rules = RuleExtractor(FieldVocabulary.from_documents(documents))
    columns: list[np.ndarray] = []
    refused = np.zeros(len(texts), bool)
    for strategy in ("standard", "words", "hybrid"):
        retriever = PassageRetriever.build(documents, store, extractor=rules, strategy=strategy)
        readable, scope = retriever.scope(texts)
        found = readable.search(readable.encode(texts), scope)
        if strategy == "hybrid":
            rows = readable.results(scope, found)
            refused[:] = [bool(missing(text, row.filter, row.passages)) for text, row in zip(texts, rows, strict=True)]
        else:
            scores = np.where(found.ranking.indices >= 0, found.ranking.scores, 0.0)
            sixth = scores[:, min(retriever.passages, scores.shape[1]) - 1]
            columns += [scores[:, 0], scores[:, 0] - sixth]
    answerable = np.array([query.metadata["question_type"] != "null" for query in queries])
    return Judged(np.stack(columns, axis=1), refused, answerable)


def interval(refused: np.ndarray) -> str:
    """A share in percent with its 95% bootstrap interval."""
    rng = np.random.default_rng(0)
    means = 100 * refused[rng.integers(len(refused), size=(RESAMPLES, len(refused)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{100 * refused.mean():.1f} [{low:.1f}, {high:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reach", type=float, help="share of answerable questions that may be refused (the rule's)")
    parser.add_argument("--embeddings", type=Path, default=Path("runs/refusals"), help="folder that keeps embeddings")
    arguments = parser.parse_args()
    reach = arguments.reach
    store = EmbeddingStore(TransformerEncoder.load(), arguments.embeddings)
    worlds = [judge(store, seed, "dev") for seed in (0, 1)]
    dev = Judged(*(np.concatenate(parts) for parts in zip(*worlds, strict=True)))
    test = judge(store, 0, "test")
    if reach is None:
        reach = float(dev.refused[dev.answerable].mean())
    regression = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    regression.fit(dev.scores, dev.answerable)
    print(f"thresholds refuse {100 * reach:.1f}% of the answerable questions of the development worlds\n")
    print("| judge | refused, without an answer | refused, with an answer |\n|---|---:|---:|")
    rivals = [(name, dev.scores[:, i], test.scores[:, i]) for i, name in enumerate(SCORES)]
    rivals.append(("regression", regression.decision_function(dev.scores), regression.decision_function(test.scores)))
    rows = [(name, now < np.quantile(then[dev.answerable], reach)) for name, then, now in rivals]
    for name, refused in [*rows, ("rule", test.refused)]:
        print(f"| {name} | {interval(refused[~test.answerable])} | {interval(refused[test.answerable])} |")


if __name__ == "__main__":
    main()
