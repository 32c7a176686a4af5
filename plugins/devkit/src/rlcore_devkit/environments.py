"""Small environments with known best returns, for tests of trainers and of the run loop. They need numpy only.

Each environment has its own generator, with the seed of its episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    EpisodeSeeds,
    ObservationSpec,
    Parameters,
    generator_state,
    refuse_unknown_parameters,
    restore_generator,
)

Array = NDArray[Any]


class ArrayEnvironment:
    """A template of N environments with one agent each: a subclass fills arrays, this class manages the episodes.

    ``state`` names the arrays of the subclass, each [N, ...], that describe the state of its environments. A subclass
    with environment parameters passes their defaults, and reads ``parameters[name][env]`` from ``begin`` on.

    Attributes:
        state: Names of the attributes with the arrays [N, ...] that describe the state of the environments.
        behaviors: The only behavior by name.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode of each environment.
        parameters: Values [N] of each environment parameter in the open episodes, by name.
    """

    state: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, spec: BehaviorSpec, max_steps: int | None = None, parameters: Mapping[str, float] | None = None
    ) -> None:
        self.behaviors: Mapping[str, BehaviorSpec] = {spec.name: spec}
        self.num_envs = spec.slots
        self.episodes: NDArray[np.int64] = np.zeros(spec.slots, np.int64)  # [N]
        # Values of the open episodes and of the next ones; each [N]. An open episode keeps its values when
        # set_parameters changes them: that is a rule of rlcore.Environment.
        self.parameters: dict[str, NDArray[np.float64]] = {}
        self._next_parameters: dict[str, Array] = {}
        for name, value in (parameters or {}).items():
            values = np.full(spec.slots, value, np.float64)
            self.parameters[name] = values
            self._next_parameters[name] = values.copy()
        self._name = spec.name
        self._max_steps = max_steps
        self._steps: Array = np.zeros(spec.slots, np.int64)  # [N] in the open episode
        self._seeds = EpisodeSeeds(0)
        self._generators = [np.random.default_rng(0) for _ in range(spec.slots)]

    def begin(self, env: int, generator: np.random.Generator) -> None:
        """Start an episode of the environment ``env``."""
        raise NotImplementedError

    def advance(self, actions: Actions) -> tuple[Array, Array]:
        """Step all environments; return reward [N] and terminated [N]."""
        raise NotImplementedError

    def observe(self) -> dict[str, Array]:
        """Return the current observations in new arrays [N, *shape]."""
        raise NotImplementedError

    def action_mask(self) -> NDArray[np.bool_] | None:
        """Return the mask [N, options], True = allowed; None allows all options."""
        return None

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start an episode in every environment, as :meth:`rlcore.Environment.reset` says."""
        self._seeds = seeds
        self.episodes = np.array(episodes, np.int64)
        for env in range(self.num_envs):
            self._begin(env)
        return {self._name: self._first_batch()}

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Step all environments, as :meth:`rlcore.Environment.step` says."""
        reward, terminated = self.advance(actions[self._name])
        reward = reward.astype(np.float32)
        self._steps += 1
        truncated = np.zeros(self.num_envs, np.bool_)
        if self._max_steps is not None:
            # An episode that terminates in its last step is terminated alone: a row has one flag at most.
            late = self._steps >= self._max_steps
            truncated = late & ~terminated
        ended = np.flatnonzero(terminated | truncated)
        final: dict[str, Array] | None = None
        final_mask: Array | None = None
        if ended.size:
            # Before the next episodes begin: afterwards these rows show their first observations.
            last = self.observe()
            final = {name: array[ended] for name, array in last.items()}
            mask = self.action_mask()
            if mask is not None:
                final_mask = mask[ended]
        for env in ended.tolist():
            self.episodes[env] += 1
            self._begin(env)
        observations = self.observe()
        batch = AgentBatch(observations, reward, terminated, truncated, ended, final)
        batch.action_mask = self.action_mask()
        batch.final_action_mask = final_mask
        return {self._name: batch}

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the parameters of the next episodes. Raises ConfigError for an unknown name."""
        about = f"environment {type(self).__name__}"
        refuse_unknown_parameters(parameters, self.parameters, about)
        for name, values in parameters.items():
            self._next_parameters[name][:] = values

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _begin(self, env: int) -> None:
        # A generator for each episode, so that an episode depends only on its environment and number.
        seed = self._seeds(env, int(self.episodes[env]))
        generator = np.random.default_rng(seed)
        self._generators[env] = generator
        self._steps[env] = 0
        for name, values in self._next_parameters.items():
            self.parameters[name][env] = values[env]
        self.begin(env, generator)

    def _first_batch(self) -> AgentBatch:
        reward = np.zeros(self.num_envs, np.float32)
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        batch = AgentBatch(self.observe(), reward, terminated, truncated)
        batch.action_mask = self.action_mask()
        return batch


class SavingEnvironment(ArrayEnvironment):
    """An :class:`ArrayEnvironment` that implements :class:`rlcore.SavesState`."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as :meth:`rlcore.SavesState.state_dict` says."""
        generators = {}
        for env, generator in enumerate(self._generators):
            generators[str(env)] = generator_state(generator)  # keys of a checkpoint are text
        state: dict[str, Any] = {
            "run_seed": self._seeds.run_seed,
            "first_env": self._seeds.first_env,
            "episodes": self.episodes.copy(),
            "steps": self._steps.copy(),
            "generators": generators,
            "parameters": _copies(self.parameters),
            "next_parameters": _copies(self._next_parameters),
        }
        for name in self.state:
            state[name] = getattr(self, name).copy()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state``, as :meth:`rlcore.SavesState.load_state_dict` says."""
        run_seed = int(state["run_seed"])
        first_env = int(state["first_env"])
        self._seeds = EpisodeSeeds(run_seed, first_env)
        self.episodes = np.array(state["episodes"], np.int64)
        self._steps = np.array(state["steps"], np.int64)
        generators = state["generators"]
        for env, generator in enumerate(self._generators):
            restore_generator(generator, generators[str(env)])
        open_parameters = state["parameters"]
        next_parameters = state["next_parameters"]
        for name in self.parameters:
            self.parameters[name][:] = open_parameters[name]
            self._next_parameters[name][:] = next_parameters[name]
        for name in self.state:
            getattr(self, name)[...] = state[name]
        return {self._name: self._first_batch()}


def _copies(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in arrays.items()}


def _choosing(name: str, observation: ObservationSpec, options: int, num_envs: int) -> BehaviorSpec:
    """A behavior with one agent in each environment, which chooses one of the options."""
    envs = np.arange(num_envs)
    return BehaviorSpec(name, (observation,), discrete=(options,), env_index=envs)


class TinyCorridor(SavingEnvironment):
    """Walk right to the end of a corridor: reward 1 at the end, -0.01 per step before, truncated after ``max_steps``.

    The agent starts in any cell except the last; actions are 0 (left) and 1 (right). ``masked`` forbids walking into
    the left wall. The best return is 1 minus 0.01 for each cell walked before the last.

    Environment parameters: ``length``, the number of the corridor's cells in an episode, at least 2 (the last one is
    the end; fractions are rounded down), and ``goal_reward``, the reward at the end.
    """

    state = ("position", "end")

    def __init__(
        self, num_envs: int = 2, name: str = "Corridor", length: int = 6, max_steps: int = 20, masked: bool = False
    ) -> None:
        self.length = length
        self.masked = masked
        self.position: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        self.end: NDArray[np.int64] = np.full(num_envs, length - 1)  # [N] last cell of each environment's corridor
        observation = ObservationSpec("position", (length,), np.float32, "one_hot")
        spec = _choosing(name, observation, 2, num_envs)
        parameters = {"length": length, "goal_reward": 1.0}
        super().__init__(spec, max_steps, parameters)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        """Start an episode. Raises ConfigError for a ``length`` that the corridor cannot have."""
        cells = int(self.parameters["length"][env])
        if not 2 <= cells <= self.length:
            problem = f"must be from 2 to {self.length}, the corridor's cells, not {cells}"
            raise ConfigError(problem, key=("environment_parameters", "length"))
        self.end[env] = cells - 1
        self.position[env] = generator.integers(cells - 1)

    def advance(self, actions: Actions) -> tuple[Array, Array]:
        assert actions.discrete is not None
        right = actions.discrete[:, 0] == 1
        move = np.where(right, 1, -1)
        self.position = np.clip(self.position + move, 0, self.end)
        arrived = self.position == self.end
        reward = np.where(arrived, self.parameters["goal_reward"], -0.01)
        return reward, arrived

    def observe(self) -> dict[str, Array]:
        indicators = np.eye(self.length, dtype=np.float32)
        return {"position": indicators[self.position]}

    def action_mask(self) -> NDArray[np.bool_] | None:
        if not self.masked:
            return None
        mask = np.ones((self.num_envs, 2), np.bool_)
        mask[:, 0] = self.position > 0
        return mask


class IdentityEnvironment(ArrayEnvironment):
    """Imitate the observation: each step shows a new target, and an action equal to it has reward 1.

    The target consists of ``continuous`` real numbers in [-1, 1] and one option of each branch in ``discrete``. The
    reward is the mean over all parts: 1 for a matching branch, and ``1 - distance ** 2`` for a real part. An episode
    terminates after ``episode_length`` steps, so the best return is ``episode_length``.
    """

    def __init__(
        self,
        num_envs: int = 2,
        name: str = "Identity",
        continuous: int = 0,
        discrete: Sequence[int] = (),
        episode_length: int = 8,
    ) -> None:
        branches = tuple(discrete)
        self._reals: Array = np.zeros((num_envs, continuous), np.float32)  # [N, continuous]
        self._choices: Array = np.zeros((num_envs, len(branches)), np.int64)  # [N, branches]
        self._length = episode_length
        self._branches = np.array(branches, np.int64)
        first_columns = np.cumsum([0, *branches])
        self._offsets = first_columns[:-1]  # of each branch in the indicators
        observations: list[ObservationSpec] = []
        if continuous:
            reals = ObservationSpec("reals", (continuous,), np.float32)
            observations.append(reals)
        if branches:
            indicators = sum(branches)
            choices = ObservationSpec("choices", (indicators,), np.float32, "one_hot")
            observations.append(choices)
        high = np.ones(continuous, np.float32)
        low = -high
        envs = np.arange(num_envs)
        spec = BehaviorSpec(name, tuple(observations), continuous, branches, low, high, env_index=envs)
        super().__init__(spec)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self._draw(env, generator)

    def _draw(self, env: int, generator: np.random.Generator) -> None:
        reals = self._reals.shape[1]
        self._reals[env] = generator.uniform(-1.0, 1.0, reals)
        self._choices[env] = generator.integers(self._branches)

    def advance(self, actions: Actions) -> tuple[Array, Array]:
        scores = []  # [N, parts] each
        if actions.continuous is not None:
            distance = actions.continuous - self._reals
            scores.append(1.0 - np.square(distance))
        if actions.discrete is not None:
            matches = actions.discrete == self._choices
            scores.append(matches.astype(np.float32))
        # The next targets, after the scores of these: the action was chosen for what was shown.
        for env, generator in enumerate(self._generators):
            self._draw(env, generator)
        side_by_side = np.concatenate(scores, axis=1)
        reward = side_by_side.mean(axis=1)
        terminated = self._steps + 1 >= self._length
        return reward, terminated

    def observe(self) -> dict[str, Array]:
        observations: dict[str, Array] = {}
        if self._reals.size:
            observations["reals"] = self._reals.copy()
        if self._choices.size:
            width = self._branches.sum()
            indicators = np.zeros((self.num_envs, width), np.float32)
            columns = self._choices + self._offsets
            np.put_along_axis(indicators, columns, 1.0, axis=1)
            observations["choices"] = indicators
        return observations


class ConstantReward(ArrayEnvironment):
    """Reward 1 at every step; time limits only interrupt an episode, so the value of every state is 1 / (1 - gamma)."""

    def __init__(self, num_envs: int = 2, name: str = "Constant", max_steps: int = 10) -> None:
        observation = ObservationSpec("nothing", (1,), np.float32)
        spec = _choosing(name, observation, 2, num_envs)
        super().__init__(spec, max_steps)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        """Do nothing: all states are equal."""

    def advance(self, actions: Actions) -> tuple[Array, Array]:
        reward = np.ones(self.num_envs, np.float32)
        terminated = np.zeros(self.num_envs, np.bool_)
        return reward, terminated

    def observe(self) -> dict[str, Array]:
        ones = np.ones((self.num_envs, 1), np.float32)
        return {"nothing": ones}


class RememberedCue(SavingEnvironment):
    """Name what was seen at the beginning: only the first observation of an episode shows which of two cues it has.

    An episode has three steps. The action of the last step, 0 or 1, earns 1 if it names the cue; other actions have no
    effect. The best return is 1, and the best mean return without memory is 0.5.

    Attributes:
        LENGTH: Steps of an episode.
    """

    LENGTH = 3
    state = ("cue",)

    def __init__(self, num_envs: int = 2, name: str = "Cue") -> None:
        self.cue: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        observation = ObservationSpec("cue", (3,), np.float32)  # the cue, then whether the last action is next
        spec = _choosing(name, observation, 2, num_envs)
        super().__init__(spec)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.cue[env] = generator.integers(2)

    def advance(self, actions: Actions) -> tuple[Array, Array]:
        assert actions.discrete is not None
        last = self._steps + 1 >= self.LENGTH
        named = actions.discrete[:, 0] == self.cue
        return last & named, last

    def observe(self) -> dict[str, Array]:
        columns = np.zeros((self.num_envs, 3), np.float32)
        first = self._steps == 0
        cues = self.cue[first]
        columns[first, cues] = 1.0
        columns[:, 2] = self._steps == self.LENGTH - 1
        return {"cue": columns}


def tiny_env(num_envs: int = 2, name: str = "Corridor") -> TinyCorridor:
    """Return the smallest environment that terminates, is truncated and saves its state."""
    return TinyCorridor(num_envs, name)


def identity_discrete(num_envs: int = 2, name: str = "Identity") -> IdentityEnvironment:
    """Return an :class:`IdentityEnvironment` with one branch of four options."""
    return IdentityEnvironment(num_envs, name, discrete=(4,))


def identity_multi_branch(num_envs: int = 2, name: str = "Identity") -> IdentityEnvironment:
    """Return an :class:`IdentityEnvironment` with branches of three, two and four options."""
    return IdentityEnvironment(num_envs, name, discrete=(3, 2, 4))


def identity_multi_binary(num_envs: int = 2, name: str = "Identity") -> IdentityEnvironment:
    """Return an :class:`IdentityEnvironment` with four branches of two options."""
    return IdentityEnvironment(num_envs, name, discrete=(2, 2, 2, 2))


def identity_continuous(num_envs: int = 2, name: str = "Identity") -> IdentityEnvironment:
    """Return an :class:`IdentityEnvironment` with two real parts."""
    return IdentityEnvironment(num_envs, name, continuous=2)


def identity_hybrid(num_envs: int = 2, name: str = "Identity") -> IdentityEnvironment:
    """Return an :class:`IdentityEnvironment` with two real parts and a branch of three options."""
    return IdentityEnvironment(num_envs, name, continuous=2, discrete=(3,))


class ImageIdentity(ArrayEnvironment):
    """Name the bright part of an image: the target is the vertical third of the image that is white.

    The image is ``height x width`` bytes with three channels. The right option of three has reward 1; an episode ends
    after ``episode_length`` steps.
    """

    def __init__(
        self, num_envs: int = 2, name: str = "Image", height: int = 20, width: int = 24, episode_length: int = 8
    ) -> None:
        self._length = episode_length
        self._target: Array = np.zeros(num_envs, np.int64)  # [N]
        observation = ObservationSpec("camera", (height, width, 3), np.uint8, "image")
        spec = _choosing(name, observation, 3, num_envs)
        super().__init__(spec)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self._target[env] = generator.integers(3)

    def advance(self, actions: Actions) -> tuple[Array, Array]:
        assert actions.discrete is not None
        reward = actions.discrete[:, 0] == self._target
        for env, generator in enumerate(self._generators):
            self.begin(env, generator)
        terminated = self._steps + 1 >= self._length
        return reward, terminated

    def observe(self) -> dict[str, Array]:
        [observation] = self.behaviors[self._name].observations
        images = np.zeros((self.num_envs, *observation.shape), np.uint8)
        for image, target in zip(images, self._target, strict=True):
            thirds = np.array_split(image, 3, axis=1)  # views
            thirds[target][...] = 255
        return {"camera": images}


# The ids of `environment: {type: testing, id: ...}`; see rlcore_devkit.hooks.
FOR_CONFIGURATIONS: Mapping[str, Callable[..., ArrayEnvironment]] = {
    "corridor": TinyCorridor,
    "constant_reward": ConstantReward,
    "identity_discrete": identity_discrete,
    "identity_multi_branch": identity_multi_branch,
    "identity_multi_binary": identity_multi_binary,
    "identity_continuous": identity_continuous,
    "identity_hybrid": identity_hybrid,
    "image_identity": ImageIdentity,
    "remembered_cue": RememberedCue,
}
