"""Whole RAG systems behind one interface: texts in, answers out."""

from mrag_rl.extras import require

require("retrieve", "bm25s", "faiss", "scipy", "sklearn", "torch", "transformers", by=__name__)

from mrag_rl.systems.answer_choice import AnswerReader, AnswerRegression, by_learned_features, learned_choice
from mrag_rl.systems.base import Answer, MemoryAnswer, System
from mrag_rl.systems.classifier import PartitionClassifier, classified_partition, classify_memories
from mrag_rl.systems.multi_meta_rag import MultiMetaRAG
from mrag_rl.systems.partitioned import (
    Choice,
    PartitionAnswer,
    PartitionSystem,
    learned_partition,
    most_similar,
    nearest_partition,
    random_partition,
    trained_values,
    whole_and_best,
)
from mrag_rl.systems.passages import PassageAnswer, PassageReader, PassageRetriever
from mrag_rl.systems.rag_fusion import FusionAnswer, RAGFusion
from mrag_rl.systems.searches import (
    Search,
    by_chance,
    by_heads,
    by_standard,
    by_words,
    by_words_and_standard,
    revised_memories,
)
from mrag_rl.systems.self_rag import ByCritique, make_critic, with_none_first
from mrag_rl.systems.selfmem import Selfmem
from mrag_rl.systems.several import (
    BestOfSeveral,
    MemorySets,
    by_agreement,
    by_first,
    by_groups,
    by_ranks,
    by_references,
    random_groups,
    with_samples,
    with_sets,
)
from mrag_rl.systems.supervised import (
    PartitionInputs,
    PartitionRegression,
    best_partition,
    supervised_by_copies,
    supervised_by_trials,
    supervised_partition,
)
from mrag_rl.systems.unpartitioned import (
    CopiedTarget,
    NearestMemory,
    NearestPairs,
    NearestWithPairs,
    NoRetrieval,
    WholeDatabase,
)

__all__ = [
    "Answer",
    "AnswerReader",
    "AnswerRegression",
    "BestOfSeveral",
    "ByCritique",
    "Choice",
    "CopiedTarget",
    "FusionAnswer",
    "MemoryAnswer",
    "MemorySets",
    "MultiMetaRAG",
    "NearestMemory",
    "NearestPairs",
    "NearestWithPairs",
    "NoRetrieval",
    "PartitionAnswer",
    "PartitionClassifier",
    "PartitionInputs",
    "PartitionRegression",
    "PartitionSystem",
    "PassageAnswer",
    "PassageReader",
    "PassageRetriever",
    "RAGFusion",
    "Search",
    "Selfmem",
    "System",
    "WholeDatabase",
    "best_partition",
    "by_agreement",
    "by_chance",
    "by_first",
    "by_groups",
    "by_heads",
    "by_learned_features",
    "by_ranks",
    "by_references",
    "by_standard",
    "by_words",
    "by_words_and_standard",
    "classified_partition",
    "classify_memories",
    "learned_choice",
    "learned_partition",
    "make_critic",
    "most_similar",
    "nearest_partition",
    "random_groups",
    "random_partition",
    "revised_memories",
    "supervised_by_copies",
    "supervised_by_trials",
    "supervised_partition",
    "trained_values",
    "whole_and_best",
    "with_none_first",
    "with_samples",
    "with_sets",
]
