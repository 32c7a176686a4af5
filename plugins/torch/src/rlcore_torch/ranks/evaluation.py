"""An evaluation that rank 0 plays while the others wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import attrs

from rlcore import BehaviorEvaluation, EvaluationResult, OpponentEvaluation, Ranks

__all__ = ["lead_evaluation"]

BEAT_SECONDS = 1.0  # between two signs of life of rank 0 while it plays, with which the ranks agree whether to stop


def lead_evaluation(
    ranks: Ranks, play: Callable[[Callable[[], bool]], EvaluationResult | None], stop_requested: Callable[[], bool]
) -> EvaluationResult | None:
    """Return what ``play`` returns in rank 0, which gives signs of life meanwhile: it may take long."""
    if ranks.rank:
        message: Any = None
        while message is None:
            ranks.any(stop_requested())  # rank 0 abandons the evaluation then
            message = ranks.share(None)
        result = message["result"]
        if result is None:
            return None
        return _evaluation(result)
    beat = monotonic()
    stop = False

    def stopping() -> bool:
        nonlocal beat, stop
        if not stop and monotonic() - beat >= BEAT_SECONDS:
            stop = ranks.any(stop_requested())
            ranks.share(None)
            beat = monotonic()
        return stop

    played = play(stopping)
    ranks.any(stop_requested())  # answers the round that the others have begun
    result = None if played is None else attrs.asdict(played)
    ranks.share({"result": result})
    return played


def _evaluation(shared: Mapping[str, Any]) -> EvaluationResult:
    behaviors = {name: BehaviorEvaluation(**_tuples(fields)) for name, fields in shared["behaviors"].items()}
    opponents = {name: OpponentEvaluation(**_tuples(fields)) for name, fields in shared["opponents"].items()}
    return EvaluationResult(behaviors, opponents, shared["score_against"])


def _tuples(value: Any) -> Any:
    """Lists in mappings as tuples, which JSON made lists of."""
    if isinstance(value, Mapping):
        return {name: _tuples(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return tuple(value)
    return value
