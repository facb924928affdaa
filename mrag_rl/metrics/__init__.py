"""Metrics: one module per family."""

from mrag_rl.extras import require

require("train", "ir_measures", "nltk", "rouge_score", "sacrebleu", "scipy", by=__name__)

from mrag_rl.metrics.text import REPORTED, TARGET, Metric, get_metric

__all__ = ["REPORTED", "TARGET", "Metric", "get_metric"]
