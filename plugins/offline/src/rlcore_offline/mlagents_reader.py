"""Demonstrations of ML-Agents as recordings.

Each step in a file has the observation of an agent, the reward since the step before, and an action. Which action it
is, and whose observation the last step of an episode has, depends on the ML-Agents that recorded:

- Since 2019, Unity writes the action that *led to* the observation. The action chosen at an observation is in the next
  step. ML-Agents' own loader takes the one beside the observation, which is one decision too early.
- In files that were converted from older formats, the action beside an observation was chosen at it, and the last step
  of the file has none. rlcore writes such files: they are those that ML-Agents' loader reads right.
- Before ML-Agents 0.14, the step that ends an episode has the first observation of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, ConfigError, ObservationSpec, Recording
from rlcore_offline.containment import MAX_OPTIONS, MAX_SIZE
from rlcore_offline.mlagents_file import DemonstrationFile
from rlcore_torch import require_memory
from rlcore_unity.mlagents_messages import DamagedObservation, Sensor, sensors_of

TEAM = "?team="  # in names of behaviors since ML-Agents 0.14
_CONTINUOUS = 1  # the old description's type of action; 0 is discrete


@attrs.frozen(eq=False)
class Description:
    """The observations and actions of a file's agents."""

    sensors: tuple[Sensor, ...]
    behavior: BehaviorSpec

    @classmethod
    def of(cls, file: DemonstrationFile, name: str) -> Description:
        """Read the description of the behavior, and the first step; ConfigError for an impossible one."""
        first = next(file.pairs())
        try:
            sensors = sensors_of(first.agent_info.observations)
        except DamagedObservation as error:
            file.refuse(f"an observation of step 0 {error}")
        if not sensors:
            file.refuse("its agents see nothing")
        continuous, branches = _actions_of(file)
        bound = np.ones(continuous, np.float32)
        specs = [ObservationSpec(s.name, s.shape, np.float32, s.kind, goal=s.goal) for s in sensors]
        return cls(sensors, BehaviorSpec(name, tuple(specs), continuous, branches, -bound, bound))

    def fits(self, other: Description) -> bool:
        layouts = []
        for behavior in (self.behavior, other.behavior):
            shapes = [spec.shape for spec in behavior.observations]
            layouts.append((behavior.continuous, behavior.discrete, shapes))
        return layouts[0] == layouts[1]


def describe(paths: Sequence[Path], name: str) -> BehaviorSpec:
    """The behavior of the first file."""
    return Description.of(DemonstrationFile(paths[0]), name).behavior


def read_demonstrations(paths: Sequence[Path], name: str) -> Recording:
    """All episodes of the files as one recording. Raises ConfigError for files of several behaviors."""
    parts: list[Recording] = []
    first: Description | None = None
    for path in paths:
        file = DemonstrationFile(path)
        description = Description.of(file, name)
        first = first or description
        if not first.fits(description):
            file.refuse(
                f"its agents see or do something else than those of {paths[0]}; keep the demonstrations of each "
                "behavior in a directory of their own"
            )
        part = _Steps(file, first).recording()
        if part is not None:
            parts.append(part)
    if not parts:
        raise ConfigError(f"demonstration {paths[0]}: no action in it has an outcome; record at least two steps")
    return parts[0] if len(parts) == 1 else Recording.joined(parts)


def _actions_of(file: DemonstrationFile) -> tuple[int, tuple[int, ...]]:
    """The number of continuous parts and the options of each branch."""
    spec = file.brain.action_spec
    continuous = spec.num_continuous_actions
    branches = tuple(spec.discrete_branch_sizes)
    if not continuous and not branches:  # before ML-Agents' communicator 1.3: one kind of actions
        sizes = tuple(file.brain.vector_action_size_deprecated)
        if file.brain.vector_action_space_type_deprecated == _CONTINUOUS:
            continuous = sum(sizes)
            branches = ()
        else:
            branches = sizes
    options = sum(branches)
    if continuous + options < 1 or not 0 <= continuous <= MAX_SIZE or min(branches, default=1) < 1:
        file.refuse(f"describes impossible actions: {continuous} continuous ones and branches of {list(branches)}")
    if options > MAX_OPTIONS:
        file.refuse(f"describes {options:,} options of actions, more than {MAX_OPTIONS:,}")
    return continuous, branches


class _Steps:
    """The P steps of one file.

    Attributes:
        legacy: The step that ends an episode begins the next one.
        own_actions: The action beside an observation was chosen at it.
        mask: [P, mask_size] what is allowed; None: everything.
        reward: [P] since the step before.
        interrupted: [P] ended by the limit of steps.
        agent: [P] number of the agent, or of its episode.
    """

    def __init__(self, file: DemonstrationFile, description: Description) -> None:
        count = file.steps
        behavior = description.behavior
        require_memory(behavior, count, what=f"demonstration {file.path}")
        self.behavior = behavior
        self.observations = {o.name: np.empty((count, *o.shape), np.float32) for o in behavior.observations}
        self.continuous = np.zeros((count, behavior.continuous), np.float32)
        self.discrete = np.zeros((count, len(behavior.discrete)), np.int64)
        self.mask: NDArray[np.bool_] | None = None
        self.reward = np.empty(count, np.float32)
        self.done = np.zeros(count, np.bool_)
        self.interrupted = np.zeros(count, np.bool_)
        acted = np.zeros(count, np.bool_)
        self.agent = np.empty(count, np.int64)
        for row, pair in enumerate(file.pairs()):
            self._see(file, description.sensors, row, pair.agent_info)
            acted[row] = self._act(file, row, pair.action_info)
        # ML-Agents that recorded so numbered agents by Unity's instances, which are never 0; later ones have a number
        # for each episode.
        one_agent = (self.agent == self.agent[0]).all() and self.agent[0] != 0
        self.legacy = TEAM not in file.brain.brain_name and bool(one_agent)
        self.own_actions = not acted[-1]
        needed = self._acting(self._links())
        missing = needed[~acted[needed]]
        if len(missing):
            file.refuse(f"step {int(missing[0])} has no action")

    def _see(self, file: DemonstrationFile, sensors: Sequence[Sensor], row: int, info: Any) -> None:
        for sensor in sensors:
            if sensor.place >= len(info.observations):
                file.refuse(f"step {row} has {len(info.observations)} observations where step 0 has more")
            try:
                self.observations[sensor.name][row] = sensor.array(info.observations[sensor.place])
            except DamagedObservation as error:
                file.refuse(f"observation {sensor.place} of step {row} {error}")
        self.reward[row] = info.reward
        self.agent[row] = info.id
        self.done[row] = info.done
        self.interrupted[row] = info.done and info.max_step_reached
        if info.action_mask and self.behavior.discrete:
            if len(info.action_mask) != self.behavior.mask_size:
                file.refuse(
                    f"step {row} has an action mask of {len(info.action_mask)} options instead of "
                    f"{self.behavior.mask_size}"
                )
            if self.mask is None:
                self.mask = np.ones((len(self.reward), self.behavior.mask_size), np.bool_)
            self.mask[row] = ~np.array(info.action_mask, np.bool_)  # ML-Agents lists what is forbidden

    def _act(self, file: DemonstrationFile, row: int, action: Any) -> bool:
        """Keep the action of a step; whether there is one."""
        continuous: Sequence[float] = action.continuous_actions
        discrete: Sequence[float] = action.discrete_actions
        if not continuous and not discrete:
            if not action.vector_actions_deprecated:
                return False
            if self.behavior.continuous:
                continuous = action.vector_actions_deprecated
            else:
                discrete = action.vector_actions_deprecated
        parts = self.behavior.continuous
        branches = len(self.behavior.discrete)
        if len(continuous) != parts or len(discrete) != branches:
            file.refuse(
                f"step {row} has {len(continuous)} continuous and {len(discrete)} discrete actions instead of "
                f"{parts} and {branches}"
            )
        chosen = np.array(discrete, np.float64)
        if ((chosen < 0) | (chosen >= self.behavior.discrete) | (chosen % 1 != 0)).any():
            file.refuse(f"step {row} has the discrete actions {list(discrete)}, outside {list(self.behavior.discrete)}")
        self.continuous[row] = continuous
        self.discrete[row] = chosen
        return True

    def _links(self) -> NDArray[np.bool_]:
        """Whether each step but the last is followed by what its own action led to, [P - 1]."""
        same: NDArray[np.bool_] = self.agent[1:] == self.agent[:-1]
        return same if self.legacy else same & ~self.done[:-1]

    def _acting(self, links: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The step that has the action of each transition, [N]."""
        return np.flatnonzero(links) + (not self.own_actions)

    def recording(self) -> Recording | None:
        """The episodes; None if no action has an outcome."""
        links = self._links()
        before = np.flatnonzero(links)  # [N] the steps at which the actions were chosen
        if not len(before):
            return None
        acting = self._acting(links)
        after = before + 1
        ended = self.done[after]
        follows = np.append(links[1:], False)[before]
        last = ended | ~follows  # [N] nothing of the episode follows
        terminated = ended & ~self.interrupted[after]
        ends = np.flatnonzero(last)
        lengths = np.diff(ends, prepend=-1)
        # An observation for each transition, and after each episode the one that it led to.
        unknown = ended[ends] & self.legacy  # it is that of the next episode: the last one stands there again
        final = before[ends] + (1 - unknown)
        rows = np.insert(before, ends + 1, final)
        discrete = self.discrete[acting] if self.behavior.discrete else None
        mask = None if self.mask is None else self.mask[rows]
        if mask is not None and discrete is not None:
            # Unity lets players do what it forbids agents. What was done was possible.
            offsets = np.cumsum((0, *self.behavior.discrete[:-1]))
            # Each episode before a transition has one observation more than transitions.
            episodes = np.repeat(np.arange(len(ends)), lengths)
            positions = np.arange(len(before)) + episodes  # [N] in `rows`
            mask[positions[:, None], discrete + offsets] = True
        return Recording(
            self.behavior,
            {name: array[rows] for name, array in self.observations.items()},
            Actions(self.continuous[acting] if self.behavior.continuous else None, discrete),
            self.reward[after],
            terminated,
            last & ~terminated,
            lengths,
            mask,
            nameless=True,
        )
