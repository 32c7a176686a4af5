"""Checks opponents of plugins: an error names the plugin, and wrong actions do not reach the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions, BehaviorSpec
from rlcore.contracts.policy import MemoryPolicy, Policy
from rlcore.errors import PluginError

Blame = Callable[[str, str, BaseException], NoReturn]


class CheckedOpponent:
    """A policy of a plugin. Its actions must have the shapes, and options, of ``behavior``.

    ``described`` is the opponent in messages, and ``blame`` raises the error of an opponent that failed, as
    :func:`rlcore.blame` does.

    Attributes:
        memory_size: Numbers that a row remembers; 0 for a policy without memory.
    """

    def __init__(self, policy: Policy, behavior: BehaviorSpec, described: str, blame: Blame) -> None:
        self.memory_size = int(getattr(policy, "memory_size", 0))
        self._policy = policy
        self._behavior = behavior
        self._described = described
        self._blame = blame

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
        memory: NDArray[np.float32] | None = None,
    ) -> Actions:
        """Actions of the policy, as int64 and float32."""
        try:
            if self.memory_size:
                policy = cast(MemoryPolicy, self._policy)
                actions = policy.act(observations, action_mask, deterministic, memory)
            else:
                actions = self._policy.act(observations, action_mask, deterministic)
        except (Exception, SystemExit) as error:
            self._blame(self._described, "in act", error)
        problem = _problem(actions, self._behavior, len(next(iter(observations.values()))))
        if problem:
            raise PluginError(f"{self._described}: act returned {problem}")
        discrete, continuous = actions.discrete, actions.continuous
        return Actions(
            None if continuous is None else continuous.astype(np.float32, copy=False),
            None if discrete is None else discrete.astype(np.int64, copy=False),
        )

    def seed(self, seed: int) -> None:
        """Seed the policy."""
        try:
            self._policy.seed(seed)
        except (Exception, SystemExit) as error:
            self._blame(self._described, "in seed", error)


def _problem(actions: object, behavior: BehaviorSpec, rows: int) -> str:
    """What is wrong with the actions of ``rows`` rows; empty if nothing is."""
    if not isinstance(actions, Actions):
        return f"a {type(actions).__name__} instead of Actions"
    parts = (
        ("continuous", actions.continuous, behavior.continuous, "fiu"),
        ("discrete", actions.discrete, len(behavior.discrete), "iu"),
    )
    for what, part, columns, kinds in parts:
        if not columns:
            if part is not None:
                return f"{what} actions, which behavior {behavior.name!r} does not have"
        elif not isinstance(part, np.ndarray) or part.shape != (rows, columns) or part.dtype.kind not in kinds:
            found = f"{part.dtype}{list(part.shape)}" if isinstance(part, np.ndarray) else type(part).__name__
            wanted = "numbers" if "f" in kinds else "integers"
            return f"{found} as {what} actions instead of an array [{rows}, {columns}] of {wanted}"
    if actions.continuous is not None and not np.isfinite(actions.continuous).all():
        return "continuous actions that are not finite"
    if actions.discrete is not None and not ((actions.discrete >= 0) & (actions.discrete < behavior.discrete)).all():
        return f"an option outside the branches {list(behavior.discrete)}"
    return ""
