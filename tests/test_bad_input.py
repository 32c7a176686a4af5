"""Every mistake of a user is one line that says what to fix, and an exit code. The tests use the real command line.

Tests of a full disk and a missing permission need their own processes: ``tests/faults/test_disk.py``.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore_devkit.fixtures import CommandResult, InstallPlugin, RunRlcore, installed_plugin, run_rlcore

__all__ = ["installed_plugin", "run_rlcore"]

DATA = Path(__file__).parent / "data"
CONFIG = (DATA / "small_run.yaml").read_text("utf-8")
MISTAKES = yaml.safe_load((DATA / "bad_input.yaml").read_text("utf-8"))


@pytest.fixture
def working(tmp_path: Path) -> Path:
    """Where ``run_rlcore`` runs, with the configuration in it."""
    directory = tmp_path / "working"
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(CONFIG)
    return directory


def refused(result: CommandResult, exit_code: int, message: str) -> None:
    """One line on standard error and nothing else anywhere."""
    assert (result.stderr, result.stdout) == (f"error: {message}\n", "")
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

BROKEN = "import a_module_that_is_absent\n"
WHY = "plugin 'broken' (acme-broken 0.4) failed to load: ModuleNotFoundError: No module named 'a_module_that_is_absent'"


def test_a_plugin_that_fails_to_import_and_is_merely_installed_is_left_out_with_a_line(
    run_rlcore: RunRlcore, working: Path, installed_plugin: InstallPlugin
) -> None:
    installed_plugin("broken", "acme-broken", "0.4", BROKEN)
    result = run_rlcore("run", "config.yaml")
    assert result.exit_code == 0
    assert result.stderr == f"warning: {WHY}; run rlcore plugins doctor\n"
    refused(run_rlcore("run", "config.yaml", "--force", "--strict-plugins"), 4, f"{WHY}; --debug shows the traceback")


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
        if symptom == "space":
            self.action_space = gymnasium.spaces.Text(4)
        if symptom == "words":
            self.observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.taken += 1
        reward, observation = 1.0, np.zeros(2, np.float32)
        if self.taken > self.healthy:
            if self.symptom == "reward":
                reward = float("nan")
            if self.symptom == "huge reward":
                reward = 1e38
            if self.symptom == "huge observation":
                observation[0] = 1e10 + self.taken
            if self.symptom == "observation":
                observation[1] = np.inf
            if self.symptom == "error":
                raise ValueError("the simulator\\nis gone")
        return observation, reward, self.taken % 10 == 0, False, {}


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
        "stack=False); supported are Box, Discrete, MultiDiscrete, MultiBinary and a Dict or Tuple of those",
    )  # fmt: skip


def test_the_environment_of_an_evaluation_is_the_one_that_is_blamed(
    run_rlcore: RunRlcore, working: Path, sick: Any
) -> None:
    sick("")  # training's is healthy

    def evaluating(*sets: str) -> CommandResult:
        every = [
            "evaluation.interval=100",
            "evaluation.episodes=3",
            *(f"evaluation.environment.{each}" for each in sets),
        ]
        return run_rlcore("run", "config.yaml", "--force", *(word for each in every for word in ("--set", each)))

    refused(
        evaluating("options.symptom=error", "options.healthy=1"), 3,
        "evaluation: sick_environment:Sick-v0: environment 0, episode 0: step failed: ValueError: the simulator is "
        "gone; --debug shows the traceback",
    )  # fmt: skip
    refused(
        evaluating("options.mood=bad"), 3,
        "evaluation: sick_environment:Sick-v0: cannot be made with options {'mood': 'bad', 'symptom': ''}: TypeError: "
        "Sick.__init__() got an unexpected keyword argument 'mood' was raised from the environment creator for "
        "Sick-v0 with kwargs ({'mood': 'bad', 'symptom': ''}); --debug shows the traceback",
    )  # fmt: skip
    refused(
        evaluating("id=CartPole-v11"), 2,
        "--set evaluation.environment.id: 'CartPole-v11' is not registered with Gymnasium; did you mean 'CartPole-v1'? "
        "(an environment of another package is written 'its_module:Name-v0') (refused by plugin 'gymnasium' "
        "(rlcore-gymnasium 0.1.0))",
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize(
    ("symptom", "cause", "cure"),
    [
        (
            "huge reward",
            "the largest reward is 1e+38, too large to learn from: scale rewards down in the environment",
            "",
        ),
        (
            "huge observation",
            "the largest value of observation 'observation' is 1e+10, too large to learn from: set "
            "network_settings.normalize: true, or scale it down in the environment",
            "behaviors.Agent.network_settings.normalize=true",
        ),
    ],
)
def test_a_number_that_is_too_large_to_learn_from_is_blamed_and_not_the_learning_rate(
    run_rlcore: RunRlcore, working: Path, sick: Any, symptom: str, cause: str, cure: str
) -> None:
    sick(symptom)
    refused = run_rlcore("run", "config.yaml")
    assert (refused.exit_code, refused.stdout) == (3, "")
    *warnings, error = refused.stderr.splitlines()
    assert error.startswith("error: behavior 'Agent': the loss became NaN or infinite in the update at step ")
    assert error.endswith(f"); {cause}")
    assert [line for line in warnings if ", outside its bounds " not in line] == []
    if cure:
        assert run_rlcore("run", "config.yaml", "--force", "--set", cure).exit_code == 0


REMEDY = "fix the environment, or wrap it to keep its values finite"


@pytest.mark.parametrize(
    ("symptom", "message"),
    [
        ("reward", f"behavior 'Agent': reward of slot 0 (environment 0) is nan at step 130; {REMEDY}"),
        (
            "observation",
            "behavior 'Agent': observation 'observation' of slot 0 (environment 0) is [ 0. inf] at step 130; "
            f"{REMEDY} and below 3.4e+38, the largest float32",
        ),
        (
            "error",
            "sick_environment:Sick-v0: environment 0, episode 7: step failed: ValueError: the simulator is gone; "
            "--debug shows the traceback",
        ),
    ],
)
def test_an_environment_that_falls_ill_leaves_the_last_good_checkpoint(
    run_rlcore: RunRlcore, working: Path, sick: Any, symptom: str, message: str
) -> None:
    sick(symptom)
    refused(run_rlcore("run", "config.yaml"), 3, message)
    assert [path.name for path in (working / "results" / "run" / "checkpoints").iterdir()] == ["100"]
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


def test_an_existing_run(run_rlcore: RunRlcore, working: Path) -> None:
    assert run_rlcore("run", "config.yaml").exit_code == 0
    refused(
        run_rlcore("run", "config.yaml"), 5,
        "results/run: this run exists; resume it (--resume), replace it (--force) or choose another --run-id",
    )  # fmt: skip
    assert run_rlcore("run", "config.yaml", "--force").exit_code == 0
    assert run_rlcore("run", "config.yaml", "--run-id", "other").exit_code == 0
