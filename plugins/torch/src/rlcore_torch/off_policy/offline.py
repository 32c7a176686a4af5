"""The offline template: gradient steps on recorded data, with no environment in the loop.

A subclass provides a network, optimizers and one gradient step (see :mod:`rlcore_torch.minibatch_trainer`). The data is
read once into the arrays of a replay buffer and never changes. ``steps`` counts gradient steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rlcore import Actions, AgentBatch, BehaviorSettings, BehaviorSpec, RunContext, RunStateError
from rlcore_torch.minibatch_trainer import GradientStep, MinibatchTrainer
from rlcore_torch.off_policy.recorded import recorded_transitions
from rlcore_torch.off_policy.replay import Rows
from rlcore_torch.off_policy.transition_batch import BatchReader
from rlcore_torch.settings import OfflineSettings

__all__ = ["OfflineTrainer"]


class OfflineTrainer(MinibatchTrainer):
    """A trainer that learns from recorded data alone.

    A subclass implements :meth:`build_model`, :meth:`build_optimizers` and :meth:`gradient_step`. Its record sets
    ``offline=True``, so that no environment is created. The normalizer sees the whole recording before the first step
    and stays fixed. Raises ConfigError if there is no recording of these agents.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        buffer: The recorded transitions.
    """

    hyperparameters: OfflineSettings
    source = "recorded data"

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        if run.inference:  # the data is not needed, and may not be there
            return
        recording = run.read_recording(self.hyperparameters.demo_path, behavior.name)
        inputs, layout = self.model.inputs, self.policy.layout
        self.buffer = recorded_transitions(recording, behavior, layout)
        self.reader = BatchReader(self.buffer, inputs, layout, self.providers, self.device)
        if inputs.normalizer is not None:
            inputs.update_normalizer(inputs.raw(recording.observations))
            self.policy.refresh()

    # ------------------------------------------------------------ what a subclass may change

    def learn_from(self, rows: Rows) -> GradientStep:
        """Take one gradient step on the transitions that begin at ``rows`` [B] of the buffer.

        By default it reads everything and calls :meth:`gradient_step`. A trainer that needs less may read less.
        """
        return self.gradient_step(self.reader.read(rows))

    # ------------------------------------------------------------ the Trainer contract

    def ready(self) -> bool:
        """Return True: all data is there."""
        return True

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Take one gradient step. Raises TrainingDiverged if a statistic is not finite."""
        stats = self.set_learning_rates()
        batch_size = self.hyperparameters.batch_size
        stats |= self.summarize([self.learn_from(self.buffer.sample(batch_size, self.generator))])
        if self.learning_providers:
            stats |= self.update_providers(self.reader.transitions(self.buffer.sample(batch_size, self.generator)))
        self.gradient_steps += 1
        self.steps += 1
        self.policy.refresh_distribution()
        return stats

    def begin(self, batch: AgentBatch) -> NoReturn:
        """Raise TypeError: there is no environment."""
        self._no_environment()

    def act(self, batch: AgentBatch) -> Actions:
        """Raise TypeError: there is no environment."""
        self._no_environment()

    def observe(self, actions: Actions, batch: AgentBatch) -> NoReturn:
        """Raise TypeError: there is no environment."""
        self._no_environment()

    def _no_environment(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} learns from recorded data and acts in no environment")

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Implement :meth:`rlcore.Trainer.state_dict`."""
        return super().state_dict() | {"transitions": len(self.buffer)}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        if state["transitions"] != len(self.buffer):
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint was learned from {state['transitions']} recorded "
                f"transitions, {self.hyperparameters.demo_path} holds {len(self.buffer)}; resume with the same data"
            )
