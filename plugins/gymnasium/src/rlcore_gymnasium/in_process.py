"""The base of all Gymnasium environments, and environments that are stepped one by one in this process.

Gymnasium's own ``SyncVectorEnv`` merges infos and copies observations at every step. :class:`InProcessEnvironment`
steps its environments directly and writes results into arrays that are reused. It also creates an environment again
when an environment parameter that is a constructor argument changed; its spaces must stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    EnvironmentFailed,
    EpisodeSeeds,
    Parameters,
    RlcoreError,
    refuse_unknown_parameters,
    repeating,
)
from rlcore_gymnasium.action_masks import MaskedBatches, MaskedEnvironments
from rlcore_gymnasium.episode_info import Wanted, final_info
from rlcore_gymnasium.failures import failing_as
from rlcore_gymnasium.goals import MakeEnv, goal_rules
from rlcore_gymnasium.parameters import ParameterDelivery, WayFinder
from rlcore_gymnasium.repeated_resets import seed_spaces, tried
from rlcore_gymnasium.saved_wrappers import Env, stacked_frames, start_afresh
from rlcore_gymnasium.spaces import ActionCodec, MismatchedValue, ObservationCodec, Observations
from rlcore_gymnasium.spaces.values import NUMBERS, flag, refuse_wrong_info, refuse_wrong_reward
from rlcore_gymnasium.video import FilmedEpisodes, behind_camera

MARKS = {"mujoco": "gymnasium.envs.mujoco", "atari": "ale_py"}  # where the code of such environments is
RETURNED = {"reset": "(observation, info)", "step": "(observation, reward, terminated, truncated, info)"}


class GymnasiumEnvironment:
    """N environments with one registered id, with one behavior and one agent per environment."""

    vector: Any  # a gymnasium.vector.VectorEnv, used differently by each subclass
    _masks: MaskedEnvironments | MaskedBatches
    reported: Wanted = None  # the numbers of ended episodes that batches have, as environment.info says
    resume_limits: tuple[str, ...] = ()  # as in rlcore.Environment
    resume_notes: tuple[str, ...] = ()

    def __init__(
        self,
        env_id: str,
        behavior: str,
        num_envs: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        observations: Observations | None = None,
        stack: int = 1,
    ) -> None:
        """``stack`` is the number of frames that FrameStackObservation stacks; 1 without it."""
        self.env_id = env_id
        self.num_envs = num_envs
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        self._behavior = behavior
        self._acting = ActionCodec.of(action_space, env_id)
        self._observing = ObservationCodec.of(observation_space, env_id, observations, self._acting, stack)
        spec = self._acting.behavior(behavior, self._observing.specs, np.arange(num_envs))
        self.behaviors: Mapping[str, BehaviorSpec] = {behavior: spec}
        self._seeds = EpisodeSeeds(0)
        # Reused at every step; the contract allows changes at the next step.
        self._reward: NDArray[np.float32] = np.zeros(num_envs, np.float32)  # [N]
        self._terminated = np.zeros(num_envs, np.bool_)  # [N]
        self._truncated = np.zeros(num_envs, np.bool_)  # [N]
        self._none = np.empty(0, np.intp)  # of the environments

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each observation that agents do not get because networks cannot read it."""
        return self._observing.left_out

    def say_what_is_left_out(self) -> None:
        """Log a line for each observation that agents do not get because networks cannot read it."""
        self._observing.say_what_is_left_out()

    @property
    def marks(self) -> frozenset[str]:
        """``{"mujoco"}`` for a robot of Gymnasium's own, ``{"atari"}`` for a game of Atari.

        :attr:`rlcore.EnvironmentSpec.presets` says what they are for.
        """
        spec = gymnasium.registry.get(self.env_id.rpartition(":")[2])
        code = "" if spec is None else str(spec.entry_point)
        return frozenset(mark for mark, start in MARKS.items() if code.startswith(start))

    def require_parameters(self, names: Iterable[str]) -> None:
        """Raise ConfigError unless the environment has all of these parameters."""
        refuse_unknown_parameters(names, (), self.env_id)

    def set_parameters(self, parameters: Parameters) -> None:
        self.require_parameters(parameters)

    def close(self) -> None:
        with failing_as(f"{self.env_id}: all {self.num_envs} environments: close failed"):
            self.vector.close()

    def _begin(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> None:
        self._seeds = seeds
        self.episodes = np.array(episodes, np.int64)
        self._reward[:] = 0.0
        self._terminated[:] = False
        self._truncated[:] = False

    def _batch(
        self,
        observations: dict[str, NDArray[Any]],
        ended: NDArray[np.intp] | None = None,
        final_observations: dict[str, NDArray[Any]] | None = None,
        **others: Any,
    ) -> dict[str, AgentBatch]:
        """Return the batch with the stored rewards, flags and masks. By default, no episode ended."""
        batch = AgentBatch(
            observations,
            self._reward,
            self._terminated,
            self._truncated,
            self._none if ended is None else ended,
            final_observations,
            action_mask=self._masks.allowed,
            **others,
        )
        return {self._behavior: batch}

    def _place(self, index: int) -> str:
        """An environment, by its number in the run, and its episode."""
        return f"environment {self._seeds.first_env + index}, episode {self.episodes[index]}"

    def _failure(self, where: str, doing: str, error: BaseException) -> EnvironmentFailed:
        """Return an error of one line for an exception, or a wrong result, of ``doing`` in ``where``."""
        if isinstance(error, MismatchedValue):
            return EnvironmentFailed(f"{self.env_id}: {where}: {doing} returned {error}")
        cannot_unpack = isinstance(error, ValueError | TypeError) and "unpack" in str(error)
        if doing in RETURNED and cannot_unpack:
            trace = error.__traceback__
            if trace is not None and trace.tb_next is None:
                # Not raised within the environment: it returned something else, as those for Gym 0.21 do.
                return EnvironmentFailed(f"{self.env_id}: {where}: {doing} must return {RETURNED[doing]} ({error})")
        return repeating(error, f"{self.env_id}: {where}: {doing} failed", EnvironmentFailed)


class InProcessEnvironment(GymnasiumEnvironment):
    """Environments with separate generators: environment i plays episode e with ``seeds(i, e)``.

    ``finder`` finds the environment's parameters; ``make_env`` creates an environment with other constructor
    arguments. ``observations`` says what becomes of single observations. ``afresh``: every :meth:`reset` but the first
    makes all environments again, because they have wrappers that may remember finished episodes; checkpoints end
    episodes with a reset, so that a resumed run, whose environments are new, continues equally.
    """

    vector: SyncVectorEnv
    _masks: MaskedEnvironments

    def __init__(
        self,
        env_id: str,
        behavior: str,
        vector: SyncVectorEnv,
        finder: WayFinder,
        make_env: Callable[[Mapping[str, Any]], Env],
        observations: Observations | None = None,
        afresh: bool = False,
    ) -> None:
        super().__init__(
            env_id,
            behavior,
            vector.num_envs,
            vector.single_observation_space,
            vector.single_action_space,
            observations,
            stacked_frames(vector.envs[0]),
        )
        self.vector = vector
        self._afresh = afresh
        self._played = False
        self._masks = MaskedEnvironments(self._acting, self._observing, vector.envs)
        self._steps = [env.step for env in vector.envs]
        self._observations = self._observing.buffers(self.num_envs)
        self._write = self._observing.row_writer(self._observations)
        # Written before the resets, because an environment may reuse the array that it returned.
        self._finals = self._observing.buffers(self.num_envs)  # the first K rows: of the episodes that ended last
        self._write_final = self._observing.row_writer(self._finals)
        self._rewards: list[Any] = [0.0] * self.num_envs
        self._any_ended = False
        self._spaces_unseeded = [True] * self.num_envs
        self._make_env = make_env
        self._finder = finder
        self._delivery: ParameterDelivery | None = None

    @property
    def delivery(self) -> ParameterDelivery:
        """The object that sets environment parameters; made for the first of them, because most runs have none."""
        if self._delivery is None:
            self._delivery = ParameterDelivery(self._finder, self.vector.envs, self._remake)
        return self._delivery

    def try_resets(self) -> None:
        """Have the promise of a resume say if the resets of the first environment do not repeat."""

        def reset(seed: int) -> Any:
            if self._afresh:  # its wrappers remember episodes, so a run makes it again where episodes are cut
                self._remake(0, {})
            env = self.vector.envs[0]
            seed_spaces(env, seed)
            start_afresh(env)
            return env.reset(seed=seed)[0]

        self.resume_limits, self.resume_notes = tried(reset, self.env_id)
        if self._afresh:  # wrappers may have counted these resets as finished episodes
            self._remake(0, {})

    def add_goal_rules(self, make: MakeEnv) -> None:
        """Give the behavior the rules of a goal environment, if this is one; ``make`` makes an environment for them."""
        rules = goal_rules(self.vector.envs[0], self._observing, make, self.env_id)
        spec = self.behaviors[self._behavior]
        self.behaviors = {self._behavior: attrs.evolve(spec, goal_rules=rules)}

    def require_parameters(self, names: Iterable[str]) -> None:
        self.delivery.require(names)

    def set_parameters(self, parameters: Parameters) -> None:
        self.delivery.set(parameters)

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self._begin(seeds, episodes)
        self._masks.forget()
        if self._afresh and self._played:
            for index in range(self.num_envs):
                arguments = {} if self._delivery is None else self._delivery.made_with[index]
                self._remake(index, arguments)
        self._played = True
        self._spaces_unseeded[:] = [True] * self.num_envs
        for index in range(self.num_envs):
            self._reset_env(index)
        return self._batch(self._observations)

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        index = 0
        write = self._write
        rewards = self._rewards
        masks = self._masks if self._acting.discrete else None
        ended: list[int] = []
        infos: list[Mapping[str, Any]] = []
        if self._any_ended:
            self._terminated[:] = False
            self._truncated[:] = False
        rows = self._acting.rows(actions[self._behavior])
        try:
            for index, (step, action) in enumerate(zip(self._steps, rows, strict=True)):
                observation, reward, terminated, truncated, info = step(action)
                if type(reward) not in NUMBERS:
                    refuse_wrong_reward(reward)
                if type(info) is not dict:
                    refuse_wrong_info(info)
                rewards[index] = reward
                # Most environments return Python's own False; other values are checked.
                if terminated is not False or truncated is not False:
                    terminated = flag(terminated, "terminated")
                    truncated = flag(truncated, "truncated")
                    if terminated or truncated:
                        # A terminal state has no next value to bootstrap from, time limit or not.
                        truncated = truncated and not terminated
                        self._terminated[index] = terminated
                        self._truncated[index] = truncated
                        self._write_final(len(ended), observation)
                        if masks is not None:
                            masks.read_final(len(ended), index, observation, info, truncated)
                        ended.append(index)
                        infos.append(info)
                        continue
                write(index, observation)
                if masks is not None:
                    masks.read(index, observation, info)
            self._reward[:] = rewards
            reported = final_info(infos, self.reported)
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failure(self._place(index), "step", error) from error
        self._any_ended = bool(ended)
        if not ended:
            return self._batch(self._observations)
        count = len(ended)
        final_observations = {name: array[:count] for name, array in self._finals.items()}
        for index in ended:
            self.episodes[index] += 1
            self._reset_env(index)
        return self._batch(
            self._observations,
            np.array(ended, np.intp),
            final_observations,
            final_action_mask=self._masks.final(count),
            final_info=reported,
        )

    def _reset_env(self, index: int) -> None:
        """Start the episode of an environment, and write its first observation and action mask."""
        seed = self._seeds(index, int(self.episodes[index]))
        try:
            options = {} if self._delivery is None else self._delivery.begin(index)
            more = {"options": options} if options else {}
            env = self.vector.envs[index]  # after the delivery, which may have replaced it
            if self._spaces_unseeded[index]:
                seed_spaces(env, seed)
                self._spaces_unseeded[index] = False
            start_afresh(env)
            observation, info = env.reset(seed=seed, **more)
            refuse_wrong_info(info)
            self._write(index, observation)
            if self._acting.discrete:
                self._masks.read(index, observation, info, first=True)
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failure(self._place(index), "reset", error) from error

    def _remake(self, index: int, arguments: Mapping[str, Any]) -> None:
        """Replace an environment by a new one with these constructor arguments."""
        outer = self.vector.envs[index]
        behind_camera(outer).close()
        env = self._make_env(arguments)
        for name in ("observation_space", "action_space"):
            expected = getattr(self.vector, f"single_{name}")
            space = getattr(env, name)
            if space != expected:
                env.close()
                settings = ", ".join(f"{argument}={value!r}" for argument, value in arguments.items())
                raise ConfigError(
                    f"{self.env_id}: made with {settings}, its {name.replace('_', ' ')} is {_in_one_line(space)} "
                    f"instead of {_in_one_line(expected)}; an environment parameter must leave what agents see and do "
                    "as it is"
                )
        if isinstance(outer, FilmedEpisodes):
            outer.env = env  # the video recorder stays, and completes its open film
        else:
            self.vector.envs[index] = env
        self._steps[index] = self.vector.envs[index].step
        self._spaces_unseeded[index] = True


def _in_one_line(space: spaces.Space[Any]) -> str:
    return " ".join(str(space).split())  # arrays have several
