"""What is compared in the end, and how."""

from __future__ import annotations

from dataclasses import dataclass

from mrag_rl.choices import DEFAULT_SYSTEMS, SystemName
from mrag_rl.settings import bounded


@dataclass(frozen=True)
class EvaluationConfig:
    """The final evaluation on the test queries."""

    bootstrap: int = bounded(2000, minimum=1, maximum=1_000_000)
    """Bootstrap resamples behind each 95% interval and p-value."""
    systems: tuple[SystemName, ...] = DEFAULT_SYSTEMS
    """Systems to compare; not by default: supervised_answers..., m_rag_answers, self_rag..., selfmem,
    selfmem_one_iteration, stopping... and two_answers. Extra generations, one per partition: of these but self_rag...,
    and of supervised, for each training and development query (of selfmem nearly two); of supervised_trials for each
    development query; of those that choose among answers for each test query; of stopping... one more for each training
    and test query. A state other than evidence leaves supervised_trials out."""
    ablations: bool = True
    """Also train m_rag_without_s and m_rag_without_r (the paper's Table 4) and the other systems with a rule in place
    of Agent-R, as far as they are compared; false leaves all of them out."""
    contrasts: tuple[str, ...] | None = None
    """Differences of two systems, such as "m_rag - naive", that are tested in the target metric, with Holm's correction
    for their number; all others are exploratory. null is m_rag minus naive, nearest_partition and m_rag_without_r, as
    far as these are compared."""
    selfmem_candidates: int | None = bounded(None, minimum=2, maximum=1000)
    """Candidates of selfmem and selfmem_one_iteration in an iteration; null is as many as there are partitions. Selfmem
    itself has 50 for JRC-Acquis and chooses among 16 for XSum."""
