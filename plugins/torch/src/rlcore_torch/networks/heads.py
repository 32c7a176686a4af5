"""The head of a policy: features to the parameters of the joint distribution of actions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.networks.distributions import ActionDistribution
from rlcore_torch.networks.layers import initialize

__all__ = ["PolicyHead"]


class PolicyHead(nn.Module):
    """Features [B, features] to the parameters of the joint action distribution.

    ``linear`` returns [B, continuous + logits]: first the columns of the continuous parts, then one logit for each
    option of all branches, branch after branch. :meth:`split` separates the two.

    Attributes:
        distribution: The distribution of the continuous parts, which says what their columns mean; None without them.
            It has ``columns`` numbers for each part. Those of a Gaussian are all means, then all log standard
            deviations if these depend on the observations.
        columns: The number of columns of the continuous parts that ``linear`` returns; 0 without such parts.
        continuous: The number of these columns, and of features that the distribution reads beside them.
        reads_features: Whether the features follow the columns of ``linear``, because the distribution reads them.
        logits: The number of options of all branches; 0 without branches.
        linear: The layer.
    """

    def __init__(self, features: int, layout: ActionLayout, init: str, distribution: ActionDistribution | None) -> None:
        super().__init__()
        self.distribution = distribution if layout.continuous else None
        self.columns = 0
        self.continuous = 0
        self.reads_features = False
        if self.distribution is not None:
            self.reads_features = self.distribution.reads_features
            if self.reads_features:  # before anything that depends on their number
                self.distribution.read_features(features)
            self.columns = layout.continuous * self.distribution.columns
            self.continuous = self.distribution.width
        self.logits = layout.logits
        self.linear = nn.Linear(features, self.columns + layout.logits)
        # Small, so that the first actions hardly depend on the observation (Andrychowicz et al. 2021,
        # arXiv:2006.05990, section 3.2); 0.01 is OpenAI Baselines'.
        gain = 0.01 if init == "orthogonal" else 0.1
        initialize(self.linear, init, gain)
        with torch.no_grad():
            weight = self.linear.weight[: self.columns]
            bias = self.linear.bias[: self.columns]
            if init == "kaiming":
                weight *= 2.0  # ML-Agents: 0.2 for means, 0.1 for logits
            if self.distribution is not None:
                self.distribution.initialize(weight, bias)

    @property
    def noise_size(self) -> int:
        """The standard normal numbers that one draw of the continuous parts needs."""
        if self.distribution is None:
            return 0
        return self.distribution.noise_size

    @property
    def held_size(self) -> int:
        """The standard normal numbers that an agent keeps for ``distribution.hold`` steps while it explores."""
        if self.distribution is None:
            return 0
        return self.distribution.held_size

    @property
    def hold(self) -> int:
        """Environment steps for which an agent that explores keeps its noise."""
        if self.distribution is None:
            return 1
        return self.distribution.hold

    def forward(self, features: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts, features that are read among them, and the logits [B, logits].

        A part that the behavior does not have is None.
        """
        output = self.linear(features)
        columns, logits = self.split(output)
        if self.reads_features and columns is not None:
            columns = torch.cat((columns, features), dim=1)
        return columns, logits

    def split(self, output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts, without features, and the logits [B, logits] of ``output``.

        ``output`` [B, columns + logits] is that of the linear layer. A part that the behavior does not have is None.
        """
        if not self.logits:
            return output, None
        if not self.columns:
            return None, output
        return output[:, : self.columns], output[:, self.columns :]
