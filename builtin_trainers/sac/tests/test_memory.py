# mypy: allow-untyped-calls
"""SAC with memory: its losses against networks that step through episodes one row after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical
from unrolled_by_hand import features_by_hand

from rlcore import ConfigError, Run
from rlcore_devkit import MemoryTrainerConformance
from rlcore_devkit.conformance.loop import first_batch, play_on
from rlcore_devkit.environments import TinyCorridor
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import Recurrent
from rlcore_torch.off_policy.replay_rings import TERMINATED
from rlcore_torch.off_policy.replay_sampler import PrioritizedSampler

NETWORK = {"hidden_units": 16, "num_layers": 1, "memory": {"memory_size": 8, "sequence_length": 6, "burn_in": 3}}
GAMMA = 0.99
TEMPERATURE = 0.3


def played(make_trainer: Callable[..., SACTrainer], **hyperparameters: Any) -> SACTrainer:
    """A trainer that has random steps of short and long episodes of three agents, and unequal networks."""
    environment = TinyCorridor(3, max_steps=9)
    block = {"network_settings": NETWORK}
    given = {"buffer_init_steps": 10_000, "buffer_size": 150, "init_entcoef": TEMPERATURE, **hyperparameters}
    trainer = make_trainer(environment, block=block, **given)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            )
        trainer.model.log_temperature.fill_(np.log(TEMPERATURE))
    batch = first_batch(environment)
    trainer.begin(batch)
    for _ in play_on(trainer, environment, batch, 70):
        pass
    return trainer


def test_losses_are_means_over_real_steps_of_what_was_remembered_there(make_trainer: Any) -> None:
    """Unequal sequences are padded inside of the networks; no part of a loss may be of a padded step."""
    trainer = played(make_trainer)
    model = trainer.model
    reader = trainer.reader
    rows: Any = trainer.with_neighbors(trainer.buffer.sample(64, trainer.generator), trainer.buffer)
    assert len(set(np.bincount(rows.sequence))) > 2 and rows.leads.any()
    batch = reader.read(rows)
    following = trainer.buffer.next_rows(rows.rows)

    def q(critic: Any, targets: Any) -> Tensor:
        return critic.head(features_by_hand(critic.body, reader, rows, targets))  # type: ignore[no-any-return]

    def policy(targets: Any) -> Categorical:
        return Categorical(logits=model.policy_head.linear(features_by_hand(model.actor, reader, rows, targets)))

    with torch.no_grad():
        after = policy(following)
        least = torch.minimum(*(q(target, following) for target in model.targets))
        value = (after.probs * least).sum(1) + TEMPERATURE * after.entropy()
        steps = trainer.buffer.transitions(rows.rows)
        target_q = torch.from_numpy(steps.reward) + GAMMA * torch.from_numpy(~steps.terminated) * value
        chosen = torch.from_numpy(steps.choices)
        own = [q(critic, rows.rows) for critic in model.critics]
        squares = [(each.gather(1, chosen)[:, 0] - target_q).square() for each in own]
        here = policy(rows.rows)
        gain = (here.probs * torch.minimum(*own)).sum(1) + TEMPERATURE * here.entropy()

    critic_loss = trainer.critic_loss(batch, trainer.step_noise(batch))
    assert critic_loss.total.item() == pytest.approx(0.5 * float(squares[0].mean() + squares[1].mean()), rel=1e-4)
    _, policy_loss = trainer.policy_loss(batch, None)
    assert policy_loss.item() == pytest.approx(-float(gain.mean()), rel=1e-4)


def test_a_gradient_step_burns_each_network_in_once_and_learns_the_same(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy and both critics are read twice at the same weights, so five networks are read eight times."""
    burnt_in: list[int] = []
    after = Recurrent.after

    def counted(layer: Recurrent, *arguments: Any) -> Tensor:
        burnt_in.append(id(layer))
        return after(layer, *arguments)

    def learned(once: bool) -> list[Tensor]:
        trainer = played(make_trainer)
        rows: Any = trainer.with_neighbors(trainer.buffer.sample(64, trainer.generator), trainer.buffer)
        assert rows.leads.any()
        batch = trainer.reader.read(rows)
        burnt_in.clear()
        if once:
            trainer.gradient_step(batch)
        else:
            trainer.learn(batch, trainer.step_noise(batch))
        return [parameter.detach().clone() for parameter in trainer.model.parameters()]

    monkeypatch.setattr(Recurrent, "after", counted)
    each_time = learned(False)
    assert (len(burnt_in), len(set(burnt_in))) == (8, 5)
    once = learned(True)
    assert (len(burnt_in), len(set(burnt_in))) == (5, 5)
    for expected, found in zip(each_time, once, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_what_is_stored_is_what_the_networks_remembered_before_the_action(make_trainer: Any) -> None:
    """The policy and both critics are compared, with random first actions too; an episode begins with zeros."""
    trainer = played(make_trainer)
    buffer = trainer.buffer
    seen = trainer.reader
    size = trainer.model.memory_size
    assert trainer.memory is not None and buffer.memory.shape[1] == trainer.memory.shape[1] == 3 * size
    for row in np.flatnonzero(buffer.flags):
        before = (row - buffer.slots) % buffer.capacity
        if before in buffer.head:  # the oldest row; what was before it is overwritten
            continue
        if not buffer.flags[before]:
            assert not buffer.memory[row].any()
            continue
        for place, body in enumerate(trainer.model.remembering):
            own = slice(place * size, (place + 1) * size)
            with torch.no_grad():
                _, after = body.step(seen.at(np.array([before])), torch.from_numpy(buffer.memory[[before], own].copy()))
            np.testing.assert_allclose(buffer.memory[row, own], after[0], rtol=1e-4, atol=1e-6)


def test_a_lost_life_ends_the_value_and_not_the_memory(make_trainer: Any) -> None:
    environment = TinyCorridor(3, max_steps=9)
    trainer = make_trainer(environment, block={"network_settings": NETWORK}, buffer_init_steps=10_000, buffer_size=150)
    batch = first_batch(environment)
    trainer.begin(batch)
    [name] = environment.behaviors
    for step in range(4):
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        lost = np.array([step == 1, False, False]) & ~batch.terminated & ~batch.truncated
        remembered = trainer.memory.copy()
        remembered[batch.ended] = 0.0
        trainer.observe(actions, attrs.evolve(batch, life_lost=lost))
        np.testing.assert_array_equal(trainer.memory, remembered)
        flags = trainer.buffer.flags[trainer.buffer.closed_rows]
        np.testing.assert_array_equal(flags & TERMINATED != 0, lost | batch.terminated)
        assert remembered[0].any() or 0 in batch.ended
        assert step != 1 or lost[0]


def test_prioritized_replay_gives_each_learned_step_its_own_error(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Any, Any]] = []
    monkeypatch.setattr(PrioritizedSampler, "learned", lambda _, buffer, rows, errors: given.append((rows, errors)))
    sampler = {"type": "prioritized", "alpha": 1.0}
    trainer = played(make_trainer, replay_sampler=sampler, steps_per_update=40.0, buffer_init_steps=60, batch_size=32)
    assert given and all(len(rows) == len(errors) == 32 for rows, errors in given)
    rows = given[-1][0]
    follows = trainer.buffer.next_rows(rows[:-1]) == rows[1:]
    assert follows.sum() > 16, "the neighbors of a drawn step are given their errors too"


def test_a_resumed_trainer_remembers_its_open_episodes(tmp_path: Path) -> None:
    """The rule of every trainer with memory, all of which hold nightly."""

    class Conformance(MemoryTrainerConformance):
        trainer = "sac"
        hyperparameters: ClassVar = {
            "batch_size": 16, "buffer_size": 200, "buffer_init_steps": 32, "steps_per_update": 8,
            "save_replay_buffer": True,
        }  # fmt: skip
        settings: ClassVar = {"network_settings": NETWORK}
        steps = 24

    conformance = Conformance()
    conformance.directory = tmp_path
    conformance.test_goes_on_in_the_middle_of_episodes_as_if_never_stopped()


@pytest.mark.parametrize(
    ("trainer", "memory", "message"),
    [
        ("sac", {"memory_size": 7}, "memory_size: must be even, not 7"),
        ("sac", {"sequence_length": 65}, r"must be at most hyperparameters.batch_size \(64\), not 65"),
        ("ppo", {"burn_in": 4}, "memory.burn_in: trainer 'ppo' learns from what agents remembered a moment ago"),
    ],
)
def test_memory_that_cannot_be_learned_is_refused(tmp_path: Any, trainer: str, memory: Any, message: str) -> None:
    block = {
        "trainer_type": trainer, "hyperparameters": {"batch_size": 64}, "network_settings": {"memory": memory},
    }  # fmt: skip
    environment = {"type": "gymnasium", "id": "CartPole-v1"}
    document = {"preset": "none", "environment": environment, "behaviors": {"Agent": block}}
    with pytest.raises(ConfigError, match=message):
        Run({**document, "checkpoint_settings": {"results_dir": str(tmp_path)}})
