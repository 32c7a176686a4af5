# mypy: allow-untyped-calls
"""Sequences of stored steps: what they consist of, and what networks with memory make of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from replay_stories import History, Plain, Story, histories
from torch import Tensor, nn
from torch.nn.functional import silu
from unrolled_by_hand import features_by_hand

from rlcore import ExtrinsicReward
from rlcore_torch import (
    ActionLayout,
    Actor,
    Critic,
    Gaussian,
    MemorySettings,
    NetworkSettings,
    ReplayBuffer,
    SequenceInputs,
)
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.replay_sequences import sequences_around

Step = dict[str, Any]


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.integers(1, 9), st.sampled_from([0, 1, 3, 100]))
def test_a_sequence_has_the_neighbors_of_a_drawn_step_in_its_episode(
    history: History, length: int, burn_in: int
) -> None:
    """Against lists of transitions, in rings that wrap and hold the parts of episodes that are not overwritten."""
    buffer = history.buffer()
    plain = Plain(history)
    story = Story(history)
    for _ in range(history.steps):
        story.tell(buffer, plain)
    if not len(buffer):
        return
    drawn = buffer.sample(12, np.random.default_rng(1))
    memory = MemorySettings(sequence_length=length, burn_in=burn_in)
    found = sequences_around(drawn, memory, buffer.flags, buffer.slots, np.random.default_rng(history.seed))
    kept = plain.kept()

    def steps(rows: NDArray[np.int64]) -> list[Step]:
        return [kept[tuple(where)] for where in buffer.transitions(rows).observations["where"].tolist()]

    assert len(found.rows) == len(found.sequence) == len(drawn)
    assert found.sequence.tolist() == sorted(found.sequence) and len(found.starts) == len(found.leads)
    for q, asked in enumerate(steps(drawn[: len(found.starts)])):
        rows = found.rows[found.sequence == q]
        own = steps(rows)
        is_last = q == len(found.starts) - 1
        assert rows[0] == found.starts[q]
        assert {(step["slot"], step["episode"]) for step in own} == {(asked["slot"], asked["episode"])}
        first = own[0]["number"]
        last = own[-1]["number"]
        assert [step["number"] for step in own] == list(range(first, last + 1))
        assert 0 <= asked["number"] - first < length and (is_last or asked["number"] <= last)
        of_episode = sorted(
            step["number"] for step in kept.values()
            if (step["slot"], step["episode"]) == (asked["slot"], asked["episode"])
        )  # fmt: skip
        assert is_last or len(own) == length or last == of_episode[-1]
        assert found.leads[q] == min(burn_in, first - of_episode[0])


def test_the_first_step_of_an_episode_is_learned_from_about_as_often_as_others() -> None:
    """Against the sum over all draws and offsets. Sequences that began where they are drawn would have it in 1 of L."""
    episode = 20
    length = 8
    draws = 40_000
    flags = np.array([1] * episode + [0, 0], np.uint8)
    drawn = np.random.default_rng(1).integers(episode, size=draws)
    memory = MemorySettings(sequence_length=length, burn_in=0)
    found = sequences_around(drawn, memory, flags, 1, np.random.default_rng(2))
    wanted: Counter[int] = Counter()
    for row in range(episode):
        for offset in range(length):
            start = max(0, row - offset)
            wanted.update(range(start, min(start + length, episode)))
    counted = np.bincount(found.rows, minlength=len(flags))[:episode] / len(found.rows)
    expected = np.array([wanted[row] for row in range(episode)]) / sum(wanted.values())
    np.testing.assert_allclose(counted, expected, atol=0.003)
    assert counted.min() > 0.4 * counted.mean()


# ---------------------------------------------------------------- networks


class Remembering(ReplayBuffer):
    """Stores random numbers as what was remembered."""

    random = np.random.default_rng(5)

    def act(self, raw: Any, choices: Any, memory: Any = None) -> None:
        super().act(raw, choices, self.random.normal(size=(self.slots, self.memory.shape[1])).astype(np.float32))


HISTORY = History(7, slots=3, rows=24, steps=70, end=0.08, abort=0.02, begin=0.0, idle=0.2, masks=0.0, groups=0.0,
                  prioritized=False)  # fmt: skip


class Networks(nn.Module):
    """A policy, a critic whose memory is stored, and one that begins with zeros."""

    def __init__(self, kind: str, size: int = 8) -> None:
        super().__init__()
        behavior = HISTORY.behavior
        memory = MemorySettings(type=kind, memory_size=size, sequence_length=6, burn_in=4)
        network = NetworkSettings(hidden_units=8, num_layers=1, memory=memory, init="uniform")
        torch.manual_seed(3)
        self.actor = Actor(behavior, network, Gaussian(behavior))
        self.inputs, self.memory = self.actor.inputs, memory
        self.critics = nn.ModuleList(Critic(self.inputs, network, 2, 1, place) for place in (1, None))
        with torch.no_grad():  # observations are numbers up to 251
            for name, parameter in self.named_parameters():
                if name.endswith("layers.0.weight") and "later" not in name:
                    parameter *= 0.02


def stored(kind: str, n_steps: int) -> tuple[Networks, BatchReader, Any]:
    networks = Networks(kind)
    buffer = Remembering(HISTORY.behavior, HISTORY.slots * HISTORY.rows, None, 2 * 8)
    story = Story(HISTORY)
    for _ in range(HISTORY.steps):
        story.tell(buffer)
    rewards = [ExtrinsicReward(0.9)]
    reader = BatchReader(
        buffer, networks.inputs, ActionLayout(buffer.behavior), rewards, torch.device("cpu"), n_steps, between=True
    )
    random = np.random.default_rng(1)
    rows = sequences_around(buffer.sample(40, random), networks.memory, buffer.flags, buffer.slots, random)
    assert len(set(np.bincount(rows.sequence))) > 2 and len(set(rows.leads)) > 2, "unequal sequences and burn-ins"
    return networks, reader, rows


def values_by_hand(critic: Any, features: Tensor, action: Tensor) -> Tensor:
    x = torch.cat([features, action], dim=1)
    for layer in critic.body.later_layers:
        x = silu(layer(x))
    return critic.head(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_networks_see_what_a_walk_from_the_burn_in_on_sees_and_no_gradient_reaches_the_burn_in(
    kind: str, n_steps: int
) -> None:
    """At the steps of the sequences, at those between, and where the stretches end: values, and all gradients."""
    networks, reader, rows = stored(kind, n_steps)
    batch = reader.read(rows)
    buffer = reader.buffer
    indices, _, last = buffer.stretches(rows.rows, n_steps)
    assert batch.raw is not None
    seen: list[tuple[Any, NDArray[np.int64]]] = [(batch.inputs, rows.rows), (batch.next_inputs, buffer.next_rows(last))]
    if n_steps > 1:
        assert batch.between is not None
        seen.append((batch.between.inputs, indices[1:].ravel()))
    sums = []
    for inputs, targets in seen:
        several = len(targets) // len(rows.rows)
        around = attrs.evolve(rows, rows=targets, sequence=np.tile(rows.sequence, several))
        action = batch.raw.repeat(several, 1)
        torch.testing.assert_close(tuple(inputs), reader.at(targets), msg="a network without memory sees the same rows")
        columns, logits = networks.actor.policy(inputs)
        output = networks.actor.policy_head.linear(features_by_hand(networks.actor.actor, reader, around, targets))
        # type: ignore[list-item]
        theirs = [output]
        ours = [torch.cat([columns, logits], dim=1)]
        for critic in networks.critics:
            ours.append(critic(inputs, action))
            theirs.append(values_by_hand(critic, features_by_hand(critic.body, reader, around, targets), action))
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
        weights = torch.linspace(-1, 1, len(action))[:, None]
        sums.append(
            [sum(((each * weights).square().sum() for each in made), torch.zeros(())) for made in (ours, theirs)]
        )
    parameters = [p for p in networks.parameters() if p.requires_grad]
    mine, other = (
        torch.autograd.grad(sum(each[k] for each in sums), parameters, allow_unused=True) for k in (0, 1)
    )  # fmt: skip
    for one, two in zip(mine, other, strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3)


def test_a_frozen_critic_passes_a_gradient_to_the_action_alone() -> None:
    networks, reader, rows = stored("lstm", 1)
    batch = reader.read(rows)
    critic = networks.critics[0]
    assert isinstance(batch.inputs, SequenceInputs) and batch.raw is not None
    action = batch.raw.requires_grad_()
    values = critic(batch.inputs, action, frozen=True)
    torch.testing.assert_close(values, critic(batch.inputs, action))
    values.sum().backward()
    assert action.grad is not None and action.grad.any()
    assert all(parameter.grad is None for parameter in critic.parameters())


def test_a_network_with_memory_refuses_rows_without_their_neighbors() -> None:
    networks, reader, rows = stored("lstm", 1)
    with pytest.raises(TypeError, match="needs SequenceInputs"):
        networks.actor.policy(reader.read(rows.rows).inputs)
