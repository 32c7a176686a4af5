"""The curve of a run as an image for its card: returns over agent steps."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from rlcore import SavedSummary, Tag

LABELS = {Tag.CUMULATIVE_REWARD: "training episodes", Tag.EVALUATION_REWARD: "evaluations"}


def points(summaries: Sequence[SavedSummary]) -> dict[str, list[tuple[int, float]]]:
    """The finite points (agent steps, mean return) of each line, by its label, in the order of steps.

    Of two summaries of one step, the later one counts. A line without a point is missing.
    """
    several = len({summary.behavior for summary in summaries}) > 1
    lines: dict[str, dict[int, float]] = {}
    for summary in summaries:
        for tag, label in LABELS.items():
            value = summary.stats.get(tag)
            if value is None or not math.isfinite(value):
                continue
            if several:
                label = f"{summary.behavior}: {label}"
            by_step = lines.setdefault(label, {})
            by_step[summary.step] = value
    return {label: sorted(by_step.items()) for label, by_step in lines.items()}


def curve(summaries: Sequence[SavedSummary], title: str) -> bytes | None:
    """A PNG of the returns of a run; None if no summary has a return."""
    lines = points(summaries)
    if not lines:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    for label, line in lines.items():
        steps, values = zip(*line, strict=True)
        marker = "o" if "evaluations" in label else None  # there are few of them
        axes.plot(steps, values, label=label, marker=marker, markersize=3)
    axes.set(title=title, xlabel="agent steps", ylabel="mean return")
    axes.grid(alpha=0.3)
    axes.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", metadata={"Software": "rlcore-zoo"})
    return image.getvalue()
