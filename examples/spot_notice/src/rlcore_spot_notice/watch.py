"""The thread that asks the metadata address."""

from __future__ import annotations

import http.client
import threading
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_spot_notice.plugin import SpotNotice

# What AWS names the header of a token, and of the seconds for which it is valid.
TOKEN = "X-aws-ec2-metadata-token"
LONGEST_ANSWER = 10_000  # bytes
ANSWER_SECONDS = 2.0


class Watch:
    """Asks until a notice comes, and then requests that the run stops."""

    def __init__(self, settings: SpotNotice, run: RunContext) -> None:
        self._settings = settings
        self._run = run
        self._log = run.logger("spot-notice")
        self._failed = False
        self._over = threading.Event()
        # The address belongs to the machine: no proxy knows it.
        self._opener: OpenerDirector = build_opener(ProxyHandler({}))
        self._thread = threading.Thread(target=self._watch, name="spot notice", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. A question that is not answered is not waited for."""
        self._over.set()

    def _watch(self) -> None:
        while True:
            notice = self._ask()
            if notice is not None:
                reason = f"the machine is taken away: {notice}" if notice else "the machine is taken away"
                self._log.info("%s", reason)
                self._run.request_stop(reason, self._settings.exit_code)
                return
            if self._over.wait(self._settings.seconds):
                return

    def _ask(self) -> str | None:
        """The answer that announces the end; None for another one, and for none."""
        settings = self._settings
        assert settings.url is not None
        try:
            headers = dict(settings.headers)
            if settings.token_url is not None:
                headers[TOKEN] = self._answer(settings.token_url, {f"{TOKEN}-ttl-seconds": "60"}, "PUT")
            answer = self._answer(settings.url, headers, "GET")
        except HTTPError as error:
            if error.code != 404:  # which stands for: no notice
                self._warn(error)
            return None
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._warn(error)
            return None
        return answer if settings.notice in answer else None

    def _answer(self, url: str, headers: dict[str, str], method: str) -> str:
        request = Request(url, headers=headers, method=method)
        with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
            text: bytes = response.read(LONGEST_ANSWER)
        return " ".join(text.decode(errors="replace").split())

    def _warn(self, error: Exception) -> None:
        """Warn once: the training must not end because there is no answer."""
        if not self._failed:
            self._log.warning("%s does not answer (%s); the run is not stopped by it", self._settings.url, error)
        self._failed = True
