"""A trainer in numpy that moves its action towards a target, and two environments: one saves itself, one cannot."""

from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    EnvironmentSpec,
    ObservationSpec,
    RunContext,
    TrainerSpec,
    TrainingDiverged,
    derive_generator,
    generator_state,
    hookimpl,
    restore_generator,
    setting,
)
from rlcore_devkit.environments import ArrayEnvironment, SavingEnvironment


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [TrainerSpec(name="mover", target="target_plugin:Mover", settings="target_plugin:MoverSettings")]


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name=name, target=f"target_plugin:{name}") for name in ("target", "forgetful")]


@attrs.frozen(kw_only=True)
class MoverSettings:
    rate: float = setting(0.1, "Share of the distance to the target that one update covers.")
    noise: float = setting(0.02, "Noise of one update.")
    kind: str = setting("plain", "How it moves.", choices=("plain", "momentum"))
    momentum: float = setting(0.5, "Of kind momentum.")
    layers: list[int] = setting(factory=list, description="Unused.")


class MoverPolicy:
    def __init__(self, trainer: Mover) -> None:
        self.trainer = trainer

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        rows = len(next(iter(observations.values())))
        return Actions(continuous=np.full((rows, 1), self.trainer.action, np.float32))


class Mover:
    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.spec = behavior
        self.settings: MoverSettings = settings.hyperparameters
        self.generator = derive_generator(run.seed, "mover")
        self.action, self.velocity, self.steps, self.seen = 0.0, 0.0, 0, 0.0
        self.policy = MoverPolicy(self)

    def snapshot(self, state: Mapping[str, Any] | None = None) -> MoverPolicy:
        return copy.deepcopy(self.policy)

    def begin(self, batch: AgentBatch) -> None:
        """No row is remembered."""

    def act(self, batch: AgentBatch) -> Actions:
        noise = self.generator.normal(0.0, 0.1, (self.spec.slots, 1))
        return Actions(continuous=(self.action + noise).astype(np.float32))

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        self.steps += self.spec.slots
        # What an environment showed decides what is learned: a restarted episode shows something else.
        self.seen = float(np.mean([each.mean() for each in batch.observations.values()]))

    def ready(self) -> bool:
        return True

    def update(self) -> Mapping[str, float]:
        if self.settings.rate > 3.0:
            raise TrainingDiverged(f"the rate {self.settings.rate} is too large")
        kept = self.settings.momentum if self.settings.kind == "momentum" else 0.0
        noise = self.generator.normal(0.0, self.settings.noise) + 0.01 * self.seen
        self.velocity = kept * self.velocity + self.settings.rate / 100 * (0.7 - self.action) + noise / 10
        self.action += self.velocity
        return {"Losses/Policy Loss": abs(0.7 - self.action)}

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": {"action": np.array([self.action])},
            "moved": {"velocity": self.velocity, "seen": self.seen, "steps": self.steps},
            "generator": generator_state(self.generator),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.load_model(state["model"])
        moved = state["moved"]
        self.velocity, self.seen, self.steps = moved["velocity"], moved["seen"], moved["steps"]
        restore_generator(self.generator, state["generator"])

    def load_model(self, model: Mapping[str, Any]) -> None:
        self.action = float(model["action"][0])


class _Target:
    """An agent scores by how near its action is to 0.7; it sees noise of its episode."""

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.noise[env] = generator.normal()

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        time.sleep(self.seconds)
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        assert actions.continuous is not None
        reward = 1.0 - np.abs(actions.continuous[:, 0] - 0.7)
        return self.scale * reward, np.zeros(self.num_envs, np.bool_)

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"noise": self.noise[:, None].astype(np.float32)}


def _made(kind: type, settings: Any, run: RunContext) -> Any:
    observation = ObservationSpec("noise", (1,), np.float32)
    spec = BehaviorSpec(run.behavior_names[0], (observation,), continuous=1, env_index=np.arange(run.num_envs))
    made = kind(spec, max_steps=7)
    made.noise = np.zeros(run.num_envs)
    made.scale = float(settings.options.get("scale", 1.0))
    made.deadly = bool(settings.options.get("deadly", False))
    made.seconds = 0.0 if run.inference else float(settings.options.get("seconds", 0.0))
    return made


class SavingTarget(_Target, SavingEnvironment):
    state = ("noise",)


class ForgetfulTarget(_Target, ArrayEnvironment):
    """Cannot save itself, so that every checkpoint restarts its episodes."""


def target(settings: Any, run: RunContext) -> SavingTarget:
    made: SavingTarget = _made(SavingTarget, settings, run)
    return made


def forgetful(settings: Any, run: RunContext) -> ForgetfulTarget:
    made: ForgetfulTarget = _made(ForgetfulTarget, settings, run)
    return made
