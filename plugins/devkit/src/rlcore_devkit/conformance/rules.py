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
    load_plugins,
    main,
    selection_from,
)
from rlcore_devkit.blocks import checked_block


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
        return (plugins or self.plugins()).record(self.record_class, self.reference)

    @cached_property
    def _record(self) -> Any:
        return self.record()

    def block(self, **settings: Any) -> Any:
        """Return the checked block, None without a settings class; ``settings`` override those of the class."""
        if getattr(self._record, "settings", None) is None:
            return None
        typed = {"type": self.reference} if "type" in attrs.fields_dict(self._record.resolve("settings")) else {}
        return checked_block(self._record, {**typed, **self.settings, **settings})

    def context(self, *behaviors: BehaviorSpec, directory: Path | None = None) -> RunContext:
        """Return a run with these behaviors, in :attr:`directory` by default."""
        config = RunConfig(behaviors={behavior.name: BehaviorSettings() for behavior in behaviors})
        known = {behavior.name: behavior for behavior in behaviors}
        return RunContext(config, self.plugins(), directory or self.directory, 1, 1, behaviors=known)

    def test_its_record_has_a_summary_and_unknown_settings_are_refused(self) -> None:
        record = self.record()
        assert record.summary, "a record needs a summary for `rlcore plugins list`"
        if getattr(record, "settings", None) is not None:
            with pytest.raises(ConfigError, match="no_such_key"):
                self.block(no_such_key=1)


def doctor(plugin: str, rule: str, imported: bool = False) -> list[str]:
    """Return what ``rlcore plugins doctor`` says about one rule of a plugin, and every error.

    With ``imported``, the targets of its records are imported. What needs an extra that is not installed is left out.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["plugins", "doctor", plugin, "--json", "--import" if imported else "--no-import"])
    found = json.loads(printed.getvalue())["findings"]
    return [each["message"] for each in found if each["level"] == "error" or each["rule"] == rule != "targets"]


def installed(name: str) -> Plugins:
    """Return the installed plugins, with that of ``name``, NAME or DIST/NAME, turned on."""
    return load_plugins(selection_from(environ={}, used=(name,)))
