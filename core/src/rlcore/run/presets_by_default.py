"""Chooses the presets that no one named: ``preset: auto`` becomes the name of a preset for each behavior.

Which one fits depends on the spaces of the behavior, so one copy of the environment is made and closed. This happens
once, before the configuration is checked: what a run has and writes is complete, and says ``preset: none``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.document import Block, Document, Origin, UsedPreset, value_at
from rlcore.config.inheritance import with_named_behavior
from rlcore.config.load import load_document, located
from rlcore.config.presets import CHOSEN, Undecided, preset_for, trainer_of, undecided
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.seeding import ProcessGenerators
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.known import PROGRAM
from rlcore.records import EnvironmentSpec, Preset
from rlcore.run.environments import environment_settings, kept_open, make_environment
from rlcore.settings.blocks import AUTO, NO_PRESET

# What an environment is made from. The rest of a document is checked once its presets are chosen.
OF_ENVIRONMENTS = ("environment", "environment_parameters", "env_settings", "plugins")


def with_presets_by_default(document: Document, plugins: Plugins, given: Any = None) -> Document:
    """The document with the name of a preset in each behavior that is to get one by default.

    ``given`` is the environment of a program, or what makes it. Raises ConfigError and EnvironmentFailed if the
    environment cannot be made.
    """
    found = undecided(document, plugins)
    data = document.data
    # What is not decided here is decided: a configuration that is checked has no preset left to choose.
    if data.get("preset") in (None, AUTO):
        data = data.with_entry("preset", NO_PRESET, None)
    document = attrs.evolve(document, data=data, kept=tuple(found.kept))
    if not found.presets:
        return document
    decided = document
    if data.get("default_settings") is None and not data.get("behaviors"):
        document = document.with_block("default_settings", Block())
    listed = frozenset(data.get("behaviors") or ())
    with located(document):
        document = with_named_behavior(document, plugins)
        (any_preset, *_), *_ = found.presets.values()
        seen = _look(document, any_preset, plugins, given)
    if isinstance(seen, str):
        return attrs.evolve(decided, kept=(f"environments of type {seen}",))
    return _with_names(document, plugins, found, listed, seen)


@attrs.frozen
class Seen:
    """Facts about one copy of the environment, which is closed again.

    Attributes:
        behaviors: Its behaviors.
        marks: What it says about itself (:attr:`rlcore.EnvironmentSpec.presets`).
        copies: Whether a preset may say how many copies of it are stepped.
    """

    behaviors: Mapping[str, BehaviorSpec]
    marks: Iterable[str]
    copies: bool


def _look(document: Document, preset: Preset, plugins: Plugins, given: Any) -> Seen | str:
    """Make one copy of the environment, or adapt the one object of a program, and close what was made.

    If plugins make a type of environment of the document that takes no part, as of a file of ML-Agents, that type.
    A configuration needs a trainer; any ``preset`` that may be chosen has one that is there.
    """
    data = Block(entry for entry in document.data.entries() if entry[0] in OF_ENVIRONMENTS)
    only_object = given is not None and not callable(given)
    if not only_object:
        block = data["environment"].without("workers").with_entry("num_envs", 1, None)
        data.put("environment", block, data.origins.get("environment"))
        if isinstance(data.get("env_settings"), Block):
            data.put("env_settings", data["env_settings"].without("num_envs"), None)  # ML-Agents' key for it
    data.put("preset", preset.reference, None)
    names = document.data.get("behaviors") or ()
    data.put("behaviors", Block((name, Block(), None) for name in names), None)
    config, _ = load_document(attrs.evolve(document, data=data), plugins, measuring=True)
    settings = environment_settings(config)
    spec = plugins.record(EnvironmentSpec, settings.type)
    if not spec.presets:
        return settings.type
    with tempfile.TemporaryDirectory() as directory, ProcessGenerators.kept():
        # Nothing that is measured steps environments in workers; the one object of a program may only train.
        run = RunContext(
            config=config,
            plugins=plugins,
            directory=Path(directory),
            seed=0,
            num_envs=config.num_envs,
            purpose="train" if only_object else "evaluate",
            given=given,
        )
        environment = make_environment(config, plugins, run)
        try:
            here = document.data["environment"].get("workers") is None and settings.type != PROGRAM
            copies = here and not spec.names_behaviors
            return Seen(environment.behaviors, getattr(environment, "marks", ()), copies)
        finally:
            if not kept_open(run):
                environment.close()


def _with_names(document: Document, plugins: Plugins, found: Undecided, listed: frozenset[str], seen: Seen) -> Document:
    """The document with the names of the presets that were chosen, and with the number of copies of a single one."""
    behaviors = document.data.get("behaviors") or Block()
    defaults = document.data.get("default_settings") or Block()
    chosen: list[Preset] = []
    kept = list(document.kept)
    for name, spec in seen.behaviors.items():
        if (name if name in listed else None) not in found.presets:
            continue
        block = behaviors.get(name) or Block()
        trainer = trainer_of(block, defaults)
        preset = preset_for(plugins, trainer, spec, seen.marks)
        if preset is None:
            kept.append(f"{name}, because trainer {trainer} has none for its spaces")
            continue
        chosen.append(preset)
        if name not in listed:  # a trainer must be named beside its hyperparameters
            defaults = _with_default(defaults, "trainer_type", trainer, CHOSEN)
        origin = behaviors.origins.get(name)
        behaviors = behaviors.with_entry(name, block.with_entry("preset", preset.reference, CHOSEN), origin)
    document = document.with_block("behaviors", behaviors).with_block("default_settings", defaults)
    if len(chosen) == 1 and seen.copies:
        (preset,) = chosen
        copies = value_at(preset.resolve(), ("environment", "num_envs"))
        environment = _with_default(document.data["environment"], "num_envs", copies, UsedPreset(preset).origin)
        document = document.with_block("environment", environment)
    return attrs.evolve(document, kept=tuple(kept))


def _with_default(block: Block, key: str, value: Any, origin: Origin) -> Block:
    """The block with a value for a key that has none."""
    if value is None or block.get(key) is not None:
        return block
    return block.with_entry(key, value, origin)
