"""A run declares in its mark what it makes, before it makes it: a killed run that starts again refuses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.faults

HERE = Path(__file__).parent
CONFIG: dict[str, Any] = {
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
    "env_settings": {"seed": 3},
    "behaviors": {
        "CartPole": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 64, "buffer_size": 128, "num_epoch": 1},
            "network_settings": {"hidden_units": 8, "num_layers": 1},
            "max_steps": 1_000_000,
            "summary_freq": 128,
            "checkpoint_interval": 1_000_000,
        }
    },
    "stats": {"tensorboard": {}},
    "checkpoint_settings": {"run_id": "run"},
}


def write(place: Path, changes: dict[str, Any] | None = None, **behavior: Any) -> list[str]:
    """Write ``run.yaml``; return the words of the command."""
    config = {**CONFIG, **(changes or {})}
    config["behaviors"] = {"CartPole": CONFIG["behaviors"]["CartPole"] | behavior}
    (place / "run.yaml").write_text(yaml.safe_dump(config))
    return [sys.executable, "-m", "rlcore", "run", "run.yaml"]


def wait_for(path: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < deadline, f"there is no {path.name}"
        time.sleep(0.002)


@pytest.mark.parametrize("flags", [(), ("--resume",)])
def test_a_run_killed_after_its_first_summary_starts_again_beside_its_tensorboard_folder(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    words = write(tmp_path)
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_for(tmp_path / "results" / "run" / "metrics.jsonl")
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert list((tmp_path / "results" / "run" / "CartPole").iterdir())
    words = write(tmp_path, max_steps=128)
    done = subprocess.run([*words, *flags], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    if flags:  # there is nothing to resume, and the message says how it starts
        assert done.returncode == 5 and "start it again without --resume" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / "results" / "run" / "result.json").read_text())["outcome"] == "done"


def test_every_file_of_every_writer_is_declared_before_it_is_made(tmp_path: Path) -> None:
    """TensorBoard, the console's file, a tracker, ONNX at each checkpoint, evaluations, a resume, a damaged line."""
    stats = {"tensorboard": {}, "wandb": {"mode": "offline"}}
    evaluation = {"interval": 256, "episodes": 1}
    changes = {"stats": stats, "export": {"onnx": {"checkpoints": True}}, "evaluation": evaluation}
    write(tmp_path, changes, max_steps=512, checkpoint_interval=256)
    run = tmp_path / "results" / "run"
    child = [sys.executable, str(HERE / "declaring_child.py"), str(run), "run", "run.yaml"]
    for flags in ((), ("--resume", "--set", "behaviors.CartPole.max_steps=768")):
        done = subprocess.run([*child, *flags], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "undeclared: []"
        with (run / "metrics.jsonl").open("a") as file:
            file.write("damaged\n\n")
    assert (run / "metrics.jsonl.damaged").exists() and list((run / "CartPole").glob("*.onnx"))
