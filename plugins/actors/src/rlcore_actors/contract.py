"""The contract of fragments: what a trainer offers whose agents are played by actors.

An *actor* has environments and a copy of the policy. It plays a *fragment*, some steps of all its environments, and
sends it to the learner, the trainer of the run. A fragment takes the place of a batch, and the state of the policy that
of actions: the loop of the run, which looks at neither (:class:`rlcore.KeepsBatches`), calls::

    state = trainer.act(fragment)         # the weights to act with now: the same object until an update
    fragment = environment.step(state)    # one that an actor has played, maybe with earlier weights
    trainer.observe(state, fragment)
    if trainer.ready():
        trainer.update()

Whatever stands between batches and trainers does not see fragments: wrappers of trainers, such as self-play, curricula,
rewards that learn, groups, and agents that take turns are refused.

Shapes: T rows of a fragment, S slots of an actor, K rows that ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch

__all__ = ["ActingState", "Fragment", "FragmentActor", "FragmentTrainer"]


@attrs.frozen(eq=False)
class ActingState:
    """The state of a policy that actors act with.

    Attributes:
        version: Number of the state: it grows with each update.
        arrays: Weights and statistics of observations by name.
    """

    version: int
    arrays: Mapping[str, NDArray[Any]] = attrs.field(repr=False)


@attrs.frozen(eq=False)
class Fragment:
    """Steps that an actor played with one state of the policy.

    Attributes:
        first: The first of the actor's slots, among those of the run.
        slots: S.
        version: The :attr:`ActingState.version` that acted.
        continues: Whether its first row follows the last row of the fragment before it, of the same slots.
        transitions: What :meth:`FragmentActor.fragment` returned.
        reward: [T, S] rewards of the steps, for statistics.
        ended: [T, S] whether the episode ended in the step.
        info: Numbers that the environment reports of ended episodes, each [K] in the order of rows, then slots.
    """

    first: int
    slots: int
    version: int
    continues: bool
    transitions: Mapping[str, Any] = attrs.field(repr=False)
    reward: NDArray[np.float32] = attrs.field(repr=False)
    ended: NDArray[np.bool_] = attrs.field(repr=False)
    info: Mapping[str, NDArray[np.float64]] = attrs.field(factory=dict, repr=False)

    def batches(self, total: int, aborts: bool = False) -> Iterator[AgentBatch]:
        """Yield the steps as batches of all ``total`` slots of the run, without observations, for statistics.

        Other slots wait. With ``aborts``, the episodes that were open in the slots are dropped first.
        """
        own = slice(self.first, self.first + self.slots)
        never = np.zeros(total, np.bool_)
        acts = never.copy()
        acts[own] = True
        zero = np.zeros(total, np.float32)
        if aborts:
            yield AgentBatch({}, zero, never, never, needs_action=never, aborted=acts)
        row_of_info = 0
        for reward, ended in zip(self.reward, self.ended, strict=True):
            of_all = zero.copy()
            of_all[own] = reward
            over = never.copy()
            over[own] = ended
            batch = AgentBatch({}, of_all, over, never, needs_action=acts)
            if self.info and len(batch.ended):
                rows = slice(row_of_info, row_of_info + len(batch.ended))
                batch.final_info = {name: values[rows] for name, values in self.info.items()}
                row_of_info = rows.stop
            yield batch


@runtime_checkable
class FragmentActor(Protocol):
    """Acts in an actor with a copy of the policy, and keeps what it did. Made by :meth:`FragmentTrainer.make_actor`."""

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Act with this state of the policy from now on. Called before a fragment, never within one."""

    def begin(self, batch: AgentBatch) -> None:
        """Begin new episodes in all slots."""

    def act(self, batch: AgentBatch) -> Actions:
        """Return exploring actions for all slots."""

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Keep what the actions led to."""

    def fragment(self) -> dict[str, Any]:
        """Return what was kept since the last call, as nested mappings of arrays and JSON values.

        Log-probabilities are of the policy that acted, with its statistics of observations.
        """


@runtime_checkable
class FragmentTrainer(Protocol):
    """The methods that a :class:`rlcore.Trainer` has besides, if its agents may be played by actors."""

    def take_fragments(self) -> str | None:
        """Observe fragments from now on, in the place of batches; called before the first ``begin``.

        From then on, ``act`` returns an :class:`ActingState`, and ``observe`` gets a :class:`Fragment`. Returns None,
        or why the trainer cannot do so, in words.
        """

    def make_actor(self) -> FragmentActor:
        """Return what acts for this trainer, which was made in an actor: of its slots, and with purpose ``inference``.

        Called in place of :meth:`take_fragments`.
        """

    def require_fragment(self, fragment: Fragment) -> None:
        """Raise SavedValueError for transitions of other types or shapes than the trainer learns from.

        NonFiniteError is raised for a number that is not finite. Called before the trainer observes the fragment.
        """
