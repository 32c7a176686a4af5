"""The offline template: gradient steps on recorded data, with no environment in the loop.

A subclass provides a network, optimizers and one gradient step (see ``minibatch_trainer.py``). The data is
read once into the arrays of a replay buffer and never changes. ``steps`` counts gradient steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import attrs
import numpy as np

from rlcore import (
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    Recording,
    RunContext,
    RunStateError,
    one_slot,
    spec_mismatch,
)
from rlcore_torch.allocation import require_memory
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.minibatch_trainer import GradientStep, MinibatchTrainer
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import CLOSED, LEAST_ROWS, TERMINATED, TRUNCATED, Rows
from rlcore_torch.off_policy.replay_sequences import SequenceRows
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
        begin: Raises TypeError, as :meth:`act` does.
        observe: Raises TypeError, as :meth:`act` does.
    """

    hyperparameters: OfflineSettings

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        if run.inference:  # the data is not needed, and may not be there
            return
        recording = run.read_recording(self.hyperparameters.demo_path, behavior.name)
        inputs = self.model.inputs
        layout = self.policy.layout
        self.buffer = recorded_transitions(recording, behavior, layout)
        self._recorded = recording.rows  # [N] rows of the buffer that hold a transition, in the order of time
        self.reader = BatchReader(self.buffer, inputs, layout, self.providers, self.device)
        if inputs.normalizer is not None:
            inputs.update_normalizer(inputs.raw(recording.observations))
            self.policy.refresh()

    # ------------------------------------------------------------ what a subclass may change

    def learn_from(self, rows: Rows | SequenceRows) -> GradientStep:
        """Take one gradient step on the transitions that begin at ``rows`` [B] of the buffer; of sequences with memory.

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
        drawn = self.buffer.sample(batch_size, self.generator)
        step = self.learn_from(self.with_neighbors(drawn, self.buffer))
        stats |= self.summarize([step])
        if self.learning_providers:
            rows = self.buffer.sample(batch_size, self.generator)
            stats |= self.update_providers(self.reader.transitions(rows, self._passing(batch_size)))
        self.gradient_steps += 1
        self.steps += 1
        self.policy.refresh_distribution()
        return stats

    def _passing(self, count: int) -> Rows:
        """Return the rows [count] that pass by in this update: the recording in the order of time, again and again.

        They stand for what an agent would have collected since the last update.
        """
        start = self.gradient_steps * count
        return self._recorded.take(np.arange(start, start + count), mode="wrap")

    def act(self, *given: Any) -> NoReturn:
        """Raise TypeError: there is no environment."""
        raise TypeError(f"{type(self).__name__} learns from recorded data and acts in no environment")

    begin = observe = act

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return what a run must save, and the number of recorded transitions."""
        return super().state_dict() | {"transitions": len(self.buffer)}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        if state["transitions"] != len(self.buffer):
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint was learned from {state['transitions']} recorded "
                f"transitions, {self.hyperparameters.demo_path} holds {len(self.buffer)}; resume with the same data"
            )


def recorded_transitions(recording: Recording, behavior: BehaviorSpec, layout: ActionLayout) -> ReplayBuffer:
    """Return all transitions of ``recording``, for agents of ``behavior``.

    A recording is laid out as a ring of one slot is: the row after a transition holds what followed it. Continuous
    actions become raw ones, within [-1, 1] where the environment's are bounded. Raises ConfigError if the recorded
    agents see or do something else than those of ``behavior``, or chose what their action mask forbids, and if there is
    not enough memory.
    """
    recording = recording.named_as(behavior)
    problem = spec_mismatch(behavior, recording.behavior)
    if problem:
        raise ConfigError(f"behavior {behavior.name!r}: in the recording, {problem}, which its agents have")
    rows = recording.rows
    count = recording.transitions + recording.episodes
    # Recorded stacks are stored as they are: they are written in one piece, not step by step.
    observations = tuple(attrs.evolve(observation, frames=1) for observation in behavior.observations)
    agent = attrs.evolve(one_slot(behavior), observations=observations)
    size = max(count, LEAST_ROWS)
    require_memory(agent, size, what="recorded data")
    buffer = ReplayBuffer(agent, size)
    buffer.rewrite(slice(count), observations=recording.observations)
    if recording.actions.continuous is not None:
        buffer.rewrite(rows, raw=layout.to_raw(recording.actions.continuous))
    if recording.actions.discrete is not None:
        buffer.rewrite(rows, choices=recording.actions.discrete)
        if recording.action_mask is not None:
            chosen = recording.actions.discrete + np.array(layout.offsets)
            allowed = np.take_along_axis(recording.action_mask[rows], chosen, axis=1)
            forbidden = ~allowed.all(1)  # [N]
            if forbidden.any():
                raise ConfigError(
                    f"behavior {behavior.name!r}: in {int(forbidden.sum())} of {len(rows)} recorded steps, step "
                    f"{int(forbidden.argmax())} the first, an option was chosen that the action mask forbids; record "
                    "the masks that held when the actions were chosen, or none"
                )
    buffer.rewrite(rows, reward=recording.reward)
    flags = np.zeros(count, np.uint8)
    flags[rows] = CLOSED + TERMINATED * recording.terminated + TRUNCATED * recording.truncated
    buffer.fill(flags, recording.action_mask)
    return buffer
