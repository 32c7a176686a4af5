"""Wrappers from ``environment.wrappers``: ``[{name: TimeLimit, max_episode_steps: 7}, {name: 'mine:Half'}]``.

Each environment gets wrappers of its own, from the inside out, around those that ``gymnasium.make`` adds. rlcore checks
configurations with this module, so it imports gymnasium on first use.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import ConfigError, RlcoreError, did_you_mean, one_line, pip_install
from rlcore_gymnasium.modules import is_importable, not_importable

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]

__all__ = ["WrapperEntry", "wrapper_entries"]

KEY = ("environment", "wrappers")
_OWN_CLASS = "write the class in a Python file beside the configuration, such as mine.py, and name it 'mine:Class'"
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "NormalizeObservation": "a checkpoint would not have its running statistics, and each environment would have "
        "its own; write network_settings: {normalize: true} in the behavior instead",
        "NormalizeReward": "a checkpoint would not have its running statistics, and scaled returns would be reported; "
        "write hyperparameters: {normalize_rewards: true} in the behavior instead",
        "VecNormalize": "a wrapper of Stable-Baselines3; write network_settings: {normalize: true} for observations "
        "and hyperparameters: {normalize_rewards: true} for rewards, in the behavior",
        "VecFrameStack": "a wrapper of Stable-Baselines3; write {name: FrameStackObservation, stack_size: 4}",
        "DummyVecEnv": "a wrapper of Stable-Baselines3; write environment.num_envs instead",
        "SubprocVecEnv": "a wrapper of Stable-Baselines3; write environment.num_envs and environment.workers instead",
        "Monitor": "a wrapper of Stable-Baselines3; a run reports episodes itself; leave it out",
        "RecordVideo": "rlcore evaluate RUN --video DIRECTORY films whole episodes; leave it out",
        "RenderCollection": "nothing reads the pictures that it collects; leave it out",
        "Autoreset": "a run resets environments itself, in the step that ends an episode; leave it out",
        "TransformAction": f"its argument is a function, which a file cannot have; {_OWN_CLASS}",
        "TransformObservation": f"its argument is a function, which a file cannot have; {_OWN_CLASS}",
        "TransformReward": f"its argument is a function, which a file cannot have; {_OWN_CLASS}",
    }
)


@attrs.frozen
class WrapperEntry:
    """An entry of ``environment.wrappers``, which wraps an environment when called.

    Attributes:
        index: Place of the entry in the list.
        name: A class of ``gymnasium.wrappers``, or ``module:Class``.
        arguments: Keyword arguments of the class.
    """

    index: int
    name: str
    arguments: Mapping[str, Any]

    @property
    def module(self) -> str:
        """The module that the name names; empty for a class of Gymnasium."""
        return self.name.rpartition(":")[0]

    def __call__(self, env: Env) -> Env:
        """Return the environment in the wrapper. Raises ConfigError if the class refuses it or its arguments."""
        import gymnasium

        cls = self.resolve()
        self._check_arguments(cls)
        self._check_skipping(env)
        arguments = self._converted(env) if _is_gymnasiums(cls) else self.arguments
        try:
            wrapped: Env = cls(env, **arguments)
        except RlcoreError:
            raise
        except gymnasium.error.DependencyNotInstalled as error:
            raise self.error(f"{one_line(error)}; run: {pip_install('rlcore-gymnasium[images]')}") from error
        except (Exception, SystemExit) as error:
            raise self.error(f"{self.name} cannot wrap {env}: {one_line(error)}") from error
        return wrapped

    def resolve(self) -> type[gymnasium.Wrapper[Any, Any, Any, Any]]:
        """Return the class. Raises ConfigError if there is none of this name, or if it is refused."""
        import gymnasium

        if not self.module:
            self.check(())
            standard: type[gymnasium.Wrapper[Any, Any, Any, Any]] = getattr(gymnasium.wrappers, self.name)
            return standard
        try:
            module = importlib.import_module(self.module)
        except (Exception, SystemExit) as error:
            raise not_importable(self.name, self.module, one_line(error), self.key) from error
        name = self.name.rpartition(":")[2]
        cls = getattr(module, name, None)
        # Nothing else of a module is called: a file from elsewhere must not choose a function and its arguments.
        if not inspect.isclass(cls) or not issubclass(cls, gymnasium.Wrapper):
            problem = "has no class" if cls is None else "has something other than a class of gymnasium.Wrapper as"
            raise self.error(f"{self.module} {problem} {name!r}{did_you_mean(name, _classes(module))}")
        if _is_gymnasiums(cls) and cls.__name__ in REFUSED:
            raise self.error(f"{cls.__name__}: {REFUSED[cls.__name__]}")
        return cls

    def check(self, local: Collection[str]) -> None:
        """Raise ConfigError for what cannot be right. No module but Gymnasium is imported; ``local`` ones exist."""
        if self.module:
            if not is_importable(self.module, local):
                raise not_importable(self.name, self.module, "it is not installed", self.key)
            return
        if self.name in REFUSED:
            raise self.error(f"{self.name}: {REFUSED[self.name]}")
        import gymnasium

        names = _classes(gymnasium.wrappers)
        if self.name not in names:
            elsewhere = " (a class of another module is written 'its_module:Class')"
            raise self.error(f"gymnasium.wrappers has no {self.name!r}{did_you_mean(self.name, names) or elsewhere}")
        self._check_arguments(getattr(gymnasium.wrappers, self.name))

    @property
    def key(self) -> tuple[str, str, int]:
        """Place of the entry in a configuration."""
        return (*KEY, self.index)

    def error(self, message: str, *below: str) -> ConfigError:
        """Return an error at the entry, or at its key ``below``."""
        return ConfigError(message, key=(*self.key, *below))

    def _check_arguments(self, cls: Any) -> None:
        try:
            parameters = list(inspect.signature(cls).parameters.values())[1:]  # after the environment
        except (TypeError, ValueError):  # a class written in C: the call says what is wrong
            return
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        named = [parameter.name for parameter in parameters if parameter.kind in by_name]
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        for name in self.arguments:
            if name not in named and not takes_any:
                known = f" (its arguments: {', '.join(named)})" if named else "; it has none"
                raise self.error(f"{self.name} has no argument {name!r}{did_you_mean(name, named)}{known}", name)
        required = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
        missing = sorted(required.intersection(named) - self.arguments.keys())
        if missing:
            raise self.error(f"{self.name} needs the argument {missing[0]!r}; write it beside the name")

    def _check_skipping(self, env: Env) -> None:
        """Refuse Atari preprocessing around a game that skips frames itself."""
        frames = getattr(env.unwrapped, "_frameskip", 1)
        if self.name == "AtariPreprocessing" and self.arguments.get("frame_skip", 4) > 1 and frames != 1:
            raise ConfigError(
                f"must be 1, because AtariPreprocessing skips frames itself, and the game would skip {frames} of each; "
                "write options: {frameskip: 1}",
                key=("environment", "options", "frameskip"),
            )

    def _converted(self, env: Env) -> dict[str, Any]:
        """The arguments with lists as Gymnasium's classes want them: a bound as an array, anything else as a tuple."""
        import numpy as np

        spaces = {"min_action": env.action_space, "max_action": env.action_space}
        spaces |= dict.fromkeys(("min_obs", "max_obs", "padding_type"), env.observation_space)
        converted = dict(self.arguments)
        for name, value in self.arguments.items():
            if not isinstance(value, list):
                continue
            space = spaces.get(name)
            converted[name] = tuple(value) if space is None else np.array(value, space.dtype)
        return converted


def wrapper_entries(listed: Iterable[Any]) -> Sequence[WrapperEntry]:
    """Return the entries of ``environment.wrappers``. Raises ConfigError for one of another form."""
    entries = []
    for index, entry in enumerate(listed):
        arguments = dict(entry) if isinstance(entry, Mapping) else {"name": entry}
        name = arguments.pop("name", None)
        wrapper = WrapperEntry(index, str(name), arguments)
        if not isinstance(name, str) or not name or not all(isinstance(key, str) for key in arguments):
            raise wrapper.error(
                "must be the name of a wrapper, or a mapping with name and the arguments of the class, such as "
                f"{{name: TimeLimit, max_episode_steps: 7}}, not {entry!r:.80}"
            )
        entries.append(wrapper)
    return entries


def _classes(module: ModuleType) -> list[str]:
    """The names of the wrappers of a module."""
    import gymnasium

    members = vars(module).items()
    return [name for name, member in members if inspect.isclass(member) and issubclass(member, gymnasium.Wrapper)]


def _is_gymnasiums(cls: type) -> bool:
    return cls.__module__.startswith("gymnasium.wrappers.")
