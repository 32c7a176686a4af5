"""Films of agents: one episode as MP4, and a short loop as GIF for the README and the first page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOOP_BEGIN = 0.1  # share of the episode that the loop leaves out, in which an agent only begins to move
LOOP_SECONDS = 8.0
LOOP_RATE = 20.0  # pictures a second
LOOP_WIDTH = 480
LOOP_COLORS = 32

# Gymnasium's camera stays where these agents begin, and they leave its picture.
FOLLOWED = ("Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Swimmer-v5", "Walker2d-v5")


def film(run: str, title: str, checkpoint: str, place: Path, deterministic: bool = True) -> tuple[float | None, str]:
    """Film one episode of ``run``, a directory or ``zoo:NAME``, to ``place``; return its return, or why there is none.

    The episode is played in a process of its own, because a graphics library may end the process in which it fails.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rlcore", "evaluate", run, "--episodes", "1", "--json"]
        command += ["--checkpoint", checkpoint, "--video", folder]
        if not deterministic:
            command.append("--stochastic")
        if title in FOLLOWED:
            command += ["--set", "environment.options.camera_name=track"]
        done = subprocess.run(command, env=without_display(), capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            problems = [line for line in lines if line.startswith("error: ")] or lines[-1:]
            return None, problems[-1].removeprefix("error: ") if problems else f"exit code {done.returncode}"
        found = sorted(Path(folder).rglob("*.mp4"))
        if not found:
            return None, "the environment wrote no film"
        shutil.copyfile(found[0], place)
    write_poster(place, place.with_suffix(".jpg"))
    (first, *_) = json.loads(done.stdout)["behaviors"].values()
    return float(first["mean_reward"]), ""


def without_display() -> dict[str, str]:
    """Return this process's variables, with those that let MuJoCo and pygame draw where there is no display."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform != "linux":
        return dict(os.environ)
    return {"MUJOCO_GL": "egl", "SDL_VIDEODRIVER": "dummy", **os.environ}


def write_poster(source: Path, target: Path) -> None:
    """Write the picture in the middle of an MP4 file, which a page shows until the film is there."""
    import imageio.v3 as iio

    pictures = list(iio.imiter(source, plugin="FFMPEG"))
    iio.imwrite(target, pictures[len(pictures) // 2])


def write_loop(source: Path, target: Path) -> None:
    """Write a few seconds of an MP4 file as a GIF file in the film's own speed."""
    import imageio.v3 as iio
    import numpy as np
    from PIL import Image

    rate = float(iio.immeta(source, plugin="FFMPEG")["fps"])
    pictures = list(iio.imiter(source, plugin="FFMPEG"))
    pictures = pictures[int(LOOP_BEGIN * len(pictures)) :]
    step = max(1, round(rate / LOOP_RATE))
    chosen = [Image.fromarray(picture) for picture in pictures[::step][: int(LOOP_SECONDS * rate / step)]]
    height = round(LOOP_WIDTH * chosen[0].height / chosen[0].width)
    smaller = [picture.resize((LOOP_WIDTH, height), Image.Resampling.LANCZOS) for picture in chosen]
    # One palette and no dithering: what does not move is equal in all pictures, and costs nothing.
    some = [np.asarray(smaller[index]) for index in (0, len(smaller) // 2, -1)]
    palette = Image.fromarray(np.concatenate(some)).quantize(LOOP_COLORS)
    first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in smaller)
    first.save(target, save_all=True, append_images=others, duration=round(1000 * step / rate), loop=0)
