"""The intrinsic curiosity module (Pathak et al. 2017, arXiv:1705.05363): a reward for what cannot be predicted.

An encoder turns observations into features. The inverse model predicts the action from the features before and after
it, so features describe what actions have to do with. The forward model predicts the next features from the features
and the action, and its error is the reward.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from rlcore import BehaviorSpec, Transitions
from rlcore_intrinsic.exploration import ExplorationModel, ExplorationReward
from rlcore_intrinsic.network_reward import linear, mean_of, picked
from rlcore_intrinsic.settings import CuriositySettings
from rlcore_torch import Body, Inputs

HIDDEN = 256  # units of the hidden layer of both models, ML-Agents'
FORWARD_SHARE = 0.2  # beta of the paper: the forward model's share of the loss
LOSS_FACTOR = 10.0  # ML-Agents'


class CuriosityModel(ExplorationModel):
    """Encoder, inverse model and forward model. ``branches`` are the sizes of the discrete branches."""

    def __init__(self, behavior: BehaviorSpec, settings: CuriositySettings) -> None:
        super().__init__(behavior, settings)
        self.continuous = behavior.continuous
        self.branches = behavior.discrete
        columns = behavior.continuous + sum(behavior.discrete)
        self.encoder = Body(self.inputs, settings.network)
        features = self.encoder.features
        self.inverse = perceptron(2 * features, columns)
        self.forward_model = perceptron(features + columns, features)

    def features(self, raw: Inputs) -> Tensor:
        """Features [B, F] of observations that are not normalized."""
        features: Tensor = self.encoder(self.inputs(raw))
        return features

    def errors(self, features: Tensor, actions: Tensor, following: Tensor) -> Tensor:
        """Half the squared error [B] of the forward model. Features [B, F] get no gradient.

        With a gradient, the encoder would learn features that are easy to predict, such as constant ones; it learns
        from the inverse model alone (Burda et al. 2018, arXiv:1808.04355, section 2.1).
        """
        inputs = torch.cat((features.detach(), actions), 1)
        difference = self.forward_model(inputs) - following.detach()
        error: Tensor = 0.5 * difference.square().sum(1)
        return error

    def inverse_loss(self, features: Tensor, actions: Tensor, following: Tensor) -> Tensor:
        """Squared error of the continuous parts plus cross-entropy of the branches, both summed; a mean over rows."""
        inputs = torch.cat((features, following), 1)
        predicted: Tensor = self.inverse(inputs)
        difference = (predicted - actions)[:, : self.continuous]
        error = difference.square().sum(1)
        if self.branches:
            one_hot = actions[:, self.continuous :]
            columns = predicted[:, self.continuous :]
            logits = columns.split(self.branches, 1)  # type: ignore[no-untyped-call]
            log_p = torch.cat([log_softmax(branch, 1) for branch in logits], 1)
            log_likelihood = (log_p * one_hot).sum(1)
            error = error - log_likelihood
        return error.mean()


class CuriosityReward(ExplorationReward):
    """Rewards each transition with the error of the forward model."""

    name = "curiosity"
    settings: CuriositySettings
    model: CuriosityModel

    def make_model(self) -> CuriosityModel:
        return CuriosityModel(self.behavior, self.settings)

    def rows(self, transitions: Transitions) -> tuple[Tensor, ...]:
        """Return observations, as many next observations, both not normalized, and actions, each [N, ...]."""
        lead = transitions.reward.ndim
        before = self.raw_inputs(transitions.observations, lead)
        after = self.raw_inputs(transitions.next_observations, lead)
        return *before, *after, self.encoded_actions(transitions)

    def row_errors(self, *rows: Tensor) -> Tensor:
        before, after, actions = parts_of(rows)
        features = self.model.features(before)
        following = self.model.features(after)
        return self.model.errors(features, actions, following)

    def unscaled(self, errors: Tensor) -> Tensor:
        """Return errors of at most 1 / strength: ML-Agents limits rewards to 1 after ``strength``."""
        if self.strength > 0.0:
            return errors.clamp(max=1.0 / self.strength)
        return errors

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Implement :meth:`rlcore.RewardProvider.update`."""
        collected = self.rows(transitions)
        self.measure(transitions, collected)
        losses = []
        for rows in self.minibatches(transitions.reward.size):
            minibatch = picked(collected, rows)
            before, after, actions = parts_of(minibatch)
            features = self.model.features(before)
            following = self.model.features(after)
            forward = self.model.errors(features, actions, following).mean()
            inverse = self.model.inverse_loss(features, actions, following)
            loss = FORWARD_SHARE * forward + (1.0 - FORWARD_SHARE) * inverse
            self.gradient_step(LOSS_FACTOR * loss)
            losses.append(
                {
                    "Losses/Curiosity Forward Loss": forward.detach(),
                    "Losses/Curiosity Inverse Loss": inverse.detach(),
                }
            )
        return mean_of(losses)


def perceptron(inputs: int, outputs: int) -> nn.Sequential:
    """A network with one hidden layer, as ML-Agents' inverse and forward models."""
    first = linear(inputs, HIDDEN)
    last = linear(HIDDEN, outputs)
    return nn.Sequential(first, nn.SiLU(), last)


def parts_of(rows: tuple[Tensor, ...]) -> tuple[Inputs, Inputs, Tensor]:
    """Observations, next observations and actions among the rows of a transition."""
    inputs = len(rows) // 2
    before = rows[:inputs]
    after = rows[inputs:-1]
    return before, after, rows[-1]
