"""A player of Unity for tests, without Unity: a client of gRPC that speaks as the package com.unity.ml-agents does.

Make an executable of it, and start it as ``mlagents-learn`` starts a player::

    path = make_player(directory, world="continuous")            # in tests: directory/Player.x86_64
    python tests/support/unity_player.py --make /tmp/Player.x86_64 --world hybrid --agents 4
    /tmp/Player.x86_64 --mlagents-port 5005 -nographics -batchmode -logFile /tmp/player.log

Options of Unity: ``--mlagents-port``, ``-logFile``, ``-batchmode``, ``-nographics``; others are noted in the journal.
Options of this player, which may also stand behind Unity's (``env_args``):

=========================  =============================================================================================
``--world NAME``           what happens; the names are in ``unity_worlds.py``. Default ``continuous``
``--agents N``             how many agents act in an area (16; 4 in a crowd)
``--behavior NAME``        another name for the world's first behavior: ``--world teams --behavior SoccerTwos``
``--size NAME``            the environment parameter that ``lessons`` reads
``--package VERSION``      as which package it speaks (4.0.0). Before 3.0 images are (height, width, channels), since
                           then (channels, height, width). 1.x stop at a Python package above 0.25.999; before 1.7 they
                           know no hybrid actions, and before 1.5 no mapping of channels
``--fault NAME[@N]``       a misbehavior by name, in the N-th exchange where it has one; the names are in
                           ``unity_faults.py``
``--journal FILE``         a line of JSON for each message of Python: command, actions by behavior and agent,
                           engine settings, parameters, other channels. The first has the handshake and the arguments,
                           the last, in worlds that can be learnt, the parameter of each episode (``Goals.sizes``)
``--tally FILE``           what the agents of each behavior did, as JSON, at the end (``unity_tally.py``)
``--echo UUID``            a custom side channel whose messages are sent back
``--delay SECONDS``        how long a step of the simulation takes; the processor is free meanwhile
``--work SECONDS``         how long the processor is busy in a step of the simulation
``--client NAME``          ``grpcio`` (default), or ``plain`` for that of ``plain_grpc.py``, which costs a tenth
``--host ADDRESS``         where Python listens (127.0.0.1), for example ::1 or localhost
=========================  =============================================================================================

The seed that Python sends decides all that is drawn. An answer that a real player cannot use (a missing action, one
too many, an option outside its branch or forbidden by a mask) is an error in the log, and ends the player with code 1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

import numpy as np
from plain_grpc import PlainClient
from unity_contract import Action, Behavior, ForbiddenAction, Report, Sensor, World
from unity_crowds import FastWorld
from unity_faults import Fault, fault_of
from unity_tally import Tally, written
from unity_walks import Goals
from unity_worlds import make_world

from rlcore_unity.mlagents_messages import (
    ENGINE_CONFIGURATION,
    ENVIRONMENT_PARAMETERS,
    EXCHANGE,
    STATISTICS,
    TRAINING_ANALYTICS,
    Command,
    Compression,
    ObservationType,
    Reader,
    UnityMessage,
    Writer,
    decode_messages,
    encode_messages,
)

OK = 200
ENGINE = ("resolution", "quality_level", "time_scale", "target_frame_rate", "capture_frame_rate")
SAMPLERS = ("uniform", "gaussian", "multirange")


def make_player(directory: Path, name: str = "Player.x86_64", **options: Any) -> Path:
    """Write an executable player with these options: ``make_player(tmp_path, world="hybrid", agents=4)``."""
    words = [sys.executable, str(Path(__file__).resolve())]
    for key, value in options.items():
        words += [f"--{key.replace('_', '-')}", str(value)]
    path = directory / name
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


class Refused(Exception):
    """An answer that a player of Unity cannot use."""


class Package:
    """Abilities of a version of com.unity.ml-agents."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.number = tuple(int(part) for part in version.partition("-")[0].split("."))
        self.channels_first = self.number >= (3,)
        # In the order of the fields: base, concatenated PNG, mapping, hybrid, analytics, variable length, groups.
        since = ((1,), (1, 2), (1, 5), (1, 7), (1, 9), (2,), (2,))
        self.capabilities = [self.number >= first for first in since]
        self.hybrid = self.capabilities[3]
        self.communication = f"1.{min(sum(self.capabilities) - 1, 5)}.0"

    def check_python(self, version: str) -> None:
        numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())
        if self.number < (2,) and numbers > (0, 25, 999):
            raise Refused(f"package {self.version} does not work with mlagents_envs {version}")


class Player:
    """One process of a game."""

    def __init__(self, options: argparse.Namespace, fault: Fault, log: TextIO) -> None:
        self.options, self.fault, self.log = options, fault, log
        self.package = Package(options.package)
        self.exchanges = 0
        self.world: World = make_world(options.world, 0, options.agents, options.behavior, options.size)
        self.described: set[str] = set()  # behaviors that Python knows
        self.waiting: dict[str, list[Report]] = {}  # agents that wait for an action
        self.echoes: list[tuple[UUID, bytes]] = []
        self.journal = open(options.journal, "a", encoding="utf-8") if options.journal else io.StringIO()  # noqa: SIM115
        self.messages: dict[int, bytes] = {}  # of a FastWorld
        self.tally = Tally()

    def play(self) -> int:
        """Play until Python ends the session; return the exit code."""
        with self._connected() as self.call:
            try:
                self._begin()
                reply = self._send(UnityMessage())
                while reply.header.status == OK and reply.unity_input.rl_input.command != Command.QUIT:
                    reply = self._send(self._next(reply.unity_input.rl_input))
            except ConnectionError as error:
                self._say(f"The connection to Python is lost: {error}")
            except (Refused, ForbiddenAction) as error:
                self._say(f"UnityAgentsException: {error}")
                return 1
            finally:
                if isinstance(self.world, Goals):
                    self._note(sizes=self.world.sizes)
                if self.options.tally:
                    written(self.tally.rounds, Path(self.options.tally))
        self._say("Quit")
        self.fault.quit(self)
        return 0

    @contextmanager
    def _connected(self) -> Iterator[Callable[..., bytes]]:
        """A connection to Python: what sends a message, and returns the answer."""
        if self.options.client == "plain" or find_spec("grpc") is None:
            with closing(PlainClient(self.options.port, seconds=None)) as client:
                yield client.call
            return
        import grpc

        most = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        with grpc.insecure_channel(f"{host}:{self.options.port}", options=most) as channel:
            call = channel.unary_unary(EXCHANGE)

            def calling(data: bytes, **how: Any) -> bytes:
                try:
                    return bytes(call(data, **how))
                except grpc.RpcError as error:
                    raise ConnectionError(str(error)) from error

            yield calling

    # ------------------------------------------------------------ messages

    def _begin(self) -> None:
        message = UnityMessage()
        told = message.unity_output.rl_initialization_output
        told.name, told.communication_version = "Academy", self.package.communication
        told.package_version = self.package.version
        for field, value in zip(told.capabilities.DESCRIPTOR.fields, self.package.capabilities, strict=True):
            setattr(told.capabilities, field.name, value)
        reply = self._send(message, first=True)
        if reply.header.status != OK or not reply.unity_input.HasField("rl_initialization_input"):
            raise Refused("the first answer does not begin a session")
        given = reply.unity_input.rl_initialization_input
        self._note(
            handshake=[given.seed, given.communication_version, given.package_version, given.num_areas],
            capabilities=[field.name for field, value in given.capabilities.ListFields() if value],
            arguments=sys.argv[1:],
        )
        self.package.check_python(given.package_version)
        o = self.options
        areas = max(1, given.num_areas)
        self.world = make_world(o.world, given.seed & 0xFFFFFFFF, o.agents, o.behavior, o.size, areas)

    def _send(self, message: Any, first: bool = False) -> Any:
        data = message
        if not isinstance(message, bytes):
            message.header.status = OK
            self.fault.message(self, message)
            data = message.SerializeToString()
        data = self.fault.data(self, data)
        # At its start a player waits for the server; later it waits for the answer as long as it takes.
        reply = self.call(data, wait_for_ready=first, timeout=30 if first else None)
        self.exchanges += 1
        return UnityMessage.FromString(reply)

    def _next(self, given: Any) -> Any:
        """Do what Python wants, and return the next message."""
        if self.options.delay:
            time.sleep(self.options.delay)
        busy_until = time.perf_counter() + self.options.work
        while time.perf_counter() < busy_until:
            pass
        if isinstance(self.world, FastWorld):
            return self._next_fast(given)
        channels = self._hear(given.side_channel)
        actions = {} if given.command == Command.RESET else self._actions(given.agent_actions)
        heard = {name: {str(number): [*map(list, attrs_of(action))] for number, action in acted.items()}
                 for name, acted in actions.items()}  # fmt: skip
        self._note(command=Command(given.command).name, actions=heard, **channels)
        if given.command == Command.RESET:
            self.tally.reset()
            reports = self.world.reset()
        else:
            reports = self.world.step({n: action for acted in actions.values() for n, action in acted.items()})
        return self.message(reports)

    def _next_fast(self, given: Any) -> Any:
        """The next of the messages that are made once."""
        world = self.world
        assert isinstance(world, FastWorld)
        reset = given.command == Command.RESET
        turn = 0 if reset else (world.turn + 1) % (2 * world.LENGTH)
        key = -1 if reset else turn  # a reset begins without the ends of the round before
        if key in self.messages:
            world.turn = turn
            return self.messages[key]
        message = self.message(world.reset() if reset else world.step({}))
        if not message.unity_output.HasField("rl_initialization_output"):
            message.header.status = OK
            self.messages[key] = message.SerializeToString()
        world.turn = turn
        return message

    def message(self, reports: Sequence[Report]) -> Any:
        """The message with these agents, as Unity's RpcCommunicator writes it.

        It lists every behavior that is subscribed, with no agents if none of them reports. What a behavior is comes
        once, with the first agents of it.
        """
        message = UnityMessage()
        output = message.unity_output
        self.waiting = {}
        self.tally.send(reports)
        for name in self.world.subscribed():
            output.rl_output.agentInfos[name].SetInParent()
        for report in reports:
            behavior = self.world.behaviors[report.behavior]
            if report.behavior not in self.described:
                self.described.add(report.behavior)
                self._describe(output.rl_initialization_output.brain_parameters.add(), report.behavior, behavior)
            self._fill(output.rl_output.agentInfos[report.behavior].value.add(), report, behavior)
            if not report.done:
                self.waiting.setdefault(report.behavior, []).append(report)
        output.rl_output.SetInParent()
        told = [
            (STATISTICS, Writer().write_string(key).write_float32(value).write_int32(kind).payload)
            for key, value, kind in self.world.statistics
        ]
        self.world.statistics.clear()
        if told or self.echoes:
            output.rl_output.side_channel = encode_messages(told + self.echoes)
            self.echoes = []
        return message

    def _describe(self, brain: Any, name: str, behavior: Behavior) -> None:
        brain.brain_name, brain.is_training = name, True
        if not self.package.hybrid:
            brain.vector_action_size_deprecated.extend(behavior.branches or [behavior.continuous])
            brain.vector_action_space_type_deprecated = int(not behavior.branches)
            return
        brain.action_spec.num_continuous_actions = behavior.continuous
        brain.action_spec.num_discrete_actions = len(behavior.branches)
        brain.action_spec.discrete_branch_sizes.extend(behavior.branches)

    def _fill(self, info: Any, report: Report, behavior: Behavior) -> None:
        info.id, info.reward, info.done, info.max_step_reached = report.agent, report.reward, report.done, report.cut
        if self.package.capabilities[-1]:
            info.group_id, info.group_reward = report.group, report.group_reward
        if report.mask is not None:
            info.action_mask.extend(report.mask.tolist())
        for sensor, seen in zip(behavior.sensors, report.sees, strict=True):
            fill_observation(info.observations.add(), sensor, seen, self.package)

    # ------------------------------------------------------------ answers

    def _actions(self, given: Mapping[str, Any]) -> dict[str, dict[int, Action]]:
        """The action of each agent that waits, by behavior and number."""
        found: dict[str, dict[int, Action]] = {}
        if unknown := set(given) - set(self.described):
            raise Refused(f"there are actions for {sorted(unknown)}")
        for name, reports in self.waiting.items():
            behavior = self.world.behaviors[name]
            values = given[name].value if name in given else []
            if len(values) != len(reports):
                raise Refused(f"{name} has {len(reports)} agents that wait, and {len(values)} actions")
            found[name] = {
                report.agent: self._action(value, behavior, report)
                for report, value in zip(reports, values, strict=True)
            }
        return found

    def _action(self, value: Any, behavior: Behavior, report: Report) -> Action:
        continuous = tuple(value.continuous_actions)
        discrete = tuple(value.discrete_actions)
        if not self.package.hybrid:
            numbers = tuple(value.vector_actions_deprecated)
            continuous, discrete = ((), tuple(map(int, numbers))) if behavior.branches else (numbers, ())
        if len(continuous) != behavior.continuous or len(discrete) != len(behavior.branches):
            raise Refused(f"agent {report.agent} of {report.behavior} has {continuous} and {discrete} as its action")
        if not np.isfinite(continuous).all() or any(
            not 0 <= option < options for option, options in zip(discrete, behavior.branches, strict=True)
        ):
            raise Refused(f"agent {report.agent} of {report.behavior} cannot do {continuous}, {discrete}")
        return Action(continuous, discrete)

    def _hear(self, data: bytes) -> dict[str, Any]:
        """Take in the messages of side channels, and return them for the journal."""
        heard: dict[str, Any] = {}
        for channel, payload in decode_messages(data):
            reader = Reader(payload)
            if channel == ENGINE_CONFIGURATION:
                kind = reader.read_int32()
                value: Any = reader.read_float32() if ENGINE[kind] == "time_scale" else reader.read_int32()
                heard.setdefault("engine", {})[ENGINE[kind]] = [value, reader.read_int32()] if kind == 0 else value
            elif channel == ENVIRONMENT_PARAMETERS:
                key = reader.read_string()
                kind = reader.read_int32()
                if kind == 0:
                    self.world.parameters.set(key, "value", reader.read_float32())
                else:
                    self._hear_sampler(key, reader)
                heard.setdefault("parameters", []).append([key, *self.world.parameters.settings[key]])
            elif channel != TRAINING_ANALYTICS:
                heard.setdefault("channels", []).append([str(channel), payload.hex()])
                if str(channel) == self.options.echo:
                    self.echoes.append((channel, payload))
        return heard

    def _hear_sampler(self, key: str, reader: Reader) -> None:
        seed = reader.read_int32()
        sampler = reader.read_int32()
        if SAMPLERS[sampler] == "multirange":
            self.world.parameters.set(key, "multirange", seed, reader.read_float32_list())
        else:
            self.world.parameters.set(key, SAMPLERS[sampler], seed, reader.read_float32(), reader.read_float32())

    # ------------------------------------------------------------ files

    def _note(self, **entry: Any) -> None:
        if self.options.journal:
            self.journal.write(json.dumps(entry) + "\n")
            self.journal.flush()

    def _say(self, text: str) -> None:
        self.log.write(text + "\n")
        self.log.flush()


def attrs_of(action: Action) -> tuple[tuple[float, ...], tuple[int, ...]]:
    return action.continuous, action.discrete


def fill_observation(message: Any, sensor: Sensor, seen: Any, package: Package) -> None:
    """Write what an agent sees as this package does."""
    message.name = sensor.name
    if sensor.goal:
        message.observation_type = ObservationType.GOAL_SIGNAL
    message.dimension_properties.extend({"vector": [1], "entities": [4, 1]}.get(sensor.kind, [2, 2, 1]))
    if sensor.kind != "image":
        message.shape.extend(seen.shape)
        message.float_data.data.extend(seen.ravel().tolist())
        return
    height, width, channels = sensor.shape
    message.shape.extend((channels, height, width) if package.channels_first else sensor.shape)
    if package.channels_first:
        message.dimension_properties[:] = [1, 2, 2]
    if not sensor.png:
        numbers = seen.astype(np.float32) / np.float32(255)
        numbers = np.moveaxis(numbers, -1, 0) if package.channels_first else numbers
        message.float_data.data.extend(numbers.ravel().tolist())
        return
    message.compression_type = Compression.PNG
    mapping = sensor.mapping
    if mapping is None:
        mapping = (0,) * 3 if channels == 1 else tuple(range(3))
    elif package.capabilities[2]:
        message.compressed_channel_mapping.extend(mapping)
    blank = np.zeros((height, width), np.uint8)
    import cv2  # only for a world with images

    planes = [blank if channel < 0 else seen[..., channel] for channel in mapping]
    pictures = [
        np.stack(planes[at : at + 3][::-1], axis=-1) for at in range(0, len(planes), 3)
    ]  # OpenCV's order is BGR
    message.compressed_data = b"".join(cv2.imencode(".png", picture)[1].tobytes() for picture in pictures)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    made.add_argument("--mlagents-port", dest="port", type=int, default=5004)
    made.add_argument("-logFile", dest="log")
    for flag in ("-batchmode", "-nographics"):
        made.add_argument(flag, action="store_true")
    made.add_argument("--world", default="continuous")
    made.add_argument("--agents", type=int)
    made.add_argument("--behavior")
    made.add_argument("--size", default="size")
    made.add_argument("--package", default="4.0.0")
    made.add_argument("--fault", default="")
    made.add_argument("--journal")
    made.add_argument("--tally")
    made.add_argument("--echo")
    made.add_argument("--delay", type=float, default=0.0)
    made.add_argument("--host", default="127.0.0.1")
    made.add_argument("--work", type=float, default=0.0)
    made.add_argument("--client", choices=("grpcio", "plain"), default="grpcio")
    made.add_argument("--make", type=Path)
    return made


def main() -> int:
    options, _ = parser().parse_known_args()
    if options.make:
        rest = {key: value for key, value in vars(options).items() if value != parser().get_default(key)}
        rest.pop("make")
        make_player(options.make.parent, options.make.name, **rest)
        return 0
    log: TextIO = sys.stdout if options.log in (None, "-") else open(options.log, "w", encoding="utf-8")  # noqa: SIM115
    log.write(f"Mono path[0] = 'Player_Data/Managed'\nThe test player of rlcore, process {os.getpid()}\n")
    log.flush()
    fault = fault_of(options.fault)
    fault.start(options, log)
    return Player(options, fault, log).play()


if __name__ == "__main__":
    sys.exit(main())
