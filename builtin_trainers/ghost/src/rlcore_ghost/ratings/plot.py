"""A picture of standings: the rating curve, and the pay-off matrix as a heat map; needs matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from rlcore import ConfigError, cells, pip_install, write_atomically
from rlcore_ghost.ratings.standings import Standings

__all__ = ["save_plot"]


def save_plot(standings: Standings, path: Path, title: str) -> None:
    """Write the picture to ``path``, whose suffix is the format (``.png``, ``.svg``, ``.pdf``).

    Raises ConfigError if matplotlib is missing, or if the format is unknown or the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(f"--plot needs matplotlib: {pip_install('rlcore-ghost[league]')}") from error
    # A figure with a canvas of its own: pyplot has global state and may open a window.
    figure = Figure(figsize=(13.0, 6.0), layout="constrained")
    formats = FigureCanvasAgg(figure).get_supported_filetypes()
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in formats:
        raise ConfigError(f"--plot {path}: unknown format {suffix!r}; use .png, .svg or .pdf")
    figure.suptitle(_plain(title))
    curve, matrix = figure.subplots(1, 2, width_ratios=(5, 6))
    _draw_curve(curve, standings)
    _draw_matrix(figure, matrix, standings)
    picture = io.BytesIO()
    figure.savefig(picture, format=suffix, dpi=120)
    try:
        write_atomically(path, picture.getvalue())
    except OSError as error:
        raise ConfigError(f"--plot {path}: cannot be written: {error.strerror or error}") from error


def _draw_curve(axes: Any, standings: Standings) -> None:
    for learner in dict.fromkeys(point.learner for point in standings.curve):
        points = [point for point in standings.curve if point.learner == learner]
        for label, attribute, style in (("Bradley-Terry", "bradley_terry", "o-"), ("Elo", "elo", ".:")):
            rated = [point for point in points if getattr(point, attribute) is not None]
            if rated:
                steps = [point.step for point in rated]
                ratings = [getattr(point, attribute) for point in rated]
                axes.plot(steps, ratings, style, markersize=3, label=_plain(f"{learner}, {label}"))
    axes.set(xlabel="step of the snapshot", ylabel="rating", title="Rating of the learner")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()


def _draw_matrix(figure: Any, axes: Any, standings: Standings) -> None:
    pay_off = standings.pay_off
    size = len(pay_off.names)
    axes.set(title="Share of games that the row won")
    if not size:
        axes.set_axis_off()
        return
    shares = np.ma.masked_invalid(pay_off.shares)
    image = axes.imshow(shares, vmin=0.0, vmax=1.0, cmap="RdBu")
    axes.set_facecolor("lightgray")  # pairs that never met
    labels = [_plain(name) for name in pay_off.names]
    axes.set_xticks(range(size), labels, rotation=90, fontsize=6)
    axes.set_yticks(range(size), labels, fontsize=6)
    figure.colorbar(image, ax=axes, shrink=0.8)


def _plain(text: str) -> str:
    (printable,) = cells(text)
    return printable.replace("$", r"\$")  # matplotlib reads formulas between dollar signs
