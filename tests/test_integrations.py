"""LangChain and LlamaIndex, the real packages, over a real database: they find what the systems of a run show."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from llama_index.core.base.base_selector import SelectorResult
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import RouterRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.core.tools import RetrieverTool

from mrag_rl import Selector
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.errors import InputError
from mrag_rl.generation.writer import Writer
from mrag_rl.integrations import SelectedMemories, langchain, llama_index
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.runs.systems import trained_system
from mrag_rl.runs.trained import TrainedSystem
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.states.reader import feature_names
from tests.tiny import Copier, encoder, remembering_encoder, tiny_world

TEXTS = [pair.source for pair in tiny_world().splits.train[:8]]
HIDDEN = 8


class CountingEncoder:
    """The real MiniLM; counts its calls."""

    prefixes = Prefixes()

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        self.calls += 1
        return encoder().encode(texts, prefix=prefix, progress=progress)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedSystem:
    """A database, and a selector with random weights that was exported and loaded; it chooses several partitions."""
    folder = tmp_path_factory.mktemp("trained")
    database = tiny_world().make_database(folder / "database", state="evidence")
    features = feature_names("evidence", database.heads)
    rng = np.random.default_rng(3)
    weights = {
        "w1": rng.normal(size=(HIDDEN, len(features))), "b1": rng.normal(size=HIDDEN),
        "w2": rng.normal(size=(1, HIDDEN)), "b2": np.zeros(1),
    }  # fmt: skip
    shape = (1, len(features))
    normalizer = StateNormalizer(np.zeros(shape, np.float32), np.full(shape, 0.3, np.float32), center=True)
    info = SelectorInfo(
        state="evidence", partition_names=tuple(database.names), task="summarization", metric="rouge1",
        encoder="all-MiniLM-L6-v2", encoder_fingerprint=encoder().fingerprint, features=features, demonstrations=2,
        gain_slope=0.5, gain_intercept=0.01,
    )  # fmt: skip
    export_selector(folder / "selector", weights=weights, normalizer=normalizer, info=info)
    return TrainedSystem(database, Selector.load(folder / "selector"))


def memories_of(trained: TrainedSystem, **masks: Any) -> SelectedMemories:
    assert trained.selector is not None
    return SelectedMemories(trained.database, trained.selector, remembering_encoder(), **masks)


def shown(trained: TrainedSystem, texts: Sequence[str], **masks: Any) -> list[tuple[Any, ...]]:
    """Partition, ids and similarities of the memories that the run's m_rag shows to a language model."""
    writer = Writer(Copier(), "summarization", 20, 2)
    system = replace(trained_system("m_rag", trained, writer, **masks), encoder=remembering_encoder())
    names = trained.database.names
    return [
        (
            {names[answer.partition]} if answer.memories else set(),
            [memory.id for memory in trained.database.records(answer.memories)],
            rounded(answer.similarities),
        )
        for answer in system.answer(texts)
    ]


def rounded(scores: Iterable[Any]) -> list[float]:
    """Their last digits may depend on the batch."""
    return [round(float(score), 4) for score in scores]


def documents_of(found: Sequence[Document]) -> tuple[Any, ...]:
    partitions, scores = ([one.metadata[name] for one in found] for name in ("partition", "score"))
    return set(partitions), [one.id for one in found], rounded(scores)


def nodes_of(found: Sequence[NodeWithScore]) -> tuple[Any, ...]:
    partitions = {one.metadata["partition"] for one in found}
    return partitions, [one.node_id for one in found], rounded(one.score for one in found)


def only(trained: TrainedSystem, *names: str) -> np.ndarray:
    return np.isin(trained.database.names, names)


def test_both_retrievers_find_what_the_system_of_a_run_shows(trained: TrainedSystem) -> None:
    memories = memories_of(trained)
    expected = shown(trained, TEXTS)
    assert len(set.union(*(partitions for partitions, *_ in expected))) > 1
    documents = langchain.MemoryRetriever(memories=memories).batch(TEXTS)
    assert [documents_of(row) for row in documents] == expected
    nodes = llama_index.MemoryRetriever(memories)
    assert [nodes_of(nodes.retrieve(text)) for text in TEXTS[:4]] == expected[:4]
    assert [len(row) for row in documents] == [2] * len(TEXTS)  # as many as the selector was trained with
    assert len(langchain.MemoryRetriever(memories=memories, k=3).invoke(TEXTS[0])) == 3
    assert len(llama_index.MemoryRetriever(memories, 3).retrieve(TEXTS[0])) == 3


def test_a_document_and_a_node_have_the_whole_memory(trained: TrainedSystem) -> None:
    memories = memories_of(trained)
    (document, _), (node, _) = (
        langchain.MemoryRetriever(memories=memories).invoke(TEXTS[0]),
        llama_index.MemoryRetriever(memories).retrieve(TEXTS[0]),
    )
    (memory,) = [one for one in trained.database.records(range(len(trained.database))) if one.id == document.id]
    assert document.page_content == f"{memory.source}\n{memory.target}" == node.get_content(MetadataMode.LLM)
    assert document.metadata == node.metadata
    assert document.metadata == {
        "source": memory.source, "target": memory.target, "version": 0, "labels": list(memory.labels),
        "metadata": memory.metadata, "partition": memory.labels[0], "score": node.score,
    }  # fmt: skip


def test_a_batch_is_encoded_in_one_call_and_every_query_is_reported(trained: TrainedSystem) -> None:
    class Heard(BaseCallbackHandler):
        def __init__(self) -> None:
            self.queries: list[str] = []

        def on_retriever_start(self, serialized: Any, query: str, **_: Any) -> None:
            self.queries.append(query)

    assert trained.selector is not None
    counting, heard = CountingEncoder(), Heard()
    retriever = langchain.MemoryRetriever(memories=SelectedMemories(trained.database, trained.selector, counting))
    queries = [*TEXTS, TEXTS[0]]
    together = retriever.batch(queries, {"callbacks": [heard]})
    assert counting.calls == 1 and sorted(heard.queries) == sorted(queries)
    assert asyncio.run(retriever.abatch(queries)) == together and counting.calls == 2
    alone = [retriever.invoke(query) for query in queries[:3]]
    assert [*map(documents_of, alone)] == [*map(documents_of, together[:3])] and counting.calls == 5
    assert retriever.batch([]) == []


def test_of_a_batch_only_the_query_at_fault_fails(trained: TrainedSystem) -> None:
    retriever = langchain.MemoryRetriever(memories=memories_of(trained))
    found = retriever.batch([TEXTS[0], " ", TEXTS[1]], return_exceptions=True)
    assert isinstance(found[1], InputError)
    assert [documents_of(found[0]), documents_of(found[2])] == [*map(documents_of, retriever.batch(TEXTS[:2]))]
    with pytest.raises(InputError, match="is empty"):
        retriever.batch([TEXTS[0], " "])


def test_what_may_not_be_read_is_not_found(trained: TrainedSystem) -> None:
    database = trained.database
    for masks in (
        {"allowed_partitions": only(trained, "court", "farm")},
        {"allowed_memories": np.arange(len(database)) % 3 == 0},
        {"allowed_partitions": only(trained, "court"), "allowed_memories": np.arange(len(database)) % 2 == 0},
    ):
        memories = memories_of(trained, **masks)
        documents = langchain.MemoryRetriever(memories=memories).batch(TEXTS)
        assert [documents_of(row) for row in documents] == shown(trained, TEXTS, **masks)
        ids = {document.id for row in documents for document in row}
        readable = database.membership()[:, masks.get("allowed_partitions", np.ones(4, bool))].any(axis=1)
        readable &= masks.get("allowed_memories", True)
        assert ids and ids <= {memory.id for memory in database.records(np.flatnonzero(readable))}


@pytest.mark.parametrize("mask", ["allowed_partitions", "allowed_memories"])
def test_no_rights_find_nothing(mask: str, trained: TrainedSystem) -> None:
    size = {"allowed_partitions": 4, "allowed_memories": len(trained.database)}[mask]
    memories = memories_of(trained, **{mask: np.zeros(size, bool)})
    assert langchain.MemoryRetriever(memories=memories, k=40).batch(TEXTS) == [[]] * len(TEXTS)
    assert llama_index.MemoryRetriever(memories, 40).retrieve(TEXTS[0]) == []
    with pytest.raises(InputError, match="none of the choices may be read"):
        llama_index.PartitionSelector(memories).select(trained.database.names, TEXTS[0])
    bad: Any
    for bad in ([], np.zeros(size, int), np.zeros(size + 1, bool)):
        with pytest.raises(InputError, match=f"{mask} has type"):
            memories_of(trained, **{mask: bad})


def test_a_partition_without_a_readable_memory_is_not_chosen(trained: TrainedSystem) -> None:
    """Else a query would find nothing where another partition has something."""
    ((chosen, *_),) = shown(trained, TEXTS[:1])
    readable = ~trained.database.membership()[:, only(trained, *chosen)].any(axis=1)
    found = langchain.MemoryRetriever(memories=memories_of(trained, allowed_memories=readable)).invoke(TEXTS[0])
    assert len(found) == 2 and found[0].metadata["partition"] not in chosen


def test_a_selector_of_another_encoder_is_refused(trained: TrainedSystem) -> None:
    assert trained.selector is not None
    other = replace(trained.selector, info=replace(trained.selector.info, encoder_fingerprint="0" * 64))
    with pytest.raises(InputError, match="another encoder than that of the selector's training"):
        SelectedMemories(trained.database, other, encoder())


def test_queries_at_the_same_time_find_what_they_find_alone(trained: TrainedSystem) -> None:
    assert trained.selector is not None
    memories = SelectedMemories(trained.database, trained.selector, encoder())
    documents, nodes = langchain.MemoryRetriever(memories=memories), llama_index.MemoryRetriever(memories)

    async def at_once() -> tuple[list[list[Document]], list[list[NodeWithScore]]]:
        found = await asyncio.gather(*(documents.ainvoke(text) for text in TEXTS))
        return found, await asyncio.gather(*(nodes.aretrieve(text) for text in TEXTS))

    of_documents, of_nodes = asyncio.run(at_once())
    expected = shown(trained, TEXTS)
    assert [documents_of(row) for row in of_documents] == expected == [nodes_of(row) for row in of_nodes]


def router(trained: TrainedSystem, memories: SelectedMemories, names: Sequence[str]) -> RouterRetriever:
    """A router over a retriever for each partition."""
    tools = [
        RetrieverTool.from_defaults(
            llama_index.MemoryRetriever(memories_of(trained, allowed_partitions=only(trained, name))), name=name
        )
        for name in names
    ]
    return RouterRetriever(llama_index.PartitionSelector(memories), tools, llm=MockLLM())


def test_a_router_is_steered_by_agent_s(trained: TrainedSystem) -> None:
    steered = router(trained, memories_of(trained), trained.database.names[::-1])
    expected = shown(trained, TEXTS)
    assert [nodes_of(steered.retrieve(text)) for text in TEXTS] == expected
    assert nodes_of(asyncio.run(steered.aretrieve(TEXTS[0]))) == expected[0]
    assert steered.get_prompts() == {}


def test_only_what_is_offered_and_allowed_is_selected(trained: TrainedSystem) -> None:
    def selected(names: Sequence[str], **masks: Any) -> list[str]:
        select = llama_index.PartitionSelector(memories_of(trained, **masks) if masks else everything).select
        return [names[select(names, text).ind] for text in TEXTS]

    everything, names = memories_of(trained), trained.database.names
    values = everything.choose(TEXTS).values
    assert values is not None
    for offered in ([2, 1], [3], [0, 1, 2, 3]):
        best = [names[offered[place]] for place in values[:, offered].argmax(axis=1)]
        assert selected([names[place] for place in offered]) == best
    assert selected(names, allowed_partitions=only(trained, names[2])) == [names[2]] * len(TEXTS)


def test_a_selection_says_what_is_expected_of_it(trained: TrainedSystem) -> None:
    def select(memories: SelectedMemories) -> SelectorResult:
        return llama_index.PartitionSelector(memories).select(trained.database.names, TEXTS[0])

    memories = memories_of(trained)
    values = memories.choose(TEXTS[:1]).values
    assert values is not None and trained.selector is not None
    gain = 100 * (0.5 * values.max() + 0.01)
    assert select(memories).reason == f"Agent-S expects {gain:+.2f} points more than the naive system has"
    without_line = replace(trained.selector, info=replace(trained.selector.info, gain_slope=None))
    reason = select(SelectedMemories(trained.database, without_line, encoder())).reason
    assert reason == f"Agent-S expects a reward of {values.max():.4f}, the highest"


def test_a_choice_that_is_no_partition_is_named(trained: TrainedSystem) -> None:
    select = llama_index.PartitionSelector(memories_of(trained)).select
    names = trained.database.names
    with pytest.raises(InputError, match=f"the choice 'opera' is no partition; name the choices {', '.join(names)}"):
        select([*names, "opera"], TEXTS[0])
    with pytest.raises(InputError, match=f"2 choices are named '{names[0]}'; offer each partition once"):
        select([names[0], *names], TEXTS[0])
    with pytest.raises(InputError, match="retriever_tool"):  # LlamaIndex's name for a tool without one
        tool = RetrieverTool.from_defaults(llama_index.MemoryRetriever(memories_of(trained)))
        select([tool.metadata], TEXTS[0])
