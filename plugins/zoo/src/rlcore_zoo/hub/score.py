"""The score of a run for its card: episodes that are played for it, with an interval, and a film of one of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from rlcore import ConfigError, EvaluationResult, SavedRun

LEVEL = 0.95
RESAMPLES = 9_999
FILMS = (".mp4",)


@attrs.frozen
class Score:
    """Episodes that one checkpoint of a run played.

    Attributes:
        checkpoint: ``last``, ``best`` or a step, as ``rlcore evaluate`` takes it.
        step: Agent steps of the run at the checkpoint.
        seed: The seed of the episodes.
        result: What was played.
    """

    checkpoint: str
    step: int
    seed: int
    result: EvaluationResult


def measure(saved: SavedRun, checkpoint: str, episodes: int, seed: int | None) -> Score:
    """Play ``episodes`` with the most likely actions.

    Without ``seed``, the episodes have the seed after that of the run: the evaluations of the training, by which the
    best checkpoint was chosen, played others.
    """
    chosen = saved.context.seed + 1 if seed is None else seed
    return Score(checkpoint, saved.step, chosen, saved.evaluate(episodes, chosen))


def interval(returns: Sequence[float]) -> tuple[float, float] | None:
    """The 95% interval of the mean return: a percentile bootstrap over episodes, the same one at each call.

    None for a single episode (Efron and Tibshirani 1993, chapter 13).
    """
    from scipy.stats import bootstrap

    if len(returns) < 2:
        return None
    ends = bootstrap(
        (np.asarray(returns, np.float64),),
        np.mean,
        confidence_level=LEVEL,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(ends.low), float(ends.high)


def film(saved: SavedRun, seed: int) -> bytes:
    """The film of one episode, an MP4. Raises ConfigError if the environment wrote none."""
    with tempfile.TemporaryDirectory() as place:
        saved.evaluate(1, seed, video=Path(place))
        return filmed(Path(place), "--film")


def filmed(place: Path, option: str) -> bytes:
    """The content of a film, or of the first one in a directory. Raises ConfigError if there is none."""
    found = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    films = [path for path in found if path.suffix.lower() in FILMS]
    if not films:
        raise ConfigError(f"{option}: there is no film in {place} ({', '.join(FILMS)})")
    return films[0].read_bytes()
