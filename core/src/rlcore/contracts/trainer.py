"""The trainer contract: numpy in, numpy out, so that a trainer may be written in any framework.

The run calls, for each behavior::

    trainer.begin(batch)                 # new episodes start in all slots; a resumed run calls load_state_dict instead
    loop:
        actions = trainer.act(batch)
        batch = environment.step(actions)
        trainer.observe(actions, batch)  # closes the transition that `act` opened
        if trainer.ready():
            stats = trainer.update()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.policy import Policy, Snapshot


@attrs.frozen
class NetworkSize:
    """The networks of a trainer, for the lines at the start of a run.

    A trainer may have an attribute ``network_size`` of this class; nothing is shown without it.

    Attributes:
        layers: The hidden layers of the policy in words, such as ``2 x 64 tanh``.
        parameters: Number of numbers that updates change, those of critics included.
    """

    layers: str
    parameters: int


@runtime_checkable
class Trainer(Protocol):
    """Learns one behavior. rlcore calls it as the text of :mod:`rlcore.contracts.trainer` shows.

    A trainer of recorded data (``TrainerSpec.offline``) is never asked to ``begin``, ``act`` or ``observe``.

    A trainer whose resumed run is only alike, because it does not save everything, may have an attribute
    ``resume_limits``: a tuple of reasons, such as ``("the cache of rollouts is not saved",)``. The promise of a resume
    repeats them. An attribute ``smaller_checkpoints``, a tuple of texts such as ``("hyperparameters.save_replay_buffer:
    false",)``, names the keys that leave large parts out of its state: the message about a full disk repeats them.

    A trainer whose ``update`` may be called between ``act`` and the ``observe`` that follows, because it learns from
    stored transitions, has an attribute ``updates_while_stepping`` that is True; see ``environment.workers.overlap``.
    """

    @property
    def steps(self) -> int:
        """The number of agent steps observed so far; of gradient steps for a trainer of recorded data.

        A subclass may store it as a plain attribute.
        """

    @property
    def policy(self) -> Policy:
        """The current policy. A subclass may store it as a plain attribute."""

    def snapshot(self, state: Mapping[str, Any] | None = None) -> Snapshot:
        """A frozen copy of the current policy, or the one whose ``state_dict`` was ``state``.

        Raises RunStateError for a state that does not fit.
        """

    def begin(self, batch: AgentBatch) -> None:
        """Begin new episodes in all slots. Open episodes are cut: they bootstrap as if truncated, not terminated."""

    def act(self, batch: AgentBatch) -> Actions:
        """Return an exploring action for every slot, in the environment's units."""

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Observe what ``actions`` led to. ``batch`` is valid only during the call."""

    def ready(self) -> bool:
        """Whether enough was collected for :meth:`update`."""

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Take all gradient steps on the collected data. Return statistics by TensorBoard tag ("Losses/Policy Loss").

        A value is a number, or a sequence with one number per episode; each episode has the same weight in the summary.
        """

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to continue bit for bit: nested mappings of numpy arrays and JSON values.

        The entry ``"model"`` holds what ``--initialize-from`` loads into a new run (weights and normalizers). A part
        that never changes is best returned as a :class:`rlcore.FrozenState`: its arrays are stored once.
        Numbers below ``"model"``, ``"optimizer"`` and ``"optimizers"`` must be finite: a checkpoint in which they are
        not is neither saved nor loaded.
        """

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""

    def load_model(self, model: Mapping[str, Any]) -> None:
        """Load the ``"model"`` entry of another run's state: weights, not optimizers or counters."""


@runtime_checkable
class PartialTrainer(Trainer, Protocol):
    """A trainer that learns from some of its slots only, as self-play does, where other slots play as earlier policies.

    Episodes of the other slots count neither for the statistics and results of a run nor for its curricula.

    Attributes:
        learning_slots: [S] True: the trainer learns from the slot's open episode.
    """

    learning_slots: NDArray[np.bool_]


@runtime_checkable
class PortableTrainer(Trainer, Protocol):
    """A trainer that continues from the state of a run with another number of ranks, and so with other slots."""

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Continue from the weights, optimizers and counters of ``state``, without what belongs to slots.

        Rollouts and replay buffers start empty. Raises RunStateError, changing nothing, if the state does not fit.
        """


@runtime_checkable
class PlayingTrainer(Trainer, Protocol):
    """A trainer whose agents go on playing in their own way when the behavior has reached ``max_steps``.

    For example, opponents of behaviors that still learn. The run then calls ``act``, ``observe`` and ``begin`` as
    before, but neither ``ready`` nor ``update``. With any other trainer, the agents act with its final policy.
    """

    def stop_learning(self) -> None:
        """Learn from nothing any more: ``steps`` and the policy stay. Called more than once."""


class TrainerWrapper:
    """A trainer around another one: derive from it, and override what differs.

    Everything else goes to ``trainer``, the inner one, attributes outside the contract included. An overriding
    ``state_dict`` adds an entry to the state of the inner trainer, which ignores it:
    ``{**self.trainer.state_dict(), "my_plugin": ...}``.

    Attributes:
        trainer: The inner trainer.
        learns_in_ranks: Whether the wrapper works in a run of several processes, where the inner trainer exchanges what
            it learns: all of them call the methods of the inner trainer at the same steps, and ``load_learned`` of
            :class:`PortableTrainer` is overridden if the wrapper has a state. False: such a run is refused.
    """

    learns_in_ranks: ClassVar[bool] = False

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["trainer"], name)

    @property
    def steps(self) -> int:
        """The steps of the inner trainer."""
        return self.trainer.steps

    @property
    def policy(self) -> Policy:
        """The policy of the inner trainer."""
        return self.trainer.policy

    def snapshot(self, state: Mapping[str, Any] | None = None) -> Snapshot:
        """Call :meth:`Trainer.snapshot` of the inner trainer."""
        return self.trainer.snapshot(state)

    def begin(self, batch: AgentBatch) -> None:
        """Call :meth:`Trainer.begin` of the inner trainer."""
        self.trainer.begin(batch)

    def act(self, batch: AgentBatch) -> Actions:
        """Call :meth:`Trainer.act` of the inner trainer."""
        return self.trainer.act(batch)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Call :meth:`Trainer.observe` of the inner trainer."""
        self.trainer.observe(actions, batch)

    def ready(self) -> bool:
        """Call :meth:`Trainer.ready` of the inner trainer."""
        return self.trainer.ready()

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Call :meth:`Trainer.update` of the inner trainer."""
        return self.trainer.update()

    def state_dict(self) -> dict[str, Any]:
        """Call :meth:`Trainer.state_dict` of the inner trainer."""
        return self.trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Call :meth:`Trainer.load_state_dict` of the inner trainer."""
        self.trainer.load_state_dict(state)

    def load_model(self, model: Mapping[str, Any]) -> None:
        """Call :meth:`Trainer.load_model` of the inner trainer."""
        self.trainer.load_model(model)
