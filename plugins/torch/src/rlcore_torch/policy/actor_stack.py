"""Frozen policies of one shape that act together: their rows pass through all networks at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, derive_generator
from rlcore_torch.networks.actions import ActionLayout, gumbel_noise, masked
from rlcore_torch.networks.networks import Actor
from rlcore_torch.policy.row_groups import RowGroups
from rlcore_torch.policy.stacked_actors import StackedActors, StackedDistributions, StackedNumpyActors

FloatArray = NDArray[np.float32]
Outputs = tuple[FloatArray | None, FloatArray | None]  # columns of the continuous parts and logits

# The largest difference from the policy's own output, as a share of the largest one. On a GPU, convolutions round
# their inputs to TF32, about 5e-4.
AGREEMENT = 5e-3


class ActorStack:
    """Copies of the weights of policies of one kind, each at a place; for ``PolicyMix`` of rlcore-ghost.

    Attributes:
        memory_size: M, the numbers that a row remembers; 0 without memory.
    """

    def __init__(self, policy: Any, device: torch.device, numpy_actor: bool, numpy_draws: bool) -> None:
        """Make an empty stack for policies of the kind of ``policy``, an :class:`rlcore_torch.ActorSnapshot`.

        ``numpy_actor`` and ``numpy_draws`` say whether the network and the distribution of ``policy`` compute in NumPy.
        ``device`` is the device of the stacked weights otherwise.
        """
        model, distribution = policy.model, policy.model.policy_head.distribution
        self.memory_size = model.memory_size
        self._kind = policy.stack_kind
        self._layout: ActionLayout = policy.layout
        self._noise_size = model.policy_head.noise_size
        self._networks = StackedNumpyActors(model) if numpy_actor else StackedActors(model, device)
        self._draws = None if distribution is None else StackedDistributions(distribution, device, numpy_draws)
        self._groups = RowGroups(np.empty(0, np.int64))
        self._rows = 0  # before which the rows of the stack end
        self.seed(0)

    def put(self, place: int, policy: Any) -> bool:
        """Copy the weights of ``policy`` to ``place``, and return True.

        Returns False for a policy of another kind, and for one whose rows the stack does not compute as the policy
        itself does.
        """
        if self._kind is None or getattr(policy, "stack_kind", None) != self._kind:
            return False
        try:
            self._networks.put(place, policy.model)
            if self._draws is not None and policy.model.policy_head.distribution is not None:
                self._draws.put(place, policy.model.policy_head.distribution)
            return self._agrees(place, policy)
        except Exception:  # whatever a layer of a plugin raises that vmap cannot transform
            return False

    def assign(self, places: NDArray[np.integer[Any]]) -> None:
        """Choose the policy of each row for calls of :meth:`act`: ``places`` [R], -1 for rows of other policies."""
        self._groups = RowGroups(places)
        self._rows = int(self._groups.rows[-1]) + 1

    def seed(self, seed: int) -> None:
        """Seed the generators that stochastic actions are drawn from."""
        self._seed = seed
        self._generators: dict[str, np.random.Generator] = {}
        self._numbers: NDArray[np.int64] | None = None  # of rows
        self._total = 0

    def seed_rows(self, seed: int, numbers: NDArray[np.int64], total: int) -> None:
        """Seed draws that depend on the ``numbers`` [R] of rows, each below ``total``, whichever rows are there."""
        self.seed(seed)
        self._numbers, self._total = numbers, total

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
        memory: FloatArray | None = None,
    ) -> Actions:
        """Actions of the rows that have a place, in their order. ``memory`` is overwritten in these rows."""
        groups, own = self._groups, None
        if self.memory_size:
            shape = (len(next(iter(observations.values()))), self.memory_size)
            own = np.zeros(shape, np.float32) if memory is None else memory[:, : self.memory_size]
        columns, logits = self._networks(observations, groups, own)
        if logits is not None and action_mask is not None:
            logits = masked(logits, action_mask[groups.rows])
        raw = choices = None
        if columns is not None and self._draws is not None:
            noise = None if deterministic else self._noise("normal", self._standard_normal)
            raw = self._draws(columns, noise, groups.places)
        if logits is not None:
            if not deterministic:
                logits = logits + self._noise("gumbel", self._gumbel)
            choices = self._layout.greedy_choices(logits)
        return self._layout.actions(raw, choices)

    # ------------------------------------------------------------ noise

    def _noise(self, name: str, draw: Callable[[np.random.Generator], FloatArray]) -> FloatArray:
        """Noise [r, ...] from the generator ``name``: that of a row does not depend on the places of other rows."""
        if name not in self._generators:
            self._generators[name] = derive_generator(self._seed, name)
        drawn = draw(self._generators[name])
        if self._numbers is not None:
            return drawn[self._numbers[self._groups.rows]]
        return drawn if len(drawn) == len(self._groups.rows) else drawn[self._groups.rows]

    @property
    def _drawn(self) -> int:
        return self._rows if self._numbers is None else self._total

    def _standard_normal(self, generator: np.random.Generator) -> FloatArray:
        return generator.standard_normal((self._drawn, self._noise_size), dtype=np.float32)

    def _gumbel(self, generator: np.random.Generator) -> FloatArray:
        return gumbel_noise(generator, (self._drawn, self._layout.logits))

    # ------------------------------------------------------------ trial

    def _agrees(self, place: int, policy: Any) -> bool:
        """Whether the stack computes at ``place`` what ``policy`` does, beside a row of another place.

        Rows whose output depends on other rows are computed by the policy itself.
        """
        generator = np.random.default_rng(0)
        groups, mine = RowGroups(np.array([place, -1, place, place - 1 if place else 1])), np.array([0, 2])
        observations = _trial_observations(policy.behavior, 4, generator)
        memory = generator.standard_normal((4, self.memory_size), np.float32) if self.memory_size else None
        after = None if memory is None else memory.copy()
        expected = [_taken(part, mine) for part in policy.parameters(observations, None, after)]
        found = [_taken(part, np.array([0, 1])) for part in self._networks(observations, groups, memory)]
        pairs = [*zip(found, expected, strict=True), (_taken(memory, mine), _taken(after, mine))]
        if self._draws is not None and found[0] is not None:
            noise = generator.standard_normal((2, self._noise_size), np.float32), np.zeros((2, 0), np.float32)
            for given in (None, noise):
                drawn = self._draws(found[0], None if given is None else given[0], np.full(2, place))
                pairs.append((drawn, policy.choose((expected[0], None), given)[0]))
        return all(_close(ours, theirs) for ours, theirs in pairs)


def _taken(array: FloatArray | None, rows: NDArray[np.intp]) -> FloatArray | None:
    return None if array is None else array[rows]


def _close(ours: FloatArray | None, theirs: FloatArray | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    if ours.shape != theirs.shape:
        return False
    return bool(np.abs(ours - theirs).max(initial=0.0) <= AGREEMENT * np.abs(theirs).max(initial=0.0) + 1e-6)


def _trial_observations(behavior: BehaviorSpec, rows: int, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Draw observations by name, each [rows, *shape]: in [-1, 1], one-hot, or whole numbers from 0 to 9."""
    drawn: dict[str, NDArray[Any]] = {}
    for o in behavior.observations:
        if o.kind == "one_hot":
            drawn[o.name] = np.eye(o.size, dtype=o.dtype)[generator.integers(o.size, size=rows)].reshape(-1, *o.shape)
        elif o.dtype.kind == "f":
            drawn[o.name] = generator.uniform(-1.0, 1.0, (rows, *o.shape)).astype(o.dtype)
        else:
            drawn[o.name] = generator.integers(0, 10, (rows, *o.shape)).astype(o.dtype)
    return drawn


def stack_kind(behavior: BehaviorSpec, model: Actor, computed: tuple[Hashable, ...]) -> Hashable | None:
    """Return a value that is equal for policies that one stack can hold; None for a policy that no stack can hold.

    The value has the observations and actions of ``behavior``, the classes of all modules of ``model``, their functions
    and plain attributes, such as the activation, and the names, shapes and types of all tensors; then ``computed``, how
    the policy computes. A stack does not call hooks: policies with hooks have no kind.
    """
    layers: list[Hashable] = []
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            return None
        own = [(key, value) for key, value in sorted(vars(module).items()) if key != "dense" and _is_plain(value)]
        layers.append((name, type(module), *own))
    named = (*model.named_parameters(), *model.named_buffers())
    tensors = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in named]
    seen = [(o.name, o.shape, o.dtype.str, o.kind) for o in behavior.observations]
    acts = (behavior.continuous, behavior.discrete, behavior.low.tobytes(), behavior.high.tobytes())
    return (tuple(seen), acts, tuple(layers), tuple(tensors), computed)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | FunctionType | BuiltinFunctionType)
