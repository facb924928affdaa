"""Metrics: one module per family."""

from mrag_rl.metrics.text import REPORTED, TARGET, Metric, get_metric

__all__ = ["REPORTED", "TARGET", "Metric", "get_metric"]
