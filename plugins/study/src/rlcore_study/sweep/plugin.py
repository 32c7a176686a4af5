"""The hooks of the plugin ``sweep``. rlcore imports this module at every start, so it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlcore import CommandSpec, hookimpl
from rlcore_study.parts import ReportPartSpec

if TYPE_CHECKING:
    from rlcore import EvaluationResult, RunContext


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="sweep",
            target="rlcore_study.sweep.command:sweep_command",
            settings="rlcore_study.sweep.settings:SweepSettings",
            summary="Search hyperparameters: many trials of one configuration.",
        )
    ]


@hookimpl(optionalhook=True)
def rlcore_report_parts() -> list[ReportPartSpec]:
    return [
        ReportPartSpec(
            name="sweep",
            target="rlcore_study.sweep.page:parts",
            expand="rlcore_study.sweep.page:runs_of",
            summary="History, importance and parallel coordinates of a sweep.",
        )
    ]


@hookimpl
def rlcore_modify_config(document: dict[str, Any]) -> None:
    """Check the block ``sweep``, and leave it out: a run trains with the values that the file has."""
    if "sweep" in document:
        from rlcore_study.sweep.block import checked_block

        checked_block(document.pop("sweep"))


@hookimpl
def rlcore_restore_status(run: RunContext, sections: Mapping[str, Any]) -> None:
    from rlcore_study.sweep.pruning import RESTORED, evaluations_in

    run.stash[RESTORED] = evaluations_in(sections)


@hookimpl
def rlcore_run_started(run: RunContext) -> None:
    from rlcore_study.sweep.pruning import watch

    memory = watch(run)
    if memory is not None:  # a resumed run may have been killed after the evaluation that decided
        memory.look(run)


@hookimpl
def rlcore_evaluated(run: RunContext, step: int, result: EvaluationResult) -> None:
    from rlcore_study.sweep.pruning import WATCH

    memory = run.stash.get(WATCH)
    if memory is not None and not run.inference:
        memory.evaluations.append((step, result.score))
        memory.look(run)


@hookimpl
def rlcore_report_status(run: RunContext) -> Mapping[str, Mapping[str, Any]] | None:
    from rlcore_study.sweep.pruning import SECTION, WATCH

    memory = run.stash.get(WATCH)
    if memory is None:
        return None
    pairs = [[step, score] for step, score in memory.evaluations]
    return {SECTION: {"evaluations": pairs}}
