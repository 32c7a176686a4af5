"""Players as one environment: environment i is the game of player i, with all of its agents.

A step answers all players and then waits for all of them, so that they play at the same time. Every player ends a step
with at least one agent that waits for an action.
"""

from __future__ import annotations

import logging
import selectors
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any
from uuid import UUID

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    EnvironmentFailed,
    EnvSettings,
    EpisodeSeeds,
    Parameters,
    ParameterSampler,
    Tag,
    spec_mismatch,
)
from rlcore_unity.actions import actions_of, neutral
from rlcore_unity.agents import BehaviorArrays, Seated
from rlcore_unity.behaviors import Brain
from rlcore_unity.census import Census, Counted, Seats
from rlcore_unity.channels import Channels, SideChannel
from rlcore_unity.mlagents_messages import Command, RLInput
from rlcore_unity.player import Launch, Player
from rlcore_unity.server import PortTaken
from rlcore_unity.settings import UnitySettings
from rlcore_unity.statistics import Statistics
from rlcore_workers import PlayerFailed, PlayerSupervisor

log = logging.getLogger("rlcore.plugin.unity")

PATIENCE = 1_000  # exchanges in which agents wait, and none of them has a place
CLOSE_MARGIN = 5.0  # seconds of closing beside those in which players end


@attrs.define(eq=False)
class _Game:
    """One environment: its player, which may be replaced, and its agents."""

    number: int
    player: Player
    channels: Channels
    supervisor: PlayerSupervisor
    agents: dict[str, Seated] = attrs.field(factory=dict)  # by the player's name of behavior and team
    answered: list[str] = attrs.field(factory=list)  # behaviors of the latest message
    strangers: dict[str, Any] = attrs.field(factory=dict)  # actions for its agents of behaviors that are not known
    newcomers: dict[str, Counted] = attrs.field(factory=dict)  # agents of a behavior that other places have, by name

    @property
    def crowded(self) -> bool:
        """Whether agents need places that there are not."""
        return bool(self.newcomers) or any(agents.crowded for agents in self.agents.values())

    def enlarged(self) -> tuple[Seats, ...]:
        """Places for all agents that were counted, in the order of their names."""
        seats = {name: agents.seats.enlarged() for name, agents in self.agents.items()}
        seats |= {name: Seats.of(counted, None) for name, counted in self.newcomers.items()}
        return tuple(seats[name] for name in sorted(seats))

    @property
    def without_place(self) -> dict[str, int]:
        """How many agents of the latest message wait for actions without a place, by behavior and team."""
        waiting = {name: len(self.agents[name].without_slot) for name in self.answered}
        waiting |= {name: len(part.value) for name, part in self.strangers.items()}
        return {name: count for name, count in waiting.items() if count}


class UnityEnvironment:
    """N players of one game.

    Attributes:
        behaviors: The behaviors by name.
        num_envs: N, the number of players.
        episodes: [N] counts the steps in which an episode of an agent of each player ended.
        resume_limits: Why a resumed run is not equal to one that was never stopped.
        statistics: What players sent for the summaries.
        close_seconds: How long :meth:`close` may take.
    """

    def __init__(
        self,
        settings: UnitySettings,
        launch: Launch,
        limits: EnvSettings,
        num_envs: int,
        wanted: Sequence[str],
        side_channels: Sequence[SideChannel] = (),
    ) -> None:
        """Start ``num_envs`` players. ``wanted`` are behaviors to wait for; ``limits`` has the limits of restarts.

        Raises EnvironmentFailed, and ConfigError for a port.
        """
        self.num_envs = num_envs
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self.resume_limits = ("a player's state is neither saved nor set, so its next episodes are others",)
        self.statistics = Statistics()
        self.close_seconds = launch.end_seconds + CLOSE_MARGIN
        self._settings = settings
        self._launch = launch
        self._limits = limits
        self._side_channels: dict[UUID, SideChannel] = {channel.channel_id: channel for channel in side_channels}
        self._games: list[_Game] = []
        self._sockets = selectors.DefaultSelector()  # of all players
        self._parameters: Parameters = {}
        self._samplers: dict[str, ParameterSampler] = {}
        self._aborted = 0
        self._brains: dict[tuple[int, str], Brain] = {}  # of agents without places, by player and name
        try:
            seats = self._start(frozenset(wanted))
            self._arrays = _arrays_of(seats)
            self._seat(seats)
        except BaseException:
            self.close()
            raise
        self.behaviors: Mapping[str, BehaviorSpec] = {name: arrays.spec for name, arrays in self._arrays.items()}
        self.statistics.begin(list(self.behaviors))

    # ------------------------------------------------------------ starts

    def _start(self, wanted: frozenset[str]) -> list[tuple[Seats, ...]]:
        """Start all players side by side, and count the agents of each."""
        for number in range(self.num_envs):
            channels = Channels(number, self._settings, self.statistics, self._side_channels)
            supervisor = self._supervisor(number)
            with supervisor.ending_run("its start"):
                player = self._player(number)
            self._games.append(_Game(number, player, channels, supervisor))
        deadline = monotonic() + self._launch.start_seconds
        seats = []
        for game in self._games:
            with game.supervisor.ending_run("its start"):
                game.player.greet(deadline)
                game.channels.begin()
                self._send_reset(game)
                output = game.player.receive()
                census = Census(game.player, game.channels)
                seats.append(census.take(output, wanted, self._settings.agents))
        return seats

    def _player(self, number: int) -> Player:
        """Start a player. Raises PlayerFailed, and ConfigError for its port."""
        try:
            return Player(number, self._launch, self._sockets)
        except PortTaken as error:
            key = "base_port"
            advice = "leave base_port out to have free ports"
            if self._launch.port(number) == 0:  # there are free ones, so it is not the port
                key = "address"
                advice = "write an address of this machine, such as 127.0.0.1 or ::1"
            elif self._launch.command is None:
                advice = "stop the training that uses it"
            raise ConfigError(f"{error}; {advice}", key=("environment", key)) from error

    def _seat(self, seats: Sequence[Sequence[Seats]]) -> None:
        """Divide the slots of each behavior: player by player, and within one team by team."""
        firsts = dict.fromkeys(self._arrays, 0)
        for game, of_player in zip(self._games, seats, strict=True):
            for places in of_player:
                brain = places.brain
                arrays = self._arrays[brain.name]
                game.agents[brain.full_name] = Seated(game.player, places, arrays, firsts[brain.name])
                firsts[brain.name] += len(places.groups)

    def _restart(self, game: _Game, doing: str, failure: PlayerFailed) -> None:
        """Replace a player that failed, within the limits, and begin its first episodes."""
        game.supervisor.restart(doing, failure, lambda: game.player.close(), lambda: self._replace(game))

    def _replace(self, game: _Game) -> None:
        for agents in game.agents.values():
            self._aborted += agents.abort()
        game.player = self._player(game.number)
        for agents in game.agents.values():
            agents.player = game.player
        game.player.greet(monotonic() + self._launch.start_seconds)
        game.channels.begin()
        self._send_reset(game)
        self._receive(game)

    def _supervisor(self, number: int) -> PlayerSupervisor:
        place = self._settings.executable or "the editor"
        name = f"player {number} of {place}" if self.num_envs > 1 else f"the player {place}"
        by_hand = self._launch.command is None
        if by_hand:
            name = "the game in the editor"
        return PlayerSupervisor(name, f"player {number}", log, self._launch.logs(number), self._limits, by_hand)

    # ------------------------------------------------------------ the contract

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.episodes = np.array(episodes, np.int64)
        for arrays in self._arrays.values():
            arrays.begin()
        for game in self._games:
            for agents in game.agents.values():
                agents.forget()
            self._send_reset(game)
        self._land("reset")
        return {name: arrays.batch() for name, arrays in self._arrays.items()}

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        for game in self._games:
            self._send_actions(game, actions)
        for arrays in self._arrays.values():
            arrays.begin()
        self._land("step")
        batches = {name: arrays.batch() for name, arrays in self._arrays.items()}
        began = np.zeros(self.num_envs, np.bool_)
        for name, batch in batches.items():
            has_ended = batch.terminated | batch.truncated
            if batch.aborted is not None:
                has_ended |= batch.aborted
            began[self.behaviors[name].env_index[has_ended]] = True
        self.episodes[began] += 1
        return batches

    @property
    def wants_slots(self) -> bool:
        return any(game.crowded for game in self._games)

    def add_slots(self) -> None:
        seats = [game.enlarged() for game in self._games]
        for game in self._games:
            self._aborted += sum(agents.moved for agents in game.agents.values())
            game.newcomers = {}
            game.answered = []
            game.strangers = {}
        self._arrays = _arrays_of(seats)
        self._seat(seats)
        self.behaviors = {name: arrays.spec for name, arrays in self._arrays.items()}

    def set_parameters(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def set_samplers(self, samplers: Mapping[str, ParameterSampler]) -> None:
        self._samplers = dict(samplers)

    def _seed_of(self, game: _Game) -> int:
        """What differs in the samplers of players: their numbers, and how many episodes they began."""
        return game.number + self.num_envs * int(self.episodes[game.number])

    def stats(self) -> dict[str, float]:
        restarts = sum(game.supervisor.restarts.count for game in self._games)
        moved = sum(agents.moved for game in self._games for agents in game.agents.values())
        return {Tag.WORKER_RESTARTS: float(restarts), Tag.ABORTED_EPISODES: float(self._aborted + moved)}

    def close(self) -> None:
        deadline = monotonic() + self._launch.end_seconds
        for game in self._games:
            game.player.quit()
        for game in self._games:
            with suppress(OSError):
                game.player.close(deadline)
        self._sockets.close()

    # ------------------------------------------------------------ messages

    def _send_reset(self, game: _Game) -> None:
        for counted in game.newcomers.values():
            counted.here.clear()
        game.channels.set_parameters(self._parameters, self._samplers, self._seed_of(game))
        game.player.send(RLInput(command=Command.RESET, side_channel=game.channels.outgoing()))

    def _send_actions(self, game: _Game, actions: Mapping[str, Actions]) -> None:
        hybrid = game.player.capabilities.hybridActions
        parts: dict[str, Any] = dict(game.strangers)
        for name in game.answered:
            agents = game.agents[name]
            others = agents.without_slot
            if not agents.order.size:
                continue
            if len(others) == agents.order.size:
                parts[name] = neutral(agents.brain, [info for _, info in others])
                continue
            part = actions_of(actions[agents.brain.name], agents.order, hybrid)
            for place, info in others:  # their row is that of the last slot, NOWHERE, until here
                part.value[place].CopyFrom(neutral(agents.brain, [info]).value[0])
            parts[name] = part
        game.channels.set_parameters(self._parameters, self._samplers, self._seed_of(game))
        game.player.send(RLInput(agent_actions=parts, side_channel=game.channels.outgoing()))

    def _land(self, doing: str) -> None:
        """Wait until an agent of every player waits for an action."""
        for game in self._games:
            try:
                self._receive(game)
            except PlayerFailed as failure:
                self._restart(game, doing, failure)

    def _receive(self, game: _Game) -> None:
        """Take messages of a player until an agent that has a place waits for an action.

        Raises PlayerFailed, and EnvironmentFailed if none does for :data:`PATIENCE` exchanges, in which others wait.
        """
        exchanges = 0
        while True:
            output = game.player.receive()
            acting = False
            game.answered = []
            game.strangers = {}
            for name, listed in output.agentInfos.items():
                if not listed.value:  # the behavior is subscribed, and none of its agents reports
                    continue
                agents = game.agents.get(name)
                if agents is None:
                    self._do_without(game, name, listed.value)
                    continue
                game.answered.append(name)
                acting |= agents.receive(listed.value)
            game.channels.hear(game.player, output.side_channel)
            if acting:
                return
            exchanges += bool(game.without_place)
            if exchanges >= PATIENCE:
                with game.supervisor.ending_run("a step"):
                    raise game.player.failed(_nobody_has_a_place(game, exchanges))
            self._send_actions(game, {})

    def _do_without(self, game: _Game, name: str, agents: Sequence[Any]) -> None:
        """Let agents of a behavior or team that has no places do nothing."""
        brain = self._brains.get((game.number, name))
        if brain is None:
            brain = game.player.brain(name, agents)
            self._brains[game.number, name] = brain
            log.warning(
                "player %d has agents of %r, which it did not have in its first decisions; they act with zeros and are "
                "not learned from%s; list the behavior in behaviors, so that the start waits for it (reported once)",
                game.number,
                brain.full_name[:200],
                " until a training adds places at a summary" if brain.name in self.behaviors else "",
            )
        if brain.name in self.behaviors and not spec_mismatch(self.behaviors[brain.name], brain.spec):
            game.newcomers.setdefault(name, Counted(brain)).add(agents)
        waiting = [info for info in agents if not info.done]
        game.strangers[name] = neutral(brain, waiting)


def _nobody_has_a_place(game: _Game, exchanges: int) -> str:
    waiting = ", ".join(f"{count} of {name[:100]!r}" for name, count in sorted(game.without_place.items())[:10])
    places = ", ".join(f"{name!r} {agents.places}" for name, agents in sorted(game.agents.items())) or "none"
    return (
        f"no agent has a place, for {exchanges:,} exchanges, so nothing can be learned; agents that wait: {waiting}; "
        f"places: {places}; list their behaviors in behaviors, so that the start waits for them, or set "
        "environment.agents to the largest number of agents"
    )


def _arrays_of(seats: Sequence[Sequence[Seats]]) -> dict[str, BehaviorArrays]:
    """The arrays of each behavior, with the slots of all players. Raises EnvironmentFailed if players differ."""
    by_behavior: dict[str, list[tuple[int, Seats]]] = {}
    teams: set[int] = set()
    for env, of_player in enumerate(seats):
        for places in of_player:
            by_behavior.setdefault(places.brain.name, []).append((env, places))
            teams.add(places.brain.team)
    # Teams are those of the game: each may have a behavior of its own, as strikers and a goalkeeper have.
    in_teams = len(teams) > 1
    return {name: BehaviorArrays(_spec_of(name, places, in_teams)) for name, places in by_behavior.items()}


def _spec_of(name: str, places: Sequence[tuple[int, Seats]], in_teams: bool) -> BehaviorSpec:
    spec = places[0][1].brain.spec
    env_index: list[int] = []
    teams: list[int] = []
    groups: list[int] = []
    shared = 0  # groups so far
    for env, seats in places:
        problem = spec_mismatch(spec, seats.brain.spec)
        if problem:
            raise EnvironmentFailed(
                f"behavior {name!r}: {seats.brain.full_name!r} of player {env} differs from the others: {problem}"
            )
        slots = len(seats.groups)
        env_index += [env] * slots
        teams += [seats.brain.team] * slots
        # Groups of two players, or of two teams, are different ones.
        groups += [shared + group if group >= 0 else -1 for group in seats.groups]
        shared += max(seats.groups) + 1
    return attrs.evolve(
        spec,
        env_index=np.array(env_index, np.int64),
        team=np.array(teams, np.int64) if in_teams else None,
        group=np.array(groups, np.int64) if shared else None,
        many_games=True,  # a scene mostly has many copies of its field, and no message numbers them
    )
