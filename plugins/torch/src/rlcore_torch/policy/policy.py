"""Acting with an actor network: the policy that exploration, evaluation and exporters share."""

from __future__ import annotations

import copy
import logging
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import Actions, BehaviorSpec, checked_observations
from rlcore_torch.acceleration.numpy_actor import MOST_ROWS, NumpyActor, draws_agree
from rlcore_torch.acceleration.numpy_memory import NumpyMemory
from rlcore_torch.acceleration.registry import has_exactly
from rlcore_torch.arrays import Arrays, FloatArray, IntArray
from rlcore_torch.backend import Backend
from rlcore_torch.networks.actions import ActionLayout, gumbel_noise, numpy_mask_logits
from rlcore_torch.networks.distributions import ActionDistribution, Gaussian, NumpyDraw
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.networks.models import Actor
from rlcore_torch.networks.saved_networks import load_model_state, model_state
from rlcore_torch.networks.sequence_inputs import Inputs
from rlcore_torch.policy.actor_stack import ActorStack, stack_kind
from rlcore_torch.policy.policy_module import PolicyModule

__all__ = ["ActorPolicy", "RawActions"]

RawActions = NDArray[np.float32] | None
"""Continuous parts of actions [R, continuous] before they are clipped and stretched to the bounds; None without any."""
Noise = tuple[FloatArray, FloatArray]

log = logging.getLogger(__name__)

# Columns of the continuous parts [R, ...] and logits [R, logits].
Parameters = tuple[FloatArray | None, FloatArray | None]


# Attributes that are functions of the weights, made again where a policy is unpickled: closures cannot be pickled.
_MADE_OF_WEIGHTS = ("_numpy_actor", "numpy_memory", "numpy_draw", "stack_kind")


class ActorPolicy:
    """The policy of an :class:`Actor`. It reads the model's own weights, so an update copies nothing.

    Attributes:
        behavior: The actions of the agents, and the observations that the policy reads.
        layout: The parts of an action.
        model: The network.
        backend: The choices that ``torch_settings`` makes.
        numpy_memory: With memory: its steps in NumPy; None without memory, and if the backend has none.
    """

    def __init__(self, behavior: BehaviorSpec, model: Actor, backend: Backend) -> None:
        self.behavior = acting_behavior(behavior, model)
        self.layout = ActionLayout(behavior)
        self.model = model
        self.backend = backend
        self.seed(0)
        self._acted_without_memory = 0  # calls of `act` in a row
        self._warned_without_memory = False
        self._numpy_actor: NumpyActor | None = None
        self.numpy_memory: NumpyMemory | None = None
        distribution = model.policy_head.distribution
        self._distribution: ActionDistribution | None = distribution
        self._distribution_learns = distribution is not None and bool(distribution.state_dict())
        self._numpy_draws = distribution is not None and draws_agree(distribution, self.device)
        self.refresh()

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.backend.device

    def refresh(self) -> None:
        """Call after normalizers changed, or parameters moved in memory."""
        self._refresh_draw()
        if self.backend.numpy_actor is not None:
            self._numpy_actor = self.backend.numpy_actor(self.model)
        if self.backend.numpy_memory is not None and self.model.memory_size:
            self.numpy_memory = self.backend.numpy_memory(self.model)

    def refresh_distribution(self) -> None:
        """Call after an update: after parameters of the distribution changed, or batch normalization did.

        Weights with folded batch normalization are copies. All others are read where they are.
        """
        if self._distribution_learns:
            self._refresh_draw()
        if self._numpy_actor is not None:
            self._numpy_actor.refresh_copies()

    def _refresh_draw(self) -> None:
        self.numpy_draw: NumpyDraw | None = None
        if self._numpy_draws and self._distribution is not None:
            self.numpy_draw = self._distribution.numpy_draw()

    # ------------------------------------------------------------ copies

    def snapshot(self, state: Mapping[str, Any] | None = None) -> ActorSnapshot:
        """A frozen copy of the policy as it is, or as it was when ``state`` was its :meth:`state_dict`.

        Raises RunStateError for a state that does not fit.
        """
        model = acting_part(self.model).requires_grad_(False).cpu()
        if state is not None:
            load_model_state(model, state, self.behavior.name)
        return ActorSnapshot(self.behavior, model, self.backend)

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorPolicy:
        """A policy with weights of its own, without the parts of the model that do not act."""
        model = acting_part(self.model).requires_grad_(False)
        policy = type(self)(self.behavior, model, self.backend)
        policy._generator = copy.deepcopy(self._generator, memo)
        return policy

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the functions that compute in NumPy, which :meth:`refresh` makes of the weights."""
        state = dict(self.__dict__)
        for name in _MADE_OF_WEIGHTS:
            state.pop(name, None)
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._numpy_actor = None
        self.numpy_memory = None
        self.refresh()

    def state_dict(self) -> dict[str, Any]:
        """The weights and statistics that the policy acts with, copied; without critics."""
        return model_state(acting_part(self.model))

    def module(self) -> PolicyModule:
        """The policy as it is, as one PyTorch module: from raw observations to actions of the environment."""
        model = acting_part(self.model).requires_grad_(False)
        Backend(self.device).prepare(model)  # plain PyTorch, which can be traced
        return PolicyModule(model, self.layout).eval()

    def seed(self, seed: int) -> None:
        """Seed the generator that stochastic actions are drawn from."""
        self._generator = np.random.default_rng(seed)
        self._numbers: tuple[IntArray, int] | None = None  # of rows, and how many there are

    def seed_rows(self, seed: int, numbers: NDArray[np.int64], total: int) -> None:
        """Seed draws that depend on the ``numbers`` [R] of rows, each below ``total``, whichever rows are there."""
        self.seed(seed)
        self._numbers = numbers, total

    @property
    def memory_size(self) -> int:
        """M, the numbers that each row remembers from step to step; 0 without memory."""
        return self.model.memory_size

    def parameters(
        self,
        observations: Mapping[str, NDArray[Any]],
        mask: NDArray[np.bool_] | None,
        memory: NDArray[np.float32] | None = None,
    ) -> Parameters:
        """Return the output of :meth:`rlcore_torch.Actor.policy` for R rows.

        ``mask`` [R, logits] is True for allowed options; forbidden ones get the smallest logit. ``memory`` [R, M] of a
        policy with memory is read and overwritten.
        """
        rows = len(observations[self.behavior.observations[0].name])
        if memory is None and self.memory_size:
            memory = np.zeros((rows, self.memory_size), np.float32)
        inputs = self.model.inputs
        # NumPy calls cost less than PyTorch's, whose products of many rows are faster.
        few_rows = rows <= MOST_ROWS
        if self._numpy_actor is not None and few_rows:
            columns, logits = self._numpy_actor(inputs.columns(observations))
        elif self.numpy_memory is not None and self.numpy_memory.acts and few_rows:
            assert memory is not None
            columns, logits = self.numpy_memory.act(inputs.columns(observations), memory)
        else:
            columns, logits = self._torch_parameters(observations, memory)
        if mask is not None and logits is not None:
            logits = numpy_mask_logits(logits, mask)
        return columns, logits

    def tensor_parameters(
        self, observations: Mapping[str, NDArray[Any]] | Mapping[str, Tensor]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the output of :meth:`rlcore_torch.Actor.policy` for R rows, on the device, without masks."""
        columns, logits = self.model.policy(self._inputs(observations))
        return columns, logits

    def _inputs(self, observations: Arrays | Mapping[str, Tensor]) -> Inputs:
        raw = self.model.inputs.raw(observations)
        normalized: Inputs = self.model.inputs(tuple(x.to(self.device) for x in raw))
        return normalized

    @torch.inference_mode()
    def _torch_parameters(self, observations: Arrays, memory: FloatArray | None) -> Parameters:
        if not self.memory_size:
            columns, logits = self.tensor_parameters(observations)
        else:
            assert memory is not None
            before = torch.from_numpy(memory).to(self.device)
            columns, logits, after = self.model.policy_step(self._inputs(observations), before)
            memory[...] = to_numpy(after)
        column_array = None if columns is None else to_numpy(columns)
        logit_array = None if logits is None else to_numpy(logits)
        return column_array, logit_array

    def choose(self, parameters: Parameters, noise: Noise | None) -> tuple[RawActions, NDArray[np.int64] | None]:
        """Raw continuous parts [R, continuous] and choices [R, branches] for what :meth:`parameters` returned.

        With ``noise``, standard normal [R, noise_size] and Gumbel [R, logits], they are a draw; without, what
        a deterministic policy does.
        """
        columns, logits = parameters
        raw: RawActions = None
        choices: IntArray | None = None
        if columns is not None:
            # Decided here: a policy that stores its own method is in a reference cycle, and its weights stay.
            draw = self.numpy_draw or self._torch_draw
            raw = draw(columns, None if noise is None else noise[0])
        if logits is not None:
            if noise is not None:
                logits = logits + noise[1]
            choices = self.layout.greedy_choices(logits)
        return raw, choices

    def explore(self, parameters: Parameters, noise: Noise | None) -> tuple[RawActions, NDArray[np.int64] | None]:
        """Actions as of :meth:`choose`, of Gaussian numbers [R, held_size] that agents keep for several steps."""
        columns, _ = parameters
        if noise is not None and columns is not None and self._distribution is not None:
            held, gumbel = noise
            noise = self._distribution.noise_of(columns, held), gumbel
        return self.choose(parameters, noise)

    @torch.inference_mode()
    def _torch_draw(self, columns: FloatArray, noise: FloatArray | None) -> FloatArray:
        assert self._distribution is not None
        on_device = torch.from_numpy(columns).to(self.device)
        if noise is None:
            return to_numpy(self._distribution.deterministic(on_device))
        drawn = self._distribution.sample(on_device, torch.from_numpy(noise).to(self.device))
        return to_numpy(drawn)

    def act(
        self,
        observations: Mapping[str, NDArray[Any]] | NDArray[Any],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
        memory: NDArray[np.float32] | None = None,
    ) -> Actions:
        """Return actions for R rows of observations, each [R, *shape].

        An array alone is the observation of a behavior that has only one. The other arguments are those of
        :meth:`rlcore.MemoryPolicy.act`. Raises ValueError for observations that do not fit.

        Warns once where a policy with memory is called twice in a row without ``memory``.
        """
        if self.memory_size:
            self._warn_without_memory(memory)
        if not isinstance(observations, Mapping):
            observations = checked_observations(self.behavior, observations)
        # Checked only where it fails, so that no other call pays for it.
        try:
            parameters = self.parameters(observations, action_mask, memory)
        except (LookupError, TypeError, ValueError):
            checked_observations(self.behavior, observations)  # raises an error that says more, if they are the cause
            raise
        noise: Noise | None = None
        if not deterministic:
            rows = len(next(iter(observations.values())))
            noise = self._noise(rows)
        raw, choices = self.choose(parameters, noise)
        return self.layout.actions(raw, choices)

    def _noise(self, rows: int) -> Noise:
        """Standard normal noise [R, noise_size] and Gumbel noise [R, logits], drawn in this order."""
        numbers: Any = slice(None)
        total = rows
        if self._numbers is not None:
            numbers, total = self._numbers
        size = self.model.policy_head.noise_size
        normal = self._generator.standard_normal((total, size), dtype=np.float32)
        gumbel = gumbel_noise(self._generator, (total, self.layout.logits))
        return normal[numbers], gumbel[numbers]

    def _warn_without_memory(self, memory: FloatArray | None) -> None:
        """Warn at the second call in a row without memory. One alone may be the first step of an episode."""
        if memory is not None:
            self._acted_without_memory = 0
            return
        self._acted_without_memory += 1
        if self._acted_without_memory != 2 or self._warned_without_memory:
            return
        self._warned_without_memory = True
        log.warning(
            "behavior %r: the policy has memory and is called again without it, so each call acts as if an episode "
            "began: give memory=numpy.zeros((rows, policy.memory_size), numpy.float32), keep the array from step to "
            "step, and set the rows of ended episodes to 0 (reported once)",
            self.behavior.name,
        )


def acting_part(model: Actor) -> Actor:
    """A copy of what acts: an :class:`Actor` with parts of ``model``, or all of a model that overrides how to act."""
    if not has_exactly(model, (Actor.policy, Actor.policy_step, Actor.policy_of)):
        return copy.deepcopy(model)
    # Made without its constructor, which would draw weights and move PyTorch's generator.
    actor = Actor.__new__(Actor)
    nn.Module.__init__(actor)
    actor.memory = model.memory
    actor.inputs = copy.deepcopy(model.inputs)
    actor.actor = copy.deepcopy(model.actor)
    actor.policy_head = copy.deepcopy(model.policy_head)
    return actor


def acting_behavior(behavior: BehaviorSpec, model: Actor) -> BehaviorSpec:
    """Return ``behavior`` with the observations that the policy reads."""
    names = {observation.name for observation in (*model.inputs.vectors, *model.inputs.images)}
    read = tuple(observation for observation in behavior.observations if observation.name in names)
    if read == behavior.observations:
        return behavior
    return attrs.evolve(behavior, observations=read)


class ActorSnapshot(ActorPolicy):
    """A frozen policy, whose weights are in the memory of the CPU whatever the device of ``backend`` is.

    In a ``PolicyMix`` of rlcore-ghost, snapshots of one shape act together.
    """

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @cached_property
    def stack_kind(self) -> Hashable | None:
        """Equal for snapshots that can be in one stack; None if the snapshot cannot be in any.

        Those that act in NumPy can, unless their distribution has parameters that NumPy does not know.
        """
        if self._numpy_actor is None:
            return None
        distribution = self._distribution
        if distribution is not None:
            if not self._numpy_draws:
                return None
            # The stack draws with the functions of its first policy; it keeps the parameters of Gaussians alone.
            if type(distribution) is not Gaussian and distribution.state_dict():
                return None
        return stack_kind(self)

    def make_stack(self) -> ActorStack | None:
        """Return an empty stack for snapshots of this shape; None if there is none."""
        if self.stack_kind is None:
            return None
        return ActorStack(self)
