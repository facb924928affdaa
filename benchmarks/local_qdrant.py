"""Qdrant's engine at an address of this machine, since no package that pip installs has its server.

The engine is Qdrant Edge, which is the server's, without its network. What goes over the network has the form of
Qdrant's REST interface, of which this answers what the library asks: it holds requests, filters and scores against the
true engine, but says nothing of a cluster, of keys, or of how fast a server is.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import qdrant_edge as edge

_LARGEST = 32 * 2**20  # Bytes of a request, as a server's default


class Engine:
    """Collections, each a shard in a folder, for one request at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shards: dict[str, edge.EdgeShard] = {}
        self._turn = threading.Lock()

    def answer(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """The status and the result of a request, as the server's interface describes them."""
        name, _, what = path.removeprefix("/collections").lstrip("/").partition("/")
        with self._turn:
            match method, what:
                case "GET", "" if not name:
                    return 200, {"collections": [{"name": one} for one in self._shards]}
                case "PUT", "":
                    if name in self._shards:
                        return 409, f"Wrong input: Collection `{name}` already exists!"
                    self._create(name, body["vectors"])
                    return 200, True
                case "DELETE", "":
                    return 200, self._drop(name)
            if name not in self._shards:
                return 404, f"Not found: Collection `{name}` doesn't exist!"
            return self._of_collection(self._shards[name], method, what, body)

    def _create(self, name: str, vectors: Mapping[str, Any]) -> None:
        assert vectors["distance"] == "Dot"
        (self._folder / name).mkdir()
        config = edge.EdgeConfig(vectors=edge.EdgeVectorParams(vectors["size"], edge.Distance.Dot))
        self._shards[name] = edge.EdgeShard.create(str(self._folder / name), config)

    def _drop(self, name: str) -> bool:
        shard = self._shards.pop(name, None)
        if shard is not None:
            shard.close()
            shutil.rmtree(self._folder / name)
        return shard is not None

    def _of_collection(self, shard: edge.EdgeShard, method: str, what: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        done = {"operation_id": 0, "status": "completed"}
        match method, what:
            case "PUT", "index":
                assert body["field_schema"] == "integer"
                kind = edge.PayloadSchemaType.Integer
                shard.update(edge.UpdateOperation.create_field_index(body["field_name"], kind))
                return 200, done
            case "PUT", "points":
                rows = zip(*(body["batch"][key] for key in ("ids", "vectors", "payloads")), strict=True)
                shard.update(edge.UpdateOperation.upsert_points([edge.Point(*row) for row in rows]))
                return 200, done
            case "POST", "points":
                found = shard.retrieve(body["ids"], with_payload=True, with_vector=bool(body["with_vector"]))
                return 200, [{"id": one.id, "vector": one.vector, "payload": one.payload} for one in found]
            case "POST", "points/count":
                return 200, {"count": shard.count(edge.CountRequest(exact=body["exact"]))}
            case "POST", "points/query/batch":
                asked = edge.QueryBatchRequest([_request(one) for one in body["searches"]])
                answers = shard.query_batch(asked)
                return 200, [{"points": [_scored(point) for point in points]} for points in answers]
        return 404, f"unknown: {method} {what}"


def _request(search: Mapping[str, Any]) -> edge.QueryRequest:
    return edge.QueryRequest(
        query=edge.Query.Nearest(search["query"]["nearest"]),
        filter=_filter(search.get("filter") or {}),
        params=edge.SearchParams(exact=search["params"]["exact"]),
        limit=search["limit"],
    )


def _filter(body: Mapping[str, Any]) -> edge.Filter:
    return edge.Filter(
        must=[_condition(one) for one in body.get("must") or ()],
        must_not=[_condition(one) for one in body.get("must_not") or ()],
    )


def _condition(body: Mapping[str, Any]) -> edge.HasIdCondition | edge.FieldCondition:
    if "has_id" in body:
        return edge.HasIdCondition(set(body["has_id"]))
    return edge.FieldCondition(body["key"], match=edge.MatchAny(body["match"]["any"]))


def _scored(point: edge.ScoredPoint) -> dict[str, Any]:
    return {"id": point.id, "version": point.version, "score": point.score}


@contextmanager
def local_qdrant(engine: Engine | None = None, port: int = 0) -> Iterator[str]:
    """The address at which an engine (None: one in a temporary folder) answers. It listens on this machine only."""
    if engine is None:
        with tempfile.TemporaryDirectory() as place, local_qdrant(Engine(Path(place)), port) as address:
            yield address
        return
    answering = engine

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(size)
            if size > _LARGEST:
                status, result = 400, f"Payload error: JSON payload ({size} bytes) is larger than allowed"
            else:
                status, result = answering.answer(self.command, self.path.split("?")[0], json.loads(text or "{}"))
            found = {"status": "ok", "result": result} if status == 200 else {"status": {"error": result}}
            reply = json.dumps(found | {"time": 0.0}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"qdrant+http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
