"""An environment and a trainer that are slow where they are told to be; they build on the stubs of core's tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import attrs
from stub_plugin import FaultyCorridor, NumpySettings, NumpyTrainer

from rlcore import EnvironmentSpec, TrainerSpec, hookimpl, setting


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="slow", target="slow_plugin:slow")]


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [TrainerSpec(name="slow", target="slow_plugin:SlowTrainer", settings="slow_plugin:SlowSettings")]


def slow(settings: Any, run: Any) -> SlowCorridor:
    return SlowCorridor(run, **settings.options)


class SlowCorridor(FaultyCorridor):
    """``close`` takes ``close_seconds``; a non-daemon thread lives for ``thread_seconds``."""

    def __init__(self, run: Any, close_seconds: float = 0.0, thread_seconds: float = 0.0, **options: Any) -> None:
        super().__init__(run, **options)
        self.close_seconds = close_seconds
        if thread_seconds:
            threading.Thread(target=time.sleep, args=(thread_seconds,), name="renderer").start()

    def close(self) -> None:
        time.sleep(self.close_seconds)


@attrs.frozen(kw_only=True)
class SlowSettings(NumpySettings):
    update_seconds: float = setting(0.0, "How long an update takes.")


class SlowTrainer(NumpyTrainer):
    def update(self) -> Mapping[str, float]:
        time.sleep(self.settings.update_seconds)  # type: ignore[attr-defined]
        return super().update()
