"""Acting with an actor network: the policy that exploration, evaluation and exporters share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.environment import Actions, BehaviorSpec
from rlcore.torch.actions import LOG_STD_RANGE, MASKED_LOGIT, ActionLayout, gumbel_noise
from rlcore.torch.activations import ACTIVATIONS
from rlcore.torch.networks import Actor, Body, ObservationInputs, PolicyHead, linears, to_numpy

RawActions = NDArray[np.float32] | None
Noise = tuple[NDArray[np.float32], NDArray[np.float32]]

# Below this many rows PyTorch's dispatch costs more than the arithmetic of a small network.
NUMPY_ROWS = 128

# Columns of the continuous parts [R, ...] (means, unless squashed) and logits [R, logits].
Parameters = tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]


class ActorPolicy:
    """The policy of an :class:`Actor`. It reads the model's own weights: nothing to copy after an update."""

    def __init__(self, behavior: BehaviorSpec, model: Actor, activation: str, device: torch.device) -> None:
        self.layout = ActionLayout(behavior)
        self.model = model
        self.activation = activation
        self.device = device
        self._generator = np.random.default_rng(0)
        self._forward: Callable[[NDArray[np.float32]], Parameters] | None = None
        self.refresh()

    def refresh(self) -> None:
        """Call after normalisers changed, or parameters moved in memory."""
        self.refresh_std()
        if self.device.type == "cpu" and not self.model.inputs.images and computes_as_written(self.model):
            self._forward = numpy_actor(self.model, self.activation)

    def refresh_std(self) -> None:
        """Call after parameters changed: all but the standard deviations are read where they are."""
        log_std = self.model.policy_head.log_std
        self.std = np.empty(0, np.float32) if log_std is None else np.exp(to_numpy(log_std))

    def seed(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def parameters(self, observations: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_] | None) -> Parameters:
        """What :meth:`Actor.policy` gives for R rows, with a logit of -1e8 for forbidden options."""
        vectors = self.model.inputs.vectors
        if self._forward is not None and len(observations[vectors[0].name]) <= NUMPY_ROWS:
            parts = [observations[o.name].reshape(-1, o.size) for o in vectors]
            x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            mean, logits = self._forward(x if x.dtype == np.float32 else x.astype(np.float32))
        else:
            mean, logits = self._torch_forward(observations)
        if mask is not None and logits is not None:
            logits = np.where(mask, logits, np.float32(MASKED_LOGIT))
        return mean, logits

    @torch.inference_mode()
    def _torch_forward(self, observations: Mapping[str, NDArray[Any]]) -> Parameters:
        inputs = self.model.inputs
        raw = tuple(x.to(self.device) for x in inputs.raw(observations))
        mean, logits = self.model.policy(inputs(raw))
        return (None if mean is None else to_numpy(mean), None if logits is None else to_numpy(logits))

    def choose(self, parameters: Parameters, noise: Noise | None) -> tuple[RawActions, NDArray[np.int64] | None]:
        """Raw continuous parts [R, continuous] and choices [R, branches] by :meth:`parameters`.

        With ``noise``, standard normal [R, continuous] and Gumbel [R, logits], they are a draw; without, the mean and
        the most likely options.
        """
        columns, logits = parameters
        raw = None
        if columns is not None:
            squashed = self.model.policy_head.squashed
            raw = columns[:, : self.layout.continuous] if squashed else columns
            if noise is not None:
                std = self.std
                if squashed:
                    std = np.exp(np.clip(columns[:, self.layout.continuous :], *LOG_STD_RANGE))
                raw = raw + std * noise[0]
            if squashed:
                raw = np.tanh(raw)
        if logits is None:
            return raw, None
        return raw, self.layout.greedy_choices(logits if noise is None else logits + noise[1])

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        parameters = self.parameters(observations, action_mask)
        noise = None
        if not deterministic:
            rows = len(next(iter(observations.values())))
            noise = (
                self._generator.standard_normal((rows, self.layout.continuous), dtype=np.float32),
                gumbel_noise(self._generator, (rows, self.layout.logits)),
            )
        return self.layout.actions(*self.choose(parameters, noise))


def computes_as_written(model: Actor) -> bool:
    """Whether the policy is what :func:`numpy_actor` computes; a subclass may have changed any part of it."""
    return (
        type(model).policy is Actor.policy
        and type(model.inputs) is ObservationInputs
        and type(model.actor) is Body
        and type(model.policy_head) is PolicyHead
    )


def numpy_actor(model: Actor, activation: str) -> Callable[[NDArray[np.float32]], Parameters]:
    """The actor over vector observations as numpy arithmetic on views of the same weights.

    On eight rows it takes a quarter of the time PyTorch needs to dispatch the same operations.
    """
    nonlinearity = ACTIVATIONS[activation].numpy
    hidden = [(to_numpy(layer.weight).T, to_numpy(layer.bias)) for layer in linears(model.actor.layers)]
    head = model.policy_head
    weight, bias = to_numpy(head.linear.weight).T, to_numpy(head.linear.bias)
    means = head.continuous
    normalizer = model.inputs.normalizer
    scale = None
    if normalizer is not None:
        normalised = to_numpy(model.inputs.normalised_columns)
        mean, inverse_std = (to_numpy(part) for part in normalizer.scale())
        limit = np.where(normalised, np.float32(normalizer.clip), np.float32(np.inf))
        shift, factor = np.where(normalised, mean, 0), np.where(normalised, inverse_std, 1)
        scale = shift.astype(np.float32), factor.astype(np.float32)

    def forward(x: NDArray[np.float32]) -> Parameters:
        if scale is not None:
            x = np.clip((x - scale[0]) * scale[1], -limit, limit)
        for hidden_weight, hidden_bias in hidden:
            x = x @ hidden_weight
            x += hidden_bias
            x = nonlinearity(x)
        output = x @ weight
        output += bias
        return (output[:, :means] if means else None), (output[:, means:] if head.logits else None)

    return forward
