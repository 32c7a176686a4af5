"""The description of a run: plugins, device, environments, networks, and the promise of a resume.

``rlcore run`` prints the lines before the training, and :meth:`rlcore.Run.describe` returns the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from rlcore.contracts.trainer import NetworkSize
from rlcore.plugins.context import RunContext
from rlcore.plugins.discover import Plugin
from rlcore.run.behaviors.behavior import BehaviorRun
from rlcore.run.promise import ResumePromise
from rlcore.run.state import RunState
from rlcore.storage.fingerprint import device_of

__all__ = ["BehaviorDescription", "EnvironmentDescription", "RunDescription"]

MOST_BEHAVIORS = 6  # lines of behaviors before the others are only counted
MOST_OBSERVATIONS = 3  # shapes of observations in a line


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

    def __str__(self) -> str:
        copies = "1 copy" if self.num_envs == 1 else f"{self.num_envs} copies"
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        where = f" in {workers} ({self.executor})" if self.workers else ""
        return f"{' '.join(filter(None, (self.type, self.id)))}, {copies}{where}"


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
    def of(cls, behavior: BehaviorRun, inference: bool = False, state: RunState | None = None) -> BehaviorDescription:
        """The description of a behavior that has started; ``inference``: the run only acts."""
        spec = behavior.spec
        exchange = None if state is None else state.exchange
        agents = spec.slots if exchange is None else exchange.behaviors[spec.name].share.total
        size = getattr(behavior.trainer, "network_size", None)
        return cls(
            spec.name,
            behavior.settings.trainer_type,
            tuple(name for name, block in behavior.settings.sections.items() if block is not None),
            None if behavior.offline else agents,
            {each.name: each.shape for each in spec.observations},
            spec.continuous,
            spec.discrete,
            size if isinstance(size, NetworkSize) else None,
            behavior.steps,
            None if inference else behavior.settings.max_steps,
        )

    def __str__(self) -> str:
        parts = [" with ".join(filter(None, (self.trainer, ", ".join(self.sections))))]
        if self.agents is not None:
            parts.append("1 agent" if self.agents == 1 else f"{self.agents} agents")
        parts += [f"observes {self._seen()}", f"acts {self._done()}"]
        if self.network is not None:
            parts.append(f"network {self.network}")
        end = "acts without learning" if self.max_steps is None else f"{self.max_steps:,} steps"
        return "; ".join((*parts, end))

    def _seen(self) -> str:
        shapes = list(self.observations.values())
        texts = [str(shape[0]) if len(shape) == 1 else "x".join(map(str, shape)) or "1" for shape in shapes]
        more = len(texts) - MOST_OBSERVATIONS
        return " + ".join(texts[:MOST_OBSERVATIONS]) + (f" and {more} more" if more > 0 else "")

    def _done(self) -> str:
        parts = [f"continuous {self.continuous}"] if self.continuous else []
        if self.discrete:
            parts.append(f"discrete {'x'.join(map(str, self.discrete))}")
        return " and ".join(parts) or "nothing"


@attrs.frozen
class RunDescription:
    """The facts about a run that has started; :meth:`lines` is the text that ``rlcore run`` prints.

    Attributes:
        directory: The run directory.
        seed: The seed of the run.
        plugins: The loaded plugins, with their versions; local ones have no distribution.
        device: The device of the networks.
        ranks: The number of processes that torchrun started; 1 without it.
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

    @classmethod
    def of(
        cls, context: RunContext, state: RunState, plugins: tuple[Plugin, ...], resume: ResumePromise
    ) -> RunDescription:
        """The description of a run that has started."""
        settings = context.config.environment
        environment = None
        if state.environment is not None and settings is not None:
            num_envs = context.num_envs if state.exchange is None else state.exchange.environment.num_envs
            executor = settings.executor
            in_workers = () if executor is None else (executor.count, executor.executor)
            environment = EnvironmentDescription(settings.type, settings.id, num_envs, *in_workers)
        return cls(
            context.directory,
            context.seed,
            plugins,
            device_of(context.config),
            environment,
            tuple(BehaviorDescription.of(behavior, context.inference, state) for behavior in state.behaviors.values()),
            None if context.inference else resume,
            context.ranks.size,
        )

    def lines(self) -> list[tuple[str, str]]:
        """A label and a text for each line; the label of a behavior is its name."""
        found = [
            ("run", f"{self.directory}, seed {self.seed}"),
            ("plugins", _plugins(self.plugins)),
            ("device", self.device),
            ("learns from" if self.environment is None else "environment", str(self.environment or "recorded data")),
        ]
        if self.ranks > 1:
            found.append(("ranks", f"{self.ranks}, which share the copies of the environment"))
        found += [(each.name, str(each)) for each in self.behaviors[:MOST_BEHAVIORS]]
        more = len(self.behaviors) - MOST_BEHAVIORS
        if more > 0:
            found.append(("", f"and {more} more behavior{'s' if more > 1 else ''}"))
        if self.resume is not None:
            found.append(("resume", str(self.resume)))
        return found


def _plugins(plugins: Iterable[Plugin]) -> str:
    """``core, ppo (0.1.0), acme-rl/reward (2.1), hooks (local)``: names of rlcore's packages are shortened."""
    groups: dict[str, list[str]] = {}
    for plugin in sorted(plugins, key=lambda each: (not each.essential, not each.distribution, each.label)):
        ours = plugin.essential or plugin.distribution == f"rlcore-{plugin.name}"
        name = plugin.name if ours or not plugin.distribution else plugin.label
        groups.setdefault(plugin.version if plugin.distribution else "local", []).append(name)
    return ", ".join(f"{', '.join(names)} ({version})" for version, names in groups.items())
