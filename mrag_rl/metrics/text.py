"""Text metrics, per sentence (rewards) and per corpus (reports): ROUGE, BLEU, chrF, dialogue BLEU-n, Distinct-n,
SQuAD's exact match and F1, and metrics of the user's own."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import get_args

import numpy as np
import scipy.sparse
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer
from rouge_score import tokenize as rouge_tokenize
from sacrebleu.metrics.bleu import BLEU

from mrag_rl.choices import MetricName, TaskName
from mrag_rl.errors import InputError
from mrag_rl.metrics.answers import answer_words, word_f1
from mrag_rl.plugins import Plugin, check_parameters, is_import_path, loaded_plugin, trial, wrong_plugin

REPORTED: dict[TaskName, tuple[MetricName, ...]] = {
    "summarization": ("rouge1", "rouge2", "rougeL"),
    "translation": ("bleu", "chrf"),
    "dialogue": ("bleu1", "bleu2", "distinct1", "distinct2"),
    "question_answering": ("exact_match", "f1"),
}
"""The metrics that the results of each task report (M-RAG: Reinforcing Large Language Model Performance through
Retrieval-Augmented Generation with Multiple Partitions, Tables 1-3), chrF, and those of SQuAD."""

TARGET: dict[TaskName, MetricName] = {
    "summarization": "rouge1",
    "translation": "bleu",
    "dialogue": "bleu1",
    "question_answering": "f1",
}
"""The metric that each task's reward is computed from: the paper's delta."""


class Metric(ABC):
    """A metric of hypotheses against one reference each.

    Attributes:
        name: Its name in tables and configurations.
    """

    name: str

    @abstractmethod
    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """Sentence-level scores (N,) float64 in 0..1."""

    @abstractmethod
    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """What the corpus score is computed from, for each pair: (N, S) int64 or float64."""

    @abstractmethod
    def resampled(self, statistics: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Corpus scores (R,), 0..100, of R bootstrap resamples.

        statistics: of N pairs. counts: (R, N), how often each resample draws each pair.
        """

    def corpus(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        """The score of all pairs together, 0..100."""
        statistics = self.statistics(hypotheses, references)
        return float(self.resampled(statistics, np.ones((1, len(statistics)), dtype=np.int64))[0])


class MeanMetric(Metric):
    """A metric whose corpus score is the mean of its sentences' scores."""

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """(N, 1): the scores."""
        return self.scores(hypotheses, references)[:, None]

    def resampled(self, statistics: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return np.asarray(100.0 * (counts @ statistics[:, 0]) / counts.sum(axis=1))


class Rouge(MeanMetric):
    """ROUGE F1 by rouge-score with Porter stemming, as the papers report it; the corpus score is the mean.

    Stems and tokenised texts are cached because stemming takes 90% of rouge-score's time.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._scorer = rouge_scorer.RougeScorer([name], tokenizer=_RougeTokenizer())

    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        pairs = zip(hypotheses, references, strict=True)
        return np.array([self._scorer.score(ref, hyp)[self.name].fmeasure for hyp, ref in pairs], dtype=np.float64)


class _RougeTokenizer:
    """rouge-score's tokenizer with cached texts and stems."""

    def tokenize(self, text: str) -> list[str]:
        return _rouge_tokens(text)


class _Stemmer:
    stem = staticmethod(lru_cache(maxsize=1 << 17)(PorterStemmer().stem))


@lru_cache(maxsize=1 << 15)
def _rouge_tokens(text: str) -> list[str]:
    tokens: list[str] = rouge_tokenize.tokenize(text, _Stemmer)
    return tokens


class SacreBleu(Metric):
    """BLEU by sacrebleu (13a tokens, exponential smoothing); a sentence's is its `sentence_bleu` (effective order)."""

    name = "bleu"

    def __init__(self) -> None:
        self._bleu = BLEU(effective_order=True)

    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        pairs = zip(hypotheses, references, strict=True)
        return np.array([self._bleu.sentence_score(hyp, [ref]).score / 100 for hyp, ref in pairs], dtype=np.float64)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """(N, 10): matches of each order, n-grams of each order, lengths of hypothesis and reference."""
        rows = []
        for hyp, ref in zip(hypotheses, references, strict=True):
            score = self._bleu.sentence_score(hyp, [ref])
            rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
        return np.array(rows, dtype=np.int64).reshape(-1, 10)

    def resampled(self, statistics: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return np.array(
            [
                BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9], smooth_method="exp", effective_order=False).score
                for row in (counts @ statistics).tolist()
            ]
        )


class ChrF(Metric):
    """chrF (Popović 2015) as sacrebleu computes it: F2 over character 1- to 6-grams, white space left out."""

    name = "chrf"
    order, beta = 6, 2.0

    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        return self._chrf(self.statistics(hypotheses, references))

    def resampled(self, statistics: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return 100.0 * self._chrf(counts @ statistics)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """(N, 18): for each order, the n-grams of the hypothesis, those of the reference, and matches."""
        rows = np.zeros((len(hypotheses), self.order, 3), dtype=np.int64)
        for row, texts in zip(rows, zip(hypotheses, references, strict=True), strict=True):
            written, expected = ("".join(text.split()) for text in texts)
            for n in range(1, self.order + 1):
                grams, goal = (
                    Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in (written, expected)
                )
                # sacrebleu counts no n-grams of an order that the reference is too short for.
                row[n - 1] = (grams.total() if goal else 0, goal.total(), (grams & goal).total())
        return rows.reshape(len(rows), 3 * self.order)

    def _chrf(self, statistics: np.ndarray) -> np.ndarray:
        written, expected, matches = np.moveaxis(statistics.astype(np.float64).reshape(-1, self.order, 3), 2, 0)
        both = (written > 0) & (expected > 0)
        orders = np.maximum(both.sum(axis=1), 1)
        precision, recall = (
            np.where(both, matches / np.maximum(total, 1), 0.0).sum(axis=1) / orders for total in (written, expected)
        )
        weight = self.beta**2
        f_score: np.ndarray = (1 + weight) * precision * recall / np.maximum(weight * precision + recall, 1e-12)
        return f_score


class DialogueBleu(Metric):
    """BLEU-n as dialogue papers compute it: cumulative 1..n with equal weights, on white-space tokens.

    It equals NLTK's `corpus_bleu` with `SmoothingFunction(epsilon=1e-12).method1`: an order without matches counts as
    `epsilon` matches, and a corpus without a single matching word scores 0.
    """

    epsilon = 1e-12

    def __init__(self, order: int) -> None:
        self.name = f"bleu{order}"
        self.order = order

    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        return self._bleu(self.statistics(hypotheses, references))

    def resampled(self, statistics: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return 100.0 * self._bleu(counts @ statistics)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """(N, 2n + 2): matches of each order, n-grams of each order, lengths of hypothesis and reference."""
        rows = []
        for hyp, ref in zip(hypotheses, references, strict=True):
            words, expected = hyp.split(), ref.split()
            matches, totals = [], []
            for n in range(1, self.order + 1):
                grams = Counter(_ngrams(words, n))
                matches.append((grams & Counter(_ngrams(expected, n))).total())
                totals.append(max(1, grams.total()))  # NLTK counts at least one n-gram per sentence
            rows.append([*matches, *totals, len(words), len(expected)])
        return np.array(rows, dtype=np.int64).reshape(-1, 2 * self.order + 2)

    def _bleu(self, statistics: np.ndarray) -> np.ndarray:
        n = self.order
        matches, totals = statistics[:, :n].astype(np.float64), statistics[:, n : 2 * n]
        length, expected = statistics[:, 2 * n], statistics[:, 2 * n + 1]
        precision = np.where(matches > 0, matches, self.epsilon) / totals
        brevity = np.exp(np.minimum(0.0, 1.0 - expected / np.maximum(length, 1)))
        return np.where(matches[:, 0] > 0, brevity * np.exp(np.log(precision).mean(axis=1)), 0.0)


class Distinct(Metric):
    """Distinct-n (Li et al. 2016): unique n-grams over all n-grams of the hypotheses; references are ignored."""

    def __init__(self, order: int) -> None:
        self.name = f"distinct{order}"
        self.order = order

    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        grams = [_ngrams(hyp.split(), self.order) for hyp in hypotheses]
        return np.array([len(set(row)) / len(row) if row else 0.0 for row in grams], dtype=np.float64)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """(N, W): a 63-bit hash of each n-gram of the hypothesis, then -1 up to the longest one's number."""
        rows = [[_hash(gram) for gram in _ngrams(hyp.split(), self.order)] for hyp in hypotheses]
        hashes = np.full((len(rows), max(map(len, rows), default=0)), -1, dtype=np.int64)
        for row, values in zip(hashes, rows, strict=True):
            row[: len(values)] = values
        return hashes

    def resampled(self, statistics: np.ndarray, counts: np.ndarray) -> np.ndarray:
        present = statistics >= 0
        sizes = present.sum(axis=1)
        vocabulary, columns = np.unique(statistics[present], return_inverse=True)
        # An n-gram that occurs twice in a text is twice in its row; only whether a sum is zero matters below.
        occurrences = scipy.sparse.csr_array(
            (np.ones(len(columns), dtype=np.int64), columns, np.concatenate([[0], np.cumsum(sizes)])),
            shape=(len(statistics), len(vocabulary)),
        )
        unique = np.array([np.count_nonzero(occurrences.T @ row) for row in counts])
        return np.asarray(100.0 * unique / np.maximum(counts @ sizes, 1))


class ShortAnswer(MeanMetric):
    """SQuAD's exact match or F1 of words (Rajpurkar et al. 2016), against one reference each.

    Case, punctuation and the articles a, an and the do not count, as in SQuAD's evaluation script.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        words = [(answer_words(hyp), answer_words(ref)) for hyp, ref in zip(hypotheses, references, strict=True)]
        if self.name == "exact_match":
            return np.array([hyp == ref for hyp, ref in words], dtype=np.float64)
        return np.array([word_f1(hyp, ref) for hyp, ref in words], dtype=np.float64)


METRIC_FORM = (
    "def metric(hypotheses: Sequence[str], references: Sequence[str]) -> Sequence[float], a score in 0..1 each"
)


class OwnMetric(MeanMetric):
    """A function of the user's own, by its import path; the corpus score is the mean.

    What was scored before can be averaged without the function; to score texts, it has to be loaded.
    """

    def __init__(self, path: str) -> None:
        self.name = path

    def scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        """Raises InputError if the function has not been loaded, or does not return a score in 0..1 for each pair."""
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} hypotheses and {len(references)} references")
        plugin = loaded_plugin(self.name)
        found = plugin.value(hypotheses=list(hypotheses), references=list(references))
        try:
            scores = np.array(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise wrong_plugin(plugin, f"it returned {type(found).__name__}, no numbers", METRIC_FORM) from error
        if scores.shape != (len(hypotheses),):
            problem = f"for {len(hypotheses)} pairs it returned an array of shape {scores.shape}"
            raise wrong_plugin(plugin, problem, METRIC_FORM)
        wrong = scores[~((scores >= 0.0) & (scores <= 1.0))]
        if len(wrong):
            raise wrong_plugin(plugin, f"it returned {wrong[0]:g}", METRIC_FORM)
        return scores


def check_metric(plugin: Plugin) -> None:
    """Raises InputError that shows the signature wanted if the plug-in is no metric: two pairs are scored."""
    check_parameters(plugin, ("hypotheses", "references"), METRIC_FORM)
    with trial(plugin, "two pairs of texts, the second without a word", METRIC_FORM):
        OwnMetric(plugin.path).scores(["a text", ""], ["a text", "another"])


def _hash(gram: tuple[str, ...]) -> int:
    return int.from_bytes(blake2b("\0".join(gram).encode(), digest_size=8).digest(), "little") >> 1


def _ngrams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def get_metric(name: str) -> Metric:
    """The metric of a name in `MetricName`, or of an import path, which is not imported here.

    Raises:
        InputError: There is no such metric.
    """
    if name in ("rouge1", "rouge2", "rougeL"):
        return Rouge(name)
    if name == "bleu":
        return SacreBleu()
    if name == "chrf":
        return ChrF()
    if name in ("bleu1", "bleu2"):
        return DialogueBleu(int(name[-1]))
    if name in ("distinct1", "distinct2"):
        return Distinct(int(name[-1]))
    if name in ("exact_match", "f1"):
        return ShortAnswer(name)
    if is_import_path(name):
        return OwnMetric(name)
    raise InputError(
        f"metric {name!r} is unknown; choose one of {', '.join(get_args(MetricName))}, or an import path of your own"
    )
