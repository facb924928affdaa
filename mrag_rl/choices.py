"""Names that several rooms share; light enough for all of them to import."""

from __future__ import annotations

from typing import Literal

StateKind = Literal["per_head", "single", "peeking", "equation_1"]
"""What Agent-S sees, see `mrag_rl.envs.partition_selection`."""

RewardKind = Literal["equation_7", "fixed_baseline", "first_hypothesis"]
"""What Agent-S is rewarded for, see `mrag_rl.envs.partition_selection`."""
