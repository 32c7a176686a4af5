"""Environments with the shapes of ML-Agents' example scenes, for tools/mlagents_files.py and as a local plugin::

    plugins: {local: [mlagents_scenes]}
    environment: {type: mlagents_scene, id: WallJump, num_envs: 8}

An environment has the behaviors, observations, actions, masks, teams, groups and parameters of the scene in ML-Agents'
release 21, and nothing else of it. What agents see is drawn, episodes end at drawn decisions, and actions change
nothing. It shows whether a file of ML-Agents trains, not what agents learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    Environment,
    EnvironmentSettings,
    EnvironmentSpec,
    EpisodeSeeds,
    ObservationSpec,
    Parameters,
    RunContext,
    did_you_mean,
    hookimpl,
    refuse_unknown_parameters,
)

Array = NDArray[Any]
# decisions of an episode
SHORTEST = 5
LONGEST = 60


@attrs.frozen
class Role:
    """The agents of one behavior in one area.

    Attributes:
        sees: Observations of an agent, in the order of Unity's sensors.
        continuous: Number of real parts of an action, each in [-1, 1].
        discrete: Number of options of each branch.
        teams: The team of each agent.
        grouped: Whether the agents of a team share a group's reward.
        masks: Whether some options are not allowed, others at each decision.
        dies: Whether the first agent may leave before the episode of its group ends.
        turns: In how many of five episodes the agents have this behavior; in the others they have another one.
    """

    sees: tuple[ObservationSpec, ...]
    continuous: int = 0
    discrete: tuple[int, ...] = ()
    teams: tuple[int, ...] = (0,)
    grouped: bool = False
    masks: bool = False
    dies: bool = False
    turns: tuple[int, ...] = (0, 1, 2, 3, 4)


@attrs.frozen
class Scene:
    """A scene: its behaviors by name, and the names of its parameters with their defaults."""

    roles: Mapping[str, Role]
    parameters: Mapping[str, float] = attrs.field(factory=dict)


def vector(name: str, *shape: int, **how: Any) -> ObservationSpec:
    return ObservationSpec(name, shape, np.float32, **{"low": -1.0, "high": 1.0, **how})


def picture(name: str, *shape: int, frames: int = 1) -> ObservationSpec:
    return ObservationSpec(name, shape, np.uint8, "image", low=0, high=255, frames=frames)


def rays(name: str, count: int, tags: int, stacked: int = 1) -> ObservationSpec:
    """A ray sensor: each ray has a number for each tag, whether it hit nothing, and the distance."""
    return vector(name, count * (tags + 2) * stacked)


BALL = {"mass": 1.0, "scale": 1.0}
SOCCER = {"ball_touch": 0.0}
WALL = (rays("OffsetRayPerceptionSensor", 7, 3, 6), rays("RayPerceptionSensor", 7, 3, 6), vector("VectorSensor", 24))
MATCH3: dict[str, Any] = {
    "discrete": (127,),
    "masks": True,
}  # two neighbors of a board of 9 rows and 8 columns change places
MATCH3_VECTORS = Role((vector("cells", 432), vector("special", 216)), **MATCH3)
FOOD: dict[str, Any] = {"continuous": 3, "discrete": (2,), "teams": (0,) * 5}
PYRAMIDS = tuple(rays(f"RayPerceptionSensor{number}", 7, 6) for number in ("", 1, 2))
PUSHED = tuple(rays(name, 7, 3, 3) for name in ("OffsetRayPerceptionSensor", "RayPerceptionSensor"))
MOVES = (3, 3, 3)
GOAL = vector("goal", 2, goal=True)
HALLWAY = Role((rays("RayPerceptionSensor", 5, 5, 3), vector("VectorSensor", 3)), discrete=(5,))

SCENES: Mapping[str, Scene] = {
    "3DBall": Scene({"3DBall": Role((vector("VectorSensor", 8),), continuous=2)}, BALL),
    "3DBallHard": Scene({"3DBallHard": Role((vector("stacked", 45),), continuous=2)}, BALL),
    "Visual3DBall": Scene({"Visual3DBall": Role((picture("CameraSensor", 84, 84, 12, frames=4),), continuous=2)}, BALL),
    "Basic": Scene({"Basic": Role((vector("Basic", 20),), discrete=(3,))}),
    "Crawler": Scene({"Crawler": Role((vector("PhysicsBodySensor", 126), vector("VectorSensor", 32)), continuous=20)}),
    "DungeonEscape": Scene(
        {
            "DungeonEscape": Role(
                (rays("RayPerceptionSensor", 15, 6, 3), vector("VectorSensor", 1)),
                discrete=(7,), teams=(0, 0, 0), grouped=True, dies=True,
            )
        }
    ),
    "FoodCollector": Scene(
        {"GridFoodCollector": Role((picture("GridSensor", 40, 40, 5),), **FOOD)},
        {"laser_length": 1.0, "agent_scale": 1.0},
    ),
    "VisualFoodCollector": Scene(
        {"VisualFoodCollector": Role((picture("CameraSensor", 84, 84, 3), vector("VectorSensor", 1)), **FOOD)},
        {"laser_length": 1.0, "agent_scale": 1.0},
    ),
    "GridWorld": Scene(
        {"GridWorld": Role((picture("RenderTextureSensor", 64, 84, 3), GOAL), discrete=(5,), masks=True)}
    ),
    "Hallway": Scene({"Hallway": HALLWAY}),
    "Match3": Scene(
        {
            "Match3SimpleHeuristic": MATCH3_VECTORS,
            "Match3SmartHeuristic": MATCH3_VECTORS,
            "Match3VectorObs": MATCH3_VECTORS,
            "Match3VisualObs": Role((picture("cells", 9, 8, 6), picture("special", 9, 8, 3)), **MATCH3),
        }
    ),
    "PushBlock": Scene(
        {"PushBlock": Role(PUSHED, discrete=(7,))},
        {"dynamic_friction": 0.0, "static_friction": 0.0, "block_scale": 2.0, "block_drag": 0.5},
    ),
    "PushBlockCollab": Scene(
        {"PushBlockCollab": Role((picture("GridSensor", 20, 20, 6),), discrete=(7,), teams=(0, 0, 0), grouped=True)}
    ),
    "Pyramids": Scene({"Pyramids": Role((*PYRAMIDS, vector("VectorSensor", 4)), discrete=(5,))}),
    "SoccerTwos": Scene(
        {
            "SoccerTwos": Role(
                (rays("RayPerceptionSensor", 11, 6, 3), rays("RayPerceptionSensorReverse", 3, 6, 3)),
                discrete=MOVES, teams=(0, 0, 1, 1), grouped=True,
            )
        },
        SOCCER,
    ),
    "Sorter": Scene(
        {"Sorter": Role((vector("BufferSensor", 20, 23, kind="entities"), vector("VectorSensor", 8)), discrete=MOVES)},
        {"num_tiles": 2.0},
    ),
    "StrikersVsGoalie": Scene(
        {
            "Goalie": Role((rays("RayPerceptionSensor", 41, 4, 3),), discrete=MOVES, teams=(1,), grouped=True),
            "Striker": Role(
                (rays("RayPerceptionSensor", 11, 5, 3), rays("RayPerceptionSensorReverse", 3, 5, 3)),
                discrete=MOVES, teams=(0, 0), grouped=True,
            ),
        },
        SOCCER,
    ),
    "Walker": Scene({"Walker": Role((vector("VectorSensor", 243),), continuous=39)}),
    "WallJump": Scene(
        {
            "BigWallJump": Role(WALL, discrete=(3, 3, 3, 2), turns=(2, 3, 4)),
            "SmallWallJump": Role(WALL, discrete=(3, 3, 3, 2), turns=(0, 1)),
        },
        {"no_wall_height": 0.0, "small_wall_height": 4.0, "big_wall_height": 8.0},
    ),
    "Worm": Scene({"Worm": Role((vector("VectorSensor", 64),), continuous=9)}),
}  # fmt: skip


class Agents:
    """The agents of one role in N areas: S slots, those of an area side by side."""

    def __init__(self, name: str, role: Role, num_envs: int) -> None:
        count = len(role.teams)
        envs = np.repeat(np.arange(num_envs), count)
        teams = np.tile(role.teams, num_envs)
        self.role, self.count = role, count
        self.spec = BehaviorSpec(
            name, role.sees, role.continuous, role.discrete,
            low=np.full(role.continuous, -1, np.float32), high=np.full(role.continuous, 1, np.float32),
            env_index=envs, team=teams, group=envs * 2 + teams if role.grouped else None,
        )  # fmt: skip
        slots = len(envs)
        self.seen: dict[str, Array] = {each.name: np.zeros((slots, *each.shape), each.dtype) for each in role.sees}
        self.mask = np.ones((slots, self.spec.mask_size), np.bool_) if role.masks else None
        self.acting = np.zeros(slots, np.bool_)  # [S]
        self.leaves = np.zeros(slots, np.int64)  # [S] at which decision the agent's episode ends

    def rows(self, env: int) -> slice:
        return slice(env * self.count, (env + 1) * self.count)

    def begin(self, env: int, generator: np.random.Generator, length: int, turn: int) -> None:
        rows = self.rows(env)
        self.acting[rows] = turn in self.role.turns
        self.leaves[rows] = length
        if self.role.dies:
            self.leaves[env * self.count] = generator.integers(1, length + 1)

    def look(self, env: int, generator: np.random.Generator, tiles: float, first: bool) -> None:
        """Draw what the agents of an area see, and what they may do."""
        rows = self.rows(env)
        for spec in self.role.sees:
            seen = self.seen[spec.name][rows]
            if spec.kind == "image":
                new = generator.integers(0, 256, (*seen.shape[:-1], spec.shape[-1] // spec.frames), np.uint8)
                kept = [new] * (spec.frames - 1) if first else [seen[..., new.shape[-1] :]]
                seen[:] = np.concatenate([*kept, new], axis=-1)
            else:
                seen[:] = generator.uniform(-1, 1, seen.shape)
            if spec.kind == "entities":
                seen[:, generator.integers(1, int(tiles) + 1) :] = 0
        if self.mask is not None:
            self.mask[rows] = generator.random(self.mask[rows].shape) < 0.5
            ends = np.cumsum(self.role.discrete)
            for end, options in zip(ends, self.role.discrete, strict=True):
                self.mask[rows, end - generator.integers(1, options + 1)] = True

    def batch(self, reward: Array, shared: Array, terminated: Array, truncated: Array, final: dict[str, Array] | None,
              final_mask: Array | None) -> AgentBatch:  # fmt: skip
        return AgentBatch(
            {name: array.copy() for name, array in self.seen.items()},
            reward.astype(np.float32), terminated, truncated, final_observations=final,
            group_reward=shared.astype(np.float32) if self.role.grouped else None,
            needs_action=self.acting.copy(), action_mask=None if self.mask is None else self.mask.copy(),
            final_action_mask=final_mask,
        )  # fmt: skip


class SceneEnvironment:
    """N areas of a :class:`Scene`. An episode ends by its rules or is cut off; which, and when, is drawn."""

    def __init__(self, scene: Scene, num_envs: int) -> None:
        self.num_envs = num_envs
        self.agents = {name: Agents(name, role, num_envs) for name, role in scene.roles.items()}
        self.behaviors: Mapping[str, BehaviorSpec] = {name: agents.spec for name, agents in self.agents.items()}
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self.parameters = {name: np.full(num_envs, value) for name, value in scene.parameters.items()}
        self.seeds = EpisodeSeeds(0)
        self.generators = [np.random.default_rng(0)] * num_envs
        self.tiles = np.ones(num_envs)
        self.decisions: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N] since the episode began
        self.length: NDArray[np.int64] = np.ones(num_envs, np.int64)  # [N] decisions of the episode
        self.cut = np.zeros(num_envs, np.bool_)  # [N] whether the episode is cut off
        self.won: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N] the team that wins

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.seeds, self.episodes = seeds, np.array(episodes, np.int64)
        for env in range(self.num_envs):
            self._begin(env)
        made = {}
        for name, agents in self.agents.items():
            nothing = np.zeros(agents.spec.slots, np.bool_)
            made[name] = agents.batch(nothing, nothing, nothing, nothing.copy(), None, None)
        return made

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        self.decisions += 1
        over = self.decisions == self.length
        for env in range(self.num_envs):
            self._look(env, first=False)
        parts = {name: self._results(agents, over) for name, agents in self.agents.items()}
        self.episodes += over
        for env in np.flatnonzero(over).tolist():
            self._begin(env)
        return {name: self.agents[name].batch(*part) for name, part in parts.items()}

    def _results(self, agents: Agents, over: Array) -> tuple[Any, ...]:
        """The rewards and ends of all slots, the last one of which leaves no agent acting in its area."""
        envs = agents.spec.env_index
        acted = agents.acting.copy()
        left = acted & (agents.leaves == self.decisions[envs])
        truncated = left & over[envs] & self.cut[envs]
        agents.acting[left] = False
        sign = np.where(agents.spec.team == self.won[envs], 1.0, -1.0)
        ending = np.where(acted & over[envs] & ~self.cut[envs], sign, 0.0)
        final = {name: array[left] for name, array in agents.seen.items()} if left.any() else None
        mask = agents.mask[left] if agents.mask is not None and left.any() else None
        own = np.where(acted, -0.001, 0.0) + (0.0 if agents.role.grouped else ending)
        return own, ending, left & ~truncated, truncated, final, mask

    def _begin(self, env: int) -> None:
        generator = np.random.default_rng(self.seeds(env, int(self.episodes[env])))
        self.generators[env] = generator
        self.tiles[env] = self.parameters.get("num_tiles", self.tiles)[env]
        self.decisions[env], self.length[env] = 0, generator.integers(SHORTEST, LONGEST + 1)
        self.cut[env], self.won[env], turn = generator.random() < 0.5, generator.integers(2), int(generator.integers(5))
        for agents in self.agents.values():
            agents.begin(env, generator, int(self.length[env]), turn)
        self._look(env, first=True)

    def _look(self, env: int, first: bool) -> None:
        for agents in self.agents.values():
            agents.look(env, self.generators[env], float(self.tiles[env]), first)

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, self.parameters, "the scene")
        self.parameters.update(parameters)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def scene_of(behaviors: list[str]) -> str:
    """Return the name of the scene with all of these behaviors. Raises ConfigError if there is none."""
    for name, scene in SCENES.items():
        if set(behaviors) <= set(scene.roles):
            return name
    known = [name for scene in SCENES.values() for name in scene.roles]
    odd = next((name for name in behaviors if name not in known), None)
    if odd is None:
        raise ConfigError(f"no example scene has all of {', '.join(behaviors)}", key=("behaviors",))
    raise ConfigError(f"no example scene has it{did_you_mean(odd, known)}", key=("behaviors", odd))


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    summary = "the shapes of ML-Agents' example scenes"
    return [EnvironmentSpec(name="mlagents_scene", target="mlagents_scenes:make", summary=summary)]


def make(settings: EnvironmentSettings, run: RunContext) -> Environment:
    name = settings.id or ""
    if name not in SCENES:
        raise ConfigError(f"there is no scene {name!r}{did_you_mean(name, SCENES)}", key=("environment", "id"))
    return SceneEnvironment(SCENES[name], run.num_envs)
