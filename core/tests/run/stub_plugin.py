"""A trainer and environments in numpy alone, as a local plugin file: what the tests of the run loop train with."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import ConfigSection, EnvironmentSpec, TrainerSpec, hookimpl
from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.contracts.environment import Parameters, refuse_unknown_parameters
from rlcore.contracts.seeding import EpisodeSeeds, derive_generator, generator_state, restore_generator
from rlcore.errors import RunStateError
from rlcore.plugins.context import RunContext
from rlcore.settings import BehaviorSettings, setting
from rlcore_devkit import IdentityEnvironment, TinyCorridor
from rlcore_devkit.environments import ArrayEnvironment
from rlcore_torch import OfflineSettings


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    numpy = "stub_plugin:NumpyTrainer"
    recorded = "stub_plugin:RecordedTrainer"
    settings = "stub_plugin:NumpySettings"
    return [
        TrainerSpec(name="numpy", target=numpy, settings=settings),
        TrainerSpec(name="portable", target="stub_plugin:PortableTrainer", settings=settings),
        TrainerSpec(name="together", target=numpy, settings=settings, turns=False),
        TrainerSpec(name="recorded", target=recorded, settings="stub_plugin:RecordedSettings", offline=True),
        TrainerSpec(name="pathless", target=recorded, settings=settings, offline=True),
    ]


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(name=name, target=f"stub_plugin:{name}", libraries=("attrs", "not-installed"))
        for name in ("corridor", "growing", "identity", "pair", "uneven")
    ]


@hookimpl
def rlcore_config_sections() -> list[ConfigSection]:
    """A section that says where trainers compute, as that of rlcore-torch does, which these runs do not load."""
    return [ConfigSection(name="torch_settings", target="rlcore_torch:TorchSettings")]


# ---------------------------------------------------------------- trainer


@attrs.frozen(kw_only=True)
class NumpySettings:
    buffer_size: int = setting(16, "Agent steps between updates.", minimum=1)
    width: int = setting(3, "Columns of the weights.", minimum=1)
    fail_at: int | None = setting(None, "Raise in the update at this step or later.")


class NumpyPolicy:
    def __init__(self, trainer: NumpyTrainer) -> None:
        self.trainer = trainer
        self.generator = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        rows = len(next(iter(observations.values())))
        branches = self.trainer.spec.discrete
        if deterministic:  # by the sign of the weights: the last option, or the first
            last = [branch - 1 for branch in branches] if self.trainer.weights.sum() >= 0 else [0 for _ in branches]
            return Actions(discrete=np.tile(np.array(last, np.int64), (rows, 1)))
        return Actions(discrete=self.generator.integers(branches, size=(rows, len(branches))))


class NumpyTrainer:
    """Learns nothing useful, but everything it does shows in its state."""

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.spec = behavior
        self.settings: NumpySettings = settings.hyperparameters
        self.generator = derive_generator(run.seed, f"{behavior.name}/numpy")
        self.weights: NDArray[np.float64] = self.generator.standard_normal(self.settings.width)
        self.momentum = np.zeros_like(self.weights)
        self.buffer: list[float] = []
        self.steps = 0
        self.begun = 0
        self.policy = NumpyPolicy(self)

    def snapshot(self, state: Mapping[str, Any] | None = None) -> NumpyPolicy:
        return copy.deepcopy(self.policy)

    def begin(self, batch: AgentBatch) -> None:
        self.begun += 1

    def act(self, batch: AgentBatch) -> Actions:
        branches = self.spec.discrete
        return Actions(discrete=self.generator.integers(branches, size=(self.spec.slots, len(branches))))

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        self.buffer.append(float(batch.reward.sum()) + sum(float(o.sum()) for o in batch.observations.values()))
        self.steps += self.spec.slots if batch.needs_action is None else int(batch.needs_action.sum())

    def ready(self) -> bool:
        return len(self.buffer) * self.spec.slots >= self.settings.buffer_size

    def update(self) -> Mapping[str, float]:
        if self.settings.fail_at is not None and self.steps >= self.settings.fail_at:
            raise ZeroDivisionError("the loss is\nnot what it was")
        self.momentum = 0.9 * self.momentum + self.generator.standard_normal(len(self.weights)) * np.mean(self.buffer)
        self.weights = self.weights + 0.1 * self.momentum
        self.buffer.clear()
        return {"Losses/Policy Loss": float(self.weights.sum())}

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": {"weights": self.weights.copy()},
            "optimizer": {"momentum": self.momentum.copy()},
            "buffer": list(self.buffer),
            "generator": generator_state(self.generator),
            "counters": {"steps": self.steps, "begun": self.begun},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.load_model(state["model"])
        self.momentum = np.array(state["optimizer"]["momentum"])
        self.buffer = list(state["buffer"])
        restore_generator(self.generator, state["generator"])
        self.steps, self.begun = state["counters"]["steps"], state["counters"]["begun"]

    def load_model(self, model: Mapping[str, Any]) -> None:
        if model["weights"].shape != self.weights.shape:
            raise RunStateError(f"behavior {self.spec.name!r}: the saved network does not fit this configuration")
        self.weights = np.array(model["weights"])


class PortableTrainer(NumpyTrainer):
    """Continues with other slots."""

    def load_learned(self, state: Mapping[str, Any]) -> None:
        self.load_state_dict({**state, "buffer": []})


@attrs.frozen(kw_only=True)
class RecordedSettings(OfflineSettings):
    width: int = setting(3, "Columns of the weights.", minimum=1)
    gradient_steps: int = setting(4, "In one update.", minimum=1)
    last_step: int | None = setting(None, "Where the data ends.")
    buffer_size: int = setting(1, "Unused.")
    fail_at: int | None = setting(None, "Unused.")


class RecordedTrainer(NumpyTrainer):
    """Learns as little, from data: its steps count gradient steps."""

    def begin(self, batch: AgentBatch) -> None:
        raise AssertionError("no environment is stepped")

    act = observe = begin  # type: ignore[assignment]

    def ready(self) -> bool:
        return self.settings.last_step is None or self.steps < self.settings.last_step

    def update(self) -> Mapping[str, float]:
        self.buffer = [1.0]
        self.steps += self.settings.gradient_steps
        return super().update()


# ---------------------------------------------------------------- environments


def identity(settings: Any, run: RunContext) -> IdentityEnvironment:
    """Cannot save itself."""
    return IdentityEnvironment(run.num_envs, run.behavior_names[0], discrete=(4,), **settings.options)


def corridor(settings: Any, run: RunContext) -> FaultyCorridor:
    return FaultyCorridor(run, **settings.options)


class FaultyCorridor(TinyCorridor):
    """A corridor that saves itself, and goes wrong in the way ``fault`` says from its step number ``at`` on."""

    def __init__(
        self, run: RunContext, fault: str = "", at: int = 1, env: int = 0, seconds: float = 0.0, length: int = 6
    ) -> None:
        super().__init__(run.num_envs, run.behavior_names[0], length=length)
        self.fault, self.at, self.env, self.seconds = fault, at, env, seconds
        self.taken = 0

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        if self.fault == "raise in reset":
            raise OSError("the port is\nin use")
        return super().reset(seeds, episodes)

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        batches = super().step(actions)
        self.taken += 1
        if self.seconds:
            time.sleep(self.seconds)
        if self.fault and self.taken >= self.at:
            self._go_wrong(batches[self._name])
        return batches

    def _go_wrong(self, batch: AgentBatch) -> None:
        if self.fault == "raise in step":
            raise ZeroDivisionError("division\nby zero")
        if self.fault == "NaN reward":
            batch.reward[self.env] = np.nan
        elif self.fault == "infinite reward":
            batch.reward[self.env] = -np.inf
        elif self.fault == "group reward now and then":
            if self.taken % 2:
                batch.group_reward = np.full(self.num_envs, 0.25, np.float32)
        elif self.fault == "NaN group reward":
            batch.group_reward = np.zeros(self.num_envs, np.float32)
            batch.group_reward[self.env] = np.nan
        elif self.fault == "NaN observation":
            batch.observations["position"][self.env, 2] = np.nan
        elif self.fault == "infinite final observation":
            batch.terminated[self.env] = True
            batch.ended = np.flatnonzero(batch.terminated | batch.truncated)
            final = {"position": np.zeros((len(batch.ended), self.length), np.float32)}
            final["position"][batch.ended.tolist().index(self.env), 1] = np.inf
            batch.final_observations = final
        elif self.fault == "huge but finite":
            batch.reward[self.env] = 3e38
            batch.observations["position"][self.env, 2] = 3e38


def pair(settings: Any, run: RunContext) -> Pair:
    return Pair(run.num_envs)


class Pair:
    """Two behaviors, Left with a slot in each copy and Right with two; every episode takes eight steps."""

    def __init__(self, num_envs: int) -> None:
        self.parts = {"Left": IdentityEnvironment(num_envs, "Left", discrete=(4,))}
        self.parts["Right"] = IdentityEnvironment(2 * num_envs, "Right", discrete=(2, 3))
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: attrs.evolve(part.behaviors[name], env_index=part.behaviors[name].env_index % num_envs)
            for name, part in self.parts.items()
        }
        self.num_envs = num_envs

    @property
    def episodes(self) -> NDArray[np.int64]:
        return self.parts["Left"].episodes

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        left, right = self.parts.values()
        return left.reset(seeds, episodes) | right.reset(seeds, np.tile(episodes, 2))

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        left, right = self.parts.values()
        batches = left.step(actions) | right.step(actions)
        chosen = actions["Left"].discrete
        assert chosen is not None
        batches["Right"].reward += np.tile(chosen[:, 0], 2).astype(np.float32)  # what one does matters to the other
        return batches

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, (), "this environment")

    def close(self) -> None:
        """Nothing is held open."""


def growing(settings: Any, run: RunContext) -> Growing:
    return Growing(run.num_envs, run.behavior_names[0], **settings.options)


class Growing:
    """Two agents in each copy, and five from the step ``at`` on, of which those without a slot do not act.

    Attributes:
        ended: Episodes of agents with a slot that ended.
        acted: How many agents acted in each step.
    """

    def __init__(self, num_envs: int, name: str, at: int = 20) -> None:
        self.num_envs, self.at = num_envs, at
        self._name, self._agents = name, IdentityEnvironment(5 * num_envs, name, discrete=(4,))
        self._seat(2)
        self.ended = 0
        self.acted: list[int] = []

    def _seat(self, agents: int) -> None:
        self._slots = np.arange(agents * self.num_envs)
        spec = self._agents.behaviors[self._name]
        self.behaviors = {self._name: attrs.evolve(spec, env_index=self._slots % self.num_envs)}

    @property
    def wants_slots(self) -> bool:
        return len(self.acted) >= self.at and len(self._slots) < 5 * self.num_envs

    def add_slots(self) -> None:
        self._seat(5)

    @property
    def episodes(self) -> NDArray[np.int64]:
        return self._agents.episodes[: self.num_envs]

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        return self._seen(self._agents.reset(seeds, np.tile(episodes, 5)))

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        chosen = np.zeros((5 * self.num_envs, 1), np.int64)
        discrete = actions[self._name].discrete
        assert discrete is not None
        chosen[self._slots] = discrete
        batches = self._seen(self._agents.step({self._name: Actions(discrete=chosen)}))
        self.ended += len(batches[self._name].ended)
        self.acted.append(len(self._slots))
        return batches

    def _seen(self, batches: dict[str, AgentBatch]) -> dict[str, AgentBatch]:
        return {self._name: batches[self._name].take(self._slots)}

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, (), "this environment")

    def close(self) -> None:
        """Nothing is held open."""


def uneven(settings: Any, run: RunContext) -> Uneven:
    return Uneven(run.num_envs, run.behavior_names[0])


class Uneven(ArrayEnvironment):
    """Every episode of copy c takes c + 1 steps and returns c + 1: the short ones are the poor ones."""

    def __init__(self, num_envs: int, name: str) -> None:
        observation = ObservationSpec("nothing", (1,), np.float32)
        super().__init__(BehaviorSpec(name, (observation,), discrete=(2,), env_index=np.arange(num_envs)))

    def begin(self, env: int, generator: np.random.Generator) -> None:
        """Every state is the same."""

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.ones(self.num_envs, np.float32), self._steps >= np.arange(self.num_envs)

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"nothing": np.ones((self.num_envs, 1), np.float32)}
