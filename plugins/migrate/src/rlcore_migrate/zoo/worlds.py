"""The environment of an entry: the id that is registered today, and its spaces."""

from __future__ import annotations

import logging
import math
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from rlcore import ConfigError, did_you_mean, one_line, pip_install
from rlcore_migrate.zoo.entry import rules, versions

_ATARI = re.compile(r"(?:ALE/(?P<game>[A-Z][A-Za-z0-9]*)-v5|(?P<old>[A-Z][A-Za-z0-9]*)NoFrameskip-v4)")


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
    found = _ATARI.fullmatch(env_id.rpartition(":")[2])
    return None if found is None else found["game"] or found["old"]


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
    module, _, name = env_id.rpartition(":")
    game = atari_game(env_id)
    name = f"ALE/{game}-v5" if game else name
    modules = rules()["modules"]
    if not module:
        registering = [modules[form] for form in modules if re.fullmatch(form, name)]
        module = registering[0] if registering else ""
    front = f"{module}:" if module else ""
    unknown = ""
    try:
        with _quiet():
            registered(f"{front}{name}")
    except ConfigError as error:
        unknown = error.message
    if game and not unknown:  # its spaces are known
        return World(f"{front}{name}", name, None, None, True, "")
    known = versions(name, {*gymnasium.registry, name}) or [name]
    from_name = known[known.index(name) :]
    candidates = [version for version in from_name if version in gymnasium.registry]
    if not candidates:
        hint = "" if name in entries or "did you mean" in unknown else did_you_mean(name, entries)
        advice = f"; pip install {module}" if module in modules.values() else hint
        raise ConfigError(f"--env {env_id}: {unknown}{advice}")
    problem = unknown
    for version in candidates:
        try:
            with _quiet():
                env = gymnasium.make(version, **options)
        except (Exception, SystemExit) as error:  # code of any package
            problem = problem or one_line(error)
            continue
        try:
            why = "is not registered with Gymnasium" if unknown else f"cannot be made ({problem})"
            note = f"{env_id} {why}; {version} is the next version" if problem else ""
            return _world(f"{front}{version}", version, env, note)
        finally:
            env.close()
    # mujoco_py is the package of old versions, which no extra has.
    words = re.sub("mujoco[_-]py", "", problem.lower())
    advice = ""
    for word, extra in rules()["extras"].items():
        if word in words:
            advice = f"; {pip_install(f'rlcore-gymnasium[{extra}]')}"
            break
    raise ConfigError(f"--env {env_id}: cannot be made: {problem}{advice}")


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
        bounds = []
        for low, high in zip(action.low.ravel().tolist(), action.high.ravel().tolist(), strict=True):
            bounded = math.isfinite(high - low)  # rlcore does not rescale a part without bounds
            bounds.append((low, high) if bounded else (-1.0, 1.0))
        halves = tuple((high - low) / 2 for low, high in bounds)
        middles = tuple((high + low) / 2 for low, high in bounds)
    observation = env.observation_space
    parts = observation.spaces.values() if isinstance(observation, spaces.Dict) else (observation,)
    images = any(isinstance(part, spaces.Box) and len(part.shape) == 3 for part in parts)
    return World(env_id, name, halves, middles, images, note)
