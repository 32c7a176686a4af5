"""The command that plays a game: the engine or the exported file, and the physics rate that it runs with.

A game is asked to run with ``--fixed-fps``: a frame then stands for a fixed time, and does not wait for the clock. Each
frame has one physics tick if the number equals the physics ticks in a second, which a project sets and ``--speedup``
multiplies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs

from rlcore import ConfigError, did_you_mean
from rlcore_godot.settings import GodotSettings

TICKS = 60  # physics ticks in a second of a project that does not say
PROJECT = "project.godot"
VERSION_SECONDS = 20.0
# Names of the engine by the number of the version that `config_version` of a project stands for.
ENGINES = {4: ("godot4", "godot", "godot-mono"), 3: ("godot3-server", "godot3", "godot-server", "godot")}
_CONFIG_VERSION = re.compile(r"^config_version=(\d+)", re.MULTILINE)
_TICKS = re.compile(r"^common/(?:physics_ticks_per_second|physics_fps)=(\d+)", re.MULTILINE)


@attrs.frozen
class Launch:
    """Settings that the games of an environment share.

    Attributes:
        command: The command without port and seed; None for a game in the editor.
        game: What messages call the game.
        folder: The directory that games start in.
        log: The file for what each game writes, by its number.
        port: The port of each game, by its number; 0 for a free one.
        ticks: Physics ticks in a second as the engine counts them, speedup included.
        largest: Bytes that a message may have.
        start_seconds: How long the start may take; None for no limit.
        step_seconds: How long a decision may take; None for no limit.
        end_seconds: How long a game may take to end when it was asked to.
        stop_requested: Returns whether the run is to stop, so that a game is waited for no longer.
    """

    command: tuple[str, ...] | None
    game: str
    folder: Path
    log: Callable[[int], Path]
    port: Callable[[int], int]
    ticks: int
    largest: int
    start_seconds: float | None
    step_seconds: float | None
    end_seconds: float = 60.0
    stop_requested: Callable[[], bool] = bool


def command_of(settings: GodotSettings, base: Path) -> tuple[tuple[str, ...] | None, int]:
    """Return the command of a game without port and seed, and its physics rate; no command for the editor.

    ``base`` is what relative paths are relative to. Raises ConfigError for a game that is not there or cannot be
    started, and for a ``physics_ticks`` that is not that of the project.
    """
    ticks = settings.physics_ticks or TICKS
    if settings.project is not None:
        folder, text = _project(base / Path(settings.project).expanduser())
        line = _TICKS.search(text)
        ticks_of_project = int(line[1]) if line else TICKS
        if settings.physics_ticks not in (None, ticks_of_project):
            raise ConfigError(
                f"is {ticks}, and {folder / PROJECT} has {ticks_of_project}; leave it out, or change the project's "
                "physics ticks",
                key=("environment", "physics_ticks"),
            )
        ticks = ticks_of_project
        program = [_engine(settings, base, folder, text), "--path", str(folder)]
    elif settings.executable is not None:
        program = [str(_executable(base / Path(settings.executable).expanduser()))]
    else:
        return None, ticks
    ticks *= settings.speedup
    program += ["--fixed-fps", str(ticks)]
    if not settings.show_window:
        program += ["--disable-render-loop", "--headless"]
    program.append(f"--speedup={settings.speedup}")
    if settings.action_repeat is not None:
        program.append(f"--action_repeat={settings.action_repeat}")
    return (*program, *settings.args), ticks


def _executable(path: Path) -> Path:
    key = ("environment", "executable")
    if path.is_dir():
        hint = f"; it has a {PROJECT}: write it as project" if (path / PROJECT).is_file() else ""
        raise ConfigError(f"{path} is a folder, not an exported game{hint}", key=key)
    if path.suffix == ".pck" and path.is_file():
        raise ConfigError(
            f"{path} is a pack, which an engine plays; write executable: ENGINE and args: [--main-pack, {path.name}]",
            key=key,
        )
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file{_near(path)}", key=key)
    if not os.access(path, os.X_OK):
        raise ConfigError(f"{path} may not be executed; chmod +x {path}", key=key)
    return path.resolve()


def _project(path: Path) -> tuple[Path, str]:
    """Return the folder of a project and the text of its ``project.godot``."""
    key = ("environment", "project")
    folder = path.parent if path.name == PROJECT else path
    try:
        return folder.resolve(), (folder / PROJECT).read_text("utf-8", "replace")
    except OSError as error:
        if folder.is_dir():
            raise ConfigError(f"{folder} has no {PROJECT}; give the folder of a project of Godot", key=key) from error
        raise ConfigError(f"{folder}: there is no such folder{_near(folder)}", key=key) from error


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}"
    names = [neighbor.name for neighbor in path.parent.iterdir()]
    return did_you_mean(path.name, names)


def _engine(settings: GodotSettings, base: Path, folder: Path, text: str) -> str:
    """Return the program that plays a project, of the version that the project is for."""
    key = ("environment", "engine")
    line = _CONFIG_VERSION.search(text)
    wanted = 3 if line and int(line[1]) <= 4 else 4  # Godot 3 writes 4, and Godot 4 writes 5
    if settings.engine is None:
        names = ENGINES[wanted]
        engine = next(filter(None, map(shutil.which, names)), None)
        if engine is None:
            raise ConfigError(
                f"missing: {folder} is a project of Godot {wanted}, and none of {', '.join(names)} is on the PATH; "
                "give the path of the engine",
                key=key,
            )
    else:
        is_path = os.sep in settings.engine or settings.engine.startswith("~")
        engine = shutil.which(base / Path(settings.engine).expanduser() if is_path else settings.engine)
        if engine is None:
            raise ConfigError(f"{settings.engine}: there is no such program, or it may not be executed", key=key)
    version = _version(engine)
    if version and int(version[0]) != wanted:
        raise ConfigError(f"{engine} is Godot {version}, and {folder} is a project of Godot {wanted}", key=key)
    return engine


def _version(engine: str) -> str | None:
    """Return the version that an engine says it has; None if it says nothing of the kind."""
    try:
        output = subprocess.run(
            [engine, "--version"],
            capture_output=True,
            timeout=VERSION_SECONDS,
            text=True,
            errors="replace",
            check=False,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    # The last line, because some engines print warnings before it.
    *_, last = output.splitlines() or [""]
    return last[:60] if re.match(r"\d+\.\d+", last) else None
