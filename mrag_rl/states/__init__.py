"""Agent-S's states: what is known of each partition when one has to be chosen."""

from mrag_rl.extras import require

require("retrieve", "bm25s", "scipy", by=__name__)

from mrag_rl.states.copies import copied_scores
from mrag_rl.states.evidence import PartitionEvidence, asked_by_memories
from mrag_rl.states.ledger import Ledger
from mrag_rl.states.reader import StateReader, evidence_state, feature_groups, feature_names, ledger_file

__all__ = [
    "Ledger",
    "PartitionEvidence",
    "StateReader",
    "asked_by_memories",
    "copied_scores",
    "evidence_state",
    "feature_groups",
    "feature_names",
    "ledger_file",
]
