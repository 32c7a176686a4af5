"""The plugin inside rlcore. It uses the same hooks as every other plugin."""

from __future__ import annotations

from rlcore.hookspecs import hookimpl
from rlcore.records import RewardProviderSpec, StatsWriterSpec


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
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="jsonl",
            target="rlcore.plugins.metrics_file:JsonlWriter.create",
            summary="metrics.jsonl in the run directory, one summary a line",
            default_on=True,
        ),
        StatsWriterSpec(
            name="console",
            target="rlcore.cli.terminal:ConsoleWriter.create",
            summary="a line for each summary on the terminal",
            default_on=True,
            inference=True,
        ),
    ]
