"""The blocks of the configuration that belong to the company."""

from __future__ import annotations

from urllib.parse import urlsplit

import attrs

from rlcore import RewardSettings, setting


def address_problem(address: str) -> str | None:
    """Return what is wrong with an http(s) address, or None. Names and passwords belong into ACME_TOKEN."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is not a number
        usable = False
    if not usable:
        return "must be an address such as https://stats.acme.example/rl"
    if "@" in parts.netloc:  # the address is written to configuration.yaml and to messages, the token is not
        return "must not contain a password; set ACME_TOKEN"
    return None


def destination_problem(destination: str) -> str | None:
    return address_problem(destination) if "://" in destination else None


@attrs.frozen(kw_only=True)
class AcmeSettings:
    """The block ``acme``: rules for one run."""

    owner: str | None = setting(None, "Who answers for the run, such as an e-mail address.")
    upload_to: str | None = setting(
        None, "Directory or http(s) address that gets a copy of each checkpoint.", check=destination_problem
    )
    upload_seconds: float = setting(60.0, "Seconds that the end of a run waits for the last copy.", minimum=0)
    token: str = setting("", "Password for upload_to, from the environment variable ACME_TOKEN.", secret=True)


@attrs.frozen(kw_only=True)
class HttpSettings:
    """The block ``stats.acme-http``: where and how summaries are sent."""

    url: str = setting(description="Address that gets summaries, as POST requests.", check=address_problem)
    token: str = setting("", "Password for url, from the environment variable ACME_TOKEN.", secret=True)
    batch_size: int = setting(50, "Summaries in one request, at most.", minimum=1)
    batch_seconds: float = setting(1.0, "Seconds that the first summary of a request waits for others.", minimum=0)
    queue_size: int = setting(10_000, "Summaries that wait while the server fails; the oldest are dropped.", minimum=1)
    timeout: float = setting(10.0, "Seconds until a request without an answer has failed.", exclusive_minimum=0)
    retry_seconds: float = setting(5.0, "Seconds between a failed request and the next attempt.", exclusive_minimum=0)
    # rlcore ends a process whose writer needs more than 30 seconds to close.
    close_seconds: float = setting(10.0, "Seconds that the end of a run waits for the server.", minimum=0, maximum=25)


@attrs.frozen(kw_only=True)
class CenteredSettings(RewardSettings):
    """The block ``reward_signals.acme-centered``. The fields ``gamma`` and ``strength`` come from RewardSettings."""

    observation: str | None = setting(None, "Name of a vector observation; may be left out if there is only one.")
    weights: tuple[float, ...] = setting(description="Cost per unit of each element's distance from 0.", minimum=0)
