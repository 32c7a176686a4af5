"""The environment of an entry: the id that is registered today, and its spaces."""

from __future__ import annotations

import logging
import math
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from rlcore import ConfigError, did_you_mean, one_line, pip_install

__all__ = ["World", "atari_game", "find_world"]

# Modules that register environments of RL Zoo's files and are unknown to rlcore-gymnasium, by the form of the ids.
_MODULES = {
    r".*Bullet(Duck)?Env-v\d+": "pybullet_envs_gymnasium",
    r"Panda\w+-v\d+": "panda_gym",
    r"donkey-.*": "gym_donkeycar",
}
_ATARI = re.compile(r"(?:ALE/)?(?P<game>[A-Z][A-Za-z0-9]*?)(?:NoFrameskip-v4|-v5)")
_VERSION = re.compile(r"(?P<base>.+)-v(?P<number>\d+)")
_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "pygame": "video"}  # of rlcore-gymnasium, by words of messages


@attrs.frozen
class World:
    """An environment that can be made.

    Attributes:
        id: Its id in a configuration of rlcore, ``[module:]Name-vN``.
        name: Its id without the module.
        half_ranges: Half the range of each part of a continuous action; None for discrete actions.
        middles: The middle of each range; None for discrete actions.
        images: Whether an observation is an image.
        note: What a reader should know about the id, or an empty text.
    """

    id: str
    name: str
    half_ranges: tuple[float, ...] | None
    middles: tuple[float, ...] | None
    images: bool
    note: str


def atari_game(env_id: str) -> str | None:
    """Return the game, ``Pong``, of ``PongNoFrameskip-v4`` or ``ALE/Pong-v5``; None for other environments."""
    name = env_id.rpartition(":")[2]
    found = _ATARI.fullmatch(name)
    return found["game"] if found and ("NoFrameskip" in name or name.startswith("ALE/")) else None


def find_world(env_id: str, options: Mapping[str, Any], entries: Collection[str]) -> World:
    """Return the environment ``[module:]Name-vN``, or the next version of it that can be made.

    ``entries`` are the names in the file, for a hint. Raises ConfigError with what to install or to write.
    """
    try:
        import gymnasium

        from rlcore_gymnasium.plugin import registered
    except ModuleNotFoundError as error:
        advice = f"its spaces are needed; {pip_install('rlcore-gymnasium')}"
        raise ConfigError(f"--env {env_id}: {one_line(error)}: {advice}") from error
    game = atari_game(env_id)
    module, _, name = env_id.rpartition(":")
    if game:
        name = f"ALE/{game}-v5"
    module = module or next((module for form, module in _MODULES.items() if re.fullmatch(form, name)), "")
    front = f"{module}:" if module else ""
    unknown = ""
    try:
        with _quiet():
            registered(f"{front}{name}")
    except ConfigError as error:
        unknown = error.message
    if game and not unknown:  # its spaces are known
        return World(f"{front}{name}", name, None, None, True, "")
    candidates = _candidates(name, gymnasium.registry)
    if not candidates:
        hint = "" if name in entries or "did you mean" in unknown else did_you_mean(name, entries)
        advice = f"; pip install {module}" if module in _MODULES.values() else hint
        raise ConfigError(f"--env {env_id}: {unknown}{advice}")
    return _first_made(env_id, front, candidates, options, unknown)


def _first_made(env_id: str, front: str, candidates: Sequence[str], options: Mapping[str, Any], unknown: str) -> World:
    """The first of ``candidates`` that can be made. ``unknown`` says why the id that was asked for is none of them."""
    import gymnasium

    problem = unknown
    for name in candidates:
        try:
            with _quiet():
                env = gymnasium.make(name, **options)
        except (Exception, SystemExit) as error:  # code of any package
            problem = problem or one_line(error)
            continue
        try:
            why = "is not registered with Gymnasium" if unknown else f"cannot be made ({problem})"
            note = f"{env_id} {why}; {name} is the next version" if problem else ""
            return _world(f"{front}{name}", name, env, note)
        finally:
            env.close()
    words = problem.lower().replace("mujoco_py", "")  # the package of old versions, which no extra has
    extra = next((extra for word, extra in _EXTRAS.items() if word in words and "mujoco-py" not in words), None)
    advice = f"; {pip_install(f'rlcore-gymnasium[{extra}]')}" if extra else ""
    raise ConfigError(f"--env {env_id}: cannot be made: {problem}{advice}")


def _candidates(name: str, registry: Mapping[str, Any]) -> list[str]:
    """``name`` if it is registered, and later versions of it, the next one first."""
    own = _VERSION.fullmatch(name)
    later = [
        match
        for each in registry
        if own
        and (match := _VERSION.fullmatch(each))
        and match["base"] == own["base"]
        and int(match["number"]) > int(own["number"])
    ]
    found = [match[0] for match in sorted(later, key=lambda match: int(match["number"]))]
    if name in registry:
        return [name, *found]
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of Gymnasium about versions, which the result names itself."""
    logger = logging.getLogger("gymnasium")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _world(env_id: str, name: str, env: Any, note: str) -> World:
    from gymnasium import spaces

    action = env.action_space
    halves = middles = None
    if isinstance(action, spaces.Box):
        bounds = [(float(low), float(high)) for low, high in zip(action.low.flat, action.high.flat, strict=True)]
        # rlcore does not rescale a part without bounds.
        bounds = [(low, high) if math.isfinite(high - low) else (-1.0, 1.0) for low, high in bounds]
        halves = tuple((high - low) / 2 for low, high in bounds)
        middles = tuple((high + low) / 2 for low, high in bounds)
    observation = env.observation_space
    parts = observation.spaces.values() if isinstance(observation, spaces.Dict) else (observation,)
    images = any(isinstance(part, spaces.Box) and len(part.shape) == 3 for part in parts)
    return World(env_id, name, halves, middles, images, note)
