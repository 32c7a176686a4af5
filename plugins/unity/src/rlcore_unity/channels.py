"""Side channels: how the engine runs, environment parameters, statistics, and channels of plugins."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_mlagents_messages import (
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


def engine_messages(settings: UnitySettings) -> list[tuple[UUID, bytes]]:
    """Return the messages that configure the engine, in ML-Agents' order."""
    return [
        (
            ENGINE_CONFIGURATION,
            Writer().write_int32(0).write_int32(settings.width).write_int32(settings.height).payload,
        ),
        (ENGINE_CONFIGURATION, Writer().write_int32(1).write_int32(settings.quality_level).payload),
        (ENGINE_CONFIGURATION, Writer().write_int32(2).write_float32(settings.time_scale).payload),
        (ENGINE_CONFIGURATION, Writer().write_int32(3).write_int32(settings.target_frame_rate).payload),
        (ENGINE_CONFIGURATION, Writer().write_int32(4).write_int32(settings.capture_frame_rate).payload),
    ]


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
    own: Mapping[UUID, SideChannel]
    _sent: dict[str, float] = attrs.field(factory=dict)
    _pending: list[tuple[UUID, bytes]] = attrs.field(factory=list)
    _unknown: set[UUID] = attrs.field(factory=set)

    def begin(self) -> None:
        """Begin with a new player, which knows nothing yet."""
        self._sent.clear()
        self._pending = engine_messages(self.settings)

    def set_parameters(self, values: Mapping[str, NDArray[np.float64]]) -> None:
        """Send the parameters that have changed with the next message."""
        for name, column in values.items():
            value = float(column[self.env])
            if self._sent.get(name) != value:
                self._sent[name] = value
                payload = Writer().write_string(name).write_int32(0).write_float32(value).payload
                self._pending.append((ENVIRONMENT_PARAMETERS, payload))

    def outgoing(self) -> bytes:
        """Return what the next message to the player has."""
        for channel in self.own.values():
            self._pending += [(channel.channel_id, bytes(each)) for each in channel.outgoing(self.env)]
        if not self._pending:
            return b""
        pending, self._pending = self._pending, []
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
            elif channel in self.own:
                self.own[channel].received(self.env, payload)
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
                self.env, channel,
            )  # fmt: skip


__all__ = ["Channels", "SideChannel", "SideChannelError", "engine_messages"]
