"""The task of ``python -m rlcore_trackers``: the user says it, or the run as far as it may."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

from rlcore import (
    ConfigError,
    StatsWriterSpec,
    dotted,
    foreign_values,
    load_plugins_for,
    read_document,
    read_settings,
)
from rlcore_trackers.hooks import TrackerSpec
from rlcore_trackers.journal import Places
from rlcore_trackers.tracker import Task

CONFIGURATION = "configuration.yaml"


def task_of_user(places: Places, config: Path | None, allow_local: bool) -> Task:
    """Return what is to be sent where, by the file ``config``, or by the configuration of the run without one.

    Raises ConfigError if no installed plugin has the tracker, if the file does not turn it on, or if the run names a
    store and ``allow_local`` is false.
    """
    of_run = read_document(places.directory / CONFIGURATION)
    document = of_run if config is None else read_document(config)
    trusted = config is not None or allow_local
    plugins = load_plugins_for(document, allow_local=trusted, lenient=True)
    record = plugins.record(StatsWriterSpec, places.name)
    if not isinstance(record, TrackerSpec):
        raise ConfigError(f"{places.name}: is a statistics writer that sends nothing; name a tracker, such as wandb")
    stats = document.data.get("stats")
    block = stats.get(places.name) if isinstance(stats, Mapping) else None
    if block is None or block is False:
        raise ConfigError(f"{document.path}: stats.{places.name} is missing; give a file that has it with --config")
    settings = _settings(record, block, f"{document.path}: stats.{places.name}")
    keys = [f"{dotted(path)} ({value!r})" for path, value in foreign_values(settings)]
    if keys and not trusted:
        raise ConfigError(
            f"{document.path}: stats.{places.name} says where the run is sent: {', '.join(keys)}; --config FILE sends "
            f"it where your own stats.{places.name} says, and --allow-local trusts the run"
        )
    return Task(
        tracker=record.tracker,
        settings=attrs.asdict(settings),
        configuration=dict(of_run.data),
    )


def _settings(record: TrackerSpec, block: Any, where: str) -> Any:
    assert record.settings is not None
    module, _, name = record.settings.partition(":")
    settings, problems = read_settings(getattr(import_module(module), name), {} if block is True else block)
    if problems:
        path, message = problems[0]
        raise ConfigError(f"{where}{'.' if path else ''}{dotted(path)}: {message}")
    return settings
