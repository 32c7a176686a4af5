"""The scale of rewards for what is new: the spread of their discounted sums."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcore import Transitions
from rlcore_torch import RunningNormalizer


class RewardScale(nn.Module):
    """Measures the standard deviation of discounted sums of rewards (Burda et al. 2019, arXiv:1810.12894, section 2.4).

    Errors of networks have no unit, and shrink as the networks learn. In units of this deviation, ``strength`` means
    the same in every task and at every time.

    Attributes:
        returns: Running variance of the discounted sums.
        sums: [S] the latest discounted sum of each slot.
    """

    sums: Tensor

    def __init__(self, slots: int, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.returns = RunningNormalizer(1)
        self.register_buffer("sums", torch.zeros(slots))

    @property
    def measured(self) -> bool:
        """Whether there was an update."""
        return bool(self.returns.count > 0)

    @property
    def factor(self) -> Tensor:
        """[1] the factor that turns a reward into units of the deviation."""
        return self.returns.inverse_std

    @torch.no_grad()
    def update(self, rewards: Tensor, collected: Transitions) -> None:
        """Add the ``rewards`` [N] of the transitions that were collected. Sums run past the ends of episodes."""
        returns = torch.empty_like(rewards)  # [N]
        for positions, slots in collected.by_time():
            rows = torch.from_numpy(positions).to(rewards.device)
            acting = torch.from_numpy(slots).to(rewards.device)
            sums = self.sums[acting].mul_(self.gamma).add_(rewards[rows])
            self.sums[acting] = sums
            returns[rows] = sums
        self.returns.update(returns.reshape(-1, 1))
