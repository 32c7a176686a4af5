"""Modules that a configuration names: in the id of an environment, and in wrappers."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.util import find_spec

from rlcore import ConfigError, KeyPath


def is_importable(module: str, local: Collection[str]) -> bool:
    """Whether there is such a module. It is not imported. ``local`` are the files that the configuration names."""
    package = module.partition(".")[0]
    if module in sys.modules or package in local:
        return True
    try:
        return bool(package) and find_spec(package) is not None
    except ValueError:  # __main__ and the like, which cannot be looked for
        return True


def not_importable(name: str | None, module: str, reason: str, key: KeyPath) -> ConfigError:
    """The error about a ``name`` whose module cannot be imported."""
    hint = "; run: pip install 'rlcore-gymnasium[atari]'" if module == "ale_py" else ""
    if not hint and "." not in module and "not installed" in reason:
        hint = f", and there is no {module}.py beside the configuration"
    return ConfigError(f"{name!r}: cannot import {module!r}: {reason}{hint}", key=key)
