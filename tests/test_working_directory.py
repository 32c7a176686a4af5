"""A run stays where it began, whatever its environment does to the working directory; ``~`` is a user's home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import small_run

from rlcore import Tag
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

ENVIRONMENT = '''
"""An environment that changes the working directory, as some simulators do to find their files."""

import os

import gymnasium
import numpy as np


class Wanderer(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, moves_in=None, to=None, render_mode=None):
        self.moves_in, self.to, self.render_mode = moves_in, to, render_mode
        self.move("__init__")

    def move(self, where):
        if where == self.moves_in:
            os.chdir(self.to)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen("reset"), {}

    def step(self, action):
        self.steps += 1
        return self.seen("step"), float(action), self.steps == 20, False, {}

    def seen(self, where):
        self.move(where)
        return self.np_random.random(3, dtype=np.float32)

    def render(self):
        return np.zeros((32, 32, 3), np.uint8)


gymnasium.register("Wanderer-v0", Wanderer)
'''

CHANGES = {
    "environment": {"type": "gymnasium", "id": "wandering_environment:Wanderer-v0", "num_envs": 2}, "stats": None,
    "behaviors.Agent": {
        "trainer_type": "ppo", "hyperparameters": {"buffer_size": 64, "batch_size": 32},
        "max_steps": 384, "summary_freq": 128, "checkpoint_interval": 128,
    },
}  # fmt: skip
CONFIG = small_run(None, CHANGES)


class Place:
    """A directory in which commands run, one to which environments move, and a home."""

    def __init__(self, directory: Path, run: RunRlcore) -> None:
        self.working, self.elsewhere, self.home = (directory / name for name in ("working", "elsewhere", "home"))
        for each in (self.working, self.elsewhere, self.home):
            each.mkdir(exist_ok=True)
        self._run = run

    def configure(self, moves_in: str | None, **blocks: Any) -> None:
        options = {"moves_in": moves_in, "to": str(self.elsewhere)}
        config = CONFIG | {"environment": CONFIG["environment"] | {"options": options}} | blocks
        (self.working / "config.yaml").write_text(yaml.safe_dump(config))

    def __call__(self, *command: str) -> str:
        result = self._run(*command)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout


@pytest.fixture
def place(tmp_path: Path, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch) -> Place:
    (tmp_path / "wandering_environment.py").write_text(ENVIRONMENT)
    monkeypatch.syspath_prepend(tmp_path)
    place = Place(tmp_path, run_rlcore)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("COLUMNS", "300")  # of the terminal: long paths stay on their line
    return place


def weights(run: Path, step: int) -> bytes:
    return (run / "checkpoints" / str(step) / "Agent.safetensors").read_bytes()


def lines(run: Path) -> list[Any]:
    """The summaries, without what depends on the clock."""
    summaries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for summary in summaries:
        summary["time"] = summary["stats"][Tag.STEPS_PER_SECOND] = None
    return summaries


@pytest.mark.parametrize("moves_in", ["__init__", "reset", "step"])
def test_an_environment_that_changes_the_working_directory_leaves_the_run_where_it_was(
    place: Place, moves_in: str
) -> None:
    place.configure(None)
    stays = place("run", "config.yaml", "--run-id", "stays")
    place.configure(moves_in)
    moved = place("run", "config.yaml")
    assert moved.splitlines()[-1] == stays.splitlines()[-1].replace("results/stays", "results/run")
    assert moved.splitlines()[-1].endswith("; results/run")
    assert list(place.elsewhere.iterdir()) == []
    ours = place.working / "results" / "run"
    other = place.working / "results" / "stays"
    assert weights(ours, 384) == weights(other, 384)
    assert lines(ours) == lines(other)
    names = {path.relative_to(other).as_posix() for path in other.rglob("*") if "tfevents" not in path.name}
    assert names == {path.relative_to(ours).as_posix() for path in ours.rglob("*") if "tfevents" not in path.name}
    assert len(list((ours / "Agent").glob("events.out.tfevents.*"))) == 1
    assert json.loads((ours / "result.json").read_text())["outcome"] == "done"
    # What was written into the configuration is kept as it was written: it runs in any directory.
    assert yaml.safe_load((ours / "configuration.yaml").read_text())["checkpoint_settings"]["results_dir"] == "results"


def test_a_tilde_in_a_path_is_the_home_directory(place: Place) -> None:
    place.configure(None, checkpoint_settings={"run_id": "run", "results_dir": "~/results"})
    assert place("run", "config.yaml").endswith(f"; {place.home}/results/run\n")
    assert (place.home / "results" / "run" / "result.json").is_file()
    assert place("run", "--resume", "--run-id", "run", "--results-dir=~/results").startswith("nothing left to learn")
    assert place("status", "~/results/run").startswith(f"{place.home}/results/run: ")
    place("evaluate", "~/results/run", "--episodes", "1", "--record=~/to")
    behavior = CONFIG["behaviors"]["Agent"]
    block = {"behavioral_cloning": {"demo_path": "~/to"}, "init_path": "~/results/run"}
    place.configure(None, behaviors={"Agent": behavior | block})
    place("run", "config.yaml", "--run-id", "second")
    (place.home / "hooks.py").write_text("")
    place.configure(None, plugins={"local": ["~/hooks.py"]})
    place("validate", "config.yaml", "--allow-local")
    assert sorted(path.name for path in place.working.iterdir()) == ["config.yaml", "results"]
