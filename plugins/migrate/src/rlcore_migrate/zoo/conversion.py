"""An entry on its way to a configuration, and the rules of ``rules.yaml`` by which most of its keys are converted.

A key of a mapping in the entry is called by both names: ``policy_kwargs.net_arch``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

import attrs

from rlcore import NAME_PATTERN, Problems, did_you_mean
from rlcore_migrate.commented import CommentedFile
from rlcore_migrate.zoo.entry import rules
from rlcore_migrate.zoo.literals import LINEAR, NotPlain, literal
from rlcore_migrate.zoo.worlds import World

_OUTSIDE = ("preset", "environment", "evaluation", "checkpoint_settings")  # keys at the top level


@attrs.define
class Conversion:
    """An entry on its way to a configuration.

    A method that reads a key marks it as read. What is wrong or cannot be converted is collected in ``problems``, with
    the line of the file.

    Attributes:
        name: The name of the entry.
        values: Its keys with their values.
        without: Keys that ``--without`` leaves out, such as ``use_sde`` or ``policy_kwargs.optimizer_class``.
        problems: What is refused.
        algorithm: ``ppo``, ``sac``, ``td3``, ``ddpg``, ``dqn`` or ``qrdqn``.
        world: The environment.
        file: The configuration.
        differences: What rlcore does otherwise, a sentence each.
        numbers: Numbers that rules converted, by key.
        falling: Keys whose values fall to 0 over the run.
        left_out: Values that ``--without`` took from the entry, by key.
        notes: What became of keys that have no line of their own in the result, by key.
        read: Keys that were read.
    """

    name: str
    values: dict[str, Any]
    without: Collection[str]
    problems: Problems
    algorithm: str
    world: World
    file: CommentedFile = attrs.field(factory=CommentedFile)
    differences: list[str] = attrs.field(factory=list)
    numbers: dict[str, Any] = attrs.field(factory=dict)
    falling: list[str] = attrs.field(factory=list)
    left_out: dict[str, Any] = attrs.field(factory=dict)
    notes: dict[str, str] = attrs.field(factory=dict)
    read: set[str] = attrs.field(factory=set)

    @property
    def behavior(self) -> str:
        """The name of the behavior: ``Pong`` of ``ALE/Pong-v5``."""
        name = re.sub(r"-v\d+$", "", self.world.name.rpartition("/")[2])
        name = re.sub(r"[^A-Za-z0-9._-]", "-", name)
        return name if re.fullmatch(NAME_PATTERN, name) else "Agent"

    def facts(self, name: str) -> Any:
        """Return what ``rules.yaml`` says about the algorithm."""
        return rules()["algorithms"][self.algorithm][name]

    # ------------------------------------------------------------ what becomes of a key

    def put(self, path: str, value: Any, comment: str = "") -> None:
        """Add a value: of the block ``environment``, or of the behavior, such as ``hyperparameters.beta``."""
        keys = path.split(".")
        if keys[0] not in _OUTSIDE:
            keys = ["behaviors", self.behavior, *keys]
        self.file.put(keys, value, comment)

    def differ(self, text: str) -> None:
        """Say what rlcore does otherwise."""
        self.differences.append(text)

    def note(self, key: str, text: str) -> None:
        """Say what became of a key that has no line of its own, if the entry has the key."""
        if self.has(key):
            self.notes[key] = text

    def refuse(self, key: str, reason: str, without: str | None = None) -> None:
        """Refuse a key. ``without`` says what a conversion with ``--without KEY`` does; None if it does not help."""
        # The line of the file is that of the key of the entry, also for a key in a mapping.
        outer, _, inner = key.partition(".")
        path = (self.name, outer) if key else (self.name,)
        front = f"{inner}: " if inner else ""
        advice = "" if without is None else f"; --without {key} {without}"
        self.problems.add(path, f"{front}{reason}{advice}")

    def origin(self, key: str) -> str:
        """Where a value comes from, for a comment: the key, or a default of Stable-Baselines3."""
        if self.has(key):
            return key.replace(".", ": ")
        _, _, name = key.rpartition(".")
        return f"Stable-Baselines3's default of {name}"

    # ------------------------------------------------------------ the value of a key

    def has(self, key: str) -> bool:
        """Whether the entry has the key, and ``--without`` does not leave it out."""
        return key in self.values and key not in self.without

    def raw(self, key: str, default: Any = None) -> Any:
        """Return the value of a key as it is written."""
        self.read.add(key)
        if self.has(key):
            return self.values[key]
        if key in self.values:
            self.left_out[key] = self.values[key]
        return default

    def number(self, key: str, default: float, *, minimum: float | None = None, above: float | None = None) -> Any:
        """Return a number of at least ``minimum``, or above ``above``; a whole one if ``default`` is whole."""
        number = _number(self.raw(key, default))
        whole = isinstance(default, int)
        if number is None:
            wanted = "a number"
        elif whole and not number.is_integer():
            wanted = "a whole number"
        elif minimum is not None and number < minimum:
            wanted = f"at least {minimum:g}"
        elif above is not None and number <= above:
            wanted = f"above {above:g}"
        else:
            return int(number) if whole else number
        return self.wrong(key, wanted, default)

    def wrong(self, key: str, wanted: str, default: Any = None) -> Any:
        """Refuse the value of a key, which is not what is wanted; return ``default``."""
        self.refuse(key, f"must be {wanted}, not {self.values[key]!r}")
        return default

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.raw(key, default)
        if isinstance(value, bool):
            return value
        return bool(self.wrong(key, "true or false", default))

    def schedule(self, key: str, default: float) -> tuple[float, bool]:
        """Return the initial value, and whether it falls to 0 over the run: ``lin_0.001``."""
        value = self.raw(key, default)
        if not isinstance(value, str) or _number(value) is not None:
            return self.number(key, default, above=0.0), False
        linear = LINEAR.fullmatch(value.strip())
        if linear and float(linear["initial"]) > 0.0:
            return float(linear["initial"]), True
        return self.wrong(key, "a number or lin_NUMBER, such as lin_0.001", default), False

    def unfold(self, key: str) -> None:
        """Read a mapping, which may be a text of Python: each of its keys becomes one of the entry, ``key.NAME``."""
        value = self.raw(key)
        if isinstance(value, str):
            try:
                value = literal(value)
            except NotPlain as error:
                self.refuse(key, str(error), "converts without it")
                return
        if isinstance(value, Mapping):
            self.values |= {f"{key}.{name}": each for name, each in value.items()}
        elif value is not None:
            self.wrong(key, "a mapping, or a text such as 'dict(...)'")

    def finish(self) -> None:
        """Refuse the keys that were not read."""
        for key in self.values:
            if key in self.read:
                continue
            if key in self.without:
                self.raw(key)
                continue
            block, _, name = key.rpartition(".")
            parts = [known.rpartition(".") for known in self.read]
            siblings = [known_name for known_block, _, known_name in parts if known_block == block]
            hint = did_you_mean(name, siblings)
            self.refuse(key, f"not a key that rlcore can convert{hint}", "converts without it")

    # ------------------------------------------------------------ rules

    def apply(self, *names: str) -> None:
        """Convert the keys that the rules called ``names`` are about."""
        for name in names:
            for key, rule in rules()["rules"][name].items():
                if "to" in rule:
                    self._convert(key, rule)
                    continue
                self.note(key, rule.get("note", "null"))
                same = rule.get("only")
                value = self.raw(key, same)
                if value != same and "refuse" in rule:
                    self.refuse(key, rule["refuse"].format(self.algorithm), rule["without"])

    def _convert(self, key: str, rule: dict[str, Any]) -> None:
        """Convert a number or a flag; a number that falls to 0 over the run with its schedule."""
        default = rule["default"]
        if "optional" in rule and self.raw(key) is None:
            self.note(key, rule["note"])
        elif "schedule" in rule:
            self._convert_schedule(key, rule)
        else:
            if isinstance(default, bool):
                value = self.flag(key, default)
            else:
                value = self.number(key, default, minimum=rule.get("minimum"), above=rule.get("above"))
            self.numbers[key] = value
            if value == 0:
                value = rule.get("zero", value)
            self.put(rule["to"], value, self.origin(key))

    def _convert_schedule(self, key: str, rule: dict[str, Any]) -> None:
        target = rule["to"]
        value, falls = self.schedule(key, rule["default"])
        origin = f"{key}: lin_{value:g}" if falls else self.origin(key)
        self.put(target, value, origin)
        if not rule["schedule"]:
            self.differ(f"{key}: {rule['otherwise']}")
            if falls:
                self.refuse(key, rule["refuse"], rule["without"])
            return
        self.put(f"{target}_schedule", "linear" if falls else "constant")
        if falls:
            self.falling.append(key)
            if "final" in rule:
                self.put(rule["final"], 0.0, "lin_ falls to 0")


def _number(value: Any) -> float | None:
    """The finite number that a value stands for; YAML 1.1 reads 3e-4 as text, because it has no dot."""
    if isinstance(value, bool):  # Python counts them as numbers
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
