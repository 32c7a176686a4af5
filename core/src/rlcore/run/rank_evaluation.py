"""Evaluations of a run in several ranks: rank 0 plays, and the others wait for the result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import attrs

from rlcore.contracts.ranks import Ranks
from rlcore.contracts.results import BehaviorEvaluation, EvaluationResult, OpponentEvaluation
from rlcore.run.whole_episodes import Abandoned

BEAT_SECONDS = 1.0  # between two signs of life of rank 0, with which the ranks agree whether to stop


def play_in_rank_0(
    play: Callable[[Callable[[], bool]], EvaluationResult], stop_requested: Callable[[], bool], ranks: Ranks
) -> EvaluationResult:
    """The result of ``play`` in rank 0. Raises Abandoned in all ranks after a stop was requested in one of them.

    ``play`` calls the function that it is given in every step, and raises Abandoned soon after that returned True.
    Rank 0 gives signs of life meanwhile, so that an evaluation may take longer than ``torch_settings.rank_timeout``.
    """
    if ranks.size == 1:
        return play(stop_requested)
    if ranks.rank == 0:
        return _lead(play, stop_requested, ranks)
    while True:
        ranks.any(stop_requested())  # rank 0 abandons the evaluation then
        message = ranks.share(None)
        if message is not None:
            if message["result"] is None:
                raise Abandoned
            return _result(message["result"])


def _lead(
    play: Callable[[Callable[[], bool]], EvaluationResult], stop_requested: Callable[[], bool], ranks: Ranks
) -> EvaluationResult:
    beat, stop = monotonic(), False

    def stopping() -> bool:
        nonlocal beat, stop
        if not stop and monotonic() - beat >= BEAT_SECONDS:
            stop = ranks.any(stop_requested())
            ranks.share(None)
            beat = monotonic()
        return stop

    result = None
    with suppress(Abandoned):
        result = play(stopping)
    ranks.any(stop_requested())
    ranks.share({"result": None if result is None else attrs.asdict(result)})
    if result is None:
        raise Abandoned
    return result


def _result(shared: dict[str, Any]) -> EvaluationResult:
    behaviors = {name: BehaviorEvaluation(**_tuples(each)) for name, each in shared["behaviors"].items()}
    opponents = {name: OpponentEvaluation(**_tuples(each)) for name, each in shared["opponents"].items()}
    return EvaluationResult(behaviors, opponents, shared["score_against"])


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
