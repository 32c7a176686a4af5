"""The kinds of plugins that ``rlcore plugins new`` writes, from ``kinds.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class KindSettings:
    """The settings class of a kind.

    Attributes:
        block: The docstring of its module: the block of a configuration that it describes.
        fields: The lines of its fields, and of its checks.
        base: The class that it extends, or "".
        base_has: The settings of the base, for the docstring.
        source: The package of the base.
    """

    block: str
    fields: str
    base: str = ""
    base_has: str = ""
    source: str = "rlcore"


@attrs.frozen(kw_only=True)
class Kind:
    """How to write, describe and use one kind of plugin. The texts are templates of Jinja.

    Attributes:
        noun: The word for it, with its article.
        does: What the template does, in a few words.
        words: Endings of the name of its class. The first is added unless the plugin's name ends with one of them.
        modules: Its modules beside ``plugin`` and ``settings``, and what they contain; the first has its class.
        record: The kind of its record, as in ``rlcore plugins list --provides``; "" if another plugin has the registry.
        hook: The hook that announces it.
        spec: The class of the record that the hook returns, from the package ``source``.
        target: The target of the record, without the package.
        arguments: More arguments of the record.
        summary: The summary of the record.
        contract: The protocol or base class that the class implements, where its methods are documented.
        conformance: The class that its tests inherit from.
        page: The page of the documentation, without its ending.
        needs: The distributions that its example needs beside rlcore and the plugin.
        usage: The block of a configuration that uses it, or "".
        example: The example, without ``checkpoint_settings``.
        commands: What to run after the example.
        required: The block that every run needs while the package is installed, or "".
        settings: Its settings class; None if it has none.
        settings_of: The word for what its settings are of, if that is not its class; among several kinds it names them.
    """

    noun: str
    does: str
    words: Sequence[str]
    modules: Mapping[str, str]
    record: str
    hook: str
    spec: str
    source: str = "rlcore"
    target: str
    arguments: Sequence[str] = ()
    summary: str
    contract: str
    conformance: str
    page: str
    needs: Sequence[str]
    usage: str = ""
    example: str
    commands: Sequence[str] = ()
    required: str = ""
    settings: KindSettings | None = None
    settings_of: str = ""

    @property
    def module(self) -> str:
        """The module of its class."""
        return next(iter(self.modules))

    @property
    def summary_line(self) -> str:
        """``"a trainer: ..."``"""
        return f"{self.noun}: {self.does}"

    @property
    def title(self) -> str:
        """``"A trainer for rlcore: ..."``"""
        return f"{self.noun[0].upper()}{self.noun[1:]} for rlcore: {self.does}"


def _kind(table: dict[str, Any]) -> Kind:
    if "settings" in table:
        table["settings"] = KindSettings(**table["settings"])
    return Kind(**table)


_TABLES = tomllib.loads((files(__package__) / "kinds.toml").read_text(encoding="utf-8"))
KINDS: Mapping[str, Kind] = {name: _kind(table) for name, table in _TABLES.items()}
