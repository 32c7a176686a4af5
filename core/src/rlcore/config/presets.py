"""Presets: the values of plugins that lie under those of a document. Only a document with one needs this module.

``preset: NAME`` names a :class:`rlcore.Preset`. :func:`with_preset` merges its values under the document, so that every
key of the file and of the command line wins, and removes the key ``preset``: later steps see complete blocks only. A
value of a preset has the preset as its place, for errors and for the line that a run prints at its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from rlcore.config.document import Block, Document, Origin, merged, placed, value_at
from rlcore.config.problems import short_repr
from rlcore.config.reading import document_from_mapping
from rlcore.config.rewriting import OF_PRESETS
from rlcore.errors import ConfigError, NotInstalled
from rlcore.plugins.call import Plugins
from rlcore.plugins.discover import bare_name
from rlcore.plugins.failures import failure
from rlcore.records import Preset

TRAINER: tuple[str, ...] = ("default_settings", "trainer_type")


def with_preset(document: Document, plugins: Plugins) -> Document:
    """The document over the values of the preset that it names, without the key ``preset``.

    The preset's ``default_settings`` lie under those of the document, and so under its behaviors. Its ``environment``
    is left out if the document has none. Raises ConfigError, with the key, for an unknown preset and for the preset of
    another trainer; PluginError for a preset that is not part of a configuration.
    """
    try:
        preset = plugins.record(Preset, str(document.data["preset"]))
    except NotInstalled as error:
        error.key = ("preset",)
        raise
    values = _values(preset)
    data = Block()
    for key, value, origin in document.data.without("preset").entries():
        # A key without a value, such as `default_settings:`, leaves the block to the preset.
        if value is not None or key not in values:
            data.put(key, value, origin)
    _check_trainer(preset, value_at(values, TRAINER), data)
    if "environment" not in data:
        values = values.without("environment")
    data = merged(data, values)
    return attrs.evolve(document, data=data, preset=_place(preset))


def _place(preset: Preset) -> str:
    source = "" if preset.plugin is None else preset.plugin.source
    return f"preset {preset.name} ({source})"


def _values(preset: Preset) -> Block:
    """The values of a preset, whose place is the preset."""
    values = preset.resolve()
    try:
        plain = document_from_mapping(values).data
        if not {"plugins", "preset"}.isdisjoint(plain):
            raise ConfigError("plugins and preset cannot be among its keys")
    except Exception as error:
        raise failure(preset.described, f"to read {preset.target}", error) from error
    block: Block = placed(plain, Origin(_place(preset), OF_PRESETS, ()))
    return block


def _check_trainer(preset: Preset, trainer: Any, data: Block) -> None:
    """Refuse another trainer than that of the preset."""
    if trainer is None:
        return
    paths = [TRAINER]
    behaviors = data.get("behaviors")
    if isinstance(behaviors, Block):
        paths += [("behaviors", name, TRAINER[1]) for name in behaviors]
    for path in paths:
        chosen = value_at(data, path)
        # The distribution in front does not make it another trainer.
        if chosen is not None and bare_name(str(chosen)) != bare_name(str(trainer)):
            problem = f"preset {preset.name!r} is for trainer {trainer!r}, not {short_repr(chosen)}"
            raise ConfigError(f"{problem}; delete this key, or choose a preset of that trainer", key=path)


def preset_line(document: Document) -> str | None:
    """``ppo-discrete (rlcore-ppo): trainer_type ppo, batch_size 256, ...``, or None without a preset.

    It has the values that come from the preset. Those that the user gave instead are in the user's file.
    """
    if document.preset is None:
        return None
    data = document.data
    if data.get("behaviors"):  # they have inherited the default settings
        data = data.without(TRAINER[0])
    values = dict.fromkeys(_from(document.preset, data))
    text = ", ".join(values) or "without effect, because every key is given"
    return f"{document.preset.removeprefix('preset ')}: {text}"


def _from(place: str, block: Block) -> Iterator[str]:
    for key, value, origin in block.entries():
        if isinstance(value, Block):
            yield from _from(place, value)
        elif origin is not None and origin.place == place:
            text = value if isinstance(value, str) else short_repr(value)
            yield f"{key} {text}"
