"""Distributions of returns: what critics predict in the place of an expected return, and their losses.

Shapes: K numbers of a distribution, logits of atoms or quantiles; ... for any dimensions before it, such as B rows and
R reward providers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["CategoricalReturns", "QuantileReturns", "ReturnDistribution"]


class ReturnDistribution(nn.Module):
    """A distribution of returns, which K numbers describe. A model that has one may be moved to a device.

    Attributes:
        size: K.
    """

    size: int

    def expected(self, numbers: Tensor) -> Tensor:
        """Return the expected returns [...] of ``numbers`` [..., K]."""
        raise NotImplementedError

    def least_expected(self, numbers: Tensor) -> Tensor:
        """Return, in each row, the numbers [B, R, K] of the critic that expects least, of C critics' [C, B, R, K].

        What a critic expects is the sum over R rewards. This is :func:`rlcore_torch.min_q` for distributions: those of
        two critics are never mixed in a row.
        """
        total = self.expected(numbers).sum(-1)  # [C, B]
        least = total.argmin(0)  # [B]
        index = least.view(1, -1, 1, 1).expand(1, *numbers.shape[1:])
        return numbers.gather(0, index).squeeze(0)


class CategoricalReturns(ReturnDistribution):
    """Probabilities of K equally distant atoms (C51; Bellemare et al. 2017, arXiv:1707.06887); K logits describe them.

    Attributes:
        atoms: [K], from ``v_min`` to ``v_max``.
        v_min: The least return.
        v_max: The greatest return.
    """

    atoms: Tensor

    def __init__(self, size: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.size = size
        self.v_min = v_min
        self.v_max = v_max
        atoms = torch.linspace(v_min, v_max, size)
        self.register_buffer("atoms", atoms, persistent=False)

    def expected(self, numbers: Tensor) -> Tensor:
        """Return the expected returns [...] of the logits ``numbers`` [..., K]."""
        probabilities = numbers.softmax(-1)
        return (probabilities * self.atoms).sum(-1)

    def target(self, probabilities: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | None = None) -> Tensor:
        """Return the probabilities [..., K] of ``reward`` + ``discount`` * (return + ``bonus``) (algorithm 1).

        ``probabilities`` [..., K] are those of the next return; ``reward``, ``discount`` and ``bonus`` are [...]. A
        bonus, such as that of the entropy, -temperature * log-probability, moves all atoms alike.

        Returns beyond ``v_min`` and ``v_max`` count as these. A moved atom at the place b between 0 and K - 1 gives
        atom i the share max(0, 1 - |b - i|): the two shares of the paper, and all of it if b is a whole number, where
        the paper's algorithm loses it.
        """
        if bonus is not None:
            reward = reward + discount * bonus
        count = self.size
        index = torch.arange(count, dtype=probabilities.dtype, device=probabilities.device)
        atoms = self.v_min + (self.v_max - self.v_min) / (count - 1) * index
        moved = reward.unsqueeze(-1) + discount.unsqueeze(-1) * atoms  # [..., K]
        moved = moved.clamp(self.v_min, self.v_max)
        place = (moved - self.v_min) * ((count - 1) / (self.v_max - self.v_min))
        place = place.clamp(max=count - 1)  # which rounding may exceed
        if place.device.type == "cpu":
            return shared_by_index(probabilities, place)
        return shared_by_matrix(probabilities, place)

    def losses(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies [...] of ``target`` probabilities [..., K], and the divergences from it.

        The divergence (Kullback-Leibler) is the cross-entropy without what no logits can change: 0 without an error.
        It has no gradient.
        """
        losses = -(target * logits.log_softmax(-1)).sum(-1)
        negative_entropy = torch.xlogy(target, target).sum(-1)
        return losses, losses.detach() + negative_entropy


def shared_by_index(probabilities: Tensor, place: Tensor) -> Tensor:
    """Share ``probabilities`` [..., K] between the two atoms beside each ``place`` [..., K], of 0 to K - 1.

    Not for a GPU, which adds up in no fixed order. A place that is not a number gives shares that are none.
    """
    below = place.long().clamp(0, place.shape[-1] - 2)
    of_above = probabilities * (place - below)
    of_below = probabilities - of_above
    shared = torch.zeros_like(probabilities)
    shared.scatter_add_(-1, below, of_below)
    return shared.scatter_add_(-1, below + 1, of_above)


def shared_by_matrix(probabilities: Tensor, place: Tensor) -> Tensor:
    """Return what :func:`shared_by_index` does, up to rounding, in K times the arithmetic: K shares of each place."""
    index = torch.arange(place.shape[-1], dtype=place.dtype, device=place.device)
    distance = (place.unsqueeze(-2) - index.unsqueeze(-1)).abs()  # [..., K to, K from]
    share = (1.0 - distance).clamp(min=0.0)
    return (share @ probabilities.unsqueeze(-1)).squeeze(-1)


class QuantileReturns(ReturnDistribution):
    """Quantiles at the middles of K equal parts of probability (QR-DQN; Dabney et al. 2018, arXiv:1710.10044).

    Attributes:
        middles: Their probabilities [K] (lemma 2).
    """

    middles: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        middles = (torch.arange(size) + 0.5) / size
        self.register_buffer("middles", middles, persistent=False)

    def expected(self, numbers: Tensor) -> Tensor:
        """Return the expected returns [...] of the quantiles ``numbers`` [..., K]."""
        return numbers.mean(-1)

    def target(self, quantiles: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | None = None) -> Tensor:
        """Return ``reward`` + ``discount`` * (return + ``bonus``) [..., J] for any J ``quantiles`` [..., J].

        ``reward``, ``discount`` and ``bonus`` are [...]; see :meth:`CategoricalReturns.target`.
        """
        if bonus is not None:
            reward = reward + discount * bonus
        return reward.unsqueeze(-1) + discount.unsqueeze(-1) * quantiles

    def losses(self, quantiles: Tensor, target: Tensor, kappa: float = 1.0) -> Tensor:
        """Return the quantile Huber losses [...] (eq. 10): sums over ``quantiles``, means over those of ``target``.

        ``quantiles`` are [..., K] and ``target`` [..., J], which may be of another number. ``kappa`` is the error from
        which the loss is linear.
        """
        error = target.unsqueeze(-2) - quantiles.unsqueeze(-1)  # [..., K, J]
        size = error.abs()
        squared = 0.5 * error.square()
        linear_part = kappa * (size - 0.5 * kappa)
        huber = torch.where(size <= kappa, squared, linear_part) / kappa
        is_below = (error.detach() < 0).to(error.dtype)
        weight = (self.middles.unsqueeze(-1) - is_below).abs()
        losses = (weight * huber).mean(-1)
        return losses.sum(-1)
