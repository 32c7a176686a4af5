"""The description of a run: plugins, device, environment, behaviors, and the promise of a resume.

:meth:`rlcore.Run.describe` returns it, and ``rlcore run`` prints it before the training. :func:`promise_of` is the one
place that decides how a resumed run compares with one that is never stopped. An environment, a trainer or the
section of a plugin whose results do not repeat says why in an optional attribute ``resume_limits``; ``resume_notes`` of
an environment are added to an exact promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import attrs

from rlcore.contracts.trainer import NetworkSize
from rlcore.plugins.context import RunContext
from rlcore.plugins.discover import Plugin
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.state import TrainingState
from rlcore.storage.fingerprint import computing_of

__all__ = ["BehaviorDescription", "EnvironmentDescription", "ResumePromise", "StartDescription"]

Kind = Literal["exact", "statistical", "weights only"]


@attrs.frozen
class ResumePromise:
    """How a resumed run compares with one that is never stopped.

    Attributes:
        kind: ``"exact"``: equal, bit for bit, on the same machine with the same versions. ``"statistical"``: alike, but
            not equal. ``"weights only"``: nothing but policies is saved, as in the checkpoints of the best evaluation.
        reasons: What prevents an exact resume; empty if nothing does.
        notes: Limits of an exact resume.
    """

    kind: Kind
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == "exact":
            return "; ".join(("exact", *self.notes))
        if not self.reasons:
            return self.kind
        reasons = " and ".join(self.reasons)
        return f"{self.kind}, because {reasons}"

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """The promise in a checkpoint, whose types were checked."""
        return cls(saved["promise"], tuple(saved["reasons"]), tuple(saved["notes"]))

    def to_json(self) -> dict[str, Any]:
        """``{"promise": "exact", "reasons": [], "notes": []}``, for checkpoints, the status and the result."""
        return {"promise": self.kind, "reasons": list(self.reasons), "notes": list(self.notes)}

    def after(self, differences: tuple[str, ...]) -> ResumePromise:
        """The promise of a run that was resumed with these ``differences`` from its checkpoint."""
        if not differences:
            return self
        reason = f"this process has {', '.join(differences)}"
        return ResumePromise("statistical", (*self.reasons, reason))


def promise_of(context: RunContext, state: TrainingState) -> ResumePromise:
    """The promise that the configuration, the environment and the trainers of a run allow."""
    reasons = tuple(dict.fromkeys(_reasons(context, state)))
    if reasons:
        return ResumePromise("statistical", reasons)
    notes = getattr(state.environment, "resume_notes", ())
    return ResumePromise("exact", notes=(*notes, *_restarts(state)))


def _reasons(context: RunContext, state: TrainingState) -> Iterator[str]:
    for section in context.config.sections.values():
        yield from getattr(section, "resume_limits", ())
    yield from getattr(state.environment, "resume_limits", ())
    yield from state.added_slots
    for behavior in state.behaviors.values():
        yield from getattr(behavior.trainer, "resume_limits", ())


def _restarts(state: TrainingState) -> Iterator[str]:
    """What it costs that the environment cannot save its state: how often all episodes restart."""
    behaviors = [behavior for behavior in state.behaviors.values() if behavior.restarts]
    if not behaviors:
        return
    often = min(behaviors, key=lambda behavior: behavior.checkpoint_interval)
    steps = f"{often.checkpoint_interval:,} steps"
    if len(behaviors) > 1:
        steps += f" of {often.name}"
    # The last checkpoint cuts nothing that would be learned from.
    times = (often.settings.max_steps - 1) // often.checkpoint_interval
    if often.interval_is_open:
        restarts = f"all episodes restart about every 10 minutes, and never within {steps}"
    elif times == 0:
        restarts = "no checkpoint before the end, which would restart all episodes"
    else:
        plural = "s" if times > 1 else ""
        restarts = f"every {steps} all episodes restart, {times} time{plural} in the run"
    yield f"{restarts}, because the environment cannot save its state"


@attrs.frozen
class EnvironmentDescription:
    """The environment that a run steps.

    Attributes:
        type: The registered name.
        id: The id; None if the environment has none.
        num_envs: Number of copies that are stepped together.
        workers: Number of workers that step them; None if the process of the run does.
        executor: How workers run, such as ``processes``; None without workers.
    """

    type: str
    id: str | None
    num_envs: int
    workers: int | None = None
    executor: str | None = None


@attrs.frozen
class BehaviorDescription:
    """One behavior of a run.

    Attributes:
        name: The name of the behavior.
        trainer: The trainer, as the configuration names it.
        sections: The blocks of plugins that the behavior has, such as ``self_play``.
        agents: Number of agents in all copies of the environment; None for recorded data.
        observations: Shape of each observation, by its name.
        continuous: Number of real parts of an action.
        discrete: Number of options of each discrete branch of an action.
        network: The size of its networks; None if the trainer does not say it.
        steps: Agent steps that were taken before this start; gradient steps for recorded data.
        max_steps: Agent steps at which the behavior is finished; None for a run that only acts.
    """

    name: str
    trainer: str
    sections: tuple[str, ...]
    agents: int | None
    observations: Mapping[str, tuple[int, ...]]
    continuous: int
    discrete: tuple[int, ...]
    network: NetworkSize | None
    steps: int
    max_steps: int | None

    @classmethod
    def of(
        cls, behavior: TrainedBehavior, inference: bool = False, state: TrainingState | None = None
    ) -> BehaviorDescription:
        """The description of a behavior that has started; ``inference``: the run only acts."""
        spec = behavior.spec
        settings = behavior.settings
        everywhere = behavior if state is None else state.everywhere.get(spec.name, behavior)
        network = getattr(behavior.trainer, "network_size", None)
        return cls(
            name=spec.name,
            trainer=settings.trainer_type,
            sections=tuple(name for name, block in settings.sections.items() if block is not None),
            agents=None if behavior.offline else len(everywhere.spec.env_index),
            observations={observation.name: observation.shape for observation in spec.observations},
            continuous=spec.continuous,
            discrete=spec.discrete,
            network=network if isinstance(network, NetworkSize) else None,
            steps=behavior.steps,
            max_steps=None if inference else settings.max_steps,
        )


@attrs.frozen
class StartDescription:
    """The facts about a run that has started; ``rlcore run`` prints them.

    Attributes:
        directory: The run directory.
        seed: The seed of the run.
        plugins: The loaded plugins, with their versions; local ones have no distribution.
        device: The device of the networks.
        ranks: The number of processes that torchrun started; 1 without it.
        presets: Each preset with its values as the run has them, and where none was chosen by default.
        collected: The file of a collection that the run began with, such as ``zoo:ppo/CartPole-v1``; None for others.
        environment: The environment; None for a run that learns from recorded data.
        behaviors: The behaviors.
        resume: The promise of a resume; None for a run that only acts, and saves nothing.
    """

    directory: Path
    seed: int
    plugins: tuple[Plugin, ...]
    device: str
    environment: EnvironmentDescription | None
    behaviors: tuple[BehaviorDescription, ...]
    resume: ResumePromise | None
    ranks: int = 1
    presets: tuple[str, ...] = ()
    collected: str | None = None

    @classmethod
    def of(
        cls, context: RunContext, state: TrainingState, plugins: tuple[Plugin, ...], resume: ResumePromise
    ) -> StartDescription:
        """The description of a run that has started."""
        config = context.config
        settings = config.environment
        environment = None
        if state.environment is not None and settings is not None:
            environment = EnvironmentDescription(settings.type, settings.id, config.num_envs)
            executor = settings.executor
            if executor is not None:
                environment = attrs.evolve(environment, workers=executor.count, executor=executor.executor)
        behaviors = []
        for behavior in state.behaviors.values():
            behaviors.append(BehaviorDescription.of(behavior, context.inference, state))
        return cls(
            directory=context.directory,
            seed=context.seed,
            plugins=plugins,
            device=computing_of(config)["device"],
            environment=environment,
            behaviors=tuple(behaviors),
            resume=None if context.inference else resume,
            ranks=context.ranks.size,
        )
