"""A plugin: its name, where it comes from, and whether it is on."""

from __future__ import annotations

import re
from typing import Literal

import attrs

PLUGIN_NAME = re.compile(r"[a-z][a-z0-9-]*")
LOCAL_PREFIX = "module:"
CORE_DISTRIBUTION = "rlcore"

# What turned a plugin on or off.
Why = Literal["autoload", "config", "RLCORE_PLUGINS", "RLCORE_PLUGIN_AUTOLOAD", "-p"]


@attrs.frozen
class Plugin:
    """One plugin, from discovery to the record that it registers.

    :func:`rlcore.plugins.discovery.installed` reads ``name`` to ``editable`` from metadata;
    :func:`rlcore.plugins.selection.decide` sets ``on``, ``why`` and ``refused``; every record of a loaded plugin refers
    to it as ``record.plugin``. A module or file that is not installed has no distribution.

    Attributes:
        name: The name of the entry point; for a local plugin, of its module.
        module: The module, such as ``acme_ppo.hooks``; the path of a local file.
        distribution: The distribution; empty for a local plugin.
        version: Version of the distribution.
        requires: The distribution's requirements on rlcore.
        needs: The other distributions that it requires here, without extras; each as pip compares names.
        contracts: The contracts with rlcore that the distribution declares.
        editable: Whether the distribution is an editable install.
        hidden: Other versions of the distribution on the path, which Python does not use because this one comes first.
        on: Whether the plugin is turned on.
        why: The source that turned the plugin on or off.
        required_by: The label of the plugin that turned this one on by requiring its distribution; empty for most.
        refused: The reason why a plugin that is on cannot be used; None if it can.
    """

    name: str
    module: str
    distribution: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    contracts: tuple[int, ...] = ()
    editable: bool = False
    hidden: tuple[str, ...] = ()
    on: bool = True
    why: Why = "autoload"
    required_by: str = ""
    refused: str | None = None

    @property
    def label(self) -> str:
        """The unique name that pluggy and ``-p`` use: ``acme-ppo/ppo`` or ``module:acme.hooks``."""
        return f"{self.distribution}/{self.name}" if self.distribution else f"{LOCAL_PREFIX}{self.module}"

    @property
    def described(self) -> str:
        """The plugin in messages: ``plugin 'ppo' (acme-ppo 1.0)``."""
        return f"plugin {self.name!r} ({f'{self.distribution} {self.version}' if self.distribution else 'local'})"

    @property
    def source(self) -> str:
        """The part before the slash in a reference to one of its records: its distribution, else its own name."""
        return self.distribution or self.name

    @property
    def essential(self) -> bool:
        """Whether this is rlcore's own plugin, which cannot be turned off."""
        return canonical(self.distribution) == CORE_DISTRIBUTION

    @property
    def warning(self) -> str | None:
        """The line about a plugin that can be used, but may not be what was installed; None for most."""
        if not self.hidden:
            return None
        return (
            f"{self.described}: {self.distribution} {' and '.join(self.hidden)} is on the path too, and Python uses "
            f"the first that it finds; pip uninstall {self.distribution} until one is left"
        )

    @property
    def because(self) -> str:
        """What decided whether the plugin is on, for tables: ``autoload``, ``-p``, ``required by rlcore-ppo/ppo``."""
        return f"required by {self.required_by}" if self.required_by else self.why

    @property
    def state(self) -> Literal["on", "off", "refused"]:
        """Whether the plugin is ``on``, ``off``, or ``refused``: on, but unusable."""
        if not self.on:
            return "off"
        return "refused" if self.refused else "on"

    def needs_distribution_of(self, other: Plugin) -> bool:
        """Whether this plugin's distribution requires the one that ``other`` comes from."""
        return canonical(other.distribution) in self.needs

    @property
    def asked(self) -> bool:
        """Whether it, or what requires it, was asked for by name, so that failing to load it is fatal."""
        return self.on and (self.why != "autoload" or self.essential)


def canonical(distribution: str) -> str:
    """A distribution name as pip compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
