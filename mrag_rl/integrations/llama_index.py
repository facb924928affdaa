"""LlamaIndex: the memories that Agent-S selects as a retriever, and Agent-S as the selector of a router."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mrag_rl.extras import require

require("llama-index", "llama_index", by=__name__)

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools.types import ToolMetadata

from mrag_rl.errors import InputError
from mrag_rl.integrations.memories import SelectedMemories


class MemoryRetriever(BaseRetriever):
    """Nodes of the partition that Agent-S chooses for a query: its nearest memories.

    The text of a node is the memory's source and target; its `metadata` has both apart, the partition and more
    (`mrag_rl.integrations.Found.metadata`), none of which is shown to a language model or embedded. Its id is the
    memory's. A query that may read nothing finds nothing.
    """

    def __init__(self, memories: SelectedMemories, k: int | None = None, **settings: Any) -> None:
        """memories: what is searched, and what of it may be read. k: how many memories; None is as many as the answers
        were shown that the selector learned from. settings: of LlamaIndex's `BaseRetriever`."""
        self.memories, self.k = memories, k
        super().__init__(**settings)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        (row,) = self.memories.search([query_bundle.query_str], self.k)
        nodes = []
        for found in row:
            hidden = list(found.metadata)
            node = TextNode(
                id_=found.memory.id,
                text=found.text,
                metadata=found.metadata,
                excluded_llm_metadata_keys=hidden,
                excluded_embed_metadata_keys=hidden,
            )
            nodes.append(NodeWithScore(node=node, score=found.score))
        return nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class PartitionSelector(BaseSelector):
    """Agent-S chooses among choices that are named by partitions: tools by their name, texts as they are.

    They need not be all partitions. Without a choice that may be read, and for one that is no partition, it raises
    InputError: a router has no way to select nothing.
    """

    def __init__(self, memories: SelectedMemories) -> None:
        """memories: the database whose partitions are chosen from, and what of it may be read."""
        self.memories = memories

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        places = self._places([choice.name or choice.description for choice in choices])
        offered = self.memories.allowed_partitions & np.isin(np.arange(self.memories.database.partitions), [*places])
        values = self.memories.choose([query.query_str]).values
        assert values is not None  # Agent-S's choices always have values
        (partition,) = self.memories.selector.select_by(values, offered).tolist()
        if partition < 0:
            raise InputError("none of the choices may be read; offer a partition that allowed_partitions has")
        selection = SingleSelection(index=places[partition], reason=self._reason(values[:, partition]))
        return SelectorResult(selections=[selection])

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return await asyncio.to_thread(self._select, choices, query)

    def _places(self, names: Sequence[str]) -> dict[int, int]:
        """Each offered partition with its place among the choices. Raises InputError."""
        partitions = self.memories.database.names
        for name, count in Counter(names).items():
            if name not in partitions:
                raise InputError(f"the choice {name!r} is no partition; name the choices {', '.join(partitions)}")
            if count > 1:
                raise InputError(f"{count} choices are named {name!r}; offer each partition once")
        return {partitions.index(name): place for place, name in enumerate(names)}

    def _reason(self, value: np.ndarray) -> str:
        if self.memories.selector.info.gain_slope is None:
            return f"Agent-S expects a reward of {value[0]:.4f}, the highest"
        gain = self.memories.selector.expected_gain_by(value)[0]
        return f"Agent-S expects {gain:+.2f} points more than the naive system has"

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        """It has no prompts."""
