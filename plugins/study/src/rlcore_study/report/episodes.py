"""A film of one episode, played by the policies of a run and embedded in the page."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from pathlib import Path

import attrs

from rlcore import RlcoreError, SavedRun
from rlcore_study.runs import ReportedTraining

MAX_FILM = 20_000_000  # bytes of a film that is embedded
TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif", ".png": "image/png"}


@attrs.frozen
class Film:
    """One episode of a run, or the reason why there is none.

    Attributes:
        run: The name of the run.
        about: The checkpoint and the return in a sentence.
        source: The film as a ``data:`` URL; empty if there is none.
        kind: The media type, such as ``video/mp4``.
        problem: The reason why there is no film; empty if there is one.
    """

    run: str
    about: str = ""
    source: str = ""
    kind: str = ""
    problem: str = ""


def film(run: ReportedTraining, allow_local: bool, opened: Callable[..., SavedRun] = SavedRun.open) -> Film:
    """Play one episode with the best policies of ``run``, or else the newest, and film it.

    Code that only the configuration names is imported with ``allow_local`` alone. A failure is not raised: the film
    has the reason.
    """
    checkpoint = "best" if run.scores else "last"
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            saved = opened(run.data.directory, checkpoint, allow_local)
            evaluation = saved.evaluate(1, video=directory)
            means = [f"{behavior} {result.mean_reward:.2f}" for behavior, result in evaluation.behaviors.items()]
            best = "best " if run.scores else ""
            about = f"{best}checkpoint {saved.step}, return: {', '.join(means)}"
            return _embedded(run.name, about, directory)
    except (RlcoreError, OSError) as error:
        return Film(run.name, problem=" ".join(str(error).split()))


def _embedded(run: str, about: str, directory: Path) -> Film:
    films = sorted(path for path in directory.rglob("*") if path.suffix in TYPES and path.is_file())
    if not films:
        return Film(run, problem="the environment wrote no film")
    content = films[0].read_bytes()
    if len(content) > MAX_FILM:
        return Film(run, problem=f"the film has {len(content):,} bytes, more than {MAX_FILM:,}")
    kind = TYPES[films[0].suffix]
    encoded = base64.b64encode(content).decode("ascii")
    return Film(run, about, f"data:{kind};base64,{encoded}", kind)
