"""The rules of :class:`rlcore.curriculum.Curriculum` as tests that a curriculum's author inherits.

::

    class TestMyCurriculum(CurriculumConformance):
        curriculum = "acme-curricula/spiral"
        blocks = {"size": {"turns": 3}, "speed": {}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore.checkpoint import load_checkpoint, save_checkpoint
from rlcore.config import BehaviorSettings, EnvironmentParameter, RunConfig
from rlcore.curriculum import CheckedCurriculum, Curriculum, EndedEpisodes
from rlcore.errors import ConfigError
from rlcore.plugins.calls import Plugins, load_plugins
from rlcore.plugins.discover import selection_from
from rlcore.run_context import RunContext
from rlcore.stats import CUMULATIVE_REWARD, StatSummary
from rlcore.testing.blocks import checked_block

__all__ = ["CurriculumConformance"]


class CurriculumConformance:
    """Set ``curriculum`` and ``blocks``, its settings by parameter; ``behavior`` is the name those may use."""

    curriculum: ClassVar[str] = ""  # NAME or DIST/NAME, as installed
    blocks: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    behavior: ClassVar[str] = "Agent"
    copies: ClassVar[int] = 4
    max_steps: ClassVar[int] = 10_000

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def plugins(self) -> Plugins:
        return load_plugins(selection_from(None, {}, (), False, used=(self.curriculum,)))

    def make(self, seed: int = 1, **settings: Any) -> Curriculum:
        plugins = self.plugins()
        spec = plugins.curriculum(self.curriculum)
        typed = {"type": self.curriculum, **settings}
        built = {name: checked_block(plugins, spec, {**block, **typed}) for name, block in self.blocks.items()}
        config = RunConfig(
            behaviors={self.behavior: BehaviorSettings(max_steps=self.max_steps)},
            environment_parameters={name: EnvironmentParameter(curriculum=block) for name, block in built.items()},
        )
        for name, block in built.items():
            check = getattr(block, "problems", None)
            assert list(() if check is None else check(config, plugins)) == [], name
        run = RunContext(config, plugins, self.directory, seed, self.copies)
        made = plugins.create_curriculum(spec, built, run)
        return made.curriculum if isinstance(made, CheckedCurriculum) else made

    # ------------------------------------------------------------ rules

    def test_has_the_parameters_it_was_given(self) -> None:
        made = self.make()
        assert isinstance(made, Curriculum)
        assert tuple(made.parameters) == tuple(self.blocks)

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="no_such_key"):
            self.make(no_such_key=1)

    def test_draws_are_finite_and_one_for_each_episode(self) -> None:
        made = self.make()
        for episodes in (np.arange(self.copies), np.full(self.copies, 100)):
            drawn = made.draw(np.arange(self.copies), episodes)
            shape = (self.copies, len(self.blocks))
            assert drawn.values.shape == drawn.stamp.shape == shape
            assert np.isfinite(drawn.values).all() and np.issubdtype(drawn.stamp.dtype, np.integer)
            target = made.draw_target(np.arange(self.copies), episodes)
            assert target.shape == shape and np.isfinite(target).all()

    def test_a_draw_depends_on_copy_and_episode_and_not_on_what_else_is_asked(self) -> None:
        made, copies = Game(self.make(), self).play(30).curriculum, np.arange(self.copies)
        episodes = 7 + copies
        whole, target = made.draw(copies, episodes), made.draw_target(copies, episodes)
        for copy in reversed(copies):
            one = slice(copy, copy + 1)
            drawn = made.draw(copies[one], episodes[one])
            np.testing.assert_array_equal(drawn.values, whole.values[one])
            np.testing.assert_array_equal(drawn.stamp, whole.stamp[one])
            np.testing.assert_array_equal(made.draw_target(copies[one], episodes[one]), target[one])

    def test_drawing_changes_nothing(self) -> None:
        game, other = Game(self.make(), self).play(30), Game(self.make(), self).play(30)
        for episode in (3, 200, 5):
            numbers = np.full(self.copies, episode)
            game.curriculum.draw(np.arange(self.copies), numbers)
            game.curriculum.draw_target(np.arange(self.copies), numbers)
        assert game.play(30).history == other.play(30).history

    def test_equal_runs_draw_the_same(self) -> None:
        assert Game(self.make(), self).play(80).history == Game(self.make(), self).play(80).history

    def test_goes_on_from_its_state_as_if_never_stopped(self) -> None:
        for played in (0, 1, 17, 60):
            game = Game(self.make(), self).play(played)
            path = save_checkpoint(self.directory, played + 1, {"curriculum": game.curriculum.state_dict()})
            resumed = self.make()
            resumed.load_state_dict(load_checkpoint(path)["curriculum"])
            other = Game(resumed, self, game)
            assert game.play(60).history == other.play(60).history
            assert dict(game.curriculum.stats()) == dict(other.curriculum.stats())
            assert dict(game.curriculum.status()) == dict(other.curriculum.status())

    def test_says_where_it_is(self) -> None:
        made = Game(self.make(), self).play(30).curriculum
        assert all(isinstance(tag, str) and np.isfinite(value) for tag, value in made.stats().items())
        status = json.loads(json.dumps(made.status()))
        assert list(status) == list(self.blocks)

    def test_the_status_of_another_run_may_say_nothing_of_it(self) -> None:
        made, other = self.make(), self.make()
        made.load_status({"metadata": {}, self.behavior: {"checkpoints": []}})
        assert Game(made, self).play(30).history == Game(other, self).play(30).history


class Game:
    """Copies whose episodes end at random, with random returns; a plain loop in place of a run."""

    def __init__(self, curriculum: Curriculum, rules: CurriculumConformance, after: Game | None = None) -> None:
        """``after``: goes on where another game is."""
        self.curriculum = curriculum
        self.rules = rules
        self.random = np.random.default_rng(3)
        self.steps = 0
        self.history: list[Any] = []
        self.episode: NDArray[np.int64] = np.zeros(rules.copies, np.int64)
        self.numbers: NDArray[np.int64] = np.arange(rules.copies)
        self.begun = rules.copies
        if after is None:
            self.now = [self._draw(copy) for copy in range(rules.copies)]
            self.episode += 1
            self.next = [self._draw(copy) for copy in range(rules.copies)]
            return
        self.random.bit_generator.state = after.random.bit_generator.state
        self.steps, self.history, self.episode = after.steps, list(after.history), after.episode.copy()
        self.now, self.next = list(after.now), list(after.next)
        self.numbers, self.begun = after.numbers.copy(), after.begun

    def play(self, steps: int) -> Game:
        for _ in range(steps):
            self._step()
        return self

    def _step(self) -> None:
        self.steps += self.rules.copies
        ended = np.flatnonzero(self.random.random(self.rules.copies) < 0.4)
        if ended.size:
            returns = self.random.normal(self.steps / 50, 2.0, len(ended))
            numbers = self.numbers[ended]
            self.numbers[ended] = np.arange(self.begun, self.begun + len(ended))
            self.begun += len(ended)
            self.curriculum.episodes_ended(
                EndedEpisodes(
                    behavior=self.rules.behavior,
                    slots=ended,
                    copies=ended,
                    numbers=numbers,
                    settled=int(self.numbers.min()),
                    returns=returns,
                    group_returns=np.zeros(len(ended)),
                    lengths=self.random.integers(1, 9, len(ended)),
                    values=np.array([self.now[copy][0] for copy in ended.tolist()]),
                    stamp=np.array([self.now[copy][1] for copy in ended.tolist()]),
                )
            )
            for copy in ended.tolist():
                self.now[copy] = self.next[copy]
                self.episode[copy] += 1
        if not (ended.size or self.curriculum.every_step):
            return
        changes = self.curriculum.advance({self.rules.behavior: self.steps})
        everywhere = list(range(self.rules.copies))
        for copy in everywhere if changes.redraw else ended.tolist():
            self.next[copy] = self._draw(copy)
        if self.steps % (8 * self.rules.copies) == 0:
            summary = StatSummary.of(self.random.normal(size=3).tolist())
            self.curriculum.summarised(self.rules.behavior, {CUMULATIVE_REWARD: summary})
        self.history.append((self.steps, changes, [(values.tolist(), stamp.tolist()) for values, stamp in self.next]))

    def _draw(self, copy: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        drawn = self.curriculum.draw(np.array([copy]), self.episode[copy : copy + 1].copy())
        return drawn.values[0], drawn.stamp[0]
