"""The common base of in-process and natively vectorized environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BehaviorSpec,
    EnvironmentFailed,
    EpisodeSeeds,
    Parameters,
    RlcoreError,
    refuse_unknown_parameters,
    repeating,
)
from rlcore_gymnasium.spaces import ActionCodec, MismatchedValue, ObservationCodec

ACTION_MASK = "action_mask"  # the info entry in which environments such as Taxi list allowed actions

RETURNED = {"reset": "(observation, info)", "step": "(observation, reward, terminated, truncated, info)"}


class GymnasiumEnvironment:
    """N environments with one registered id, with one behavior and one agent per environment."""

    vector: Any  # a gymnasium.vector.VectorEnv, used differently by each subclass

    def __init__(
        self,
        env_id: str,
        behavior: str,
        num_envs: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
    ) -> None:
        self.env_id = env_id
        self.num_envs = num_envs
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        self._behavior = behavior
        self._observing = ObservationCodec.of(observation_space, env_id)
        self._acting = ActionCodec.of(action_space, env_id)
        low, high = self._acting.bounds()
        self.behaviors: Mapping[str, BehaviorSpec] = {
            behavior: BehaviorSpec(
                name=behavior,
                observations=self._observing.specs,
                continuous=len(low),
                discrete=self._acting.discrete,
                low=low,
                high=high,
                env_index=np.arange(num_envs),
            )
        }
        self._seeds = EpisodeSeeds(0)
        # Reused at every step; the contract allows changes at the next step.
        self._reward: NDArray[np.float32] = np.zeros(num_envs, np.float32)  # [N]
        self._terminated: NDArray[np.bool_] = np.zeros(num_envs, np.bool_)  # [N]
        self._truncated: NDArray[np.bool_] = np.zeros(num_envs, np.bool_)  # [N]
        self._mask: NDArray[np.bool_] | None = None  # [N, options] if the environment returns masks
        self._nobody: NDArray[np.intp] = np.empty(0, np.intp)

    def require_parameters(self, names: Iterable[str]) -> None:
        """Raise ConfigError unless the environment has all of these parameters."""
        refuse_unknown_parameters(names, (), self.env_id)

    def set_parameters(self, parameters: Parameters) -> None:
        self.require_parameters(parameters)

    def close(self) -> None:
        try:
            self.vector.close()
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failure(f"all {self.num_envs} environments", "close", error) from error

    def _begin(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> None:
        self._seeds = seeds
        self.episodes = np.array(episodes, np.int64)
        self._reward[:] = 0.0
        self._terminated[:] = False
        self._truncated[:] = False

    def _first_batch(self, observations: dict[str, NDArray[Any]]) -> dict[str, AgentBatch]:
        return {
            self._behavior: AgentBatch(
                observations, self._reward, self._terminated, self._truncated, self._nobody, action_mask=self._mask
            )
        }

    def _place(self, index: int) -> str:
        """An environment, by its number in the run, and its episode."""
        return f"environment {self._seeds.first_env + index}, episode {self.episodes[index]}"

    def _failure(self, where: str, doing: str, error: BaseException) -> EnvironmentFailed:
        """Return an error of one line for an exception, or a wrong result, of ``doing`` in ``where``."""
        if isinstance(error, MismatchedValue):
            return EnvironmentFailed(f"{self.env_id}: {where}: {doing} returned {error}")
        if doing in RETURNED and isinstance(error, ValueError | TypeError) and "unpack" in str(error):
            own = error.__traceback__ is not None and error.__traceback__.tb_next is None
            if own:  # not raised within the environment: it returned something else
                return EnvironmentFailed(f"{self.env_id}: {where}: {doing} must return {RETURNED[doing]} ({error})")
        return repeating(error, f"{self.env_id}: {where}: {doing} failed", EnvironmentFailed)
