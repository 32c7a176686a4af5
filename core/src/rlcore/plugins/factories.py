"""The plugins that took part in making the objects of a run, and whom a checkpoint therefore needs again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlcore.errors import PluginError
from rlcore.plugins.discover import Plugin, canonical
from rlcore.plugins.installing import pip_install

if TYPE_CHECKING:
    from rlcore.plugins.select import Selection

FACTORIES = "factories"  # of a checkpoint's run: a list of mappings with these keys, whose values are texts
_OF_PLUGIN = ("name", "module", "distribution", "version")
FACTORY_FIELDS: tuple[str, ...] = ("hook", *_OF_PLUGIN)
_NOT_LEARNED = "rlcore_create_stats_writer"  # it changes no number of a training
_ONLY_TRAINING = "rlcore_create_reward_provider"


class FactoryPlugins:
    """The plugins that answered or wrapped the factory hooks of one run; rlcore's own are not counted.

    A plugin that answers or wraps ``rlcore_create_environment`` decides what a policy learns in, and no key of the
    configuration names the plugin. So checkpoints record who took part in each factory hook, and a factory that is
    called for a checkpoint refuses to do without them.

    Attributes:
        found: In this process, by hook and label.
        required: In the process that saved the checkpoint which the run continues or measures.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Plugin] = {}
        self.required: tuple[tuple[str, Plugin], ...] = ()

    def add(self, hook: str, plugins: Iterable[Plugin]) -> None:
        """Note the plugins that took part in one call of ``hook``."""
        if hook == _NOT_LEARNED:
            return
        for plugin in plugins:
            if not plugin.essential:
                self.found[hook, plugin.label] = plugin

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that took part so far."""
        return tuple(dict.fromkeys(self.found.values()))

    def to_json(self) -> list[dict[str, str]]:
        """The entry of a checkpoint; :meth:`require` reads it."""
        entries = []
        for (hook, _), plugin in sorted(self.found.items()):
            fields = {name: getattr(plugin, name) for name in _OF_PLUGIN}
            entries.append({"hook": hook, **fields})
        return entries

    def require(self, run: Mapping[str, Any]) -> None:
        """Require the plugins in the entry ``run`` of a checkpoint."""
        entries = [dict(entry) for entry in run[FACTORIES]]
        self.required = tuple((entry.pop("hook"), Plugin(**entry)) for entry in entries)

    def check(
        self, hook: str, training: bool, present: Sequence[Plugin], found: Iterable[Plugin], selection: Selection
    ) -> None:
        """Raise PluginError unless the required plugins are among ``present``, which implement ``hook``.

        ``found`` are the installed plugins. A plugin that ``selection`` turns off by its name is not required.
        """
        if hook == _ONLY_TRAINING and not training:  # policies act without rewards
            return
        for required_hook, plugin in self.required:
            if required_hook != hook or selection.off(plugin):
                continue
            if not any(_is_same(plugin, other) for other in present):
                raise PluginError(
                    f"{plugin.described} took part in {hook} when the checkpoint was saved, and does not now: "
                    f"{_fix(plugin, found)}, or do without it with -p no:{plugin.label}"
                )


def _is_same(plugin: Plugin, other: Plugin) -> bool:
    """Whether both are one plugin; a local file may have moved."""
    return plugin.name == other.name and canonical(plugin.distribution) == canonical(other.distribution)


def _fix(plugin: Plugin, found: Iterable[Plugin]) -> str:
    if not plugin.distribution:
        return f"load it with --allow-local or -p {plugin.label}"
    for other in found:
        if _is_same(plugin, other):
            return "rlcore plugins doctor says why" if other.on else f"turn it on with -p {plugin.label}"
    return pip_install(plugin.distribution)
