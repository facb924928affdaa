"""The first stage of a run: its queries with their embeddings, and one unrefined database for each training."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np

from mrag_rl.choices import ArmName, PartitioningMethod, StateName
from mrag_rl.config import PartitioningConfig
from mrag_rl.data import Splits, TextPair, save_pairs
from mrag_rl.data.spoiling import spoil
from mrag_rl.data.stored import PairTexts
from mrag_rl.data_config import DataConfig
from mrag_rl.encoders import EmbeddingStore, RunEncoder
from mrag_rl.envs.states import PAIR_STATES, embed_joined, joined
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.location import check_store, delete_database, is_database
from mrag_rl.partitioning import Partitioning, fit_own_partitioning, fit_partitioning
from mrag_rl.plugins import is_import_path
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.splits import read_splits

QUERY_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Preparation:
    """The settings of the stage.

    Attributes:
        ablations: the ablations that need a database of their own, values of `mrag_rl.choices.ABLATION_OF`.
        store: the address of a PostgreSQL database, for memories; None keeps them in the run's folder.
    """

    data: DataConfig
    task: str
    partitioning: PartitioningConfig
    state: StateName
    ablations: Sequence[str]
    seed: int
    store: str | None = None

    def read(self) -> Splits:
        """The memories and queries. Raises InputError naming the file and line at fault, or an unusable store."""
        check_store(self.store)  # An error now, not after hours of encoding
        return read_splits(self.data, self.task)

    def carry_out(
        self, folder: RunFolder, splits: Splits, encoder: RunEncoder | EmbeddingStore, *, progress: bool
    ) -> dict[str, float]:
        """Write queries, embeddings and databases. Returns the seconds it took to "encode", to "index", in "total".

        Memories may be `StoredPairs`; then the memory needed grows with the number of pairs, and not with their
        sources. An `EmbeddingStore` keeps what is encoded, so that a preparation that is stopped encodes nothing twice.
        """
        start, seconds = time.perf_counter(), {"encode": 0.0, "index": 0.0}
        memories = splits.database
        with _timed(seconds, "encode"):
            embeddings = encoder.encode(_sources(memories), progress=progress)
        with _timed(seconds, "index"):
            partitioning = self._partitioning(memories, embeddings.standard)
            undivided = fit_partitioning("none", embeddings.standard, seed=self.seed)
        if self.data.spoilt:
            memories = spoil(memories, partitioning.membership.toarray(), self.data.spoilt, self.data.world_seed)
        pair_embeddings = None
        if self.state in PAIR_STATES:
            with _timed(seconds, "encode"):
                texts = PairTexts(memories, lambda pair: joined(pair.source, pair.target))
                pair_embeddings = embed_joined(encoder, self.state, texts)
        for split in QUERY_SPLITS:
            queries: Sequence[TextPair] = getattr(splits, split)
            folder.pairs(split).parent.mkdir(exist_ok=True)
            folder.embeddings(split).parent.mkdir(exist_ok=True)
            save_pairs(folder.pairs(split), queries)
            with _timed(seconds, "encode"):
                encoder.encode(_sources(queries)).save(folder.embeddings(split))

        def create(target: RunFolder, partitioning: Partitioning, arms: Sequence[ArmName]) -> None:
            if is_database(target.database):
                delete_database(target.database)  # of an interrupted preparation
            target.root.mkdir(parents=True, exist_ok=True)
            MemoryDatabase.create(
                target.database,
                memories,
                embeddings,
                partitioning,
                encoder_fingerprint=encoder.fingerprint,
                pair_embeddings=pair_embeddings,
                arms=arms,
                store=self.store,
            ).close()

        with _timed(seconds, "index"):
            create(folder, partitioning, self.partitioning.arms)
            for ablation in self.ablations:
                if ablation == "without_s":
                    create(folder.ablation(ablation), undivided, ())
                else:
                    create(folder.ablation(ablation), partitioning, self.partitioning.arms)
        return seconds | {"total": time.perf_counter() - start}

    def _partitioning(self, memories: Sequence[TextPair], vectors: np.ndarray) -> Partitioning:
        """The partitioning of the memories by their standard embeddings (N, d), labels, or the user's own function."""
        settings = self.partitioning
        method, seed = settings.method, self.seed if settings.seed is None else settings.seed
        if is_import_path(method):
            return fit_own_partitioning(method, memories, vectors, partitions=settings.partitions, seed=seed)
        labels = [pair.labels for pair in memories] if method == "category" else None
        return fit_partitioning(
            cast(PartitioningMethod, method), vectors, labels=labels, partitions=settings.partitions, seed=seed
        )


def _sources(pairs: Sequence[TextPair]) -> PairTexts:
    return PairTexts(pairs, lambda pair: pair.source)


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[part] += time.perf_counter() - start
