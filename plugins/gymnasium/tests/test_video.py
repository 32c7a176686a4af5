"""Video of episodes: one complete file per episode, equal episodes with and without video, and clear errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gym_play import Scripted, register
from one_behavior import act, begin

from rlcore import EnvironmentFailed, Run, RunStateError
from rlcore_devkit.fixtures import run_rlcore

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="films need the extra 'video'")

__all__ = ["run_rlcore"]

Make = Callable[..., Any]


@pytest.mark.parametrize("fault", ["raises", "cuts"])
def test_a_film_that_the_disk_has_no_room_for_is_an_error(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """moviepy raises, or leaves a file without its end and says nothing."""

    def write(clip: Any, path: str, **options: Any) -> None:
        Path(path).write_bytes(b"ftypisom")
        if fault == "raises":
            raise OSError("Broken pipe")

    monkeypatch.setattr("moviepy.video.io.ImageSequenceClip.ImageSequenceClip.write_videofile", write)
    environment = make("CartPole-v1", 1, video=tmp_path / "films")
    begin(environment)
    with pytest.raises(RunStateError, match=r"episode-0.mp4: the film cannot be written: OSError: (Broken|its end)"):
        act(environment, steps=25)
    environment.close()


class Blind(Scripted):
    """Raises, or returns nothing, when it is rendered."""

    def __init__(self, render_mode: str | None = None, fault: Exception | None = None) -> None:
        self.render_mode, self.fault = render_mode, fault

    def observe(self) -> Any:
        return np.zeros(2, np.float32)

    def render(self) -> Any:
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def blind() -> str:
    return register("rlcore-tests/Blind-v0", Blind, order_enforce=False)


def test_an_environment_without_pictures_is_refused(
    make: Make, blind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Blind, "metadata", {"render_modes": ["ansi"]})
    with pytest.raises(EnvironmentFailed, match=r"Blind-v0: has no render mode 'rgb_array', and cannot record video$"):
        make(blind, 1, video=tmp_path)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            RuntimeError("an OpenGL platform library has not been loaded\ninto this process"),
            "cannot be rendered: RuntimeError: an OpenGL platform library has not been loaded into this process; "
            "without a display, set the environment variable MUJOCO_GL=egl for MuJoCo",
        ),
        (
            gymnasium.error.DependencyNotInstalled("pygame is not installed"),
            "cannot record video: DependencyNotInstalled: pygame is not installed; run: pip install 'rlcore-gymnasium[",
        ),
        (None, "render() returns no image to record"),
    ],
)
def test_a_rendering_error_is_one_line_with_the_fix(
    make: Make, blind: str, tmp_path: Path, fault: Exception | None, told: str
) -> None:
    environment = make(blind, 1, video=tmp_path, fault=fault)
    with pytest.raises(EnvironmentFailed) as failed:
        begin(environment)
    assert str(failed.value).startswith(f"{blind}: {told}") and "\n" not in str(failed.value)
    environment.close()


def config(tmp_path: Path) -> dict[str, Any]:
    return {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
        "env_settings": {"seed": 1},
        "behaviors": {"Agent": {"trainer_type": "ppo", "max_steps": 200, "summary_freq": 200,
                                "hyperparameters": {"buffer_size": 128, "batch_size": 64},
                                "network_settings": {"hidden_units": 8, "num_layers": 1}}},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)},
        "stats": {"console": False, "tensorboard": False},
    }  # fmt: skip


def test_rlcore_evaluate_films_as_many_episodes_as_it_plays(tmp_path: Path, run_rlcore: Callable[..., Any]) -> None:
    Run(config(tmp_path)).train()
    done = run_rlcore("evaluate", tmp_path / "run", "--episodes", "3", "--video", tmp_path / "films")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.endswith(f"films of the episodes are in {tmp_path / 'films'}\n")
    assert len(list((tmp_path / "films").glob("*.mp4"))) == 3
    again = run_rlcore("evaluate", tmp_path / "run", "--video", tmp_path / "films")
    assert again.exit_code == 2 and "is not empty; name an empty or new directory" in again.stderr
