"""The closed sets of names that configurations, run folders and several rooms share; imports nothing heavy."""

from __future__ import annotations

from typing import Literal, get_args

Task = Literal["summarization", "translation", "dialogue"]
"""What the language model writes: a summary of the source, its translation, or a reply to it. The bundled worlds have
these tasks."""

TaskName = Literal[Task, "question_answering"]
"""All tasks: also a short answer to a question, for pairs of one's own."""

NewsroomName = Literal["desks", "sources", "scrambled"]
"""The bundled worlds that runs train on (``mrag_rl.data.synthetic.newsroom``), by what the partitions are:

- ``desks``: each desk has a style of its own, and the text hints at the desk whose style the answer needs.
- ``sources``: an answer needs the style of its subject, which each source keeps to on two of the four topics; texts do
  not tell their source.
- ``scrambled``: as ``sources``, but reliable memories have lost the order of their words, so that what copying would
  score misleads, if the metric looks at word order.
"""

MetricName = Literal[
    "rouge1", "rouge2", "rougeL", "bleu", "chrf", "bleu1", "bleu2", "distinct1", "distinct2", "exact_match", "f1"
]  # fmt: skip
"""Text metrics (``mrag_rl.metrics.text``): ROUGE F1, corpus BLEU, chrF, dialogue BLEU-n, Distinct-n, and SQuAD's exact
match and F1 of words."""

PartitioningMethod = Literal["lsh", "kmeans", "hnsw_spectral", "category", "random", "none"]
"""How memories are partitioned (M-RAG, Section 3.1; ``mrag_rl.partitioning``): random hyperplanes, k-means, spectral
clustering of an HNSW graph, one partition per label, random groups of equal size (a placebo), or one partition for
everything."""

StandardEmbedding = Literal["model", "trigrams"]
"""What the standard embedding of a text is, by which memories are found and clustered: the encoder model's, or how
often it has which character trigrams (``mrag_rl.encoders.trigrams``), for languages that the model does not read.
"""

PaperScale = Literal["small", "real", "full"]
"""Where a table of M-RAG's paper is made: in the bundled worlds with the bundled language model, on text that people
wrote with a small real one (Gemma 3 270M), or with the paper's own models and data, for which GPUs are needed."""

EvaluatedPart = Literal["test", "dev"]
"""The pairs of a run that its systems can be compared on."""

INSIDE_LLM = "llm"
"""The name of the encoder that is the transformer inside the run's own language model."""

ArmName = Literal["whole", "none"]
"""What Agent-S may choose in place of a single partition (``mrag_rl.memory.arms``):

- ``whole``: the whole database, as the naive system does.
- ``none``: no memory at all; the language model answers alone.
"""

ARM_NAMES: dict[ArmName, str] = {"whole": "whole database", "none": "no memory"}
"""What the arms are called among the partitions."""

StateName = Literal["evidence", "per_head", "single", "peeking", "equation_1"]
"""What Agent-S observes of each of M partitions.

- ``evidence``: (M, F), what every head, the standard embedding, words and earlier scores say of the partition
  (``mrag_rl.states``). The only state whose network is the same for every partition, so that a selector also works on a
  database that it was not trained on.

The other four are the best cosine similarity to a memory of the partition (``MemoryDatabase.states``):

- ``per_head``: (M, H), one similarity per attention head, against the memories' sources.
- ``single``: (M, 1), the similarity of the standard embeddings of the sources.
- ``equation_1``: (M, 1), the similarity of the standard embeddings of source and current target together: M-RAG's
  Equation 1. The query is then its source with its reference target, which no query has at inference.
- ``peeking``: (M, H), the same in every attention head.
"""

STANDARD_STATES: tuple[StateName, ...] = ("single", "equation_1")
"""States that compare standard embeddings: one similarity per partition, H = 1."""

CandidateStateName = Literal["candidates", "candidates_and_likelihood", "equation_3"]
"""What Agent-R observes of each of K candidates.

- ``candidates``: (K, F), agreement, similarity to what was tried and to the memory's own texts, length
  (``mrag_rl.envs.candidates``); one network serves every candidate, so that their order cannot matter.
- ``candidates_and_likelihood``: (K, F + 1), the same and the language model's own log-probability of the candidate,
  which costs it one more reading of every candidate.
- ``equation_3``: (K,), the similarity to the hypothesis: M-RAG's Equation 3, with the paper's network.
"""

RewardName = Literal["equation_7", "fixed_baseline", "first_hypothesis"]
"""What Agent-S is rewarded for (``mrag_rl.envs.partition_selection``), as a difference of two sentence scores.

- ``equation_7``: the final hypothesis minus the first hypothesis.
- ``fixed_baseline``: the final hypothesis minus the naive system's hypothesis.
- ``first_hypothesis``: the first hypothesis minus the naive system's hypothesis.
"""

SystemName = Literal[
    "none",
    "copy",
    "copy_refined",
    "naive",
    "naive_refined",
    "naive_train",
    "naive_train_refined",
    "train_pairs",
    "naive_words",
    "naive_words_refined",
    "naive_hybrid",
    "naive_hybrid_refined",
    "naive_heads",
    "naive_heads_refined",
    "naive_revised",
    "random_partition",
    "best_partition",
    "nearest_partition",
    "nearest_partition_refined",
    "classifier",
    "classifier_refined",
    "classifier_words",
    "classifier_words_refined",
    "consensus",
    "consensus_refined",
    "consensus_ranks",
    "consensus_random",
    "consensus_samples",
    "supervised_copies",
    "supervised_trials",
    "supervised",
    "supervised_answers",
    "supervised_answers_ranks",
    "supervised_answers_random",
    "supervised_answers_samples",
    "selfmem",
    "selfmem_without_selector",
    "selfmem_one_iteration",
    "self_rag",
    "self_rag_always",
    "self_rag_without_critique",
    "stopping",
    "stopping_ahead",
    "stopping_agreement",
    "two_answers",
    "oracle_partition",
    "oracle_refined",
    "oracle_samples",
    "oracle_random",
    "m_rag",
    "m_rag_fallback",
    "m_rag_revised",
    "m_rag_consensus",
    "m_rag_answers",
    "m_rag_without_s",
    "m_rag_without_r",
    "m_rag_random_r",
    "m_rag_consensus_r",
    "m_rag_neighbours_r",
    "m_rag_likely_r",
]
"""The systems that ``evaluate.py`` compares on a run (``mrag_rl.systems``), from no retrieval to M-RAG:

- ``none``: the language model without a memory.
- ``train_pairs``: the nearest training pair, by standard embedding, with its reference; no memory.
- ``copy``: the target of the nearest memory of the whole database, without the language model.
- ``naive``: the nearest memory of the whole database, by standard embedding. ``naive_words``: by BM25;
  ``naive_hybrid``: by BM25 and standard embedding together; ``naive_heads``: by all heads, on average.
- ``naive_revised``: the nearest, by standard embedding, of the memories whose target refinement changed, and of all
  memories of the partitions where it changed none.
- ``naive_train``: the nearest, by standard embedding, of the database's memories and the training pairs. It is shown
  the training references themselves, which the agents know only through scores.
- ``random_partition``, ``nearest_partition``: the nearest memory of a random partition, and of the partition whose
  nearest memories are most similar to the query on average over the heads.
- ``best_partition``: that of one partition for all texts, whose answers to the development queries score best, M
  generations for each of these (M-RAG, Figure 2).
- ``classifier``, ``classifier_words``: that of the partition that a logistic regression on the standard embedding or on
  words, fitted on the memories alone, assigns the query to.
- ``consensus``: of the answers with the nearest memory of each partition, the one that agrees best with the others; M
  generations for a text.
- ``consensus_ranks``, ``consensus_random``, ``consensus_samples``: its placebos, M answers each. One is written with
  the nearest memory of the whole database, one with the second nearest, and so on; with the nearest of each of M random
  groups as large as the partitions; or with the nearest of the whole database each time, the first greedily, the others
  sampled at temperature 0.3.
- ``supervised_copies``: that of the partition whose nearest memory's target is expected to score best as the answer. A
  regression expects it that is told such scores of the training queries, without the language model: by the metric of
  the run or by ROUGE-1, whichever the answers to the development queries speak for; on the refined database.
- ``supervised_trials``: that of the partition with the highest expected gain, by a regression that is told the gains of
  Agent-S's own trials, and the score of every partition on the development queries; on the refined database.
- ``supervised``: that of the partition with the highest expected score, by a regression that is told the score of
  every partition on the training and development queries, a generation for each, and may read all that Agent-S can
  read at inference; on the refined database.
- ``supervised_answers``: as ``consensus``, but a regression chooses, which is told the scores of all answers to the
  training and development queries: on how an answer agrees with the others, how probable the language model finds it
  and how long it is; on the refined database. ``supervised_answers_ranks``, ``supervised_answers_random``,
  ``supervised_answers_samples``: the same, with the answers of the placebos of ``consensus``.
- ``selfmem``: Selfmem around the frozen language model (``mrag_rl.systems.selfmem``). Of answers like those of
  ``consensus_samples``, at that temperature or at 1, a regression as in ``supervised_answers`` takes one, which becomes
  the nearest memory, twice; the answer is written with it. ``selfmem_without_selector``: the greedy one is taken;
  ``selfmem_one_iteration``: once.
- ``self_rag``: Self-RAG around the frozen language model (``mrag_rl.systems.self_rag``). Of the answers of
  ``consensus_ranks``, the one with the highest sum of its own probability and of judgements by the language model; or
  an answer without a memory, where it judges that none would help. ``self_rag_always``: never the latter;
  ``self_rag_without_critique``: the probability alone decides among the others.
- ``stopping``: writes an answer with the nearest memory of the whole database, then others, each with the nearest of
  another partition, until an agent stops it, which is paid the score of the answer that agrees best with the others
  less a cost, at which two answers are written to a training query on average (``mrag_rl.systems.stopping``); made for
  partitions drawn at random. ``stopping_ahead``: a regression that looks one answer ahead stops it;
  ``stopping_agreement``: a threshold on how well the answers agree. ``two_answers``: it always writes two.
- ``oracle_partition``: the partition whose answer scores best in hindsight; ``oracle_refined`` does so on the refined
  database.
- ``oracle_samples``, ``oracle_random``: placebos of ``oracle_partition``, which show how much of it is luck: the best
  of M sampled answers with the nearest memory, and the best of M random groups as large as the partitions.
- ``m_rag``: Agent-S selects a partition of the database that Agent-R refined.
- ``m_rag_fallback``: the same, but the whole refined database where Agent-S's choice lies below the margin that was
  calibrated on the development queries.
- ``m_rag_revised``: the nearest, in the partition that Agent-S selects, of the memories whose target refinement
  changed, or of all if it changed none there.
- ``m_rag_consensus``: of the answers with the nearest memory of the whole refined database and of the M - 1 partitions
  that Agent-S values most, the one that agrees best with the others; M generations for a text.
- ``m_rag_answers``: the same answers, but a regression chooses, as in ``supervised_answers``, which is also told what
  values Agent-S gave the partitions.
- ``m_rag_without_s``: a single partition; Agent-R trained alone, with a refined database of its own.
- ``m_rag_without_r``: Agent-S trained with the greedy candidate in Agent-R's place, with a refined database of its own.
- ``m_rag_random_r``, ``m_rag_consensus_r``, ``m_rag_neighbours_r``, ``m_rag_likely_r``: the same with another rule in
  Agent-R's place, and as many generated texts: a random candidate, the one most similar to the others of its pool, the
  one most similar to the targets of the nearest memories, and the one that the language model itself finds most
  probable (the first of those with less than -4 nats per token, if all have less).

"The nearest memory" stands for as many as the setting ``demonstrations`` says, except for ``copy``. The baselines read
the memories as they were before refinement. ``NAME_refined`` is the same baseline on the database that ``m_rag``
refined.
"""

READ_LIKELIHOODS: tuple[SystemName, ...] = (
    "supervised_answers",
    "supervised_answers_ranks",
    "supervised_answers_random",
    "supervised_answers_samples",
    "selfmem",
    "selfmem_one_iteration",
    "self_rag",
    "self_rag_always",
    "self_rag_without_critique",
    "m_rag_answers",
)
"""Systems that are compared only if they are named. They need the language model's log-probabilities, which not every
server gives, of many answers: to all training queries, or, in Self-RAG, several judgements of each answer."""

STOPPING: tuple[SystemName, ...] = ("stopping", "stopping_ahead", "stopping_agreement", "two_answers")
"""Systems that are compared only if they are named; all but the last write M + 1 answers to each training query."""

DEFAULT_SYSTEMS: tuple[SystemName, ...] = tuple(
    name for name in get_args(SystemName) if name not in (*READ_LIKELIHOODS, *STOPPING)
)
"""Systems that are compared unless others are named."""

NEED_LEDGER: tuple[SystemName, ...] = ("supervised_trials",)
"""Systems that only a run with the state evidence has."""

ABLATION_OF: dict[str, str] = {
    "m_rag_without_s": "without_s",
    "m_rag_without_r": "without_r",
    "m_rag_random_r": "random_r",
    "m_rag_consensus_r": "consensus_r",
    "m_rag_neighbours_r": "neighbours_r",
    "m_rag_likely_r": "likely_r",
}
"""The systems that need a training of their own, with the names of its folder."""
