"""What a trained policy played is enough to learn to play as well, with no environment while learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from rlcore import Run
from rlcore.config import load_config, read_document
from rlcore.plugins import load_plugins
from rlcore.runs.saved_run import SavedRun

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]  # a recording waits for the training of its policy

EXAMPLES = Path(__file__).parents[2] / "examples"
EPISODES, SEED = 50, 1000  # every policy is measured on the same episodes, so that their beginnings do not matter


@attrs.frozen
class Recorded:
    """What a trained policy played, and how well it plays."""

    path: Path
    mean_return: float


def example(name: str, directory: Path, seed: int) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"]["results_dir"] = str(directory)
    config["stats"] = {"console": False}
    return config


def trained(config: Mapping[str, Any]) -> float:
    """The mean return of the evaluation's episodes after a whole run."""
    [behavior] = config["behaviors"]
    with Run(config) as run:
        run.train()
        return run.evaluate(EPISODES, SEED).behaviors[behavior].mean_reward


def recorded(name: str, episodes: int, directory: Path) -> Recorded:
    """Trains the example, then records as `rlcore evaluate --record` does."""
    config = example(name, directory, seed=1)
    mean_return = trained(config)
    run = directory / config["checkpoint_settings"]["run_id"]
    plugins = load_plugins()
    saved = SavedRun.load(run, load_config(read_document(run / "configuration.yaml"), plugins), plugins)
    saved.evaluate(episodes, seed=2, record=directory / "recordings")
    return Recorded(directory / "recordings", mean_return)


@pytest.fixture(scope="session")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """50,000 steps, if the pole is balanced to the end of each episode."""
    return recorded("cartpole.yaml", 100, tmp_path_factory.mktemp("cartpole"))


@pytest.fixture(scope="session")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """50,000 steps."""
    return recorded("pendulum_sac.yaml", 250, tmp_path_factory.mktemp("pendulum"))


Learned = Callable[..., float]


@pytest.fixture
def learned(tmp_path: Path) -> Learned:
    def learn(name: str, source: Recorded, seed: int, trainer: str | None = None) -> float:
        config = example(name, tmp_path, seed)
        [block] = config["behaviors"].values()
        block["hyperparameters"]["demo_path"] = str(source.path)
        block["trainer_type"] = trainer or block["trainer_type"]
        reached = trained(config)
        print(f"{name} {block['trainer_type']} seed {seed}: {reached:.2f}, recorded {source.mean_return:.2f}")
        return reached

    return learn


def recovered(reached: float, source: Recorded) -> bool:
    """Nine tenths of the recorded return, or no more than a tenth of it below."""
    return reached >= source.mean_return - 0.1 * abs(source.mean_return)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("trainer", ["bc", "iql"])
def test_a_pole_is_balanced_as_recorded(learned: Learned, cartpole: Recorded, trainer: str, seed: int) -> None:
    assert cartpole.mean_return >= 475.0, "nothing worth recording"
    assert recovered(learned("cartpole_iql.yaml", cartpole, seed, trainer), cartpole)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["pendulum_bc.yaml", "pendulum_iql.yaml"])
def test_a_pendulum_is_swung_up_as_recorded(learned: Learned, pendulum: Recorded, name: str, seed: int) -> None:
    assert pendulum.mean_return >= -250.0, "nothing worth recording"
    assert recovered(learned(name, pendulum, seed), pendulum)
