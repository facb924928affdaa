"""Statistics of evaluations: scores with bootstrap intervals, `results.json`, tables and plots."""

from mrag_rl.evaluation.bootstrap import Interval, Origin, Score, count_systems, score_systems
from mrag_rl.evaluation.results import results, versions
from mrag_rl.evaluation.tables import results_page, results_table

__all__ = [
    "Interval",
    "Origin",
    "Score",
    "count_systems",
    "results",
    "results_page",
    "results_table",
    "score_systems",
    "versions",
]
