"""Qdrant's local mode at an address of this machine, since no package has its server.

The engine is qdrant-client's own, which keeps everything in memory and compares by NumPy; what goes over the network
has the form of Qdrant's REST interface, of which it answers what the library asks. So it shows that requests and
filters do what they should, but not how fast a server is.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient, models


class Engine:
    """The collections, for one request at a time."""

    def __init__(self) -> None:
        self._client = QdrantClient(":memory:")
        self._turn = threading.Lock()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """The status and the result of a request, as the server's interface describes them."""
        collection, _, what = path.removeprefix("/collections").lstrip("/").partition("/")
        with self._turn:
            known = self._client.collection_exists(collection) if collection else True
            if not known and (method, what) not in (("PUT", ""), ("DELETE", "")):
                return 404, f"Not found: Collection `{collection}` doesn't exist!"
            match method, what:
                case "GET", "" if not collection:
                    return 200, self._client.get_collections()
                case "PUT", "":
                    if known:
                        return 409, f"Wrong input: Collection `{collection}` already exists!"
                    made = models.CreateCollection.model_validate(body)
                    return 200, self._client.create_collection(collection, vectors_config=made.vectors)
                case "DELETE", "":
                    return 200, known and self._client.delete_collection(collection)
                case "PUT", "index":
                    models.CreateFieldIndex.model_validate(body)  # the local mode has no indexes
                    return 200, models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)
                case "PUT", "points":
                    return 200, self._client.upsert(collection, models.PointsBatch.model_validate(body).batch)
                case "POST", "points":
                    wanted = models.PointRequest.model_validate(body)
                    return 200, self._client.retrieve(collection, wanted.ids, with_vectors=bool(wanted.with_vector))
                case "POST", "points/count":
                    return 200, self._client.count(collection)
                case "POST", "points/query/batch":
                    requests = models.QueryRequestBatch.model_validate(body).searches
                    with warnings.catch_warnings(action="ignore", category=UserWarning):  # it is always exact
                        return 200, self._client.query_batch_points(collection, requests)
        return 404, f"unknown: {method} {path}"


@contextmanager
def local_qdrant(engine: Engine | None = None, port: int = 0) -> Iterator[str]:
    """The address at which an engine (None: a new one) answers. It listens on this machine only."""
    answering = engine or Engine()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, result = answering.answer(self.command, path, json.loads(text or "{}"))
            found = {"status": "ok", "result": _plain(result)} if status == 200 else {"status": {"error": result}}
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


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return [_plain(one) for one in result]
    return result.model_dump(mode="json") if hasattr(result, "model_dump") else result
