"""Records video of episodes with Gymnasium's RecordVideo."""

from __future__ import annotations

import re
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.wrappers import RecordVideo

from rlcore import EnvironmentFailed, RlcoreError, RunStateError, one_line, pip_install
from rlcore_gymnasium.saved_wrappers import Env

RENDER_MODE = "rgb_array"
_NO_DISPLAY = (
    "; without a display, set the environment variable MUJOCO_GL=egl for MuJoCo, SDL_VIDEODRIVER=dummy for pygame, "
    "PYGLET_HEADLESS=true for pyglet"
)


class FilmedEpisodes(RecordVideo):
    """Records one mp4 file per whole episode: ``Hopper-v5-env-0-episode-3.mp4``.

    Raises EnvironmentFailed with the solution if the environment cannot be rendered or a package is missing.
    """

    def __init__(self, env: Env, directory: Path, env_id: str, index: int) -> None:
        if RENDER_MODE not in env.metadata.get("render_modes", ()):
            raise EnvironmentFailed(f"{env_id}: has no render mode {RENDER_MODE!r}, and cannot record video")
        self._env_id = env_id
        prefix = f"{re.sub(r'[^A-Za-z0-9.-]+', '-', env_id)}-env-{index}"
        with warnings.catch_warnings():  # about an existing directory; it contains no file with such a name
            warnings.simplefilter("ignore")
            super().__init__(env, str(directory), episode_trigger=lambda episode: True, name_prefix=prefix)

    def close(self) -> None:
        """Discard the open film: the episode after the last one starts automatically, and is not played."""
        self.recording = False
        self.recorded_frames = []
        super().close()  # type: ignore[no-untyped-call]

    def stop_recording(self) -> None:
        """Write the film. Raises RunStateError if that is not possible."""
        film = Path(self.video_folder, f"{self._video_name}.mp4") if self.recorded_frames else None
        try:
            super().stop_recording()  # type: ignore[no-untyped-call]
            # The index is written last. moviepy does not say that ffmpeg could not write it.
            if film is not None and b"moov" not in film.read_bytes():
                raise OSError("its end is missing; the disk may be full")
        except OSError as error:
            raise RunStateError(f"{film}: the film cannot be written: {one_line(error)}") from error

    def _capture_frame(self) -> None:
        try:
            with warnings.catch_warnings():  # about the error that is raised below
                warnings.simplefilter("ignore")
                super()._capture_frame()  # type: ignore[no-untyped-call]
        except gymnasium.error.DependencyNotInstalled as error:
            advice = f"run: {pip_install('rlcore-gymnasium[video]')}"
            raise EnvironmentFailed(f"{self._env_id}: cannot record video: {one_line(error)}; {advice}") from error
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            raise EnvironmentFailed(f"{self._env_id}: cannot be rendered: {one_line(error)}{_NO_DISPLAY}") from error
        if not self.recording:
            raise EnvironmentFailed(f"{self._env_id}: render() returns no image to record")


def behind_camera(env: Env) -> Env:
    """Return the environment without its video recorder, if it has one."""
    return env.env if isinstance(env, FilmedEpisodes) else env


def filming(env_id: str, directory: Path) -> dict[str, Any]:
    """Return the arguments with which ``gymnasium.make_vec`` records video of every environment."""
    env_index = count()
    return {
        "render_mode": RENDER_MODE,
        "wrappers": [lambda env: FilmedEpisodes(env, directory, env_id, next(env_index))],
    }
