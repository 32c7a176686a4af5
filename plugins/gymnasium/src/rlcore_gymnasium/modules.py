"""Modules that a configuration names: in the id of an environment, and in wrappers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from importlib.util import find_spec

from rlcore import ConfigError, KeyPath, pip_install
from rlcore_gymnasium.worlds import to_install


def is_importable(module: str, local: Collection[str] = ()) -> bool:
    """Whether there is such a module. It is not imported. ``local`` are the files that the configuration names."""
    package = module.partition(".")[0]
    return module in sys.modules or package in local or _is_installed(package)


def _is_installed(package: str) -> bool:
    try:
        return bool(package) and find_spec(package) is not None
    except ValueError:  # __main__ and the like, which cannot be looked for
        return True


def not_importable(name: str | None, module: str, reason: str, key: KeyPath) -> ConfigError:
    """The error about a ``name`` whose module cannot be imported."""
    absent = "not installed" in reason or "No module named" in reason
    package = to_install(module) if absent else ""
    hint = f"; run: {pip_install(*shlex.split(package))}" if package else ""
    if not package and "." not in module and not is_importable(module):
        hint = f", and there is no {module}.py beside the configuration"
    if "NoSuchDisplay" in reason:  # of pyglet, which MiniWorld opens when it is imported
        hint = "; without a display, set the environment variable PYGLET_HEADLESS=true"
    return ConfigError(f"{name!r}: cannot import {module!r}: {reason}{hint}", key=key)
