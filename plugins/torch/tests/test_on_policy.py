"""The on-policy template against a model that keeps lists of dictionaries and computes with Python floats.

Random histories (turn-based slots, lost copies, resets, masks and group rewards that come and go) are played to a
trainer whose loss records the rollout it is given.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from run_of_trainers import run_of
from scalar_spread import ScalarSpread, clipped

from rlcore import AgentBatch, BehaviorSettings, BehaviorSpec, ExtrinsicReward, ObservationSpec, Transitions
from rlcore_torch import ActorCritic, Gaussian, Loss, Minibatch, NetworkSettings, OnPolicySettings, OnPolicyTrainer
from rlcore_torch.on_policy.rollout import RolloutBuffer

BRANCHES = (2, 3)
Transition = dict[str, Any]


class ObservationReward(ExtrinsicReward):
    """A reward of its own, whose value goes on past the end of an episode."""

    name = "seen"
    ignore_done = True
    learned_from: NDArray[np.float32]  # [B, 3]
    followed_by: NDArray[np.float32]  # [B, 3]

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        return np.asarray(transitions.observations["seen"].sum(axis=-1), np.float32)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        self.learned_from = transitions.observations["seen"].reshape(-1, 3).copy()
        self.followed_by = transitions.next_observations["seen"].reshape(-1, 3).copy()
        return {}


class Recorder(OnPolicyTrainer):
    """Records the rollout instead of learning from it."""

    recorded: list[Minibatch]

    def build_model(self, value_heads: int) -> ActorCritic:
        return ActorCritic(self.behavior, self.settings.network_settings, value_heads, shared=False)

    def update(self) -> Any:
        rollout = self.rollout()
        batches = self.minibatches(rollout, *self.advantages(rollout))
        return self.finish(rollout, [self.minimize(self.loss, batch) for batch in batches])

    def loss(self, batch: Minibatch) -> Loss:
        self.recorded.append(batch)
        zero = self.model.value(batch.inputs).sum() * 0.0
        return Loss(zero, zero, zero, zero, torch.zeros(len(batch.advantage)))


def behavior_of(slots: int) -> BehaviorSpec:
    """Hybrid and unbounded, so that the actions given to the environment are the raw ones."""
    infinite = np.full(2, np.inf, np.float32)
    return BehaviorSpec(
        "Agent",
        (ObservationSpec("seen", (3,), np.float32),),
        continuous=2,
        discrete=BRANCHES,
        low=-infinite,
        high=infinite,
        env_index=np.arange(slots),
    )


def recorder(slots: int, gamma: float, lambd: float, time_horizon: int, buffer_size: int, **rewards: Any) -> Recorder:
    behavior_settings = BehaviorSettings(
        hyperparameters=OnPolicySettings(
            batch_size=buffer_size,
            buffer_size=buffer_size,
            lambd=lambd,
            num_epoch=1,
            advantage_normalization="none",
            **rewards,
        ),
        network_settings=NetworkSettings(hidden_units=8, num_layers=1, init="orthogonal"),
        reward_signals={"extrinsic": None, "seen": None},
        time_horizon=time_horizon,
    )
    run = run_of(ExtrinsicReward(gamma, strength=2.0), ObservationReward(0.8, strength=0.5))
    return Recorder(behavior_settings, behavior_of(slots), run)


class Case(NamedTuple):
    seed: int
    slots: int
    buffer_size: int
    ragged: bool
    aborts: bool
    begins: bool
    optional: bool
    gamma: float
    lambd: float
    time_horizon: int
    save: bool
    normalize_rewards: bool
    clip_rewards: float | None


class History:
    """Plays random batches to a trainer and remembers, slot by slot, what a rollout must hold."""

    def __init__(self, trainer: Recorder, case: Case) -> None:
        self.trainer = trainer
        self.slots = trainer.behavior.slots
        self.random = np.random.default_rng(case.seed)
        self.case = case
        self.acting = self.random.uniform(0.1, 0.9, self.slots)  # how often each slot acts
        self.now: list[Transition | None] = [None] * self.slots  # what each slot acts on next
        self.open: list[Transition | None] = [None] * self.slots
        self.closed: list[list[Transition]] = [[] for _ in range(self.slots)]
        self.sums = [0.0] * self.slots  # rewards of the open episodes
        self.spread = ScalarSpread(self.slots, case.gamma)
        self.last: AgentBatch

    def batch(self, ends: bool) -> AgentBatch:
        s = self.slots
        random = self.random
        acted = np.array([one is not None for one in self.open]) if ends else np.zeros(s, np.bool_)
        kind = random.choice(3, s, p=(0.8, 0.1, 0.1)) * acted
        aborted = None
        if self.case.aborts and ends and random.random() < 0.3:
            aborted = random.random(s) < 0.4
            kind *= ~aborted
        ended = np.flatnonzero(kind)
        mask = None
        if self.case.optional and random.random() < 0.6:
            mask = random.random((s, sum(BRANCHES))) < 0.6
            mask[:, [0, BRANCHES[0]]] = True
        return AgentBatch(
            observations={"seen": random.standard_normal((s, 3)).astype(np.float32)},
            reward=random.standard_normal(s).astype(np.float32),
            terminated=kind == 1,
            truncated=kind == 2,
            final_observations={"seen": random.standard_normal((len(ended), 3)).astype(np.float32)}
            if len(ended)
            else None,
            group_reward=random.standard_normal(s).astype(np.float32)
            if ends and self.case.optional and random.random() < 0.6
            else None,
            needs_action=random.random(s) < self.acting if self.case.ragged else None,
            action_mask=mask,
            aborted=aborted,
        )

    def begin(self) -> None:
        self.last = self.batch(ends=False)
        self.trainer.begin(self.last)
        for slot in range(self.slots):
            self.cut(slot)
            self.now[slot] = None
        self.look()

    def cut(self, slot: int) -> None:
        """The episode goes on without us: what was not finished is dropped."""
        self.open[slot] = None
        if self.closed[slot] and not (self.closed[slot][-1]["terminated"] or self.closed[slot][-1]["truncated"]):
            self.closed[slot][-1].update(truncated=True, cut=True)
        if not self.closed[slot]:
            self.sums[slot] = 0.0  # all of it was in earlier rollouts
            self.spread.forget(slot)

    def look(self) -> None:
        batch = self.last
        for slot in range(self.slots):
            if batch.needs_action is not None and not batch.needs_action[slot]:
                self.now[slot] = None
                continue
            seen = batch.observations["seen"][slot].copy()
            mask = np.ones(sum(BRANCHES), np.bool_) if batch.action_mask is None else batch.action_mask[slot].copy()
            self.now[slot] = {"seen": seen, "mask": mask}
            transitions = self.closed[slot]
            if transitions and "next" not in transitions[-1]:
                transitions[-1]["next"] = seen

    def step(self) -> None:
        actions = self.trainer.act(self.last)
        assert actions.continuous is not None and actions.discrete is not None
        for slot, now in enumerate(self.now):
            if now is not None:
                acted = {"raw": actions.continuous[slot].copy(), "choices": actions.discrete[slot].copy()}
                self.open[slot] = {**now, **acted}
        batch = self.last = self.batch(ends=True)
        self.trainer.observe(actions, batch)
        for slot in range(self.slots):
            if batch.aborted is not None and batch.aborted[slot]:
                self.cut(slot)
            one = self.open[slot]
            ended = bool(batch.terminated[slot] or batch.truncated[slot])
            if one is None or not (ended or batch.needs_action is None or batch.needs_action[slot]):
                continue
            one["reward"] = float(batch.reward[slot]) + (
                0.0 if batch.group_reward is None else float(batch.group_reward[slot])
            )
            one["terminated"], one["truncated"] = bool(batch.terminated[slot]), bool(batch.truncated[slot])
            if ended:
                assert batch.final_observations is not None
                one["next"] = batch.final_observations["seen"][batch.ended.tolist().index(slot)].copy()
            self.closed[slot].append(one)
            self.open[slot] = None
        self.look()
        if self.case.begins and self.random.random() < 0.1:
            self.begin()

    def finished_rewards(self) -> list[float]:
        """Extrinsic rewards, at their strength of 2, of the episodes that ended and were not cut."""
        finished = []
        for slot, transitions in enumerate(self.closed):
            for one in transitions:
                self.sums[slot] += 2 * one["reward"]
                if one["terminated"] or one["truncated"]:
                    if "cut" not in one:
                        finished.append(self.sums[slot])
                    self.sums[slot] = 0.0
        return finished

    def scale_rewards(self) -> None:
        """Replace the environment's rewards by those to learn from, step by step."""
        limit = self.case.clip_rewards
        for row in range(max(map(len, self.closed))):
            step = {slot: one[row] for slot, one in enumerate(self.closed) if row < len(one)}
            rewards = {slot: clipped(one["reward"], limit) for slot, one in step.items()}
            deviation = self.spread.step(rewards)
            for slot, one in step.items():
                one["learned"] = rewards[slot]
                if self.case.normalize_rewards:
                    one["learned"] = clipped(rewards[slot] / deviation, 3.0)
                if one["terminated"] or one["truncated"]:
                    self.spread.forget(slot)

    def count(self) -> int:
        return sum(len(transitions) for transitions in self.closed)


def expected(history: History, gamma: float, lambd: float, time_horizon: int) -> dict[bytes, Transition]:
    """Every transition by its observation, with advantages from a scalar recursion."""
    for slot, transitions in enumerate(history.closed):
        waits = history.open[slot] or history.now[slot]
        for one, after in zip(transitions, [*transitions[1:], waits], strict=False):
            one["then"] = one["next"] if after is None else after["seen"]  # what the agent acts on next
    everything = [one[key] for slot in history.closed for one in slot for key in ("seen", "next", "then")]
    with torch.no_grad():
        values = history.trainer.model.value((torch.from_numpy(np.stack(everything)),)).tolist()
    value_of = {seen.tobytes(): value for seen, value in zip(everything, values, strict=True)}

    def value(seen: NDArray[np.float32], head: int) -> float:
        return float(value_of[seen.tobytes()][head])

    rows = {}
    for transitions in history.closed:
        age = 0
        for one in transitions:  # where trajectories end
            age += 1
            over = one["terminated"] or one["truncated"]
            last = one is transitions[-1]
            # With `ignore_done`, as in the second head, a trajectory continues after an episode.
            one["end"] = (over or age == time_horizon or last, (age == time_horizon and not over) or last)
            age = 0 if one["end"][0] else age
        for head, (discount, strength) in enumerate(((gamma, 2.0), (0.8, 0.5))):
            following = 0.0
            for one in reversed(transitions):
                one.setdefault("advantage", []).insert(head, 0.0)
                reward = one["learned"] if head == 0 else float(one["seen"].sum())
                after = value(one["then" if head else "next"], head) if head or not one["terminated"] else 0.0
                delta = strength * reward + discount * after - value(one["seen"], head)
                following = delta + (0.0 if one["end"][head] else discount * lambd * following)
                one["advantage"][head] = following
        for one in transitions:
            one["value"] = [value(one["seen"], head) for head in (0, 1)]
            rows[one["seen"].tobytes()] = one
    return rows


def log_probs(trainer: Recorder, rows: list[Transition]) -> NDArray[Any]:
    """Joint log-probabilities by torch.distributions."""

    def stacked(key: str) -> torch.Tensor:
        return torch.from_numpy(np.stack([one[key] for one in rows]))

    with torch.no_grad():
        mean, logits = trainer.model.policy((stacked("seen"),))
        gaussian = trainer.model.policy_head.distribution
        assert mean is not None and logits is not None and isinstance(gaussian, Gaussian)
        total = torch.distributions.Normal(mean, gaussian.log_std.exp()).log_prob(stacked("raw")).sum(-1)
        logits = logits.masked_fill(~stacked("mask"), -torch.inf)
        for branch, choice in zip(logits.split(BRANCHES, dim=1), stacked("choices").T, strict=True):
            total = total + torch.distributions.Categorical(logits=branch).log_prob(choice)
    return np.asarray(total)


def joined(parts: list[Minibatch]) -> Minibatch:
    def all_of(name: str) -> Any:
        columns = [getattr(part, name) for part in parts]
        return None if columns[0] is None else torch.cat(columns).detach()

    names = ("raw", "choices", "mask", "old_log_prob", "old_value", "advantage", "returns")
    whole = Minibatch(inputs=(torch.cat([part.inputs[0] for part in parts]),), **{name: all_of(name) for name in names})
    # For minibatches of one size a few transitions come twice, at the end of a pass.
    _, first = np.unique(whole.inputs[0].numpy(), axis=0, return_index=True)
    assert len(whole.advantage) - len(first) < len(parts)
    return whole.map(lambda x: x[torch.from_numpy(first)])


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def check_rollout(history: History, gamma: float, lambd: float, time_horizon: int) -> None:
    history.scale_rewards()
    rows = expected(history, gamma, lambd, time_horizon)
    history.trainer.recorded = []
    stats = history.trainer.update()
    batch = joined(history.trainer.recorded)
    seen = batch.inputs[0].numpy()
    assert sorted(row.tobytes() for row in seen) == sorted(rows), "each closed transition exactly once"
    assert batch.raw is not None and batch.choices is not None
    in_order = [rows[row.tobytes()] for row in seen]
    value, advantage = (np.array([one[key] for one in in_order]) for key in ("value", "advantage"))  # each [B, 2]
    mask = np.stack([one["mask"] for one in in_order])
    np.testing.assert_array_equal(batch.raw.numpy(), np.stack([one["raw"] for one in in_order]))
    np.testing.assert_array_equal(batch.choices.numpy(), np.stack([one["choices"] for one in in_order]))
    np.testing.assert_array_equal(True if batch.mask is None else batch.mask.numpy(), mask)
    close(batch.old_log_prob.numpy(), log_probs(history.trainer, in_order))
    close(batch.old_value.numpy(), value)
    close(batch.advantage.numpy(), advantage.sum(axis=1))
    close(batch.returns.numpy(), advantage + value)
    provider = history.trainer.providers[1]
    assert isinstance(provider, ObservationReward)
    assert sorted(row.tobytes() for row in provider.learned_from) == sorted(rows), "only what was played"
    followed = zip(provider.learned_from, provider.followed_by, strict=True)
    pairs = [one["seen"].tobytes() + one["next"].tobytes() for slot in history.closed for one in slot]
    assert sorted(seen.tobytes() + then.tobytes() for seen, then in followed) == sorted(pairs)
    close([stats["Policy/Extrinsic Value Estimate"], stats["Policy/Seen Value Estimate"]], value.mean(axis=0))
    heads = [*np.split(advantage, 2, axis=1), advantage.sum(axis=1)], [*np.split(value, 2, axis=1), value.sum(axis=1)]
    for name, missed, estimate in zip(("Extrinsic ", "Seen ", ""), *heads, strict=True):
        if (missed + estimate).var() > 1e-2:  # of less, float32 keeps too few digits of the quotient
            close(stats[f"Losses/{name}Explained Variance"], 1 - missed.var() / (missed + estimate).var())
    close(sorted(stats.get("Policy/Extrinsic Reward", [])), sorted(history.finished_rewards()))
    history.closed = [[] for _ in range(history.slots)]


CASES = st.builds(
    Case,
    seed=st.integers(0, 2**32 - 1),
    slots=st.integers(1, 4),
    buffer_size=st.integers(2, 40),
    gamma=st.sampled_from((1.0, 0.99)),
    lambd=st.sampled_from((1.0, 0.95, 0.0)),
    time_horizon=st.sampled_from((2, 5, 10_000)),
    **{name: st.booleans() for name in ("ragged", "aborts", "begins", "optional", "save", "normalize_rewards")},
    clip_rewards=st.sampled_from((None, 0.5)),
)


@given(case=CASES)
@settings(deadline=None)
def test_a_rollout_holds_each_transition_once_with_the_advantages_of_a_scalar_recursion(case: Case) -> None:
    of_advantages = case.gamma, case.lambd, case.time_horizon
    rewards: dict[str, Any] = {"normalize_rewards": case.normalize_rewards, "clip_rewards": case.clip_rewards}

    def make() -> Recorder:
        return recorder(case.slots, *of_advantages, case.buffer_size, **rewards, normalize_rewards_clip=3.0)

    history = History(make(), case)
    history.begin()
    for _ in range(3):  # rollouts: what is left of the one before must not come back
        while not history.trainer.ready():
            assert history.count() < case.buffer_size
            history.step()
            if case.save and history.random.random() < 0.3:
                state = history.trainer.state_dict()
                history.trainer = make()
                history.trainer.load_state_dict(state)
        assert history.count() == history.trainer.buffer.size >= case.buffer_size
        check_rollout(history, *of_advantages)


def test_a_rollout_is_regular_again_after_one_in_which_an_environment_was_lost() -> None:
    """Reward providers then see [T, S] again; before, slots are told apart by their numbers."""
    trainer = recorder(3, 0.99, 0.95, 100, buffer_size=12)
    trainer.recorded = []
    zeros = np.zeros(3, np.float32)
    none = np.zeros(3, np.bool_)

    def batch(step: int, **given: Any) -> AgentBatch:
        return AgentBatch({"seen": np.full((3, 3), step, np.float32)}, zeros, none, none, **given)

    trainer.begin(batch(0))
    for step in range(1, 13):
        actions = trainer.act(batch(step - 1))
        lost = np.array([False, step == 2, False])
        trainer.observe(actions, batch(step, aborted=lost if step == 2 else None))
        if not trainer.ready():
            continue
        lengths = trainer.buffer.lengths()
        shown = trainer.buffer.transitions(trainer.policy.layout, int(lengths.max()), trainer.rollout().valid)
        times = {slot: shown.observations["seen"][shown.slot == slot, 0].tolist() for slot in range(3)}
        if step == 5:
            assert trainer.buffer.ragged
            assert times == {0: [0, 1, 2, 3, 4], 1: [0, 2, 3, 4], 2: [0, 1, 2, 3, 4]}
        else:
            assert step == 9 and not trainer.buffer.ragged
            assert times == {slot: [5, 6, 7, 8] for slot in range(3)}
        trainer.update()
    assert not trainer.buffer.ragged


def test_a_rollout_grows_where_agents_of_other_ranks_act_less_often() -> None:
    """A rank whose agents act in every step has more rows than its share of ``buffer_size`` then."""
    behavior = BehaviorSpec("Agent", (ObservationSpec("seen", (1,), np.float32),), 0, (2,), env_index=np.arange(2))
    buffer = RolloutBuffer(behavior, 4, memory_size=0, noise_size=0, columns=0)
    no_flags = np.zeros(2, np.bool_)

    def batch(step: int) -> AgentBatch:
        seen = {"seen": np.full((2, 1), step, np.float32)}
        return AgentBatch(seen, np.full(2, step, np.float32), no_flags, no_flags)

    buffer.begin(batch(0))
    for step in range(1, 6):
        buffer.act(None, np.full((2, 1), step), None, np.zeros((2, 2), np.float32))
        buffer.observe(batch(step))
    assert buffer.size == 10 and not buffer.ragged
    assert buffer.seen["seen"][:6, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert buffer.reward[:5, 1].tolist() == buffer.choices[:5, 1, 0].tolist() == [1, 2, 3, 4, 5]


def test_images_with_channels_first_in_memory_are_stored_in_their_places() -> None:
    """While all slots act together, and when only some are ready."""
    slots = 3
    shape = (5, 6, 4)
    behavior = BehaviorSpec(
        "Agent", (ObservationSpec("seen", shape, np.uint8, "image"),), 0, (2,), env_index=np.arange(slots)
    )
    buffer = RolloutBuffer(behavior, 4 * slots, memory_size=0, noise_size=0, columns=0)
    images = np.random.default_rng(0).integers(0, 256, (4, slots, 4, 5, 6), np.uint8)
    zeros = np.zeros(slots, np.float32)
    no_flags = np.zeros(slots, np.bool_)
    acting = np.array([True, False, True])

    def batch(step: int, **given: Any) -> AgentBatch:
        seen = {"seen": np.moveaxis(images[step], 1, -1)}
        return AgentBatch(seen, zeros, no_flags, no_flags, np.empty(0, np.intp), **given)

    buffer.begin(batch(0))
    assert buffer.observe(batch(1)) == 3
    assert buffer.observe(batch(2, needs_action=acting)) == 2
    for place in np.ndindex(slots, *shape):
        slot, *at, channel = place
        for row in range(3):
            expected = images[(row, slot, channel, *at)]
            if row == 2 and not acting[slot]:
                expected = np.uint8(0)
            assert buffer.seen["seen"][(row, *place)] == expected
