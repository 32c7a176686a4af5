"""The rules of :class:`rlcore.Curriculum` as tests for authors of curricula to inherit.

::

    class TestMyCurriculum(CurriculumConformance):
        curriculum = "acme-curricula/spiral"
        blocks = {"size": {"turns": 3}, "speed": {}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy as shallow_copy
from copy import deepcopy
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BehaviorSettings,
    Curriculum,
    CurriculumSpec,
    EnvironmentParameter,
    EpisodeStatistics,
    LessonChange,
    Parameters,
    Plugins,
    RunConfig,
    RunContext,
    RunStateError,
    StatSummary,
    Tag,
    load_checkpoint,
    save_checkpoint,
)
from rlcore_curriculum.run_parameters.checked import CheckedCurriculum
from rlcore_curriculum.run_parameters.curricula import TrainingCurricula
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.shielded_curriculum import Shielded, read_only

Counts = NDArray[np.int64]

# Invalid status values, as from editing by hand or from another program.
NONSENSE = (-1, 10**6, 1.5, "many", None, [1])
# Episodes whose random numbers are computed together; see rlcore_curriculum.episode_table.
BLOCK = 256


class CurriculumConformance(RecordRules):
    """Tests of curricula: set ``curriculum`` and ``blocks``.

    Attributes:
        curriculum: The curriculum, NAME or DIST/NAME, as installed.
        blocks: Settings of the curriculum by environment parameter.
        behavior: The name of the behavior that these settings may use.
        num_envs: N, the number of environments.
        max_steps: ``max_steps`` of the behavior.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = CurriculumSpec
    named = "curriculum"
    curriculum: ClassVar[str] = ""
    blocks: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    behavior: ClassVar[str] = "Agent"
    num_envs: ClassVar[int] = 4
    max_steps: ClassVar[int] = 10_000

    def make(self, seed: int = 1, **settings: Any) -> Curriculum:
        """Create the curriculum with a run seed; ``settings`` override those of ``blocks``."""
        plugins = self.plugins()
        blocks = self._checked_blocks(**settings)
        config = self._config(blocks, self.behavior)
        assert self._problems(config, plugins) == []
        run = RunContext(config, plugins, self.directory, seed, self.num_envs)
        record = self.record(plugins)
        curriculum: Curriculum = plugins.create(record, settings=blocks, run=run)
        if isinstance(curriculum, CheckedCurriculum):
            # Its checks would hide what Shielded asserts.
            return curriculum.curriculum
        return curriculum

    def _checked_blocks(self, **settings: Any) -> dict[str, Any]:
        checked = {}
        for name, block in self.blocks.items():
            changed = {**block, **settings}
            checked[name] = self.block(**changed)
        return checked

    def _config(self, blocks: Mapping[str, Any], *names: str) -> RunConfig:
        behaviors = {}
        for name in names:
            behaviors[name] = BehaviorSettings(max_steps=self.max_steps)
        parameters = {}
        for name, block in blocks.items():
            parameters[name] = EnvironmentParameter(curriculum=block)
        return RunConfig(behaviors=behaviors, environment_parameters=parameters)

    @staticmethod
    def _problems(config: RunConfig, plugins: Plugins) -> list[Any]:
        problems: list[Any] = []
        for name, parameter in config.environment_parameters.items():
            check = getattr(parameter.curriculum, "problems", None)
            if check:
                problems += [(name, problem) for problem in check(config, plugins)]
        return problems

    def _behaviors(self) -> tuple[str, ...]:
        """Return two behaviors if these blocks name a behavior, else one."""
        both = (self.behavior, f"Not{self.behavior}")
        config = self._config(self._checked_blocks(), *both)
        if self._problems(config, self.plugins()):
            return both[:1]
        return both

    # ------------------------------------------------------------ rules

    def test_has_the_parameters_it_was_given(self) -> None:
        curriculum = self.make()
        assert isinstance(curriculum, Curriculum)
        assert tuple(curriculum.parameters) == tuple(self.blocks)

    def test_draws_are_finite_and_one_for_each_episode(self) -> None:
        curriculum = self.make()
        shape = (self.num_envs, len(self.blocks))
        env_index = read_only(np.arange(self.num_envs))
        different = read_only(np.arange(self.num_envs))
        equal = read_only(np.full(self.num_envs, 100))
        for episodes in (different, equal):
            drawn = curriculum.draw(env_index, episodes)
            target = curriculum.draw_target(env_index, episodes)
            for values in (drawn.values, target):
                assert values.shape == shape
                assert np.isfinite(values).all()
                assert np.issubdtype(values.dtype, np.floating)
            assert drawn.draw_id.shape == shape
            assert np.issubdtype(drawn.draw_id.dtype, np.integer)

    def test_a_draw_depends_on_copy_and_episode_and_not_on_what_else_is_asked(self) -> None:
        curriculum = Game(self.make(), self).play(30).curriculum
        env_index = np.arange(self.num_envs)
        episodes = 7 + env_index
        together = curriculum.draw(env_index, episodes)
        target = curriculum.draw_target(env_index, episodes)
        for env in reversed(env_index):
            row = slice(env, env + 1)
            arguments = (env_index[row], episodes[row])
            drawn = curriculum.draw(*arguments)
            np.testing.assert_array_equal(drawn.values, together.values[row])
            np.testing.assert_array_equal(drawn.draw_id, together.draw_id[row])
            target_alone = curriculum.draw_target(*arguments)
            np.testing.assert_array_equal(target_alone, target[row])

    def test_nor_on_the_order_in_which_the_episodes_of_a_copy_are_asked_for(self) -> None:
        around = range(BLOCK - 3, BLOCK + 3)
        numbers = [1, *around, 2 * BLOCK]
        backwards = numbers[::-1]
        ascending = self._drawn(self.make(), numbers)
        descending = self._drawn(self.make(), backwards)
        assert ascending == descending[::-1]

    def _drawn(self, curriculum: Curriculum, numbers: list[int]) -> list[Any]:
        """Return the values, ids and targets of these episodes of the last environment, asked for one by one."""
        env_index = np.array([self.num_envs - 1])
        draws: list[Any] = []
        for number in numbers:
            episodes = np.array([number])
            drawn = curriculum.draw(env_index, episodes)
            target = curriculum.draw_target(env_index, episodes)
            arrays = (drawn.values, drawn.draw_id, target)
            draws.append([array.tolist() for array in arrays])
        return draws

    def test_drawing_changes_nothing(self) -> None:
        game = Game(self.make(), self).play(30)
        other = Game(self.make(), self).play(30)
        env_index = np.arange(self.num_envs)
        for episode in (3, 200, 5):
            episodes = np.full(self.num_envs, episode)
            game.curriculum.draw(env_index, episodes)
            game.curriculum.draw_target(env_index, episodes)
        assert game.play(30).history == other.play(30).history

    def test_draws_stay_equal_until_redraw(self) -> None:
        """The values of the next episode are drawn when an episode starts, and again when ``redraw`` is set."""
        game = Game(self.make(), self)
        env_index = np.arange(self.num_envs)
        for _ in range(80):
            game.play(1)
            following = game.environment.episodes + 1
            drawn = game.curriculum.draw(env_index, following)
            values = drawn.values.tolist()
            assert values == game.staged, "draw returns other values now, but advance did not set redraw"

    def test_equal_runs_draw_the_same(self) -> None:
        one = Game(self.make(), self).play(80)
        other = Game(self.make(), self).play(80)
        assert one.history == other.history

    def test_goes_on_from_its_state_as_if_never_stopped(self) -> None:
        for played in (0, 1, 17, 60):
            game = Game(self.make(), self)
            self._resume_after(played, game)

    def test_keeps_its_rules_among_several_behaviors_and_agents(self) -> None:
        """Each environment has two agents that end before it does and share rewards."""
        behaviors = self._behaviors()
        for played in (1, 40):
            game = Game(self.make(), self, behaviors, agents=2)
            self._resume_after(played, game)

    def _resume_after(self, played: int, game: Game) -> None:
        game.play(played)
        saved = {"curricula": game.run.state_dict()}
        path = save_checkpoint(self.directory, game.steps + 1, saved)
        state = load_checkpoint(path)["curricula"]
        resumed = game.resumed(self.make(), state)
        game.play(60)
        resumed.play(60)
        assert game.history == resumed.history
        assert game.run.stats() == resumed.run.stats()
        assert game.run.status() == resumed.run.status()

    def test_the_status_is_json_and_the_statistics_are_finite(self) -> None:
        for steps in (0, 30):
            run = Game(self.make(), self).play(steps).run
            for tag, value in run.stats().items():
                assert isinstance(tag, str)
                assert np.isfinite(value)
            text = json.dumps(run.status(), allow_nan=False)
            status = json.loads(text)
            assert sorted(status) == sorted(self.blocks)

    def test_a_status_without_its_sections_is_accepted(self) -> None:
        restored = self.make()
        status: dict[str, Any] = {"metadata": {}, self.behavior: {"checkpoints": []}}
        restored.load_status(status)
        fresh = self.make()
        history = Game(restored, self).play(30).history
        expected = Game(fresh, self).play(30).history
        assert history == expected

    def test_a_status_that_makes_no_sense_changes_nothing(self) -> None:
        """Either RunStateError refuses the status, or nothing changes."""
        expected = Game(self.make(), self).play(30).history
        names = list(self.blocks)
        first = names[0]
        last = names[-1]
        curriculum = self.make()
        for nonsense in NONSENSE:
            wrong = {last: {"lesson_num": nonsense}}
            refused = self._refuses(curriculum, wrong)
            self._refuses(curriculum, {last: nonsense})
            if refused and first != last:
                # The section of the first parameter is valid, and must not be loaded alone.
                half_right = {first: {"lesson_num": 1}, **wrong}
                assert self._refuses(curriculum, half_right)
        assert Game(curriculum, self).play(30).history == expected

    def _refuses(self, curriculum: Curriculum, sections: Mapping[str, Any]) -> bool:
        try:
            curriculum.load_status(sections)
        except RunStateError:
            return True
        return False


class Environments:
    """The parts of an environment that parameters need; its first environment is in episode 250."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.episodes: Counts = np.zeros(num_envs, np.int64)
        self.episodes[0] = BLOCK - 6  # a game passes the end of the first block of random numbers
        self.parameters: Parameters = {}

    def set_parameters(self, parameters: Parameters) -> None:
        self.parameters = parameters


class Game:
    """Simulates a run for curricula: environments whose episodes end at random, with random returns."""

    def __init__(
        self, curriculum: Curriculum, rules: CurriculumConformance, names: tuple[str, ...] = (), agents: int = 1
    ) -> None:
        """``agents`` per environment for each of the behaviors called ``names``; by default, the one of ``rules``.

        Several agents end before their environment and share rewards.
        """
        self.rules = rules
        self.agents = agents
        self.random = np.random.default_rng(3)
        self.steps = 0
        self.history: list[Any] = []
        self.changes: list[LessonChange] = []
        self.environment: Any = Environments(rules.num_envs)
        env_index = np.repeat(np.arange(rules.num_envs), agents)
        slots = len(env_index)
        self.behaviors: dict[str, Any] = {}
        for name in names or (rules.behavior,):
            behavior = SimpleNamespace(name=name, steps=0, learning=True, batch=None)
            behavior.spec = SimpleNamespace(slots=slots, env_index=env_index)
            behavior.episodes = EpisodeStatistics(slots)
            self.behaviors[name] = behavior
        self._ask(curriculum)
        self._begin(self.environment.episodes.copy())

    def resumed(self, curriculum: Curriculum, state: Mapping[str, Any]) -> Game:
        """Return a game that continues this one with ``state`` in another curriculum."""
        other = shallow_copy(self)
        for name in ("random", "history", "changes", "environment", "behaviors"):
            value = getattr(self, name)
            setattr(other, name, deepcopy(value))
        other._ask(curriculum)
        other.run.load_state_dict(state)
        other.run.resume()
        return other

    def _ask(self, curriculum: Curriculum) -> None:
        self.curriculum = curriculum
        shielded: Any = Shielded(curriculum)
        curricula = {self.rules.curriculum: shielded}
        self.run = TrainingCurricula(curricula, self.environment, self.behaviors, self.changes.append)

    def _begin(self, episodes: Counts) -> None:
        self.run.before_reset(episodes)
        self.environment.episodes[:] = episodes
        self.run.after_reset(episodes)
        for behavior in self.behaviors.values():
            slots = behavior.spec.slots
            none = np.zeros(slots, np.bool_)
            reward = np.zeros(slots, np.float32)
            behavior.batch = AgentBatch({}, reward, none, none)
            behavior.episodes.begin(behavior.batch)

    @property
    def staged(self) -> list[list[float]]:
        """Return the values of the next episode of each environment, [N, P]."""
        parameters = self.environment.parameters
        columns = [parameters[name] for name in self.rules.blocks]
        return np.column_stack(columns).tolist()  # type: ignore[no-any-return]

    def play(self, steps: int) -> Game:
        for _ in range(steps):
            self._step()
        return self

    def _step(self) -> None:
        self.steps += self.rules.num_envs
        env_ended = self.random.random(self.rules.num_envs) < 0.4
        for behavior in self.behaviors.values():
            slots = behavior.spec.slots
            share = 0.1 * (self.agents - 1)  # agents end before their environment only where it has several
            ends_before = self.random.random(slots) < share
            ended = env_ended[behavior.spec.env_index] | ends_before
            # Returns rise with the steps, so that curricula with thresholds change lessons.
            mean = self.steps / 50
            returns = self.random.normal(mean, 2.0, slots)
            rewards = np.where(ended, returns, 0.0).astype(np.float32)
            truncated = np.zeros(slots, np.bool_)
            batch = AgentBatch({}, rewards, ended, truncated)
            if self.agents > 1:
                shared = self.random.normal(size=slots)
                batch.group_reward = shared.astype(np.float32)
            behavior.batch = batch
            finished = behavior.episodes.record(batch)
            if finished is not None:
                self.run.episodes_finished(behavior, finished)
            behavior.steps += slots
        self.environment.episodes[env_ended] += 1
        if self.run.after_step():
            self._begin(self.environment.episodes + 1)
        summary_steps = 8 * self.rules.num_envs
        if self.steps % summary_steps == 0:
            self._summarize()
        changes = list(self.changes)
        self.history.append((self.steps, changes, self.staged))

    def _summarize(self) -> None:
        for name in self.behaviors:
            self.run.stats()
            rewards = self.random.normal(size=3).tolist()
            summary = {Tag.CUMULATIVE_REWARD: StatSummary.of(rewards)}
            self.run.summarised(name, summary)
