"""Checkpoints do not change a run whose environment saves its state, wherever they are and wherever it is stopped."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import small_run

from rlcore import Run, load_checkpoint, save_checkpoint

STEPS = 600


def train(place: Path, run_id: str, env_id: str, stop_at: int | None = None, resume: bool = False, **more: Any) -> Path:
    changes: dict[str, Any] = {
        "environment.id": env_id,
        "environment.num_envs": 2,
        "environment.options": {"max_episode_steps": 70},
    }
    block = {"max_steps": STEPS, "summary_freq": 200, "keep_checkpoints": 0, **more}
    changes |= {f"behaviors.Agent.{key}": value for key, value in block.items()}
    changes["behaviors.Agent.hyperparameters"] = {"batch_size": 32, "buffer_size": 96}
    document = small_run(place, changes, run_id=run_id, resume=resume)
    with Run(document) as run:
        run.start()
        trainer: Any = run.behaviors["Agent"].trainer
        observe = trainer.observe

        def observe_and_stop(actions: Any, batch: Any) -> None:
            observe(actions, batch)
            if stop_at is not None and trainer.steps >= stop_at:
                run.request_stop()

        trainer.observe = observe_and_stop
        run.train()
        assert (run.outcome == "interrupted") == (stop_at is not None)
        assert str(run.describe().resume) == "exact"
    return place / run_id


def last_checkpoint(run: Path) -> dict[str, Any]:
    """Every array and number of the checkpoint at the end, except for the time that it took and the settings."""
    place = run / "checkpoints" / str(STEPS)
    content: dict[str, Any] = {
        file.name: file.read_bytes() for file in place.iterdir() if file.suffix == ".safetensors"
    }
    state = json.loads((place / "state.json").read_text())
    for name in ("wall_seconds", "fingerprint"):
        del state["run"][name]
    return content | {"state.json": state}


@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "Pendulum-v1",
        "Hopper-v5",
        *(
            pytest.param(f"{name}-v5", marks=pytest.mark.deep)
            for name in ("Ant", "HalfCheetah", "Humanoid", "Walker2d")
        ),
    ],
)
def test_a_run_with_checkpoints_equals_one_without_and_a_stopped_one_equals_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env_id: str
) -> None:
    if env_id.endswith("-v5") and importlib.util.find_spec("mujoco") is None:
        pytest.skip("MuJoCo is not installed")
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log file into the working directory
    seldom = last_checkpoint(train(tmp_path, "seldom", env_id, checkpoint_interval=STEPS))
    assert last_checkpoint(train(tmp_path, "often", env_id, checkpoint_interval=26)) == seldom
    for step in (142, 334):
        stopped = train(tmp_path, "stopped", env_id, stop_at=step, resume=step > 142, checkpoint_interval=STEPS)
    assert sorted(int(each.name) for each in (stopped / "checkpoints").iterdir()) == [142, 334]
    train(tmp_path, "stopped", env_id, resume=True, checkpoint_interval=STEPS)
    assert last_checkpoint(stopped) == seldom


def test_a_checkpoint_without_the_state_of_the_environment_is_resumed_with_new_episodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an rlcore before this environment could be saved wrote it: all episodes began at the checkpoint."""
    stopped = train(tmp_path, "older", "Pendulum-v1", stop_at=142, checkpoint_interval=STEPS)
    path = stopped / "checkpoints" / "142"
    state = load_checkpoint(path)
    episodes = state["run"]["episodes"].copy()
    state["run"] |= {"environment": None, "episodes": episodes + 1}
    save_checkpoint(path.parent, 142, state, (path / "configuration.yaml").read_text())
    settings = {"run_id": "older", "results_dir": str(tmp_path), "resume": True}
    with Run({**json_of(stopped), "checkpoint_settings": settings}) as run:
        run.start()
        assert run.environment is not None and run.environment.episodes.tolist() == (episodes + 1).tolist()
        difference = "an environment that saves its state, instead of one that begins new episodes"
        assert str(run.describe().resume) == f"statistical, because this process has {difference}"
        run.train()
        assert run.outcome == "done"
    assert [text for text in caplog.messages if "resumes with" in text] == [
        f"{stopped}: resumes with {difference}; this resume is statistical instead of exact"
    ]


def json_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((run / "configuration.yaml").read_text())
    return content
