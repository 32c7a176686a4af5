"""Films of episodes, by Gymnasium's own RecordVideo."""

from __future__ import annotations

import re
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.wrappers import RecordVideo

from rlcore.errors import EnvironmentFailed, RlcoreError, one_line

RENDER_MODE = "rgb_array"
_EXTRA = "run: pip install 'rlcore-gymnasium[video]'"
_NO_DISPLAY = (
    "; without a display, set the environment variable MUJOCO_GL=egl (or osmesa) for MuJoCo, SDL_VIDEODRIVER=dummy for "
    "pygame"
)


class FilmedEpisodes(RecordVideo):
    """One mp4 file for each whole episode: ``Hopper-v5-env-0-episode-3.mp4``.

    Raises EnvironmentFailed where the environment cannot be rendered or a package is missing, saying what to do.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], directory: Path, env_id: str, index: int) -> None:
        if RENDER_MODE not in env.metadata.get("render_modes", ()):
            raise EnvironmentFailed(f"{env_id}: has no render mode {RENDER_MODE!r}, so it cannot be filmed")
        self._env_id = env_id
        prefix = f"{re.sub(r'[^A-Za-z0-9.-]+', '-', env_id)}-env-{index}"
        with warnings.catch_warnings():  # of a directory that exists; nothing in it has such a name
            warnings.simplefilter("ignore")
            super().__init__(env, str(directory), episode_trigger=lambda episode: True, name_prefix=prefix)

    def close(self) -> None:
        """Throws away what is open: the episode that follows the last one begins by itself, and nobody plays it."""
        self.recording = False
        self.recorded_frames = []
        super().close()  # type: ignore[no-untyped-call]

    def _capture_frame(self) -> None:
        try:
            with warnings.catch_warnings():  # of what is raised below
                warnings.simplefilter("ignore")
                super()._capture_frame()  # type: ignore[no-untyped-call]
        except gymnasium.error.DependencyNotInstalled as error:
            raise EnvironmentFailed(f"{self._env_id}: cannot be filmed: {one_line(error)}; {_EXTRA}") from error
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            raise EnvironmentFailed(f"{self._env_id}: cannot be rendered: {one_line(error)}{_NO_DISPLAY}") from error
        if not self.recording:
            raise EnvironmentFailed(f"{self._env_id}: render() returns no picture, so it cannot be filmed")


def behind_camera(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The copy itself, whether or not it is filmed."""
    return env.env if isinstance(env, FilmedEpisodes) else env


def filming(env_id: str, directory: Path) -> dict[str, Any]:
    """What ``gymnasium.make_vec`` takes to have every copy filmed."""
    env_index = count()
    return {
        "render_mode": RENDER_MODE,
        "wrappers": [lambda env: FilmedEpisodes(env, directory, env_id, next(env_index))],
    }
