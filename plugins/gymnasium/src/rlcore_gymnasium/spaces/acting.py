"""Act with a trained policy in an environment of Gymnasium, in the values of its spaces."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rlcore import BehaviorSpec, spec_mismatch
from rlcore_gymnasium.saved_wrappers import stacked_frames
from rlcore_gymnasium.spaces.actions import ActionCodec
from rlcore_gymnasium.spaces.codecs import ACTION_MASK, ObservationCodec, Observations, entries


class PolicyInSpaces:
    """A policy that reads observations and returns actions as one environment has them.

    A policy itself reads rows of arrays, in which a Discrete is an indicator and an image has its channels last, and
    counts options from 0. An environment in a run has an adapter in between, and so does this class::

        policy = PolicyInSpaces(load_policies("results/taxi")["Taxi"], environment)
        observation, info = environment.reset(seed=1)
        policy.reset()
        action = policy.act(observation, info.get("action_mask"))

    It reads the policies of :func:`rlcore.load_policies` and of ``rlcore_onnx.runtime.load``, and keeps the memory of a
    policy with memory from step to step.

    Attributes:
        policy: The policy.
    """

    def __init__(self, policy: Any, env: gymnasium.Env[Any, Any], observations: Observations | None = None) -> None:
        """``env`` has the spaces that the policy was trained with. It is not stepped.

        ``observations`` is what ``environment.observations`` of the run said. Observations that the policy does not
        read need no entry. Raises ValueError if the spaces are others.
        """
        self.policy = policy
        behavior: BehaviorSpec = policy.behavior
        space = env.observation_space
        configured = dict(observations or {})
        if isinstance(space, spaces.Dict | spaces.Tuple):
            read = {spec.name for spec in behavior.observations}
            present = entries(space).keys()
            unread = present - read - {ACTION_MASK}
            configured |= dict.fromkeys(unread, "ignore")
        where = "the environment"
        frames = stacked_frames(env)
        self._acting = ActionCodec.of(env.action_space, where)
        self._observing = ObservationCodec.of(space, where, configured, self._acting, frames)
        playable = self._acting.behavior(behavior.name, self._observing.specs, behavior.env_index)
        problem = spec_mismatch(behavior, playable)
        if problem:
            raise ValueError(f"the spaces are not those that the policy learned in: {problem}")
        self._memory_size: int = getattr(policy, "memory_size", 0)
        self.reset()

    def reset(self) -> None:
        """Forget what a policy with memory remembers: an episode begins."""
        self._memory = np.zeros((1, self._memory_size), np.float32)

    def act(self, observation: Any, action_mask: Any = None, deterministic: bool = True) -> Any:
        """Return an action of the environment's space for its ``observation``.

        ``action_mask`` has any form that :meth:`ActionCodec.mask` reads; None is the entry ``action_mask`` of the
        observation, if that is a mask, and otherwise allows everything. Raises
        :class:`~rlcore_gymnasium.spaces.MismatchedValue` for values outside the space.
        """
        rows = self._observing.stack([observation])
        if action_mask is None and self._observing.has_mask:
            action_mask = observation[ACTION_MASK]
        mask = None
        if action_mask is not None:
            mask = self._acting.mask(action_mask)[None]
        # Only a policy with memory has the argument; its `act` overwrites the array with what it remembers next.
        memory = {"memory": self._memory} if self._memory_size else {}
        actions = self.policy.act(rows, mask, deterministic, **memory)
        [action] = self._acting.rows(actions)
        return action
