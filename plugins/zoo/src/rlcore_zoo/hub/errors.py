"""Errors of the hub and of the network as one message of rlcore, with the fix."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import HfApi, constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars, httpx, validate_repo_id

from rlcore import ConfigError, RunStateError, one_line

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


def hub_api() -> HfApi:
    """The hub at HF_ENDPOINT, by default huggingface.co, with the token that `hf auth login` or HF_TOKEN gave."""
    from rlcore import __version__

    if not sys.stderr.isatty():
        disable_progress_bars()
    endpoint = os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")
    return HfApi(endpoint=endpoint, library_name="rlcore", library_version=__version__)


def require_repository_name(repository: str) -> None:
    """Raise ConfigError unless ``repository`` is OWNER/NAME as the hub allows it."""
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ConfigError(f"{repository!r}: is not the name of a repository: {one_line(error)}") from None
    if repository.count("/") != 1:
        raise ConfigError(f"{repository!r}: write OWNER/NAME, such as ann/{repository.strip('/') or 'cartpole'}")


@contextmanager
def reached(api: HfApi, repository: str, revision: str | None = None) -> Iterator[None]:
    """For a block that talks to the hub: an error becomes a RunStateError that says what to do.

    ``repository`` is OWNER/NAME, and ``revision`` what the user asked for.
    """
    where = f"{repository} at {api.endpoint}"
    try:
        yield
    except RevisionNotFoundError:
        raise RunStateError(f"{where}: there is no revision {revision!r}; name a branch, a tag or a commit") from None
    except GatedRepoError:
        raise RunStateError(f"{where}: access must be granted on its page first, or {LOG_IN}") from None
    except RepositoryNotFoundError:
        raise RunStateError(
            f"{where}: there is no such repository, or it is private and you may not read it; {LOG_IN}"
        ) from None
    except OfflineModeIsEnabled:
        raise RunStateError(f"{where}: cannot be reached, because HF_HUB_OFFLINE is set; unset it") from None
    except (httpx.HTTPError, LocalEntryNotFoundError) as error:
        cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) and error.__cause__ else error
        if isinstance(cause, HfHubHTTPError):
            raise RunStateError(f"{where}: {_refusal(cause)}") from None
        raise RunStateError(
            f"{where}: cannot be reached: {one_line(cause)}; check the network and HF_ENDPOINT, "
            "and run the command again"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, OSError) as error:
        # huggingface_hub raises these for what no hub answers: not JSON, without an entry, of another type.
        problem = f"{type(error).__name__}: {one_line(error)[:200]}"
        raise RunStateError(f"{where}: answered with what no hub answers ({problem}); check HF_ENDPOINT") from error


def _refusal(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    said = f": {' '.join(error.server_message.split())}" if error.server_message else ""
    if status == 401:
        return f"the hub does not know who you are (401){said}; {LOG_IN}"
    if status == 403:
        return f"your token may not do this (403){said}; use a token with the right to write there"
    if status in (409, 412):
        return f"the repository was changed meanwhile ({status}){said}; run the command again"
    return f"the hub answered with an error ({status}){said}; try again later"
