"""Side channels: how the engine runs, environment parameters, statistics, and channels of plugins."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, runtime_checkable
from uuid import UUID

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import ParameterSampler
from rlcore_unity.mlagents_messages import (
    ENGINE_CONFIGURATION,
    ENVIRONMENT_PARAMETERS,
    STATISTICS,
    TRAINING_ANALYTICS,
    Reader,
    SideChannelError,
    Writer,
    decode_messages,
    encode_messages,
)
from rlcore_unity.player import Player
from rlcore_unity.settings import UnitySettings
from rlcore_unity.statistics import Statistics

log = logging.getLogger("rlcore.plugin.unity")

MAX_CHANNELS = 1_000  # unknown ones that are remembered
SAMPLERS = {"uniform": 0, "gaussian": 1, "multirange": 2}  # their numbers in Unity's EnvironmentParametersChannel
LARGEST_SEED = 2**31 - 1


class SideChannel(Protocol):
    """Messages between Unity and a plugin, beside observations and actions; what :class:`SideChannelSpec` names.

    Attributes:
        channel_id: The id of the channel in Unity's script.
    """

    channel_id: UUID

    def received(self, env: int, message: bytes) -> None:
        """Take a message of the player of environment ``env``, which may come from its start on."""

    def outgoing(self, env: int) -> Sequence[bytes]:
        """Return messages for the player of environment ``env``. Called before each message to it."""


@runtime_checkable
class SideChannelOfStarts(SideChannel, Protocol):
    """A side channel with a method that is called for each player that starts, also for one that is started again."""

    def started(self, env: int) -> None:
        """Forget what the player of environment ``env`` was told: it is a new one."""


def engine_messages(settings: UnitySettings) -> list[tuple[UUID, bytes]]:
    """Return the messages that configure the engine, in ML-Agents' order."""
    writers = [Writer().write_int32(kind) for kind in range(5)]
    writers[0].write_int32(settings.width).write_int32(settings.height)
    writers[1].write_int32(settings.quality_level)
    writers[2].write_float32(settings.time_scale)
    writers[3].write_int32(settings.target_frame_rate)
    writers[4].write_int32(settings.capture_frame_rate)
    return [(ENGINE_CONFIGURATION, writer.payload) for writer in writers]


def _write_sampler(message: Writer, sampler: ParameterSampler, seed: int) -> None:
    """Write what follows the name of a parameter that the game draws: a seed, the kind and the numbers."""
    message.write_int32(1).write_int32((sampler.seed + seed) % LARGEST_SEED).write_int32(SAMPLERS[sampler.kind])
    if sampler.kind == "multirange":
        message.write_float32_list(sampler.numbers)
    else:
        for number in sampler.numbers:
            message.write_float32(number)


@attrs.define
class Channels:
    """The side channels of one player.

    Attributes:
        env: The number of its environment.
        statistics: What collects the statistics of all players.
        own: Channels of plugins, by id.
    """

    env: int
    settings: UnitySettings
    statistics: Statistics
    of_plugins: Mapping[UUID, SideChannel]
    _sent: dict[str, float | ParameterSampler] = attrs.field(factory=dict)
    _pending: list[tuple[UUID, bytes]] = attrs.field(factory=list)
    _unknown: set[UUID] = attrs.field(factory=set)

    def begin(self) -> None:
        """Begin with a new player, which knows nothing yet."""
        for channel in self.of_plugins.values():
            if isinstance(channel, SideChannelOfStarts):
                channel.started(self.env)
        self._sent.clear()
        self._pending = engine_messages(self.settings)

    def set_parameters(
        self,
        values: Mapping[str, NDArray[np.float64]],
        samplers: Mapping[str, ParameterSampler] = MappingProxyType({}),
        seed: int = 0,
    ) -> None:
        """Send the parameters that have changed with the next message.

        The game draws those of ``samplers`` for each episode of an agent. A number that is sent counts at once, in open
        episodes too. ``seed`` is added to those of samplers.
        """
        for name, column in values.items():
            value = samplers.get(name, float(column[self.env]))
            if self._sent.get(name) != value:
                self._sent[name] = value
                message = Writer().write_string(name)
                if isinstance(value, ParameterSampler):
                    _write_sampler(message, value, seed)
                else:
                    message.write_int32(0).write_float32(value)
                self._pending.append((ENVIRONMENT_PARAMETERS, message.payload))

    def outgoing(self) -> bytes:
        """Return what the next message to the player has."""
        for channel in self.of_plugins.values():
            for payload in channel.outgoing(self.env):
                self._pending.append((channel.channel_id, bytes(payload)))
        if not self._pending:
            return b""
        pending = self._pending
        self._pending = []
        return encode_messages(pending)

    def hear(self, player: Player, data: bytes) -> None:
        """Take what a message of ``player`` has, if anything. Raises PlayerFailed."""
        if data:
            try:
                self.receive(data)
            except SideChannelError as error:
                raise player.failed(f"sent a damaged message of a side channel: {error}") from error

    def receive(self, data: bytes) -> None:
        """Take what a message of the player has. Raises SideChannelError."""
        for channel, payload in decode_messages(data):
            if channel == STATISTICS:
                self._statistic(payload)
            elif channel in self.of_plugins:
                self.of_plugins[channel].received(self.env, payload)
            elif channel not in (ENGINE_CONFIGURATION, ENVIRONMENT_PARAMETERS, TRAINING_ANALYTICS):
                self._ignore(channel)

    def _statistic(self, payload: bytes) -> None:
        reader = Reader(payload)
        self.statistics.add(reader.read_string(), reader.read_float32(), reader.read_int32())

    def _ignore(self, channel: UUID) -> None:
        if channel not in self._unknown and len(self._unknown) < MAX_CHANNELS:
            self._unknown.add(channel)
            log.warning(
                "player %d: sends messages of side channel %s, which no plugin of environment.side_channels reads; "
                "they are ignored (reported once)",
                self.env,
                channel,
            )
