"""Behavioral cloning: the policy under which the recorded actions are likeliest (Pomerleau 1991).

:class:`rlcore_torch.OfflineTrainer` reads the data; the loss is below. Neither rewards nor next observations
are used.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlcore import BehaviorSettings, BehaviorSpec, ConfigError, RunContext
from rlcore_offline.likelihood import Imitation
from rlcore_offline.settings import BCSettings
from rlcore_torch import ActionBatch, Actor, GradientStep, OfflineTrainer, Optimizer, Rows, SequenceRows


class BCTrainer(OfflineTrainer):
    """Maximum likelihood of recorded actions: continuous, discrete and hybrid."""

    hyperparameters: BCSettings

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        idle = [name for name in settings.reward_signals if name != "extrinsic"]
        if idle:
            raise ConfigError(
                f"trainer {settings.trainer_type!r} imitates what was recorded and learns from no reward; leave "
                f"{', '.join(idle)} out",
                key=("behaviors", behavior.name, "reward_signals"),
            )
        super().__init__(settings, behavior, run)

    def build_model(self, value_heads: int) -> Actor:
        return Actor(self.behavior, self.settings.network_settings)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}

    def learn_from(self, rows: Rows | SequenceRows) -> GradientStep:
        return self.gradient_step(self.reader.actions(rows))

    def gradient_step(self, batch: ActionBatch) -> GradientStep:
        imitation = Imitation.of(self.model, self.policy.layout, batch)
        loss = -imitation.log_prob.mean()
        optimizer = self.optimizers["policy"]
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        Imitation.limit_std(self.model)
        return GradientStep({"Losses/Policy Loss": loss.detach(), **imitation.statistics(self.policy.layout, batch)})
