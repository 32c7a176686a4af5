"""Copies of checkpoints, in a directory or on an HTTP server, made by a thread while the training continues."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING
from urllib.parse import quote

from acme_rl.http_request import RequestFailed, send

if TYPE_CHECKING:
    from rlcore import CheckpointHold

ATTEMPTS = 3
PAUSE = 2.0  # seconds between two attempts
TIMEOUT = 60.0  # seconds for an answer
MANIFEST = "manifest.json"  # has the size and SHA-256 of each file of a checkpoint

Upload = Callable[[Path], None]  # of one checkpoint; raises OSError or RequestFailed


def destination(working_directory: Path, upload_to: str, run_id: str, token: str) -> Upload:
    """Return the function that copies a checkpoint of the run to ``upload_to/run_id/step``."""
    if "://" in upload_to:
        address = f"{upload_to.rstrip('/')}/{quote(run_id)}"
        return lambda checkpoint: put(checkpoint, f"{address}/{checkpoint.name}", token)
    copies = working_directory / Path(upload_to).expanduser() / run_id
    return lambda checkpoint: copy(checkpoint, copies / checkpoint.name)


def copy(checkpoint: Path, target: Path) -> None:
    """Copy a checkpoint to the directory ``target``, which is complete whenever it exists."""
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
    shutil.copytree(checkpoint, part)
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


def put(checkpoint: Path, url: str, token: str) -> None:
    """Upload the files of a checkpoint, the manifest last: a copy without a manifest is not complete."""
    paths = sorted(checkpoint.iterdir(), key=lambda path: (path.name == MANIFEST, path.name))
    for path in paths:
        size = path.stat().st_size
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        with path.open("rb") as file:
            send("PUT", f"{url}/{quote(path.name)}", file, headers, token, TIMEOUT)


class Uploader:
    """Uploads checkpoints in a thread. Each one is held until it is uploaded, so the run does not delete it.

    At most one checkpoint waits: a newer one takes its place. A slow server therefore cannot fill the disk with
    checkpoints that are held.
    """

    def __init__(self, upload: Upload, log: logging.Logger) -> None:
        self.upload = upload
        self.log = log
        self.missing: dict[str, None] = {}  # the checkpoints that are not uploaded (yet), in ascending order
        self.closing = False
        self.waiting: tuple[CheckpointHold, Path] | None = None
        self.changed = Condition()  # guards the attributes above
        self.thread = Thread(target=self.work, name="acme-uploads", daemon=True)
        self.thread.start()

    def add(self, hold: CheckpointHold, path: Path) -> None:
        """Upload the checkpoint at ``path``, and release its hold."""
        with self.changed:
            skipped = self.waiting
            self.waiting = (hold, path)
            self.missing[path.name] = None
            self.changed.notify()
        if skipped is not None:
            skipped_hold, _ = skipped
            skipped_hold.release()

    def close(self, seconds: float) -> None:
        """Wait for the last upload, for a bounded time, and report what was not uploaded."""
        with self.changed:
            self.closing = True
            self.changed.notify()
        self.thread.join(seconds)
        with self.changed:
            missing = ", ".join(self.missing)
        if missing:
            self.log.warning("not uploaded: %s; `rlcore acme upload RUN` uploads what is still there", missing)

    # ---------------------------------------------------------------- in the thread

    def work(self) -> None:
        while (following := self.next_checkpoint()) is not None:
            hold, path = following
            with hold:
                self.try_to_upload(path)

    def next_checkpoint(self) -> tuple[CheckpointHold, Path] | None:
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.closing)
            following = self.waiting
            self.waiting = None
            return following

    def try_to_upload(self, path: Path) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.upload(path)
            except (OSError, RequestFailed) as error:
                permanent = isinstance(error, RequestFailed) and error.permanent
                if permanent or attempt == ATTEMPTS:
                    self.log.warning("checkpoint %s was not uploaded: %s", path.name, error)
                    return
                with self.changed:
                    self.changed.wait_for(lambda: self.closing, PAUSE)
            else:
                with self.changed:
                    self.missing.pop(path.name, None)
                return
