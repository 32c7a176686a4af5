"""The hooks of rlcore-zoo. rlcore imports this module at every start, so it must import nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore import CommandSpec, hookimpl
from rlcore_zoo.records import CollectionSpec

if TYPE_CHECKING:
    from pluggy import PluginManager


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    from rlcore_zoo import hookspecs

    manager.add_hookspecs(hookspecs)


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="zoo",
            target="rlcore_zoo.command:zoo_command",
            summary="List configurations with measured scores, show them, and check one by training it.",
        )
    ]


@hookimpl
def rlcore_collections() -> list[CollectionSpec]:
    return [
        CollectionSpec(
            name="zoo",
            target="rlcore_zoo.collection:path_of",
            for_environment="rlcore_zoo.collection:file_for",
            agents="rlcore_zoo.collection:agent_of",
            summary="configurations with measured scores: rlcore run zoo:ppo/CartPole-v1",
        )
    ]
