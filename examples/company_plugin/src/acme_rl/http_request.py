"""One HTTP request with a time-out, as the statistics writer and the uploads need it."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

# Answers that another attempt does not change. 408, 425 and 429 ask for one: timeout, too early, too many requests.
PERMANENT = frozenset(range(300, 500)) - {408, 425, 429}


class RequestFailed(Exception):
    """A request without an answer of success. ``permanent``: another attempt would fail too."""

    def __init__(self, reason: str, permanent: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent


class NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: urllib would repeat a POST as a GET, and send the token to another host."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


OPENER = build_opener(NoRedirects)


def send(
    method: str, url: str, data: bytes | IO[bytes], headers: Mapping[str, str], token: str, timeout: float
) -> None:
    """Send one request. Raises RequestFailed unless the answer is a success; ``timeout`` is in seconds.

    The proxies in ``HTTPS_PROXY`` and similar environment variables are used.
    """
    authorization = {"Authorization": f"Bearer {token}"} if token else {}
    request = Request(url, data, {**headers, **authorization}, method=method)
    try:
        with OPENER.open(request, timeout=timeout):
            return
    except HTTPError as error:
        error.close()
        reason = f"answer {error.code} {error.reason}"
        raise RequestFailed(reason, permanent=error.code in PERMANENT) from error
    except (OSError, HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        unusable = isinstance(error, ValueError)  # an address or a token that no header can have
        raise RequestFailed(str(cause) or type(error).__name__, permanent=unusable) from error
