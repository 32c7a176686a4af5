"""The rules of all plugins, as tests for authors of plugins to inherit.

::

    class TestMyPlugin(PluginConformance):
        plugin = "acme-ppo/ppo"
"""

from __future__ import annotations

from typing import Any, ClassVar

from rlcore import Plugin, Plugins, Preset, config_from_mapping, load_plugins
from rlcore_devkit.conformance.rules import Rules, doctor, messages_about


class PluginConformance(Rules):
    """Tests of plugins: set ``plugin``.

    Attributes:
        plugin: The plugin, NAME or DIST/NAME, as installed.
        skip: Names of tests that cannot hold, with the reason.
    """

    plugin: ClassVar[str] = ""
    _findings: ClassVar[dict[type, list[dict[str, str]]]] = {}

    def installed(self) -> Plugin:
        """Return the installed plugin."""
        plugins = load_plugins()
        return self._found_in(plugins)

    def _found_in(self, plugins: Plugins) -> Plugin:
        matching = [plugin for plugin in plugins.found if self.plugin in (plugin.name, plugin.label)]
        assert matching, f"{self.plugin!r} is not installed; run pip install -e . in the plugin's directory"
        labels = [plugin.label for plugin in matching]
        assert len(matching) == 1, f"{self.plugin!r} is ambiguous: {labels}"
        return matching[0]

    def loaded(self) -> Plugins:
        """Return the plugin, loaded together with the plugins whose hooks it may implement."""
        plugins = load_plugins()
        plugin = self._found_in(plugins)
        assert plugin.label not in plugins.broken, plugins.broken[plugin.label]
        return plugins

    def _messages(self, rule: str) -> list[str]:
        """Return what the doctor says about a rule. It starts a process, so it is asked once for each class."""
        kind = type(self)
        if kind not in self._findings:
            self._findings[kind] = doctor(self.plugin, imported=True)
        return messages_about(rule, self._findings[kind])

    def test_has_a_name_that_references_can_use(self) -> None:
        assert Plugin.NAME.fullmatch(self.installed().name)

    def test_fits_the_running_rlcore(self) -> None:
        assert self.installed().refused is None

    def test_bounds_the_rlcore_it_was_made_for(self) -> None:
        assert self._messages("bounds") == []

    def test_loads_and_implements_a_hook(self) -> None:
        plugins = self.loaded()
        assert plugins.implemented(self._found_in(plugins).label)

    def test_every_record_has_a_summary(self) -> None:
        plugins = self.loaded()
        records = plugins.records_of(self._found_in(plugins).label)
        incomplete = [record.name for record in records if not record.summary]
        assert incomplete == []

    def test_every_preset_is_a_valid_part_of_a_configuration(self) -> None:
        plugins = self.loaded()
        for record in plugins.records_of(self._found_in(plugins).label):
            if not isinstance(record, Preset):
                continue
            values = record.resolve()
            defaults = values.get("default_settings", {})
            assert "trainer_type" in defaults, f"{record.name}: no trainer_type"
            environment = values.get("environment", {})
            kind = environment.get("type", "program")  # which the core has
            document: dict[str, Any] = {"preset": record.reference}
            document["behaviors"] = {"Any": {}}
            document["environment"] = {"type": kind}
            config_from_mapping(document, plugins)

    def test_importing_it_is_cheap(self) -> None:
        assert self._messages("light") == []

    def test_every_target_can_be_imported(self) -> None:
        assert self._messages("targets") == []
