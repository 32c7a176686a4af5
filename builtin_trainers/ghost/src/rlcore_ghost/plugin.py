"""The hooks of rlcore-ghost. rlcore imports this module at every start, so it must not import numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore import BehaviorSection, CommandSpec, EvaluationSection, hookimpl
from rlcore_ghost.records import OpponentSamplerSpec, OpponentSpec

if TYPE_CHECKING:
    from pluggy import PluginManager

    from rlcore import BehaviorSettings, BehaviorSpec, RunContext, Trainer, TrainerSpec


@hookimpl
def rlcore_config_sections() -> list[BehaviorSection | EvaluationSection]:
    return [
        BehaviorSection(
            name="self_play",
            target="rlcore_ghost.settings:SelfPlaySettings",
            summary="self-play: games against earlier versions of the policy",
            ranks=True,
            presets=False,  # they were chosen where the opponents are no earlier policies
        ),
        EvaluationSection(
            name="opponents",
            target="rlcore_ghost.matches:AgainstOpponents",
            settings="rlcore_ghost.settings:AgainstSettings",
            summary="evaluations against opponents, which play the other teams",
        ),
    ]


@hookimpl
def rlcore_create_trainer(
    spec: TrainerSpec, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext
) -> Trainer | None:
    if settings.sections.get("self_play") is None or run.inference:
        return None  # the trainer of the next plugin, or of rlcore
    from rlcore_ghost.selfplay.creation import create_ghost_trainer

    return create_ghost_trainer(spec, settings, behavior, run)


@hookimpl
def rlcore_report_status(run: RunContext) -> dict[str, Any] | None:
    blocks = [*run.config.behaviors.values(), run.config.default_settings]  # the last one is of all others
    if all(settings is None or settings.sections.get("self_play") is None for settings in blocks):
        return None  # without the time that the import takes
    from rlcore_ghost.selfplay.creation import status

    return status(run)


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    from rlcore_ghost import hookspecs

    manager.add_hookspecs(hookspecs)


@hookimpl
def rlcore_opponents() -> list[OpponentSpec]:
    return [
        OpponentSpec(
            name="random",
            target="rlcore_ghost.opponents:RandomPolicy.create",
            summary="every allowed action is equally likely",
        ),
        OpponentSpec(
            name="run",
            target="rlcore_ghost.opponents:policy_of_run",
            settings="rlcore_ghost.settings:EarlierOpponentSettings",
            summary="the policy of a checkpoint of another run",
        ),
    ]


@hookimpl
def rlcore_opponent_samplers() -> list[OpponentSamplerSpec]:
    return [
        _sampler("uniform", "Uniform", "No", "every snapshot with the same probability"),
        _sampler("latest", "Latest", "No", "always the latest policy"),
        _sampler("fixed", "Fixed", "No", "the fixed opponents only"),
        _sampler("pfsp", "Prioritized", "Prioritized", "prioritized fictitious self-play: hard opponents more often"),
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="ratings",
            target="rlcore_ghost.ratings.command:ratings_command",
            summary="Show how strong the players of a run with self-play are.",
        )
    ]


def _sampler(name: str, target: str, settings: str, summary: str) -> OpponentSamplerSpec:
    return OpponentSamplerSpec(
        name=name,
        target=f"rlcore_ghost.selfplay.samplers:{target}Sampler",
        settings=f"rlcore_ghost.settings:{settings}Parameters",
        summary=summary,
    )
