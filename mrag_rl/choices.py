"""The closed sets of names that configurations, run folders and several rooms share; imports nothing heavy."""

from __future__ import annotations

from typing import Literal

Task = Literal["summarization", "translation", "dialogue"]
"""What the language model writes: a summary of the source, its translation, or a reply to it."""

NewsroomName = Literal["desks", "sources"]
"""The bundled worlds that runs train on (``mrag_rl.data.synthetic.newsroom``), by what the partitions are:

- ``desks``: each desk has a style of its own, and the text hints at the desk whose style the answer needs.
- ``sources``: all answers need one style, which each source keeps to on two of the four topics; texts do not tell
  their source.
"""

MetricName = Literal["rouge1", "rouge2", "rougeL", "bleu", "bleu1", "bleu2", "distinct1", "distinct2"]
"""Text metrics (``mrag_rl.metrics.text``): ROUGE F1, corpus BLEU, dialogue BLEU-n, Distinct-n."""

PartitioningMethod = Literal["lsh", "kmeans", "hnsw_spectral", "category", "none"]
"""How memories are partitioned (M-RAG, Section 3.1; ``mrag_rl.partitioning``): random hyperplanes, k-means, spectral
clustering of an HNSW graph, one partition per label, or one partition for everything."""

StateName = Literal["per_head", "single", "peeking", "equation_1"]
"""What Agent-S observes (``MemoryDatabase.states``), by the best cosine similarity in each of M partitions.

- ``per_head``: (M, H), one similarity per attention head, against the memories' sources.
- ``single``: (M, 1), the similarity of the standard embeddings of the sources.
- ``equation_1``: (M, 1), the similarity of the standard embeddings of source and current target together: M-RAG's
  Equation 1. The query is then its source with its reference target, which no query has at inference.
- ``peeking``: (M, H), the same in every attention head.
"""

STANDARD_STATES: tuple[StateName, ...] = ("single", "equation_1")
"""States that compare standard embeddings: one similarity per partition, H = 1."""

RewardName = Literal["equation_7", "fixed_baseline", "first_hypothesis"]
"""What Agent-S is rewarded for (``mrag_rl.envs.partition_selection``), as a difference of two sentence scores.

- ``equation_7``: the final hypothesis minus the first hypothesis.
- ``fixed_baseline``: the final hypothesis minus the naive system's hypothesis.
- ``first_hypothesis``: the first hypothesis minus the naive system's hypothesis.
"""

SystemName = Literal[
    "none",
    "naive",
    "random_partition",
    "nearest_partition",
    "oracle_partition",
    "oracle_refined",
    "m_rag",
    "m_rag_without_s",
    "m_rag_without_r",
]
"""The systems that ``evaluate.py`` compares on a run (``mrag_rl.systems``), from no retrieval to M-RAG:

- ``none``: the language model without a memory.
- ``naive``: the nearest memory of the whole database.
- ``random_partition``, ``nearest_partition``: the nearest memory of a random partition, and of the partition whose
  nearest memories are most similar to the query on average over the heads.
- ``oracle_partition``: the partition whose answer scores best in hindsight; ``oracle_refined`` does so on the refined
  database.
- ``m_rag``: Agent-S selects a partition of the database that Agent-R refined.
- ``m_rag_without_s``: a single partition; Agent-R trained alone, with a refined database of its own.
- ``m_rag_without_r``: Agent-S trained with the greedy candidate in Agent-R's place, with a refined database of its own.
"""
