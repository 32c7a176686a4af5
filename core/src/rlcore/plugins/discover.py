"""Plugins: the record of one, the installed ones, and the import of one.

Installed plugins are found from the metadata of distributions, and nothing of a plugin is imported before it is turned
on and fits the running rlcore. A local plugin is a module or a Python file.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import importlib_metadata as metadata

from rlcore import __version__
from rlcore.errors import PluginError
from rlcore.plugins.contract import CONTRACT, DECLARED, contract_problem, undeclared_problem
from rlcore.plugins.failures import failure
from rlcore.storage.files.access import user_path

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

ENTRY_POINT_GROUP = "rlcore"  # which is also pluggy's project name
PLUGIN_NAME = re.compile(r"[a-z][a-z0-9-]*")
"""The pattern that names of plugins match: lower-case letters, digits and dashes, a letter first."""
LOCAL_PREFIX = "module:"
CORE_DISTRIBUTION = "rlcore"

# What turned a plugin on or off.
Why = Literal["autoload", "config", "RLCORE_PLUGINS", "RLCORE_PLUGIN_AUTOLOAD", "-p"]


@attrs.frozen
class Plugin:
    """One plugin, from discovery to the record that it registers.

    :func:`installed` reads ``name`` to ``editable`` from metadata;
    :func:`rlcore.plugins.select.decide` sets ``on``, ``why`` and ``refused``; every record of a loaded plugin refers
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
        """The source that turned the plugin on or off: ``autoload``, ``-p``, ``required by acme-rl/acme``."""
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

    def required(self, error: BaseException) -> str:
        """Return ``; pip install NAME, which DIST requires`` if ``error`` is about such a NAME; else an empty text."""
        absent = canonical(str(error.name).partition(".")[0]) if isinstance(error, ModuleNotFoundError) else ""
        return f"; pip install {absent}, which {self.distribution} requires" if absent in self.needs else ""

    @property
    def asked(self) -> bool:
        """Whether it, or what requires it, was asked for by name, so that failing to load it is fatal."""
        return self.on and (self.why != "autoload" or self.essential)


def canonical(distribution: str) -> str:
    """A distribution name as pip compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


_CORE_MODULE = "rlcore.plugins.core"
# "rlcore>=0.1", "rlcore[torch]>=0.1", "rlcore @ ..." but not "rlcore-acme": cheap, so that `packaging` is only
# imported for requirements that matter.
_ON_RLCORE = re.compile(r"\s*rlcore\s*(?=[\[(<>=!~;@]|$)", re.IGNORECASE)
_HEADER = re.compile(r"^(Name|Version|Keywords|Requires-Dist):(.*(?:\n[ \t].*)*)", re.MULTILINE)
_RELEASE = re.compile(r"[0-9]+(\.[0-9]+)*")
_PLAIN_BOUNDS = re.compile(rf"rlcore(<|>=){_RELEASE.pattern}(,(<|>=){_RELEASE.pattern})*")
_REQUIRED = re.compile(r"\s*([A-Za-z0-9][\w.-]*)[^;]*(;.*)?", re.DOTALL)
_OF_AN_EXTRA = re.compile(r"\bextra\s*==")


def installed() -> tuple[Plugin, ...]:
    """Every plugin that an installed distribution announces, sorted by name and distribution."""
    found = [_announced(entry_point) for entry_point in _entry_points()]
    if not any(plugin.essential for plugin in found):
        # A source tree on PYTHONPATH has no metadata of its own.
        found.append(Plugin("core", _CORE_MODULE, CORE_DISTRIBUTION, __version__))
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def handshake(plugin: Plugin, version: str = __version__) -> str | None:
    """Why this plugin cannot be loaded by the running rlcore, or None. Nothing of the plugin is imported.

    Checks its bounds, because pip only warns when it breaks them, its contract, and that its module is there.
    """
    return _bounds_problem(plugin, version) or _contract_problem(plugin)


def _contract_problem(plugin: Plugin) -> str | None:
    if plugin.essential or not plugin.distribution:
        return None
    module = plugin.module.partition(":")[0].strip()
    if located(module) is None:
        what = f"{plugin.distribution} {plugin.version}"
        return f"{what} has no module {module!r}, which its entry point names; install it again"
    package = located(module.partition(".")[0])
    if not plugin.contracts and package is not None:
        return undeclared_problem(package, plugin.distribution, plugin.version)
    if not plugin.contracts or CONTRACT in plugin.contracts:
        return None
    return contract_problem(plugin.contracts, plugin.distribution, plugin.version)


def located(module: str) -> ModuleSpec | None:
    """Where a module is, without importing it or its packages; None if it is nowhere."""
    first, *rest = module.split(".")
    try:
        found = find_spec(first)
        for count in range(len(rest)):
            if found is None:
                break
            name = ".".join([first, *rest[: count + 1]])
            found = PathFinder.find_spec(name, found.submodule_search_locations or [])
    except (ImportError, ValueError):
        return None
    return found


def _bounds_problem(plugin: Plugin, version: str) -> str | None:
    if all(_plainly_holds(text, version) for text in plugin.requires):
        return None
    from packaging.requirements import InvalidRequirement, Requirement

    for text in plugin.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            return f"{plugin.distribution} has an unreadable requirement {text!r}"
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            newer = _needs_newer(requirement.specifier, version)
            upgrade = f"'rlcore{requirement.specifier}'" if newer else plugin.distribution
            return (
                f"{plugin.distribution} {plugin.version} needs rlcore{requirement.specifier}, "
                f"this is rlcore {version}; pip install -U {upgrade}"
            )
    return None


def _plainly_holds(requirement: str, version: str) -> bool:
    """Whether ``rlcore<0.2,>=0.1`` holds. False also where only ``packaging`` can tell: its import takes 16 ms."""
    if not (_PLAIN_BOUNDS.fullmatch(requirement) and _RELEASE.fullmatch(version)):
        return False
    running, bounds = _release(version), re.findall(r"(<|>=)([\d.]+)", requirement)
    return all(running < _release(bound) if sign == "<" else running >= _release(bound) for sign, bound in bounds)


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.sub(r"(\.0+)+$", "", version).split(".")))  # 0.1.0 is 0.1


def _needs_newer(specifiers: SpecifierSet, version: str) -> bool:
    """Whether a version that does not satisfy ``specifiers`` is too old for one of them, not too new."""
    from packaging.version import InvalidVersion, Version

    for each in specifiers:
        try:
            least = Version(each.version.removesuffix(".*"))
        except InvalidVersion:  # "===anything"
            continue
        if each.operator in (">=", ">", "~=", "==") and Version(version) <= least and not each.contains(version, True):
            return True
    return False


def _entry_points() -> Iterable[metadata.EntryPoint]:
    try:
        # Reads every entry_points.txt and keeps the first of two distributions with one name, as imports do.
        return list(metadata.entry_points(group=ENTRY_POINT_GROUP))
    except Exception:  # one unreadable entry_points.txt fails the call for all of them
        return list(_readable_entry_points())


def _readable_entry_points() -> Iterable[metadata.EntryPoint]:
    seen: set[str] = set()
    for distribution in metadata.distributions():
        try:
            name = canonical(distribution.name)
            entry_points = [entry for entry in distribution.entry_points if entry.group == ENTRY_POINT_GROUP]
        except Exception:  # it may be no plugin at all, so nothing is reported
            continue
        if name not in seen:
            seen.add(name)
            yield from entry_points


def _announced(entry_point: metadata.EntryPoint) -> Plugin:
    distribution = entry_point.dist
    try:
        if distribution is None:
            raise ValueError("no distribution")
        about = _headers(distribution)
        name, version = about["Name"][0], about["Version"][0]
        contracts = declared(" ".join(about.get("Keywords", ())))
        requirements = about.get("Requires-Dist") or distribution.requires or ()
        requires = tuple(text for text in requirements if _ON_RLCORE.match(text))
        needs = tuple(filter(None, map(_needed, requirements)))
        installed_from = json.loads(distribution.read_text("direct_url.json") or "{}")
        editable = bool(installed_from.get("dir_info", {}).get("editable", False))
        found = list(metadata.distributions(name=name))
        every = {str(each.version) for each in found} if len(found) > 1 else {version}
    except Exception as error:  # a damaged dist-info raises TypeError, KeyError, ValueError... by Python version
        return Plugin(
            entry_point.name, entry_point.value, "unknown", "?", refused=f"unreadable metadata ({type(error).__name__})"
        )
    fits = PLUGIN_NAME.fullmatch(entry_point.name)
    return Plugin(
        entry_point.name,
        entry_point.value,
        name,
        version,
        requires=requires,
        needs=needs,
        contracts=contracts,
        editable=editable,
        hidden=tuple(sorted(every - {version})),
        refused=None if fits else f"the entry point {entry_point.name!r} must match {PLUGIN_NAME.pattern}",
    )


def declared(keywords: str | None) -> tuple[int, ...]:
    """The contracts among the keywords of a distribution, however its build backend separates them."""
    return tuple(map(int, DECLARED.findall(keywords or "")))


def _headers(distribution: Any) -> dict[str, list[str]]:
    """The headers of a distribution that are needed here. Its property ``metadata`` would import a parser of mails."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    found: dict[str, list[str]] = {}
    for name, value in _HEADER.findall(text.partition("\n\n")[0]):
        found.setdefault(name, []).append(value.strip())
    return found


def _needed(requirement: str) -> str:
    """The distribution that a requirement asks for; "" for rlcore, for an extra, and if its marker does not hold."""
    found = _REQUIRED.match(requirement)
    if found is None or _ON_RLCORE.match(requirement) or _OF_AN_EXTRA.search(found[2] or ""):
        return ""
    if found[2]:
        from packaging.markers import InvalidMarker, Marker

        try:
            if not Marker(found[2].removeprefix(";")).evaluate({"extra": ""}):
                return ""
        except InvalidMarker:  # pip would not have installed it
            return ""
    return canonical(found[1])


def anchored(reference: str, base: Path | None) -> str:
    """A reference to a local file with its absolute path, from ``base`` or from here; any other reference unchanged."""
    module = reference.removeprefix(LOCAL_PREFIX)
    if module == reference or not is_file(module):
        return reference
    return LOCAL_PREFIX + str(((base or Path()) / user_path(module)).resolve())


def is_file(module: str) -> bool:
    """Whether a local plugin is a file (``./hooks.py``) rather than a module (``acme.hooks``)."""
    return module.endswith(".py") or "/" in module or "\\" in module


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
    taken = find_spec(name) if name.isidentifier() else None
    if not name.isidentifier() or (taken is not None and taken.origin != str(path)):
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


def import_plugin(plugin: Plugin) -> object:
    """The light module of a plugin, or the object in it that its entry point names."""
    try:
        if not plugin.distribution and is_file(plugin.module):
            return import_file(Path(plugin.module))
        name, _, attribute = plugin.module.partition(":")
        found: Any = importlib.import_module(name.strip())
        for part in filter(None, attribute.strip().split(".")):
            found = getattr(found, part)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # never BaseException: Ctrl-C is not a broken plugin
        advice = plugin.required(error)
        raise failure(plugin.described, "to load", error, lambda text: PluginError(text + advice)) from error
    return found
