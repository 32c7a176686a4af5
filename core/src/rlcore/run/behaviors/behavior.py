"""One behavior while it runs: its trainer, its statistics and its boundaries."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from statistics import fmean
from typing import Any

import attrs
import numpy as np

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.policy import Player, Policy
from rlcore.contracts.results import BehaviorResult, FinishedEpisodes
from rlcore.contracts.saved_values import saved_count, saved_entry, saved_mapping
from rlcore.contracts.seeding import derive_seed
from rlcore.contracts.stats import StatSummary, StatsWindow, Tag
from rlcore.contracts.trainer import PlayingTrainer, Trainer
from rlcore.errors import TrainingDiverged, did_you_mean
from rlcore.plugins.failures import blamed
from rlcore.run.behaviors.checks import BatchCheck
from rlcore.run.behaviors.episodes import EpisodeStatistics
from rlcore.settings import BehaviorSettings
from rlcore.settings.blocks import MAX_STEPS

log = logging.getLogger(__name__)

# The tags of scalars that training cannot continue with unless they are finite.
LOSSES = "Losses/"
# Steps of one episode after which it is said that no episode has ended yet; the longest of Atari have 27,000.
ENDLESS_STEPS = 50_000
# How many of the latest episodes the mean reward of results and progress is taken over.
RECENT_EPISODES = 100
# Agent steps between checkpoints where the configuration gives none and max_steps are many; ML-Agents' default.
MAX_DEFAULT_INTERVAL = 500_000
# Seconds of training between checkpoints where each of them restarts all episodes and the configuration gives none.
SECONDS_BETWEEN_RESTARTS = 600
# How many of the latest values of an update's scalar its moving average is taken over.
RECENT_UPDATES = 100


@attrs.define(eq=False, slots=False)
class TrainedBehavior:
    """The state that the loop keeps for each behavior."""

    spec: BehaviorSpec
    settings: BehaviorSettings
    trainer: Trainer
    seed: int = 0  # of the run
    offline: bool = False  # the trainer learns from recorded data and observes no environment
    name: str = attrs.field(init=False)
    batch: AgentBatch = attrs.field(init=False)  # from the first reset on
    checks: BatchCheck = attrs.field(init=False)
    episodes: EpisodeStatistics = attrs.field(init=False)
    window: StatsWindow = attrs.field(init=False, factory=StatsWindow)
    recent: deque[float] = attrs.field(init=False, factory=lambda: deque(maxlen=RECENT_EPISODES))
    recent_info: dict[str, deque[float]] = attrs.field(init=False, factory=dict)  # by name, of the latest episodes
    recent_updates: dict[str, deque[float]] = attrs.field(init=False, factory=dict)  # by tag; only what is finite
    evaluated: float | None = None  # mean reward of the latest evaluation of this process
    epoch_episodes: StatsWindow = attrs.field(init=False, factory=StatsWindow)  # of this epoch
    epoch_updates: StatsWindow = attrs.field(init=False, factory=StatsWindow)
    updates: int = 0
    policy_steps: int | None = None  # that the policy was trained for, where only that was loaded
    inferred: int = 0  # agent steps acted under --inference
    learning: bool = True
    restarts: bool = False  # a checkpoint restarts its episodes, because the environment cannot save itself
    chosen_interval: int | None = None  # of checkpoints that restart episodes; see choose_interval
    playing: bool = True  # with the actions of the trainer: it learns, or plays on in its own way
    ended_at: int = 0  # steps when an episode last ended by itself, or this process started
    next_summary: int = 0
    next_checkpoint: int = 0
    next_boundary: int = 0  # the next step at which anything is due
    _player: Player | None = None  # that acts since it stopped learning
    _info_is_known: bool = False
    _pace: tuple[int, float, int] | None = None  # steps, seconds and updates from which its steps are timed

    def __attrs_post_init__(self) -> None:
        self.name = self.spec.name
        self.checks = BatchCheck(self.spec, lambda: f"at step {self.steps}")
        self.episodes = EpisodeStatistics(self.spec.slots)

    @property
    def steps(self) -> int:
        """Agent steps learned from."""
        return self.trainer.steps if self.policy_steps is None else self.policy_steps

    @property
    def at_max_steps(self) -> bool:
        """Whether the behavior has taken the last step that it learns from."""
        return self.steps >= self.settings.max_steps

    @property
    def policy(self) -> Policy:
        """The trainer's current policy."""
        with blamed(trainer_named(self), "in policy"):
            return self.trainer.policy

    @property
    def given_interval(self) -> int | None:
        """Agent steps between checkpoints that the configuration gives; None if it leaves the choice to the run."""
        settings = self.settings
        if settings.even_checkpoints and settings.keep_checkpoints > 0:
            return max(1, settings.max_steps // settings.keep_checkpoints)
        return settings.checkpoint_interval

    @property
    def checkpoint_interval(self) -> int:
        """Agent steps between checkpoints; the fewest that are possible before :meth:`choose_interval`."""
        # ML-Agents saves each 500,000 steps; a short training is saved ten times.
        shortest = max(1, min(self.settings.max_steps // 10, MAX_DEFAULT_INTERVAL))
        return self.given_interval or self.chosen_interval or shortest

    @property
    def interval_is_open(self) -> bool:
        """Whether the interval is still to be chosen, when a checkpoint is due."""
        return self.restarts and self.given_interval is None and self.chosen_interval is None

    def choose_interval(self, seconds: float) -> None:
        """Fix the interval for the rest of the run: ten minutes or less, by the time that its steps take.

        Called when a checkpoint is due, after ``seconds`` of the run. Steps before the first update are faster than
        those that follow, so unless all steps were slow, the interval stays open until another one was measured. The
        checkpoint stays due only if the interval is as short as possible.
        """
        shortest = self.checkpoint_interval
        steps, before, updates = self._pace or (0, 0.0, 0)
        steps_per_second = (self.steps - steps) / max(seconds - before, 1e-6)
        timed = one_two_five(steps_per_second * SECONDS_BETWEEN_RESTARTS)
        updated_since = self._pace is not None and self.updates > updates
        if timed <= shortest or updated_since:
            longer = max(shortest, timed)
            self.chosen_interval = min(longer, MAX_STEPS)
        elif self._pace is None and self.updates > 0:
            self._pace = self.steps, seconds, self.updates
        if timed > shortest:
            self.checkpoint_saved()

    def set_boundaries(self) -> None:
        """Set the next boundaries: multiples of the intervals after the trainer's step."""
        inference = self.policy_steps is not None
        self.learning = not (self.at_max_steps or inference)
        self.playing = self.learning
        may_play_on = self.at_max_steps and not (self.offline or inference)
        if may_play_on and isinstance(self.trainer, PlayingTrainer):
            self.playing = True
            with blamed(trainer_named(self), "in stop_learning"):
                self.trainer.stop_learning()
        self.next_summary = multiple_after(self.steps, self.settings.summary_freq)
        self.checkpoint_saved()

    def checkpoint_saved(self) -> None:
        """Make the next checkpoint due at the next multiple of its interval."""
        self.next_checkpoint = multiple_after(self.steps, self.checkpoint_interval)
        self.next_boundary = min(self.next_summary, self.next_checkpoint, self.settings.max_steps)

    def make_due(self, summary: int | None) -> None:
        """Make a checkpoint due at this step, and the boundary ``summary`` if it was due."""
        if summary is not None:
            self.learning = True  # at max_steps a summary is always due
            self.playing = True
            self.next_summary = summary
        self.next_checkpoint = self.steps

    def stop_at(self, step: int) -> None:
        """Have the loop stop at ``step`` too, until the boundaries are set again."""
        self.next_boundary = min(self.next_summary, self.next_checkpoint, self.settings.max_steps, step)

    @property
    def summary_due(self) -> bool:
        """Whether the steps passed a multiple of ``summary_freq`` or reached ``max_steps``.

        :mod:`rlcore.run.boundaries` has the other cases.
        """
        return self.learning and self.steps >= min(self.next_summary, self.settings.max_steps)

    @property
    def checkpoint_due(self) -> bool:
        return self.learning and self.steps >= self.next_checkpoint

    def act_frozen(self) -> Actions:
        """Actions of the current policy, for a behavior that does not learn (any more)."""
        player = self._player or self._new_player()
        player.policy = self.trainer.policy
        return player.act(self.batch, self.settings.network_settings.deterministic)

    def _new_player(self) -> Player:
        # Evaluations seed the same policy, so the player seeds it in every step.
        seed = derive_seed(self.seed, f"{self.name}/exploit")
        self._player = Player(self.trainer.policy, self.spec.slots, seed)
        return self._player

    def observe_frozen(self, batch: AgentBatch) -> None:
        """Note the step that the actions of :meth:`act_frozen` led to; episodes count under ``--inference`` only."""
        if self._player is not None:
            self._player.observe(batch)
        if self.policy_steps is not None:
            finished = self.episodes.record(batch)
            if finished is not None:
                self.episodes_finished(finished)
            self.inferred += self.spec.slots

    def begin(self, batch: AgentBatch, checked: AgentBatch) -> None:
        """All slots start an episode: the environment was reset. ``checked`` is ``batch`` where it can be read."""
        self.batch = batch
        self.episodes.begin(checked)
        if self._player is not None:
            self._player.begin()
        if not self.offline:
            self.trainer.begin(batch)

    @property
    def endless(self) -> bool:
        """Whether no episode has ended for so long that something is wrong.

        That is a whole interval of checkpoints where each of them restarts all episodes.
        """
        if self.offline or not self.learning:
            return False
        since = self.steps - self.ended_at
        if self.restarts and not self.interval_is_open and since >= self.checkpoint_interval:
            return True
        return since >= ENDLESS_STEPS * self.spec.slots

    def add_update(self, stats: Mapping[str, float | Sequence[float]]) -> None:
        """Note one update of the trainer and the scalars it returned. Raises TrainingDiverged for a NaN loss."""
        for tag, value in stats.items():  # before anything is noted: a checkpoint must not have this update
            if isinstance(value, Sequence) or not tag.startswith(LOSSES):
                continue
            if not isfinite(value):
                raise TrainingDiverged(
                    f"behavior {self.name!r}: {tag} is {value:g} after the update at step {self.steps}; "
                    f"{TrainingDiverged.ADVICE}"
                )
        self.window.add(stats)
        self.epoch_updates.add(stats)
        for tag, value in stats.items():
            values = value if isinstance(value, Sequence) else (value,)
            recent = self.recent_updates.setdefault(tag, deque(maxlen=RECENT_UPDATES))
            recent.extend(float(number) for number in values if isfinite(number))
        self.updates += 1

    def episodes_finished(self, finished: FinishedEpisodes) -> None:
        """Note the episodes that ended in one environment step, for the summary, the epoch and the mean reward."""
        returns = finished.returns.tolist()
        lengths = [*map(float, finished.lengths.tolist())]
        self.ended_at = self.steps
        self.recent.extend(returns)
        for window in (self.window, self.epoch_episodes):
            window.extend(Tag.CUMULATIVE_REWARD, returns)
            window.extend(Tag.EPISODE_LENGTH, lengths)
        if finished.group_returns is not None:
            self.window.extend(Tag.GROUP_REWARD, finished.group_returns.tolist())
        for name, column in finished.info.items():
            values = column[np.isfinite(column)].tolist()
            self.window.extend(Tag.EPISODE_INFO + name, values)
            recent = self.recent_info.setdefault(name, deque(maxlen=RECENT_EPISODES))
            recent.extend(values)
        self._warn_of_absent_info()

    def _warn_of_absent_info(self) -> None:
        """Say once that a number of environment.info is in no info of an ended episode."""
        wanted = self.episodes.info
        if self._info_is_known or wanted is None or wanted == "all":
            return
        self._info_is_known = True
        reported = self.mean_info
        has = f"they have {', '.join(sorted(reported))}" if reported else "they have no numbers of this list"
        for name in wanted:
            if name not in reported:
                log.warning(
                    "environment.info: %r is not a number of the last infos of the first episodes of behavior %r that "
                    "ended; %s%s",
                    name,
                    self.name,
                    has,
                    did_you_mean(name, reported),
                )

    def result(self, stats: Mapping[str, StatSummary]) -> BehaviorResult:
        """The behavior's result at the end of this epoch; ``stats`` are those of its summary."""
        episodes = self.epoch_episodes.summaries()
        updates = self.epoch_updates.summaries()
        return BehaviorResult(
            steps=self.steps,
            episodes=self.episodes.finished,
            updates=self.updates,
            mean_reward=self.mean_reward,
            stats=stats,
            returns=episodes.get(Tag.CUMULATIVE_REWARD),
            lengths=episodes.get(Tag.EPISODE_LENGTH),
            update_stats={tag: summary.mean for tag, summary in updates.items()},
            moving_averages=_means(self.recent_updates),
            info=self.mean_info,
        )

    @property
    def mean_info(self) -> dict[str, float]:
        """Mean of the latest values of each number that the environment reports of ended episodes, by name."""
        return _means(self.recent_info)

    @property
    def mean_reward(self) -> float | None:
        """Mean return of the latest episodes, None before the first one ended."""
        if not self.recent:
            return None
        return float(np.mean(self.recent))

    def state_dict(self) -> dict[str, Any]:
        return {
            "player": None if self._player is None else self._player.state_dict(),
            **self.episodes.state_dict(),
            "recent": list(self.recent),
            "recent_info": {name: list(values) for name, values in self.recent_info.items()},
            "window": self.window.state_dict(),
            "updates": self.updates,
            "chosen_interval": self.chosen_interval,
            "recent_updates": {tag: list(values) for tag, values in self.recent_updates.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.episodes.load_state_dict(state)
        self._load_statistics(state)
        if saved_entry(state, "player") is not None:
            player = self._new_player()
            player.load_state_dict(saved_mapping(state, "player"))

    def load_without_slots(self, state: Mapping[str, Any]) -> None:
        """Load the statistics of a state of other slots; no episode is open."""
        self.episodes.finished = saved_count(state, "finished")
        self._load_statistics(state)

    def succeed(self, other: TrainedBehavior) -> None:
        """Take over from the same behavior with other slots what no checkpoint has."""
        self.ended_at = other.ended_at
        self.evaluated = other.evaluated
        self.inferred = other.inferred
        self._info_is_known = other._info_is_known  # or the warning would come again
        self._pace = other._pace

    def _load_statistics(self, state: Mapping[str, Any]) -> None:
        self.recent.extend(saved_entry(state, "recent"))
        self.window.load_state_dict(saved_mapping(state, "window"))
        self.updates = saved_count(state, "updates")
        if saved_entry(state, "chosen_interval") is not None:
            self.chosen_interval = max(1, saved_count(state, "chosen_interval"))
        for name, values in saved_mapping(state, "recent_info").items():
            self.recent_info[name] = deque(map(float, values), maxlen=RECENT_EPISODES)
        for tag, values in saved_mapping(state, "recent_updates").items():
            self.recent_updates[tag] = deque(map(float, values), maxlen=RECENT_UPDATES)


def _means(recent: Mapping[str, deque[float]]) -> dict[str, float]:
    return {name: fmean(values) for name, values in recent.items() if values}


def multiple_after(step: int, interval: int) -> int:
    """The first multiple of ``interval`` after ``step``."""
    return (step // interval + 1) * interval


def one_two_five(number: float) -> int:
    """The largest of 1, 2, 5, 10, 20, 50 and so on that is not larger than ``number``; 1 for a smaller number."""
    exponent = floor(log10(max(number, 1.0)))
    power: int = 10**exponent
    for factor in (5, 2):
        if factor * power <= number:
            return factor * power
    return power


def trainer_named(behavior: TrainedBehavior) -> str:
    """The owner of errors of the trainer of ``behavior``."""
    return f"behavior {behavior.name!r}: trainer {behavior.settings.trainer_type!r}"
