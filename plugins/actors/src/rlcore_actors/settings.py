"""The settings of the trainers ``appo`` and ``impala``, and of the executor ``actors``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from rlcore import BehaviorSettings, ExecutorSettings, KeyPath, Plugins, RunConfig, SettingError, setting
from rlcore_torch import ClippedPolicySettings

__all__ = ["APPOSettings", "ActorSettings"]


@attrs.frozen(kw_only=True)
class APPOSettings(ClippedPolicySettings):
    """How APPO and IMPALA learn. A trainer that derives from APPOTrainer derives its settings from this class."""

    lambd: float = setting(
        1.0, "Lambda of V-trace (remark 2 of arXiv:1802.01561); 1 is V-trace as its eq. 1.", minimum=0.0, maximum=1.0
    )
    num_epoch: int = setting(1, "Passes over the rollout in one update.", minimum=1, maximum=1000)
    rho_bar: float = setting(
        1.0, "Limit of the importance weights of V-trace's errors; at least c_bar (an rlcore key).", minimum=0.0
    )
    c_bar: float = setting(1.0, "Limit of the importance weights of V-trace's traces (an rlcore key).", minimum=0.0)
    shared_critic: bool = setting(False, "One body for policy and value heads instead of two.")

    def __attrs_post_init__(self) -> None:
        if self.rho_bar < self.c_bar:
            raise SettingError("rho_bar", f"must be at least c_bar ({self.c_bar:g})", others=("c_bar",))

    def problems(self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins) -> Iterator[tuple[Any, str]]:
        """Yield what of this block does not fit the rest of the configuration."""
        yield from super().problems(behavior, config, plugins)
        environment = config.environment
        in_actors = environment is not None and isinstance(environment.executor, ActorSettings)
        if in_actors and self.target_kl is not None:
            yield (
                ("target_kl",),
                "measures the distance from the policy that acted, which actors are versions behind; leave it out, or "
                "train without the executor actors",
            )


def _address_problem(value: str) -> str | None:
    host, colon, port = value.rpartition(":")
    if host and colon and port.isdecimal() and int(port) < 65536:
        return None
    return "must be HOST:PORT, such as 0.0.0.0:5600"


@attrs.frozen(kw_only=True)
class ActorSettings(ExecutorSettings):
    """Settings of the executor ``actors``: ``count`` actors have a copy of the policy and play beside the learner.

    Limits of restarts are in ``env_settings``, under ML-Agents' names.
    """

    fragment: int = setting(32, "Steps of each environment in a fragment, which an actor sends at once.", minimum=1)
    queue: int | None = setting(
        None, "Fragments that wait for the learner at most; actors wait then. null: 2 for each actor.", minimum=1
    )
    max_lag: int | None = setting(
        None,
        "Updates by which the policy of a fragment may be older than the learner's; an older fragment is dropped. "
        "null: none is.",
        minimum=0,
    )
    on_failure: str = setting(
        "restart",
        "What follows when an actor that the run started raises, dies or hangs: restart starts it again, within the "
        "limits of env_settings; drop does so too, and continues without it after that; fail ends the run.",
        choices=("restart", "drop", "fail"),
    )
    min_workers: int = setting(1, "With drop: the number of actors that the run needs to continue.", minimum=1)
    fragment_timeout: float | None = setting(
        60.0, "Seconds that an actor may take for a fragment; null for no limit, to debug.", exclusive_minimum=0
    )
    local: int | None = setting(
        None, "Actors that the run starts on this machine; the others connect to listen. null: all.", minimum=0
    )
    listen: str | None = setting(
        None,
        "HOST:PORT at which actors of other hosts reach the run, with a token. null: no actor but those that the run "
        "starts.",
        check=_address_problem,
    )
    allow_public_bind: bool = setting(
        False,
        "Whether listen may be an address that other machines reach. What is sent is not encrypted.",
        foreign=False,
    )
    token_file: str | None = setting(
        None,
        "File with the token that actors need, 16 characters or more. null: the run writes one into its directory.",
    )
    reconnect: float = setting(
        30.0, "Seconds that an actor on another host tries to reach a learner that is gone, before it ends.", minimum=0
    )
    in_process: bool = setting(
        False,
        "Whether the process of the run plays all fragments itself, one after the other: equal seeds give equal runs. "
        "For tests, and to measure what lag costs.",
    )
    lag: int = setting(0, "With in_process: updates by which the policy of actors is older.", minimum=0)

    def __attrs_post_init__(self) -> None:
        if self.min_workers > self.count:
            raise SettingError("min_workers", f"is {self.min_workers}, and count {self.count}", others=("count",))
        if self.lag and not self.in_process:
            raise SettingError("lag", "is for in_process: true; actors that play beside the learner have their own lag")
        if self.max_lag is not None and self.max_lag < self.lag:
            problem = f"is {self.max_lag}, and with lag {self.lag} every fragment would be dropped"
            raise SettingError("max_lag", problem, others=("lag",))
        if self.local is not None and self.local > self.count:
            raise SettingError("local", f"is {self.local}, and count {self.count}", others=("count",))
        if self.listen is None:
            if self.local not in (None, self.count):
                problem = "the other actors cannot connect; set listen: HOST:PORT"
                raise SettingError("local", problem, others=("listen",))
            return
        if self.in_process:
            raise SettingError("listen", "no actor connects with in_process: true; leave one of them out")
        host = self.listen.rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost", "[::1]") and not self.allow_public_bind:
            raise SettingError(
                "listen",
                f"{self.listen!r} would let other machines reach the run; set allow_public_bind: true in a network "
                "that you trust, or reach 127.0.0.1 through SSH",
                others=("allow_public_bind",),
            )

    @property
    def started(self) -> int:
        """The number of actors that the run starts."""
        return self.count if self.local is None else self.local

    def problems(self, config: RunConfig, plugins: Plugins) -> Iterator[tuple[KeyPath, str]]:
        """Yield what of the configuration actors cannot do."""
        if config.num_envs % self.count:
            yield (
                ("count",),
                f"{config.num_envs} environments (environment.num_envs) cannot be shared equally by {self.count} "
                "actors; set a multiple",
            )
        if config.environment_parameters:
            yield (), "actors draw no environment_parameters; leave one of them out, or use the executor processes"
