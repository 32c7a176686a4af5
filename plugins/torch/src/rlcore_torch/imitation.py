"""ML-Agents' ``behavioral_cloning``: demonstrations are imitated after every update of a reinforcement learner.

The loss is ML-Agents': the mean squared error between an action *drawn* from the policy, differentiably, and the
demonstrated one, plus the mean cross-entropy of the branches. Imitation has an optimizer of its own, of the trainer's
type. Its learning rate starts at ``strength`` times the trainer's and falls linearly over ``steps`` agent steps, after
which imitation is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from rlcore import (
    Recording,
    RunContext,
    RunStateError,
    Trainer,
    TrainerWrapper,
    TrainingDiverged,
    derive_generator,
    generator_state,
    restore_generator,
    saved_mapping,
)
from rlcore_torch.networks.actions import categorical_log_prob_entropy, mask_logits
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.offline import recorded_transitions
from rlcore_torch.off_policy.replay_rings import Rows
from rlcore_torch.off_policy.replay_sequences import SequenceRows, sequences_around
from rlcore_torch.off_policy.transition_batch import ActionBatch
from rlcore_torch.optimization.divergence import remedy
from rlcore_torch.optimization.optimizer import call_after_steps
from rlcore_torch.optimization.schedules import Schedule, constant, linear
from rlcore_torch.settings import BehavioralCloningSettings, OnPolicySettings
from rlcore_torch.template import IMITATION_STATE, TorchTrainer

BLOCK = "behavioral_cloning"  # of a behavior
FADED = 1e-10  # the learning rate at which imitation is over
PRETRAINING_LOSS = "Losses/Pretraining Loss"  # ML-Agents' tag

# ML-Agents' passes over the demonstrations after one gradient step of an off-policy trainer.
OFF_POLICY_EPOCHS = 3


def imitating(trainer: Any, run: RunContext) -> Any:
    """Wrap a trainer of ``rlcore_torch`` so that it imitates; another trainer is returned unchanged.

    Called for a behavior with a ``behavioral_cloning`` block.
    """
    if not isinstance(trainer, TorchTrainer):
        return trainer
    settings = trainer.settings.sections[BLOCK]
    recording = run.read_recording(settings.demo_path, trainer.behavior.name)
    return ImitatingTrainer(trainer, BehavioralCloning(trainer, settings, recording, run.seed))


class ImitatingTrainer(TrainerWrapper):
    """A trainer whose every update is followed by imitation; all else is the trainer's own."""

    trainer: Any

    def __init__(self, trainer: TorchTrainer, cloning: BehavioralCloning) -> None:
        super().__init__(cast(Trainer, trainer))
        self.cloning = cloning

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Update the trainer, then imitate: once, or once for each gradient step of an off-policy trainer."""
        before = getattr(self.trainer, "gradient_steps", 0)
        stats = dict(self.trainer.update())
        times = getattr(self.trainer, "gradient_steps", 1) - before
        losses = []
        for _ in range(times):
            loss = self.cloning.update(self.steps)
            if loss is not None:
                losses.append(loss)
        if losses:
            stats[PRETRAINING_LOSS] = float(np.mean(losses))
            self.trainer.policy.refresh_distribution()
        return stats

    def state_dict(self) -> dict[str, Any]:
        return {**self.trainer.state_dict(), IMITATION_STATE: self.cloning.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        name = self.trainer.behavior.name
        if IMITATION_STATE not in state:
            raise RunStateError(
                f"behavior {name!r}: the checkpoint was saved without a behavioral_cloning block and this "
                "configuration has one; resume with the block as it was"
            )
        of_trainer = dict(state)
        of_imitation = saved_mapping(of_trainer, IMITATION_STATE)
        del of_trainer[IMITATION_STATE]
        # Checked before the trainer loads anything: a state that does not fit changes nothing.
        self.trainer.require_optimizer_fit(self.cloning.optimizer, saved_mapping(of_imitation, "optimizer"))
        self.trainer.load_state_dict(of_trainer)
        self.cloning.load_state_dict(of_imitation)


class BehavioralCloning:
    """Gradient steps towards demonstrations, for the policy of one trainer."""

    def __init__(
        self, trainer: TorchTrainer, settings: BehavioralCloningSettings, recording: Recording, seed: int
    ) -> None:
        h = trainer.hyperparameters
        self.behavior = trainer.policy.behavior
        self.model = trainer.model
        self.layout = trainer.policy.layout
        self.device = trainer.device
        buffer = recorded_transitions(recording, self.behavior, self.layout)
        self.reader = BatchReader(buffer, self.model.inputs, self.layout, (), self.device)
        self.rows = np.flatnonzero(buffer.flags)  # [N] demonstrated steps
        if isinstance(h, OnPolicySettings):
            samples = len(self.rows)
            num_epoch = h.num_epoch
        else:
            # An off-policy trainer may update in every step: all demonstrations in each would take too long.
            samples = h.batch_size
            num_epoch = OFF_POLICY_EPOCHS
        samples = settings.samples_per_update or samples
        self.samples = min(samples, len(self.rows))  # of one pass
        batch_size = settings.batch_size or h.batch_size
        self.parts = max(1, round(self.samples / batch_size))  # minibatches in a pass
        self.num_epoch = settings.num_epoch or num_epoch
        initial = h.learning_rate * settings.strength
        # ML-Agents: `steps: 0` imitates in all of the training, with the same rate.
        share = linear if settings.steps else constant
        self._learning_rate = Schedule(share, initial, FADED, settings.steps)
        # Parameters beside the actor's never get a gradient here, and stay where they are.
        of_trainer = trainer.actor_optimizer()
        self.optimizer = of_trainer.another(initial)
        if of_trainer.after_step is not None:
            call_after_steps(self.optimizer, of_trainer.after_step)
        self._generator = derive_generator(seed, f"{self.behavior.name}/behavioral_cloning")

    def update(self, step: int) -> float | None:
        """Imitate at agent step ``step``. Returns the mean loss, or None when imitation is over."""
        rate = self._learning_rate(step)
        if rate <= FADED:
            return None
        self.optimizer.learning_rate = rate
        losses = []
        for _ in range(self.num_epoch):
            drawn = self._generator.choice(self.rows, self.samples, replace=False)
            for rows in np.array_split(drawn, self.parts):
                batch = self.reader.actions(self._with_neighbors(rows))
                loss = self.loss(batch)
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
                losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if not np.isfinite(mean):
            normalized = self.reader.inputs.normalizer is not None
            advice = remedy(self.reader.buffer, normalized, lower="behavioral_cloning.strength")
            raise TrainingDiverged(
                f"behavior {self.behavior.name!r}: the loss of behavioral_cloning became {mean:g} in the update at "
                f"step {step}; {advice}"
            )
        return mean

    def _with_neighbors(self, rows: Rows) -> Rows | SequenceRows:
        buffer = self.reader.buffer
        memory = self.model.memory
        if memory is None:
            return rows
        return sequences_around(rows, memory, buffer.flags, buffer.slots, self._generator)

    def loss(self, batch: ActionBatch) -> Tensor:
        """The loss of one minibatch of demonstrations."""
        columns, logits = self.model.policy(batch.inputs)
        loss: Tensor | None = None
        if columns is not None and batch.raw is not None:
            loss = mse_loss(self._drawn(columns), batch.raw)
        if logits is not None and batch.choices is not None:
            if batch.mask is not None:
                logits = mask_logits(logits, batch.mask)
            branches = logits.split(self.layout.branches, dim=1)
            log_probs = []
            for branch, choice in zip(branches, batch.choices.T, strict=True):
                log_prob, _ = categorical_log_prob_entropy(branch, choice)
                log_probs.append(log_prob)
            cross_entropy = -torch.stack(log_probs).mean()
            loss = cross_entropy if loss is None else loss + cross_entropy
        assert loss is not None
        return loss

    def _drawn(self, columns: Tensor) -> Tensor:
        """Raw continuous actions [B, continuous], a draw from the policy."""
        head = self.model.policy_head
        noise = self._generator.standard_normal((len(columns), head.noise_size), dtype=np.float32)
        drawn: Tensor = head.distribution.sample(columns, torch.from_numpy(noise).to(self.device))
        return drawn

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "generator": generator_state(self._generator)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        restore_generator(self._generator, state["generator"])
