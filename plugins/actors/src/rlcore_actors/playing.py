"""An actor makes its environments and a copy of the policy, and plays fragments.

Shapes: N environments of the actor, S slots of it, T rows of a fragment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BatchCheck,
    BehaviorSpec,
    ConfigError,
    EnvironmentFailed,
    EpisodeSeeds,
    Plugins,
    ProcessGenerators,
    RunConfig,
    RunContext,
    TrainerSpec,
    UnsupportedSpace,
    derive_seed,
)
from rlcore_actors.contract import FragmentActor
from rlcore_workers import make_environment

__all__ = ["Playing", "Share", "refusal_of"]


@attrs.frozen(kw_only=True)
class Share:
    """The part of a run that one actor plays.

    Attributes:
        place: Number of the actor, from 0; a place is taken again when its actor is gone.
        attempt: How many actors had the place before.
        envs: N.
        steps: T, the steps of a fragment.
        seed: Seed of the run.
    """

    place: int
    attempt: int
    envs: int
    steps: int
    seed: int

    @property
    def first_env(self) -> int:
        """Number, in the run, of the first environment."""
        return self.place * self.envs


def refusal_of(trainer: Any, settings: Any) -> ConfigError | None:
    """Return the error for a trainer that learns from no fragments; None if it does.

    The method is that of the trainer itself: a wrapper observes batches, which there are not.
    """
    named = f"trainer {settings.trainer_type!r}"
    if getattr(type(trainer), "take_fragments", None) is not None:
        return None
    cause = f"{named} learns from batches of all agents"
    inner = getattr(trainer, "trainer", None)
    if getattr(type(inner), "take_fragments", None) is not None:
        cause = f"{type(trainer).__name__} wraps {named} and observes batches of all agents"
    return ConfigError(
        f"actors send fragments, and {cause}; choose trainer_type appo or impala without self_play and other wrappers, "
        "or the executor processes",
        key=("environment", "workers"),
    )


class Playing:
    """The environments of an actor and its copy of the policy.

    Attributes:
        behavior: The behavior of the agents, in the environments of this actor.
    """

    def __init__(self, share: Share, config: RunConfig, plugins: Plugins, directory: Path, working: Path) -> None:
        """Make both. ``directory`` is that of the run, or another one where files may be left.

        Raises ConfigError and UnsupportedSpace for what actors cannot play, and what making the environments raises.
        """
        self._share = share
        context = RunContext(
            config,
            plugins,
            directory,
            share.seed,
            share.envs,
            first_env=share.first_env,
            working_directory=working,
        )
        self._seeds = EpisodeSeeds(share.seed, share.first_env)
        ProcessGenerators.seed(self._seeds)
        self._environment = make_environment(plugins, context)
        try:
            self.behavior = self._only_behavior()
            self._policy = self._make_policy(context)
        except BaseException:
            self._environment.close()
            raise
        self._check = BatchCheck(self.behavior, lambda: "in an actor")
        self._check.takes_no_turns = "the executor actors"
        self._batch: AgentBatch

    def _only_behavior(self) -> BehaviorSpec:
        behaviors = self._environment.behaviors
        if len(behaviors) > 1:
            raise ConfigError(
                f"actors play one behavior, and the environment has {len(behaviors)}: {', '.join(behaviors)}; use the "
                "executor processes",
                key=("environment", "workers"),
            )
        (behavior,) = behaviors.values()
        if behavior.group is not None:
            raise UnsupportedSpace(
                f"behavior {behavior.name!r}: its agents share rewards of groups, which fragments do not have; use the "
                "executor processes"
            )
        return behavior

    def _make_policy(self, context: RunContext) -> FragmentActor:
        """Make the trainer of the run for the slots of this actor, and use what acts for it."""
        share = self._share
        config = context.config
        settings = config.behaviors.get(self.behavior.name) or config.default_settings
        if settings is None:
            raise ConfigError(f"has no behavior {self.behavior.name!r}", key=("behaviors",))
        record = context.plugins.record(TrainerSpec, settings.trainer_type)
        kind = record.resolve()
        steps = share.steps * self.behavior.slots
        hyperparameters = attrs.evolve(settings.hyperparameters, buffer_size=max(2, steps))
        run = attrs.evolve(
            context,
            purpose="inference",
            behaviors={self.behavior.name: self.behavior},
            # Every actor explores with other random numbers, and one that takes a place again does too.
            seed=derive_seed(share.seed, "actor", share.place, share.attempt),
        )
        trainer = kind(
            settings=attrs.evolve(settings, hyperparameters=hyperparameters), behavior=self.behavior, run=run
        )
        refused = refusal_of(trainer, settings)
        if refused is not None:
            raise refused
        policy: FragmentActor = trainer.make_actor()
        return policy

    @property
    def episodes(self) -> NDArray[np.int64]:
        """[N] number of the episode that each environment is in."""
        return self._environment.episodes

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Act with this state of the policy from the next fragment on."""
        self._policy.load(arrays)

    def begin(self, episodes: NDArray[np.int64]) -> None:
        """Begin the ``episodes`` [N] in all environments."""
        ProcessGenerators.seed(self._seeds, episodes)
        batches = self._environment.reset(self._seeds, episodes)
        self._batch = self._check.batch_in(batches, "reset")
        self._policy.begin(self._batch)

    def play(self) -> dict[str, Any]:
        """Play a fragment, and return what :class:`rlcore_actors.contract.Fragment` has of it, and the episodes."""
        rows = self._share.steps
        name = self.behavior.name
        reward = np.zeros((rows, self.behavior.slots), np.float32)
        ended = np.zeros((rows, self.behavior.slots), np.bool_)
        infos: list[tuple[int, Mapping[str, NDArray[np.float64]]]] = []
        for t in range(rows):
            actions = self._policy.act(self._batch)
            batch = self._check.batch_in(self._environment.step({name: actions}), "step")
            if batch.aborted is not None and batch.aborted.any():
                raise EnvironmentFailed("the environment lost an episode, which an actor does not continue without")
            reward[t] = batch.reward
            ended[t, batch.ended] = True
            if batch.ended.size:
                infos.append((len(batch.ended), batch.final_info or {}))
            self._policy.observe(actions, batch)
            self._batch = batch
        return {
            "transitions": self._policy.fragment(),
            "reward": reward,
            "ended": ended,
            "info": _joined(infos),
            "episodes": self.episodes.copy(),
        }

    def close(self) -> None:
        """Close the environments."""
        self._environment.close()


def _joined(infos: list[tuple[int, Mapping[str, NDArray[np.float64]]]]) -> dict[str, NDArray[np.float64]]:
    """Return the numbers of ended episodes of all steps, NaN where a step has none of a name."""
    names = {name: None for _, info in infos for name in info}
    joined = {}
    for name in names:
        parts = [info[name] if name in info else np.full(count, np.nan) for count, info in infos]
        joined[name] = np.concatenate(parts)
    return joined
