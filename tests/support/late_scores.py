"""The score of a training: a median of late evaluations, because one alone may meet a bad moment of a good policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from rlcore import EvaluationResult, Run

PARTS = 50  # summaries of a training, at which it can be evaluated
LATE = 0.9  # of the training; five summaries are later
ENOUGH_AT = 5  # times that a training is evaluated, if it may end as soon as its score is enough

Score = Callable[[EvaluationResult], float]


def with_late_summaries(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with a summary after every fiftieth of its ``max_steps``."""
    changed = dict(config)
    blocks = dict(config.get("behaviors", {}))
    if blocks:
        changed["behaviors"] = {name: _often(block) for name, block in blocks.items()}
    if "default_settings" in config:
        changed["default_settings"] = _often(config["default_settings"])
    return changed


def _often(block: Mapping[str, Any]) -> dict[str, Any]:
    steps = block.get("max_steps")
    return dict(block) if steps is None else {**block, "summary_freq": max(1, steps // PARTS)}


def late_score(
    run: Run, episodes: int, score: Score = lambda result: result.score, enough: float = math.inf, **how: Any
) -> float:
    """Train ``run``, made of :func:`with_late_summaries`, and return the median score of its late policies.

    All of them play the same episodes. With ``enough``, the training ends at the first fifth of it that has such a
    score, which is returned. ``how`` are further arguments of :meth:`rlcore.Run.evaluate`.
    """
    late = []
    fifths = 0
    for epoch in run:
        progress = min(each.steps / run.config.behaviors[name].max_steps for name, each in epoch.behaviors.items())
        passed = int(progress * ENOUGH_AT)
        if progress <= LATE and (passed == fifths or enough == math.inf):
            continue
        reached = score(run.evaluate(episodes, **how))
        if passed > fifths and reached >= enough:
            return reached
        fifths = passed
        if progress > LATE:
            late.append(reached)
    print("late scores", [round(each, 3) for each in late])
    assert len(late) > 2, "the run has too few summaries"
    return median(late)
