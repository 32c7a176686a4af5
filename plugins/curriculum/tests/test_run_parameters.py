"""Whose episode it was, and what it began with, where agents share a copy and end before it does."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import NO_CHANGES, AgentBatch, Changes, EndedEpisodes, EpisodeDraw, EpisodeStatistics, RunStateError
from rlcore_curriculum.run_parameters.curricula import TrainingCurricula


class Copies:
    """Two copies; the agents of slots 0 and 1 are in copy 0, that of slot 2 in copy 1."""

    num_envs = 2

    def __init__(self) -> None:
        self.episodes: NDArray[np.int64] = np.zeros(2, np.int64)
        self.next: Any = None

    def set_parameters(self, parameters: Any) -> None:
        self.next = parameters


class Numbered:
    """The value says who it is for: 1000 x stage + 100 x copy + episode; the draw_id is the stage."""

    def __init__(self, parameter: str = "size", every_step: bool = False) -> None:
        self.parameters, self.every_step = (parameter,), every_step
        self.stage = self.looks = 0
        self.told: list[tuple[int, float, float, int, int]] = []  # copy, value, return, length, draw_id
        self.numbers: list[tuple[list[int], int]] = []  # and which are settled
        self.changes = NO_CHANGES

    def draw(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> EpisodeDraw:
        values = 1000.0 * self.stage + 100 * env_index + episodes
        return EpisodeDraw(values[:, None], np.full((len(env_index), 1), self.stage))

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        columns = (ended.env_index, ended.values[:, 0], ended.returns, ended.lengths, ended.draw_id[:, 0])
        self.told += [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        self.numbers.append((ended.numbers.tolist(), ended.settled))

    def advance(self, steps: Any) -> Changes:
        self.looks += 1
        changes, self.changes = self.changes, NO_CHANGES
        return changes

    def stats(self) -> dict[str, float]:
        return {}

    def status(self) -> dict[str, Any]:
        return {parameter: {} for parameter in self.parameters}

    def state_dict(self) -> dict[str, Any]:
        return {"stage": self.stage}

    def load_state_dict(self, state: Any) -> None:
        self.stage = state["stage"]


class Stage:
    """A behavior, an environment and a curriculum, stepped by hand."""

    def __init__(self, *others: Numbered) -> None:
        self.environment, self.curriculum = Copies(), Numbered()
        self.behavior: Any = SimpleNamespace(
            name="A", steps=0, learning=True, episodes=EpisodeStatistics(3), batch=self.batch(),
            spec=SimpleNamespace(slots=3, env_index=np.array([0, 0, 1])),
        )  # fmt: skip
        self.curricula: Any = {"numbered": self.curriculum, **{f"other{n}": each for n, each in enumerate(others)}}
        self.run = self.running()
        self.run.before_reset(self.environment.episodes)
        self.run.after_reset(self.environment.episodes)

    def running(self) -> TrainingCurricula:
        environment: Any = self.environment
        return TrainingCurricula(self.curricula, environment, {"A": self.behavior}, lambda change: None)

    def resume(self) -> None:
        """In another process."""
        state = copy.deepcopy(self.run.state_dict())
        self.run = self.running()
        self.run.load_state_dict(state)
        self.run.resume()

    @staticmethod
    def batch(ended: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> AgentBatch:
        terminated = np.isin(np.arange(3), ended)
        lost = np.isin(np.arange(3), aborted) if aborted else None
        return AgentBatch({}, np.ones(3, np.float32), terminated, np.zeros(3, np.bool_), aborted=lost)

    def step(self, ended: tuple[int, ...] = (), begins: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> bool:
        """Agents of slots ``ended`` end, environments ``begins`` start their next episode."""
        self.environment.episodes[list(begins)] += 1
        self.behavior.batch = self.batch(ended, aborted)
        finished = self.behavior.episodes.record(self.behavior.batch)
        if finished is not None:
            self.run.episodes_finished(self.behavior, finished)
        return self.run.after_step()

    def pop_told(self) -> list[tuple[int, float, float, int, int]]:
        told, self.curriculum.told = self.curriculum.told, []
        return told

    @property
    def staged(self) -> list[float]:
        staged: list[float] = self.environment.next["size"].tolist()
        return staged


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_an_agent_that_ends_before_its_copy_goes_on_with_what_the_copy_plays(stage: Stage) -> None:
    stage.step()
    stage.step(ended=(0,))
    assert stage.pop_told() == [(0, 0, 2, 2, 0)]
    stage.curriculum.stage = 1
    stage.curriculum.changes = Changes(redraw=True)
    stage.step(ended=(0,))  # the copy's episode is still the first one, of stage 0
    assert stage.pop_told() == [(0, 0, 1, 1, 0)] and stage.staged == [1001, 1101]
    stage.step(ended=(0, 1), begins=(0,))
    assert stage.pop_told() == [(0, 0, 1, 1, 0), (0, 0, 4, 4, 0)] and stage.staged == [1002, 1101]
    stage.step(ended=(0, 2), begins=(1,))
    assert stage.pop_told() == [(0, 1001, 1, 1, 1), (1, 100, 5, 5, 0)]


def test_episodes_are_numbered_as_they_begin_and_settled_when_all_before_are_over(stage: Stage) -> None:
    stage.step(ended=(2,), begins=(1,))  # the third of three that began together
    stage.step(ended=(0,))
    stage.step(aborted=(1,))
    stage.step(ended=(0, 2), begins=(1,))
    assert stage.curriculum.numbers == [([2], 0), ([0], 1), ([4, 3], 5)]


def test_an_episode_that_does_not_end_is_waited_for_so_long_and_counts_when_it_ends(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Slot 2 began the episode 2; in each step, the two others begin two."""
    for step in range(1, 301):
        stage.step(ended=(0, 1), begins=(0,))
        _, settled = stage.curriculum.numbers[-1]
        begun = 3 + 2 * step
        assert settled == (2 if begun - 2 <= 256 else begun - 2)  # the others have just begun
        if step in (100, 200):
            stage.resume()
    assert [text.split(";")[0] for text in caplog.messages] == [
        "behavior 'A': an episode of environment 1 has not ended while 256 later ones began"
    ] * 2, "once in each process"
    stage.step(ended=(2,), begins=(1,))
    assert stage.curriculum.numbers[-1][0] == [2]


def test_a_lost_episode_is_nobodys_and_the_next_one_has_its_own_draw(stage: Stage) -> None:
    stage.step(begins=(1,), aborted=(2,))
    assert stage.pop_told() == [] and stage.staged == [1, 102]
    stage.step(ended=(2,), begins=(1,))
    assert stage.pop_told() == [(1, 101, 1, 1, 0)]


def test_what_agents_of_one_copy_began_with_is_known_after_a_resume(stage: Stage) -> None:
    stage.curriculum.stage = 1
    stage.curriculum.changes = Changes(redraw=True)
    stage.step(ended=(2,), begins=(1,))
    stage.step(ended=(0,))
    stage.pop_told()
    stage.resume()
    stage.step(ended=(0, 1, 2), begins=(0, 1))
    assert stage.pop_told() == [(0, 0, 1, 1, 0), (0, 0, 3, 3, 0), (1, 101, 2, 2, 0)]
    assert stage.curriculum.numbers[-1] == ([4, 1, 3], 5) and stage.staged == [1002, 1103]


@pytest.mark.parametrize("changes", [Changes(redraw=True), Changes(reset=True)])
@pytest.mark.parametrize("which", [0, 1])
def test_any_of_several_curricula_has_episodes_drawn_anew_or_begun_anew(changes: Changes, which: int) -> None:
    stage = Stage(Numbered("weight"))
    for each in stage.curricula.values():
        each.changes = Changes()  # of which nothing follows
    asking = list(stage.curricula.values())[which]
    asking.stage, asking.changes = 1, changes
    reset = stage.step(ended=(0,))
    assert reset == changes.reset
    name = asking.parameters[0]
    assert (stage.environment.next[name] >= 1000).all() == changes.redraw


def test_where_nothing_ended_only_those_are_asked_that_want_to_be() -> None:
    stage = Stage(Numbered("weight", every_step=True))
    stage.step()
    stage.step(ended=(0,))
    assert [each.looks for each in stage.curricula.values()] == [1, 2]


def test_a_curriculum_of_another_distribution_does_not_resume(stage: Stage) -> None:
    state = copy.deepcopy(stage.run.state_dict())
    state["curricula"]["numbered"]["reference"] = "acme-other/numbered"
    with pytest.raises(RunStateError, match="resume with the configuration of the run"):
        stage.running().load_state_dict(state)
