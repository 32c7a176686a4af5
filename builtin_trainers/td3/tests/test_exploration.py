"""The noise that agents explore with: its size, its memory, and where an episode forgets it."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import AgentBatch
from rlcore_devkit.environments import identity_continuous
from rlcore_td3.trainer import TD3Trainer

MakeTrainer = Callable[..., TD3Trainer]
SLOTS = 3
PARTS = 2


def batch_of(terminated: int | None = None, truncated: int | None = None, aborted: int | None = None) -> AgentBatch:
    """A batch in which nothing happens but the ends of at most one agent's episode of each kind."""

    def at(slot: int | None) -> NDArray[np.bool_]:
        return np.arange(SLOTS) == (-1 if slot is None else slot)

    seen = np.zeros((SLOTS, PARTS), np.float32)
    ends = np.flatnonzero(at(terminated) | at(truncated))
    batch = AgentBatch({"reals": seen}, np.zeros(SLOTS, np.float32), at(terminated), at(truncated), ends)
    finals = {"reals": seen[ends]} if ends.size else None
    return attrs.evolve(batch, final_observations=finals, aborted=None if aborted is None else at(aborted))


def exploring(make_trainer: MakeTrainer, **settings: object) -> TD3Trainer:
    """A trainer whose actor gives 0, so that actions are noise alone."""
    trainer = make_trainer(identity_continuous(SLOTS), **settings)
    trainer.model.policy_head.linear.weight.data.zero_()
    trainer.begin(batch_of())
    return trainer


def noise(trainer: TD3Trainer, batch: AgentBatch) -> NDArray[np.float32]:
    """The noise [S, C] of a step, of which ``batch`` is the outcome."""
    actions = trainer.act(batch_of())
    trainer.observe(actions, batch)
    assert actions.continuous is not None
    return actions.continuous.copy()


def test_gaussian_noise_is_independent_and_has_its_deviation_in_units_of_half_the_range(
    make_trainer: MakeTrainer,
) -> None:
    trainer = exploring(make_trainer, exploration_noise=0.2)
    drawn = np.array([noise(trainer, batch_of()) for _ in range(1500)])  # [T, S, C]
    assert drawn.std() == pytest.approx(0.2, rel=0.03) and abs(drawn.mean()) < 0.01
    columns = drawn.reshape(len(drawn), -1)
    together = np.concatenate([columns[1:], columns[:-1]], axis=1)
    correlations = np.corrcoef(together.T) - np.eye(together.shape[1])
    assert np.abs(correlations).max() < 0.12


def test_a_noisy_action_stays_within_its_bounds(make_trainer: MakeTrainer) -> None:
    trainer = exploring(make_trainer, exploration_noise=5.0)
    drawn = np.array([noise(trainer, batch_of()) for _ in range(20)])
    assert np.abs(drawn).max() == 1.0


def test_a_deterministic_policy_explores_without_noise(make_trainer: MakeTrainer) -> None:
    trainer = exploring(make_trainer, network={"deterministic": True})
    assert not noise(trainer, batch_of()).any()


def test_an_ornstein_uhlenbeck_process_is_of_each_agent_and_starts_at_0_in_each_episode(
    make_trainer: MakeTrainer,
) -> None:
    """The process step by step, from the normal numbers that Gaussian noise is made of."""
    theta = 0.4
    sigma = 0.05
    dt = 0.25
    ends = {2: batch_of(terminated=0), 4: batch_of(truncated=1), 6: batch_of(aborted=2)}
    settings = {"exploration_noise_type": "ornstein_uhlenbeck", "ou_theta": theta, "ou_dt": dt}
    process = exploring(make_trainer, exploration_noise=sigma, **settings)
    plain = exploring(make_trainer, exploration_noise=sigma)
    x = np.zeros((SLOTS, PARTS))
    for step in range(12):
        if step == 9:  # episodes of all agents are cut
            process.begin(batch_of())
            plain.begin(batch_of())
            x[:] = 0.0
        after = ends.get(step, batch_of())
        normal = noise(plain, after) / sigma
        x = x + theta * (0.0 - x) * dt + sigma * np.sqrt(dt) * normal
        np.testing.assert_allclose(noise(process, after), x, atol=1e-6)
        if step in ends:
            x[{2: 0, 4: 1, 6: 2}[step]] = 0.0


def test_the_noise_of_open_episodes_is_saved(make_trainer: MakeTrainer) -> None:
    settings = {"exploration_noise_type": "ornstein_uhlenbeck", "ou_theta": 0.1, "exploration_noise": 0.05}
    trainer, resumed = (exploring(make_trainer, **settings) for _ in range(2))
    for _ in range(5):
        noise(trainer, batch_of())
    resumed.load_state_dict(trainer.state_dict())
    for _ in range(3):
        np.testing.assert_array_equal(noise(resumed, batch_of()), noise(trainer, batch_of()))
