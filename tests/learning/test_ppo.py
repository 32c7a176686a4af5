"""PPO's examples learn what they promise, on every seed, as a user runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]


def mean_return(trained: Any, example: str, seed: int, max_steps: int) -> float:
    """The mean of 20 episodes played deterministically after the training."""
    run = trained(example, seed, episodes=20)
    evaluation = run.evaluation.behaviors[run.behavior]
    assert run.steps == pytest.approx(max_steps, abs=1000)
    assert len(evaluation.returns) == 20
    return float(evaluation.mean_reward)


@pytest.mark.daily
@pytest.mark.xdist_group("cartpole.yaml")
def test_cartpole_is_balanced_after_a_hundred_thousand_steps(trained: Any, reached_on_every_seed: Any) -> None:
    def measure(seed: int) -> float:
        return mean_return(trained, "cartpole.yaml", seed, 100_000)

    reached_on_every_seed(measure, 475.0, near=20.0, seeds=(1, 2, 3, 4, 5))


class Units(gymnasium.ObservationWrapper):  # type: ignore[type-arg]
    """CartPole whose observations have another unit and another zero."""

    def __init__(self, scale: float, offset: float) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.scale, self.offset = np.float32(scale), np.float32(offset)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def observation(self, observation: Any) -> Any:
        return observation * self.scale + self.offset


@pytest.mark.parametrize(("scale", "offset"), [(1000, 0), (1, 1000), (100, 0), (1, 100)])
def test_cartpole_is_balanced_in_any_unit_of_observations(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reached_on_every_seed: Any, scale: int, offset: int
) -> None:
    """With ``normalize: true`` and the default network. Its first update moves the policy as far as any other.

    The larger units are measured with every seed.
    """
    name = f"Cart{scale}Pole{offset}"
    monkeypatch.setitem(gymnasium.registry, f"{name}-v0", gymnasium.envs.registration.EnvSpec(
        f"{name}-v0", lambda **_: Units(scale, offset)
    ))  # fmt: skip

    def measure(seed: int) -> float:
        config = example("cartpole.yaml", tmp_path / str(seed), seed)
        block = config["behaviors"].pop("CartPole")
        config["behaviors"][name] = {**block, "network_settings": {"normalize": True}, "summary_freq": 1024}
        config["environment"]["id"] = f"{name}-v0"
        with Run(config) as run:
            kl = [epoch.behaviors[name].update_stats["Policy/KL Divergence"] for epoch in run]
            score = run.evaluate(episodes=20).behaviors[name].mean_reward
        print(f"observations x {scale} + {offset}, seed {seed}: first KL {kl[0]:.4f}, largest {max(kl):.4f}")
        assert kl[0] < 0.1
        return float(score)

    reached_on_every_seed(measure, 475.0, near=26.0 if 1000 in (scale, offset) else 20.0, seeds=(1, 2, 3))


def test_the_pendulum_stands_after_three_hundred_thousand_steps(trained: Any, reached_on_every_seed: Any) -> None:
    def measure(seed: int) -> float:
        return mean_return(trained, "pendulum.yaml", seed, 300_000)

    reached_on_every_seed(measure, -250.0, near=50.0, seeds=(1, 2, 3))
