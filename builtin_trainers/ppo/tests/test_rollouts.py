"""Rollouts have the values and probabilities of the steps as they were acted, with memory and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec, RunStateError
from rlcore_devkit.conformance.states import assert_equal, copied

MakeTrainer = Callable[..., Any]

SLOTS = 3
SPEC = BehaviorSpec(
    "Agent",
    (ObservationSpec("seen", (4,), np.float32),),
    continuous=1,
    discrete=(3,),
    low=np.array([-1.0], np.float32),
    high=np.array([1.0], np.float32),
    env_index=np.arange(SLOTS),
)


class Script:
    """Random batches: episodes end at random, and in ``turns`` not every agent acts in every step."""

    def __init__(self, turns: bool) -> None:
        self.behaviors = {"Agent": SPEC}
        self.num_envs = SLOTS
        self.turns = turns
        self.generator = np.random.default_rng(5)

    def batch(self, first: bool = False) -> AgentBatch:
        generator = self.generator
        fate = np.full(SLOTS, 1.0) if first else generator.random(SLOTS)
        ended = np.flatnonzero(fate < 0.2)
        mask = generator.random((SLOTS, 3)) < 0.7
        mask[:, 0] = True
        return AgentBatch(
            {"seen": generator.standard_normal((SLOTS, 4)).astype(np.float32)},
            generator.standard_normal(SLOTS).astype(np.float32),
            fate < 0.1,
            (fate >= 0.1) & (fate < 0.2),
            final_observations={"seen": generator.standard_normal((len(ended), 4)).astype(np.float32)},
            needs_action=generator.random(SLOTS) < 0.6 if self.turns else None,
            action_mask=mask,
        )


@attrs.define
class Step:
    """A transition as the test saw it; ``seen`` are all observations that the agent acted on, up to this one."""

    seen: list[NDArray[np.float32]]
    mask: NDArray[np.bool_]
    raw: NDArray[np.float32]
    choice: int
    drawn_with: float  # the log-probability of the action when it was drawn
    reward: float = 0.0
    terminated: bool = False
    following: list[NDArray[np.float32]] = attrs.field(factory=list)  # what the next value depends on


def rollouts_of(
    trainer: Any, script: Script, count: int, resets: bool = False
) -> Iterator[tuple[list[list[Step]], list[Step | None]]]:
    """Before each update, the closed transitions of each slot, and the open ones. ``resets`` cut episodes at random."""
    episodes: list[list[NDArray[np.float32]]] = [[] for _ in range(SLOTS)]
    open_steps: list[Step | None] = [None] * SLOTS
    closed: list[list[Step]] = [[] for _ in range(SLOTS)]
    batch = script.batch(first=True)
    trainer.begin(batch)
    done = 0
    while done < count:
        memory = trainer.memory[:, : trainer.policy.memory_size].copy() if trainer.policy.memory_size else None
        mean, logits = trainer.policy.parameters(batch.observations, batch.action_mask, memory)
        acting = np.arange(SLOTS) if batch.needs_action is None else np.flatnonzero(batch.needs_action)
        at = trainer.buffer.lengths()
        trainer.act(batch)
        for slot in acting:
            episodes[slot].append(batch.observations["seen"][slot])
            raw = trainer.buffer.raw[at[slot], slot].copy()
            choice = int(trainer.buffer.choices[at[slot], slot, 0])
            std = trainer.model.policy_head.distribution.log_std.detach().exp()
            normal = torch.distributions.Normal(torch.from_numpy(mean[slot]), std)
            log_prob = normal.log_prob(torch.from_numpy(raw)).sum()  # type: ignore[no-untyped-call]
            log_prob += torch.from_numpy(logits[slot]).log_softmax(0)[choice]
            assert batch.action_mask is not None
            open_steps[slot] = Step(list(episodes[slot]), batch.action_mask[slot], raw, choice, float(log_prob))
        batch = script.batch()
        for slot in range(SLOTS):
            step = open_steps[slot]
            ends = slot in batch.ended
            if step is not None and (ends or batch.needs_action is None or batch.needs_action[slot]):
                assert batch.final_observations is not None
                final = batch.final_observations["seen"][batch.ended.tolist().index(slot)] if ends else None
                step.following = [*episodes[slot], batch.observations["seen"][slot] if final is None else final]
                step.reward, step.terminated = float(batch.reward[slot]), bool(batch.terminated[slot])
                closed[slot].append(step)
                open_steps[slot] = None
            if ends:
                episodes[slot] = []
        trainer.observe(None, batch)
        reset = resets and script.generator.random() < 0.05
        if trainer.ready():
            yield closed, open_steps
            trainer.update()
            closed = [[] for _ in range(SLOTS)]
            done += 1
            reset = resets and done % 3 == 0  # where nothing is collected yet
        if reset:
            batch = script.batch(first=True)
            trainer.begin(batch)
            episodes = [[] for _ in range(SLOTS)]
            open_steps = [None] * SLOTS


def in_order(closed: list[list[Step]]) -> list[Step]:
    """The transitions in the order of a rollout's rows: the first of each slot, the second of each, and so on."""
    return [steps[k] for k in range(max(map(len, closed))) for steps in closed if k < len(steps)]


def through_lstm(body: Any, seen: list[NDArray[np.float32]]) -> torch.Tensor:
    """Features after the last of ``seen``, read one after the other from a memory of zeros."""
    with torch.no_grad():
        features = body((torch.from_numpy(np.stack(seen)),))
        plain = torch.nn.LSTM(features.shape[1], body.recurrent.features)
        plain.load_state_dict(body.recurrent.lstm.state_dict())
        return plain(features.unsqueeze(1))[0][-1, 0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_every_rollout_has_the_values_and_probabilities_of_episodes_that_are_read_alone(
    make_trainer: MakeTrainer, turns: bool, shared: bool
) -> None:
    script = Script(turns)
    trainer = make_trainer(
        script,
        network={"memory": {"memory_size": 10, "sequence_length": 4}},
        lambd=0.0,  # returns are then reward + gamma * next value
        learning_rate=1e-30,  # the weights stay, so that the last rollout can be computed as the first
        buffer_size=30,
        batch_size=15,
        shared_critic=shared,
        advantage_normalization="none",
    )
    for closed, _ in rollouts_of(trainer, script, 10, resets=True):
        check(trainer, in_order(closed))


def check(trainer: Any, steps: list[Step]) -> None:
    model = trainer.model
    rollout = trainer.rollout()
    _, returns = trainer.advantages(rollout)
    at = np.flatnonzero(rollout.valid)
    log_probs = rollout.log_prob[at]
    values = rollout.value[rollout.valid]
    returns = returns.flatten(0, 1)[at]
    assert len(steps) == len(at)
    gamma = trainer.providers[0].gamma
    for row, step in enumerate(steps):
        output = model.policy_head.linear(through_lstm(model.actor, step.seen))
        normal = torch.distributions.Normal(output[:1], model.policy_head.distribution.log_std.exp())
        logits = torch.where(torch.from_numpy(step.mask), output[1:], -1e8)
        log_prob = normal.log_prob(torch.from_numpy(step.raw)).sum() + logits.log_softmax(0)[step.choice]  # type: ignore[no-untyped-call]
        assert log_probs[row].item() == pytest.approx(log_prob.item(), abs=2e-4)
        value = model.value_head(through_lstm(model.critic, step.seen))
        assert values[row].item() == pytest.approx(value.item(), abs=1e-5)
        next_value = 0.0 if step.terminated else model.value_head(through_lstm(model.critic, step.following)).item()
        assert returns[row].item() == pytest.approx(step.reward + gamma * next_value, abs=1e-5)


@pytest.mark.parametrize("memory", [None, {"memory_size": 8, "sequence_length": 4}], ids=["plain", "memory"])
@pytest.mark.parametrize("turns", [False, True])
def test_old_probabilities_are_those_the_actions_were_drawn_with(
    make_trainer: MakeTrainer, turns: bool, memory: Any
) -> None:
    """In the first rollout too, whose statistics change in each step, and for actions open during an update."""
    script = Script(turns)
    trainer = make_trainer(
        script,
        network={"memory": memory, "normalize": True},
        learning_rate=0.02,
        buffer_size=30,
        batch_size=15,
    )
    # all of the first rollout may have another ratio than 1
    open_over_an_update = 0
    kept = 30
    for closed, open_steps in rollouts_of(trainer, script, 6):
        rollout = trainer.rollout()
        expected = [step.drawn_with for step in in_order(closed)]
        np.testing.assert_allclose(rollout.log_prob[np.flatnonzero(rollout.valid)].numpy(), expected, atol=2e-4)
        batches = list(trainer.minibatches(rollout, *trainer.advantages(rollout)))
        ratios = [(trainer.evaluate(batch)[0] - batch.old_log_prob).abs() > 1e-3 for batch in batches]
        assert torch.cat(ratios).sum() <= kept + 1, "only actions under other statistics or weights have another ratio"
        kept = sum(each is not None for each in open_steps)
        open_over_an_update += kept
    assert (open_over_an_update > 3) == turns


def test_each_row_counts_alike_in_minibatches_of_sequences(make_trainer: MakeTrainer) -> None:
    """The gradients of a pass add up to that of the mean over all rows, times the number of minibatches."""
    script = Script(turns=True)
    trainer = make_trainer(
        script,
        network={"memory": {"memory_size": 8, "sequence_length": 8}},
        learning_rate=1e-30,
        max_grad_norm=1e9,
        buffer_size=90,
        batch_size=8,
    )
    next(rollouts_of(trainer, script, 1))
    rollout = trainer.rollout()
    weights = list(trainer.model.parameters())
    summed = [torch.zeros_like(each) for each in weights]
    expected = [torch.zeros_like(each) for each in weights]
    sizes = []
    for batch in trainer.minibatches(rollout, *trainer.advantages(rollout)):
        sizes.append(len(batch.advantage))
        gradients = torch.autograd.grad(trainer.loss(batch).total, weights)
        trainer.minimize(trainer.loss, batch)
        for k, each in enumerate(weights):
            assert each.grad is not None
            summed[k] += each.grad
            expected[k] += gradients[k] * sizes[-1]
    assert sum(sizes) == rollout.valid.sum() and len(set(sizes)) > 2
    for ours, theirs in zip(summed, expected, strict=True):
        torch.testing.assert_close(ours / len(sizes), theirs / sum(sizes), rtol=1e-4, atol=1e-6)


def test_a_lost_life_ends_the_value_and_not_the_memory(make_trainer: MakeTrainer) -> None:
    """Policies that are evaluated, played and exported know no lives, and remember until the episode ends."""
    script = Script(turns=False)
    trainer = make_trainer(script, network={"memory": {"memory_size": 8, "sequence_length": 4}}, buffer_size=60)
    batch = script.batch(first=True)
    trainer.begin(batch)
    lost = np.array([True, False, False])
    nothing = np.zeros(SLOTS, np.bool_)
    for step in range(4):
        trainer.act(batch)
        remembered = trainer.memory.copy()
        over = np.array([1] if step == 2 else [], np.intp)
        ends = np.isin(np.arange(SLOTS), over)
        final = {"seen": np.ones((len(over), 4), np.float32)}
        batch = attrs.evolve(
            script.batch(), terminated=ends, truncated=nothing, ended=over, final_observations=final, life_lost=lost
        )
        trainer.observe(None, batch)
        remembered[over] = 0.0
        assert remembered[0].any()
        np.testing.assert_array_equal(trainer.memory, remembered)
        np.testing.assert_array_equal(trainer.buffer.memory[step + 1], remembered)
        np.testing.assert_array_equal(trainer.buffer.terminated[step], lost | ends)


def begun(make_trainer: MakeTrainer, turns: bool, settings: Any) -> tuple[Script, Any, AgentBatch]:
    """A trainer in the middle of a rollout."""
    script = Script(turns)
    trainer = make_trainer(script, **settings)
    batch = script.batch(first=True)
    trainer.begin(batch)
    for _ in range(12):
        trainer.act(batch)
        batch = script.batch()
        trainer.observe(None, batch)
    return script, trainer, batch


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"observations": lambda seen: {"seen": seen["seen"][[0] * 15]}}, "'seen' has 15 rows, and the rollout 13"),
        ({"observations": lambda seen: {"seen": seen["seen"][:-1]}}, "'seen' has 12 rows, and the rollout 13"),
        ({"final_rows": lambda rows: rows * 0 + np.array([13, 0])}, "'final_rows' has rows that are not of"),
        ({"cuts": lambda _: np.array([[0, 3]])}, "'cuts' has rows that are not of"),
        ({"cuts": lambda _: np.array([[-1, 0]])}, "'cuts' has rows that are not of"),
        ({"cursor": lambda cursor: cursor * 0 + 14}, "'row' and 'cursor' are beyond the rollout"),
        ({"row": lambda _: 14}, "'row' and 'cursor' are beyond the rollout"),
    ],
)
def test_a_rollout_with_rows_of_another_one_is_refused_and_nothing_changes(
    make_trainer: MakeTrainer, changed: dict[str, Callable[[Any], Any]], said: str
) -> None:
    _, trainer, _ = begun(make_trainer, False, {"buffer_size": 60})
    before = copied(trainer.state_dict())
    state = copied(before)
    state["buffer"] |= {name: change(state["buffer"][name]) for name, change in changed.items()}
    with pytest.raises(RunStateError, match=said):
        trainer.load_state_dict(state)
    assert_equal(before, trainer.state_dict())
