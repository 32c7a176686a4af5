"""The parts that classes of rules share: skipped tests, a directory for each test, and the record of what is tested."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from rlcore import (
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    Plugins,
    Record,
    RunConfig,
    RunContext,
    dotted,
    load_plugins,
    main,
    read_settings,
    selection_from,
)


class Rules:
    """Tests for authors of plugins to inherit.

    Attributes:
        skip: Names of tests that cannot hold, with the reason.
        directory: An empty directory for each test.
    """

    skip: ClassVar[Mapping[str, str]] = {}
    directory: Path

    @pytest.fixture(autouse=True)
    def _skip_and_place(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        reason = self.skip.get(request.node.originalname)
        if reason:
            pytest.skip(reason)
        self.directory = tmp_path


class RecordRules(Rules):
    """Tests of what a record announces; the attribute that ``named`` names has its NAME or DIST/NAME.

    Attributes:
        record_class: The class of the record.
        named: The attribute of the class with the name.
        settings: The block of the configuration, without ``type``.
    """

    record_class: ClassVar[type[Record]] = Record
    named: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Any]] = {}

    @property
    def reference(self) -> str:
        """The name of the record, NAME or DIST/NAME."""
        name: str = getattr(self, self.named)
        return name

    def plugins(self) -> Plugins:
        """Return the installed plugins, with that of the record turned on."""
        return installed(self.reference)

    def record(self, plugins: Plugins | None = None) -> Any:
        """Return the record."""
        plugins = plugins or self.plugins()
        return plugins.record(self.record_class, self.reference)

    @cached_property
    def _record(self) -> Any:
        return self.record()

    def block(self, **settings: Any) -> Any:
        """Return the checked block, None without a settings class; ``settings`` override those of the class."""
        record = self._record
        if getattr(record, "settings", None) is None:
            return None
        block = {**self.settings, **settings}
        if "type" in attrs.fields_dict(record.resolve("settings")):
            block.setdefault("type", self.reference)
        return checked_block(record, block)

    def context(self, *behaviors: BehaviorSpec, directory: Path | None = None) -> RunContext:
        """Return a run with these behaviors, in :attr:`directory` by default."""
        settings = {behavior.name: BehaviorSettings() for behavior in behaviors}
        config = RunConfig(behaviors=settings)
        specs = {behavior.name: behavior for behavior in behaviors}
        plugins = self.plugins()
        directory = directory or self.directory
        return RunContext(config, plugins, directory, 1, 1, behaviors=specs)

    def test_its_record_has_a_summary_and_unknown_settings_are_refused(self) -> None:
        record = self.record()
        assert record.summary, "a record needs a summary for `rlcore plugins list`"
        if getattr(record, "settings", None) is not None:
            with pytest.raises(ConfigError, match="no_such_key"):
                self.block(no_such_key=1)


def checked_block(record: Record, block: Mapping[str, Any], attribute: str = "settings") -> Any:
    """Return the settings of ``record`` from ``block``, as in a file. Raises :class:`rlcore.ConfigError`.

    ``attribute`` of the record names the class of the settings.
    """
    settings_class = record.resolve(attribute)
    settings, problems = read_settings(settings_class, dict(block))
    if problems:
        lines = []
        for path, text in problems:
            key = dotted((record.name, *path))
            lines.append(f"{key}: {text}")
        raise ConfigError("; ".join(lines))
    return settings


def doctor(plugin: str, imported: bool = False) -> list[dict[str, str]]:
    """Return what ``rlcore plugins doctor`` finds about a plugin.

    With ``imported``, the targets of its records are imported.
    """
    printed = io.StringIO()
    option = "--import" if imported else "--no-import"
    with contextlib.redirect_stdout(printed):
        main(["plugins", "doctor", plugin, "--json", option])
    findings: list[dict[str, str]] = json.loads(printed.getvalue())["findings"]
    return findings


def messages_about(rule: str, findings: list[dict[str, str]]) -> list[str]:
    """Return the messages about one rule among the ``findings`` of the doctor, and every error.

    Errors of targets are for the rule ``targets`` alone. What needs an extra that is not installed is left out.
    """
    messages = []
    for finding in findings:
        if finding["rule"] == "targets":
            # A warning about targets is a library that only an extra installs: no fault of the plugin.
            levels = ["error"] if rule == "targets" else []
        else:
            levels = ["error", "warning"] if finding["rule"] == rule else ["error"]
        if finding["level"] in levels:
            messages.append(finding["message"])
    return messages


def installed(name: str) -> Plugins:
    """Return the installed plugins, with that of ``name``, NAME or DIST/NAME, turned on."""
    selection = selection_from(environ={}, used=(name,))
    return load_plugins(selection)
