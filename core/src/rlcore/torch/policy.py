"""Acting with an actor network: the policy that exploration, evaluation and exporters share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.environment import Actions, BehaviorSpec
from rlcore.torch.actions import MASKED_LOGIT, ActionLayout, gumbel_noise
from rlcore.torch.activations import ACTIVATIONS
from rlcore.torch.networks import ActorCritic, Body, ObservationInputs, PolicyHead, linears, to_numpy

# Below this many rows PyTorch's dispatch costs more than the arithmetic of a small network.
NUMPY_ROWS = 128

Parameters = tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]  # mean [R, continuous], logits [R, logits]


class ActorCriticPolicy:
    """The policy of an :class:`ActorCritic`. It reads the model's own weights: nothing to copy after an update."""

    def __init__(self, behavior: BehaviorSpec, model: ActorCritic, activation: str, device: torch.device) -> None:
        self.layout = ActionLayout(behavior)
        self.model = model
        self.activation = activation
        self.device = device
        self._generator = np.random.default_rng(0)
        self._forward: Callable[[NDArray[np.float32]], Parameters] | None = None
        self.refresh()

    def refresh(self) -> None:
        """Call after parameters or normalisers changed, or moved in memory."""
        if self.device.type == "cpu" and not self.model.inputs.images and computes_as_written(self.model):
            self._forward = numpy_actor(self.model, self.activation)

    def seed(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def parameters(self, observations: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_] | None) -> Parameters:
        """``(mean, logits)`` of the action distribution for R rows; forbidden options have a logit of -1e8."""
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

    def std(self) -> NDArray[np.float32]:
        """Standard deviation of each raw continuous part, [continuous]."""
        log_std = self.model.policy_head.log_std
        return np.empty(0, np.float32) if log_std is None else np.exp(to_numpy(log_std))

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        mean, logits = self.parameters(observations, action_mask)
        if not deterministic:
            if mean is not None:
                mean = mean + self.std() * self._generator.standard_normal(mean.shape, dtype=np.float32)
            if logits is not None:
                logits = logits + gumbel_noise(self._generator, logits.shape)
        return self.layout.actions(mean, None if logits is None else self.layout.greedy_choices(logits))


def computes_as_written(model: ActorCritic) -> bool:
    """Whether the policy is what :func:`numpy_actor` computes; a subclass may have changed any part of it."""
    return (
        type(model).policy is ActorCritic.policy
        and type(model.inputs) is ObservationInputs
        and type(model.actor) is Body
        and type(model.policy_head) is PolicyHead
    )


def numpy_actor(model: ActorCritic, activation: str) -> Callable[[NDArray[np.float32]], Parameters]:
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
