"""A trainer in numpy that keeps earlier weights as parts of its state that never change, as a local plugin file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from stub_plugin import NumpySettings, NumpyTrainer

from rlcore import TrainerSpec, hookimpl
from rlcore.contracts.states import FrozenState
from rlcore.settings import setting


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [TrainerSpec(name="keeper", target="keeper_plugin:Keeper", settings="keeper_plugin:KeeperSettings")]


@attrs.frozen(kw_only=True)
class KeeperSettings(NumpySettings):
    window: int = setting(12, "Updates whose weights are kept.", minimum=1)
    nan_at: int | None = setting(None, "Keep weights that are NaN from this step on.")


class Keeper(NumpyTrainer):
    """Learns from the weights that it keeps."""

    settings: KeeperSettings
    kept: tuple[FrozenState, ...] = ()

    def update(self) -> Mapping[str, float]:
        stats = super().update()
        diverged = self.settings.nan_at is not None and self.steps >= self.settings.nan_at
        weights = np.full_like(self.weights, np.nan) if diverged else self.weights
        part = FrozenState({"model": {"weights": weights}, "steps": self.steps})
        self.kept = (*self.kept, part)[-self.settings.window :]
        self.weights = self.weights + 0.1 * np.mean([each["model"]["weights"] for each in self.kept], axis=0)
        return stats

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"kept": list(self.kept)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.kept = tuple(map(FrozenState, state["kept"]))
