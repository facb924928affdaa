"""A hub of models and datasets on the loopback device: it keeps what huggingface_hub uploads, and serves it again."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_do_not_tell_4711"
OWNER = "me"
"""Who the token belongs to, and may write to."""
_LARGE = (".safetensors", ".onnx", ".bin")  # what the real hub's .gitattributes name


@dataclass
class Repository:
    """A repository: the files of each commit, and the commit of each branch."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"})

    def commit(self, branch: str, files: dict[str, bytes]) -> str:
        """Add files to a branch, or replace them; returns the commit."""
        kept = {**self.commits.get(self.branches.get(branch, ""), {}), **files}
        sha = hashlib.sha1(repr((len(self.commits), sorted(kept.items()))).encode()).hexdigest()
        self.commits[sha], self.branches[branch] = kept, sha
        return sha


class Refusal(Exception):
    """A status other than 200, with the hub's code of the error."""

    def __init__(self, status: int, code: str = "", message: str = "", **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more


class HubServer(ThreadingHTTPServer):
    """The paths of the hub that huggingface_hub asks for models and datasets, without Xet.

    Attributes:
        repositories: by name, OWNER/NAME.
        requests: "METHOD path" of every request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def files(self, name: str, branch: str = "main") -> dict[str, bytes]:
        """A branch's files, but for that which the hub itself made."""
        repository = self.repositories[name]
        files = repository.commits[repository.branches[branch]]
        return {path: content for path, content in files.items() if path != ".gitattributes"}


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        """Nothing: a test's output is its own."""

    def do_GET(self) -> None:
        self.respond()

    def do_HEAD(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def do_PUT(self) -> None:
        self.respond()

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        try:
            for method, pattern, answer in _PATHS:
                if self.command in method and (found := re.fullmatch(pattern, path)):
                    answer(self, *found.groups(), *([body] if self.command in ("POST", "PUT") else []))
                    return
            raise Refusal(404, "", f"nothing at {path}")
        except Refusal as refusal:
            content = json.dumps({"error": str(refusal), **refusal.more}).encode()
            headers = {"X-Error-Code": refusal.code, "X-Error-Message": str(refusal)}
            self.send(content, {name: value for name, value in headers.items() if value}, refusal.status)

    def send(self, content: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> None:
        usual = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        self.send_response(status)
        for name, value in {**usual, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_json(self, value: Any) -> None:
        self.send(json.dumps(value).encode())

    @property
    def known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def check_writer(self, owner: str) -> None:
        if not self.known:
            raise Refusal(401, "", "Invalid username or password.")
        if owner != OWNER:
            raise Refusal(403, "", "You don't have the rights to write here")

    def repository(self, name: str) -> Repository:
        """A repository that the sender may read. Who has no token is not told which there are."""
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not self.known):
            raise Refusal(404 if self.known else 401, "RepoNotFound", "Repository not found")
        return repository

    def snapshot(self, name: str, revision: str) -> tuple[str, dict[str, bytes]]:
        repository = self.repository(name)
        sha = repository.branches.get(revision, revision)
        if sha not in repository.commits:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return sha, repository.commits[sha]

    def create(self, body: bytes) -> None:
        asked = json.loads(body)
        owner = asked["organization"] or OWNER
        self.check_writer(owner)
        name = f"{owner}/{asked['name']}"
        answer = {"name": name, "url": f"{self.server.url}/{name}"}
        if name in self.server.repositories:
            raise Refusal(409, "", "You already created this model repo", **answer)
        self.server.repositories[name] = Repository(asked.get("visibility") == "private" or bool(asked.get("private")))
        self.send_json(answer)

    def validate(self, body: bytes) -> None:
        metadata = json.loads(body)["content"].split("---\n")[1]
        errors = [] if isinstance(yaml.safe_load(metadata), dict) else [{"message": "no metadata"}]
        self.send_json({"errors": errors, "warnings": []})

    def branch(self, name: str, branch: str, body: bytes) -> None:
        self.check_writer(name.split("/")[0])
        repository = self.repository(name)
        if branch in repository.branches:
            raise Refusal(409, "", "Reference already exists")
        repository.branches[branch] = repository.branches["main"]
        self.send_json({})

    def preupload(self, name: str, revision: str, body: bytes) -> None:
        self.check_writer(name.split("/")[0])
        self.snapshot(name, revision)
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(_LARGE) else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(body)["files"]
        ]
        self.send_json({"files": files})

    def batch(self, name: str, body: bytes) -> None:
        self.check_writer(name.split("/")[0])
        objects = [
            {**item, "actions": {"upload": {"href": f"{self.server.url}/large/{item['oid']}"}}}
            for item in json.loads(body)["objects"]
        ]
        self.send_json({"transfer": "basic", "objects": objects})

    def put(self, sha256: str, body: bytes) -> None:
        if hashlib.sha256(body).hexdigest() != sha256:
            raise Refusal(400, "", "not the announced content")
        self.server.large[sha256] = body
        self.send(b"")

    def commit(self, name: str, branch: str, body: bytes) -> None:
        self.check_writer(name.split("/")[0])
        files = {}
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            elif entry["key"] == "lfsFile":
                files[entry["value"]["path"]] = self.server.large[entry["value"]["oid"]]
        sha = self.repository(name).commit(branch, files)
        self.send_json({"success": True, "commitOid": sha, "commitUrl": f"{self.server.url}/{name}/commit/{sha}"})

    def info(self, name: str, revision: str | None) -> None:
        sha, files = self.snapshot(name, revision or "main")
        private = self.repository(name).private
        self.send_json(
            {"id": name, "sha": sha, "private": private, "siblings": [{"rfilename": path} for path in files]}
        )

    def tree(self, name: str, revision: str) -> None:
        _, files = self.snapshot(name, revision)
        self.send_json(
            [
                {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for path, content in files.items()
            ]
        )

    def resolve(self, name: str, revision: str, path: str) -> None:
        sha, files = self.snapshot(name, revision)
        if path not in files:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        etag = f'"{hashlib.sha256(files[path]).hexdigest()}"'
        self.send(files[path], {"X-Repo-Commit": sha, "ETag": etag, "Content-Type": "application/octet-stream"})


_NAME = r"([^/]+(?:/[^/]+)?)"
_PATHS: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("POST", "/api/repos/create", _Handler.create),
    ("POST", "/api/validate-yaml", _Handler.validate),
    ("POST", f"/api/(?:models|datasets)/{_NAME}/branch/(.+)", _Handler.branch),
    ("POST", f"/api/(?:models|datasets)/{_NAME}/preupload/(.+)", _Handler.preupload),
    ("POST", f"/api/(?:models|datasets)/{_NAME}/commit/(.+)", _Handler.commit),
    ("POST", rf"/(?:datasets/)?{_NAME}\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT", "/large/([0-9a-f]+)", _Handler.put),
    ("GET", f"/api/(?:models|datasets)/{_NAME}/tree/(.+)", _Handler.tree),
    ("GET", f"/api/(?:models|datasets)/{_NAME}(?:/revision/(.+))?", _Handler.info),
    ("GET HEAD", f"/(?:datasets/)?{_NAME}/resolve/([^/]+)/(.+)", _Handler.resolve),
)


@contextmanager
def serving() -> Iterator[HubServer]:
    """The server, while the block lasts."""
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
