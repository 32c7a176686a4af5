"""Recordings of a trained policy are enough to learn to play as well as it, without an environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]

# every policy is measured on the same episodes, so that their beginnings do not matter
EPISODES = 50
SEED = 1000


@attrs.frozen
class Recorded:
    """Recordings of a trained policy, and its mean return."""

    path: Path
    mean_return: float


def recorded(trained: Any, name: str, played: int, episodes: int, directory: Path) -> Recorded:
    """Record the policy of a trained example as `rlcore evaluate --record` does."""
    run = trained(name, seed=1, episodes=played)
    mean_return = run.saved().evaluate(EPISODES, SEED).behaviors[run.behavior].mean_reward
    run.saved().evaluate(episodes, seed=2, record=directory / "recordings")
    return Recorded(directory / "recordings", mean_return)


@pytest.fixture(scope="session")
def cartpole(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """50,000 steps, if the pole is balanced to the end of each episode."""
    return recorded(trained, "cartpole.yaml", 20, 100, tmp_path_factory.mktemp("cartpole"))


@pytest.fixture(scope="session")
def pendulum(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """50,000 steps."""
    return recorded(trained, "pendulum_sac.yaml", 100, 250, tmp_path_factory.mktemp("pendulum"))


Learned = Callable[..., float]


@pytest.fixture
def learned(tmp_path: Path, example: Any) -> Learned:
    """``learned("cartpole_iql.yaml", source, seed, trainer)``: the mean return of what is learned from ``source``."""

    def learn(name: str, source: Recorded, seed: int, trainer: str | None = None) -> float:
        config = example(name, tmp_path / f"{seed}", seed)
        [block] = config["behaviors"].values()
        block["hyperparameters"]["demo_path"] = str(source.path)
        block["trainer_type"] = trainer or block["trainer_type"]
        with Run(with_late_summaries(config)) as run:
            return late_score(run, EPISODES, seed=SEED)

    return learn


def goal(source: Recorded) -> float:
    """Nine tenths of the recorded return, or no more than a tenth of it below."""
    return source.mean_return - 0.1 * abs(source.mean_return)


@pytest.mark.xdist_group("cartpole.yaml")
@pytest.mark.parametrize("trainer", ["bc", pytest.param("iql", marks=pytest.mark.deep)])
def test_a_pole_is_balanced_as_recorded(
    learned: Learned, cartpole: Recorded, reached_on_every_seed: Any, trainer: str
) -> None:
    assert cartpole.mean_return >= 475.0, "nothing worth recording"

    def measure(seed: int) -> float:
        return learned("cartpole_iql.yaml", cartpole, seed, trainer)

    reached_on_every_seed(measure, goal(cartpole), near=20.0, seeds=(1, 2, 3))


@pytest.mark.xdist_group("pendulum_sac.yaml")
@pytest.mark.parametrize("name", ["pendulum_iql.yaml", pytest.param("pendulum_bc.yaml", marks=pytest.mark.deep)])
def test_a_pendulum_is_swung_up_as_recorded(
    learned: Learned, pendulum: Recorded, reached_on_every_seed: Any, name: str
) -> None:
    assert pendulum.mean_return >= -250.0, "nothing worth recording"
    reached_on_every_seed(lambda seed: learned(name, pendulum, seed), goal(pendulum), near=3.0, seeds=(1, 2, 3))
