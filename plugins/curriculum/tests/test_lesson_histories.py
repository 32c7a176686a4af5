"""Random curricula with random histories, compared with a model in plain lists that computes each check from scratch.

Returns and thresholds are multiples of a quarter or an eighth, and windows are powers of two, so means are exact and
can equal a threshold.
"""

from __future__ import annotations

import copy
from functools import reduce
from pathlib import Path
from statistics import fmean
from typing import Any

import attrs
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore import BehaviorSettings, EndedEpisodes, LessonChange, Plugins, RunConfig, RunContext, StatSummary
from rlcore_curriculum.criterion_settings import CriterionSettings, DemotionSettings
from rlcore_curriculum.lesson_settings import LessonSettings, LessonsSettings
from rlcore_curriculum.lessons import Lessons, make_curriculum

MAX_STEPS = {"B": 200, "C": 300}
NUM_ENVS, PER_STEP = 3, 3


class Model:
    """Lessons as in the documentation; ``episodes`` and ``means`` contain what counts for the current lesson."""

    def __init__(self, blocks: list[LessonsSettings]) -> None:
        self.blocks, self.on = blocks, [0] * len(blocks)
        self.visits = [0] * len(blocks)
        self.mixed: list[set[str]] = [set() for _ in blocks]  # behaviors whose next summary covers two lessons
        self.episodes: list[list[Any]] = [[] for _ in blocks]  # by parameter: behavior, return, group return
        self.means: list[list[Any]] = [[] for _ in blocks]  # of the statistic: behavior, mean
        self.buffers: dict[str, list[float]] = {"B": [], "C": []}  # ML-Agents': every episode, from any lesson
        self.smoothed = [0.0] * len(blocks)  # ML-Agents'
        criteria = [c for b in blocks if b.smoothing == "legacy" for lesson in b.lessons for c in lesson.completion]
        self.longest = {b: max([1, *(c.min_lesson_length for c in criteria if c.behavior == b)]) for b in self.buffers}

    def ended(self, behavior: str, own: float, group: float, draw_id: list[int]) -> None:
        self.buffers[behavior] = [*self.buffers[behavior], own][-self.longest[behavior] :]
        for p, began in enumerate(draw_id):
            if began == self.visits[p]:
                self.episodes[p].append((behavior, own, group))

    def summarised(self, behavior: str, mean: float) -> None:
        for means, mixed in zip(self.means, self.mixed, strict=True):
            means += [] if behavior in mixed else [(behavior, mean)]
            mixed.discard(behavior)

    def value(self, p: int, c: CriterionSettings, steps: dict[str, int]) -> float | None:
        ended = [episode for episode in self.episodes[p] if episode[0] == c.behavior]
        if len(ended) < c.min_lesson_length:
            return None
        if c.measure == "progress":
            return steps[c.behavior] / MAX_STEPS[c.behavior]
        returns, n = [e[2 if c.measure == "group_reward" else 1] for e in ended], max(1, c.min_lesson_length)
        values = [fmean(returns[end - n : end]) for end in range(n, len(returns) + 1)]
        if c.measure.startswith("stat:"):
            values = [mean for behavior, mean in self.means[p] if behavior == c.behavior]
        if not values or not c.signal_smoothing:
            return values[-1] if values else None
        return reduce(lambda smoothed, value: smoothed + 0.75 * (value - smoothed), values)

    def legacy_value(self, p: int, c: CriterionSettings, steps: dict[str, int]) -> float | None:
        buffer = self.buffers[c.behavior]
        if len(buffer) < c.min_lesson_length or (c.measure == "reward" and not buffer):
            return None
        if c.measure == "progress" or not c.signal_smoothing:
            return steps[c.behavior] / MAX_STEPS[c.behavior] if c.measure == "progress" else fmean(buffer)
        self.smoothed[p] = value = 0.25 * self.smoothed[p] + 0.75 * fmean(buffer)
        return value

    def look(self, steps: dict[str, int]) -> dict[int, int]:  # parameters that change, and their next lesson
        moves = {}
        for p, block in enumerate(self.blocks):
            lesson = block.lessons[self.on[p]]
            value = self.legacy_value if block.smoothing == "legacy" else self.value
            values = [(value(p, c, steps), c.threshold) for c in lesson.completion]
            back = [(self.value(p, c, steps), c.threshold) for c in [lesson.demotion_criterion] if c]
            if values and all(v is not None and v > threshold for v, threshold in values):
                moves[p] = self.on[p] + 1
            elif any(v is not None and v < threshold for v, threshold in back):
                moves[p] = self.on[p] - 1
        for p, on in moves.items():
            self.on[p], self.episodes[p], self.means[p], self.mixed[p] = on, [], [], set(MAX_STEPS)
            self.visits[p] = on if self.blocks[p].smoothing == "legacy" else self.visits[p] + 1
            self.buffers = {b: [] for b in self.buffers} if self.blocks[p].smoothing == "legacy" else self.buffers
        return moves


# ---------------------------------------------------------------- events

quarters = st.integers(-8, 8).map(lambda number: number / 4)
behaviors = st.sampled_from(["B", "B", "C"])
lengths = st.sampled_from([0, 1, 1, 2, 2, 4, 8])


@st.composite
def criteria(draw: st.DrawFn, legacy: bool) -> CriterionSettings:
    measures = ["reward", "reward", "progress"] + ([] if legacy else ["group_reward", "stat:Rate"])
    measure = draw(st.sampled_from(measures))
    threshold = draw(st.integers(0, 8)) / 16 if measure == "progress" else draw(st.integers(-10, 3)) / 8
    smoothing, reset = draw(st.booleans()), draw(st.booleans())
    return CriterionSettings(
        behavior=draw(behaviors), measure=measure, threshold=threshold, min_lesson_length=draw(lengths),
        signal_smoothing=smoothing, require_reset=reset,
    )  # fmt: skip


@st.composite
def demotions(draw: st.DrawFn) -> DemotionSettings:
    return DemotionSettings(
        behavior=draw(behaviors), measure=draw(st.sampled_from(["reward", "group_reward", "stat:Rate"])),
        threshold=draw(quarters) / 2, min_lesson_length=max(1, draw(lengths)),
        signal_smoothing=draw(st.booleans()), require_reset=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def blocks(draw: st.DrawFn) -> LessonsSettings:
    legacy = draw(st.booleans())
    count = draw(st.integers(1, 4))
    lessons = []
    for index in range(count):
        completion = draw(st.lists(criteria(legacy), min_size=1, max_size=1 if legacy else 2))
        demotion = draw(st.none() | demotions()) if index and not legacy else None
        joined = None if index == count - 1 else tuple(completion) if len(completion) > 1 else completion[0]
        lessons.append(
            LessonSettings(name=f"L{index}", value=10.0 * index, completion_criteria=joined, demotion=demotion)
        )
    return LessonsSettings(lessons=tuple(lessons), smoothing="legacy" if legacy else "episodes")


@attrs.define
class Step:
    """The environments whose episodes end, with the returns of the behaviors; and other events."""

    ended: dict[int, list[tuple[str, float, float]]]  # by environment: behavior, return, group return
    rate: float | None  # a summary of both behaviors
    resume: bool


endings = st.dictionaries(
    st.integers(0, NUM_ENVS - 1), st.lists(st.tuples(behaviors, quarters, quarters), min_size=1, max_size=3)
)
histories = st.lists(
    st.builds(Step, endings, st.none() | st.none() | quarters, st.sampled_from([False, False, False, True])),
    min_size=20, max_size=60,
)  # fmt: skip


def made(parameters: dict[str, LessonsSettings]) -> Lessons:
    config = RunConfig(behaviors={name: BehaviorSettings(max_steps=steps) for name, steps in MAX_STEPS.items()})
    return make_curriculum(parameters, RunContext(config, Plugins(), Path(), seed=1, num_envs=NUM_ENVS))


def told(behavior: str, rows: list[Any], parameters: int, begun: int) -> EndedEpisodes:
    return EndedEpisodes(
        behavior=behavior,
        slots=np.array([row[0] for row in rows]),
        numbers=np.arange(begun, begun + len(rows)),
        settled=begun + len(rows),
        env_index=np.array([row[0] for row in rows]),
        returns=np.array([row[1] for row in rows]),
        group_returns=np.array([row[2] for row in rows]),
        lengths=np.ones(len(rows), np.int64),
        values=np.zeros((len(rows), parameters)),
        draw_id=np.array([row[3] for row in rows], np.int64),
    )


@given(parameters=st.lists(blocks(), min_size=1, max_size=3), history=histories)
@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_a_random_history_goes_through_the_lessons_of_the_model(
    parameters: list[LessonsSettings], history: list[Step]
) -> None:
    named = {f"p{number}": block for number, block in enumerate(parameters)}
    lessons, model = made(named), Model(parameters)
    playing = [[0] * len(named) for _ in range(NUM_ENVS)]
    staged = [[0] * len(named) for _ in range(NUM_ENVS)]
    begun = dict.fromkeys(MAX_STEPS, 0)
    for number, step in enumerate(history):
        rows: dict[str, list[Any]] = {"B": [], "C": []}
        for at, episodes in step.ended.items():
            for behavior, own, group in episodes:
                model.ended(behavior, own, group, playing[at])
                rows[behavior].append((at, own, group, playing[at]))
            playing[at] = staged[at]
        for behavior, ended in rows.items():
            if ended:
                lessons.episodes_ended(told(behavior, ended, len(named), begun[behavior]))
                begun[behavior] += len(ended)
        if step.ended or lessons.every_step:
            steps = dict.fromkeys(MAX_STEPS, PER_STEP * number)
            before = list(model.on)
            moves, changes = model.look(steps), lessons.advance(steps)
            assert changes.lessons == tuple(
                LessonChange(f"p{p}", lesson, f"L{lesson}", before[p], f"L{before[p]}") for p, lesson in moves.items()
            )
            assert changes.redraw == bool(moves)
            assert changes.reset == any(
                resets(parameters[p].lessons[before[p]], on > before[p]) for p, on in moves.items()
            )
            for at in range(NUM_ENVS) if moves else step.ended:
                staged[at] = list(model.visits)
        if step.rate is not None:
            for behavior in MAX_STEPS:
                model.summarised(behavior, step.rate)
                lessons.summarised(behavior, {"Rate": StatSummary.of([step.rate])})
        if step.resume:
            state = copy.deepcopy(lessons.state_dict())
            lessons = made(named)
            lessons.load_state_dict(state)
        check_measures(lessons, model, dict.fromkeys(MAX_STEPS, PER_STEP * number))
        drawn = lessons.draw(np.arange(NUM_ENVS), np.full(NUM_ENVS, number))
        assert drawn.draw_id.tolist() == [model.visits] * NUM_ENVS
        assert drawn.values.tolist() == [[10.0 * on for on in model.on]] * NUM_ENVS


def check_measures(lessons: Lessons, model: Model, steps: dict[str, int]) -> None:
    """Compare the status of a lesson with one criterion; for legacy lessons, the model's look has changed it."""
    for p, section in enumerate(lessons.status().values()):
        completion = model.blocks[p].lessons[model.on[p]].completion
        if len(completion) == 1 and completion[0].measure != "progress" and model.blocks[p].smoothing == "episodes":
            expected = model.value(p, completion[0], steps)
            if expected is not None:
                assert section["value"] == expected


def resets(lesson: LessonSettings, forward: bool) -> bool:
    used = lesson.completion if forward else (lesson.demotion_criterion,)
    return any(criterion is not None and criterion.require_reset for criterion in used)
