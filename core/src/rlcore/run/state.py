"""The state of a run: what its checkpoints save and a resumed run restores.

A checkpoint ends open episodes unless the environment can save itself. This is done in a run that continues and in one
that is resumed, so both are equal.

An environment that ends or fails is asked for nothing any more. What was learned before is whole, and a checkpoint
saves it without the environment: its open episodes are dropped, and the resumed run begins the next ones. In a run of
several ranks, :meth:`rlcore.Ranks.stand_in` takes its place until all ranks stop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.curriculum import RunParameters
from rlcore.contracts.environment import AgentBatch, Environment, KeepsBatches, SavesState
from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.process_generators import ProcessGenerators
from rlcore.contracts.ranks import IdleGroups
from rlcore.contracts.results import BehaviorResult
from rlcore.contracts.saved_values import loading_state, non_finite, saved_mapping
from rlcore.contracts.seeding import EpisodeSeeds
from rlcore.contracts.trainer import PortableTrainer
from rlcore.errors import EnvironmentEnded, EnvironmentFailed, RlcoreError, RunStateError, TrainingDiverged
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed, failure
from rlcore.plugins.known import PACKAGES
from rlcore.run.behaviors.behavior import BehaviorRun, trainer_named
from rlcore.storage.checkpoint_state import ENTRY as SPECS
from rlcore.storage.checkpoint_state import model_of, spec_state
from rlcore.storage.checkpoints import models_at

log = logging.getLogger(__name__)

LOST = "environment_lost"  # the entry of ``run`` of a state: whether the resumed run begins the next episodes


@attrs.define(eq=False)
class RunState:
    """The environment, its behaviors with their trainers, and the curricula of its parameters."""

    context: RunContext
    environment: Environment | None  # None where trainers learn from recorded data
    behaviors: dict[str, BehaviorRun]
    environment_name: str = "environment"  # for messages
    everywhere: Mapping[str, Any] = attrs.field(factory=dict)  # the behaviors of all ranks: see rlcore.Ranks.join
    curricula: RunParameters | None = None  # where the environment has parameters
    parts: tuple[BoundaryPart, ...] = attrs.field(init=False, default=())  # in their order: see rlcore.run.boundaries
    updates_ahead: bool = False  # whether trainers update while a step is under way
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
        return all(
            behavior.steps >= behavior.settings.max_steps or behavior in idle for behavior in self.behaviors.values()
        )

    @property
    def idle(self) -> list[BehaviorRun]:
        """Behaviors whose agents do not act, so that nothing waits for them, where another one has learned to its end.

        All ranks get the same: see :class:`rlcore.IdleGroups`.
        """
        behaviors = list(self.behaviors.values())
        if self.acting is None or all(each.steps < each.settings.max_steps for each in behaviors):
            return []
        return [
            each
            for each, idle in zip(behaviors, self.acting.idle.tolist(), strict=True)
            if idle and each.steps < each.settings.max_steps
        ]

    def results(self) -> dict[str, BehaviorResult]:
        """The current result of every behavior."""
        return {name: behavior.result({}) for name, behavior in self.behaviors.items()}

    def parts_with(self, method: str) -> list[BoundaryPart]:
        """The parts that override ``method``."""
        return [part for part in self.parts if getattr(type(part), method) is not getattr(BoundaryPart, method)]

    def stop_at(self, step: int) -> None:
        """Have the loop stop before the steps of the run, which all behaviors add to, can cross ``step``."""
        learning = [behavior for behavior in self.behaviors.values() if behavior.learning]
        share = -(-(step - self.steps) // max(1, len(learning)))  # one of them has taken this many by then
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
        agents_may_wait = all(each.checks.takes_no_turns is None for each in self.behaviors.values())
        in_step = doing == "in step" and self.on_device is None
        stand_in = ranks.stand_in(self.environment) if in_step and agents_may_wait else None
        if stand_in is None:
            self.between_steps = lost
            raise lost
        self.environment = stand_in
        code = 0 if isinstance(lost, EnvironmentEnded) else lost.exit_code  # as without ranks
        self.context.request_stop(f"rank {ranks.rank}: {lost}", code)
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
        episodes = environment.episodes + 1 if number is None else np.full(environment.num_envs, number, np.int64)
        self._tell_of_reset("before_reset", episodes)
        try:
            batches = self._reset(environment, episodes)
        except BaseException as error:
            self.lose_environment("in reset", error)
        self._tell_of_reset("after_reset", environment.episodes)
        for behavior in self.behaviors.values():
            checked, batch = self._first_batch(behavior, batches, "reset")
            with blamed(trainer_named(behavior), "in begin"):
                behavior.begin(batch, checked)

    def _tell_of_reset(self, method: Literal["before_reset", "after_reset"], episodes: NDArray[np.int64]) -> None:
        """Call ``method`` of the parts that have it, with the episodes of all ranks."""
        parts = self.parts_with(method)
        if not parts:
            return
        everywhere = self.context.ranks.episodes_of_all(episodes)
        for part in parts:
            getattr(part, method)(everywhere)

    def _reset(self, environment: Environment, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Begin ``episodes`` [N] in all environments; what they draw from generators of the process depends on them."""
        seeds = EpisodeSeeds(self.context.seed, self.context.first_env)
        ProcessGenerators.seed(seeds, episodes)
        return environment.reset(seeds, episodes)

    def _first_batch(self, behavior: BehaviorRun, batches: Mapping[str, Any], doing: str) -> tuple[AgentBatch, Any]:
        """The checked batch of ``behavior`` in what ``doing`` of the environment returned, and as it came."""
        seen = batches if self.on_device is None else {name: batch.on_host() for name, batch in batches.items()}
        return behavior.checks.batch_in(seen, doing), batches[behavior.name]

    # ------------------------------------------------------------ checkpoints

    def capture(self, of_run: Mapping[str, Any]) -> dict[str, Any]:
        """The state of a checkpoint: an entry for each trainer, and ``run`` for the rest, with what ``of_run`` has."""
        environment = self.environment
        behaviors = self.behaviors
        state: dict[str, Any] = {}
        for name, behavior in behaviors.items():
            with blamed(trainer_named(behavior), "in state_dict"):
                state[name] = behavior.trainer.state_dict()
            found = non_finite(state[name])
            if found is not None:
                raise TrainingDiverged(
                    f"behavior {name!r}: {found} is not finite at step {behavior.steps}, and is not saved; "
                    f"{TrainingDiverged.ADVICE}"
                )
        where = None
        if isinstance(environment, SavesState) and not self.environment_lost:
            with blamed(self.environment_name, "in state_dict", EnvironmentFailed):
                where = environment.state_dict()
        state["run"] = {
            "seed": self.context.seed,
            "steps": {name: behavior.steps for name, behavior in behaviors.items()},
            "episodes": None if environment is None else environment.episodes.copy(),
            "environment": where,
            LOST: self.environment_lost,
            "behaviors": {name: behavior.state_dict() for name, behavior in behaviors.items()},
            SPECS: {name: spec_state(behavior.spec) for name, behavior in behaviors.items()},
            "curricula": None,  # the entry of a run without environment parameters
            "generators": ProcessGenerators.state_dict(),
            **{part.name: part.state_dict() for part in self.parts_with("state_dict")},
            **of_run,
            **({} if self.acting is None else {"acting": self.acting.state_dict()}),
        }
        return state

    def restore(self, saved: Mapping[str, Any], where: Path, saved_with: str | None = None) -> None:
        """Restore what :meth:`capture` saved. ``where`` is the run directory, for messages.

        With ``saved_with``, such as ``with 3 agents of 'Walk'``, the checkpoint is of a run with other environments,
        agents or ranks: what belongs to these is not restored, and new episodes start. ``run.episodes`` of ``saved``
        are the numbers of episodes then, or that of the latest.
        """
        state = saved["run"]
        portable = saved_with is not None
        checkpoint = _checkpoint_in(state, where)
        self._require_alike(state, where, "behaviors", "environment_parameters")
        for name, behavior in self.behaviors.items():
            _require_sections(saved[name], behavior, where)
            if portable and (self.environment is None or not isinstance(behavior.trainer, PortableTrainer)):
                raise RunStateError(
                    f"{where}: was saved {saved_with}, and trainer {behavior.settings.trainer_type!r} cannot continue "
                    "with another number; resume with as many"
                )
        for part in self.parts_with("load_state_dict"):
            load_part = part.load_learned if portable else part.load_state_dict
            if state.get(part.name) is not None:
                with loading_state(checkpoint, part.described):
                    load_part(state[part.name])
        for name, behavior in self.behaviors.items():
            load_behavior = behavior.load_without_slots if portable else behavior.load_state_dict
            _load(behavior, "load_learned" if portable else "load_state_dict", saved[name], checkpoint)
            with loading_state(checkpoint, f"behavior {name!r}"):
                load_behavior(state["behaviors"][name])
        if portable:
            self.begin_episodes(int(np.max(state["episodes"], initial=0)) + 1)
            return
        if self.acting is not None:
            with loading_state(checkpoint, "acting"):
                self.acting.load_state_dict(saved_mapping(state, "acting"))
        if state[LOST]:
            self.begin_episodes(np.asarray(state["episodes"]) + 1)
            return
        if self.environment is not None:
            self._restore_environment(state, checkpoint)
        with loading_state(checkpoint, "generators"):
            ProcessGenerators.load_state_dict(state["generators"])

    def _restore_environment(self, state: Mapping[str, Any], checkpoint: str) -> None:
        environment = self.environment
        curricula = self.curricula
        assert environment is not None
        if isinstance(environment, SavesState) and state["environment"] is not None:
            owner = self.environment_name.rstrip(",")
            doing = "load_state_dict"
            with blamed(owner, "in load_state_dict", EnvironmentFailed), loading_state(checkpoint, owner):
                batches = environment.load_state_dict(state["environment"])
        else:
            if curricula is not None:
                curricula.replay()
            doing = "reset"
            with blamed(self.environment_name, "in reset", EnvironmentFailed):
                batches = self._reset(environment, np.asarray(state["episodes"]))
        if curricula is not None:
            self.context.ranks.episodes_of_all(environment.episodes)
            curricula.resume()
        for behavior in self.behaviors.values():
            _, behavior.batch = self._first_batch(behavior, batches, doing)

    def other_places(self, saved: Mapping[str, Any]) -> tuple[str, str] | None:
        """How many environments and agents a checkpoint has, and how many there are here; None if they are the same.

        Both are in words. Agents that come and go are counted at each start, and a scene may have been built again.
        """
        state = saved["run"]
        environment = self.environment
        if environment is None or state["episodes"] is None:
            return None
        then = np.size(state["episodes"])
        now = environment.num_envs
        if then != now:
            return f"environment.num_envs {then}", f"{now}"
        for name, behavior in self.behaviors.items():
            places = state[SPECS].get(name)
            if places is None:
                continue
            spec = behavior.spec
            count = len(places["env_index"])
            if count != spec.slots:
                return f"{count} agents of {name!r}", f"{spec.slots}"
            for what in ("env_index", "team", "group"):
                if not np.array_equal(_places(places.get(what)), _places(getattr(spec, what))):
                    return (
                        f"other {what.removesuffix('_index')}s of the agents of {name!r}",
                        "those of this environment",
                    )
        return None

    # ------------------------------------------------------------ what other runs learned

    def load_policies(self, saved: Mapping[str, Any], where: Path) -> None:
        """Load what acting needs from a checkpoint; the environments, and how many there are, may differ."""
        checkpoint = f"checkpoint in {where}"
        if self.curricula is not None and saved["run"].get("curricula") is not None:
            with loading_state(checkpoint, "environment_parameters"):
                self.curricula.load_learned(saved["run"]["curricula"])
        self._require_alike(saved["run"], where, "behaviors")
        for name, behavior in self.behaviors.items():
            _load(behavior, "load_model", saved[name]["model"], checkpoint)
            behavior.policy_steps = int(saved["run"]["steps"][name])

    def load_models(self, models: Mapping[str, Any] | None, origin: str) -> None:
        """Load weights from a behavior's ``init_path``, else from ``models`` of ``origin``, if there are any."""
        for name, behavior in self.behaviors.items():
            path = behavior.settings.init_path
            if path is not None:
                taken_from = f"behaviors.{name}.init_path {path!r}"
                model = model_of(models_at(self.context.absolute(path), taken_from), name, taken_from)
            elif models is not None:
                taken_from = origin
                model = model_of(models, name, origin)
            else:
                continue
            _load(behavior, "load_model", model, taken_from)

    def _require_alike(self, state: Mapping[str, Any], where: Path, *what: str) -> None:
        """Raise RunStateError unless the run of a checkpoint and this one have the same ``what``."""
        then = state.get("curricula")
        curricula = self.curricula
        names = [] if then is None else [name for each in then["curricula"].values() for name in each["parameters"]]
        found: dict[str, tuple[Iterable[Any], Iterable[Any]]] = {
            "behaviors": (state["behaviors"], self.behaviors),
            "environment_parameters": (names, () if curricula is None else curricula.parameters),
        }
        for each in what:
            saved, here = (", ".join(map(str, sorted(values))) or "none" for values in found[each])
            if saved != here:
                raise RunStateError(
                    f"{where}: {each}: the checkpoint has {saved}, this configuration {here}; resume with the "
                    "configuration of the run"
                )


def _places(column: Any) -> Any:
    """An array over slots; an empty one for one that a behavior does not have."""
    return () if column is None else np.asarray(column)


def _load(behavior: BehaviorRun, method: str, state: Any, origin: str) -> None:
    """Call ``method`` of the trainer with ``state``; errors name the trainer and the ``origin`` of the state."""
    with blamed(trainer_named(behavior), f"in {method}"), loading_state(origin, trainer_named(behavior)):
        getattr(behavior.trainer, method)(state)


def _checkpoint_in(state: Mapping[str, Any], where: Path) -> str:
    return f"checkpoint {where / 'checkpoints' / str(sum(state['steps'].values()))}"


def _require_sections(saved: Mapping[str, Any], behavior: BehaviorRun, where: Path) -> None:
    """Raise RunStateError for the entry of a block, such as ``self_play``, that the behavior does not have any more.

    The trainer inside may have another number of slots, and its own message would be about that.
    """
    for key in saved:
        if ("behavior", key) in PACKAGES and key not in behavior.settings.sections:
            raise RunStateError(
                f"{where}: behavior {behavior.spec.name!r} learned with {key}, this configuration has no such block; "
                "resume with the block of the run, or start a new run with initialize_from"
            )
