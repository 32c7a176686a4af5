"""Fixtures of the tests of learning: seeds, trained examples, and a processor core for each test process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from late_scores import late_score, with_late_summaries

from rlcore import Run, SavedRun, load_config, load_plugins, read_document
from rlcore_zoo.collection import path_of

EXAMPLES = Path(__file__).parents[2] / "examples"


Measure = Callable[[int], float]


@pytest.fixture
def reached_on_every_seed(deep: bool) -> Callable[..., None]:
    """``reached_on_every_seed(measure, threshold, near=..., seeds=(1, 2, 3))``: ``measure(seed) >= threshold``.

    The first seed is always measured. The others are measured if it lies less than ``near`` above the threshold, and
    in a deep run.
    """

    def check(measure: Measure, threshold: float, *, near: float, seeds: Sequence[int]) -> None:
        for seed in seeds:
            value = measure(seed)
            print(f"seed {seed}: {value:.3f}, at least {threshold:.3f}")
            assert value >= threshold, f"seed {seed}"
            if not deep and seed == seeds[0] and value >= threshold + near:
                return

    return check


@attrs.frozen
class Trained:
    """A finished run of an example."""

    behavior: str
    directory: Path  # of the run
    steps: int
    score: float  # of its late policies

    def saved(self) -> SavedRun:
        plugins = load_plugins()
        config = load_config(read_document(self.directory / "configuration.yaml"), plugins)
        return SavedRun.load(self.directory, config, plugins)


def example(name: str, directory: Path, seed: int) -> dict[str, Any]:
    """The configuration of ``examples/NAME``, or of ``zoo:NAME``, whose results go into ``directory``."""
    path = path_of(name.removeprefix("zoo:")) if name.startswith("zoo:") else EXAMPLES / name
    config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"]["results_dir"] = str(directory)
    config["stats"] = {"console": False}
    return config


@pytest.fixture(name="example")
def _example() -> Callable[[str, Path, int], dict[str, Any]]:
    """See :func:`example`."""
    return example


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trained]:
    """``trained("cartpole.yaml", seed, episodes=20)``: that example or file of the zoo, trained once.

    ``max_steps`` is that of the example unless it is given.

    Modules that use the same training belong into one ``xdist_group``: each process of pytest-xdist has its own.
    """
    made: dict[tuple[str, int, int, int], Trained] = {}

    def train(name: str, seed: int, episodes: int, max_steps: int | None = None) -> Trained:
        config = example(name, tmp_path_factory.mktemp("trained"), seed)
        [(behavior, block)] = config["behaviors"].items()
        block["max_steps"] = max_steps or block["max_steps"]
        key = (name, seed, episodes, block["max_steps"])
        if key not in made:
            with Run(with_late_summaries(config)) as run:
                score = late_score(run, episodes)
                made[key] = Trained(behavior, run.directory.path, run.steps, score)
        return made[key]

    return train
