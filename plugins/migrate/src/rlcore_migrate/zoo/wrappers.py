"""``env_wrapper``, ``frame_stack`` and ``env_kwargs``: what stands around an environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from rlcore import ConfigError
from rlcore_migrate.zoo.conversion import Conversion
from rlcore_migrate.zoo.entry import rules
from rlcore_migrate.zoo.worlds import atari_game

_ATARI = "stable_baselines3.common.atari_wrappers.AtariWrapper"
_MOST_FRAMES = 4  # rlcore-gymnasium takes so many channels in front for an image
_WITHOUT = "leaves all wrappers out"


def convert_environment(c: Conversion) -> None:
    """Write the block ``environment``, and ``clip_rewards`` for a game of Atari."""
    options = c.raw("env_kwargs") or {}
    if not isinstance(options, Mapping):
        c.wrong("env_kwargs", "a mapping")
        options = {}
    wrappers = dict(_wrappers(c))
    atari = wrappers.pop(_ATARI, None)
    frames = c.number("frame_stack", 1, minimum=1)
    c.put("environment.id", c.world.id, f"entry {c.name}" if c.name != c.world.name else "")
    c.put("environment.num_envs", c.numbers["n_envs"], c.origin("n_envs"))
    if atari_game(c.world.name):
        _atari(c, atari, frames)
    elif atari is not None:
        c.refuse("env_wrapper", f"AtariWrapper is for games of Atari, and {c.world.name} is not one", _WITHOUT)
    elif frames > 1:
        _gray_frames(c, wrappers, frames)
        # VecFrameStack begins an episode with frames of zeros.
        wrappers["FrameStackObservation"] = {"stack_size": frames, "padding_type": "zero"}
    for key, value in options.items():
        c.put(f"environment.options.{key}", value, "env_kwargs")
    if wrappers:
        keys = [key for key in ("env_wrapper", "frame_stack") if c.has(key)]
        entries = [{"name": name, **arguments} for name, arguments in wrappers.items()]
        c.put("environment.wrappers", entries, " and ".join(keys))


def _wrappers(c: Conversion) -> Iterator[tuple[str, dict[str, Any]]]:
    """The wrappers of an entry, by their names here: one name, or a list of names and of {name: arguments}."""
    written = c.raw("env_wrapper") or []
    entries = written if isinstance(written, list) else [written]
    for entry in entries:
        name = entry
        arguments = None
        if isinstance(entry, Mapping) and len(entry) == 1:
            ((name, arguments),) = entry.items()
        arguments = arguments or {}
        if not isinstance(name, str) or "." not in name or not isinstance(arguments, Mapping):
            reason = f"must name classes, module.Class, with their arguments, not {entry!r}"
            c.refuse("env_wrapper", reason, _WITHOUT)
        elif name == _ATARI:
            yield name, dict(arguments)
        else:
            yield from _wrapper(c, name, dict(arguments))


def _wrapper(c: Conversion, zoo_name: str, arguments: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The wrapper as ``environment.wrappers`` names it, if a run would find it with these arguments."""
    from rlcore_gymnasium.wrappers import wrapper_entries

    module, _, short = zoo_name.rpartition(".")
    package = module.partition(".")[0]
    name = short if package in ("gymnasium", "gym") else f"{module}:{short}"
    known = rules()["wrappers"].get(zoo_name)
    if known is not None:
        name = known["name"]
        arguments = {**known["arguments"], **arguments}
        if "otherwise" in known:
            c.differ(f"env_wrapper: {known['otherwise']}")
    elif name != short:
        if find_spec(package) is None:
            reason = f"{zoo_name}: {package} is not installed; with it, it is the wrapper '{name}'"
            c.refuse("env_wrapper", reason, _WITHOUT)
            return
        c.note("env_wrapper", f"{name} is code of {package}, which must be installed")
    try:
        wrapper_entries([{"name": name, **arguments}])[0].check(())
    except ConfigError as error:
        c.refuse("env_wrapper", f"{zoo_name}: {error.message}", _WITHOUT)
        return
    yield name, arguments


def _gray_frames(c: Conversion, wrappers: dict[str, dict[str, Any]], frames: int) -> None:
    """Gray frames become channels of an image, so no wrapper keeps an axis for one channel."""
    if c.values.get("policy") != "CnnPolicy":
        return
    gray = wrappers.get("GrayscaleObservation")
    if gray is None or frames > _MOST_FRAMES:
        reason = f"up to {_MOST_FRAMES} gray images make an image with as many channels here"
        c.refuse("frame_stack", reason, "shows one frame")
        return
    gray.pop("keep_dim", None)


def _atari(c: Conversion, wrapper: dict[str, Any] | None, frames: int) -> None:
    """A game in ale-py's vectorized form, which has the steps of AtariWrapper as its own options."""
    if wrapper is None:
        reason = "a game without AtariWrapper is not converted: ale-py's vectorized form always has its preprocessing"
        c.refuse("env_wrapper", reason)
        return
    arguments = rules()["atari"]
    for key, (names, default) in arguments.items():
        for name in names:
            c.put(f"environment.options.{name}", wrapper.get(key, default), f"AtariWrapper: {key}")
    c.put("environment.options.use_fire_reset", True, "AtariWrapper presses FIRE where a game waits for it")
    c.put("environment.options.stack_num", frames, c.origin("frame_stack"))
    if wrapper.get("terminal_on_life_loss", True):
        c.put("evaluation.interval", None, "a number of steps also evaluates while the run trains")
        scores = "an evaluation plays whole games, whose score RL Zoo reports too"
        c.put("evaluation.environment.options.episodic_life", False, scores)
    for key in wrapper:
        if key not in arguments and key != "clip_reward":
            c.refuse("env_wrapper", f"{key} is not an argument of AtariWrapper", _WITHOUT)
    if wrapper.get("clip_reward", True):
        c.put("hyperparameters.clip_rewards", 1.0, "AtariWrapper: clip_reward; scores are reported as they are")
    c.note("env_wrapper", "AtariWrapper: options of ale-py's vectorized form, which has the same steps")
