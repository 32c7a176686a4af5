"""The block ``sweep`` of a configuration file, which only ``rlcore sweep`` uses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs

from rlcore import (
    ConfigError,
    Document,
    Plugins,
    Problems,
    RunConfig,
    apply_overrides,
    load_config,
    read_settings,
    with_presets_by_default,
    yaml_text,
)
from rlcore_study.side_by_side import steps_of
from rlcore_study.sweep.settings import SweepSettings
from rlcore_study.sweep.space import typical

BLOCK = "sweep"


def checked_block(data: Any) -> SweepSettings:
    """The settings in a block. Raises ConfigError for the first problem."""
    settings, problems = read_settings(SweepSettings, data)
    if settings is None:
        path, message = problems[0]
        raise ConfigError(message, key=(BLOCK, *path))
    assert isinstance(settings, SweepSettings)
    return settings


def read_block(document: Document) -> SweepSettings:
    """The settings in the block of a document. Raises ConfigErrors with every problem and its line."""
    if BLOCK not in document.data:
        where = document.path or "the configuration"
        raise ConfigError(f"{where}: has no block {BLOCK}; it names the parameters that rlcore sweep searches")
    settings, found = read_settings(SweepSettings, plain(document.data[BLOCK]))
    problems = Problems(document)
    for path, message in found:
        problems.add((BLOCK, *path), message)
    problems.raise_any()
    assert isinstance(settings, SweepSettings)
    grid = settings.grid_points if settings.sampler == "grid" else settings.trials
    if settings.trials > grid:
        problems.add((BLOCK, "trials"), f"must be at most {grid}, the number of points of the grid")
        problems.raise_any()
    return settings


def configuration(document: Document, plugins: Plugins, values: dict[str, Any], seed: int | None = None) -> RunConfig:
    """The checked configuration of a run with ``values`` by dotted path, with its presets. Raises ConfigErrors."""
    sets = [f"{name}={_yaml(value)}" for name, value in values.items()]
    flags: dict[tuple[str, ...], Any] = {}
    if seed is not None:
        flags["env_settings", "seed"] = seed
    overridden = apply_overrides(document, sets, flags)
    config = load_config(with_presets_by_default(overridden, plugins), plugins)
    # A checkpoint may end all episodes, so that every trial saves at the same steps, however fast it is.
    behaviors = {}
    for name, behavior in config.behaviors.items():
        if behavior.checkpoint_interval is None and not behavior.even_checkpoints:
            interval = min(500_000, behavior.max_steps // 10)
            behavior = attrs.evolve(behavior, checkpoint_interval=max(1, interval))
        behaviors[name] = behavior
    return attrs.evolve(config, behaviors=behaviors)


def without_replays(config: RunConfig) -> RunConfig:
    """The configuration of a trial: its checkpoints have a replay buffer only if the file asks for it with ``true``.

    What ``auto`` saves is cheap in one run, and not in a hundred trials of which one is kept.
    """
    behaviors = {}
    for name, behavior in config.behaviors.items():
        hyperparameters = behavior.hyperparameters
        if getattr(hyperparameters, "save_replay_buffer", None) == "auto":
            hyperparameters = attrs.evolve(hyperparameters, save_replay_buffer=False)
        behaviors[name] = attrs.evolve(behavior, hyperparameters=hyperparameters)
    return attrs.evolve(config, behaviors=behaviors)


def require_parameters(document: Document, plugins: Plugins, settings: SweepSettings) -> None:
    """Raise the error of the first parameter of which no value, not even an extreme one, can be used in the file."""
    for name, assignments in typical(settings.parameters):
        first: ConfigError | None = None
        for values in assignments:
            try:
                configuration(document, plugins, values)
                break
            except ConfigError as error:
                first = first or error
        else:
            said = str(first).replace(f"--set {name}: ", "")
            raise ConfigError(f"parameters: {name}: no value can be used: {said}", key=(BLOCK,))
    for name, case in settings.environments.items():
        try:
            configuration(document, plugins, dict(case.values))
        except ConfigError as error:
            raise ConfigError(f"environments: {name}: {error}", key=(BLOCK,)) from error


def planned_evaluations(configs: Sequence[RunConfig]) -> int:
    """The evaluations of a run that ends at ``max_steps``; the largest number of several; 0 if there are none."""
    found = [0]
    for config in configs:
        interval = None if config.evaluation is None else config.evaluation.interval
        steps = steps_of(config)
        if interval is not None:
            found.append(-(-steps // interval))
    return max(found)


def plain(data: Any) -> Any:
    """Data of a document as dicts and lists that know no place in a file."""
    return json.loads(json.dumps(data, default=str))


def _yaml(value: Any) -> str:
    """A value on one line, so that the same value is read again."""
    return yaml_text([value], default_flow_style=True, width=1_000_000).strip()[1:-1]
