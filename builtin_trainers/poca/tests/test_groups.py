"""An agent of a group learns from rewards, ends, returns and baselines, against histories kept agent by agent."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec, RunStateError
from rlcore_poca.groups import mates_of
from rlcore_poca.trainer import Mates, POCATrainer
from rlcore_torch import Inputs

MakeTrainer = Callable[..., POCATrainer]
Float = NDArray[np.float32]
GAMMA = 0.5
LAMBDA = 0.75


def behavior_of(env_index: list[int], group: list[int] | None, options: int = 3) -> BehaviorSpec:
    return BehaviorSpec(
        "Agent", (ObservationSpec("seen", (1,), np.float32),), discrete=(options,), env_index=np.array(env_index),
        group=None if group is None else np.array(group),
    )  # fmt: skip


def value_of(own: float, mates: list[tuple[float, int]]) -> float:
    """A value that tells every set of observations from others: 1 for the agent's own number, 10 for each mate's."""
    return own + 10.0 * sum(seen for seen, _ in mates)


def baseline_of(own: float, mates: list[tuple[float, int]]) -> float:
    return own + 10.0 * sum(seen * (1.0 + action) for seen, action in mates)


def with_known_critic(trainer: POCATrainer) -> POCATrainer:
    """Let the critic of the trainer compute :func:`value_of` and :func:`baseline_of`."""

    def value(inputs: Inputs, mates: Mates) -> Tensor:
        return inputs[0] + 10.0 * (mates.inputs[0] * mates.present.unsqueeze(2)).sum(1)

    def baseline(inputs: Inputs, mates: Mates) -> Tensor:
        weights = (mates.actions.argmax(2) + 1.0) * mates.present
        return inputs[0] + 10.0 * (mates.inputs[0] * weights.unsqueeze(2)).sum(1)

    trainer.model.critic.value = value  # type: ignore[method-assign]
    trainer.model.critic.baseline = baseline  # type: ignore[method-assign]
    return trainer


def batch_of(seen: list[float], **arrays: Any) -> AgentBatch:
    count = len(seen)
    given: dict[str, Any] = {name: np.array(array) for name, array in arrays.items() if name != "final"}
    final = arrays.get("final")
    return AgentBatch(
        {"seen": np.array(seen, np.float32)[:, None]},
        given.pop("reward", np.zeros(count)).astype(np.float32),
        given.pop("terminated", np.zeros(count, np.bool_)),
        given.pop("truncated", np.zeros(count, np.bool_)),
        final_observations=None if final is None else {"seen": np.array(final, np.float32)[:, None]},
        **given,
    )


# Observations: 3 and 5 follow where an agent goes on, 4 and 6 are final, and 700 is of agents that wait or begin again.
ENDS = [
    ("goes on", "goes on", 3 + 50),
    ("goes on", "terminated", 3),
    ("goes on", "truncated", 3),
    ("terminated", "goes on", 4 + 50),
    ("terminated", "truncated", 4 + 60),
    ("terminated", "terminated", 0),
    ("truncated", "goes on", 4 + 50),
    ("truncated", "truncated", 4 + 60),
    ("truncated", "terminated", 4),
]


@pytest.mark.parametrize(("agent", "mate", "following"), ENDS)
@pytest.mark.parametrize("at_once", [False, True], ids=["waits", "begins again at once"])
def test_a_row_bootstraps_from_those_that_go_on(
    make_trainer: MakeTrainer, agent: str, mate: str, following: float, at_once: bool
) -> None:
    settings = {"reward_signals": {"extrinsic": {"gamma": GAMMA}}}
    trainer = with_known_critic(make_trainer(behavior_of([0, 0], [0, 0]), block=settings))
    first = batch_of([1.0, 2.0])
    trainer.begin(first)
    actions = trainer.act(first)
    both = (agent, mate)
    ended = [end != "goes on" for end in both]
    begins = at_once and all(ended)
    final = [seen for seen, end in zip((4.0, 6.0), ended, strict=True) if end]
    step = batch_of(
        [700.0 if end else seen for seen, end in zip((3.0, 5.0), ended, strict=True)],
        reward=[1.0, 2.0],
        group_reward=np.array([4.0, 4.0], np.float32),
        terminated=[end == "terminated" for end in both],
        truncated=[end == "truncated" for end in both],
        needs_action=[begins or not end for end in ended],
        final=final or None,
    )
    trainer.observe(actions, step)
    _, returns = trainer.advantages(trainer.rollout())
    assert returns[0, 0].item() == pytest.approx(1.0 + 2.0 + 4.0 + GAMMA * following)


# A life that was lost is an end for its agent's row alone: its observation, 3 or 5, is final and begins the next row.
LIVES = [
    ("loses a life", "goes on", 3 + 50),
    ("loses a life", "truncated", 3 + 60),
    ("loses a life", "loses a life", 0),
    ("loses a life", "terminated", 0),
    ("goes on", "loses a life", 3 + 50),
    ("terminated", "loses a life", 0),
    ("truncated", "loses a life", 4 + 50),
]


@pytest.mark.parametrize(("agent", "mate", "following"), LIVES)
@pytest.mark.parametrize("waits", [False, True], ids=["acts again", "waits for its turn"])
def test_a_lost_life_leaves_the_value_of_the_group_while_a_mate_goes_on(
    make_trainer: MakeTrainer, agent: str, mate: str, following: float, waits: bool
) -> None:
    settings = {"reward_signals": {"extrinsic": {"gamma": GAMMA}}}
    trainer = with_known_critic(make_trainer(behavior_of([0, 0], [0, 0]), block=settings))
    first = batch_of([1.0, 2.0])
    trainer.begin(first)
    both = (agent, mate)
    ended = [end in ("terminated", "truncated") for end in both]
    lost = [end == "loses a life" for end in both]
    step = batch_of(
        [700.0 if end else seen for seen, end in zip((3.0, 5.0), ended, strict=True)],
        reward=[1.0, 2.0],
        terminated=[end == "terminated" for end in both],
        truncated=[end == "truncated" for end in both],
        life_lost=lost,
        needs_action=[not end and not (waits and life) for end, life in zip(ended, lost, strict=True)],
        final=[seen for seen, end in zip((4.0, 6.0), ended, strict=True) if end] or None,
    )
    trainer.observe(trainer.act(first), step)
    _, returns = trainer.advantages(trainer.rollout())
    assert returns[0, 0].item() == pytest.approx(1.0 + 2.0 + GAMMA * following)
    assert trainer.groups.alive.tolist() == [not end for end in ended]  # an agent that lost a life is still there


@attrs.define
class Row:
    """An action of one agent, and its result. Mates are (observation, action) of those that are there."""

    seen: float
    mates: list[tuple[float, int]]
    reward: float = 0.0
    next_value: float | None = None  # None: that of the next row, which continues the episode


class History:
    """Random histories of two environments, played to a trainer and kept agent by agent.

    Each environment has a group of three, a group of two and an agent alone. Agents come late, wait for turns, die, run
    out of time alone or together, and environments are lost. In the middle, another trainer continues from the state.
    """

    def __init__(self, make: Callable[[], POCATrainer], seed: int) -> None:
        self.make = make
        self.trainer = self.watched()
        behavior = self.trainer.behavior
        assert behavior.group is not None
        self.slots, self.env = behavior.slots, behavior.env_index
        self.mates = [
            [m for m in range(self.slots) if m != s and group == behavior.group[m] and group >= 0]
            for s, group in enumerate(behavior.group.tolist())
        ]
        self.random = np.random.default_rng(seed)
        self.alive = np.zeros(self.slots, np.bool_)
        self.did = [0] * self.slots
        self.open: dict[int, Row] = {}
        self.closed: list[list[Row]] = [[] for _ in range(self.slots)]
        self.updates = 0
        self.compared = 0

    def watched(self) -> POCATrainer:
        """Make a trainer whose every rollout is compared."""
        trainer = with_known_critic(self.make())
        advantages = trainer.advantages

        def compare(rollout: Any, *baseline: Any) -> Any:
            found = advantages(rollout, *baseline)
            self.compare(rollout.valid, *found)
            return found

        trainer.advantages = compare  # type: ignore[method-assign, assignment]
        return trainer

    def numbers(self, count: int) -> Float:
        return self.random.uniform(-1.0, 1.0, count).astype(np.float32)

    def play(self, steps: int) -> None:
        self.batch = batch_of(self.numbers(self.slots).tolist(), needs_action=self.random.random(self.slots) < 0.8)
        self.alive = self.acting.copy()
        self.trainer.begin(self.batch)
        for number in range(steps):
            if number == steps // 2:
                state = self.trainer.state_dict()
                self.trainer = self.watched()
                self.trainer.load_state_dict(state)
            actions = self.trainer.act(self.batch)
            assert actions.discrete is not None
            for slot in np.flatnonzero(self.acting).tolist():
                self.did[slot] = int(actions.discrete[slot, 0])
            for slot in np.flatnonzero(self.acting).tolist():
                self.open[slot] = Row(self.seen(slot), [(self.seen(m), self.did[m]) for m in self.there(slot)])
            self.step()
            self.trainer.observe(actions, self.batch)
            if self.trainer.ready():
                self.trainer.update()
                self.closed = [[] for _ in range(self.slots)]
                self.updates += 1

    @property
    def acting(self) -> NDArray[np.bool_]:
        assert self.batch.needs_action is not None
        return self.batch.needs_action

    def seen(self, slot: int) -> float:
        return float(self.batch.observations["seen"][slot, 0])

    def there(self, slot: int) -> list[int]:
        return [m for m in self.mates[slot] if self.alive[m]]

    def step(self) -> None:
        """Draw the next batch, and write down what it means for each agent."""
        random = self.random
        count = self.slots
        kinds = np.where(self.alive, random.choice(3, count, p=(0.84, 0.1, 0.06)), 0)  # 1: terminated, 2: truncated
        aborted = np.zeros(count, np.bool_)
        restarts = np.zeros(count, np.bool_)
        for env in range(2):
            here = self.env == env
            if random.random() < 0.1:  # the episodes of all end
                kinds[here & self.alive & (kinds == 0)] = random.integers(1, 3)
            if random.random() < 0.05:
                aborted |= here
                kinds[here] = 0
            restarts |= here & (aborted | (random.random() < 0.2))
        ended = kinds > 0
        stays = self.alive & ~ended & ~aborted
        needs = np.where(stays, random.random(count) < 0.8, restarts & (random.random(count) < 0.8))
        closes = (needs | ended) & self.alive
        reward = self.numbers(count) * closes
        shared = self.numbers(count) * closes
        final = self.numbers(int(ended.sum()))
        alive = self.alive
        self.batch = batch_of(
            self.numbers(count).tolist(), reward=reward, terminated=kinds == 1, truncated=kinds == 2,
            needs_action=needs, aborted=aborted, group_reward=shared, final=final if ended.any() else None,
        )  # fmt: skip
        last = dict(zip(np.flatnonzero(ended).tolist(), final.tolist(), strict=True))
        for slot in list(self.open):
            row = self.open[slot]
            row.reward += sum(float(reward[m]) for m in self.mates[slot])
            if aborted[slot]:
                if self.closed[slot] and self.closed[slot][-1].next_value is None:
                    self.closed[slot][-1].next_value = value_of(row.seen, row.mates)
                del self.open[slot]
            elif closes[slot]:
                row.reward += float(reward[slot] + shared[slot])
                if ended[slot]:
                    follow = [m for m in self.mates[slot] if alive[m] and kinds[m] != 1]
                    states = [(last.get(m, self.seen(m)), 0) for m in follow]
                    over = kinds[slot] == 1 and not follow
                    row.next_value = 0.0 if over else value_of(last[slot], states)
                self.closed[slot].append(self.open.pop(slot))
        self.alive = stays | needs

    def compare(self, valid: NDArray[np.bool_], advantages: Tensor, returns: Tensor) -> None:
        """The lambda-returns by their recursive definition, and the advantages against the baselines."""
        for slot, rows in enumerate(self.closed):
            assert valid[:, slot].sum() == len(rows)
            following = 0.0
            for t in reversed(range(len(rows))):
                row = rows[t]
                if row.next_value is not None:
                    target = row.reward + GAMMA * row.next_value
                elif t + 1 < len(rows):
                    after = rows[t + 1]
                    mixed = (1 - LAMBDA) * value_of(after.seen, after.mates) + LAMBDA * following
                    target = row.reward + GAMMA * mixed
                else:  # the rollout ends here: what the agents see now
                    now = value_of(self.seen(slot), [(self.seen(m), 0) for m in self.there(slot)])
                    target = row.reward + GAMMA * now
                    if slot in self.open:  # it waits for its turn, or is about to learn what followed
                        target = row.reward + GAMMA * value_of(self.open[slot].seen, self.open[slot].mates)
                following = target
                assert float(returns[t, slot, 0]) == pytest.approx(target, abs=1e-4)
                advantage = target - baseline_of(row.seen, row.mates)
                assert float(advantages[t, slot]) == pytest.approx(advantage, abs=1e-4)
                self.compared += 1


@pytest.mark.parametrize("seed", range(6))
def test_returns_and_baselines_are_those_of_a_history_kept_agent_by_agent(make_trainer: MakeTrainer, seed: int) -> None:
    group = [0, 7, 0, 0, 7, -1]
    behavior = behavior_of([0] * 6 + [1] * 6, group + [g + 10 if g >= 0 else -1 for g in group])
    settings = {"reward_signals": {"extrinsic": {"gamma": GAMMA}}, "time_horizon": 100_000}
    options = {"lambd": LAMBDA, "advantage_normalization": "none", "num_epoch": 1}
    history = History(lambda: make_trainer(behavior, block=settings, **options), seed)
    history.play(150)
    assert history.updates >= 2 and history.compared > 500


def test_mates_are_those_of_one_group_in_one_environment() -> None:
    def mates(env_index: list[int], group: list[int] | None) -> list[list[int]]:
        slots, exists = mates_of(behavior_of(env_index, group))
        return [slots[s][exists[s]].tolist() for s in range(len(env_index))]

    assert mates([0, 0, 0, 0], [1, 2, 1, 1]) == [[2, 3], [], [0, 3], [0, 2]]
    assert mates([0, 0, 1, 1], [0, 0, 0, 0]) == [[1], [0], [3], [2]]
    assert mates([0, 0, 0], [-1, -1, 4]) == [[], [], []]
    assert mates([0, 0], None) == [[], []]
    assert mates([0], [0]) == [[]]


def test_agents_without_groups_have_the_advantages_of_ppo(
    make_trainer: MakeTrainer, caplog: pytest.LogCaptureFixture
) -> None:
    """The value of an agent alone and its baseline are one function, so G - b is GAE."""
    trainer = make_trainer(behavior_of([0, 0, 1], None), advantage_normalization="none", lambd=LAMBDA)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no agent of the environment is in a group with another one" in caplog.text
    random = np.random.default_rng(5)
    batch = batch_of(random.standard_normal(3).tolist())
    trainer.begin(batch)
    for step in range(20):
        actions = trainer.act(batch)
        over = step % 7 == 6
        batch = batch_of(
            random.standard_normal(3).tolist(), reward=random.standard_normal(3), terminated=[over] * 3,
            final=random.standard_normal(3) if over else None,
        )  # fmt: skip
        trainer.observe(actions, batch)
    rollout = trainer.rollout()
    baseline = trainer.baselines(rollout, trainer.seen(rollout))
    assert np.abs(baseline - rollout.value).max() < 1e-6
    advantages, _ = trainer.advantages(rollout, baseline)
    gamma = 0.99
    expected = np.zeros((20, 3))
    buffer = trainer.buffer
    for slot in range(3):
        following = 0.0
        for t in reversed(range(20)):
            over = bool(buffer.terminated[t, slot])
            future = 0.0 if over else float(rollout.next_value[t, slot, 0])
            delta = buffer.reward[t, slot] + gamma * future - rollout.value[t, slot, 0]
            following = delta + (0.0 if over else gamma * LAMBDA * following)
            expected[t, slot] = following
    np.testing.assert_allclose(advantages.numpy(), expected, atol=1e-5)


def test_a_state_of_other_groups_is_refused(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(behavior_of([0, 0, 0], [0, 0, 0]))
    state: Mapping[str, Any] = make_trainer(behavior_of([0, 0, 0], [0, 0, 1])).state_dict()
    with pytest.raises(RunStateError, match="/mates/seen"):
        trainer.load_state_dict(state)
