"""A Qdrant server. It builds no index of vectors, and compares all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import product
from typing import ClassVar

import httpx
import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from mrag_rl.errors import InputError
from mrag_rl.memory.vector_server import Rows, VectorServer, Within, url_of

_SECONDS = 60  # For an answer
_BYTES = 16 * 2**20  # Of searches in a request, of which a server takes 32 MiB, if it is not told otherwise
_PER_NUMBER, _PER_MEMORY = 24, 10  # Bytes in JSON, at most


class QdrantServer(VectorServer):
    """A client. A point's number is its memory's; its payload has the segment."""

    kind, token, longest = "Qdrant", "QDRANT_API_KEY", 65_535
    errors: ClassVar = (
        *(ApiException, QdrantException, httpx.InvalidURL),
        *(
            ValueError,
            KeyError,
            TypeError,
            AssertionError,
        ),  # for an answer that is not Qdrant's, such as a proxy's page
    )

    def __init__(self, client: QdrantClient) -> None:
        self.client = client

    @classmethod
    def connect(cls, address: str) -> QdrantServer:
        """``qdrant+http(s)://HOST[:PORT]``; its key is in QDRANT_API_KEY."""
        server, _ = url_of(address, 6333)
        key = os.environ.get(cls.token, "").strip() or None
        if key is not None and not (key.isascii() and key.isprintable()):
            raise InputError(f"{cls.token}: not a key, which is in one line of letters, digits and signs; set it again")
        return cls(QdrantClient(url=server, api_key=key, timeout=_SECONDS, check_compatibility=False))

    def close(self) -> None:
        self.client.close()

    def names(self) -> list[str]:
        return [found.name for found in self.client.get_collections().collections]

    def create(self, collection: str, dimension: int) -> None:
        self.client.create_collection(
            collection,
            vectors_config=models.VectorParams(size=dimension, distance=models.Distance.DOT),
            hnsw_config=models.HnswConfigDiff(m=0),
            optimizers_config=models.OptimizersConfigDiff(max_optimization_threads=0),
            timeout=_SECONDS,
        )
        _check_done(self.client.create_payload_index(collection, "segment", models.PayloadSchemaType.INTEGER))

    def write(self, collection: str, rows: Rows) -> None:
        memories, segments, vectors = rows
        points = models.Batch(
            ids=list(memories), payloads=[{"segment": segment} for segment in segments], vectors=vectors.tolist()
        )
        _check_done(self.client.upsert(collection, points, wait=True, ordering=models.WriteOrdering.STRONG))

    def complete(self, collection: str) -> None:
        """Nothing is left to do: each write has waited, and nothing is optimized."""

    def load(self, collection: str) -> None:
        """Nothing is to do: collections are always ready."""

    def count(self, collection: str) -> int:
        return self.client.count(collection, exact=True).count

    def read(self, collection: str, memories: list[int]) -> Rows:
        rows = self.client.retrieve(
            collection, list(memories), with_vectors=True, consistency=models.ReadConsistencyType.ALL
        )
        vectors = np.array([row.vector for row in rows], dtype=np.float32)
        return [int(row.id) for row in rows], [int((row.payload or {})["segment"]) for row in rows], vectors

    def search(
        self, collection: str, queries: np.ndarray, within: Sequence[Within], limit: int
    ) -> Iterator[tuple[int, int, int, float]]:
        vectors = [models.NearestQuery(nearest=query) for query in queries.tolist()]
        filters = [_filter(part) for part in within]
        named = max(len(part.chosen or part.left_out or ()) for part in within)
        at_once = max(1, _BYTES // (_PER_NUMBER * queries.shape[1] + _PER_MEMORY * named))
        asked = [*product(range(len(vectors)), range(len(filters)))]
        for start in range(0, len(asked), at_once):
            some = asked[start : start + at_once]
            requests = [
                models.QueryRequest(
                    query=vectors[query],
                    filter=filters[place],
                    params=models.SearchParams(exact=True),
                    limit=limit,
                    with_payload=False,
                    with_vector=False,
                )
                for query, place in some
            ]
            # the client's own call copies each request, to look for texts that it could encode
            answers = self.client.http.search_api.query_batch_points(
                collection,
                consistency=models.ReadConsistencyType.ALL,
                query_request_batch=models.QueryRequestBatch(searches=requests),
            ).result
            for (query, place), answer in zip(some, answers or (), strict=True):
                yield from ((query, place, int(point.id), point.score) for point in answer.points)

    def drop(self, collection: str) -> None:
        self.client.delete_collection(collection, timeout=_SECONDS)


def _check_done(result: models.UpdateResult) -> None:
    if result.status != models.UpdateStatus.COMPLETED:
        raise InputError(f"Qdrant has not completed a write, which it calls {result.status}; run it again")


def _filter(within: Within) -> models.Filter:
    """It always names the segments: an empty filter passes all."""
    must: list[models.Condition] = [
        models.FieldCondition(key="segment", match=models.MatchAny(any=list(within.segments)))
    ]
    if within.chosen is not None:
        must.append(models.HasIdCondition(has_id=list(within.chosen)))
    left_out = None
    if within.left_out is not None:
        left_out = [models.HasIdCondition(has_id=list(within.left_out))]
    return models.Filter(must=must, must_not=left_out)  # type: ignore[arg-type]
