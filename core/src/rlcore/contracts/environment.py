"""The environment contract: N environments stepped together, everything an array over slots.

A *slot* is one row of a behavior's arrays: the place of one live agent. With one agent each, slot i is
environment i.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.seeding import EpisodeSeeds
from rlcore.errors import ConfigError, did_you_mean

Parameters = Mapping[str, NDArray[np.float64]]
"""Values of environment parameters by name: [N], one for each environment."""


@runtime_checkable
class Environment(Protocol):
    """N environments of one kind that step together.

    Rules, all checked by :class:`rlcore_devkit.EnvironmentConformance`:

    * ``reset`` starts an episode in every environment: environment ``c`` plays the episode numbered ``episodes[c]``
      with the seed ``seeds(c, episodes[c])``. After an automatic reset it plays the next number, with the seed of that
      number. An episode therefore does not depend on when, or in which process, it is played. If all N environments
      share one random generator, ``reset`` seeds it with ``seeds(0, episodes.sum())``.
    * ``episodes`` [N] counts up as environments start episodes; a checkpoint stores it.
    * Equal seeds, equal parameters and equal actions give equal batches. An environment that cannot keep this rule may
      have an attribute ``resume_limits``: a tuple of reasons, such as ``("workers answer in the order in which they
      finish",)``. The promise of a resume repeats them. An optional tuple ``resume_notes`` has limits of a promise that
      is exact all the same.
    * A run seeds the generators of the process, Python's ``random`` and ``numpy.random``, before it creates
      environments and before each ``reset``; checkpoints save them.

    Attributes:
        behaviors: The behaviors by name. They do not change while the environment is open, but by :class:`AddsSlots`.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode that each environment is in.
    """

    behaviors: Mapping[str, BehaviorSpec]
    num_envs: int
    episodes: NDArray[np.int64]

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start episode ``episodes[c]`` in every environment c, with the seed ``seeds(c, episodes[c])``; ``episodes``
        is [N].

        Returns a batch for each behavior, by name. The batches have zero rewards and no ended rows.
        """

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move every environment once with the actions of each behavior, and return a batch for each behavior, by name.

        Every environment whose episode ends starts the next one at once.

        Raise an exception if a step fails: rlcore reports it as an :class:`~rlcore.EnvironmentFailed`. Raise
        :class:`~rlcore.EnvironmentEnded` if the environment ended by itself, which is not a failure. Either way the run
        saves what was learned before this step, and asks the environment for nothing more than ``close``.
        """

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the parameters of the next episode of every environment, also of one that ``reset`` starts.

        Open episodes keep their values. ``parameters[name][c]`` is the value for environment c. A parameter that is
        not in ``parameters`` keeps its previous value. The caller owns the arrays and changes them only before it calls
        this method again: the environment may keep them, but must not write into them.

        Raises ConfigError for a name the environment does not have, with those it has.
        """

    def close(self) -> None:
        """Free what the environment holds; may be called twice.

        Under ``rlcore run`` and ``rlcore evaluate`` it may take 5 seconds; more if the environment has an attribute
        ``close_seconds``, such as the time in which a simulator may close its files.
        """


@attrs.frozen
class ParameterSampler:
    """A distribution of an environment parameter, from which an environment may draw by itself.

    Attributes:
        kind: ``uniform``, ``gaussian``, or ``multirange``, uniformly over all of several intervals together.
        numbers: Both bounds; mean and standard deviation; or both bounds of each interval, one after the other.
        seed: Seed of the random numbers, from 0 to 2**31 - 1.
    """

    kind: Literal["uniform", "gaussian", "multirange"]
    numbers: tuple[float, ...]
    seed: int


@runtime_checkable
class DrawsParameters(Protocol):
    """An environment whose agents draw values by themselves, because their episodes begin at different times.

    A run tells it the samplers of those parameters that a curriculum draws from one distribution. Values of these
    parameters that ``set_parameters`` gives are not used, and not reported.
    """

    def set_samplers(self, samplers: Mapping[str, ParameterSampler]) -> None:
        """Draw the values of these parameters, and of no others, from the next episodes on."""


@runtime_checkable
class AddsSlots(Protocol):
    """An environment in which more agents may appear than it has slots for, such as a simulator that creates agents.

    A run looks at it between two summaries. If it wants slots, the run saves a checkpoint, has it add them, makes new
    trainers that continue from what the old ones learned, and begins new episodes. This is not done in a run of several
    ranks. An environment that wraps this one, and keeps something for each slot, has both members too.

    Attributes:
        wants_slots: Whether agents have appeared that have no slot, since slots were last added.
    """

    wants_slots: bool

    def add_slots(self) -> None:
        """Give the agents that were seen without a slot one each: :attr:`Environment.behaviors` are others from now on.

        No behavior comes, goes or sees or does anything else. ``reset`` follows.
        """


@runtime_checkable
class SavesState(Protocol):
    """An environment that can save its state; checkpoints then do not end its open episodes."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as nested mappings of numpy arrays and JSON values, which a checkpoint stores."""

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state`` and return the current batches (observations and masks; no reward).

        Raises RunStateError if the state does not fit.
        """


@runtime_checkable
class SavesRows(SavesState, Protocol):
    """An environment whose state has rows, so that a run may be resumed with another number of workers.

    Every array and every list in the state, however deep in mappings, has one row for each environment, in their
    order; lists and arrays within a row are its own. Other values are equal in all blocks of a run's environments,
    but for ``first_env``, the number of the first one.

    Attributes:
        saves_rows: Whether the state has rows.
    """

    saves_rows: bool


@runtime_checkable
class SendsSteps(Protocol):
    """An environment whose step has two halves, between which a trainer may update; ``step`` is one after the other."""

    def send(self, actions: Mapping[str, Actions]) -> None:
        """Begin a step with the actions of each behavior, without waiting.

        The latest batches are not valid any more.
        """

    def receive(self) -> dict[str, AgentBatch]:
        """Wait for the step that was sent, and return a batch for each behavior, by name."""


@runtime_checkable
class KeepsBatches(Protocol):
    """An environment whose batches can stay on a device, for trainers that read them there.

    The run then hands the actions and the batches of a step on as they are, without a look at them. It checks the
    batches of ``reset`` and ``load_state_dict``, and counts the episodes of what :meth:`played` returns.
    """

    def keep_batches(self, trainers: Sequence[Any]) -> bool:
        """Return whether batches stay on the device from now on, for these trainers, one for each of ``behaviors``.

        Called once in a training, before episodes begin. The batches, of any class, are then for these trainers alone;
        each has a method ``on_host()`` that returns it as an :class:`AgentBatch`.
        """

    def played(self) -> Mapping[str, Iterable[AgentBatch]]:
        """Return, for each behavior, the batches of all steps since the last call, in order; observations may be empty.

        Called before a run makes a summary, a checkpoint or an evaluation, and at its end.
        """


@runtime_checkable
class ReportsStats(Protocol):
    """An environment with numbers about itself for the summaries of a run."""

    def stats(self) -> Mapping[str, float]:
        """Return scalars by tag; every summary of training calls it."""


def refuse_unknown_parameters(names: Iterable[str], known: Iterable[str], environment: str) -> None:
    """Raise ConfigError for the first of the parameter ``names`` that is not in ``known``; for ``set_parameters``.

    The message lists the ``known`` names, and calls the environment ``environment``.
    """
    known = tuple(known)
    for name in names:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(
                f"{environment} has no such parameter; {has}{did_you_mean(name, known)}",
                key=("environment_parameters", name),
            )
