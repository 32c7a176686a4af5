"""The hooks of the plugin ``study``. rlcore imports this module at every start, so it imports nothing heavy."""

from __future__ import annotations

from rlcore import CommandSpec, RunOptionSpec, hookimpl

_SEEDS = "rlcore_study.seeds:run_seeds"


@hookimpl
def rlcore_commands() -> list[CommandSpec | RunOptionSpec]:
    return [
        CommandSpec(
            name="compare",
            target="rlcore_study.command:compare_command",
            summary="Compare configurations over their seeds: means, intervals, probability of improvement.",
        ),
        RunOptionSpec(name="seeds", target=_SEEDS, summary="Train with each of these seeds, such as 1-5 or 1,3,7-9."),
        RunOptionSpec(name="jobs", target=_SEEDS, summary="Runs of --seeds at a time; by default, one for each core."),
    ]
