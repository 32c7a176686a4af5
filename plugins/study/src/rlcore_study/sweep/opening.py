"""Begins a sweep in a new directory, or opens one that was begun before, and holds its lock meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from rlcore import (
    ConfigError,
    DamagedFile,
    DirectoryLock,
    Document,
    Plugins,
    RunConfig,
    RunStateError,
    dotted,
    echo,
    name_problem,
    user_path,
)
from rlcore_study.documents import by_path
from rlcore_study.sweep.block import configuration, plain, planned_evaluations, read_block, require_parameters
from rlcore_study.sweep.settings import SweepSettings
from rlcore_study.sweep.trials import SWEEP, SavedSweep, read_sweep, writing

MAY_CHANGE = (("sweep", "trials"), ("sweep", "jobs"))
LOCK = ".lock"
BEST = "best.yaml"
TRIALS = "trial-"
TEMPORARY = ".rlcore-tmp-"  # a file that a process was writing when it was killed
SHOWN_KEYS = 5


@contextmanager
def opened(document: Document, plugins: Plugins, name: str) -> Iterator[SavedSweep]:
    """The sweep that ``document`` describes, which no other process changes within the block.

    ``name`` is that of the sweep if the document has none. Raises ConfigError for a configuration that cannot be swept
    or differs from that of the sweep, and RunStateError for a directory that cannot be used.
    """
    settings = read_block(document)
    base = configuration(document, plugins, {})
    start = document.data.get("checkpoint_settings") or {}
    name = str(start.get("run_id") or name)
    if problem := name_problem("the name of a sweep", name):
        raise ConfigError(f"--run-id: {problem}")
    directory = user_path(base.checkpoint_settings.results_dir) / name
    if (directory / "rlcore_run.json").exists() or (directory / "configuration.yaml").exists():
        raise RunStateError(f"{directory}: is the directory of a run; give the sweep another name with --run-id")
    _require_own(directory)
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory, base.checkpoint_settings.lock_seconds):
        yield _begun(directory, document, plugins, settings, base)


def _require_own(directory: Path) -> None:
    """Raise RunStateError for a directory that has files and is not a sweep."""
    if not directory.is_dir() or (directory / SWEEP).exists():
        return
    for entry in directory.iterdir():
        if entry.name not in (LOCK, BEST) and not entry.name.startswith((TRIALS, TEMPORARY)):
            raise RunStateError(
                f"{directory}: exists and is not a sweep (it has no {SWEEP}, but {entry.name}), so nothing in it is "
                "touched; choose another --run-id or --results-dir"
            )


@contextmanager
def _locked(directory: Path, seconds: float) -> Iterator[None]:
    lock = DirectoryLock(directory)
    with writing(directory / LOCK):
        try:
            lock.acquire(max(seconds, 1.0))
        except RunStateError as error:
            raise RunStateError(f"{error}, or give this sweep another name with --run-id") from error
    try:
        yield
    finally:
        lock.release()


def _begun(
    directory: Path, document: Document, plugins: Plugins, settings: SweepSettings, base: RunConfig
) -> SavedSweep:
    """The sweep in ``directory``, or a new one that is written there."""
    data = plain(document.data)
    try:
        known = read_sweep(directory)
    except FileNotFoundError:
        known = None
    except DamagedFile as error:
        echo(f"warning: {error}; it is written again from the configuration", err=True)
        known = None
    if known is not None:
        _require_same(directory, known.document, data)
        changed = attrs.evolve(known.settings, trials=settings.trials, jobs=settings.jobs)
        return attrs.evolve(known, settings=changed)
    _require_scores(settings, base)
    require_parameters(document, plugins, settings)
    seed = base.env_settings.seed
    if seed == -1:  # a random one, which would differ between trials
        seed = settings.seed
    # Written out, because a later command may change jobs, on which the default of unseen depends.
    settings = attrs.evolve(settings, unseen=settings.lag, seeds=settings.seeds or [seed])
    configs = [configuration(document, plugins, dict(case.values)) for case in settings.environments.values()]
    evaluations = planned_evaluations(configs or [base])
    saved = SavedSweep(directory, settings, data, evaluations)
    saved.write()
    return saved


def _require_scores(settings: SweepSettings, base: RunConfig) -> None:
    """Refuse a sweep whose runs would not be evaluated."""
    needs = "" if settings.pruner is None else f"pruner: {settings.pruner}"
    if settings.metric != "reward":
        needs = f"metric: {settings.metric}"
    if needs and (base.evaluation is None or base.evaluation.interval is None):
        raise ConfigError(
            f"sweep: {needs} needs evaluations; give evaluation.interval, such as --set evaluation.interval=10000, or "
            "metric: reward without a pruner"
        )


def _require_same(directory: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    old = _compared(before)
    new = _compared(now)
    keys = []
    for key in {**old, **new}:
        if old.get(key, ...) != new.get(key, ...):  # None is a value
            keys.append(dotted(key))
    if not keys:
        return
    names = ", ".join(keys[:SHOWN_KEYS])
    if len(keys) > SHOWN_KEYS:
        names = f"{names} and {len(keys) - SHOWN_KEYS} more"
    raise ConfigError(
        f"{directory}: this sweep began with other values of {names} ({SWEEP} has them); "
        "its trials would not be comparable. Only sweep.trials and sweep.jobs may change: restore the values, or begin "
        "another sweep with --run-id"
    )


def _compared(document: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The values of a configuration by path, without those that a sweep may change and the place of the sweep."""
    remaining = {key: value for key, value in document.items() if key != "checkpoint_settings"}
    return {path: value for path, value in by_path(remaining).items() if path not in MAY_CHANGE}
