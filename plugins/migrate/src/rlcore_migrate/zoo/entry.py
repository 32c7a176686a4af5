"""One entry of a file of RL Zoo: which one, its values, and what is refused of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs

from rlcore import ConfigError, Document, Problems, did_you_mean
from rlcore_migrate.zoo.literals import NotPlain, literal

__all__ = ["Entry", "algorithm_of", "choose_entry", "entries_of", "rules", "versions"]

_SHARED = ("atari", "default")  # entries for environments that have none of their own
_VERSION = re.compile(r"(?P<base>.+)-v(?P<number>\d+)")
_LINEAR = re.compile(r"lin_(?P<initial>\d[\d.]*(?:e[+-]?\d+)?)")


@lru_cache(maxsize=1)
def rules() -> Mapping[str, Any]:
    """Return the tables of ``rules.yaml``."""
    import yaml

    return dict(yaml.safe_load(Path(__file__).with_name("rules.yaml").read_text(encoding="utf-8")))


@attrs.define
class Entry:
    """The hyperparameters of one environment, as they are converted one by one.

    A method that reads a key marks it as read. What is wrong or cannot be converted is collected in ``problems``, with
    the line of the file.

    Attributes:
        name: The key of the entry.
        values: Its keys with their values.
        without: Keys that ``--without`` leaves out, such as ``use_sde`` or ``policy_kwargs.optimizer_class``.
        problems: What is refused.
        left_out: Values that ``--without`` took from the entry, by key.
        notes: What became of keys that have no line of their own in the result, by key.
        inside: The key that these values are the mapping of, such as ``policy_kwargs``; empty for the entry itself.
        read: Keys that were read, or are left out.
    """

    name: str
    values: Mapping[str, Any]
    without: Collection[str]
    problems: Problems
    left_out: dict[str, Any] = attrs.field(factory=dict)
    notes: dict[str, str] = attrs.field(factory=dict)
    inside: str = ""
    read: set[str] = attrs.field(factory=set)

    def has(self, key: str) -> bool:
        """Whether the entry has the key, and ``--without`` does not leave it out."""
        return key in self.values and key not in self.without

    def refuse(self, key: str, reason: str, without: str | None = None) -> None:
        """Refuse a key. ``without`` says what a conversion with ``--without KEY`` does; None if it does not help."""
        advice = "" if without is None else f"; --without {self._full(key)} {without}"
        if self.inside:
            self.problems.add((self.name, self.inside), f"{key}: {reason}{advice}")
        else:
            self.problems.add((self.name, key) if key else (self.name,), f"{reason}{advice}")

    def note(self, key: str, text: str) -> None:
        """Say what became of a key that has no line of its own, if the entry has the key."""
        if self.has(key):
            self.notes[self._full(key)] = text

    def raw(self, key: str, default: Any = None) -> Any:
        """Return the value of a key as it is written."""
        self.read.add(key)
        if key in self.values and key in self.without:
            self.left_out[self._full(key)] = self.values[key]
        return self.values[key] if self.has(key) else default

    def number(self, key: str, default: float, *, minimum: float | None = None, above: float | None = None) -> Any:
        """Return a number of at least ``minimum``, or above ``above``; a whole one if ``default`` is whole."""
        value = self.raw(key, default)
        found = _number(value)
        whole = isinstance(default, int)
        if found is None:
            self.refuse(key, f"must be a number, not {value!r}")
        elif whole and not found.is_integer():
            self.refuse(key, f"must be a whole number, not {value!r}")
        elif minimum is not None and found < minimum:
            self.refuse(key, f"must be at least {minimum:g}, not {value!r}")
        elif above is not None and found <= above:
            self.refuse(key, f"must be above {above:g}, not {value!r}")
        else:
            return int(found) if whole else found
        return default

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.raw(key, default)
        if isinstance(value, bool):
            return value
        self.refuse(key, f"must be true or false, not {value!r}")
        return default

    def schedule(self, key: str, default: float) -> tuple[float, bool]:
        """Return the initial value, and whether it falls to 0 over the run: ``lin_0.001``."""
        value = self.raw(key, default)
        if isinstance(value, str) and _number(value) is None:
            linear = _LINEAR.fullmatch(value.strip())
            if linear and float(linear["initial"]) > 0.0:
                return float(linear["initial"]), True
            self.refuse(key, f"must be a number or lin_NUMBER, such as lin_0.001, not {value!r}")
            return default, False
        return self.number(key, default, above=0.0), False

    def mapping(self, key: str) -> Entry:
        """Return a mapping, which may be a text of Python, as an entry of its own; an empty one if it is absent."""
        value = self.raw(key)
        if isinstance(value, str):
            try:
                value = literal(value)
            except NotPlain as error:
                self.refuse(key, str(error), "converts without it")
                value = None
        if value is not None and not isinstance(value, Mapping):
            self.refuse(key, f"must be a mapping, or a text such as 'dict(...)', not {value!r}")
            value = None
        without = [name.removeprefix(f"{key}.") for name in self.without if name.startswith(f"{key}.")]
        return Entry(self.name, dict(value or {}), without, self.problems, self.left_out, self.notes, key)

    def finish(self) -> None:
        """Refuse the keys that were not read."""
        for key in [key for key in self.values if key not in self.read]:
            if key in self.without:
                self.raw(key)
            else:
                hint = did_you_mean(key, self.read)
                self.refuse(key, f"not a key that rlcore can convert{hint}", "converts without it")

    def origin(self, key: str) -> str:
        """Where a value comes from, for a comment: the key, or a default of Stable-Baselines3."""
        if not self.has(key):
            return f"Stable-Baselines3's default of {key}"
        return f"{self.inside}: {key}" if self.inside else key

    def _full(self, key: str) -> str:
        return f"{self.inside}.{key}" if self.inside else key


def _number(value: Any) -> float | None:
    """The finite number that a value stands for; YAML 1.1 reads 3e-4 as text, because it has no dot."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


# ---------------------------------------------------------------- choosing an entry


def algorithm_of(path: Path, given: str | None) -> str:
    """Return the algorithm of a file: ``given``, or that of its name, such as ``ppo.yml``."""
    known = rules()["algorithms"]
    name = given or path.stem.lower()
    if name in known:
        return name
    if name in rules()["others"]:
        raise ConfigError(f"{path}: {rules()['others'][name]}; this command converts {', '.join(known)}")
    if given is not None:
        raise ConfigError(f"--algo {given}: not an algorithm that can be converted{did_you_mean(given, known)}")
    raise ConfigError(f"{path}: its name does not say the algorithm, as ppo.yml does; add --algo {'|'.join(known)}")


def choose_entry(document: Document, env_id: str, without: Collection[str], is_atari: bool) -> tuple[Entry, str]:
    """Return the entry for an environment, and what a reader should know about the choice, or an empty text.

    Like RL Zoo: the entry of the id, else ``atari`` for a game of Atari, else ``default``; but the entry of another
    version of the same environment is preferred to ``default``. Raises ConfigError if there is none.
    """
    data = document.data
    if env_id in _SHARED:
        raise ConfigError(f"--env {env_id}: the name of an entry for many environments; name one, as Gymnasium does")
    candidates = [env_id, *["atari"] * is_atari, *reversed(versions(env_id, data)), "default"]
    name = next((each for each in candidates if each in data), None)
    if name is None:
        hint = did_you_mean(env_id, [each for each in data if each not in _SHARED])
        raise ConfigError(f"{document.path}: has no entry {env_id}{hint}; it {entries_of(data)}")
    note = ""
    if name == "default":
        note = f"the file has no entry {env_id}: this is its entry 'default', as in RL Zoo"
    elif name not in (env_id, "atari"):
        note = f"the file has no entry {env_id}: this is the entry of {name}"
    values = data[name]
    if not isinstance(values, Mapping):
        place = document.where((name,))
        raise ConfigError(f"{place}: {name}: must be a mapping of hyperparameters, not {values!r}")
    return Entry(name, values, without, Problems(document)), note


def entries_of(names: Iterable[str]) -> str:
    """Return ``has entries for CartPole-v1, Pendulum-v1 and 30 more``."""
    own = [name for name in names if name not in _SHARED]
    shown = ", ".join(own[:8]) + (f" and {len(own) - 8} more" if len(own) > 8 else "")
    return f"has entries for {shown or 'no environment'}"


def versions(env_id: str, names: Iterable[str]) -> list[str]:
    """Return the names of versions of an environment, the highest last; none for a name without a version."""
    own = _VERSION.fullmatch(env_id)
    matches = [match for name in names if (match := _VERSION.fullmatch(name)) and own and match["base"] == own["base"]]
    return [match[0] for match in sorted(matches, key=lambda match: int(match["number"]))]
