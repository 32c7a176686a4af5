"""The file of a sweep: one configuration, and the values that trials give to some of its keys."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import yaml

from rlcore import (
    ConfigError,
    Document,
    KeyPath,
    Run,
    SettingError,
    apply_overrides,
    dotted,
    load_plugins_for,
    name_problem,
    read_document,
    read_settings,
    setting,
)

__all__ = ["RandomSettings", "RangeSettings", "SweepPlan", "SweepSettings", "Trial", "read_sweep"]

MAX_TRIALS = 10_000
DIGITS = 4  # significant ones of a value that is drawn, so that names and commands stay short
MAX_SLUG = 80  # letters of a trial's name before the digest
SEED = "env_settings.seed"


@attrs.frozen(kw_only=True)
class RangeSettings:
    """Values that trials draw at random."""

    low: float = setting(description="Smallest value.")
    high: float = setting(description="Largest value.")
    log: bool = setting(False, "Whether the logarithm of the value is uniform, as for learning rates.")
    whole: bool = setting(False, "Whether values are whole numbers.")

    def __attrs_post_init__(self) -> None:
        if not self.low < self.high:
            raise SettingError("low", f"must be less than high ({self.high:g}), not {self.low:g}", others=("high",))
        if self.log and self.low <= 0:
            raise SettingError("low", f"must be greater than 0 with log: true, not {self.low:g}", others=("log",))
        if self.whole and (self.low != int(self.low) or self.high != int(self.high)):
            raise SettingError("whole", "needs whole numbers as low and high", others=("low", "high"))

    def draw(self, random: np.random.Generator) -> float | int:
        """Return a value; one that is not whole has four significant digits."""
        low, high = self.low, self.high
        if self.whole:  # each whole number has the interval of length 1 around it
            low, high = low - 0.5, high + 0.5
        value = math.exp(random.uniform(math.log(low), math.log(high))) if self.log else random.uniform(low, high)
        value = round(value) if self.whole else float(f"{value:.{DIGITS}g}")
        value = min(max(value, self.low), self.high)
        return int(value) if self.whole else float(value)


@attrs.frozen(kw_only=True)
class RandomSettings:
    """Keys whose values are drawn at random."""

    draws: int = setting(description="Number of draws; each gives a value to every key.", minimum=1)
    seed: int = setting(0, "Seed of the draws. More draws or keys do not change the others.", minimum=0)
    keys: dict[str, RangeSettings] = setting(description="The range of each key: low, high, log, whole.")


@attrs.frozen(kw_only=True)
class SweepSettings:
    """The file of a sweep."""

    config: str = setting(description="Configuration of all trials; its path is relative to this file.")
    name: str | None = setting(None, "Name of the sweep and of its directory; by default, that of this file.")
    set: dict[str, Any] = setting(factory=dict, description="Values of keys in all trials.")
    grid: dict[str, list[Any]] = setting(
        factory=dict, description="Lists of values; there is a trial for each combination."
    )
    random: RandomSettings | None = setting(None, "Keys whose values are drawn; combined with the grid.")
    seeds: list[int] = setting(factory=list, description="Seeds of runs; each combination is run with every seed.")


@attrs.frozen
class Trial:
    """One run of a sweep.

    Attributes:
        name: Run id: keys and values that differ, and a digest of all overrides.
        point: The overrides without the seed.
        seed: Seed of the run; None if the configuration decides.
        sets: The overrides as ``--set`` has them, ``a.b=VALUE``.
        digest: Checksum of the configuration with the overrides.
    """

    name: str
    point: Mapping[str, Any]
    seed: int | None
    sets: tuple[str, ...]
    digest: str = ""

    def arguments(self, plan: SweepPlan) -> list[str]:
        """Return the arguments of ``rlcore`` that run this trial."""
        sets = [word for text in self.sets for word in ("--set", text)]
        return ["run", str(plan.config), "--run-id", self.name, "--results-dir", str(plan.directory), *sets]

    def command(self, plan: SweepPlan) -> str:
        """Return the command that this trial equals."""
        return shlex.join(["rlcore", *self.arguments(plan)])


@attrs.frozen
class SweepPlan:
    """A sweep whose trials have all been checked.

    Attributes:
        name: Name of the sweep.
        config: Configuration file of all trials.
        directory: Directory of the run directories.
        varied: The keys that differ between trials, without the seed.
        trials: The trials in the order in which they are started.
    """

    name: str
    config: Path
    directory: Path
    varied: tuple[str, ...]
    trials: tuple[Trial, ...]


def read_sweep(path: Path) -> SweepPlan:
    """Read the file of a sweep, and check the configuration of every trial.

    Raises ConfigError with the file, the line and the key of the first mistake.
    """
    document = read_document(path)
    settings, problems = read_settings(SweepSettings, document.data)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(_at(document, *problems[0]) + more)
    assert isinstance(settings, SweepSettings)
    name = settings.name or path.stem
    problem = name_problem("the name of a sweep", name)
    if problem:
        raise ConfigError(_at(document, ("name",), problem) if settings.name else f"{path}: {problem}; set name")
    _check_keys(document, settings)
    config = path.parent / settings.config
    base = read_document(config)
    checks = base.data.get("checkpoint_settings")
    results = checks.get("results_dir") if isinstance(checks, Mapping) else None
    directory = Path(results if isinstance(results, str) else "results").expanduser() / name
    points = list(_points(settings))
    total = len(points) * max(1, len(settings.seeds))
    if total > MAX_TRIALS:
        raise ConfigError(f"{path}: describes {total:,} trials; at most {MAX_TRIALS:,} are allowed")
    varied = tuple(key for key, values in settings.grid.items() if len(values) > 1)
    varied += tuple(settings.random.keys) if settings.random is not None else ()
    trials = []
    plugins = None if any(key.startswith("plugins") for _, key in _paths(settings)) else load_plugins_for(base)
    for point, places in points:
        for seed in settings.seeds or (None,):
            trial = _trial(settings, point, varied, seed)
            where = _places(document, settings, places, trial)
            checked = apply_overrides(base, trial.sets, places=where)
            trials.append(attrs.evolve(trial, digest=_digest(checked)))
            names = {"run_id": trial.name, "results_dir": str(directory)}
            flags: dict[tuple[str, ...], Any] = {("checkpoint_settings", key): value for key, value in names.items()}
            _check(apply_overrides(checked, (), flags), plugins)
    return SweepPlan(name, config, directory, varied, tuple(trials))


def _check_keys(document: Document, settings: SweepSettings) -> None:
    """Refuse keys that the sweep sets itself, keys with two values, and lists that are empty or repeat a value."""
    seen: dict[str, str] = {}
    for block, key in _paths(settings):
        where = (*block, key)
        if key == "checkpoint_settings" or key.startswith("checkpoint_settings."):
            raise ConfigError(_at(document, where, "the sweep decides where and how trials are saved; leave it out"))
        if key == SEED and settings.seeds:
            raise ConfigError(_at(document, where, "conflicts with seeds; set only one"))
        if key in seen:
            raise ConfigError(_at(document, where, f"is in {seen[key]} too; a key has one place"))
        seen[key] = dotted(block)
    for key, values in settings.grid.items():
        if not values:
            raise ConfigError(_at(document, ("grid", key), "needs at least one value"))
        _refuse_twins(document, ("grid", key), values)
    _refuse_twins(document, ("seeds",), settings.seeds)


def _refuse_twins(document: Document, path: KeyPath, values: Sequence[Any]) -> None:
    texts = [_text(value) for value in values]
    for index, text in enumerate(texts):
        if text in texts[:index]:
            raise ConfigError(_at(document, (*path, index), f"{text} is in the list twice"))


def _paths(settings: SweepSettings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each key with the block that has it."""
    yield from ((("set",), key) for key in settings.set)
    yield from ((("grid",), key) for key in settings.grid)
    if settings.random is not None:
        yield from ((("random", "keys"), key) for key in settings.random.keys)


def _points(settings: SweepSettings) -> Iterator[tuple[dict[str, Any], dict[str, KeyPath]]]:
    """Every combination of values, and the place of each value in the file."""
    fixed = {key: ("set", key) for key in settings.set}
    for indices in itertools.product(*(range(len(values)) for values in settings.grid.values())):
        chosen = dict(zip(settings.grid, indices, strict=True))
        grid = {key: settings.grid[key][index] for key, index in chosen.items()}
        places: dict[str, KeyPath] = {**fixed, **{key: ("grid", key, index) for key, index in chosen.items()}}
        if settings.random is None:
            yield {**settings.set, **grid}, places
            continue
        for draw in range(settings.random.draws):
            drawn = {
                key: limits.draw(np.random.default_rng([settings.random.seed, draw, zlib.crc32(key.encode())]))
                for key, limits in settings.random.keys.items()
            }
            yield {**settings.set, **grid, **drawn}, places | {key: ("random", "keys", key) for key in drawn}


def _trial(settings: SweepSettings, point: Mapping[str, Any], varied: Sequence[str], seed: int | None) -> Trial:
    overrides = {**point, **({} if seed is None else {SEED: seed})}
    content = json.dumps(overrides, sort_keys=True, default=str)
    parts = [f"{key.rpartition('.')[2]}-{_text(point[key])}" for key in varied]
    parts += [f"seed-{seed}"] if seed is not None else []
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", "_".join(parts))
    slug = re.sub(r"\.{2,}", ".", slug)[:MAX_SLUG].strip("-._") or "trial"
    sets = tuple(f"{key}={_text(value)}" for key, value in overrides.items())
    return Trial(f"{slug}-{hashlib.sha256(content.encode()).hexdigest()[:8]}", point, seed, sets)


def _places(document: Document, settings: SweepSettings, paths: Mapping[str, KeyPath], trial: Trial) -> dict[str, str]:
    """The place in the file of each text in ``trial.sets``."""
    at = dict(paths)
    if trial.seed is not None:
        at[SEED] = ("seeds", settings.seeds.index(trial.seed))
    return {text: document.where(at[text.partition("=")[0]]) for text in trial.sets}


def _check(document: Document, plugins: Any) -> None:
    """Check a configuration as ``rlcore run`` does before it starts. Raises ConfigError with the place."""
    run = Run(document, plugins)
    try:
        run.plugins.check_config(run.config)
    except ConfigError as error:
        if not error.key:
            raise
        raise ConfigError(f"{document.where(error.key)}: {error}") from error


def _digest(document: Document) -> str:
    """The checksum of a configuration, without what says where it is saved."""
    data = {key: value for key, value in document.data.items() if key != "checkpoint_settings"}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _text(value: Any) -> str:
    """A value as YAML on one line, which reads back as the same value: 1.0e-05, because YAML reads 1e-05 as a text."""
    text = yaml.safe_dump([value], default_flow_style=True, width=math.inf, allow_unicode=True)
    return text.strip()[1:-1]


def _at(document: Document, path: KeyPath, message: str) -> str:
    return f"{document.where(path)}: {dotted(path)}: {message}"
