"""ML-Agents' ``behavioral_cloning``: imitating demonstrations beside reinforcement learning, with an Adam of its own.

The loss is ML-Agents': mean squared error between an action *drawn* from the policy, differentiably, and the
demonstrated one, plus the mean cross-entropy of the branches. Its learning rate is ``strength`` times that of the
trainer at the start, and falls linearly over ``steps`` agent steps; when it has, there is no imitation any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from rlcore.environment import BehaviorSpec
from rlcore.errors import RunStateError, TrainingDiverged
from rlcore.plugins.run_context import RunContext
from rlcore.saved_values import saved_mapping
from rlcore.seeding import derive_generator, generator_state, restore_generator
from rlcore.settings import BehavioralCloningSettings
from rlcore.torch.actions import ActionLayout, categorical_log_prob_entropy, mask_logits, squashed_gaussian
from rlcore.torch.divergence import remedy
from rlcore.torch.flat import FlatParameters
from rlcore.torch.minibatch import minibatch_sizes
from rlcore.torch.networks import Actor
from rlcore.torch.optimizer import Adam
from rlcore.torch.recorded import recorded_transitions
from rlcore.torch.schedules import Schedule
from rlcore.torch.transition_batch import ActionBatch, BatchReader

FADED = 1e-10  # the learning rate at which imitation is over
STATE = "behavioral_cloning"  # the entry of a trainer's state
PRETRAINING_LOSS = "Losses/Pretraining Loss"  # ML-Agents' name for it


@attrs.frozen
class ImitationDefaults:
    """What a trainer brings where the block leaves something open."""

    learning_rate: float  # that ``strength`` is a factor on
    adam_epsilon: float
    batch_size: int
    num_epoch: int
    samples_per_update: int | None  # for a configured 0; None: all demonstrations


class BehavioralCloning:
    """Gradient steps towards demonstrations, for the trainer of one behavior."""

    def __init__(
        self,
        settings: BehavioralCloningSettings,
        defaults: ImitationDefaults,
        behavior: BehaviorSpec,
        run: RunContext,
        model: Actor,
        flat: FlatParameters,
    ) -> None:
        """``flat`` holds the actor's parameters. It may hold more: what never has a gradient stays where it is."""
        self.behavior = behavior
        self.model = model
        self.layout = ActionLayout(behavior)
        self.device = flat.parameter.device
        recording = run.read_recording(settings.demo_path, behavior.name)
        buffer = recorded_transitions(recording, behavior, self.layout)
        self.reader = BatchReader(buffer, model.inputs, self.layout, (), self.device)
        self.rows = np.flatnonzero(buffer.flags)  # [N] demonstrated steps
        wanted = settings.samples_per_update or defaults.samples_per_update or len(self.rows)
        self.sizes = minibatch_sizes(min(wanted, len(self.rows)), settings.batch_size or defaults.batch_size)
        self.num_epoch = settings.num_epoch or defaults.num_epoch
        initial = defaults.learning_rate * settings.strength
        self._learning_rate = Schedule("linear" if settings.steps else "constant", initial, FADED, settings.steps)
        self.optimizer = Adam(flat, initial, defaults.adam_epsilon)
        self._generator = derive_generator(run.seed, f"{behavior.name}/behavioral_cloning")

    @classmethod
    def of(
        cls,
        settings: BehavioralCloningSettings | None,
        defaults: ImitationDefaults,
        behavior: BehaviorSpec,
        run: RunContext,
        model: Actor,
        flat: Callable[[], FlatParameters],
    ) -> BehavioralCloning | None:
        """None without the block, and where nothing is learned: then ``flat`` is not called."""
        if settings is None or run.inference:
            return None
        return cls(settings, defaults, behavior, run, model, flat())

    def update(self, step: int) -> float | None:
        """All passes of one update at agent step ``step``; the mean loss, or None when imitation is over."""
        rate = self._learning_rate(step)
        if rate <= FADED:
            return None
        self.optimizer.learning_rate = rate
        losses = []
        for _ in range(self.num_epoch):
            drawn = self._generator.choice(self.rows, sum(self.sizes), replace=False)
            for rows in np.split(drawn, np.cumsum(self.sizes)[:-1]):
                loss = self.loss(self.reader.actions(rows))
                self.optimizer.flat.zero_gradient()
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
                losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if not np.isfinite(mean):
            raise TrainingDiverged(
                f"behavior {self.behavior.name!r}: the loss of behavioral_cloning became {mean:g} in the update at "
                f"step {step}; "
                + remedy(
                    self.reader.buffer,
                    self.reader.inputs.normalizer is not None,
                    strength=0.0,
                    lower="behavioral_cloning.strength",
                    where="recorded data",
                )
            )
        return mean

    def loss(self, batch: ActionBatch) -> Tensor:
        """The loss of one minibatch of demonstrations."""
        columns, logits = self.model.policy(batch.inputs)
        loss: Tensor | None = None
        if columns is not None and batch.raw is not None:
            loss = mse_loss(self._drawn(columns), batch.raw)
        if logits is not None and batch.choices is not None:
            if batch.mask is not None:
                logits = mask_logits(logits, batch.mask)
            parts = logits.split(self.layout.branches, dim=1)  # type: ignore[no-untyped-call]
            likelihoods = [categorical_log_prob_entropy(p, c)[0] for p, c in zip(parts, batch.choices.T, strict=True)]
            cross_entropy = -torch.stack(likelihoods).mean()
            loss = cross_entropy if loss is None else loss + cross_entropy
        assert loss is not None
        return loss

    def _drawn(self, columns: Tensor) -> Tensor:
        """Raw continuous actions [B, continuous] of the policy."""
        shape = (len(columns), self.layout.continuous)
        noise = torch.from_numpy(self._generator.standard_normal(shape, dtype=np.float32)).to(self.device)
        log_std = self.model.policy_head.log_std
        if log_std is None:
            return squashed_gaussian(columns, noise)[0]
        return columns + log_std.exp() * noise

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "generator": generator_state(self._generator)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        restore_generator(self._generator, state["generator"])


def require_imitation_fit(cloning: BehavioralCloning | None, state: Mapping[str, Any], behavior: str) -> None:
    """Raises RunStateError if a trainer's ``state`` is of one that imitated and this one does not, or vice versa."""
    if (cloning is None) == (STATE in state):
        then, now = ("with", "has none") if STATE in state else ("without", "has one")
        raise RunStateError(
            f"behavior {behavior!r}: the checkpoint was saved {then} a behavioral_cloning block and this configuration "
            f"{now}; resume with the block as it was"
        )
    if cloning is not None:
        cloning.optimizer.require_fit(saved_mapping(saved_mapping(state, STATE), "optimizer"))
