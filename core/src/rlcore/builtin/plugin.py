"""The plugin inside rlcore. It uses the same hooks as every other plugin."""

from __future__ import annotations

from rlcore.plugins.markers import hookimpl
from rlcore.records import OpponentSpec, RewardProviderSpec, StatsWriterSpec


@hookimpl
def rlcore_reward_providers() -> list[RewardProviderSpec]:
    return [
        RewardProviderSpec(
            name="extrinsic",
            target="rlcore.contracts.rewards:ExtrinsicReward.create",
            settings="rlcore.settings:ExtrinsicSettings",
            summary="the environment's own reward, the group's included",
            ranks=True,
        )
    ]


@hookimpl
def rlcore_opponents() -> list[OpponentSpec]:
    return [
        OpponentSpec(
            name="random",
            target="rlcore.builtin.opponents:RandomPolicy.create",
            summary="every allowed action is equally likely",
        ),
        OpponentSpec(
            name="run",
            target="rlcore.run.opponents:policy_of_run",
            settings="rlcore.settings:RunOpponentSettings",
            summary="the policy of a checkpoint of another run",
        ),
    ]


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="jsonl",
            target="rlcore.builtin.writers:JsonlWriter.create",
            summary="metrics.jsonl in the run directory, one summary a line",
            default_on=True,
        ),
        StatsWriterSpec(
            name="console",
            target="rlcore.builtin.writers:ConsoleWriter.create",
            summary="a line for each summary on the terminal",
            default_on=True,
            inference=True,
        ),
    ]
