"""The hooks of rlcore-actors. Imported whenever rlcore starts, so torch is imported with the targets, not here."""

from __future__ import annotations

from rlcore import CommandSpec, ExecutorSpec, Preset, TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="appo",
            target="rlcore_actors.trainer:APPOTrainer",
            settings="rlcore_actors.settings:APPOSettings",
            network="rlcore_torch:NetworkSettings",
            summary="asynchronous proximal policy optimization: clipped policy gradient with V-trace, for actors",
            memory=True,
            critic=True,
            action_distributions=True,
        ),
        TrainerSpec(
            name="impala",
            target="rlcore_actors.trainer:IMPALATrainer",
            settings="rlcore_actors.settings:APPOSettings",
            network="rlcore_torch:NetworkSettings",
            summary="importance-weighted actor-learner architecture: policy gradient with V-trace, for actors",
            memory=True,
            critic=True,
            action_distributions=True,
        ),
    ]


@hookimpl
def rlcore_executors() -> list[ExecutorSpec]:
    return [
        ExecutorSpec(
            name="actors",
            target="rlcore_actors.create:create_environment",
            settings="rlcore_actors.settings:ActorSettings",
            summary="actors with a copy of the policy, which play while the run learns; for appo and impala",
        )
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="actor",
            target="rlcore_actors.command:actor_command",
            summary="Play on this host for a run that learns elsewhere.",
        )
    ]


@hookimpl
def rlcore_config_sections() -> list[Preset]:
    return [
        Preset(
            name="appo-discrete",
            target="rlcore_actors.presets:APPO_DISCRETE",
            trainer="appo",
            spaces={"discrete"},
            summary="APPO for discrete actions, such as CartPole and LunarLander",
            source="as ppo-discrete, with a learning rate of 3e-4; V-trace: Espeholt et al. 2018 (arXiv:1802.01561)",
        ),
        Preset(
            name="appo-continuous",
            target="rlcore_actors.presets:APPO_CONTINUOUS",
            trainer="appo",
            spaces={"continuous", "hybrid"},
            summary="APPO for continuous actions, alone or beside discrete ones, such as Pendulum",
            source="as ppo-continuous; V-trace: Espeholt et al. 2018 (arXiv:1802.01561)",
        ),
    ]
