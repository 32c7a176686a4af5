"""The tables of ``rules.yaml``, and which entry of a file of RL Zoo is that of an environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlcore import ConfigError, Document, did_you_mean

_SHARED = ("atari", "default")  # entries for environments that have none of their own
_VERSION = re.compile(r"(?P<base>.+)-v(?P<number>\d+)")


@lru_cache(maxsize=1)
def rules() -> Mapping[str, Any]:
    """Return the tables of ``rules.yaml``."""
    import yaml

    return dict(yaml.safe_load(Path(__file__).with_name("rules.yaml").read_text(encoding="utf-8")))


def algorithm_of(path: Path, named: str | None) -> str:
    """Return the algorithm of a file: the one that ``--algo`` named, or that of its name, such as ``ppo.yml``."""
    known = rules()["algorithms"]
    others = rules()["others"]
    name = named or path.stem.lower()
    if name in known:
        return name
    if name in others:
        raise ConfigError(f"{path}: {others[name]}; this command converts {', '.join(known)}")
    if named is not None:
        raise ConfigError(f"--algo {named}: not an algorithm that can be converted{did_you_mean(named, known)}")
    raise ConfigError(f"{path}: its name does not say the algorithm, as ppo.yml does; add --algo {'|'.join(known)}")


def choose_entry(document: Document, env_id: str, is_atari: bool) -> tuple[str, str]:
    """Return the name of an environment's entry, and what a reader should know about the choice, or an empty text.

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
    if not isinstance(data[name], Mapping):
        place = document.where((name,))
        raise ConfigError(f"{place}: {name}: must be a mapping of hyperparameters, not {data[name]!r}")
    if name in (env_id, "atari"):
        return name, ""
    chosen = "its entry 'default', as in RL Zoo" if name == "default" else f"the entry of {name}"
    return name, f"the file has no entry {env_id}: this is {chosen}"


def entries_of(names: Iterable[str]) -> str:
    """Return ``has entries for CartPole-v1, Pendulum-v1 and 30 more``."""
    own = [name for name in names if name not in _SHARED]
    listed = ", ".join(own[:8]) + (f" and {len(own) - 8} more" if len(own) > 8 else "")
    return f"has entries for {listed or 'no environment'}"


def versions(env_id: str, names: Iterable[str]) -> list[str]:
    """Return the names of versions of an environment, the highest last; none for a name without a version."""
    own = _VERSION.fullmatch(env_id)
    found: dict[int, str] = {}
    for name in names:
        match = _VERSION.fullmatch(name)
        if own and match and match["base"] == own["base"]:
            found[int(match["number"])] = name
    return [name for _, name in sorted(found.items())]
