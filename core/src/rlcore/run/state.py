"""The state of a run: what its checkpoints save and a resumed run restores.

A checkpoint ends open episodes unless the environment can save itself. This is done in a run that continues and in one
that is resumed, so both are equal.

An environment that ends or fails is asked for nothing any more. What was learned before is whole, and a checkpoint
saves it without the environment: its open episodes are dropped, and the resumed run begins the next ones. In a run of
several ranks, :meth:`rlcore.Ranks.stand_in` takes its place until all ranks stop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import AgentBatch
from rlcore.contracts.curriculum import EpisodeParameters
from rlcore.contracts.environment import Environment, KeepsBatches, SavesState
from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.ranks import IdleGroups
from rlcore.contracts.results import BehaviorResult
from rlcore.contracts.seeding import EpisodeSeeds, ProcessGenerators
from rlcore.contracts.states import non_finite
from rlcore.errors import EnvironmentEnded, EnvironmentFailed, RlcoreError, TrainingDiverged
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed, failure
from rlcore.run.behaviors.behavior import TrainedBehavior, trainer_named
from rlcore.storage.checkpoint_state import ENTRY as SPECS
from rlcore.storage.checkpoint_state import spec_state

log = logging.getLogger(__name__)

LOST = "environment_lost"  # the entry of ``run`` of a state: whether the resumed run begins the next episodes


@attrs.define(eq=False)
class TrainingState:
    """The environment, its behaviors with their trainers, and the curricula of its parameters."""

    context: RunContext
    environment: Environment | None  # None where trainers learn from recorded data
    behaviors: dict[str, TrainedBehavior]
    environment_name: str = "environment"  # for messages
    everywhere: Mapping[str, Any] = attrs.field(factory=dict)  # the behaviors of all ranks: see rlcore.Ranks.join
    curricula: EpisodeParameters | None = None  # where the environment has parameters
    parts: tuple[BoundaryPart, ...] = attrs.field(init=False, default=())  # in their order: see rlcore.run.boundaries
    updates_while_stepping: bool = False  # whether trainers update while a step is under way
    on_device: KeepsBatches | None = None  # the environment, if its batches are for the trainers alone
    acting: IdleGroups | None = None  # which of several behaviors have agents that act
    added_slots: tuple[str, ...] = ()  # that agents got within the run, in words: see rlcore.AddsSlots
    environment_lost: bool = attrs.field(init=False, default=False)  # it ended or failed
    # The error that ends the run between two steps: everything but a lost environment is whole, and is saved.
    between_steps: RlcoreError | None = attrs.field(init=False, default=None)

    @property
    def steps(self) -> int:
        """Agent steps of all behaviors."""
        return sum(behavior.steps for behavior in self.behaviors.values())

    @property
    def ending(self) -> bool:
        """Whether every behavior has reached its ``max_steps``, except for those that :attr:`idle` says."""
        idle = self.idle
        return all(behavior.at_max_steps or behavior in idle for behavior in self.behaviors.values())

    @property
    def idle(self) -> list[TrainedBehavior]:
        """Behaviors whose agents do not act, so that nothing waits for them, where another one has learned to its end.

        All ranks get the same: see :class:`rlcore.IdleGroups`.
        """
        behaviors = self.behaviors.values()
        if self.acting is None or not any(behavior.at_max_steps for behavior in behaviors):
            return []
        idle = []
        for behavior, does_not_act in zip(behaviors, self.acting.idle.tolist(), strict=True):
            if does_not_act and not behavior.at_max_steps:
                idle.append(behavior)
        return idle

    def results(self) -> dict[str, BehaviorResult]:
        """The current result of every behavior."""
        return {name: behavior.result({}) for name, behavior in self.behaviors.items()}

    def parts_with(self, method: str) -> list[BoundaryPart]:
        """The parts that override ``method``."""
        of_base = getattr(BoundaryPart, method)
        return [part for part in self.parts if getattr(type(part), method) is not of_base]

    def stop_at(self, step: int) -> None:
        """Have the loop stop before the steps of the run, which all behaviors add to, can cross ``step``."""
        learning = [behavior for behavior in self.behaviors.values() if behavior.learning]
        if not learning:
            return
        # When the run reaches `step`, one of n behaviors has taken an n-th of the steps until there, rounded up.
        share = -(-(step - self.steps) // len(learning))
        for behavior in learning:
            behavior.stop_at(behavior.steps + share)

    def lose_environment(self, doing: str, error: BaseException) -> Environment:
        """Raise the error of an environment that ended or failed in ``doing``. Ctrl-C is raised unchanged.

        In a run of several ranks, a step is not the end there: return what takes the place of the environment until all
        ranks stop. That is requested here, with the error as the reason.
        """
        if isinstance(error, KeyboardInterrupt):
            raise error
        assert self.environment is not None, "it was stepped or reset"
        lost = error
        if not isinstance(lost, RlcoreError):
            lost = failure(self.environment_name, doing, error, EnvironmentFailed)
        self.environment_lost = True
        ranks = self.context.ranks
        stand_in = None
        # All agents of a stand-in wait, so it needs trainers that take turns, and batches that the run reads.
        agents_may_wait = all(behavior.checks.takes_no_turns is None for behavior in self.behaviors.values())
        if doing == "in step" and self.on_device is None and agents_may_wait:
            stand_in = ranks.stand_in(self.environment)
        if stand_in is None:
            self.between_steps = lost
            raise lost
        self.environment = stand_in
        exit_code = 0 if isinstance(lost, EnvironmentEnded) else lost.exit_code  # as without ranks
        self.context.request_stop(f"rank {ranks.rank}: {lost}", exit_code)
        log.warning("rank %d: %s; the run stops", ranks.rank, lost)
        return stand_in

    # ------------------------------------------------------------ episodes

    def begin_episodes(self, number: int | NDArray[np.int64] | None = None) -> None:
        """Start the episode ``number`` of every environment, or of each its own; the next one of each if it is None.

        Open episodes bootstrap as if truncated.
        """
        environment = self.environment
        if environment is None:
            return
        episodes = environment.episodes + 1
        if number is not None:
            episodes = np.full(environment.num_envs, number, np.int64)
        self._notify_of_reset("before_reset", episodes)
        try:
            batches = self.reset(environment, episodes)
        except BaseException as error:
            self.lose_environment("in reset", error)
        self._notify_of_reset("after_reset", environment.episodes)
        for behavior in self.behaviors.values():
            checked, batch = self.first_batch(behavior, batches, "reset")
            with blamed(trainer_named(behavior), "in begin"):
                behavior.begin(batch, checked)

    def _notify_of_reset(self, method: Literal["before_reset", "after_reset"], episodes: NDArray[np.int64]) -> None:
        """Call ``method`` of the parts that have it, with the episodes of all ranks."""
        parts = self.parts_with(method)
        if not parts:
            return
        everywhere = self.context.ranks.episodes_of_all(episodes)
        for part in parts:
            getattr(part, method)(everywhere)

    def reset(self, environment: Environment, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Begin ``episodes`` [N] in all environments; what they draw from generators of the process depends on them."""
        seeds = EpisodeSeeds(self.context.seed, self.context.first_env)
        ProcessGenerators.seed(seeds, episodes)  # which no `reset(seed=...)` of an environment reaches
        return environment.reset(seeds, episodes)

    def first_batch(self, behavior: TrainedBehavior, batches: Mapping[str, Any], doing: str) -> tuple[AgentBatch, Any]:
        """The checked batch of ``behavior`` in what ``doing`` of the environment returned, and as it came."""
        readable = batches
        if self.on_device is not None:
            readable = {name: batch.on_host() for name, batch in batches.items()}
        checked = behavior.checks.batch_in(readable, doing)
        return checked, batches[behavior.name]

    # ------------------------------------------------------------ checkpoints

    def capture(self, of_run: Mapping[str, Any]) -> dict[str, Any]:
        """The state of a checkpoint: an entry for each trainer, and ``run`` for the rest, with what ``of_run`` has."""
        environment = self.environment
        trainers: dict[str, Any] = {}
        for name, behavior in self.behaviors.items():
            with blamed(trainer_named(behavior), "in state_dict"):
                trainers[name] = behavior.trainer.state_dict()
            # A loss may be finite after an update that is not. The last checkpoint is to be one to continue from.
            place = non_finite(trainers[name])
            if place is not None:
                raise TrainingDiverged(
                    f"behavior {name!r}: {place} is not finite at step {behavior.steps}, and is not saved; "
                    f"{TrainingDiverged.ADVICE}"
                )
        environment_state = None
        if isinstance(environment, SavesState) and not self.environment_lost:  # a lost one is asked for nothing
            with blamed(self.environment_name, "in state_dict", EnvironmentFailed):
                environment_state = environment.state_dict()
        behaviors = self.behaviors.items()
        run: dict[str, Any] = {
            "seed": self.context.seed,
            "steps": {name: behavior.steps for name, behavior in behaviors},
            "episodes": None if environment is None else environment.episodes.copy(),
            "environment": environment_state,
            LOST: self.environment_lost,
            "behaviors": {name: behavior.state_dict() for name, behavior in behaviors},
            SPECS: {name: spec_state(behavior.spec) for name, behavior in behaviors},
            "curricula": None,  # the entry of a run without environment parameters
            # After trainers and environment: asking them for their state may draw from the generators of the process.
            "generators": ProcessGenerators.state_dict(),
        }
        for part in self.parts_with("state_dict"):
            run[part.name] = part.state_dict()
        run |= of_run
        if self.acting is not None:
            run["acting"] = self.acting.state_dict()
        return {**trainers, "run": run}
