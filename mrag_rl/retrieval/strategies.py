"""The retrieval strategies by name: what each searches with, and how its ranked lists become votes.

`standard`, `mrag`, `mrag_decay`, `mrag_distance`, `split`, `split_weighted`, `fusion` and `fusion_mrag` are those of
"Multi-Head RAG" (Besta et al. 2024, Sections 2.3, 4 and 5.3, Appendix I.2). `words` is BM25. `segment_mrag`,
`late_interaction` and `hybrid` are this project's: every sentence of the query votes.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from mrag_rl.errors import InputError
from mrag_rl.retrieval.voting import VoteRule, decay_votes, distance_votes, importance_votes

STRATEGIES = (
    "standard",
    "mrag",
    "mrag_decay",
    "mrag_distance",
    "split",
    "split_weighted",
    "fusion",
    "fusion_mrag",
    "segment_mrag",
    "late_interaction",
    "words",
    "hybrid",
)
RECOMMENDED = "hybrid"
"""The strategy to use where nothing speaks for another one."""
QUERY_SENTENCES = ("segment_mrag", "late_interaction", "hybrid")
"""Strategies that need the queries' sentences."""
DOCUMENT_SENTENCES = ("late_interaction", "hybrid")
"""Strategies that need the documents' sentences."""
TEXTS = ("words", "hybrid")
"""Strategies that need the texts of queries and documents."""
QUESTIONS = ("fusion", "fusion_mrag")
"""Strategies that need questions about the queries."""
EXHAUSTIVE = ("late_interaction", "words", "hybrid")
"""Strategies that compare with all documents, whatever the index."""
PIECES = ("split", "split_weighted")
"""Strategies that search equal pieces of the standard embedding."""

UNFUSED = {"fusion": "standard", "fusion_mrag": "mrag"}
"""The strategy that each fusion strategy searches every query with."""

VOTE_RULES: dict[str, VoteRule] = {
    "mrag": importance_votes,
    "mrag_decay": decay_votes,
    "mrag_distance": distance_votes,
    "split": decay_votes,
    "split_weighted": importance_votes,
    "segment_mrag": importance_votes,
}
"""For each strategy that votes by the ranked lists of several spaces, what a place in a list is worth."""


def check_strategies(names: Sequence[str]) -> None:
    """Raises InputError naming the first name that is not one of `STRATEGIES`, and the nearest that is."""
    for name in names:
        if name not in STRATEGIES:
            near = difflib.get_close_matches(name, STRATEGIES, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            if "," in name:
                hint = "separate names by spaces, not commas; "
            raise InputError(f"strategy {name!r} is unknown; {hint}choose from {', '.join(STRATEGIES)}")
