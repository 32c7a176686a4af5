"""Warnings of MuJoCo's C code, which prints one for every copy of an environment: logged once instead."""

from __future__ import annotations

import importlib
import logging
import re
import sys

import attrs
import gymnasium

log = logging.getLogger("rlcore.plugin.gymnasium")


@attrs.define(eq=False)
class OncePerText:
    """Logs what MuJoCo warns of, each text once. Texts that differ in numbers alone, such as times, count as one."""

    _seen: set[str] = attrs.field(factory=set)

    def __call__(self, text: str) -> None:
        """Called by MuJoCo with a warning."""
        kind = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", text)
        if kind in self._seen:
            return
        self._seen.add(kind)
        log.warning("MuJoCo: %s (reported once)", text.strip())


def warn_once(env_id: str) -> None:
    """Log MuJoCo's warnings once in this process from now on, if ``env_id`` is an environment that uses MuJoCo.

    Importing the module of the environment, which makes it next, shows whether it does. A program that takes the
    warnings itself continues to get them.
    """
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    if spec is not None and isinstance(spec.entry_point, str):
        importlib.import_module(spec.entry_point.partition(":")[0])
    mujoco = sys.modules.get("mujoco")
    if mujoco is not None and mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(OncePerText())
