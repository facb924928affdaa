"""LangChain: the memories that Agent-S selects as a retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mrag_rl.extras import require

require("langchain", "langchain_core", by=__name__)

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor

from mrag_rl.errors import InputError
from mrag_rl.integrations.memories import SelectedMemories


class MemoryRetriever(BaseRetriever):
    """Documents of the partition that Agent-S chooses for a query: its nearest memories.

    The text of a document is the memory's source and target; its `metadata` has both apart, the partition and the
    score (`mrag_rl.integrations.Found.metadata`), and its `id` is the memory's. A query that may read nothing finds
    nothing. `batch` and `abatch` encode all queries in one call.

    Attributes:
        memories: what is searched, and what of it may be read.
        k: how many memories; None is as many as the answers were shown that the selector learned from.
    """

    memories: SelectedMemories
    k: int | None = None
    _found: Mapping[str, list[Document]] | None = None  # for the queries of a batch

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._documents([query])[0] if self._found is None else self._found[query]

    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """The documents of each query, as `invoke` finds them, but encoded together."""
        prepared = self._prepared(inputs)
        return super(MemoryRetriever, prepared).batch(inputs, config, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """As `batch`."""
        prepared = await run_in_executor(None, self._prepared, inputs)
        abatch = super(MemoryRetriever, prepared).abatch
        return await abatch(inputs, config, return_exceptions=return_exceptions, **kwargs)

    def _prepared(self, queries: Sequence[str]) -> MemoryRetriever:
        """A copy that has found the documents of all queries, so that each can be reported as a call of its own."""
        prepared = self.model_copy()
        with suppress(InputError):  # Searched one by one, the query at fault gets the error
            prepared._found = dict(zip(queries, self._documents(queries), strict=True))
        return prepared

    def _documents(self, queries: Sequence[str]) -> list[list[Document]]:
        return [
            [Document(found.text, id=found.memory.id, metadata=found.metadata) for found in row]
            for row in self.memories.search(queries, self.k)
        ]
