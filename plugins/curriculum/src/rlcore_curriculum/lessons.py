"""The curriculum of lessons: ML-Agents' ``environment_parameters`` with extensions.

``tracks`` decides when a lesson changes, ``meters`` measures what is compared with its threshold, and ``legacy`` does
both as ML-Agents does. This module draws values, saves the state and reports the status.

P parameters, K episodes, N environments. The draw_id of an episode is the visit of the lesson in which it started.

Episodes count in the order of their starts. If many environments start a lesson together, the shortest episodes end
first; if failures take longer than successes, or end sooner, the mean of these episodes says little about the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlcore import (
    NO_CHANGES,
    Changes,
    ConfigError,
    EndedEpisodes,
    EpisodeDraw,
    KeyPath,
    LessonChange,
    ParameterSampler,
    RunContext,
    RunStateError,
    StatSummary,
    Tag,
    derive_seed,
)
from rlcore_curriculum.arrays import Floats, Ints
from rlcore_curriculum.criterion_settings import PROGRESS, CriterionSettings, unknown_behavior
from rlcore_curriculum.episode_values import EpisodeValues
from rlcore_curriculum.episodes_in_order import EpisodesInOrder
from rlcore_curriculum.legacy import LegacyTrack, RewardBuffers
from rlcore_curriculum.lesson_settings import LEGACY, LessonsSettings
from rlcore_curriculum.samplers import make_sampler
from rlcore_curriculum.statistics_seen import StatisticsSeen
from rlcore_curriculum.tracks import Ended, LessonTrack

Track = LessonTrack | LegacyTrack
LARGEST_SEED = 2**31 - 1


class Lessons:
    """Advances each parameter through its own lessons. One object handles all parameters."""

    def __init__(self, settings: Mapping[str, LessonsSettings], run: RunContext) -> None:
        self.parameters = tuple(settings)
        blocks = settings.values()
        criteria = criteria_of(settings)
        evaluation = run.config.evaluation
        self._samplers = []  # by parameter and lesson
        for block in blocks:
            values = [lesson.value for lesson in block.lessons]
            self._samplers.append([make_sampler(value, run.plugins) for value in values])
        # The first criterion of each behavior, for messages.
        self._behaviors = {criterion.behavior: path for path, criterion in reversed(criteria.items())}
        evaluates = evaluation is not None and evaluation.interval is not None
        self._seen = StatisticsSeen(criteria, evaluates=evaluates)
        max_steps = {}
        for criterion in criteria.values():
            if criterion.measure == PROGRESS:
                behavior = run.config.behaviors.get(criterion.behavior, run.config.default_settings)
                assert behavior is not None, "LessonsSettings.problems has refused it"
                max_steps[criterion.behavior] = behavior.max_steps
        legacy = [block for block in blocks if block.smoothing == LEGACY]
        self._buffers = RewardBuffers(legacy)
        self._tracks: list[Track] = []
        for block in blocks:
            if block.smoothing == LEGACY:
                self._tracks.append(LegacyTrack(block, max_steps, self._buffers))
            else:
                self._tracks.append(LessonTrack(block, max_steps))
        self._track_of = dict(zip(self.parameters, self._tracks, strict=True))
        width = 2 + len(blocks)  # returns, group returns, and a visit for each parameter
        self._orders = {name: EpisodesInOrder(width, run.num_envs) for name in self._behaviors}
        self._inputs_changed = False  # whether an input of the criteria has changed since the last check
        self._steps: Mapping[str, int] = {}  # as of the last check; for the status
        self._draw_id: Ints = np.zeros(len(blocks), np.int64)  # [P] the current visits
        first = [samplers[0] for samplers in self._samplers]
        last = [samplers[-1] for samplers in self._samplers]
        self._values = EpisodeValues(run.seed, self.parameters, first, run.num_envs)
        self._target = EpisodeValues(run.seed, self.parameters, last, run.num_envs)
        self._seeds = {}
        for name in self.parameters:
            self._seeds[name] = derive_seed(run.seed, f"parameters/{name}") % LARGEST_SEED
        self._update_measured_behaviors()

    # ------------------------------------------------------------ draws

    @property
    def samplers(self) -> dict[str, ParameterSampler]:
        """The distributions of the current lessons, without constants and samplers of plugins."""
        return self._distributions([track.lesson for track in self._tracks])

    @property
    def target_samplers(self) -> dict[str, ParameterSampler]:
        """The distributions of the last lessons."""
        return self._distributions([-1 for _ in self._tracks])

    def _distributions(self, lessons: Sequence[int]) -> dict[str, ParameterSampler]:
        distributions = {}
        for name, samplers, lesson in zip(self.parameters, self._samplers, lessons, strict=True):
            distribution = samplers[lesson].described(self._seeds[name])
            if distribution is not None:
                distributions[name] = distribution
        return distributions

    def draw(self, env_index: Ints, episodes: Ints) -> EpisodeDraw:
        shape = (len(env_index), len(self.parameters))
        draw_id = np.empty(shape, np.int64)
        draw_id[:] = self._draw_id
        return EpisodeDraw(self._values(env_index, episodes), draw_id)

    def draw_target(self, env_index: Ints, episodes: Ints) -> Floats:
        """Draw from the last lessons, [K, P]."""
        return self._target(env_index, episodes)

    # ------------------------------------------------------------ ended episodes

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        if ended.behavior not in self._behaviors:
            return
        self._buffers.add(ended.behavior, ended.returns)
        if ended.behavior not in self._measured_behaviors:
            return
        order = self._orders[ended.behavior]
        order.add(ended.numbers, ended.returns, ended.group_returns, ended.draw_id)
        over = order.pop(ended.settled)
        if over is None:
            return
        returns, group_returns, *draw_ids = over.T.tolist()
        episodes = Ended(ended.behavior, returns, group_returns)
        for track, began in zip(self._tracks, draw_ids, strict=True):
            track.ended(episodes, began)
        self._inputs_changed = True

    def advance(self, steps: Mapping[str, int]) -> Changes:
        if not self._steps:
            self._refuse_unknown_behaviors(steps)
        self._steps = steps
        if not (self._inputs_changed or self.every_step):
            return NO_CHANGES
        self._inputs_changed = False
        # All tracks decide before the first one changes: with smoothing: legacy, a change clears what others measure.
        moves = {}
        for column, track in enumerate(self._tracks):
            move = track.next(steps)
            if move is not None:
                moves[column] = move
        if not moves:
            return NO_CHANGES
        changes = []
        for column, move in moves.items():
            track = self._tracks[column]
            previous = track.lesson
            if isinstance(track, LegacyTrack):
                self._buffers.clear()
            self._enter(column, move.lesson, midway=True)
            parameter = self.parameters[column]
            names = [lesson.name for lesson in track.lessons]
            change = LessonChange(parameter, move.lesson, names[move.lesson], previous, names[previous])
            changes.append(change)
        reset = any(move.reset for move in moves.values())
        return Changes(tuple(changes), redraw=True, reset=reset)

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """Raise ConfigError if a criterion uses a tag that the behavior does not have."""
        self._seen.summarised(behavior, stats)
        for track in self._tracks:
            track.summarised(behavior, stats)
        self._inputs_changed = True

    # ------------------------------------------------------------ status

    def stats(self) -> dict[str, float]:
        tags = {}
        for name, track in self._track_of.items():
            tags[f"{Tag.LESSON_NUMBER}{name}"] = float(track.lesson)
        return tags

    def status(self) -> dict[str, dict[str, Any]]:
        sections = {}
        for name, track in self._track_of.items():
            lesson = track.lessons[track.lesson].name
            sections[name] = {"lesson_num": track.lesson, "lesson": lesson, **track.status(self._steps)}
        return sections

    def load_status(self, sections: Mapping[str, Any]) -> None:
        """Start each parameter with its lesson in ``sections``, from the first episode."""
        lessons: dict[int, int] = {}
        for column, name in enumerate(self.parameters):
            section = sections.get(name)
            if not isinstance(section, Mapping) or "lesson_num" not in section:
                continue  # a behavior may have the name of a parameter
            lesson = section["lesson_num"]
            known = len(self._tracks[column].lessons)
            is_number = isinstance(lesson, int) and not isinstance(lesson, bool)
            if not is_number or lesson < 0:
                raise RunStateError(
                    f"status of parameter {name!r}: lesson_num must be a number from 0 on, not {lesson!r}"
                )
            if lesson >= known:
                raise RunStateError(
                    f"status of parameter {name!r}: it is in lesson number {lesson}, counted from 0, and its "
                    f"curriculum has {known} of them; give it at least as many lessons as in the status"
                )
            lessons[column] = lesson
        for column, lesson in lessons.items():
            self._enter(column, lesson, midway=False)

    def state_dict(self) -> dict[str, Any]:
        tracks = []
        for track in self._tracks:
            names = [lesson.name for lesson in track.lessons]
            tracks.append({"names": names, **track.state_dict()})
        return {
            "tracks": tracks,
            "buffers": self._buffers.state_dict(),
            "orders": {name: order.state_dict() for name, order in self._orders.items()},
            "seen": self._seen.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; the configuration may have more lessons at the end."""
        states = state["tracks"]
        for (name, track), saved in zip(self._track_of.items(), states, strict=True):
            _require_lessons(name, track, saved)
        for column, track in enumerate(self._tracks):
            track.load_state_dict(states[column])
            self._update_draws(column)
        self._buffers.load_state_dict(state["buffers"])
        self._inputs_changed = True  # thresholds may have changed; if not, a check gives the result of the last one
        for name, order in self._orders.items():
            if name in state["orders"]:
                order.load_state_dict(state["orders"][name])
        self._seen.load_state_dict(state["seen"])

    # ------------------------------------------------------------ internals

    def _enter(self, column: int, lesson: int, midway: bool) -> None:
        self._tracks[column].enter(lesson, midway)
        self._update_draws(column)

    def _update_draws(self, column: int) -> None:
        """Draw parameter ``column`` from its current lesson."""
        track = self._tracks[column]
        self._draw_id[column] = track.visit
        sampler = self._samplers[column][track.lesson]
        self._values.set(column, sampler)
        self._update_measured_behaviors()

    def _update_measured_behaviors(self) -> None:
        """Collect the behaviors that the current lessons measure; episodes of others are ignored."""
        self.every_step = any(track.checks_every_step for track in self._tracks)
        measured = [track.measured_behaviors for track in self._tracks]
        self._measured_behaviors = frozenset().union(*measured)

    def _refuse_unknown_behaviors(self, steps: Mapping[str, int]) -> None:
        """Raise ConfigError for an unknown behavior.

        With ``default_settings``, only the environment knows the behaviors.
        """
        for name, path in self._behaviors.items():
            problem = unknown_behavior(name, steps)
            if problem:
                raise ConfigError(problem, key=(*path, "behavior"))


def criteria_of(blocks: Mapping[str, LessonsSettings]) -> dict[KeyPath, CriterionSettings]:
    """Return all criteria, including demotions, by their paths in the configuration."""
    criteria: dict[KeyPath, CriterionSettings] = {}
    for name, block in blocks.items():
        for number, lesson in enumerate(block.lessons):
            path: KeyPath = ("environment_parameters", name, "curriculum", "lessons", number)
            several = isinstance(lesson.completion_criteria, tuple)
            for index, criterion in enumerate(lesson.completion):
                place = (index,) if several else ()
                criteria[(*path, "completion_criteria", *place)] = criterion
            if lesson.demotion_criterion is not None:
                criteria[(*path, "demotion")] = lesson.demotion_criterion
    return criteria


def _require_lessons(parameter: str, track: Track, saved: Mapping[str, Any]) -> None:
    names = [lesson.name for lesson in track.lessons]
    before = list(saved["names"])
    advice = "resume with the lessons of the run"
    if names[: len(before)] != before:
        raise RunStateError(
            f"environment_parameters.{parameter}: the checkpoint has the lessons {', '.join(before)}, and this "
            f"configuration has {', '.join(names)}; {advice}"
        )
    conflict = track.conflict(saved)
    if conflict:
        lesson = names[int(saved["lesson"])]
        raise RunStateError(
            f"environment_parameters.{parameter}: lesson {lesson!r}, where the checkpoint is, {conflict}; {advice}"
        )
