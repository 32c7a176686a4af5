"""An update of PQN beside an algorithm that keeps lists, sums returns of every length, and has PyTorch's own layers."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore import AgentBatch
from rlcore_devkit.conformance.loop import first_batch, learn
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.environments import IdentityEnvironment, TinyCorridor
from rlcore_pqn.trainer import PQNTrainer

MakeTrainer = Callable[..., PQNTrainer]

SLOTS, ROWS = 3, 9
GAMMA, LAMBDA = 0.9, 0.7


class Transition:
    """A step of one agent, in Python numbers."""

    def __init__(self, seen: Any, choices: Any) -> None:
        self.seen, self.choices = seen.copy(), choices.copy()
        self.reward = 0.0
        self.kind = "goes on"
        self.following: tuple[Any, Any] = seen, None  # what follows, and what is allowed there


def played(trainer: PQNTrainer, masked: bool, seed: int = 3) -> list[list[Transition]]:
    """Play random batches until the rollout is full; return the transitions of each slot, in order."""
    random = np.random.default_rng(seed)
    [observation] = trainer.behavior.observations
    branches = trainer.behavior.discrete

    def observed(rows: int) -> Any:
        return random.standard_normal((rows, *observation.shape)).astype(observation.dtype)

    def allowed(rows: int) -> Any:
        if not masked:
            return None
        mask = random.random((rows, sum(branches))) < 0.5
        mask[:, np.cumsum((0, *branches))[:-1]] = True
        return mask

    never = np.zeros(SLOTS, np.bool_)
    name = observation.name
    batch = AgentBatch({name: observed(SLOTS)}, np.zeros(SLOTS, np.float32), never, never, action_mask=allowed(SLOTS))
    trainer.begin(batch)
    slots: list[list[Transition]] = [[] for _ in range(SLOTS)]
    for _ in range(ROWS):
        actions = trainer.act(batch)
        assert actions.discrete is not None
        for slot in range(SLOTS):
            slots[slot].append(Transition(batch.observations[name][slot], actions.discrete[slot]))
        kind = random.choice(3, SLOTS, p=(0.7, 0.15, 0.15))
        ended = np.flatnonzero(kind)
        batch = AgentBatch(
            observations={name: observed(SLOTS)},
            reward=random.standard_normal(SLOTS).astype(np.float32),
            terminated=kind == 1,
            truncated=kind == 2,
            ended=ended,
            final_observations={name: observed(len(ended))} if len(ended) else None,
            action_mask=allowed(SLOTS),
            final_action_mask=allowed(len(ended)),
        )
        for slot in range(SLOTS):
            last = slots[slot][-1]
            last.reward = float(batch.reward[slot])
            last.kind = ("goes on", "terminated", "truncated")[kind[slot]]
            seen, mask = batch.observations[name], batch.action_mask
            place = slot
            if kind[slot]:
                assert batch.final_observations is not None
                seen, mask = batch.final_observations[name], batch.final_action_mask
                place = ended.tolist().index(slot)
            last.following = seen[place].copy(), None if mask is None else mask[place].copy()
        trainer.observe(actions, batch)
    assert trainer.ready()
    return slots


def best_value(values: Any, branches: tuple[int, ...], mask: Any) -> float:
    """The mean over branches of the greatest value of an allowed option."""
    found = []
    start = 0
    for size in branches:
        options = range(start, start + size)
        found.append(max(float(values[k]) for k in options if mask is None or mask[k]))
        start += size
    return sum(found) / len(found)


def lambda_return(transitions: list[Transition], values: list[float]) -> float:
    """The lambda-return of the first of ``transitions``, whose last one ends the episode or the rollout.

    Returns of n steps, for every n, with the weights (1 - lambda) lambda^(n - 1); the longest has the rest.
    ``values`` are those of what follows each transition.
    """
    total = 0.0
    rewards = 0.0
    for n, (transition, value) in enumerate(zip(transitions, values, strict=True), start=1):
        rewards += GAMMA ** (n - 1) * transition.reward
        future = 0.0 if transition.kind == "terminated" else GAMMA**n * value
        weight = LAMBDA ** (n - 1)
        if n < len(transitions):
            weight *= 1.0 - LAMBDA
        total += weight * (rewards + future)
    return total


def expected_returns(slots: list[list[Transition]], network: Any, branches: tuple[int, ...]) -> Any:
    """The returns [T, S]."""
    returns = np.zeros((ROWS, SLOTS))
    for slot, transitions in enumerate(slots):
        values = []
        for transition in transitions:
            seen, mask = transition.following
            with torch.no_grad():
                values.append(best_value(network(torch.from_numpy(seen)[None])[0], branches, mask))
        ends = [t for t, one in enumerate(transitions) if one.kind != "goes on"] + [ROWS - 1]
        for t in range(ROWS):
            end = min(e for e in ends if e >= t) + 1
            returns[t, slot] = lambda_return(transitions[t:end], values[t:end])
    return returns


def network_of(trainer: PQNTrainer) -> nn.Sequential:
    """PyTorch's own layers with the weights of the trainer."""
    body = trainer.model.actor
    first, norm = body.layers[0]  # type: ignore[misc]
    output = trainer.model.policy_head.linear
    network = nn.Sequential(
        nn.Linear(first.in_features, first.out_features),
        nn.LayerNorm(first.out_features),
        nn.ReLU(),
        nn.Linear(output.in_features, output.out_features),
    )
    for ours, theirs in zip(network.parameters(), trainer.model.parameters(), strict=True):
        ours.data.copy_(theirs)
    assert (norm.weight == network[1].weight).all()
    return network


def small(make_trainer: MakeTrainer, branches: tuple[int, ...], **more: Any) -> PQNTrainer:
    environment = IdentityEnvironment(SLOTS, discrete=branches)
    block = {"reward_signals": {"extrinsic": {"gamma": GAMMA}}}
    return make_trainer(environment, block=block, buffer_size=SLOTS * ROWS, lambd=LAMBDA, **more)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("branches", [(4,), (2, 3)])
def test_returns_bootstrap_from_the_best_allowed_options_also_after_a_time_limit(
    make_trainer: MakeTrainer, branches: tuple[int, ...], masked: bool
) -> None:
    trainer = small(make_trainer, branches)
    slots = played(trainer, masked)
    assert {one.kind for transitions in slots for one in transitions} == {"goes on", "terminated", "truncated"}
    expected = expected_returns(slots, network_of(trainer), branches)
    _, returns = trainer.advantages(trainer.rollout())
    np.testing.assert_allclose(returns[..., 0].numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("branches", [(4,), (2, 3)])
def test_an_update_moves_the_weights_as_the_algorithm_does(
    make_trainer: MakeTrainer, branches: tuple[int, ...]
) -> None:
    """Four passes with the whole rollout as a minibatch: RAdam along the clipped gradient of the squared error."""
    trainer = small(make_trainer, branches, batch_size=SLOTS * ROWS, max_grad_norm=0.05, learning_rate=0.02)
    slots = played(trainer, masked=True)
    network = network_of(trainer)
    returns = expected_returns(slots, network, branches)
    optimizer = torch.optim.RAdam(network.parameters(), lr=0.02)
    starts = np.cumsum((0, *branches))[:-1]
    seen = torch.from_numpy(np.stack([one.seen for transitions in slots for one in transitions]))
    columns = np.stack([one.choices + starts for transitions in slots for one in transitions])
    target = torch.from_numpy(returns.T.reshape(-1, 1)).float()  # slot after slot, as above
    losses: list[Tensor] = []
    for _ in range(4):
        chosen = network(seen).gather(1, torch.from_numpy(columns))
        losses.append((chosen - target).square().mean())
        optimizer.zero_grad()
        losses[-1].backward()
        assert nn.utils.clip_grad_norm_(network.parameters(), 0.05) > 0.05
        optimizer.step()
    stats = trainer.update()
    assert stats["Losses/Q Loss"] == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)
    for ours, theirs in zip(network.parameters(), trainer.model.parameters(), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-3, atol=1e-4)


def test_statistics_are_those_of_values_and_none_of_a_policy(make_trainer: MakeTrainer) -> None:
    environment = TinyCorridor(8, masked=True)
    (stats, *_) = learn(make_trainer(environment), environment, 40)
    assert {"Losses/Q Loss", "Losses/Gradient Norm", "Policy/Epsilon", "Policy/Learning Rate"} <= stats.keys()
    absent = {"Losses/Policy Loss", "Losses/Value Loss", "Policy/Entropy", "Policy/KL Divergence"}
    assert not absent & stats.keys()


# ---------------------------------------------------------------- exploration


SCHEDULE: dict[str, Any] = {"initial_epsilon": 0.8, "final_epsilon": 0.2, "epsilon_steps": 300, "buffer_size": 64}


def test_epsilon_falls_with_agent_steps_whatever_max_steps_is_and_a_resumed_run_continues_it(
    make_trainer: MakeTrainer,
) -> None:
    environment = IdentityEnvironment(4, discrete=(2,))
    trainer = make_trainer(environment, block={"max_steps": 1000}, **SCHEDULE)
    updates = learn(trainer, environment, 128)
    # The rollouts of 64 steps begin at 0, 64 and so on; 0.6 is the way, 300 the steps that it takes.
    expected = [0.8 - 0.6 * min(300, begun) / 300 for begun in range(0, 512, 64)]
    np.testing.assert_allclose([stats["Policy/Epsilon"] for stats in updates], expected, atol=1e-9)
    assert trainer.epsilon == pytest.approx(0.2)

    halfway = make_trainer(environment, block={"max_steps": 1000}, **SCHEDULE)
    learn(halfway, environment, 52)  # in the middle of a rollout
    longer = make_trainer(environment, block={"max_steps": 50_000}, **SCHEDULE)
    longer.load_state_dict(copied(halfway.state_dict()))
    assert longer.epsilon == halfway.epsilon == pytest.approx(0.8 - 0.6 * 192 / 300)


@pytest.mark.parametrize("deterministic", [False, True])
def test_agents_explore_by_epsilon_and_the_policy_is_greedy(make_trainer: MakeTrainer, deterministic: bool) -> None:
    """Self-play needs ``deterministic``, so that opponents play well; what learns must explore all the same."""
    environment = IdentityEnvironment(64, discrete=(8,))
    epsilons = {"initial_epsilon": 0.25, "final_epsilon": 0.25}
    trainer = make_trainer(environment, network={"deterministic": deterministic}, buffer_size=64 * 200, **epsilons)
    batch = first_batch(environment)
    trainer.begin(batch)
    best = trainer.policy.act(batch.observations).discrete
    others = []
    for _ in range(200):
        actions = trainer.act(batch)
        others.append(np.count_nonzero(actions.discrete != best))
        trainer.observe(actions, batch)
    chance = 0.25 * 7 / 8  # one option in eight is the best one
    assert np.mean(others) == pytest.approx(64 * chance, rel=0.05)
    assert np.var(others) == pytest.approx(64 * chance * (1 - chance), rel=0.3)  # one coin for all: 64 times as much
