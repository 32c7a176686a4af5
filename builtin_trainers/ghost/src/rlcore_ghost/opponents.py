"""Opponents that never learn: create those of a block, check what plugins' opponents do, and the built-in ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    BehaviorSpec,
    ConfigError,
    PluginError,
    Plugins,
    Policy,
    PolicySource,
    RunContext,
    RunStateError,
    UnsupportedSpace,
    blamed,
    did_you_mean,
    dotted,
    spec_mismatch,
)
from rlcore_ghost.records import OpponentSpec
from rlcore_ghost.settings import EarlierOpponentSettings, OpponentSettings

__all__ = ["RandomPolicy", "create_opponents"]


def create_opponents(
    opponents: Mapping[str, OpponentSettings], behavior: BehaviorSpec, run: RunContext, key: tuple[str, ...]
) -> dict[str, Policy]:
    """Create the opponents of a block, by name, each a policy that plays for rows of ``behavior`` and never learns.

    ``key`` is the path of the block, such as ``("evaluation", "opponents")``. Raises ConfigError, with the key, for an
    opponent that cannot be created, and UnsupportedSpace for one that cannot play. An error in the policy, and actions
    that do not fit the behavior, are reported as errors of its plugin.
    """
    policies = {}
    for name, settings in opponents.items():
        policies[name] = _create(name, settings, behavior, run, key)
    return policies


def _create(
    name: str, settings: OpponentSettings, behavior: BehaviorSpec, run: RunContext, key: tuple[str, ...]
) -> Policy:
    try:
        spec = run.plugins.record(OpponentSpec, settings.type or name)
        policy: Policy = run.plugins.create(spec, settings=settings, behavior=behavior, run=run)
    except UnsupportedSpace as error:
        raise UnsupportedSpace(f"{dotted((*key, name))}: {error}") from error
    except ConfigError as error:
        raise ConfigError(error.message, key=(*key, name, *error.key)) from error
    if spec.plugin is not None and spec.plugin.distribution == "rlcore-ghost":
        return policy  # unchecked, so that a policy of a run stays one of its trainer
    return CheckedOpponent(policy, behavior, spec.described)


class CheckedOpponent:
    """A policy of a plugin. Its actions must have the shapes, and options, of ``behavior``.

    ``described`` is the opponent in messages.

    Attributes:
        memory_size: Numbers that a row remembers; 0 for a policy without memory.
    """

    def __init__(self, policy: Policy, behavior: BehaviorSpec, described: str) -> None:
        self.memory_size = int(getattr(policy, "memory_size", 0))
        self._policy = policy
        self._behavior = behavior
        self._described = described

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: Any = None,
        deterministic: bool = True,
        *memory: Any,
    ) -> Actions:
        """Actions of the policy, as int64 and float32; ``memory`` is that of a :class:`rlcore.MemoryPolicy`."""
        with blamed(self._described, "in act"):
            actions = self._policy.act(observations, action_mask, deterministic, *memory)
        rows = len(next(iter(observations.values())))
        problem = _problem(actions, self._behavior, rows)
        if problem:
            raise PluginError(f"{self._described}: act returned {problem}")
        continuous = actions.continuous
        if continuous is not None:
            continuous = continuous.astype(np.float32, copy=False)
        discrete = actions.discrete
        if discrete is not None:
            discrete = discrete.astype(np.int64, copy=False)
        return Actions(continuous, discrete)

    def seed(self, seed: int) -> None:
        """Seed the policy."""
        with blamed(self._described, "in seed"):
            self._policy.seed(seed)


def _problem(actions: object, behavior: BehaviorSpec, rows: int) -> str:
    """What is wrong with the actions of ``rows`` rows; empty if nothing is."""
    if not isinstance(actions, Actions):
        return f"a {type(actions).__name__} instead of Actions"
    continuous = actions.continuous
    discrete = actions.discrete
    problem = _array_problem("continuous", continuous, rows, behavior.continuous, "fiu")
    problem = problem or _array_problem("discrete", discrete, rows, len(behavior.discrete), "iu")
    if problem:
        return problem
    if continuous is not None and not np.isfinite(continuous).all():
        return "continuous actions that are not finite"
    if discrete is not None:
        allowed = (discrete >= 0) & (discrete < behavior.discrete)
        if not allowed.all():
            return f"an option outside the branches {list(behavior.discrete)}"
    return ""


def _array_problem(part: str, actions: object, rows: int, columns: int, kinds: str) -> str:
    """What is wrong with the shape or the type of one part of the actions; ``kinds`` are those of its numbers."""
    if actions is None and not columns:
        return ""
    found = type(actions).__name__
    if isinstance(actions, np.ndarray):
        if actions.shape == (rows, columns) and actions.dtype.kind in kinds:
            return ""
        found = f"{actions.dtype}{list(actions.shape)}"
    numbers = "numbers" if "f" in kinds else "integers"
    wanted = f"an array [{rows}, {columns}] of {numbers}" if columns else "None"
    return f"{found} as {part} actions instead of {wanted}"


class RandomPolicy:
    """Draws each option of a branch that the mask allows with the same probability, and real parts within bounds.

    A real part without bounds is drawn from [-1, 1], one with a single bound from the 2 units beside it.
    ``deterministic`` has no effect.
    """

    def __init__(self, behavior: BehaviorSpec) -> None:
        bounded_above = np.isfinite(behavior.high)
        default_low = np.where(bounded_above, behavior.high - 2, -1)
        low = np.where(np.isfinite(behavior.low), behavior.low, default_low)
        high = np.where(bounded_above, behavior.high, low + 2)
        self._low = low.astype(np.float32)  # [continuous]
        self._high = high.astype(np.float32)
        self._branches = behavior.discrete
        self._generator = np.random.default_rng(0)

    @classmethod
    def create(cls, settings: Any, behavior: BehaviorSpec, run: Any) -> RandomPolicy:
        """The policy for one behavior; ``settings`` has nothing but the type."""
        return cls(behavior)

    def seed(self, seed: int) -> None:
        """Seed the generator of all draws."""
        self._generator = np.random.default_rng(seed)

    def act(
        self, observations: Mapping[str, NDArray[Any]], action_mask: Any = None, deterministic: bool = True
    ) -> Actions:
        """Return actions for the observations [R, ...]. A row whose mask allows nothing takes option 0."""
        rows = len(next(iter(observations.values())))
        continuous = discrete = None
        if self._low.size:
            drawn = self._generator.random((rows, self._low.size), np.float32)
            span = self._high - self._low
            within = self._low + drawn * span
            continuous = np.clip(within, self._low, self._high)  # rounding may step over a bound
        if self._branches:
            # The key of each option is uniform, and the largest one of a branch is chosen.
            keys = [self._generator.random((rows, branch)) for branch in self._branches]
            if action_mask is not None:
                ends = np.cumsum(self._branches)
                masks = np.split(action_mask, ends[:-1], axis=1)
                # Below all draws, so a masked option is chosen only where all are masked.
                keys = [np.where(mask, key, -1.0) for key, mask in zip(keys, masks, strict=True)]
            options = [key.argmax(axis=1) for key in keys]
            discrete = np.stack(options, axis=1)
        return Actions(continuous, discrete)


def policy_of_run(settings: EarlierOpponentSettings, behavior: BehaviorSpec, run: RunContext) -> Policy:
    """The saved policy that ``settings`` name, for rows of ``behavior``.

    Raises ConfigError, with the key of ``settings`` that is wrong, if there is no such policy, and if it sees or does
    something else than the agents of ``behavior``. The plugins of ``run`` create the policy.
    """
    path = run.absolute(settings.path)
    if not path.exists():
        path = run.directory.parent / settings.path  # the id of a run beside this one
    key = "path"
    try:
        source = PolicySource.find(path)
        key = "checkpoint"
        saved = source.load(cast(Plugins, run.plugins), str(settings.checkpoint))
        specs = saved.specs
    except RunStateError as error:
        raise ConfigError(f"{settings.path}: there is no policy to play against: {error}", key=(key,)) from error
    name = settings.behavior
    if not name:
        only = len(specs) == 1
        name = next(iter(specs)) if only else behavior.name
    if name not in specs:
        hint = did_you_mean(name, specs)
        problem = f"{settings.path} has no behavior {name!r}; it has {', '.join(specs)}{hint}"
        raise ConfigError(problem, key=("behavior",))
    mismatch = spec_mismatch(specs[name], behavior)
    if mismatch:
        problem = f"the policy {name!r} of {settings.path} cannot play for behavior {behavior.name!r}: {mismatch}"
        raise ConfigError(problem, key=("path",))
    played = attrs.evolve(behavior, name=name)
    return saved.policies({name: played})[name]
