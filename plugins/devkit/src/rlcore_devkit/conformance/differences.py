"""Test from what a trainer learns: equal data with one thing changed must change what it learns, or must not.

Each test plays a script (:mod:`rlcore_devkit.conformance.script`) twice, and compares the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import (
    BehaviorSpec,
    ConfigError,
    Environment,
    Plugins,
    Ranks,
    Trainer,
    TrainerSpec,
    TrainerWrapper,
    Transitions,
)
from rlcore_devkit.conformance.learning_rewards import LearningRewards
from rlcore_devkit.conformance.ranks import in_ranks
from rlcore_devkit.conformance.rules import Rules
from rlcore_devkit.conformance.script import Script, ScriptedSlots, play_script
from rlcore_devkit.conformance.states import assert_equal

Array = NDArray[Any]
Signals = dict[str, dict[str, float]]
"""The block ``reward_signals``."""

UPDATES = 2  # the second one learns from values that are not those of the first weights, which may be 0
STEPS_LEARNING = 8  # at least, after the first update: a trainer that learns in every step draws from all that it has
LEAST_STEPS = 40  # of a script, at least
SAME = 1e-3  # of what an array changed by learning; sums in another order differ by less, and results of data by more
SHARES = (8, 4)  # slots of each rank: environments of up to four agents, and one rank has more of them


class AnotherReward:
    """A second reward, which is learned from like the environment's own."""

    name = "another"

    def __init__(self, gamma: float, strength: float, observations: Sequence[str], ignore_done: bool) -> None:
        self.gamma = gamma
        self.strength = strength
        self.ignore_done = ignore_done

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        reward: NDArray[np.float32] = np.cos(3.0 * transitions.reward)
        return reward

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass


@attrs.frozen(eq=False)
class Learned:
    """The result of training on a script: arrays of its weights by path.

    Attributes:
        before: The arrays before the first update.
        after: The arrays after the last one.
        cuts: [T] after which steps a reset cut all episodes.
        steps: The agent steps that the trainer counted.
    """

    before: dict[str, Array]
    after: dict[str, Array]
    cuts: NDArray[np.bool_]
    steps: int

    def differs(self, other: Learned, share: float = SAME) -> bool:
        """Whether an array differs by more than this ``share`` of what learning changed."""
        moved = {}
        for name, after in self.after.items():
            moved[name] = largest_difference(after, self.before[name])
        # Gradients that are 0 but for rounding move a few arrays, such as the bias of keys in an attention.
        least = SAME * max(moved.values(), default=0.0)
        for name, after in self.after.items():
            allowed = share * max(moved[name], least)
            difference = largest_difference(after, other.after[name])
            if difference > allowed:
                return True
        return False


class TrainerDifferences(Rules):
    """Tests of what weights depend on, for trainers of every kind; :class:`rlcore_devkit.TrainerConformance` has them.

    Attributes:
        trainer: The trainer, NAME or DIST/NAME, as installed.
        steps: Environment steps that are enough for two updates.
        num_envs: N, the number of environments.
    """

    trainer: ClassVar[str] = ""
    steps: ClassVar[int] = 300
    num_envs: ClassVar[int] = 4
    _unchanged: ClassVar[dict[tuple[type, str], tuple[Script, Learned]]] = {}

    def make(self, environment: Environment, seed: int = 1, plugins: Plugins | None = None, **settings: Any) -> Trainer:
        """Create the trainer of the only behavior."""
        raise NotImplementedError

    def plugins(self) -> Plugins:
        """Return the plugins that the trainer is created with."""
        raise NotImplementedError

    def environment(self) -> Environment:
        """Return an environment whose actions the trainer declares."""
        raise NotImplementedError

    # ------------------------------------------------------------ ends of episodes

    def test_a_time_limit_is_not_an_end_of_the_task(self) -> None:
        """A truncated episode bootstraps from its final observation, a terminated one does not."""
        script, learned = self._played("alone")
        changed = attrs.evolve(script, terminated=script.truncated, truncated=script.terminated)
        assert learned.differs(self._again("alone", changed)), (
            "the weights are the same if all episodes that were truncated had terminated, and the other way round: "
            "after a time limit, bootstrap from the value of the final observation"
        )

    def test_the_final_observation_of_a_truncated_episode_counts(self) -> None:
        script, learned = self._played("alone")
        changed = script.with_swapped("finals", script.truncated)
        assert learned.differs(self._again("alone", changed)), (
            "final_observations of truncated episodes have no effect: the row of `observations` already shows the next "
            "episode there"
        )

    def test_an_episode_that_begin_cuts_bootstraps_from_its_last_observation(self) -> None:
        script, learned = self._played("alone")
        assert learned.cuts.any(), "the trainer completes a rollout in nearly every step; choose larger hyperparameters"
        cut = np.broadcast_to(learned.cuts[:, None], script.reward.shape)
        changed = script.with_swapped("observations", cut)
        assert learned.differs(self._again("alone", changed)), (
            "the last observations before `begin` have no effect: begin() cuts open episodes, which bootstrap from "
            "them as if truncated"
        )

    def test_the_reward_of_a_lost_environment_does_not_count(self) -> None:
        """The open transition of a lost environment is dropped; ``aborted`` marks it."""
        script, learned = self._played("alone")
        reward = np.where(script.aborted, np.float32(50.0), script.reward)
        changed = attrs.evolve(script, reward=reward)
        assert not learned.differs(self._again("alone", changed)), (
            "rows of `aborted` are learned from: their open transition is dropped"
        )

    # ------------------------------------------------------------ rewards

    def test_the_reward_of_the_group_counts(self) -> None:
        script, learned = self._played("alone")
        changed = attrs.evolve(script, group_reward=-script.group_reward)
        assert learned.differs(self._again("alone", changed)), (
            "group_reward has no effect: give it to the reward providers as Transitions.group_reward"
        )

    @pytest.mark.parametrize("reward", ["extrinsic", AnotherReward.name])
    @pytest.mark.parametrize(("key", "value"), [("gamma", 0.3), ("strength", 4.0)])
    def test_each_reward_has_a_discount_and_a_strength_of_its_own(self, reward: str, key: str, value: float) -> None:
        case = "alone" if reward == "extrinsic" else "two rewards"
        script, learned = self._played(case)
        signals = _signals(case)
        signals[reward][key] = value
        changed = self._again(case, script, signals=signals)
        assert learned.differs(changed), f"{key} of the reward provider {reward!r} has no effect"

    def test_the_value_of_a_reward_that_ignores_ends_continues_after_them(self) -> None:
        script, learned = self._played("two rewards")
        changed = self._again("two rewards", script, ignore_done=True)
        assert learned.differs(changed), (
            "ignore_done of a reward provider has no effect: where it is True, the value continues after the end of an "
            "episode"
        )

    # ------------------------------------------------------------ turns

    def test_a_batch_may_say_that_all_agents_act(self) -> None:
        """``needs_action`` that is True everywhere means what None means, also for a trainer without turns."""
        script, _ = self._played("alone")
        everyone = np.ones_like(script.terminated)
        changed = attrs.evolve(script, needs_action=everyone)
        self._again("alone", changed)

    def test_what_an_agent_sees_while_it_waits_does_not_count(self) -> None:
        if not self.plugins().record(TrainerSpec, self.trainer).turns:
            pytest.skip("declares turns=False: it gets no batch in which an agent waits")
        script, learned = self._played("waiting")
        assert script.needs_action is not None
        changed = script.with_swapped("observations", ~script.needs_action)
        assert not learned.differs(self._again("waiting", changed)), (
            "observations of rows whose needs_action is False are learned from"
        )

    # ------------------------------------------------------------ ranks

    def test_two_ranks_learn_what_one_process_learns(self) -> None:
        """One of the ranks has more agents than the other one."""
        if not self.plugins().record(TrainerSpec, self.trainer).ranks:
            pytest.skip("declares ranks=False: a run of several processes is refused")
        [behavior] = self.environment().behaviors.values()
        total = sum(SHARES)
        environment = ScriptedSlots(self._behavior(behavior, total))
        trainer = self.make(environment)  # which may change the environments of the slots
        if not _learns_in_ranks(trainer):
            pytest.skip("declares learns_in_ranks=False: a run of several processes is refused")
        [all_slots] = environment.behaviors.values()
        script = self._script(all_slots, waiting=False)
        one = self._learn(trainer, script)
        edges = np.cumsum(SHARES)[:-1]
        of_rank = np.split(np.arange(total), edges)  # the slots of each rank
        envs_of_first = all_slots.env_index[of_rank[0]]
        last_env = int(envs_of_first.max())
        first_env = (0, last_env + 1)

        def learn_in_rank(ranks: Ranks) -> Learned:
            slots = of_rank[ranks.rank]
            part = self._behavior(behavior, len(slots))
            environment = ScriptedSlots(part, ranks, first_env[ranks.rank])
            trainer = self.make(environment)
            share = script.of_slots(slots)
            return self._learn(trainer, share, one.cuts)

        try:
            first, second = in_ranks(learn_in_rank, len(SHARES))
        except ConfigError as error:
            pytest.skip(f"is refused in several processes: {error}")
        assert_equal(first.after, second.after, "the weights of two ranks differ")
        assert first.steps == second.steps == one.steps, "steps are those of all ranks"
        assert not one.differs(first, 10 * SAME), (
            "two ranks learn something else than one process with the agents of both: sum gradients over the rows of "
            "all ranks, and draw random numbers by the number of a slot in the run (run.ranks.share_slots)"
        )

    # ------------------------------------------------------------ parts

    def _played(self, case: str) -> tuple[Script, Learned]:
        """Return the script of a case, and what was learned from it: once for each class."""
        key = (type(self), case)
        if key not in self._unchanged:
            trainer, script = self._made(case)
            learned = self._learn(trainer, script)
            self._unchanged[key] = script, learned
        return self._unchanged[key]

    def _again(self, case: str, script: Script, signals: Signals | None = None, ignore_done: bool = False) -> Learned:
        """Return what is learned from a changed script, with changed rewards."""
        trainer, _ = self._made(case, signals, ignore_done)
        _, unchanged = self._played(case)
        return self._learn(trainer, script, unchanged.cuts)

    def _made(self, case: str, signals: Signals | None = None, ignore_done: bool = False) -> tuple[Trainer, Script]:
        plugins = self.plugins()
        rewards = LearningRewards(AnotherReward, ignore_done=ignore_done)
        plugins.register(rewards, "another-reward")
        [behavior] = self.environment().behaviors.values()
        slots = ScriptedSlots(self._behavior(behavior, self.num_envs))
        signals = signals or _signals(case)
        trainer = self.make(slots, plugins=plugins, reward_signals=signals)
        [behavior] = slots.behaviors.values()  # a subclass may have changed environments and groups
        script = self._script(behavior, waiting=case == "waiting")
        return trainer, script

    def _behavior(self, behavior: BehaviorSpec, slots: int) -> BehaviorSpec:
        """Return a behavior with one agent in each environment, which is a group of its own."""
        rows = np.arange(slots)
        return attrs.evolve(behavior, env_index=rows, team=None, group=rows)

    def _script(self, behavior: BehaviorSpec, waiting: bool) -> Script:
        steps = 4 * max(self.steps, LEAST_STEPS)
        return Script.drawn(behavior, steps, waiting)

    def _learn(self, trainer: Trainer, script: Script, cut: NDArray[np.bool_] | None = None) -> Learned:
        before = arrays(trainer.state_dict()["model"])
        # With equal cuts, both trainings learn from equal rollouts.
        updates, cuts = play_script(trainer, script, UPDATES, STEPS_LEARNING, cut)
        assert updates >= UPDATES, f"no {UPDATES} updates in {script.steps} steps; choose smaller hyperparameters"
        after = arrays(trainer.state_dict()["model"])
        return Learned(before, after, cuts, trainer.steps)


def _signals(case: str) -> Signals:
    """Return the block ``reward_signals`` of a case."""
    signals = {"extrinsic": {"gamma": 0.9, "strength": 1.0}}
    if case == "two rewards":
        signals[AnotherReward.name] = {"gamma": 0.8, "strength": 1.0}
    return signals


def _learns_in_ranks(trainer: Any) -> bool:
    """Whether all trainers around a trainer say that they learn in several ranks."""
    while isinstance(trainer, TrainerWrapper):
        if not trainer.learns_in_ranks:
            return False
        trainer = trainer.trainer
    return True


def arrays(state: Any, where: str = "model") -> dict[str, Array]:
    """Return copies of all arrays of numbers in a nested state, by path."""
    if isinstance(state, Mapping):
        by_path: dict[str, Array] = {}
        for name, value in state.items():
            by_path |= arrays(value, f"{where}[{name!r}]")
        return by_path
    if isinstance(state, np.ndarray) and state.dtype.kind in "fiu":
        return {where: state.astype(np.float64)}
    return {}


def largest_difference(ours: Array, theirs: Array) -> float:
    """Return the largest difference between numbers of two arrays; 0 for empty arrays."""
    differences = np.abs(ours - theirs)
    return float(differences.max(initial=0.0))
