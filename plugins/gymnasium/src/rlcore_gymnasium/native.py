"""Environments that are stepped in one call (Gymnasium's ``vector_entry_point``).

Such an object has a single random generator. It is seeded once per ``reset``, with ``seeds(0, episodes.sum())``. Unlike
with separate environments, an episode then depends on the episodes that ended before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, EnvironmentFailed, EpisodeSeeds, RlcoreError
from rlcore_gymnasium.action_masks import Flags, MaskedBatches, Rows
from rlcore_gymnasium.episode_info import final_info_of_vector
from rlcore_gymnasium.in_process import GymnasiumEnvironment
from rlcore_gymnasium.repeated_resets import seed_spaces, tried
from rlcore_gymnasium.spaces import Buffers, Observations
from rlcore_gymnasium.spaces.values import REAL_KINDS, numbers, refuse_wrong_info

Episodes = NDArray[np.int64]
Batches = dict[str, AgentBatch]


class NativeEnvironment(GymnasiumEnvironment):
    """The base class of adapters from Gymnasium's autoreset modes to rlcore's same-step rule."""

    _masks: MaskedBatches

    def __init__(
        self, env_id: str, behavior: str, vector: VectorEnv[Any, Any, Any], observations: Observations | None = None
    ) -> None:
        space = vector.single_observation_space
        action_space = vector.single_action_space
        super().__init__(env_id, behavior, vector.num_envs, space, action_space, observations)
        self.vector = vector
        self._masks = MaskedBatches(self._acting, self._observing, vector)

    def try_resets(self) -> None:
        """Have the promise of a resume say if the resets of these environments do not repeat."""

        def reset(seed: int) -> Any:
            seed_spaces(self.vector, seed)
            observations, _ = self.vector.reset(seed=seed)
            return observations

        self.resume_limits, self.resume_notes = tried(reset, self.env_id)

    def reset(self, seeds: EpisodeSeeds, episodes: Episodes) -> Batches:
        self._begin(seeds, episodes)
        seed = seeds(0, int(self.episodes.sum()))
        everyone = np.arange(self.num_envs)
        try:
            seed_spaces(self.vector, seed)
            raw, info = self.vector.reset(seed=seed)
            refuse_wrong_info(info)
            self._masks.forget()
            self._masks.read(raw, info, everyone)
            observations = self._observing.convert(raw, self.num_envs)
            return self._batch(observations)
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            where = f"all {self.num_envs} environments"
            raise self._failure(where, "reset", error) from error

    def step(self, actions: Mapping[str, Actions]) -> Batches:
        try:
            action = self._acting.batch(actions[self._behavior])
            return self._step(action)
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            first = int(self.episodes.min())
            last = int(self.episodes.max())
            where = f"all {self.num_envs} environments, episodes {first} to {last}"
            raise self._failure(where, "step", error) from error

    def _step(self, action: Any) -> Batches:
        raise NotImplementedError

    def _stepped(self, action: Any) -> tuple[Any, Any]:
        """Step, store rewards and flags, and return observations and info. With both flags, an episode terminated."""
        observations, reward, terminated, truncated, info = self.vector.step(action)
        rows = self.num_envs
        self._reward[:] = numbers(reward, rows, "the reward", REAL_KINDS)
        self._terminated[:] = numbers(terminated, rows, "terminated", "b")
        late = numbers(truncated, rows, "truncated", "b")
        # An agent that reached a terminal state has no next value to bootstrap from, time limit or not.
        self._truncated[:] = late & ~self._terminated
        return observations, info


class SameStepEnvironment(NativeEnvironment):
    """Adapter for environments that start the next episode in the step that ends an episode, as rlcore does."""

    def _step(self, action: Any) -> Batches:
        observations, info = self._stepped(action)
        ended = np.flatnonzero(self._terminated | self._truncated)
        final: Buffers | None = None
        if ended.size:
            if "final_obs" not in info:
                raise EnvironmentFailed(f"{self.env_id}: resets itself in the same step but infos lack 'final_obs'")
            final = self._final_observations(info["final_obs"], ended)
            self.episodes[ended] += 1
        self._masks.read(observations, info, ended)
        # The rows of `info` itself are those of the next episodes already.
        final_info = info.get("final_info")
        current = self._observing.convert(observations, self.num_envs)
        final_mask = self._masks.read_final(info.get("final_obs"), final_info, ended)
        reported = final_info_of_vector(final_info, ended, self.reported)
        return self._batch(current, ended, final, final_action_mask=final_mask, final_info=reported)

    def _final_observations(self, final: Any, ended: Rows) -> Buffers:
        # Vectorized forms differ in how they collect them.
        if isinstance(final, Mapping):  # a Dict observation, stacked by key
            by_key = {key: _stack(values, ended) for key, values in final.items()}
            return self._observing.convert(by_key)
        first = self._observing.parts[0]
        if first.key is not None:  # one mapping or tuple per ended row
            return self._observing.stack(final[row] for row in ended)
        stacked = _stack(final, ended)
        return self._observing.convert(stacked)


class ManualResetEnvironment(NativeEnvironment):
    """Adapter for environments that never reset by themselves: the ended environments are reset with a mask."""

    def _step(self, action: Any) -> Batches:
        observations, info = self._stepped(action)
        has_ended = self._terminated | self._truncated
        ended = np.flatnonzero(has_ended)
        # Masks at final observations are read apart: no action follows them, so all may be forbidden there.
        self._masks.read(observations, info, self._none, ~has_ended)
        final_mask = self._masks.read_final(observations, info, ended)
        final_info = final_info_of_vector(info, ended, self.reported)
        current = self._observing.convert(observations, self.num_envs)
        final: Buffers | None = None
        if ended.size:
            final = {name: array[ended] for name, array in current.items()}  # copies, before the reset
            observations, info = self.vector.reset(options={"reset_mask": has_ended})
            self._masks.read(observations, info, ended, has_ended)
            self.episodes[ended] += 1
            current = self._observing.convert(observations, self.num_envs)
        return self._batch(current, ended, final, final_action_mask=final_mask, final_info=final_info)


class NextStepEnvironment(NativeEnvironment):
    """Adapter for environments that use one more step for each reset, and ignore the action of that step.

    The end of an episode is reported one step late, when the first observation of the next episode exists. Until then
    the row shows the final observation with ``needs_action`` unset, and its last reward is held back. No transition
    crosses the boundary of the episode, and none contains the ignored action.
    """

    def __init__(
        self, env_id: str, behavior: str, vector: VectorEnv[Any, Any, Any], observations: Observations | None = None
    ) -> None:
        super().__init__(env_id, behavior, vector, observations)
        self._waiting: Flags = np.zeros(self.num_envs, np.bool_)  # [N] ended, not reset yet
        self._held_terminated = np.zeros(self.num_envs, np.bool_)  # [N]
        self._held_reward = np.zeros(self.num_envs, np.float32)  # [N]
        self._held_final = self._observing.buffers(self.num_envs)
        self._held_info: dict[str, NDArray[np.float64]] = {}  # [N] by name
        options = sum(self._acting.discrete)
        self._held_mask = np.ones((self.num_envs, options), np.bool_)

    def reset(self, seeds: EpisodeSeeds, episodes: Episodes) -> Batches:
        self._waiting[:] = False
        return super().reset(seeds, episodes)

    def _step(self, action: Any) -> Batches:
        raw, info = self._stepped(action)
        observations = self._observing.convert(raw, self.num_envs)
        has_ended = self._terminated | self._truncated
        late = np.flatnonzero(has_ended)  # their ends are reported by the next step
        ended = np.flatnonzero(self._waiting)  # they were reset in this step
        self.episodes[ended] += 1
        # What is held is read before it is overwritten: an environment may end again in the step after its reset.
        final = self._held(ended) if ended.size else {}
        reward = np.where(self._waiting, self._held_reward, self._reward)
        self._held_reward[late] = self._reward[late]
        self._reward[:] = np.where(has_ended, 0.0, reward)
        terminated = self._waiting & self._held_terminated
        self._held_terminated[late] = self._terminated[late]
        self._terminated[:] = terminated
        self._truncated[:] = self._waiting & ~terminated
        self._hold(late, observations, info)
        self._waiting = has_ended
        self._masks.read(raw, info, ended, ~has_ended)
        mask = self._masks.read_final(raw, info, late)
        if mask is not None:
            self._held_mask[late] = mask
        needs_action = ~has_ended if late.size else None
        return self._batch(observations, ended, needs_action=needs_action, **final)

    def _held(self, rows: Rows) -> dict[str, Any]:
        """Return the entries of a batch for the episodes that ended in ``rows`` [K] one step ago."""
        observations = {name: array[rows] for name, array in self._held_final.items()}
        info = {name: array[rows] for name, array in self._held_info.items()}
        entries: dict[str, Any] = {"final_observations": observations}
        entries["final_info"] = info or None
        if self._masks.allowed is not None:
            entries["final_action_mask"] = self._held_mask[rows]
        return entries

    def _hold(self, rows: Rows, observations: Mapping[str, NDArray[Any]], info: Any) -> None:
        """Keep the final observations and numbers of the episodes that ended in ``rows`` [K] for the next step."""
        for name, array in self._held_final.items():
            array[rows] = observations[name][rows]
        for array in self._held_info.values():
            array[rows] = np.nan  # an episode need not report what an earlier one did
        reported = final_info_of_vector(info, rows, self.reported) or {}
        for name, column in reported.items():
            nothing = np.full(self.num_envs, np.nan)
            held = self._held_info.setdefault(name, nothing)
            held[rows] = column


ADAPTERS: Mapping[AutoresetMode, type[NativeEnvironment]] = {
    AutoresetMode.SAME_STEP: SameStepEnvironment,
    AutoresetMode.DISABLED: ManualResetEnvironment,
    AutoresetMode.NEXT_STEP: NextStepEnvironment,
}


def _stack(values: Any, rows: Rows) -> NDArray[Any]:
    """Return the chosen rows as one array; Gymnasium collects them in an array of objects."""
    chosen = [np.asarray(values[row]) for row in rows]
    return np.stack(chosen)
