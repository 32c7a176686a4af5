"""A plugin, each part of which can call ``sys.exit``: the place, and the code, stand in the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import attrs
import stub_plugin

from rlcore import EnvironmentSpec, StatsWriterSpec, TrainerSpec, hookimpl


def leave(where: str) -> Any:
    if where == os.environ["LEAVE_IN"]:
        os.environ["LEFT"] = where
        if os.environ["LEAVE_WITH"] == "GeneratorExit":
            raise GeneratorExit
        sys.exit({"None": None, "0": 0, "7": 7}.get(os.environ["LEAVE_WITH"], os.environ["LEAVE_WITH"]))


def call(where: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        leave(where)
        return method(*given, **named)

    return called


def leaving(prefix: str, *names: str) -> Any:
    class Leaving:
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            return call(f"{prefix}.{name}", found) if name in names else found

    return Leaving


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="leaving", target="leaving:Corridor")]


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [TrainerSpec(name="leaving", target="leaving:Trainer", settings="leaving:Settings")]


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [StatsWriterSpec(name="leaving", target="leaving:Writer", settings="leaving:WriterSettings")]


STEPS = ("reset", "step", "close", "state_dict", "load_state_dict", "set_parameters")
LEARNING = ("begin", "act", "observe", "ready", "update", "state_dict", "load_state_dict", "load_model")


class Corridor(leaving("environment", *STEPS), stub_plugin.FaultyCorridor):  # type: ignore[misc]
    def __init__(self, settings: Any, run: Any) -> None:
        leave("environment")
        super().__init__(run)


class Policy(leaving("policy", "seed", "act"), stub_plugin.NumpyPolicy):  # type: ignore[misc]
    """Acts as that of the numpy trainer."""


class Trainer(leaving("trainer", *LEARNING), stub_plugin.NumpyTrainer):  # type: ignore[misc]
    def __init__(self, settings: Any, behavior: Any, run: Any) -> None:
        leave("trainer")
        super().__init__(settings, behavior, run)
        self._policy = Policy(self)

    policy = property(lambda self: leave("trainer.policy") or self._policy, lambda self, policy: None)


@attrs.frozen(kw_only=True)
class Settings(stub_plugin.NumpySettings):  # type: ignore[misc]
    def __attrs_post_init__(self) -> None:
        leave("settings")


@attrs.frozen(kw_only=True)
class WriterSettings:
    def __attrs_post_init__(self) -> None:
        leave("writer settings")


class Writer(leaving("writer", "write", "close")):  # type: ignore[misc]
    def __init__(self, settings: Any, run: Any) -> None:
        leave("writer")

    def write(self, *given: Any) -> None:
        """Writes nothing."""

    close = write


leave("import")
