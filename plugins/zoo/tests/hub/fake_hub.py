"""A model hub on 127.0.0.1 for tests: no part of any real service.

It answers the requests that ``huggingface_hub`` sends for a repository of a model: create it, describe it, list its
files, upload files as a commit (small ones in the commit, large ones by the LFS protocol), and download them. Every
commit keeps its files, so that revisions can be pinned. It knows one token, and owners by name alone. It has neither
Xet storage nor branches, tags, gated repositories or limits.

Tests change what it answers: ``failures`` maps a part of a request, such as ``POST /api/repos``, to a status, ``cut``
the name of a file to a number of bytes after which each download breaks off, and ``sizes`` to the size in the listing;
``meanwhile`` is called during an upload, and ``downloading`` with the name of each file that is asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs

TOKEN = "hf_of_ann"
LARGE = (".safetensors", ".onnx", ".png", ".mp4")  # what the hub's .gitattributes give to LFS


@attrs.define
class Repository:
    """A repository: its visibility, and its files after each commit."""

    private: bool
    commits: dict[str, dict[str, bytes]] = attrs.field(factory=dict)
    messages: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.commit({".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")

    def commit(self, files: dict[str, bytes], message: str) -> str:
        sha = hashlib.sha1(json.dumps([len(self.commits), sorted(files), message]).encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.messages.append(message)
        return sha

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.head]


@attrs.define
class FakeHub:
    """The state of the hub, and the requests that it answered."""

    endpoint: str = ""
    repositories: dict[str, Repository] = attrs.field(factory=dict)
    large: dict[str, bytes] = attrs.field(factory=dict)  # by SHA-256
    requests: list[tuple[str, str]] = attrs.field(factory=list)
    failures: dict[str, int] = attrs.field(factory=dict)
    cut: dict[str, int] = attrs.field(factory=dict)
    sizes: dict[str, int] = attrs.field(factory=dict)  # what the listing says instead of the truth
    headers: dict[str, str] = attrs.field(factory=dict)  # of downloads, instead of the true ones
    longer: int = 0  # bytes that each download has beyond those of the file
    answers: dict[str, bytes] = attrs.field(factory=dict)  # by a part of a request, instead of the true one
    endless: bool = False  # whether each page of a listing names a next one
    meanwhile: Callable[[], object] = lambda: None  # called when an upload has begun
    downloading: Callable[[str], object] = lambda file: None


class Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that does not read an answer to its end
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def say(self, value: Any, status: int = 200, **headers: str) -> None:
        self.answer(status, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path))
        for part, status in self.hub.failures.items():
            if part in f"{self.command} {path}":
                return self.say({"error": "refused by the test"}, status)
        for part, content in self.hub.answers.items():
            if part in f"{self.command} {path}":
                return self.answer(200, content, Content_Type="application/json")
        if path == "/api/validate-yaml":
            return self.say({"errors": [], "warnings": []})
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if path.startswith("/lfs/"):
            self.hub.large[path.removeprefix("/lfs/")] = body
            return self.answer(200)
        owner, _, rest = path.removeprefix("/api/models/").strip("/").partition("/")
        name, _, rest = rest.partition("/")
        repository = self.hub.repositories.get(f"{owner}/{name.removesuffix('.git')}")
        if repository is None or (repository.private and not self.knows()):
            return self.say(
                {"error": "Repository not found"}, 401 if not self.knows() else 404, X_Error_Code="RepoNotFound"
            )
        if path.startswith("/api/models/"):
            return self.api(f"{owner}/{name}", repository, rest, body)
        if rest == "info/lfs/objects/batch":
            return self.batch(json.loads(body))
        word, _, rest = rest.partition("/")
        revision, _, file = rest.partition("/")
        return self.resolve(repository, revision, file) if word == "resolve" else self.answer(404)

    do_GET = do_HEAD = do_POST = do_PUT = handle_request

    def knows(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def create(self, asked: dict[str, Any]) -> None:
        if not self.knows():
            return self.say({"error": "Invalid username or password."}, 401)
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.hub.repositories:
            return self.say({"error": "You already created this model repo"}, 409)
        self.hub.repositories[name] = Repository(asked.get("visibility") == "private")
        return self.say({"url": f"{self.hub.endpoint}/{name}", "name": name})

    def commit_of(self, repository: Repository, revision: str) -> str | None:
        return repository.head if revision in ("", "main") else revision if revision in repository.commits else None

    def api(self, name: str, repository: Repository, rest: str, body: bytes) -> None:
        word, _, revision = rest.partition("/")
        sha = self.commit_of(repository, revision)
        if sha is None:
            return self.say({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        files = repository.commits[sha]
        if word in ("", "revision"):
            siblings = [{"rfilename": each} for each in files]
            return self.say({"id": name, "sha": sha, "private": repository.private, "siblings": siblings})
        if word == "tree":
            more = {"Link": f'<{self.hub.endpoint}{self.path}>; rel="next"'} if self.hub.endless else {}
            listed = [self.listed(path, content) for path, content in files.items()]
            return self.say(listed, 200, **more)
        if not self.knows():
            return self.say({"error": "Unauthorized"}, 401)
        if word == "preupload":
            self.hub.meanwhile()
            asked = json.loads(body)["files"]
            modes = [
                {
                    "path": each["path"],
                    "uploadMode": "lfs" if each["path"].endswith(LARGE) else "regular",
                    "shouldIgnore": False,
                }
                for each in asked
            ]
            return self.say({"files": modes})
        return self.commit(name, repository, body)

    def listed(self, path: str, content: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "file", "path": path, "oid": hashlib.sha1(content).hexdigest()}
        found["size"] = self.hub.sizes.get(path, len(content))
        if path.endswith(LARGE):
            found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return found

    def commit(self, name: str, repository: Repository, body: bytes) -> None:
        lines = [json.loads(line) for line in body.splitlines()]
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, repository.head):
            return self.say({"error": "A commit has happened since. Please refresh and try again."}, 412)
        files = dict(repository.files)
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            else:
                del files[value["path"]]
        sha = repository.commit(files, header["summary"])
        return self.say({"success": True, "commitOid": sha, "commitUrl": f"{self.hub.endpoint}/{name}/commit/{sha}"})

    def batch(self, asked: dict[str, Any]) -> None:
        upload = "{}/lfs/{}".format
        objects = [
            {**each, "actions": {"upload": {"href": upload(self.hub.endpoint, each["oid"])}}}
            for each in asked["objects"]
        ]
        return self.say({"transfer": "basic", "objects": objects})

    def resolve(self, repository: Repository, revision: str, file: str) -> None:
        sha = self.commit_of(repository, revision)
        content = None if sha is None else repository.commits[sha].get(file)
        if content is None:
            return self.say({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
        tag = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{tag}"', "X_Repo_Commit": str(sha), "Accept_Ranges": "bytes"}
        start = 0
        if self.headers.get("Range"):
            start = int(self.headers["Range"].removeprefix("bytes=").partition("-")[0])
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        status = 206 if start else 200
        rest = content[start:]
        headers |= self.hub.headers
        if self.hub.longer and self.command == "GET":
            rest, headers["Content_Length"] = rest + b"x" * self.hub.longer, str(len(rest) + self.hub.longer)
        limit = self.hub.cut.get(file)
        if self.command == "GET":
            self.hub.downloading(file)
        if limit is None or self.command == "HEAD":
            return self.answer(status, rest, **headers)
        self.answer(status, b"", **headers, Content_Length=str(len(rest)))
        self.wfile.write(rest[:limit])
        self.close_connection = True
        return None


@contextmanager
def running() -> Iterator[FakeHub]:
    """Start a hub on a free port; it ends with the block."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
