"""Critics: networks of values, the values of discrete actions among them, and which of two critics counts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.networks.networks import Body, Inputs, ObservationInputs, initialize
from rlcore_torch.settings import NetworkSettings

__all__ = ["Critic", "DiscreteOptions", "min_q"]

# With at most this many combinations of all branches, the critics value each combination by itself.
MAX_JOINT_OPTIONS = 256


class Critic(nn.Module):
    """A value network of its own: inputs, and an action's continuous parts if ``continuous``, to [B, outputs].

    Of ``settings``, those of a critic are used.

    Attributes:
        body: The body.
        head: The outputs from the features of the body.
    """

    def __init__(self, inputs: ObservationInputs, settings: NetworkSettings, outputs: int, continuous: int = 0) -> None:
        super().__init__()
        self.body = Body(inputs, settings.of_critic, extra=continuous)
        self.head = nn.Linear(self.body.features, outputs)
        initialize(self.head, settings.init, gain=1.0)

    def forward(self, inputs: Inputs, continuous: Tensor | None = None, frozen: bool = False) -> Tensor:
        """Return [B, outputs].

        With ``frozen``, ``continuous`` [B, continuous] gets a gradient and the weights get none.
        """
        return self.body.into(inputs, self.head, continuous, frozen)


class DiscreteOptions:
    """Maps the critics' ``columns`` outputs to the choices of all branches.

    With few combinations there is a column for each of them, so that any interplay of branches can be learned. With
    many, there is one for each option of each branch, and the value of a combination is the mean over its branches,
    as in ML-Agents. A behavior without branches has one column. Expectations are exact in each case.

    Attributes:
        layout: The parts of an action.
        joint: Whether there is a column for each combination of options.
        columns: Number of the critics' outputs per reward.
    """

    def __init__(self, layout: ActionLayout) -> None:
        self.layout = layout
        combinations = 1
        for size in layout.branches:
            combinations *= size
        self.joint = combinations <= MAX_JOINT_OPTIONS
        self.columns = combinations if self.joint else layout.logits

    def expected(self, values: Tensor, probabilities: Tensor | None) -> Tensor:
        """Return the expectation [B, ...] of ``values`` [B, ..., columns] under the policy.

        ``probabilities`` [B, logits] are those of each branch's options, side by side; None without branches.
        """
        if probabilities is None:
            return values.squeeze(-1)
        weights = self._weights(probabilities)  # [B, columns]
        return (values * (weights if values.dim() == 2 else weights.unsqueeze(1))).sum(-1)

    def _weights(self, probabilities: Tensor) -> Tensor:
        if not self.joint:
            return probabilities / len(self.layout.branches)
        parts = self.branches(probabilities)
        weights = parts[0]
        for part in parts[1:]:
            weights = (weights.unsqueeze(2) * part.unsqueeze(1)).flatten(1)
        return weights

    def chosen(self, values: Tensor, choices: Tensor | None) -> Tensor:
        """Select the value [B, R] of ``choices`` [B, branches] from ``values`` [B, R, columns]."""
        if choices is None:
            return values.squeeze(2)
        return values.gather(2, self._columns(choices, values.shape[1])).mean(2)

    def _columns(self, choices: Tensor, rewards: int) -> Tensor:
        """[B, R, n]: the columns whose mean is the value of ``choices`` [B, branches]."""
        if self.joint:
            columns = choices[:, :1]
            for k, size in enumerate(self.layout.branches[1:], start=1):
                columns = columns * size + choices[:, k : k + 1]
        else:
            columns = choices + torch.tensor(self.layout.offsets, device=choices.device)
        return columns.unsqueeze(1).expand(-1, rewards, -1)

    def branches(self, columns: Tensor) -> tuple[Tensor, ...]:
        """Split ``columns`` [B, logits] by branch."""
        return columns.split(self.layout.branches, dim=1)  # type: ignore[no-any-return, no-untyped-call]


def min_q(one: Tensor, two: Tensor) -> Tensor:
    """Return, in each row of two critics' values [B, R, ...], those of the critic with the smaller sum over R rewards.

    This is clipped double Q-learning (Fujimoto et al. 2018, arXiv:1802.09477).

    Each reward has its own value, and what an action is worth is their sum. The minimum of each value by itself would
    combine two critics, neither of which expects this sum.
    """
    return torch.where(one.sum(1, keepdim=True) <= two.sum(1, keepdim=True), one, two)
