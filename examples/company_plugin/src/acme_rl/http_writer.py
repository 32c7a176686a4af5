"""A statistics writer that sends summaries to an HTTP server, and never makes the training wait for it.

``write`` appends to a bounded queue. A thread sends batches, and repeats a request that failed. While the server is
down, the oldest summaries in the queue give way to new ones. ``close`` waits a bounded time, and reports what the
server did not confirm.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Mapping
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from acme_rl.http_request import RequestFailed, send

if TYPE_CHECKING:
    from acme_rl.settings import HttpSettings
    from rlcore import RunContext, StatSummary


class HttpWriter:
    """Sends each summary as ``{"run", "behavior", "step", "time", "stats": {tag: mean}}``, in lists.

    A summary may arrive twice: after an answer that was lost, and from a resumed run, which repeats the steps after its
    checkpoint. A server therefore stores the last summary for each run, behavior and step.
    """

    def __init__(self, settings: HttpSettings, run: RunContext) -> None:
        self.settings = settings
        self.run_id = run.run_id
        self.log = run.logger("acme")
        self.written = 0
        self.delivered = 0
        self.failing = False  # whether the last request failed
        self.problem = ""  # of the last request that failed
        self.closing = False
        self.waiting: deque[dict[str, Any]] = deque(maxlen=settings.queue_size)
        self.changed = Condition()  # guards the attributes above
        self.thread = Thread(target=self.work, name="acme-http", daemon=True)
        self.thread.start()

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        """Queue one summary."""
        means: dict[str, float | None] = {}
        for tag, summary in stats.items():
            finite = math.isfinite(summary.mean)
            means[tag] = summary.mean if finite else None  # JSON has no NaN and no infinity
        message = {
            "run": self.run_id,
            "behavior": behavior,
            "step": step,
            "time": time.time(),
            "stats": means,
        }
        with self.changed:
            self.written += 1
            self.waiting.append(message)
            self.changed.notify()

    def close(self) -> None:
        """Send what is queued, for a bounded time, and report what was lost."""
        with self.changed:
            self.closing = True
            self.changed.notify()
        self.thread.join(self.settings.close_seconds)
        with self.changed:
            written = self.written
            lost = written - self.delivered
            reason = self.problem or "the queue was full"
        if self.thread.is_alive():
            reason = f"not confirmed within {self.settings.close_seconds:g} s"
        if lost:
            url = self.settings.url
            self.log.warning("%d of %d summaries were not sent to %s: %s", lost, written, url, reason)

    # ---------------------------------------------------------------- in the thread

    def work(self) -> None:
        while batch := self.next_batch():
            while not self.deliver(batch):
                with self.changed:
                    self.changed.wait_for(lambda: self.closing, self.settings.retry_seconds)

    def next_batch(self) -> list[dict[str, Any]]:
        """Wait for summaries and return a batch; an empty one when the writer is closed."""
        size = self.settings.batch_size
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.closing)
            # The first summary waits a moment for others: those of several behaviors come one after the other.
            self.changed.wait_for(lambda: len(self.waiting) >= size or self.closing, self.settings.batch_seconds)
            count = min(size, len(self.waiting))
            return [self.waiting.popleft() for _ in range(count)]

    def deliver(self, batch: list[dict[str, Any]]) -> bool:
        """Send a batch; return whether it is done with: delivered, refused, or given up at the end of the run."""
        settings = self.settings
        headers = {"Content-Type": "application/json"}
        body = json.dumps(batch).encode()
        with self.changed:
            last_attempt = self.closing
        try:
            send("POST", settings.url, body, headers, settings.token, settings.timeout)
        except RequestFailed as error:
            with self.changed:
                failed_before = self.failing
                self.failing = True
                self.problem = str(error)
            if not failed_before:  # once for each time that the server fails
                self.log.warning("%s: %s; the training continues", settings.url, error)
            return error.permanent or last_attempt
        with self.changed:
            self.failing = False
            self.delivered += len(batch)
        return True
