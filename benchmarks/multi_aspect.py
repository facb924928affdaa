"""Documents and queries of one corpus, and how well rankings serve them; shared by the benchmarks of retrieval."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mrag_rl.data.multi_aspect import load_documents, load_queries
from mrag_rl.data.synthetic.articles import make_articles
from mrag_rl.metrics.multi_aspect import success_ratios, weighted_success

FETCH = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--documents, --queries, --embeddings, --encoder and --max-length."""
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--queries", type=Path, help="without both files, the bundled articles are searched")
    parser.add_argument("--embeddings", type=Path, default=Path("runs/embeddings"), help="where vectors are kept")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--max-length", type=int, help="tokens in a window")


class Corpus:
    """N documents and Q queries with n aspects each.

    Attributes:
        aspects: (Q,) int. development: (Q,) bool, every other query with each number of aspects; settings were chosen
            on these alone.
    """

    def __init__(self, parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
        if (arguments.documents is None) != (arguments.queries is None):
            parser.error("--documents and --queries go together; give both, or neither for the bundled articles")
        if arguments.documents and arguments.queries:
            self.documents = load_documents(arguments.documents)
            self.queries = load_queries(arguments.queries, self.documents)
        else:
            self.documents, self.queries = make_articles(seed=0)
        place = {document.id: i for i, document in enumerate(self.documents)}
        self._wanted = [[[place[identifier] for identifier in ids] for ids in query.wanted] for query in self.queries]
        self._categories = [document.category for document in self.documents]
        self.aspects = np.array([len(rows) for rows in self._wanted])
        self.development = np.zeros(len(self.queries), bool)
        for n in np.unique(self.aspects):
            self.development[np.flatnonzero(self.aspects == n)[::2]] = True

    def success(self, ranking: np.ndarray) -> np.ndarray:
        """(Q,) the weighted success ratio (2:1) of each query at three documents for each aspect, 32 at most."""
        values = weighted_success(success_ratios(ranking, self._wanted, self._categories))
        at: np.ndarray = values[np.arange(len(self.queries)), np.minimum(3 * self.aspects, values.shape[1]) - 1]
        return at

    def mean(self, success: np.ndarray, queries: np.ndarray) -> float:
        """The mean over numbers of aspects of the chosen queries' (bool, (Q,)) mean success (Q,)."""
        return float(np.mean([success[(self.aspects == n) & queries].mean() for n in np.unique(self.aspects)]))
