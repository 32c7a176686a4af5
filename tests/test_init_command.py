"""``rlcore init`` writes a file that trains, for environments of several kinds."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium import spaces

from rlcore import RunConfig, load_config, load_plugins, read_document
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]


class Few(spaces.Sequence):
    """A Sequence whose samples have at most 16 elements."""

    def sample(self, *masks: Any, **how: Any) -> Any:
        return super().sample(*masks, **how)[:16]


SPACES: dict[str, tuple[Any, Any]] = {
    "Words-v0": (
        spaces.Dict({"mission": spaces.Text(20), "view": spaces.Box(0, 255, (7, 7, 3), np.uint8)}),
        spaces.Discrete(3),
    ),
    "Things-v0": (spaces.Dict({"things": Few(spaces.Box(-1, 1, (2,)))}), spaces.Discrete(3)),
    "Pictures-v0": (spaces.Box(0, 255, (48, 48, 3), np.uint8), spaces.MultiDiscrete([2, 3])),
    "Driving-v0": (
        spaces.Tuple([spaces.Box(0, 255, (48, 48, 3), np.uint8), spaces.Discrete(2)]),
        spaces.Box(-1, 1, (2,)),
    ),
    "Arm-v0": (spaces.Box(-1, 1, (5, 5)), spaces.Box(np.array([0.0, -3.0], np.float32), np.array([1, 3], np.float32))),
    "Silent-v0": (spaces.Text(5), spaces.Discrete(2)),
}


class AnySpaces(gymnasium.Env[Any, Any]):
    """Random observations of a space; an episode has five steps."""

    def __init__(self, name: str) -> None:
        self.observation_space, self.action_space = SPACES[name]
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 5, False, {}


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    for name in SPACES:
        gymnasium.register(name, entry_point=AnySpaces, kwargs={"name": name})
    yield
    for name in SPACES:
        del gymnasium.registry[name]


def loaded(path: Path) -> RunConfig:
    return load_config(read_document(path), load_plugins())


def without_marks(text: str) -> str:
    """The file with every value of the preset in force."""
    return re.sub(r"^( +)# (?=[ \w]+:(?! to change))", r"\1", text, flags=re.MULTILINE)


@pytest.fixture
def written(run_rlcore: RunRlcore, tmp_path: Path) -> Any:
    def write(*words: str) -> tuple[Path, str]:
        path = tmp_path / "working" / "file.yaml"
        done = run_rlcore("init", *words, "-o", "file.yaml")
        assert done.exit_code == 0, done.stderr
        assert done.stdout.endswith("; train with: rlcore run file.yaml\n")
        assert run_rlcore("validate", "file.yaml").stdout == "file.yaml: valid\n"
        return path, path.read_text()

    return write


@pytest.mark.parametrize(
    ("env_id", "preset", "observations", "comments"),
    [
        (
            "CartPole-v1",
            "ppo-discrete",
            {},
            ["observes observation: 4 numbers", "one of 2 choices", "500 steps"],
        ),
        ("Hopper-v5", "ppo-mujoco", {}, ["observes observation: 11 numbers", "acts by 3 numbers from -1 to 1"]),
        ("Pendulum-v1", "ppo-continuous", {}, ["observes observation: 3 numbers", "acts by 1 number from -2 to 2"]),
        (
            "Words-v0",
            "ppo-discrete",
            {},
            ["observes view: 7 x 7 pixels", "the observation 'mission' is left out", "acts by one of 3 choices"],
        ),
        (
            "Things-v0",
            "ppo-discrete",
            {"things": {"max_entities": 16}},
            ["observes things: up to 16 entities of 3 numbers"],
        ),
        (
            "Pictures-v0",
            "ppo-discrete",
            {},
            ["48 x 48 pixels, 3 channels", "acts by one of 2 ch", "acts by one of 3 ch"],
        ),
        ("Driving-v0", "ppo-continuous", {}, ["observes 0: 48 x 48 pixels", "observes 1: 2 indicators"]),
        (
            "Arm-v0",
            "ppo-continuous",
            {},
            ["observes observation: 25 numbers", "acts by 2 numbers, each with its own limits"],
        ),
    ],
)
def test_the_file_fits_the_spaces_of_the_environment(
    written: Any, run_rlcore: RunRlcore, env_id: str, preset: str, observations: Any, comments: list[str]
) -> None:
    path, text = written("--env", env_id)
    data = yaml.safe_load(text)
    assert data["preset"] == preset and data["environment"]["id"] == env_id
    assert data["environment"].get("observations", {}) == observations
    assert data["default_settings"]["max_steps"] == (1_000_000 if preset == "ppo-mujoco" else 300_000)
    assert [each for each in comments if each not in text] == []
    # The comments are the preset: with all of them in force, the file loads to the same configuration without it.
    config = loaded(path)
    alone = without_marks(text).replace(f"preset: {preset}", "preset: none")
    path.write_text(alone.replace("default_settings:\n", "default_settings:\n  trainer_type: ppo\n"))
    assert loaded(path) == config
    path.write_text(text)
    trained = run_rlcore("run", "file.yaml", "--max-steps", "64", "--num-envs", "2")
    assert trained.exit_code == 0, trained.stderr
    assert "results/file" in trained.stdout


def test_another_preset_may_be_named(written: Any) -> None:
    path, text = written("--env", "Pendulum-v1", "--preset", "sac")
    assert yaml.safe_load(text)["preset"] == "sac"
    assert loaded(path).behaviors["Pendulum"].trainer_type == "sac"


def test_the_file_is_named_after_the_environment_and_never_replaced(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    assert run_rlcore("init", "--env", "CartPole-v1").stdout.startswith("cartpole.yaml: preset ppo-discrete;")
    path = tmp_path / "working" / "cartpole.yaml"
    assert loaded(path).checkpoint_settings.run_id == "cartpole"
    path.write_text("mine")
    refused = run_rlcore("init", "--env", "CartPole-v1")
    assert refused.exit_code == 2 and path.read_text() == "mine"
    assert refused.stderr == "error: cartpole.yaml: exists; give another file with -o, or delete it\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--env CartPol-v1", "'CartPol-v1' is not registered with Gymnasium; did you mean 'CartPole-v1'?"),
        ("--env CartPole-v1 --preset ppo-dscrete", "did you mean 'ppo-discrete'?"),
        ("--env CartPole-v1 -o no/such/file.yaml", "no/such/file.yaml: cannot be written: No such file or directory"),
        ("--env Silent-v0", "observation 'observation' has the unsupported space Text"),
        ("", "Missing option '--env'"),
    ],
)
def test_what_cannot_be_written_is_refused(run_rlcore: RunRlcore, tmp_path: Path, words: str, said: str) -> None:
    refused = run_rlcore("init", *words.split())
    assert refused.exit_code in (2, 3) and said in refused.stderr
    assert [*(tmp_path / "working").iterdir()] == []


def test_a_module_beside_the_written_file_is_found(
    run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    entry = "gymnasium.envs.classic_control:CartPoleEnv"
    module = f"import gymnasium\ngymnasium.register('Beside-v0', entry_point='{entry}')\n"
    (tmp_path / "module_beside_init.py").write_text(module)
    written = tmp_path / "written.yaml"
    done = run_rlcore("init", "--env", "module_beside_init:Beside-v0", "-o", str(written))
    monkeypatch.delitem(sys.modules, "module_beside_init", raising=False)
    gymnasium.registry.pop("Beside-v0", None)
    assert done.exit_code == 0, done.stderr
    assert yaml.safe_load(written.read_text())["environment"]["id"] == "module_beside_init:Beside-v0"
