"""The arrays of one environment step: the actions of all slots, and what their agents receive.

Shapes: S slots, K rows whose episode ended in this step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray


@attrs.define(eq=False)
class Actions:
    """The next action of every slot. Rows that need no action are present and ignored.

    Attributes:
        continuous: [S, continuous] real parts in the environment's own units; None if the behavior has none.
        discrete: [S, branches] index of the chosen option of each branch, from 0; None if the behavior has no branches.
    """

    continuous: NDArray[np.float32] | None = None
    discrete: NDArray[np.int64] | None = None

    def take(self, slots: NDArray[np.integer[Any]]) -> Actions:
        """Return the actions of these ``slots`` [R], in this order, as copies."""
        continuous = None if self.continuous is None else self.continuous[slots]
        discrete = None if self.discrete is None else self.discrete[slots]
        return Actions(continuous, discrete)

    @classmethod
    def joined(cls, parts: Iterable[tuple[NDArray[np.integer[Any]], Actions]]) -> Actions:
        """Join the actions of S slots from ``parts``, each with its slots and their actions.

        Every slot is in exactly one part: together the parts have the slots 0 to S - 1.
        """
        parts = list(parts)
        count = sum(len(slots) for slots, _ in parts)
        arrays: dict[str, NDArray[Any]] = {}
        for name in ("continuous", "discrete"):
            for slots, actions in parts:
                rows = getattr(actions, name)
                if rows is None:
                    continue
                if name not in arrays:
                    arrays[name] = np.empty((count, *rows.shape[1:]), rows.dtype)
                arrays[name][slots] = rows
        return cls(**arrays)


@attrs.define(eq=False)
class AgentBatch:
    """The data that the agents of one behavior receive after one environment step, for S slots.

    Same-step autoreset: where ``terminated`` or ``truncated`` is set, the row of ``observations`` already holds the
    first observation of the next episode, and ``final_observations`` has the last one of the ended episode. An agent
    whose episode ends before those of others in its environment may wait for them: it needs no action, its observation
    is any valid one, and its flags are set only in the step in which its episode ended.

    A slot whose transition stays open gets no reward: rlcore takes a reward when the transition closes, which is when
    the agent acts next or its episode ends. The environment adds up what the agent gets until then.

    The arrays belong to the environment and are valid until its next ``step`` or ``reset``: copy what is to be kept.

    Attributes:
        observations: Observations by name, each [S, *shape].
        reward: [S] sum of the rewards since the slot's last action; 0 in rows outside ``transition_closed``.
        terminated: [S] the episode ended by the task's own rule; its last transition has no next value.
        truncated: [S] the episode was cut off, for example by a time limit: bootstrap from its final observation.
        ended: [K] rows whose episode ended, ascending. Computed from ``terminated`` and ``truncated`` if not given.
        final_observations: The last observation of each ended episode by name, each [K, *shape], rows in the order of
            ``ended``; None only if no episode ended.
        group_reward: [S] sum of the rewards of the slot's group since its last action; None: no rewards are shared.
        needs_action: [S] whether the slot acts next; None: every slot does.
        action_mask: [S, mask_size] whether each option of each discrete branch is allowed, branches side by side; None:
            every option is.
        aborted: [S] the environment was lost: the open episode is dropped, and neither terminated nor truncated; None:
            none was lost.
        final_info: Numbers that the environment reports of each ended episode by name, such as the result of a game,
            each [K], rows in the order of ``ended``; NaN for an agent without this number. None: it reports none.
        final_action_mask: [K, mask_size] whether each option is allowed at the final observation of each ended episode,
            rows in the order of ``ended``: after a time limit, trainers value what the agent could do there. A branch
            without any allowed option is wrong here too. None: every option is.
        life_lost: [S] the agent lost a life and its episode goes on; False where an episode ended. What is reported is
            of the whole episode, and trainers that know the field learn as if it had terminated here. None: nothing was
            lost.
    """

    observations: dict[str, NDArray[Any]]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    ended: NDArray[np.intp] = attrs.field()
    final_observations: dict[str, NDArray[Any]] | None = None
    group_reward: NDArray[np.float32] | None = None
    needs_action: NDArray[np.bool_] | None = None
    action_mask: NDArray[np.bool_] | None = None
    aborted: NDArray[np.bool_] | None = None
    final_info: dict[str, NDArray[np.float64]] | None = None
    final_action_mask: NDArray[np.bool_] | None = None
    life_lost: NDArray[np.bool_] | None = None

    @ended.default
    def _ended(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.terminated | self.truncated)

    @property
    def transition_closed(self) -> NDArray[np.bool_] | None:
        """Rows [S] whose transition closed in this step: the agent acts next, or its episode ended. None: all rows."""
        if self.needs_action is None:
            return None
        return self.needs_action | self.terminated | self.truncated

    def take(self, slots: NDArray[np.integer[Any]]) -> AgentBatch:
        """Return the batch of these ``slots`` [R] alone, in this order, as copies: what R agents receive."""
        terminated = self.terminated[slots]
        truncated = self.truncated[slots]
        ended = np.flatnonzero(terminated | truncated)
        arrays: dict[str, Any] = {}
        for name in ("group_reward", "needs_action", "action_mask", "aborted", "life_lost"):
            array = getattr(self, name)
            if array is not None:
                arrays[name] = array[slots]
        if ended.size:
            # `self.ended` is ascending: the place of a slot in it is the slot's row in all final arrays.
            rows = np.searchsorted(self.ended, slots[ended])
            for name in ("final_observations", "final_info"):
                finals = getattr(self, name)
                if finals is not None:
                    arrays[name] = _rows_of(finals, rows)
            if self.final_action_mask is not None:
                arrays["final_action_mask"] = self.final_action_mask[rows]
        observations = _rows_of(self.observations, slots)
        reward = self.reward[slots]
        return AgentBatch(observations, reward, terminated, truncated, ended, **arrays)


def _rows_of(arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.integer[Any]]) -> dict[str, NDArray[Any]]:
    return {name: array[rows] for name, array in arrays.items()}
