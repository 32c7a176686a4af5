"""The network that tells an expert's transitions from the agents', with VAIL's bottleneck and a gradient penalty."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_intrinsic.network_reward import RewardModel, linear
from rlcore_intrinsic.settings import GAILSettings
from rlcore_torch import Body, Inputs

# ML-Agents' values of VAIL (Peng et al. 2019, arXiv:1810.00821).
Z_SIZE = 128
TARGET_INFORMATION = 0.5  # nats: the limit of the bottleneck
BETA_STEP = 5e-4

Seen = tuple[Inputs, Tensor | None]
"""Inputs, and actions [B, columns] with ``use_actions``."""

SMALLEST_SQUARE = 1e-7  # added to squared norms, whose root has no gradient at 0


class Discriminator(RewardModel):
    """Inputs, and actions if ``use_actions``, to the logit of D, the probability that an expert acted.

    Attributes:
        beta: [] weight of the bottleneck's limit in the loss, at least 0.
    """

    beta: Tensor

    def __init__(self, behavior: BehaviorSpec, settings: GAILSettings) -> None:
        super().__init__(behavior, settings)
        columns = 0
        if settings.use_actions:
            columns = behavior.continuous + sum(behavior.discrete)
            columns += 1  # whether the episode terminated
        self.body = Body(self.inputs, settings.network, extra=columns)
        self.use_vail = settings.use_vail
        width = self.body.features
        if self.use_vail:
            self.z_mean = linear(width, Z_SIZE, gain=0.1)
            self.z_log_std = nn.Parameter(torch.zeros(Z_SIZE))
            width = Z_SIZE
        self.estimate = linear(width, 1, gain=0.2)
        self.register_buffer("beta", torch.zeros(()))
        for place, image in enumerate(self.inputs.images):
            # The encoder divides images of unsigned integers by it.
            unit = torch.from_numpy(image.full_scale)
            self.register_buffer(f"image_unit_{place}", unit, persistent=False)

    def logits(self, inputs: Inputs, extra: Tensor | None, noise: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return logits [B] and, with VAIL, the means [B, Z] of the bottleneck.

        ``inputs`` are normalized; ``extra`` [B, columns] are actions and whether the episode terminated. ``noise``
        [B, Z] is standard normal; None for the mean.
        """
        if not self.use_vail:
            column = self.body.into(inputs, self.estimate, extra)
            return column.squeeze(1), None
        mean = self.body.into(inputs, self.z_mean, extra)
        z = mean
        if noise is not None:
            z = mean + noise * self.z_log_std.exp()
        logits: Tensor = self.estimate(z).squeeze(1)
        return logits, mean

    def information(self, expert_mean: Tensor, policy_mean: Tensor) -> Tensor:
        """Return the KL divergences [] of both bottlenecks from a standard normal, added; means over [B, Z]."""
        variance = (2.0 * self.z_log_std).exp()
        squares = 0.5 * (expert_mean.square() + policy_mean.square())
        divergence = squares + variance - 2.0 * self.z_log_std - 1.0  # [B, Z]
        return divergence.sum(1).mean()

    @torch.no_grad()
    def adapt_beta(self, information: Tensor) -> None:
        """Raise ``beta`` if the bottleneck lets more through than its limit, else lower it."""
        excess = information.detach() - TARGET_INFORMATION
        self.beta.add_(BETA_STEP * excess)
        self.beta.clamp_(min=0.0)

    def gradient_penalty(self, expert: Seen, policy: Seen, mix: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the mean squared distance [] of gradient norms from 1 (Gulrajani et al. 2017, arXiv:1704.00028).

        The norm is that of the gradient of the logit with respect to all inputs at points between the expert's and
        the policy's: ``mix`` [B, 1] is the policy's share of each.
        """
        expert_inputs, expert_extra = expert
        policy_inputs, policy_extra = policy
        points: Inputs = ()
        for theirs, ours in zip(expert_inputs, policy_inputs, strict=True):
            point = _between(theirs, ours, mix)
            points += (point,)
        extra = None
        if expert_extra is not None and policy_extra is not None:
            extra = _between(expert_extra, policy_extra, mix)
        logits, _ = self.logits(points, extra, noise)
        parts = points if extra is None else (*points, extra)
        gradients = torch.autograd.grad(logits.sum(), parts, create_graph=True)

        # In units of the numbers that the networks get: images are divided by their full scale in the encoder.
        units: list[float | Tensor] = []
        if self.inputs.vectors:
            units.append(1.0)
        for place in range(len(self.inputs.images)):
            unit = getattr(self, f"image_unit_{place}")
            units.append(unit)
        if extra is not None:
            units.append(1.0)
        squares = []
        for gradient, unit in zip(gradients, units, strict=True):
            scaled = (gradient * unit).flatten(1)
            squares.append(scaled.square().sum(1))  # [B]
        square = torch.stack(squares).sum(0)
        norm = (square + SMALLEST_SQUARE).sqrt()
        return (norm - 1.0).square().mean()


def _between(expert: Tensor, policy: Tensor, mix: Tensor) -> Tensor:
    """Points [B, ...] on the lines from the ``expert``'s to the ``policy``'s, to differentiate by."""
    further = [1] * (policy.ndim - 1)
    share = mix.reshape(-1, *further)
    policy = policy.to(torch.float32)
    expert = expert.to(torch.float32)
    point = share * policy + (1.0 - share) * expert
    return point.requires_grad_()
