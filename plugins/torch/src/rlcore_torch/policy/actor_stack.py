"""Frozen policies of one shape that act together: their rows pass through all networks at once, in NumPy.

One policy after the other would start each product of matrices once for each policy, which takes longer than the
products of small networks themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, derive_generator
from rlcore_torch.acceleration.numpy_actor import NUMPY_FUNCTIONS, numpy_layers, numpy_network
from rlcore_torch.arrays import Array, BoolArray, FloatArray, IntArray
from rlcore_torch.networks.actions import gumbel_noise, numpy_mask_logits
from rlcore_torch.networks.distributions import Gaussian
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.policy.row_groups import RowGroups


class ActorStack:
    """Copies of the weights of policies of one kind, each at a place; for ``PolicyMix`` of rlcore-ghost.

    Weights are stored as [places, inputs, outputs]. With few rows for each place, OpenBLAS multiplies matrices in this
    layout two to four times as fast as in that of ``nn.Linear``, and as fast as many rows with one matrix.

    Attributes:
        memory_size: 0: these policies have no memory.
    """

    memory_size = 0

    def __init__(self, policy: Any) -> None:
        """Make an empty stack for policies of the kind of ``policy``."""
        self._kind = policy.stack_kind
        self._layout = policy.layout
        self._model = policy.model
        self._arrays = [np.zeros((2, *array.shape), np.float32) for array in _arrays(policy)]  # two places at first
        self._activate = NUMPY_FUNCTIONS[policy.model.actor.activation]
        self._draw = policy.numpy_draw
        self._groups = RowGroups(np.empty(0, np.int64))
        self._rows = 0  # before which the rows of the stack end
        self.seed(0)

    def put(self, place: int, policy: Any) -> bool:
        """Copy the weights of ``policy`` to ``place``, and return True; False for a policy of another kind."""
        if getattr(policy, "stack_kind", None) != self._kind:
            return False
        places = len(self._arrays[0])
        if place >= places:
            # At least doubled, so that a league that grows copies each policy a few times only.
            more = max(place + 1 - places, places)
            for k, array in enumerate(self._arrays):
                empty = np.zeros((more, *array.shape[1:]), np.float32)
                self._arrays[k] = np.concatenate((array, empty))
        for copies, array in zip(self._arrays, _arrays(policy), strict=True):
            copies[place] = array
        return True

    def assign(self, places: NDArray[np.integer[Any]]) -> None:
        """Choose the policy of each row for calls of :meth:`act`: ``places`` [R], -1 for rows of other policies."""
        self._groups = RowGroups(places)
        self._rows = int(self._groups.rows[-1]) + 1

    def seed(self, seed: int) -> None:
        """Seed the generators that stochastic actions are drawn from."""
        self._seed = seed
        self._generators: dict[str, np.random.Generator] = {}
        self._numbers: IntArray | None = None  # of rows
        self._total = 0

    def seed_rows(self, seed: int, numbers: IntArray, total: int) -> None:
        """Seed draws that depend on the ``numbers`` [R] of rows, each below ``total``, whichever rows are there."""
        self.seed(seed)
        self._numbers = numbers
        self._total = total

    def act(
        self,
        observations: Mapping[str, Array],
        action_mask: BoolArray | None = None,
        deterministic: bool = True,
        memory: FloatArray | None = None,
    ) -> Actions:
        """Actions of the rows that have a place, in their order."""
        groups = self._groups
        head = self._model.policy_head
        x = self._model.inputs.columns(observations)
        *arrays, log_std = self._arrays
        outputs = []
        for block in groups.blocks:
            weights = [array[block.places] for array in arrays]
            output = numpy_network(x[block.rows], weights, self._activate)
            outputs.append(output)
        columns, logits = head.split(groups.in_order(outputs))
        raw = choices = None
        if columns is not None:
            raw = columns
            noise = None if deterministic else self._noise("normal", _standard_normal, head.noise_size)
            if type(head.distribution) is not Gaussian:
                raw = self._draw(columns, noise)
            elif noise is not None:
                std = np.exp(log_std)  # of each place
                raw = columns + std[groups.places] * noise
        if logits is not None:
            if action_mask is not None:
                logits = numpy_mask_logits(logits, action_mask[groups.rows])
            if not deterministic:
                logits = logits + self._noise("gumbel", gumbel_noise, self._layout.logits)
            choices = self._layout.greedy_choices(logits)
        actions: Actions = self._layout.actions(raw, choices)
        return actions

    def _noise(
        self, name: str, draw: Callable[[np.random.Generator, tuple[int, int]], FloatArray], size: int
    ) -> FloatArray:
        """Noise [r, size] from the generator ``name``: that of a row does not depend on the places of other rows."""
        # One for each kind: from one generator, the second noise of a row would depend on how many rows there are.
        if name not in self._generators:
            self._generators[name] = derive_generator(self._seed, name)
        generator = self._generators[name]
        rows = self._groups.rows
        total = self._rows
        if self._numbers is not None:
            rows = self._numbers[rows]
            total = self._total
        noise = draw(generator, (total, size))
        return noise[rows]


def _standard_normal(generator: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return generator.standard_normal(shape, dtype=np.float32)


def _arrays(policy: Any) -> list[FloatArray]:
    """What the networks compute with, each array with an axis for rows if it has none, and log standard deviations."""
    distribution = policy.model.policy_head.distribution
    log_std = np.empty(0, np.float32)
    if type(distribution) is Gaussian:
        log_std = to_numpy(distribution.log_std)
    layers = [np.atleast_2d(array) for array in numpy_layers(policy.model)]
    return [*layers, log_std]


def stack_kind(policy: Any) -> Hashable:
    """Return a value that is equal for policies that one stack can hold.

    It has the observations and actions, the shapes of the layers, the activation, and the class and the plain
    attributes of the distribution.
    """
    behavior = policy.behavior
    model = policy.model
    distribution = model.policy_head.distribution
    plain = {}
    if distribution is not None:
        # Parameters and buffers are in attributes of nn.Module that begin with "_".
        plain = {name: value for name, value in vars(distribution).items() if not name.startswith("_")}
    observations = tuple((o.name, o.shape, o.dtype.str, o.kind) for o in behavior.observations)
    actions = (behavior.continuous, behavior.discrete, behavior.low.tobytes(), behavior.high.tobytes())
    attributes = (type(distribution), repr(sorted(plain.items())))
    functions = (model.actor.activation, model.inputs.normalizer is None)
    shapes = tuple(array.shape for array in numpy_layers(model))
    return (observations, actions, attributes, functions, shapes)
