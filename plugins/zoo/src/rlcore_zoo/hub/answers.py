"""Check the answers of an untrusted hub: what becomes a path on this machine, and how much is read.

``huggingface_hub`` names a file of its cache after the ETag of the answer, and a folder after the commit. A tag such as
``../../.bashrc`` would make it write any new file. It also reads an answer to its end, however long that is. The checks
are part of the client, so that no later answer can differ from the one that was checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants, set_client_factory
from huggingface_hub.utils import httpx  # httpx itself in huggingface_hub 1, httpx2 in 2
from huggingface_hub.utils._http import default_client_factory

from rlcore import RunStateError

MAX_ANSWER = 32_000_000  # bytes of a listing; one of 10,000 files has about 3,000,000
_TAG = re.compile(r"[0-9a-fA-F]{32,128}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(text: object) -> bool:
    """Whether ``text`` is the name of a commit."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None


class Limited(httpx.SyncByteStream):
    """The bytes of an answer, up to a limit. Raises RunStateError beyond it."""

    def __init__(self, stream: httpx.SyncByteStream, limit: int, about: str) -> None:
        self._stream = stream
        self._left = limit
        self._about = about

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise RunStateError(self._about)
            yield chunk

    def close(self) -> None:
        self._stream.close()


@contextmanager
def untrusted_answers(where: str, largest: int = MAX_ANSWER) -> Iterator[None]:
    """For a block that asks the hub ``where``: check what its answers name, and read at most ``largest`` bytes of each.

    Raises RunStateError for the first answer that a hub would not give.
    """

    def ask(request: httpx.Request) -> None:
        request.headers["Accept-Encoding"] = "identity"  # a limit of packed bytes would limit nothing

    def check(response: httpx.Response) -> None:
        if response.request.method == "HEAD":
            tag = response.headers.get(constants.HUGGINGFACE_HEADER_X_LINKED_ETAG) or response.headers.get("ETag")
            if tag is not None and not _TAG.fullmatch(tag.removeprefix("W/").strip('"')):
                raise RunStateError(f"{where}: answers with the ETag {tag[:80]!r}, which is not a checksum of a file")
            commit = response.headers.get(constants.HUGGINGFACE_HEADER_X_REPO_COMMIT)
            if commit is not None and not is_commit(commit):
                raise RunStateError(f"{where}: answers with the commit {commit[:80]!r}, which is not a commit")
        elif response.headers.get("Content-Encoding", "identity") != "identity":
            raise RunStateError(f"{where}: answers with packed data, which was not asked for")
        elif isinstance(response.stream, httpx.SyncByteStream):
            about = f"{where}: answers with more than the {largest:,} bytes that were expected; nothing was kept"
            response.stream = Limited(response.stream, largest, about)

    def client() -> httpx.Client:
        checked: httpx.Client = default_client_factory()
        hooks = checked.event_hooks
        checked.event_hooks = {"request": [*hooks["request"], ask], "response": [*hooks["response"], check]}
        return checked

    set_client_factory(client)
    try:
        yield
    finally:
        set_client_factory(default_client_factory)
