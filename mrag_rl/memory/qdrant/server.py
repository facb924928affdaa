"""A Qdrant server. It builds no index of vectors, and compares all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from mrag_rl.memory.vector_server import Rows, VectorServer, Within
from mrag_rl.settings import check_store_address

_SECONDS = 60  # For an answer
_SEARCHES = 64  # In a request


class QdrantServer(VectorServer):
    """A client. A point's number is its memory's; its payload has the segment."""

    kind, token, longest = "Qdrant", "QDRANT_API_KEY", 65_535
    errors: ClassVar = (ApiException, QdrantException)

    def __init__(self, client: QdrantClient) -> None:
        self.client = client

    @classmethod
    def connect(cls, address: str) -> QdrantServer:
        """``qdrant+http(s)://HOST[:PORT]``; its key is in QDRANT_API_KEY."""
        check_store_address(address)
        found = re.fullmatch(r"qdrant\+(https?://[^/:]+)(:[0-9]+)?/?", address)
        assert found is not None, "checked above"
        server, key = found[1] + (found[2] or ":6333"), os.environ.get(cls.token) or None
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
        )
        self.client.create_payload_index(collection, "segment", models.PayloadSchemaType.INTEGER)

    def write(self, collection: str, rows: Rows) -> None:
        memories, segments, vectors = rows
        points = models.Batch(
            ids=list(memories), payloads=[{"segment": segment} for segment in segments], vectors=vectors.tolist()
        )
        self.client.upsert(collection, points, wait=True, ordering=models.WriteOrdering.STRONG)

    def complete(self, collection: str) -> None:
        """Nothing is left to do: each write has waited."""

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
        vectors, filters = queries.tolist(), [_filter(part) for part in within]
        asked = [(query, place) for place in range(len(filters)) for query in range(len(vectors))]
        for start in range(0, len(asked), _SEARCHES):
            some = asked[start : start + _SEARCHES]
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
            answers = self.client.query_batch_points(collection, requests, consistency=models.ReadConsistencyType.ALL)
            for (query, place), answer in zip(some, answers, strict=True):
                yield from ((query, place, int(point.id), point.score) for point in answer.points)

    def drop(self, collection: str) -> None:
        self.client.delete_collection(collection)


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
