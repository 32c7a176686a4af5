"""Games of Godot as one environment: environment i is the game of player i, with all of its agents.

A step sends the actions to all games and then waits for all of them, so that they play at the same time. An agent's
episode ends and begins within the game, for each agent alone. What the game says at the end decides what is known:

* With ``info`` of the agent: ``terminal_observation`` is the final observation, and ``TimeLimit.truncated`` says that
  the episode was cut off.
* Without, the observation that comes with ``done`` is the first of the next episode. The final one is unknown: the last
  observation before it stands in. The episode counts as ``done_means`` says.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvSettings,
    EpisodeSeeds,
    Parameters,
    Tag,
    refuse_unknown_parameters,
)
from rlcore_godot.connection import BadGame
from rlcore_godot.ends import Ends, read_ends
from rlcore_godot.launch import Launch, command_of
from rlcore_godot.player import Player
from rlcore_godot.settings import EDITOR_PORT, GodotSettings
from rlcore_godot.spaces import LARGEST_FLOAT, Cast, Policy
from rlcore_workers import PlayerFailed, PlayerSupervisor, remove_logs

if TYPE_CHECKING:
    from rlcore import RunContext

log = logging.getLogger("rlcore.plugin.godot")

CLOSE_MARGIN = 5.0  # seconds of closing beside those in which games end
NOT_REPEATED = "a game's state is neither saved nor set, so its next episodes are others"
UNTOLD = (
    "the game says that an episode ended and not how: every end counts as %s (environment.done_means), and the final "
    "observation is unknown"
)
NO_FINAL = (
    "the game says TimeLimit.truncated and sends no terminal_observation: values are bootstrapped from the last "
    "observation before it"
)


def make_environment(settings: GodotSettings, run: RunContext) -> GodotEnvironment:
    """Start ``run.num_envs`` games.

    Raises :class:`~rlcore.ConfigError` for a game that is not there, and :class:`~rlcore.EnvironmentFailed` for one
    that does not start.
    """
    command, ticks = command_of(settings, run.working_directory)
    game = settings.executable or settings.project or "the game in Godot's editor"
    refuse_unknown_parameters(run.config.environment_parameters, (), game)
    kept = None
    if run.purpose == "train":
        folder = run.directory / "run_logs"
        run.own_files(*(f"run_logs/godot-{run.first_env + number}.log" for number in range(run.num_envs)))
    else:  # files of the run must not change
        kept = tempfile.TemporaryDirectory(prefix="rlcore-godot-", ignore_cleanup_errors=True)
        folder = Path(kept.name)
    limits = run.config.env_settings

    def port(number: int) -> int:
        if settings.port is not None:
            return settings.port + number
        return EDITOR_PORT if settings.editor else 0

    launch = Launch(
        command=command,
        game=game,
        folder=run.working_directory,
        log=lambda number: folder / f"godot-{number}.log",
        port=port,
        ticks=ticks,
        largest=settings.max_message_mb << 20,
        start_seconds=limits.timeout_wait or None,
        step_seconds=settings.timeout,
        end_seconds=limits.timeout_wait or inf,
        stop_requested=lambda: run.stop_requested,
    )
    seeds = EpisodeSeeds(run.seed, run.first_env)
    try:
        return GodotEnvironment(settings, launch, limits, run.num_envs, run.behavior_names, seeds, kept)
    except BaseException:
        remove_logs(launch.log(run.first_env + number) for number in range(run.num_envs))
        raise


class GodotEnvironment:
    """N games of one project.

    Attributes:
        behaviors: The behaviors by name: the policies of the game.
        num_envs: N, the number of games.
        episodes: [N] counts the steps in which an agent of each game ended an episode.
        resume_limits: Why a resumed run is not equal to one that was never stopped.
        close_seconds: How long :meth:`close` may take.
    """

    def __init__(
        self,
        settings: GodotSettings,
        launch: Launch,
        limits: EnvSettings,
        num_envs: int,
        wanted: Sequence[str],
        seeds: EpisodeSeeds,
        kept: Any = None,
    ) -> None:
        """Start the games. ``wanted`` are the behaviors of the configuration; ``kept`` is what :meth:`close` drops.

        Raises EnvironmentFailed, and ConfigError for a port.
        """
        self.num_envs = num_envs
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self.close_seconds = launch.end_seconds + CLOSE_MARGIN
        self.resume_limits: tuple[str, ...] = () if settings.repeatable else (NOT_REPEATED,)
        self._settings = settings
        self._launch = launch
        self._limits = limits
        self._kept = kept
        self._seeds = seeds
        self._first = seeds.first_env
        self._players: list[Player] = []
        self._supervisors = [self._supervisor(env) for env in range(num_envs)]
        self._aborted = 0
        self._reported: set[str] = set()  # messages that are given once
        try:
            for env in range(num_envs):
                with self._supervisors[env].ending_run("its start"):
                    self._players.append(self._player(env))
            self._cast = self._greet(0)
            for env in range(1, num_envs):
                self._greet(env)
        except BaseException:
            self.close()
            raise
        names = _names(self._cast, wanted)
        self._policies = dict(zip(names, self._cast.policies, strict=True))
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: policy.behavior(name, num_envs) for name, policy in self._policies.items()
        }
        self._places = {name: np.array(policy.agents) for name, policy in self._policies.items()}
        self._latest: dict[str, dict[str, NDArray[Any]]] = {}  # the observations of each behavior in the batch before

    # ------------------------------------------------------------ starts

    def _player(self, env: int) -> Player:
        seed = self._seeds(env, int(self.episodes[env]))
        return Player(self._first + env, self._launch, seed)

    def _greet(self, env: int) -> Cast:
        """Return the agents of a game. Raises EnvironmentFailed."""
        with self._supervisors[env].ending_run("its start"):
            return self._players[env].greet()

    def _supervisor(self, env: int) -> PlayerSupervisor:
        launch = self._launch
        number = self._first + env
        name = launch.game
        if self.num_envs > 1:
            name = f"{launch.game}: game {number} (environment {number})"
        by_hand = launch.command is None  # a game in the editor, which only a person can start again
        return PlayerSupervisor(name, name, log, launch.log(number), self._limits, by_hand)

    def _replace(self, env: int) -> dict[str, Any]:
        """Start a game again in place of one that was closed, and return its first observations."""
        player = self._player(env)
        self._players[env] = player
        if player.greet() != self._cast:
            raise player.failed("has other agents than before; a game must begin with equal agents at every start")
        player.send_reset()
        return player.first()

    # ------------------------------------------------------------ the contract

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self._seeds = seeds
        self.episodes = np.array(episodes, np.int64)
        batches = self._batches()
        for env, player in enumerate(self._players):
            with self._supervisors[env].ending_run("reset"):
                # A game takes its seed at its start: only a new process plays an episode again.
                if self._settings.repeatable and not self._begins(env):
                    player.close()
                    player = self._player(env)
                    self._players[env] = player
                    player.greet()
                player.send_reset()
        for env, player in enumerate(self._players):
            with self._supervisors[env].ending_run("reset"):
                self._write_first(env, player.first(), batches)
        self._latest = {name: batch.observations for name, batch in batches.items()}
        return batches

    def _begins(self, env: int) -> bool:
        """Whether a game has just been started with the seed of its episode."""
        player = self._players[env]
        return player.fresh and player.seed == self._seeds(env, int(self.episodes[env]))

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        failed: dict[int, PlayerFailed] = {}
        for env, player in enumerate(self._players):
            message: list[dict[str, Any]] = [{} for _ in range(self._cast.agents)]
            for name, policy in self._policies.items():
                policy.write(actions[name], _rows(policy, env), message)
            try:
                player.send_actions(message)
            except PlayerFailed as failure:
                failed[env] = failure
        batches = self._batches()
        ends: list[tuple[int, Ends]] = []
        for env, player in enumerate(self._players):
            if env in failed:
                continue
            try:
                ends_of_game = self._write_step(env, player, batches)
            except PlayerFailed as failure:
                failed[env] = failure
                continue
            if ends_of_game is not None:
                ends.append((env, ends_of_game))
        for env, reason in failed.items():
            self._recover(env, reason, batches)
        self._finish(batches, ends)
        self._latest = {name: batch.observations for name, batch in batches.items()}
        return batches

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, (), self._launch.game)

    def stats(self) -> dict[str, float]:
        """Return how many games were started again, and how many episodes were dropped with them."""
        restarts = sum(supervisor.restarts.count for supervisor in self._supervisors)
        return {Tag.WORKER_RESTARTS: float(restarts), Tag.ABORTED_EPISODES: float(self._aborted)}

    def close(self) -> None:
        deadline = monotonic() + self._launch.end_seconds
        for player in self._players:
            player.quit()
        for player in self._players:
            with suppress(OSError):
                player.close(max(0.0, deadline - monotonic()))
        self._players = []
        if self._kept is not None:
            self._kept.cleanup()

    # ------------------------------------------------------------ batches

    def _batches(self) -> dict[str, AgentBatch]:
        """Return batches to be filled, without rewards and ends."""
        batches = {}
        for name, spec in self.behaviors.items():
            slots = spec.slots
            # New arrays in every step: those of the step before may be the final observations of this one.
            batches[name] = AgentBatch(
                observations={o.name: np.empty((slots, *o.shape), o.dtype) for o in spec.observations},
                reward=np.zeros(slots, np.float32),
                terminated=np.zeros(slots, np.bool_),
                truncated=np.zeros(slots, np.bool_),
                ended=np.empty(0, np.intp),
            )
        return batches

    def _write_first(self, env: int, message: Mapping[str, Any], batches: Mapping[str, AgentBatch]) -> None:
        try:
            observations = _listed(message, "obs", self._cast.agents)
            self._write_observations(env, observations, batches)
        except BadGame as error:
            raise self._players[env].failed(str(error)) from error

    def _write_observations(self, env: int, observations: list[Any], batches: Mapping[str, AgentBatch]) -> None:
        for name, policy in self._policies.items():
            rows = _rows(policy, env)
            for key, values in policy.read(observations, "obs").items():
                batches[name].observations[key][rows] = values

    def _write_step(self, env: int, player: Player, batches: Mapping[str, AgentBatch]) -> Ends | None:
        """Write what a game answered to its actions, and return the ends of episodes, if there are any."""
        message = player.next()
        agents = self._cast.agents
        try:
            self._write_observations(env, _listed(message, "obs", agents), batches)
            rewards = _rewards(_listed(message, "reward", agents))
            done = _listed(message, "done", agents)
            ends = read_ends(message, done, self._settings.done_means == "truncated")
            for name, policy in self._policies.items():
                places = self._places[name]
                batch = batches[name]
                rows = _rows(policy, env)
                batch.reward[rows] = rewards[places]
                if ends is not None:
                    batch.terminated[rows] = ends.terminated[places]
                    batch.truncated[rows] = ends.truncated[places]
                    # The final observations are checked while it is known which game sent them.
                    ends.finals[name] = ends.read_finals(policy)
        except BadGame as error:
            raise player.failed(str(error)) from error
        return ends

    def _finish(self, batches: Mapping[str, AgentBatch], ends: Sequence[tuple[int, Ends]]) -> None:
        """Complete batches in which episodes ended."""
        if not ends:
            return
        for name, batch in batches.items():
            batch.ended = (batch.terminated | batch.truncated).nonzero()[0]
            if not batch.ended.size:
                continue
            # The last observation of each episode before its end, unless the game sends the final one.
            final_observations = {key: array[batch.ended] for key, array in self._latest[name].items()}
            info: dict[str, NDArray[np.float64]] = {}
            agents = self._policies[name].agents
            for env, ends_of_game in ends:
                first = env * len(agents)  # slot
                for row, agent in enumerate(agents):
                    place = int(np.searchsorted(batch.ended, first + row))
                    for key, value in ends_of_game.finals[name].get(row, {}).items():
                        final_observations[key][place] = value
                    for key, number in ends_of_game.numbers.get(agent, {}).items():
                        values = info.setdefault(key, np.full(len(batch.ended), np.nan))
                        values[place] = number
            batch.final_observations = final_observations
            batch.final_info = info or None
        for env, ends_of_game in ends:
            self.episodes[env] += 1
            if ends_of_game.untold and UNTOLD not in self._reported:
                self._reported.add(UNTOLD)
                log.info(UNTOLD, self._settings.done_means)
            if ends_of_game.without_final and NO_FINAL not in self._reported:
                self._reported.add(NO_FINAL)
                log.warning(NO_FINAL)

    def _recover(self, env: int, failure: PlayerFailed, batches: Mapping[str, AgentBatch]) -> None:
        """Start a game again whose step failed; its open episodes are dropped."""
        self.episodes[env] += 1
        supervisor = self._supervisors[env]
        # Each look for the player finds the latest one: a game may fail again at its start.
        message = supervisor.restart("step", failure, lambda: self._players[env].close(), lambda: self._replace(env))
        with supervisor.ending_run("its start"):
            self._write_first(env, message, batches)
        for name, policy in self._policies.items():
            batch = batches[name]
            rows = _rows(policy, env)
            batch.reward[rows] = 0.0
            batch.terminated[rows] = False  # the step may be half written
            batch.truncated[rows] = False
            if batch.aborted is None:
                batch.aborted = np.zeros(len(batch.reward), np.bool_)
            batch.aborted[rows] = True
            self._aborted += len(policy.agents)


def _names(cast: Cast, wanted: Sequence[str]) -> list[str]:
    """The behavior of each policy: its name, or that of the file if both have one alone."""
    if len(cast.policies) == len(wanted) == 1:
        return list(wanted)
    return [policy.name for policy in cast.policies]


def _rows(policy: Policy, env: int) -> slice:
    count = len(policy.agents)
    return slice(env * count, (env + 1) * count)


def _listed(message: Mapping[str, Any], key: str, agents: int) -> list[Any]:
    entries = message.get(key)
    if not isinstance(entries, list) or len(entries) != agents:
        what = f"{len(entries)} entries" if isinstance(entries, list) else f"a {type(entries).__name__}"
        raise BadGame(f"sent {what} as {key!r}, which must be a list with one entry for each of {agents} agents")
    return entries


def _rewards(values: list[Any]) -> NDArray[np.float32]:
    for agent, value in enumerate(values):
        if type(value) not in (int, float):  # isinstance would take true and false for numbers
            raise BadGame(f"sent {value!r:.100} as the reward of agent {agent}, which must be a number")
    try:
        rewards = np.array(values, np.float64)
    except OverflowError:
        raise BadGame("sent a reward of more than 300 digits, which is not a finite number") from None
    fits = np.abs(rewards) <= LARGEST_FLOAT
    if not fits.all():
        wrong = fits.argmin()
        raise BadGame(f"sent {rewards[wrong]} as the reward of agent {wrong}, which is not a finite number")
    return rewards.astype(np.float32)
