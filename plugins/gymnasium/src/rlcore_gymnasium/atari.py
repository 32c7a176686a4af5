"""Atari games of ale-py: checked options, scores as they are, lives, and films of what the vectorized form plays."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, ConfigError, Environment, EpisodeSeeds, Parameters, did_you_mean
from rlcore_gymnasium.native import NativeEnvironment
from rlcore_gymnasium.saved_wrappers import Env, class_name

SCREEN = {"img_height": 210, "img_width": 160, "grayscale": False, "stack_num": 1}
# Options of ale-py that would change what an episode is, or what is reported of it, unless they are off.
REFUSED = {
    "reward_clipping": "rewards are scores of the game; clip them in the trainer: hyperparameters: {clip_rewards: 1.0}",
    "life_loss_info": "lives are no episodes of their own; episodic_life: true has trainers learn from each life",
    "batch_size": "all games step together; leave it out",
}


def raw_screens(env: Env, env_id: str) -> str | None:
    """Return what is wrong with an environment that shows whole screens of an Atari game; None for every other one.

    Only the vectorized form of ``ALE/Pong-v5`` preprocesses. The single forms, ``PongNoFrameskip-v4`` among them, leave
    that to wrappers, as those of Stable-Baselines3 and CleanRL; without any, a run would learn next to nothing.
    """
    bare = env.unwrapped
    screen = bare.observation_space.shape
    # By its name: the class cannot be imported where ale-py is not installed.
    if class_name(bare) != "ale_py.env.AtariEnv":
        return None
    # Two axes at least are a screen, which wrappers have not changed; the memory of the game has one.
    if screen is None or len(screen) < 2 or env.observation_space.shape != screen:
        return None
    older = re.fullmatch(r"(?:\w+:)?(\w+?)(NoFrameskip|Deterministic)?-v[04]", env_id)
    advice = f"write ALE/{older[1]}-v5, which is preprocessed as in Stable-Baselines3 and CleanRL, or " if older else ""
    return (
        f"shows whole screens of {'x'.join(map(str, screen))} pixels, without preprocessing; {advice}set "
        "environment.options: {frameskip: 1} and environment.wrappers: [{name: AtariPreprocessing, "
        "terminal_on_life_loss: false}, {name: FrameStackObservation, stack_size: 4}]"
    )


def vector_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for the vectorized form of an Atari game.

    Rewards are the game's score, which ale-py clips to [-1, 1] by default, and lives do not end episodes:
    :class:`GamesWithLives` takes ``episodic_life``. Raises ConfigError for an option that ale-py does not have, and for
    one of :data:`REFUSED`.
    """
    from ale_py.vector_env import AtariVectorEnv

    known = list(inspect.signature(AtariVectorEnv).parameters)[2:]  # after the game, which the id names, and num_envs
    allowed = [name for name in known if name not in REFUSED]
    for name, value in options.items():
        problem = None
        if name not in known:
            problem = f"unknown option of Atari games, which have {', '.join(allowed)}{did_you_mean(name, allowed)}"
        elif name in REFUSED and value:
            problem = REFUSED[name]
        elif name == "episodic_life" and not isinstance(value, bool):
            problem = f"must be true or false, not {value!r}"
        if problem is not None:
            raise ConfigError(problem, key=("environment", "options", name))
    # ale-py clips rewards by default. Lives are counted by GamesWithLives, not by ale-py.
    return {**options, "reward_clipping": False, "episodic_life": False}


def with_lives(environment: Environment, options: Mapping[str, Any]) -> Environment:
    """Return ``environment``, the vectorized form of an Atari game, with what only Atari games have.

    Their observations are declared stacks of frames, and ``episodic_life`` makes trainers learn life by life.
    """
    assert isinstance(environment, NativeEnvironment)
    (name,) = environment.behaviors
    environment.behaviors = {name: stacked(environment.behaviors[name])}
    if options.get("episodic_life"):
        return GamesWithLives(environment)
    return environment


def stacked(behavior: BehaviorSpec) -> BehaviorSpec:
    """Return the behavior with every image declared a stack of gray frames, one for each channel."""
    observations = []
    for spec in behavior.observations:
        if spec.kind == "image":
            spec = attrs.evolve(spec, frames=spec.shape[-1])
        observations.append(spec)
    return attrs.evolve(behavior, observations=tuple(observations))


class GamesWithLives:
    """Games in which trainers learn from each life as an episode, while an episode is the whole game.

    ale-py's own ``episodic_life`` starts the game again after every life, so that later lives are never played, and
    what it reports is the score of one life. Here the game goes on, and :attr:`rlcore.AgentBatch.life_lost` says where
    a life was lost. Everything else is the ``environment`` inside.
    """

    def __init__(self, environment: NativeEnvironment) -> None:
        self._inside = environment
        self._lives = environment.vector = CountedLives(environment.vector)
        self.behaviors = environment.behaviors
        self.num_envs = environment.num_envs
        self.episodes = environment.episodes
        self.resume_limits = environment.resume_limits
        self.resume_notes = environment.resume_notes
        self.marks = environment.marks

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        batches = self._inside.reset(seeds, episodes)
        self.episodes = self._inside.episodes
        return batches

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        batches = self._inside.step(actions)
        self.episodes = self._inside.episodes
        for batch in batches.values():
            batch.life_lost = self._lives.lost
        return batches

    def set_parameters(self, parameters: Parameters) -> None:
        self._inside.set_parameters(parameters)

    def close(self) -> None:
        self._inside.close()


class CountedLives:
    """A vectorized form that notes in which games the latest step lost a life and the game goes on.

    Some games show no lives for a while before they are over: only a loss that leaves lives counts.

    Attributes:
        lost: [N] whether a life was lost in the latest step.
    """

    def __init__(self, vector: Any) -> None:
        self._vector = vector

    def reset(self, **how: Any) -> Any:
        observations, info = self._vector.reset(**how)
        self._lives = np.array(info["lives"])  # [N] before the next step
        return observations, info

    def step(self, actions: Any) -> Any:
        observations, reward, terminated, truncated, info = self._vector.step(actions)
        lives = np.array(info["lives"])
        goes_on = ~terminated & ~truncated
        self.lost: NDArray[np.bool_] = (lives < self._lives) & (lives > 0) & goes_on
        self._lives = lives
        return observations, reward, terminated, truncated, info

    def close(self) -> None:
        self._vector.close()


class AtariOnFilm(gymnasium.Env[Any, Any]):
    """One game of the vectorized form, which can be rendered.

    ale-py's single form has other observations, and its vectorized form cannot be rendered. Two vectorized games with
    one seed and the same actions are equal, so a second one shows the whole screen in color.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # every fourth of 60 pictures
    render_mode = "rgb_array"

    def __init__(self, make: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """``make(**options)`` makes the vectorized form with one game."""
        screen_options = {**options, **SCREEN}
        self._game = make(**options)
        self._screen = make(**screen_options)
        self.observation_space = self._game.single_observation_space
        self.action_space = self._game.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._pictures, _ = self._screen.reset(seed=seed)
        observations, _ = self._game.reset(seed=seed)
        return observations[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        actions = np.array([action])
        self._pictures, *_ = self._screen.step(actions)
        observations, rewards, terminated, truncated, _ = self._game.step(actions)
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        return self._pictures[0, 0].copy()  # of the only game, the only frame

    def close(self) -> None:
        self._game.close()
        self._screen.close()
