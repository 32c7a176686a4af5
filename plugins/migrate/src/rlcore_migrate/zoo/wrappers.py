"""``env_wrapper``, ``frame_stack`` and ``env_kwargs``: what stands around an environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from rlcore import ConfigError
from rlcore_migrate.zoo.conversion import Conversion
from rlcore_migrate.zoo.worlds import atari_game

__all__ = ["convert_environment"]

_ATARI = "stable_baselines3.common.atari_wrappers.AtariWrapper"
_TIME = ("sb3_contrib.common.wrappers.TimeFeatureWrapper", "rl_zoo3.wrappers.TimeFeatureWrapper")
_SKIP = "rl_zoo3.wrappers.FrameSkip"
_RESIZE = "rl_zoo3.wrappers.YAMLCompatResizeObservation"
# Options of ale-py's vectorized form, by the arguments of AtariWrapper; with the defaults of the latter.
_ATARI_OPTIONS = {
    "noop_max": (("noop_max",), 30),
    "frame_skip": (("frameskip",), 4),
    "screen_size": (("img_height", "img_width"), 84),
    "terminal_on_life_loss": (("episodic_life",), True),
    "action_repeat_probability": (("repeat_action_probability",), 0.0),
}
_MOST_FRAMES = 4  # rlcore-gymnasium takes so many channels in front for an image
_WITHOUT = "leaves all wrappers out"


def convert_environment(c: Conversion) -> None:
    """Write the block ``environment``, and ``clip_rewards`` for a game of Atari."""
    options = _options(c)
    wrappers = list(_wrappers(c))
    frames = c.entry.number("frame_stack", 1, whole=True, minimum=1)
    c.put("environment.id", c.world.id, f"entry {c.entry.name}" if c.entry.name != c.world.name else "")
    c.put("environment.num_envs", c.num_envs, c.entry.origin("n_envs"))
    atari = [arguments for name, arguments in wrappers if name == _ATARI]
    if atari_game(c.world.name):
        _atari(c, atari[0] if atari else None, frames)
        wrappers = [wrapper for wrapper in wrappers if wrapper[0] != _ATARI]
    elif atari:
        c.entry.refuse("env_wrapper", f"AtariWrapper is for games of Atari, and {c.world.name} is not one", _WITHOUT)
    elif frames > 1:
        wrappers += _stacked(c, wrappers, frames)
    for key, value in options.items():
        c.put(f"environment.options.{key}", value, "env_kwargs")
    if wrappers:
        keys = " and ".join(key for key in ("env_wrapper", "frame_stack") if c.entry.has(key))
        c.put("environment.wrappers", [{"name": name, **arguments} for name, arguments in wrappers], keys)


def _options(c: Conversion) -> dict[str, Any]:
    given = c.entry.raw("env_kwargs")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        c.entry.refuse("env_kwargs", f"must be a mapping, not {given!r}")
        return {}
    return dict(given)


def _wrappers(c: Conversion) -> Iterator[tuple[str, dict[str, Any]]]:
    """The wrappers of an entry: one name, or a list of names and of mappings from a name to its arguments."""
    given = c.entry.raw("env_wrapper")
    for each in given if isinstance(given, list) else [] if given is None else [given]:
        name: Any = each
        arguments: Any = {}
        if isinstance(each, Mapping) and len(each) == 1:
            ((name, arguments),) = each.items()
        if not isinstance(name, str) or "." not in name or not isinstance(arguments or {}, Mapping):
            c.entry.refuse(
                "env_wrapper", f"must name classes, module.Class, with their arguments, not {each!r}", _WITHOUT
            )
            continue
        found = _wrapper(c, name, dict(arguments or {}))
        if found is not None and (found[0] == _ATARI or _is_known(c, name, *found)):
            yield found


def _wrapper(c: Conversion, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The wrapper as ``environment.wrappers`` names it."""
    module, _, short = name.rpartition(".")
    package = module.partition(".")[0]
    if name == _ATARI:
        return name, arguments
    if name == _RESIZE:
        return "ResizeObservation", arguments
    if name == _SKIP:
        c.differences.append(
            "env_wrapper: FrameSkip shows the last of the skipped frames; MaxAndSkipObservation of Gymnasium shows the "
            "larger value of the last two. With rl_zoo3 installed, 'rl_zoo3.wrappers:FrameSkip' does the same."
        )
        return "MaxAndSkipObservation", {"skip": arguments.get("skip", 4)}
    if name in _TIME:
        c.differences.append(
            "env_wrapper: TimeFeatureWrapper adds the share of the episode that remains; TimeAwareObservation adds the "
            "share that is over."
        )
        return "TimeAwareObservation", {"normalize_time": True}
    if package in ("gymnasium", "gym"):
        return short, arguments
    if find_spec(package) is None:
        c.entry.refuse(
            "env_wrapper",
            f"{name}: {package} is not installed; with it, it is the wrapper '{module}:{short}'",
            _WITHOUT,
        )
        return None
    c.entry.note("env_wrapper", f"{module}:{short} is code of {package}, which must be installed")
    return f"{module}:{short}", arguments


def _stacked(
    c: Conversion, wrappers: list[tuple[str, dict[str, Any]]], frames: int
) -> list[tuple[str, dict[str, Any]]]:
    """The wrapper that stacks frames. Gray ones become channels of an image, so ``wrappers`` keep no axis for one."""
    if c.entry.values.get("policy") == "CnnPolicy":
        gray = [arguments for name, arguments in wrappers if name == "GrayscaleObservation"]
        if not gray or frames > _MOST_FRAMES:
            c.entry.refuse(
                "frame_stack", f"up to {_MOST_FRAMES} gray images make an image with as many channels here",
                "shows one frame",
            )  # fmt: skip
        for arguments in gray:
            arguments.pop("keep_dim", None)
    # VecFrameStack begins an episode with frames of zeros.
    return [("FrameStackObservation", {"stack_size": frames, "padding_type": "zero"})]


def _is_known(c: Conversion, zoo_name: str, name: str, arguments: dict[str, Any]) -> bool:
    """Whether a run would find the wrapper, with these arguments; if not, the key is refused."""
    from rlcore_gymnasium.wrappers import wrapper_entries

    try:
        wrapper_entries([{"name": name, **arguments}])[0].check(())
    except ConfigError as error:
        c.entry.refuse("env_wrapper", f"{zoo_name}: {error.message}", _WITHOUT)
        return False
    return True


def _atari(c: Conversion, wrapper: dict[str, Any] | None, frames: int) -> None:
    """A game in ale-py's vectorized form, which has the steps of AtariWrapper as its own options."""
    if wrapper is None:
        c.entry.refuse(
            "env_wrapper", "a game without AtariWrapper is not converted: ale-py's vectorized form always has the "
            "preprocessing of AtariWrapper",
        )  # fmt: skip
        return
    arguments = dict(wrapper)
    for key, (names, default) in _ATARI_OPTIONS.items():
        for name in names:
            c.put(f"environment.options.{name}", arguments.get(key, default), f"AtariWrapper: {key}")
    c.put("environment.options.use_fire_reset", True, "AtariWrapper presses FIRE where a game waits for it")
    c.put("environment.options.stack_num", frames, c.entry.origin("frame_stack"))
    if arguments.get("terminal_on_life_loss", True):
        c.put("evaluation.interval", None, "a number of steps also evaluates while the run trains")
        scores = "an evaluation plays whole games, whose score RL Zoo reports too"
        c.put("evaluation.environment.options.episodic_life", False, scores)
    for key in arguments:
        if key not in (*_ATARI_OPTIONS, "clip_reward"):
            c.entry.refuse("env_wrapper", f"{key} is not an argument of AtariWrapper", _WITHOUT)
    if arguments.get("clip_reward", True):
        c.hyperparameter("clip_rewards", 1.0, "AtariWrapper: clip_reward; scores are reported as they are")
    c.entry.note("env_wrapper", "AtariWrapper: options of ale-py's vectorized form, which has the same steps")
