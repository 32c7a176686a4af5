"""Players, games and workers that end or fail in a training: what was learned is saved, exported and resumed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from godot_worlds import PLAYER
from unity_player import make_player

REACH = """\
behaviors:
  Reach:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 64}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 400
    summary_freq: 200
env_settings: {seed: 7, timeout_wait: 60, max_lifetime_restarts: 0}
checkpoint_settings: {run_id: x}
"""
GODOT = f"""\
environment: {{type: godot, executable: {PLAYER}, args: [--form=old, ARGS]}}
behaviors:
  walker: {{trainer_type: ppo, hyperparameters: {{batch_size: 16, buffer_size: 32}}, max_steps: 200}}
env_settings: {{seed: 7, max_lifetime_restarts: 0}}
checkpoint_settings: {{run_id: x}}
"""
WORKERS = """\
environment: {type: gymnasium, id: "ends:Ends-v0", num_envs: 2, workers: 2}
behaviors:
  A: {trainer_type: ppo, hyperparameters: {batch_size: 16, buffer_size: 32}, max_steps: 200}
env_settings: {seed: 7, max_lifetime_restarts: 0}
checkpoint_settings: {run_id: x}
"""
ENDS = """
import os
import gymnasium
from rlcore import EnvironmentEnded

class Ends(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)
    taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype("float32"), {}

    def step(self, action):
        self.taken += 1
        if self.taken == 60:
            if os.environ["FAULT"] == "ends":
                raise EnvironmentEnded("the window was closed")
            if os.environ["FAULT"] == "dies":
                os._exit(7)
        return self.reset()[0], 1.0, self.taken % 20 == 0, False, {}

gymnasium.register("Ends-v0", Ends)
"""


@contextmanager
def running(where: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command line as a process, of which nothing is left afterwards."""
    command = [sys.executable, "-m", "rlcore", "run", *words]
    with subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(where: Path, *words: str, code: int) -> str:
    """The output of the command, which ends with ``code``."""
    with running(where, *words) as process:
        text = process.communicate(timeout=240)[0]
    assert process.returncode == code, text
    return text


def outcome(where: Path) -> str:
    return str(json.loads((where / "results/x/result.json").read_text())["outcome"])


def checkpoints(where: Path) -> list[int]:
    return sorted(int(each.name) for each in (where / "results/x/checkpoints").iterdir() if each.name.isdigit())


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("quits@40", 0, "environment ended (the player ./Reach.x86_64 ended the session)"),
        ("leaves@40", 0, "environment ended (the player ./Reach.x86_64 was closed in a step)"),
        ("crashes@40", 3, "failed: "),
    ],
)
def test_a_player_that_is_closed_or_crashes_leaves_a_checkpoint_and_a_model(
    fault: str, code: int, said: str, tmp_path: Path
) -> None:
    """Before the first checkpoint that is due."""
    (tmp_path / "Reach.yaml").write_text(REACH)
    make_player(tmp_path, "Reach.x86_64", world="continuous", agents=3, behavior="Reach", fault=fault)
    text = ended(tmp_path, "Reach.yaml", "--env", "./Reach.x86_64", code=code)
    assert said in text and "; resume with: rlcore run --resume --run-id x" in text
    assert ("was killed by SIGABRT" in text) == (code == 3)
    assert outcome(tmp_path) == ("failed" if code else "environment ended")
    (step,) = checkpoints(tmp_path)
    assert 60 < step < 150 and (tmp_path / "results/x/Reach.onnx").is_file()
    make_player(tmp_path, "Reach.x86_64", world="continuous", agents=3, behavior="Reach")
    text = ended(tmp_path, "--resume", "--run-id", "x", code=0)
    assert f"resumed at step {step}" in text and "done: " in text


@pytest.mark.parametrize(("fault", "code"), [("leave", 0), ("exit", 3)])
def test_a_game_of_godot_that_is_closed_or_fails_loses_nothing(fault: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "walk.yaml"
    path.write_text(GODOT.replace("ARGS", f"--fault={fault}, --at=30"))
    ended(tmp_path, "walk.yaml", code=code)
    assert checkpoints(tmp_path) == [29 * 3]
    assert outcome(tmp_path) == ("failed" if code else "environment ended")
    path.write_text(GODOT.replace("ARGS", "--at=1"))
    assert "done: " in ended(tmp_path, "walk.yaml", "--resume", code=0)


@pytest.mark.parametrize(("fault", "code"), [("ends", 0), ("dies", 3)])
def test_an_environment_in_a_worker_that_ends_or_fails_loses_nothing(
    fault: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    (tmp_path / "ends.yaml").write_text(WORKERS)
    monkeypatch.setenv("FAULT", fault)
    text = ended(tmp_path, "ends.yaml", code=code)
    assert checkpoints(tmp_path) == [59 * 2]
    assert outcome(tmp_path) == ("failed" if code else "environment ended")
    assert ("environment ended (" in text) == (code == 0)
    monkeypatch.setenv("FAULT", "none")
    assert "done: " in ended(tmp_path, "ends.yaml", "--resume", code=0)


def editor_run(where: Path) -> list[str]:
    """The words of a run that waits for the editor at a free port, the last word."""
    (where / "Reach.yaml").write_text(REACH)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return ["Reach.yaml", "--env", "editor", "--base-port", str(free.getsockname()[1])]


def read_until(run: subprocess.Popen[str], wanted: str) -> str:
    assert run.stdout is not None
    text = ""
    while wanted not in text:
        line = run.stdout.readline()
        assert line, text
        text += line
    return text


@pytest.mark.long
def test_play_that_is_stopped_in_the_editor_ends_the_run_with_what_it_learned(tmp_path: Path) -> None:
    words = editor_run(tmp_path)
    player = make_player(tmp_path, world="continuous", agents=3, behavior="Reach", delay=0.02)
    with running(tmp_path, *words, "--set", "behaviors.Reach.max_steps=1e9") as run:
        read_until(run, "press Play in the editor")
        with subprocess.Popen([player, "--mlagents-port", words[-1]], stdout=subprocess.DEVNULL) as game:
            read_until(run, "Step: 200.")
            game.kill()
        text = run.communicate(timeout=60)[0]
    assert (run.returncode, outcome(tmp_path)) == (0, "environment ended"), text
    assert "environment ended (the game in the editor was stopped)" in text
    assert checkpoints(tmp_path) and (tmp_path / "results/x/Reach.onnx").is_file()


HEARD = 8.0  # seconds, of a busy machine; without being heard, Ctrl-C waits for 60


def test_ctrl_c_is_heard_while_the_editor_is_waited_for(tmp_path: Path) -> None:
    with running(tmp_path, *editor_run(tmp_path)) as run:
        read_until(run, "press Play in the editor")
        started = time.monotonic()
        run.send_signal(signal.SIGINT)
        text = run.communicate(timeout=60)[0]
    assert time.monotonic() - started < HEARD
    assert run.returncode == 130 and "interrupted before the first step: SIGINT" in text, text


@pytest.mark.long
@pytest.mark.parametrize("kind", ["unity", "godot"])
def test_ctrl_c_is_heard_while_a_player_hangs_and_loses_nothing(kind: str, tmp_path: Path) -> None:
    if kind == "unity":
        make_player(tmp_path, "Reach.x86_64", world="continuous", agents=3, behavior="Reach", fault="hangs@40")
        (tmp_path / "run.yaml").write_text(REACH)
        words = ["run.yaml", "--env", "./Reach.x86_64"]
    else:
        (tmp_path / "run.yaml").write_text(GODOT.replace("ARGS", "--fault=hang, --at=30"))
        words = ["run.yaml"]
    with running(tmp_path, *words) as run:
        read_until(run, "resume ")
        time.sleep(4.0)  # the player hangs by now
        started = time.monotonic()
        run.send_signal(signal.SIGINT)
        text = run.communicate(timeout=60)[0]
    assert time.monotonic() - started < HEARD
    assert (run.returncode, outcome(tmp_path)) == (130, "interrupted"), text
    (step,) = checkpoints(tmp_path)
    assert step > 60 and "interrupted: " in text
    assert not [each for each in psutil.process_iter(["environ"]) if str(tmp_path) in str(each.info["environ"] or "")
                and each.pid != os.getpid()]  # fmt: skip


def test_a_player_has_time_to_close_its_files(tmp_path: Path) -> None:
    """More than the two seconds that one has which does not answer, and than the five of other environments."""
    (tmp_path / "Reach.yaml").write_text(REACH.replace("400", "60"))
    make_player(tmp_path, "Reach.x86_64", world="continuous", agents=3, behavior="Reach", fault="lingers")
    text = ended(tmp_path, "Reach.yaml", "--env", "./Reach.x86_64", code=0)
    assert "takes more than" not in text
    assert "closed its files" in (tmp_path / "results/x/run_logs/Player-0.log").read_text()
