"""One entry of a file of RL Zoo: which one, its values, and what is refused of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore import ConfigError, Document, Problems, did_you_mean
from rlcore_migrate.zoo.literals import NotPlain, literal

__all__ = ["ALGORITHMS", "Entry", "algorithm_of", "choose_entry", "entries_of"]

ALGORITHMS = ("ppo", "sac", "td3", "ddpg", "dqn", "qrdqn")
# Other files of RL Zoo, and what to do with them.
_OTHERS = {
    "a2c": "no trainer of rlcore is A2C; PPO with num_epoch 1 and one minibatch is, and so is examples/a2c_plugin",
    "ars": "no trainer of rlcore is ARS",
    "crossq": "no trainer of rlcore is CrossQ",
    "her": "hindsight replay is hyperparameters.replay_sampler: {type: her} here, of rlcore-her",
    "ppo_lstm": "convert the entry of ppo.yml, and add network_settings.memory to the result",
    "tqc": "no trainer of rlcore is TQC, but that of examples/tqc_plugin",
    "trpo": "no trainer of rlcore is TRPO",
}
_SHARED = ("atari", "default")  # entries for environments that have none of their own
_VERSION = re.compile(r"(?P<base>.+)-v(?P<number>\d+)")
_LINEAR = re.compile(r"lin_(?P<initial>\d[\d.]*(?:e[+-]?\d+)?)")


def algorithm_of(path: Path, given: str | None) -> str:
    """Return the algorithm of a file: ``given``, or that of its name, such as ``ppo.yml``."""
    name = given or path.stem.lower()
    if name in ALGORITHMS:
        return name
    known = f"--algo {'|'.join(ALGORITHMS)}"
    if name in _OTHERS:
        raise ConfigError(f"{path}: {_OTHERS[name]}; this command converts {', '.join(ALGORITHMS)}")
    if given is not None:
        raise ConfigError(f"--algo {given}: not an algorithm that can be converted{did_you_mean(given, ALGORITHMS)}")
    raise ConfigError(f"{path}: its name does not say the algorithm, as ppo.yml does; add {known}")


@attrs.define
class Entry:
    """The hyperparameters of one environment, as they are converted one by one.

    A method that reads a key marks it as read. What is wrong or cannot be converted is collected in ``problems``, with
    the line of the file.

    Attributes:
        document: The file.
        name: The key of the entry.
        values: Its keys with their values.
        without: Keys that ``--without`` leaves out, such as ``use_sde`` or ``policy_kwargs.optimizer_class``.
        problems: What is refused.
        read: Keys that were read, or are left out.
        left_out: Values that ``--without`` took from the entry, by key.
        notes: What became of keys that have no line of their own in the result, by key.
        inside: The key that these values are the mapping of, such as ``policy_kwargs``; empty for the entry itself.
    """

    document: Document
    name: str
    values: Mapping[str, Any]
    without: Collection[str] = ()
    problems: Problems = attrs.field(kw_only=True)
    left_out: dict[str, Any] = attrs.field(factory=dict, kw_only=True)
    notes: dict[str, str] = attrs.field(factory=dict, kw_only=True)
    inside: str = attrs.field(default="", kw_only=True)
    read: set[str] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, document: Document, name: str, without: Collection[str] = ()) -> Entry:
        """Return the entry called ``name`` of a file. Raises ConfigError if it is not a mapping."""
        values = document.data[name]
        if not isinstance(values, Mapping):
            place = document.where((name,))
            raise ConfigError(f"{place}: {name}: must be a mapping of hyperparameters, not {values!r}")
        return cls(document, name, values, without, problems=Problems(document))

    def full(self, key: str) -> str:
        """Return a key with the mapping that it is in: ``policy_kwargs.net_arch``."""
        return f"{self.inside}.{key}" if self.inside else key

    def has(self, key: str) -> bool:
        """Whether the entry has the key, and ``--without`` does not leave it out."""
        return key in self.values and key not in self.without

    def refuse(self, key: str, reason: str, without: str | None = None) -> None:
        """Refuse a key. ``without`` says what a conversion with ``--without KEY`` does; None if it does not help."""
        advice = "" if without is None else f"; --without {self.full(key)} {without}"
        path, place = ((self.inside,), f"{key}: ") if self.inside else ((key,) if key else (), "")
        self.problems.add((self.name, *path), f"{place}{reason}{advice}")

    def note(self, key: str, text: str) -> None:
        """Say what became of a key that has no line of its own, if the entry has the key."""
        if self.has(key):
            self.notes[self.full(key)] = text

    def raw(self, key: str, default: Any = None) -> Any:
        """Return the value of a key as it is written."""
        self.read.add(key)
        if key in self.values and key in self.without:
            self.left_out[self.full(key)] = self.values[key]
        return self.values[key] if self.has(key) else default

    def number(
        self, key: str, default: float, *, whole: bool = False, minimum: float | None = None, above: float | None = None
    ) -> Any:
        """Return a number of at least ``minimum``, or above ``above``; with ``whole``, as an int."""
        value = self.raw(key, default)
        found = _number(value)
        problem = ""
        if found is None:
            problem = f"must be a number, not {value!r}"
        elif whole and not found.is_integer():
            problem = f"must be a whole number, not {value!r}"
        elif minimum is not None and found < minimum:
            problem = f"must be at least {minimum:g}, not {value!r}"
        elif above is not None and found <= above:
            problem = f"must be above {above:g}, not {value!r}"
        if problem or found is None:
            self.refuse(key, problem)
            return default
        return int(found) if whole else found

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.raw(key, default)
        if not isinstance(value, bool):
            self.refuse(key, f"must be true or false, not {value!r}")
            return default
        return value

    def schedule(self, key: str, default: float) -> tuple[float, bool]:
        """Return the initial value, and whether it falls to 0 over the run: ``lin_0.001``."""
        value = self.values[key] if self.has(key) else default
        if isinstance(value, str) and _number(value) is None:
            self.read.add(key)
            if (linear := _LINEAR.fullmatch(value.strip())) and float(linear["initial"]) > 0.0:
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
        return Entry(
            self.document,
            self.name,
            dict(value or {}),
            [name.removeprefix(f"{key}.") for name in self.without if name.startswith(f"{key}.")],
            problems=self.problems,
            left_out=self.left_out,
            notes=self.notes,
            inside=key,
        )

    def finish(self, known: Collection[str]) -> None:
        """Refuse the keys that were not read. ``known`` are those that messages compare them with."""
        for key in self.values:
            if key in self.read:
                continue
            if key in self.without:
                self.raw(key)
            else:
                hint = did_you_mean(key, known)
                self.refuse(key, f"not a key that rlcore can convert{hint}", "converts without it")

    def origin(self, key: str) -> str:
        """Where a value comes from, for a comment: the key, or a default of Stable-Baselines3."""
        if not self.has(key):
            return f"Stable-Baselines3's default of {key}"
        return f"{self.inside}: {key}" if self.inside else key


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


def choose_entry(document: Document, env_id: str, without: Collection[str], is_atari: bool) -> tuple[Entry, str]:
    """Return the entry for an environment, and what a reader should know about the choice, or an empty text.

    Like RL Zoo: the entry of the id, else ``atari`` for a game of Atari, else ``default``; but the entry of another
    version of the same environment is preferred to ``default``. Raises ConfigError if there is none.
    """
    data = document.data
    if env_id in _SHARED:
        raise ConfigError(f"--env {env_id}: the name of an entry for many environments; name one, as Gymnasium does")
    others = _other_versions(env_id, data)
    note = ""
    if env_id in data:
        name = env_id
    elif is_atari and "atari" in data:
        name = "atari"
    elif others:
        name = others[-1]
        note = f"the file has no entry {env_id}: this is the entry of {name}"
    elif "default" in data:
        name = "default"
        note = f"the file has no entry {env_id}: this is its entry 'default', as in RL Zoo"
    else:
        own = [each for each in data if each not in _SHARED]
        hint = did_you_mean(env_id, own)
        raise ConfigError(f"{document.path}: has no entry {env_id}{hint}; it {entries_of(data)}")
    return Entry.of(document, name, without), note


def entries_of(names: Iterable[str]) -> str:
    """Return ``has entries for CartPole-v1, Pendulum-v1 and 30 more``."""
    own = [name for name in names if name not in _SHARED]
    shown = ", ".join(own[:8]) + (f" and {len(own) - 8} more" if len(own) > 8 else "")
    return f"has entries for {shown or 'no environment'}"


def _other_versions(env_id: str, names: Collection[str]) -> list[str]:
    """The names of other versions of an environment, the highest last."""
    own = _VERSION.fullmatch(env_id)
    found = [match for name in names if (match := _VERSION.fullmatch(name)) and own and match["base"] == own["base"]]
    return [match[0] for match in sorted(found, key=lambda match: int(match["number"]))]
