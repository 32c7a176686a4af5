"""An entry on its way to a configuration, and the rules of ``rules.yaml`` by which most of its keys are converted."""

from __future__ import annotations

import re
from typing import Any

import attrs

from rlcore import NAME_PATTERN
from rlcore_migrate.commented import CommentedFile
from rlcore_migrate.zoo.entry import Entry, rules
from rlcore_migrate.zoo.worlds import World

__all__ = ["Conversion"]

_OUTSIDE = ("environment", "evaluation", "checkpoint_settings")  # blocks at the top level


@attrs.define
class Conversion:
    """An entry on its way to a configuration.

    Attributes:
        entry: The entry.
        algorithm: ``ppo``, ``sac``, ``td3``, ``ddpg``, ``dqn`` or ``qrdqn``.
        world: The environment.
        file: The configuration.
        differences: What rlcore does otherwise, a sentence each.
        values: Numbers that rules converted, by key.
        falling: Keys whose values fall to 0 over the run.
    """

    entry: Entry
    algorithm: str
    world: World
    file: CommentedFile = attrs.field(factory=CommentedFile)
    differences: list[str] = attrs.field(factory=list)
    values: dict[str, Any] = attrs.field(factory=dict)
    falling: list[str] = attrs.field(factory=list)

    @property
    def behavior(self) -> str:
        """The name of the behavior: ``Pong`` of ``ALE/Pong-v5``."""
        name = re.sub(r"-v\d+$", "", self.world.name.rpartition("/")[2])
        name = re.sub(r"[^A-Za-z0-9._-]", "-", name)
        return name if re.fullmatch(NAME_PATTERN, name) else "Agent"

    def facts(self, name: str) -> Any:
        """Return what ``rules.yaml`` says about the algorithm."""
        return rules()["algorithms"][self.algorithm][name]

    def put(self, path: str, value: Any, comment: str = "") -> None:
        """Add a value: of the block ``environment``, or of the behavior, such as ``hyperparameters.beta``."""
        keys = path.split(".")
        self.file.put(keys if keys[0] in _OUTSIDE else ("behaviors", self.behavior, *keys), value, comment)

    def apply(self, entry: Entry, *names: str) -> None:
        """Convert the keys of an entry that the rules called ``names`` are about."""
        for name in names:
            for key, rule in rules()["rules"][name].items():
                if "to" in rule:
                    self._convert(entry, key, rule)
                    continue
                entry.note(key, rule.get("note", "null"))
                if entry.raw(key, rule.get("only")) != rule.get("only") and "refuse" in rule:
                    entry.refuse(key, rule["refuse"].format(self.algorithm), rule["without"])

    def _convert(self, entry: Entry, key: str, rule: dict[str, Any]) -> None:
        """Convert a number or a flag; a number that falls to 0 over the run with its schedule."""
        if "optional" in rule and entry.raw(key) is None:
            entry.note(key, rule["note"])
            return
        target = rule["to"]
        if "schedule" in rule:
            value, falls = entry.schedule(key, rule["default"])
            self.put(target, value, f"{key}: lin_{value:g}" if falls else entry.origin(key))
            self.put(f"{target}_schedule", "linear" if falls else "constant")
            if falls:
                self.falling.append(key)
                if "final" in rule:
                    self.put(rule["final"], 0.0, "lin_ falls to 0")
            return
        if isinstance(rule["default"], bool):
            value = entry.flag(key, rule["default"])
        else:
            value = entry.number(key, rule["default"], minimum=rule.get("minimum"), above=rule.get("above"))
        self.values[key] = value
        self.put(target, rule["zero"] if value == 0 and "zero" in rule else value, entry.origin(key))
