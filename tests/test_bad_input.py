"""Every mistake of a user is one line that says what to fix, and an exit code. The tests use the real command line.

Tests of a full disk and a missing permission need their own processes: ``tests/faults/test_disk.py``.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import DATA, data

from rlcore_devkit.fixtures import CommandResult, RunRlcore, installed_plugin, run_rlcore

__all__ = ["installed_plugin", "run_rlcore"]

CONFIG = (DATA / "small_run.yaml").read_text("utf-8")
MISTAKES = data("bad_input")
SICK = data("sick_environments")


@pytest.fixture
def working(tmp_path: Path) -> Path:
    """Where ``run_rlcore`` runs, with the configuration in it."""
    directory = tmp_path / "working"
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(CONFIG)
    return directory


def refused(result: CommandResult, exit_code: int, message: str, *, failed_at: int | None = None) -> None:
    """One line on standard error, and on the other one that a run which failed at a step was saved there."""
    assert result.stderr == f"error: {message}\n"
    if failed_at is None:
        assert result.stdout == ""
    else:
        (line,) = result.stdout.splitlines()
        assert line.startswith(f"failed: {failed_at} steps; ")
        assert line.endswith("; results/run; resume with: rlcore run --resume --run-id run")
    assert result.exit_code == exit_code


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(run_rlcore: RunRlcore, working: Path, mistake: dict[str, Any]) -> None:
    text = CONFIG
    for old, new in mistake.get("replace", {}).items():
        assert old in text
        text = text.replace(old, new)
    (working / "config.yaml").write_text(text)
    result = run_rlcore(*mistake.get("words", "run config.yaml").split())
    assert (result.exit_code, result.stdout) == (mistake.get("code", 2), "")
    assert result.stderr.startswith(f"error: {mistake.get('line') or mistake['starts']}")
    assert result.stderr.count("\n") == 1 and ("line" not in mistake or result.stderr == f"error: {mistake['line']}\n")
    assert not (working / "results" / "run").exists()


# ---------------------------------------------------------------- plugins


# ---------------------------------------------------------------- environments

ENVIRONMENTS = '''
import gymnasium
import numpy as np


class Sick(gymnasium.Env):
    """Well for ``healthy`` steps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, symptom="", healthy=65):
        self.symptom, self.healthy, self.taken = symptom, healthy, 0
        if symptom == "words":
            self.observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.taken += 1
        symptom = self.symptom if self.taken > self.healthy else ""
        if symptom == "error":
            raise ValueError("the simulator\\nis gone")
        reward = {"reward": float("nan"), "huge reward": 1e38}.get(symptom, 1.0)
        seen = {"huge observation": (1e10 + self.taken, 0), "observation": (0, np.inf)}.get(symptom, (0, 0))
        return np.array(seen, np.float32), reward, self.taken % 10 == 0, False, {}


gymnasium.register("Sick-v0", entry_point=Sick)
'''


@pytest.fixture
def sick(working: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``sick("reward")`` configures an environment that falls ill that way."""
    (tmp_path / "sick_environment.py").write_text(ENVIRONMENTS)
    monkeypatch.syspath_prepend(tmp_path)

    def configure(symptom: str) -> None:
        config = yaml.safe_load(CONFIG)
        config["environment"] |= {"id": "sick_environment:Sick-v0", "options": {"symptom": symptom}}
        (working / "config.yaml").write_text(yaml.safe_dump(config))

    return configure


def test_an_unsupported_space(run_rlcore: RunRlcore, working: Path, sick: Any) -> None:
    sick("words")
    refused(
        run_rlcore("run", "config.yaml"), 3,
        "sick_environment:Sick-v0: observation 'observation' has the unsupported space Sequence(Discrete(2), "
        "stack=False); supported are Box, Discrete, MultiDiscrete, MultiBinary and a Dict or Tuple of those; set "
        "environment.observations: {observation: {max_entities: 16}}",
    )  # fmt: skip


@pytest.mark.parametrize("case", SICK["evaluation"].values(), ids=SICK["evaluation"])
def test_the_environment_of_an_evaluation_is_the_one_that_is_blamed(
    run_rlcore: RunRlcore, working: Path, sick: Any, case: dict[str, Any]
) -> None:
    sick("")  # training's is healthy
    every = ["interval=100", "episodes=3", *(f"environment.{each}" for each in case["set"])]
    evaluating = (word for each in every for word in ("--set", f"evaluation.{each}"))
    failed_at = case.get("failed_at")
    refused(run_rlcore("run", "config.yaml", *evaluating), case["code"], case["line"], failed_at=failed_at)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("symptom", SICK["too_large"])
def test_a_number_that_is_too_large_to_learn_from_is_named(
    run_rlcore: RunRlcore, working: Path, sick: Any, symptom: str
) -> None:
    sick(symptom)
    refused = run_rlcore("run", "config.yaml")
    case = SICK["too_large"][symptom]
    assert (refused.exit_code, refused.stdout) == (3, "")
    *warnings, error = refused.stderr.splitlines()
    assert error.startswith("error: behavior 'Agent': the loss became NaN or infinite in the update at step ")
    assert error.endswith(case["line"])
    assert [line for line in warnings if ", outside its bounds " not in line] == []
    if "cure" in case:
        assert run_rlcore("run", "config.yaml", "--force", "--set", case["cure"]).exit_code == 0


@pytest.mark.parametrize("symptom", SICK["ill"])
def test_an_environment_that_falls_ill_leaves_the_last_good_checkpoint(
    run_rlcore: RunRlcore, working: Path, sick: Any, symptom: str
) -> None:
    sick(symptom)
    refused(run_rlcore("run", "config.yaml"), 3, SICK["ill"][symptom], failed_at=130)
    checkpoints = (working / "results" / "run" / "checkpoints").iterdir()
    assert sorted(path.name for path in checkpoints) == ["100", "130"]
    assert run_rlcore("evaluate", "run", "--episodes", "2").exit_code == 0


# ---------------------------------------------------------------- runs


def test_what_a_finished_run_advises_to_type_is_what_a_shell_passes_on(run_rlcore: RunRlcore, working: Path) -> None:
    """A name with a dot is quoted for rlcore, and the quotes for the shell."""
    (working / "config.yaml").write_text(CONFIG.replace("Agent:", "big.agent:"))
    assert run_rlcore("run", "config.yaml").exit_code == 0
    advice = run_rlcore("run", "--resume", "--run-id", "run").stdout
    assert advice.startswith("nothing left to learn: max_steps 200 is reached; raise it with --set ")
    typed = shlex.split(advice.partition("raise it with ")[2].replace("...", "300"))
    assert (
        run_rlcore("run", "--resume", "--run-id", "run", *typed).stdout.splitlines()[-1].startswith("done: 300 steps")
    )
