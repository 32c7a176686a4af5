"""How likely a policy is to do what was recorded: the part that both trainers share."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from rlcore_torch import ActionBatch, ActionLayout, Actor, Gaussian, joint_log_prob_entropy, mask_logits

# Recorded actions may be a function of what was seen. The likelihood of a policy that has found it grows without
# bounds as its standard deviation shrinks, so the deviation stays at or above this one, as in the authors' code of IQL.
LEAST_LOG_STD = -5.0


@attrs.define(eq=False)
class Imitation:
    """The log-probabilities and entropies that a policy gives B recorded actions."""

    log_prob: Tensor  # [B] of the whole action, differentiable
    entropy: Tensor  # [B], or a scalar: nats
    deterministic: Tensor | None  # [B, continuous] raw actions of the policy when it acts deterministically
    logits: Tensor | None  # [B, logits], masked

    @classmethod
    def of(cls, model: Actor, layout: ActionLayout, batch: ActionBatch) -> Imitation:
        columns, logits = model.policy(batch.inputs)
        if logits is not None and batch.mask is not None:
            logits = mask_logits(logits, batch.mask)
        distribution = model.policy_head.distribution
        joint = joint_log_prob_entropy(layout, distribution, columns, logits, batch.raw, batch.choices)
        deterministic = None
        if distribution is not None and columns is not None:
            deterministic = distribution.deterministic(columns)
        return cls(*joint, deterministic, logits)

    @staticmethod
    @torch.no_grad()
    def limit_std(model: Actor) -> None:
        """Raise a Gaussian's standard deviations to the smallest one. Call after each step of the policy's optimizer.

        The parameter itself is limited, so that draws have the deviation of the loss, and a deviation at the limit can
        grow again.
        """
        if isinstance(model.policy_head.distribution, Gaussian):
            model.policy_head.distribution.log_std.clamp_(min=LEAST_LOG_STD)

    @torch.no_grad()
    def statistics(self, layout: ActionLayout, batch: ActionBatch) -> dict[str, Tensor]:
        """Entropy, and how far the policy's own choice, its deterministic one, is from the recorded one."""
        stats = {"Policy/Entropy": self.entropy.mean()}
        if self.deterministic is not None and batch.raw is not None:
            error = self.deterministic - batch.raw
            stats["Policy/Squared Error"] = error.square().mean()
        if self.logits is not None and batch.choices is not None:
            branches = self.logits.split(layout.branches, dim=1)  # type: ignore[no-untyped-call]
            likeliest = torch.stack([branch.argmax(1) for branch in branches], dim=1)
            right = likeliest == batch.choices
            stats["Policy/Accuracy"] = right.to(torch.float32).mean()
        return stats
