"""Random network distillation (Burda et al. 2019, arXiv:1810.12894): a reward for observations that are new.

A predictor learns the outputs of a random network, the target, for the observations that the agents reach. Where its
error is large, they have rarely been.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from rlcore import BehaviorSpec, Transitions
from rlcore_intrinsic.exploration import ExplorationModel, ExplorationReward
from rlcore_intrinsic.network_reward import linear, mean_of, picked
from rlcore_intrinsic.settings import RNDSettings
from rlcore_torch import Body, Inputs, NetworkSettings, ObservationInputs


class Features(nn.Module):
    """A network from inputs to ``hidden_units`` outputs, with ``deeper`` hidden layers more than the settings say."""

    def __init__(self, inputs: ObservationInputs, settings: NetworkSettings, deeper: int = 0) -> None:
        super().__init__()
        self.body = Body(inputs, settings)
        units = settings.hidden_units
        width = self.body.features
        self.head = nn.Sequential()
        for _ in range(deeper):
            self.head.append(linear(width, units))
            self.head.append(nn.ReLU())
            width = units
        self.head.append(linear(width, units))

    def forward(self, inputs: Inputs) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs


class RNDModel(ExplorationModel):
    """The random target, and the predictor, which has two hidden layers more, as in the paper's code."""

    def __init__(self, behavior: BehaviorSpec, settings: RNDSettings) -> None:
        super().__init__(behavior, settings)
        self.target = Features(self.inputs, settings.network).requires_grad_(False)
        self.predictor = Features(self.inputs, settings.network, deeper=2)

    def errors(self, *raw: Tensor) -> Tensor:
        """Squared errors [B] of the predictor, summed over the outputs."""
        inputs = self.inputs(raw)
        difference = self.predictor(inputs) - self.target(inputs)
        error: Tensor = difference.square().sum(1)
        return error


class RNDReward(ExplorationReward):
    """Rewards each transition with the error of the prediction for its next observation."""

    name = "rnd"
    settings: RNDSettings
    model: RNDModel

    def make_model(self) -> RNDModel:
        return RNDModel(self.behavior, self.settings)

    def rows(self, transitions: Transitions) -> Inputs:
        """Return the next observations, not normalized, each [N, ...]."""
        return self.raw_inputs(transitions.next_observations, transitions.reward.ndim)

    def row_errors(self, *rows: Tensor) -> Tensor:
        return self.model.errors(*rows)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Implement :meth:`rlcore.RewardProvider.update`."""
        reached = self.rows(transitions)
        self.measure(transitions, reached)
        losses = []
        for rows in self.minibatches(transitions.reward.size):
            minibatch = picked(reached, rows)
            loss = self.model.errors(*minibatch).mean()
            self.gradient_step(loss)
            losses.append({"Losses/RND Loss": loss.detach()})
        return mean_of(losses)
