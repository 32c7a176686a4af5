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
from rlcore_ghost.settings import OpponentSettings, RunOpponentSettings

__all__ = ["RandomPolicy", "create_opponents"]


def create_opponents(
    opponents: Mapping[str, OpponentSettings], behavior: BehaviorSpec, run: RunContext, key: tuple[str, ...]
) -> dict[str, Policy]:
    """Create the opponents of a block, by name, each a policy that plays for rows of ``behavior`` and never learns.

    ``key`` is the path of the block, such as ``("evaluation", "opponents")``. Raises ConfigError, with the key, for an
    opponent that cannot be created, and UnsupportedSpace for one that cannot play. An error in the policy, and actions
    that do not fit the behavior, are reported as errors of its plugin.
    """
    return {name: _create(name, settings, behavior, run, key) for name, settings in opponents.items()}


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
        problem = _problem(actions, self._behavior, len(next(iter(observations.values()))))
        if problem:
            raise PluginError(f"{self._described}: act returned {problem}")
        discrete = actions.discrete
        continuous = actions.continuous
        return Actions(
            None if continuous is None else continuous.astype(np.float32, copy=False),
            None if discrete is None else discrete.astype(np.int64, copy=False),
        )

    def seed(self, seed: int) -> None:
        """Seed the policy."""
        with blamed(self._described, "in seed"):
            self._policy.seed(seed)


def _problem(actions: object, behavior: BehaviorSpec, rows: int) -> str:
    """What is wrong with the actions of ``rows`` rows; empty if nothing is."""
    if not isinstance(actions, Actions):
        return f"a {type(actions).__name__} instead of Actions"
    parts = (
        ("continuous", actions.continuous, behavior.continuous, "fiu"),
        ("discrete", actions.discrete, len(behavior.discrete), "iu"),
    )
    for what, part, columns, kinds in parts:
        fits = isinstance(part, np.ndarray) and part.shape == (rows, columns) and part.dtype.kind in kinds
        if not fits and (columns or part is not None):
            found = f"{part.dtype}{list(part.shape)}" if isinstance(part, np.ndarray) else type(part).__name__
            wanted = f"an array [{rows}, {columns}] of {'numbers' if 'f' in kinds else 'integers'}"
            return f"{found} as {what} actions instead of {wanted if columns else 'None'}"
    if actions.continuous is not None and not np.isfinite(actions.continuous).all():
        return "continuous actions that are not finite"
    if actions.discrete is not None and not ((actions.discrete >= 0) & (actions.discrete < behavior.discrete)).all():
        return f"an option outside the branches {list(behavior.discrete)}"
    return ""


class RandomPolicy:
    """Draws each option of a branch that the mask allows with the same probability, and real parts within bounds.

    A real part without bounds is drawn from [-1, 1], one with a single bound from the 2 units beside it.
    ``deterministic`` has no effect.
    """

    def __init__(self, behavior: BehaviorSpec) -> None:
        low = np.where(
            np.isfinite(behavior.low), behavior.low, np.where(np.isfinite(behavior.high), behavior.high - 2, -1)
        )
        high = np.where(np.isfinite(behavior.high), behavior.high, low + 2)
        # [continuous]
        self._low = low.astype(np.float32)
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
            continuous = np.clip(self._low + drawn * (self._high - self._low), self._low, self._high)
        if self._branches:
            # The key of each option is uniform, and the largest one of a branch is chosen.
            keys = [self._generator.random((rows, options)) for options in self._branches]
            if action_mask is not None:
                masks = np.split(action_mask, np.cumsum(self._branches)[:-1], axis=1)
                keys = [np.where(mask, key, -1.0) for key, mask in zip(keys, masks, strict=True)]
            discrete = np.stack([key.argmax(axis=1) for key in keys], axis=1)
        return Actions(continuous, discrete)


def policy_of_run(settings: RunOpponentSettings, behavior: BehaviorSpec, run: RunContext) -> Policy:
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
    name = settings.behavior or (next(iter(specs)) if len(specs) == 1 else behavior.name)
    if name not in specs:
        problem = f"{settings.path} has no behavior {name!r}; it has {', '.join(specs)}{did_you_mean(name, specs)}"
        raise ConfigError(problem, key=("behavior",))
    mismatch = spec_mismatch(specs[name], behavior)
    if mismatch:
        problem = f"the policy {name!r} of {settings.path} cannot play for behavior {behavior.name!r}: {mismatch}"
        raise ConfigError(problem, key=("path",))
    return saved.policies({name: attrs.evolve(behavior, name=name)})[name]
