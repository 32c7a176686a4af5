"""Plugins: the record of one, the installed ones, and the import of one.

Installed plugins are found from the metadata of distributions, and nothing of a plugin is imported before it is turned
on and fits the running rlcore. A local plugin is a module or a Python file.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
import importlib_metadata as metadata
from packaging.requirements import Requirement

from rlcore import __version__
from rlcore.errors import PluginError
from rlcore.files.paths import user_path
from rlcore.plugins.contract import CONTRACT, contract_problem, declared
from rlcore.plugins.failures import failure
from rlcore.plugins.sources import is_file, module_text

ENTRY_POINT_GROUP = "rlcore"  # which is also pluggy's project name
LOCAL_PREFIX = "module:"
CORE_DISTRIBUTION = "rlcore"

# What turned a plugin on or off.
Why = Literal["autoload", "config", "RLCORE_PLUGINS", "RLCORE_PLUGIN_AUTOLOAD", "-p"]


@attrs.frozen
class Plugin:
    """One plugin, from discovery to the record that it registers.

    :func:`installed` reads ``name`` to ``hidden`` from metadata;
    :func:`rlcore.plugins.select.decide` sets ``on``, ``why`` and ``refused``; every record of a loaded plugin refers
    to it as ``record.plugin``. A module or file that is not installed has no distribution.

    Attributes:
        NAME: The pattern that names of entry points match: lower-case letters, digits and dashes, a letter first.
        name: The name of the entry point; for a local plugin, of its module.
        module: The module, such as ``acme_ppo.hooks``; the path of a local file.
        distribution: The distribution; empty for a local plugin.
        version: Version of the distribution.
        requires: The distribution's requirements on rlcore.
        needs: The other distributions that it requires here, without extras; each as pip compares names.
        lacks: DIST[EXTRA], if the distribution has an extra with the name of the plugin and a library of this extra is
            not installed; otherwise empty. Such a plugin is off unless it was asked for by name, which is refused.
        contracts: The contracts with rlcore that the distribution declares.
        editable: Whether the distribution is an editable install.
        hidden: Other versions of the distribution on the path, which Python does not use because this one comes first.
        on: Whether the plugin is turned on.
        why: The source that turned the plugin on or off.
        required_by: The label of the plugin that turned this one on by requiring its distribution; empty for most.
        refused: The reason why a plugin that is on cannot be used; None if it can.
    """

    NAME: ClassVar[re.Pattern[str]] = re.compile(r"[a-z][a-z0-9-]*")

    name: str
    module: str
    distribution: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    lacks: str = ""
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
        if not self.distribution:
            return LOCAL_PREFIX + self.module
        return f"{self.distribution}/{self.name}"

    @property
    def described(self) -> str:
        """The plugin in messages: ``plugin 'ppo' (acme-ppo 1.0)``."""
        source = f"{self.distribution} {self.version}" if self.distribution else "local"
        return f"plugin {self.name!r} ({source})"

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
        """The source that turned the plugin on or off: ``autoload``, ``-p``, ``required by acme-rl/acme``."""
        return f"required by {self.required_by}" if self.required_by else self.why

    @property
    def state(self) -> str:
        """``on``; ``off``; ``refused``, which is on but unusable; or ``needs DIST[EXTRA]``, which no one turned off."""
        if self.on:
            return "refused" if self.refused else "on"
        if self.lacks and self.why == "autoload":
            return f"needs {self.lacks}"
        return "off"

    def needs_distribution_of(self, other: Plugin) -> bool:
        """Whether this plugin's distribution requires the one that ``other`` comes from."""
        return canonical(other.distribution) in self.needs

    def required(self, error: BaseException) -> str:
        """Return ``; pip install NAME, which DIST requires`` if ``error`` is about such a NAME; else an empty text."""
        from rlcore.plugins.installing import pip_install

        if not isinstance(error, ModuleNotFoundError):
            return ""
        package, _, _ = str(error.name).partition(".")
        distribution = canonical(package)
        if distribution not in self.needs:
            return ""
        return f"; {pip_install(distribution)}, which {self.distribution} requires"

    @property
    def asked(self) -> bool:
        """Whether it, or what requires it, was asked for by name, so that failing to load it is fatal."""
        return self.on and (self.why != "autoload" or self.essential)


def canonical(distribution: str) -> str:
    """A distribution name as pip compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def bare_name(reference: str) -> str:
    """The name in NAME or DIST/NAME."""
    return reference.rpartition("/")[2]


def installed() -> tuple[Plugin, ...]:
    """Every plugin that an installed distribution announces, sorted by name and distribution.

    The first of two distributions with one name counts, as it does for imports. The metadata are read again after a
    directory of ``sys.path`` has changed.
    """
    places = [os.path.abspath(entry) for entry in sys.path]
    # pip adds and removes a directory of metadata, which changes the time of the directory around it.
    return _installed(tuple((place, _changed(place)) for place in places))


def _changed(place: str) -> int | None:
    with suppress(OSError):
        return os.stat(place).st_mtime_ns
    return None


@lru_cache(maxsize=8)  # by the path, and when each directory was changed
def _installed(path: tuple[tuple[str, int | None], ...]) -> tuple[Plugin, ...]:
    plugins: dict[str, Plugin] = {}
    for distribution in metadata.distributions():
        try:
            entry_points = [point for point in distribution.entry_points if point.group == ENTRY_POINT_GROUP]
        except Exception:  # it may be no plugin at all, so nothing is reported
            continue
        for entry_point in entry_points:
            plugin = _announced(entry_point, distribution)
            plugins.setdefault(plugin.label, plugin)
    if not any(plugin.essential for plugin in plugins.values()):
        # A source tree on PYTHONPATH has no metadata of its own.
        plugins[CORE_DISTRIBUTION] = Plugin("core", "rlcore.plugins.core", CORE_DISTRIBUTION, __version__)
    # By name: the order of the path differs between machines, and the order of this tuple decides that of hooks.
    in_order = sorted(plugins.values(), key=lambda plugin: (plugin.name, plugin.distribution))
    return tuple(in_order)


def _announced(entry_point: metadata.EntryPoint, distribution: Any) -> Plugin:
    try:
        return _read(entry_point, distribution)
    except Exception as error:  # a damaged dist-info raises TypeError, KeyError, ValueError... by Python version
        place = getattr(distribution, "_path", None)  # the only way to say where; absent for finders of other kinds
        problem = f"unreadable metadata in {place or 'an unknown place'} ({type(error).__name__}: {error})"
        # A directory is called NAME-VERSION.dist-info, with underscores for dashes.
        match = re.fullmatch(r"(.+?)(?:-([^-]+))?\.(?:dist|egg)-info", getattr(place, "name", ""))
        name = "unknown"
        version = "?"
        if match:
            name = match[1].replace("_", "-")
            version = match[2] or "?"
            problem += f"; reinstall {name}, or delete the directory"
        return Plugin(entry_point.name, entry_point.value, name, version, refused=problem)


def _read(entry_point: metadata.EntryPoint, distribution: Any) -> Plugin:
    about = distribution.metadata  # each property of a distribution would read and parse the file again
    name = about["Name"]
    version = about["Version"]
    requirements: dict[str, str] = {}
    lacks = False
    for text in about.get_all("Requires-Dist") or ():
        required = _required_here(text)
        if required:
            requirements[text] = required
            continue
        library = "" if lacks else _required_here(text, entry_point.name)
        lacks = lacks or (library != "" and not _is_installed(library))
    directory = json.loads(distribution.read_text("direct_url.json") or "{}").get("dir_info", {})  # PEP 610
    same_name = list(metadata.distributions(name=name))
    versions = {other.version for other in same_name} if len(same_name) > 1 else {version}
    refused = None  # names are words of the command line, and parts of the names of loggers
    if not Plugin.NAME.fullmatch(entry_point.name):
        refused = f"the entry point {entry_point.name!r} must match {Plugin.NAME.pattern}"
    return Plugin(
        entry_point.name,
        entry_point.value,
        name,
        version,
        requires=tuple(text for text, other in requirements.items() if other == CORE_DISTRIBUTION),
        needs=tuple(other for other in requirements.values() if other != CORE_DISTRIBUTION),
        lacks=f"{name}[{entry_point.name}]" if lacks else "",
        contracts=declared(" ".join(about.get_all("Keywords") or ())),
        editable=bool(directory.get("editable", False)),
        hidden=tuple(sorted(versions - {version})),
        refused=refused,
    )


@cache  # each load of plugins reads the requirements of all of them
def _required_here(requirement: str, extra: str = "") -> str:
    """The canonical name of the distribution; empty if a marker, such as that of another extra, does not hold here."""
    parsed = Requirement(requirement)
    if parsed.marker and not parsed.marker.evaluate({"extra": extra}):
        return ""
    return canonical(parsed.name)


def _is_installed(distribution: str) -> bool:
    """Whether the metadata of a distribution are found, without importing anything of it."""
    return next(iter(metadata.distributions(name=distribution)), None) is not None


def handshake(plugin: Plugin, version: str = __version__) -> str | None:
    """Why this plugin cannot be loaded by the running rlcore, or None. Nothing of the plugin is imported.

    Checks its bounds, because pip only warns when it breaks them, and its contract.
    """
    from rlcore.plugins.installing import pip_install

    for requirement in map(Requirement, plugin.requires):
        if not requirement.specifier.contains(version, prereleases=True):
            problem = f"{plugin.distribution} {plugin.version} needs {requirement}, this is rlcore {version}"
            command = pip_install("rlcore", plugin.distribution, upgrade=True)
            return f"{problem}; {command} installs versions that fit"
    # A distribution that declares no contract is tried: its keywords may have been forgotten.
    if plugin.essential or not plugin.contracts or CONTRACT in plugin.contracts:
        return None
    return contract_problem(plugin.contracts, plugin.distribution, plugin.version)


def anchored(reference: str, base: Path | None) -> str:
    """A reference to a local file with its absolute path, from ``base`` or from here; any other reference unchanged."""
    module = reference.removeprefix(LOCAL_PREFIX)
    if module == reference or not is_file(module):
        return reference
    path = (base or Path()) / user_path(module)
    return f"{LOCAL_PREFIX}{path.resolve()}"


def is_free(path: Path) -> bool:
    """Whether a file can be imported as a module with its name: no other module has the name."""
    name = path.stem
    if not name.isidentifier():
        return False
    try:
        spec = find_spec(name)
    except ValueError:  # __main__
        return False
    return spec is None or spec.origin == str(path)


def import_file(path: Path) -> object:
    """Import a file as a module with its name, so that its records can name targets in it: ``"hooks:MyReward"``.

    The directory of the file is added to the end of the module search path, so that the file can import its siblings,
    now and when a target is used. A sibling with the name of an installed module is not found.
    """
    path = path.resolve()
    name = path.stem
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    present = sys.modules.get(name)
    if present is not None and getattr(present, "__file__", None) == str(path):
        return present
    if not is_free(path):
        raise ImportError(f"{path.name} must be renamed: {name!r} is not a free module name")
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def hooks_written(plugin: Plugin) -> tuple[str, ...]:
    """The hooks that the module of a plugin has, read from its code without importing it; empty if it is not found."""
    module = plugin.module.partition(":")[0].strip()
    names = re.findall(r"^\s*def (rlcore_\w+)\(", module_text(module), re.MULTILINE)
    return tuple(sorted(set(names)))


def import_plugin(plugin: Plugin) -> object:
    """The light module of a plugin, or the object in it that its entry point names."""
    try:
        if not plugin.distribution and is_file(plugin.module):
            return import_file(Path(plugin.module))
        name, _, path = plugin.module.partition(":")
        module: Any = importlib.import_module(name.strip())
        for attribute in filter(None, path.strip().split(".")):
            module = getattr(module, attribute)
        return module
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # never BaseException: Ctrl-C is not a broken plugin
        advice = plugin.required(error)
        raise failure(plugin.described, "to load", error, lambda text: PluginError(text + advice)) from error
