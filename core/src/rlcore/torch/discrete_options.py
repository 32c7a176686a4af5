"""Values of discrete actions: what the critics put out, and exact expectations of it under the policy."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcore.torch.actions import ActionLayout

# Up to this many joint options the critics value each combination of the branches by itself.
MAX_JOINT_OPTIONS = 256


class DiscreteOptions:
    """How the critics' ``columns`` outputs stand for the choices of all branches.

    With few combinations there is a column for each of them, so that any interplay of branches can be learned. With
    many, there is one for each option of each branch, and the value of a combination is the mean over its branches,
    as in ML-Agents. A behavior without branches has one column. Expectations are exact in each case.
    """

    def __init__(self, layout: ActionLayout) -> None:
        self.layout = layout
        combinations = 1
        for size in layout.branches:
            combinations *= size
        self.joint = combinations <= MAX_JOINT_OPTIONS
        self.columns = combinations if self.joint else layout.logits

    def weights(self, probabilities: Tensor | None) -> Tensor | None:
        """[B, columns]: an expected value is the sum of the columns times these. None where there is no branch.

        ``probabilities`` [B, logits] are those of each branch's options, side by side.
        """
        if probabilities is None:
            return None
        if not self.joint:
            return probabilities / len(self.layout.branches)
        parts = self.branches(probabilities)
        weights = parts[0]
        for part in parts[1:]:
            weights = (weights.unsqueeze(2) * part.unsqueeze(1)).flatten(1)
        return weights

    def chosen(self, values: Tensor, choices: Tensor | None) -> Tensor:
        """[B, R]: the value of ``choices`` [B, branches] in ``values`` [B, R, columns]."""
        if choices is None:
            return values.squeeze(2)
        return values.gather(2, self._columns(choices, values.shape[1])).mean(2)

    def slope(self, of_chosen: Tensor, choices: Tensor | None) -> Tensor:
        """[B, R, columns]: the derivative of a loss by all values, from that by the chosen ones [B, R]."""
        if choices is None:
            return of_chosen.unsqueeze(2)
        columns = self._columns(choices, of_chosen.shape[1])
        share = (of_chosen / columns.shape[2]).unsqueeze(2).expand_as(columns)
        return of_chosen.new_zeros((*of_chosen.shape, self.columns)).scatter_(2, columns, share)

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
        """[B, logits] cut into branches."""
        return columns.split(self.layout.branches, dim=1)  # type: ignore[no-any-return, no-untyped-call]
