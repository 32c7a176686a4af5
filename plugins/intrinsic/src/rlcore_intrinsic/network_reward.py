"""The part that all rewards of this plugin share: inputs, minibatches, an optimizer, and the state.

Shapes: ``*L`` is the leading shape of the transitions, N their number, B the rows of one minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import (
    BehaviorSpec,
    RunContext,
    TrainingDiverged,
    Transitions,
    derive_generator,
    derive_seed,
    generator_state,
    restore_generator,
    saved_mapping,
)
from rlcore_intrinsic.settings import LearningRewardSettings
from rlcore_torch import ActionLayout, Inputs, ObservationInputs, choose_backend, load_model_state, model_state

ADAM_EPSILON = 1e-8  # PyTorch's, which ML-Agents uses
MOST_ROWS = 1024  # that pass through a network at once: images of a whole rollout would not fit in memory


class RewardModel(nn.Module):
    """Everything of a reward that is saved, apart from optimizer and generator. A subclass adds networks.

    Attributes:
        inputs: Makes inputs of networks from observations, and normalizes them.
    """

    def __init__(self, behavior: BehaviorSpec, settings: LearningRewardSettings) -> None:
        super().__init__()
        network = settings.network
        self.inputs = ObservationInputs(behavior.observations, network.normalize, network.normalize_clip)


class NetworkReward:
    """A base of reward providers whose networks learn. A subclass makes the model and takes gradient steps.

    Attributes:
        name: The key under ``reward_signals``.
        gamma: Discount factor of the reward.
        strength: Factor on the reward.
        ignore_done: Whether the value of the reward continues past the end of an episode.
    """

    name = ""
    ignore_done = False
    settings: LearningRewardSettings
    model: RewardModel

    def __init__(self, settings: LearningRewardSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.gamma = settings.gamma
        self.strength = settings.strength
        self.settings = settings
        self.behavior = behavior
        self.layout = ActionLayout(behavior)
        if settings.encoding_size is not None:
            run.logger("intrinsic").warning(
                "behavior %r: encoding_size of reward %r is deprecated; write network_settings: {hidden_units: %d}",
                behavior.name,
                self.name,
                settings.network.hidden_units,
            )
        # Without ``prepare``: an error of a prediction is a small difference of large numbers, and stays in float32.
        backend = choose_backend(run)
        self.device = backend.device
        purpose = f"{behavior.name}/{self.name}"
        with torch.random.fork_rng(devices=[]):  # initial weights depend on the run's seed alone
            torch.manual_seed(derive_seed(run.seed, f"{purpose}/weights"))
            self.model = self.make_model().to(self.device)
        learned = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = backend.adam(learned, settings.learning_rate, ADAM_EPSILON)
        self.generator = derive_generator(run.seed, f"{purpose}/minibatches")

    # ------------------------------------------------------------ for a subclass to implement

    def make_model(self) -> Any:
        """Return the model, a :class:`RewardModel`. Called once, with PyTorch's generator seeded."""
        raise NotImplementedError

    # ------------------------------------------------------------ for subclasses

    def raw_inputs(self, observations: Mapping[str, NDArray[Any]], lead: int) -> Inputs:
        """Return observations with ``lead`` leading axes as inputs that are not normalized, each [N, ...]."""
        inputs = self.model.inputs.raw(observations, lead)
        return tuple(x.to(self.device) for x in inputs)

    def encoded_actions(self, transitions: Transitions) -> Tensor:
        """Return actions [N, action columns]: continuous parts in [-1, 1] where bounded, then one-hot branches."""
        actions = transitions.actions
        count = transitions.reward.size
        columns: list[NDArray[Any]] = []
        if actions.continuous is not None:
            reals = actions.continuous.reshape(count, -1)
            columns.append(self.layout.to_raw(reals))
        if actions.discrete is not None:
            choices = actions.discrete.reshape(count, -1)
            for branch, options in enumerate(self.layout.branches):
                one_hot = np.eye(options, dtype=np.float32)
                columns.append(one_hot[choices[:, branch]])
        encoded = np.concatenate(columns, 1, dtype=np.float32)
        return torch.from_numpy(encoded).to(self.device)

    def in_parts(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Return ``compute(*rows)`` [N], computed for :data:`MOST_ROWS` rows at once."""
        parts = []
        for first in range(0, len(rows[0]), MOST_ROWS):
            part = [tensor[first : first + MOST_ROWS] for tensor in rows]
            parts.append(compute(*part))
        return torch.cat(parts)

    def minibatches(self, count: int) -> Iterator[Tensor]:
        """Yield the rows of each minibatch of ``count`` transitions, [B]: all have about ``batch_size``."""
        parts = math.ceil(count / self.settings.batch_size)
        for _ in range(self.settings.num_epoch):
            shuffled = self.generator.permutation(count)
            for rows in np.array_split(shuffled, parts):
                yield torch.from_numpy(rows).to(self.device)

    def gradient_step(self, loss: Tensor) -> None:
        """Move the networks against the gradient of ``loss`` []. Raises TrainingDiverged if it is not finite."""
        if not torch.isfinite(loss):
            raise TrainingDiverged(
                f"behavior {self.behavior.name!r}: the loss of reward {self.name!r} became {loss.item():g}; lower "
                f"reward_signals.{self.name}.learning_rate"
            )
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Implement :meth:`rlcore.RewardProvider.state_dict`."""
        return {
            "model": model_state(self.model),
            "optimizer": self.optimizer.state_dict(),
            "generator": generator_state(self.generator),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Implement :meth:`rlcore.RewardProvider.load_state_dict`."""
        # The optimizer is compared before the model is loaded: an entry that does not fit changes neither.
        optimizer = saved_mapping(state, "optimizer")
        self.optimizer.require_fit(optimizer)
        model = saved_mapping(state, "model")
        load_model_state(self.model, model, self.behavior.name)
        self.optimizer.load_state_dict(optimizer)
        generator = saved_mapping(state, "generator")
        restore_generator(self.generator, generator)


def linear(inputs: int, outputs: int, gain: float = 1.0) -> nn.Linear:
    """Return a layer with ML-Agents' initial values: Kaiming normal weights times ``gain``, biases of zero."""
    layer = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
    nn.init.zeros_(layer.bias)
    with torch.no_grad():
        layer.weight *= gain
    return layer


def picked(inputs: Inputs, rows: Tensor) -> Inputs:
    """Return ``rows`` [B] of inputs, each [B, ...]."""
    return tuple(x.index_select(0, rows) for x in inputs)


def mean_of(statistics: list[dict[str, Tensor]]) -> dict[str, float]:
    """Return the mean of each detached statistic over the gradient steps of an update."""
    means = {}
    for tag in statistics[0]:
        values = [step[tag] for step in statistics]
        means[tag] = float(torch.stack(values).mean())
    return means
