"""All actors of a run as one environment, whose step is a fragment of some actor.

Shapes: N environments of all actors, S slots of all actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    EnvironmentFailed,
    EpisodeSeeds,
    Parameters,
    RlcoreError,
    RunContext,
    Tag,
    fill,
    refuse_unknown_parameters,
)
from rlcore_actors.contract import Fragment, FragmentTrainer
from rlcore_actors.playing import refusal_of
from rlcore_actors.settings import ActorSettings
from rlcore_actors.source import Played, Source

__all__ = ["ActorEnvironment"]

STATISTICAL = "actors play while the run learns, and their open episodes and fragments are not saved"
QUEUED = "Actors/Queue Length"  # tags of statistics
DROPPED = "Actors/Dropped Fragments"
CONNECTED = "Actors/Connected"
PLAYED = "Actors/Played Steps"


class ActorEnvironment:
    """The environments of all actors: :class:`rlcore.Environment` of fragments, and :class:`rlcore.KeepsBatches`.

    Attributes:
        behaviors: The behavior by name.
        num_envs: N.
        episodes: [N] numbers of the latest episodes in the fragments that were taken.
        resume_limits: Why a resumed run is only alike.
        dropped: Fragments that were dropped because of ``max_lag``.
        aborted: Episodes that were dropped with their actors.
    """

    resume_limits = (STATISTICAL,)

    def __init__(self, source: Source, settings: ActorSettings, run: RunContext, named: str) -> None:
        """``named`` is what messages call the environment."""
        self.num_envs = run.num_envs
        self.episodes = np.full(self.num_envs, -1, np.int64)
        of_actor = source.behavior
        self.behaviors: Mapping[str, BehaviorSpec] = {of_actor.name: _of_all(of_actor, settings.count, run.num_envs)}
        self.dropped = 0
        self.aborted = 0
        self._source = source
        self._settings = settings
        self._run = run
        self._named = named
        self._trainer: FragmentTrainer
        self._steps = 0
        self._latest: dict[int, tuple[int, int]] = {}  # the attempt and the number of the latest fragment by place
        self._broken: set[int] = set()  # places whose latest fragment was dropped
        self._resumed: set[int] = set()  # places of which a resumed run has had no fragment yet
        self._shown: list[AgentBatch] = []  # that the run has not counted yet

    # ------------------------------------------------------------ the contract

    def keep_batches(self, trainers: Sequence[Any]) -> bool:
        """Have the trainer observe fragments. Raises ConfigError if it cannot."""
        (name,) = self.behaviors
        (trainer,) = trainers
        config = self._run.config
        settings = config.behaviors.get(name) or config.default_settings
        refused = refusal_of(trainer, settings)
        if refused is not None:
            raise refused
        why = trainer.take_fragments()
        if why is not None:
            raise ConfigError(
                f"actors cannot play for behavior {name!r}: {why}; leave it out, or use the executor processes",
                key=("environment", "workers"),
            )
        self._trainer = trainer
        return True

    def played(self) -> Mapping[str, Iterable[AgentBatch]]:
        """Return the steps of fragments since the last call, those of dropped ones too."""
        shown = self._shown
        self._shown = []
        return dict.fromkeys(self.behaviors, shown)

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, Any]:
        """Begin new episodes in all actors; what their agents see is not in the batches."""
        self.episodes = episodes.copy()
        self._latest.clear()
        self._broken.clear()
        self._source.begin(episodes)
        return {name: FirstBatch(behavior) for name, behavior in self.behaviors.items()}

    def step(self, actions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the next fragment that is not too old; ``actions`` are the states to act with."""
        ((name, state),) = actions.items()
        while True:
            played = self._source.next(state)
            fragment = self._fragment(played)
            try:
                self._trainer.require_fragment(fragment)
            except RlcoreError as error:
                raise EnvironmentFailed(f"{self._named}: actor {played.place}: {error}") from error
            envs = slice(played.place * self._envs, (played.place + 1) * self._envs)
            fill(self.episodes[envs], played.body, "episodes")
            self._count(fragment, played)
            self._latest[played.place] = (played.attempt, played.number)
            limit = self._settings.max_lag
            if limit is not None and state.version - played.version > limit:
                self.dropped += 1
                self._broken.add(played.place)
                continue
            self._broken.discard(played.place)
            return {name: fragment}

    @property
    def _envs(self) -> int:
        return self.num_envs // self._settings.count

    def _fragment(self, played: Played) -> Fragment:
        slots = self._source.behavior.slots
        follows = self._latest.get(played.place) == (played.attempt, played.number - 1)
        return Fragment(
            first=played.place * slots,
            slots=slots,
            version=played.version,
            continues=follows and played.place not in self._broken,
            transitions=played.body["transitions"],
            reward=played.body["reward"],
            ended=played.body["ended"],
            info=played.body["info"],
        )

    def _count(self, fragment: Fragment, played: Played) -> None:
        """Note the steps for the statistics of the run."""
        latest = self._latest.get(played.place)
        is_lost = latest is not None and latest[0] != played.attempt
        if is_lost:
            self.aborted += fragment.slots
        # The run has counted a part of the episodes that were open when the checkpoint was saved.
        is_resumed = played.place in self._resumed
        self._resumed.discard(played.place)
        self._steps += fragment.reward.size
        (behavior,) = self.behaviors.values()
        self._shown += fragment.batches(behavior.slots, aborts=is_lost or is_resumed)

    def set_parameters(self, parameters: Parameters) -> None:
        """Raise ConfigError for the first of the ``parameters``: actors set none."""
        refuse_unknown_parameters(parameters, (), self._named)

    # ------------------------------------------------------------ checkpoints, statistics, end

    def state_dict(self) -> dict[str, Any]:
        """Return nothing to continue from: see :attr:`resume_limits`. Checkpoints do not stop the actors."""
        return {"episodes": self.episodes.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Begin the episodes after those of the checkpoint."""
        episodes = np.empty_like(self.episodes)
        fill(episodes, state, "episodes")
        self._resumed = set(range(self._settings.count))
        return self.reset(EpisodeSeeds(self._run.seed), episodes + 1)

    def stats(self) -> dict[str, float]:
        """Return the actors that play, those that were started again, and what became of fragments."""
        return {
            CONNECTED: float(self._source.connected),
            QUEUED: float(self._source.queued),
            DROPPED: float(self.dropped),
            PLAYED: float(self._steps),
            Tag.WORKER_RESTARTS: float(self._source.restarts),
            Tag.ABORTED_EPISODES: float(self.aborted),
            Tag.WORKER_WAIT: self._source.waited,
        }

    def close(self) -> None:
        """End the actors."""
        self._source.close()


class FirstBatch:
    """In place of the first observations, which are in the actors."""

    def __init__(self, behavior: BehaviorSpec) -> None:
        self._behavior = behavior

    def on_host(self) -> AgentBatch:
        """Return a batch in which every agent waits, with the lowest observations."""
        behavior = self._behavior
        slots = behavior.slots
        observations = {}
        for spec in behavior.observations:
            values = np.zeros((slots, *spec.shape), spec.dtype)
            low = np.asarray(0 if spec.low is None else spec.low)
            values += np.where(np.isfinite(low) & (low > 0), low, 0).astype(spec.dtype)
            observations[spec.name] = values
        never = np.zeros(slots, np.bool_)
        return AgentBatch(observations, np.zeros(slots, np.float32), never, never.copy())


def _of_all(behavior: BehaviorSpec, actors: int, num_envs: int) -> BehaviorSpec:
    """The behavior of all actors from that of one."""
    envs = num_envs // actors
    env_index = np.concatenate([behavior.env_index + place * envs for place in range(actors)])
    team = None if behavior.team is None else np.tile(behavior.team, actors)
    return attrs.evolve(behavior, env_index=env_index, team=team)
