"""Presets: the values of plugins that lie under those of a document.

``preset: NAME`` names a :class:`rlcore.Preset` for all behaviors, and ``behaviors.X.preset: NAME`` one for a behavior.
:func:`with_presets` merges its values under the document, so that every key of the file and of the command line wins. A
value of a preset has the preset as its place, for errors and for the line that a run prints at its start.

``preset: auto``, the default, means the preset for the trainer and the spaces of each behavior, which only the
environment knows: :mod:`rlcore.run.presets_by_default` writes the names into the document before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import OF_PRESETS, Block, Document, Origin, UsedPreset, merged, placed, value_at
from rlcore.config.inheritance import inherit_defaults
from rlcore.config.problems import short_repr
from rlcore.config.reading import document_from_mapping
from rlcore.errors import ConfigError, KeyPath, NotInstalled
from rlcore.plugins.discover import bare_name
from rlcore.plugins.failures import failure
from rlcore.records import BehaviorSection, EnvironmentSpec, Preset, TrainerSpec
from rlcore.settings import BehaviorSettings, EnvironmentSettings
from rlcore.settings.blocks import AUTO, NO_PRESET

if TYPE_CHECKING:
    from rlcore.contracts.behavior_spec import BehaviorSpec
    from rlcore.plugins.call import Plugins

TRAINER: tuple[str, ...] = ("default_settings", "trainer_type")
CHOSEN = Origin("chosen by default", OF_PRESETS, ())


def with_presets(document: Document, plugins: Plugins) -> Document:
    """The document over the values of the presets that it names. Its ``preset`` is ``none`` then, or still ``auto``.

    The ``default_settings`` of a preset for all lie under those of the document, and so under its behaviors. Its
    ``environment`` is left out if the document has none. The preset of a behavior gives that behavior values only.
    Raises ConfigError, with the key, for an unknown preset, for the preset of another trainer, and for a second preset
    of a behavior; PluginError for a preset that is not part of a configuration.
    """
    name = document.data.get("preset") or AUTO
    for_all = name not in (AUTO, NO_PRESET)
    of_behaviors = _of_behaviors(document.data, refused=for_all)
    if for_all:
        document = _over_all(document, _record(plugins, name, ("preset",)))
        name = NO_PRESET
    document = attrs.evolve(document, data=document.data.with_entry("preset", name, None))
    for behavior, (chosen, origin) in of_behaviors.items():
        preset = None
        if chosen not in (AUTO, NO_PRESET):
            preset = _record(plugins, chosen, ("behaviors", behavior, "preset"))
        document = _over_one(document, behavior, preset, by_default=origin is CHOSEN)
    return document


def _of_behaviors(data: Block, refused: bool) -> dict[str, tuple[Any, Origin | None]]:
    """The preset that each behavior names, with its origin. Raises ConfigError where a block may not name one."""
    advice = "give preset once, at the top of the file, or one for each behavior in behaviors.NAME"
    if value_at(data, ("default_settings", "preset")) is not None:
        raise ConfigError(f"is not read here; {advice}", key=("default_settings", "preset"))
    named = {}
    for name, block in _behaviors(data).items():
        if "preset" in block:
            if refused and block["preset"] is not None:
                raise ConfigError(
                    f"is a second one, beside that of the whole file; {advice}", key=("behaviors", name, "preset")
                )
            named[name] = (block["preset"] or AUTO, block.origins.get("preset"))
    return named


def _behaviors(data: Block) -> dict[str, Block]:
    """The blocks of the listed behaviors. Any other value is refused when the document is read."""
    behaviors = data.get("behaviors")
    if not isinstance(behaviors, Block):
        return {}
    return {name: block for name, block in behaviors.items() if isinstance(block, Block)}


def _record(plugins: Plugins, name: Any, key: KeyPath) -> Preset:
    try:
        return plugins.record(Preset, str(name))
    except NotInstalled as error:
        error.key = key
        raise


def _over_all(document: Document, preset: Preset) -> Document:
    """The document over the values of a preset for all behaviors."""
    used = UsedPreset(preset)
    values = _values(preset, used)
    data = Block()
    for key, value, origin in document.data.entries():
        # A key without a value, such as `default_settings:`, leaves the block to the preset.
        if value is not None or key not in values:
            data.put(key, value, origin)
    paths = [TRAINER]
    paths += [("behaviors", name, TRAINER[1]) for name in _behaviors(data)]
    for path in paths:
        _check_trainer(preset, values, value_at(data, path), path)
    if "environment" not in data:
        values = values.without("environment")
    return attrs.evolve(document, data=merged(data, values), presets=(*document.presets, used))


def _over_one(document: Document, behavior: str, preset: Preset | None, by_default: bool) -> Document:
    """The document with one behavior over the default settings, and these over the values of its preset.

    Rewards that the file does not list beside others are left out.
    """
    behaviors = document.data["behaviors"]
    block = behaviors[behavior].without("preset")
    presets = document.presets
    if preset is not None:
        used = UsedPreset(preset, behavior, by_default)
        values = _values(preset, used)
        place = ("behaviors", behavior, TRAINER[1]) if TRAINER[1] in block else TRAINER
        defaults = document.data.get(TRAINER[0])
        if isinstance(defaults, Block):
            block = merged(block, Block(entry for entry in defaults.entries() if entry[2] is not CHOSEN))
        _check_trainer(preset, values, block.get(TRAINER[1]), place)
        listed = block.get("reward_signals")
        block = merged(block, values.get(TRAINER[0], Block()))
        if isinstance(listed, Block) and listed:  # one more reward, such as extrinsic beside gail, is another task
            rewards = block["reward_signals"].entries()
            block.put("reward_signals", Block(entry for entry in rewards if entry[0] in listed), None)
        presets = (*presets, used)
    behaviors = behaviors.with_entry(behavior, block, behaviors.origins.get(behavior))
    return attrs.evolve(document.with_block("behaviors", behaviors), presets=presets)


def _values(preset: Preset, used: UsedPreset) -> Block:
    """The values of a preset, whose place is the preset."""
    values = preset.resolve()
    try:
        plain = document_from_mapping(values).data
        if not {"plugins", "preset"}.isdisjoint(plain):
            raise ConfigError("plugins and preset cannot be among its keys")
    except Exception as error:
        raise failure(preset.described, f"to read {preset.target}", error) from error
    block: Block = placed(plain, used.origin)
    return block


def _check_trainer(preset: Preset, values: Block, chosen: Any, key: KeyPath) -> None:
    """Refuse another trainer, ``chosen`` by the file at ``key``, than that of the preset."""
    trainer = value_at(values, TRAINER)
    # The distribution in front does not make it another trainer.
    if None not in (trainer, chosen) and bare_name(str(chosen)) != bare_name(str(trainer)):
        problem = f"preset {preset.name!r} is for trainer {trainer!r}, not {short_repr(chosen)}"
        raise ConfigError(f"{problem}; delete this key, or choose a preset of that trainer", key=key)


# ---------------------------------------------------------------- presets by default


def preset_for(plugins: Plugins, trainer: str, behavior: BehaviorSpec, marks: Iterable[str] = ()) -> Preset | None:
    """The preset that ``preset: auto`` means for a behavior, in an environment with these ``marks``.

    Of the presets of the trainer's own plugin that are for such a behavior, the one that asks for the most marks. None
    if there is none, and for a trainer that is not installed.
    """
    fitting = [preset for preset in presets_of(plugins, trainer) if not preset.misfit(behavior, marks)]
    return max(fitting, key=lambda preset: len(preset.marks), default=None)


def presets_of(plugins: Plugins, trainer: str) -> list[Preset]:
    """The presets that ``preset: auto`` may mean for behaviors of a trainer.

    They are those of the plugin that provides the trainer, so that no other package changes what a file means.
    """
    try:
        record = plugins.record(TrainerSpec, trainer)
    except NotInstalled:  # which is reported when the block is read
        return []
    found = []
    for preset in plugins.records(Preset.kind):
        if isinstance(preset, Preset) and preset.trainer == record.name and preset.plugin == record.plugin:
            found.append(preset)
    return found


@attrs.frozen
class Undecided:
    """The behaviors of a document whose presets only the environment can decide.

    Attributes:
        presets: The presets that each of them may get, by its name; ``None`` stands for those that are not listed.
        kept: Why other behaviors keep the defaults of their trainers, in words.
    """

    presets: dict[str | None, list[Preset]] = attrs.field(factory=dict)
    kept: list[str] = attrs.field(factory=list)


def undecided(document: Document, plugins: Plugins) -> Undecided:
    """Find the behaviors that are to get presets by default."""
    data = document.data
    found = Undecided()
    top = data.get("preset") or AUTO
    defaults = data.get("default_settings")
    blocks: dict[str | None, Block] = {}
    if isinstance(defaults, Block) or not data.get("behaviors"):
        blocks[None] = defaults if isinstance(defaults, Block) else Block()
    for listed, block in _behaviors(inherit_defaults(document).data).items():
        blocks[listed] = block
    for name, block in blocks.items():
        if (block.get("preset") or top) == AUTO:
            presets, reason = _presets_for(block, data, plugins)
            if presets:
                found.presets[name] = presets
            elif reason not in found.kept:
                found.kept.append(reason)
    return found


def _presets_for(block: Block, data: Block, plugins: Plugins) -> tuple[list[Preset], str]:
    """The presets that a behavior may get by default, and why it gets none if there are none."""
    trainer = trainer_of(block)
    presets = presets_of(plugins, trainer)
    if not presets:
        return [], f"trainer {trainer}"
    for section in plugins.records(BehaviorSection.kind):
        if isinstance(section, BehaviorSection) and not section.presets and block.get(section.name) is not None:
            return [], section.name
    environment = data.get("environment")
    if not isinstance(environment, Block):
        return [], "a file without an environment block"
    kind = str(environment.get("type") or attrs.fields(EnvironmentSettings).type.default)
    with suppress(NotInstalled):  # which is reported when the block is read
        if plugins.record(EnvironmentSpec, kind).presets:
            return presets, ""
    return [], f"environments of type {kind}"


def with_each_preset(document: Document, plugins: Plugins) -> dict[str, Document]:
    """The document with each preset that it may get by default, by the names of these; itself if it gets none.

    To check a document without its environment. Where behaviors are listed, they alone have the presets.
    """
    found = undecided(document, plugins).presets
    documents = {}
    for number in range(max(map(len, found.values()), default=0)):
        variant = document
        names = []
        for behavior, presets in found.items():
            preset = presets[min(number, len(presets) - 1)]
            data = variant.data
            if behavior is not None:
                behaviors = data["behaviors"]
                block = behaviors[behavior].with_entry("preset", preset.reference, CHOSEN)
                variant = variant.with_block("behaviors", behaviors.with_entry(behavior, block, None))
            elif len(found) == 1:
                variant = attrs.evolve(variant, data=data.with_entry("preset", preset.reference, CHOSEN))
            else:
                continue
            names.append(preset.name)
        documents[", ".join(dict.fromkeys(names))] = variant
    return documents or {"": document}


def trainer_of(*blocks: Block) -> str:
    """The trainer that the first of these blocks of a behavior with one names; else the default."""
    for block in blocks:
        if block.get(TRAINER[1]) is not None:
            return str(block[TRAINER[1]])
    return str(attrs.fields(BehaviorSettings).trainer_type.default)


# ---------------------------------------------------------------- what a run prints


def misfits(document: Document, plugins: Plugins, behavior: BehaviorSpec) -> Iterator[str]:
    """Say which presets of the document are for other spaces than those of the behavior, and which one fits."""
    for used in document.presets:
        preset = used.record
        problem = preset.misfit(behavior, preset.marks)  # whoever names a preset may know better than the marks
        if problem and used.behavior in (None, behavior.name):
            better = preset_for(plugins, preset.trainer, behavior)
            advice = "" if better is None else f"; preset: {better.name} is for this behavior"
            yield f"preset {preset.name} is for {problem}{advice}"


def preset_lines(document: Document) -> Iterator[str]:
    """``ppo-discrete (rlcore-ppo), by default: batch_size 256, ...`` for each preset, and where none was chosen.

    They have the values that come from the presets. Those that the user gave instead are in the user's file.
    """
    data = document.data
    if data.get("behaviors"):  # they have inherited the default settings
        data = data.without(TRAINER[0])
    several = len(data.get("behaviors") or ()) > 1
    for used in document.presets:
        block = data
        if used.behavior is not None:
            block = data.without("behaviors")
            block.put(used.behavior, data["behaviors"][used.behavior], None)
        text = ", ".join(dict.fromkeys(_from(used.place, block))) or "without effect, because every key is given"
        if used.by_default:
            text = f"by default: {text}"
            if _gives_hyperparameters(block, used):
                text += "; with preset: none, these keys have the defaults of the trainer"
        behavior = f" for {used.behavior}" if several and used.behavior is not None else ""
        separator = ", " if used.by_default else ": "
        yield f"{used.place.removeprefix('preset ')}{behavior}{separator}{text}"
    if document.kept:
        yield f"the defaults of the trainers: no preset is chosen for {' and '.join(document.kept)}"


def _from(place: str, block: Block) -> Iterator[str]:
    for key, value, origin in block.entries():
        if isinstance(value, Block):
            yield from _from(place, value)
        elif origin is not None and origin.place == place:
            text = value if isinstance(value, str) else short_repr(value)
            yield f"{key} {text}"


def _gives_hyperparameters(block: Block, used: UsedPreset) -> bool:
    """Whether the file gives some of the hyperparameters of a behavior itself."""
    given = value_at(block, (str(used.behavior), "hyperparameters"))
    if not isinstance(given, Block):
        return False
    return any(origin is None or origin.place != used.place for _, _, origin in given.entries())
