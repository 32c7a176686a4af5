"""Recorded transitions beside those of a run: a second replay buffer, which never changes.

Every minibatch has a fixed number of recorded transitions, and the rest from the run's own replay buffer (Ball et al.
2023, arXiv:2302.02948, section 4.1, with half of each). Recorded transitions are drawn uniformly, whatever the replay
sampler does with the others.
"""

from __future__ import annotations

import attrs
import numpy as np

from rlcore import BehaviorSpec, ConfigError, RunContext
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.networks.models import Actor
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.offline import recorded_transitions
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import Rows
from rlcore_torch.off_policy.transition_batch import TransitionBatch
from rlcore_torch.settings import PriorDataSettings


@attrs.frozen(eq=False)
class PriorData:
    """Recorded transitions that minibatches have a share of.

    Attributes:
        reader: Makes batches from recorded rows, with the rewards, discounts and n of the run.
        rows: [N] rows of the reader's buffer that hold a transition.
        count: Recorded transitions of a minibatch.
    """

    reader: BatchReader
    rows: Rows
    count: int

    @classmethod
    def of(cls, buffer: ReplayBuffer, reader: BatchReader, count: int) -> PriorData:
        """Return those of ``buffer``, which are read as ``reader`` reads the run's own."""
        return cls(attrs.evolve(reader, buffer=buffer), np.flatnonzero(buffer.flags), count)

    def draw(self, generator: np.random.Generator) -> TransitionBatch:
        """Return ``count`` transitions, each equally likely, with replacement; draws as many random numbers."""
        places = generator.integers(len(self.rows), size=self.count)
        return self.reader.read(self.rows[places])


def read_prior_data(
    settings: PriorDataSettings, behavior: BehaviorSpec, model: Actor, layout: ActionLayout, run: RunContext
) -> ReplayBuffer:
    """Return the recorded transitions, which the statistics of normalized observations then know.

    Raises ConfigError if there is no recording of these agents, if it does not fit into memory, and for networks with
    memory and for several ranks.
    """
    key = ("behaviors", behavior.name, "hyperparameters", "prior_data")
    if model.memory is not None:
        raise ConfigError(
            "mixes single transitions, and networks with memory learn from sequences; leave out one of the two", key=key
        )
    if run.ranks.size > 1:
        raise ConfigError("works in one process; leave it out, or start the run without ranks", key=key)
    try:
        recording = run.read_recording(settings.demo_path, behavior.name).named_as(behavior)
    except ConfigError as error:
        raise ConfigError(error.message, key=(*key, "demo_path")) from error
    buffer = recorded_transitions(recording, behavior, layout)
    inputs = model.learner_inputs
    if inputs.normalizer is not None:
        inputs.update_normalizer(inputs.raw(recording.observations))
    return buffer
