"""The names of a new plugin, its distribution and its module, which are checked before a file is written."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Collection, Sequence
from importlib import metadata
from importlib.util import find_spec

import attrs
from packaging.requirements import Requirement

from rlcore import ConfigError, Plugin, RunConfig, did_you_mean, load_plugins
from rlcore_devkit.scaffold.kinds import KINDS, Kind

_PREFIX = "rlcore-"
_COMPANY = re.compile(r"([a-z0-9-]+?)-rl-([a-z][a-z0-9-]*)")
# Of distributions, by https://packaging.python.org/en/latest/specifications/name-normalization/
_DISTRIBUTION = re.compile(r"[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]", re.IGNORECASE)
# Names of this length keep every line of the templates within 120 characters.
LONGEST_PLUGIN = 30
LONGEST_MODULE = 40


@attrs.frozen
class Package:
    """A package to write; :func:`new_package` checks the names.

    Attributes:
        name: The name of the plugin, which is also that of its records.
        distribution: The name for pip, normalized.
        module: The name of the Python package.
        kinds: What it provides, keys of :data:`rlcore_devkit.scaffold.kinds.KINDS`.
    """

    name: str
    distribution: str
    module: str
    kinds: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name as a key that ``--set`` and options can name: without hyphens."""
        return self.name.replace("-", "_")

    @property
    def several(self) -> bool:
        """Whether it provides more than one kind."""
        return len(self.kinds) > 1

    def class_name(self, kind: str) -> str:
        """``FastTrainer`` for the trainer ``fast``, and ``MyTrainer`` for ``my-trainer``, which ends with the word."""
        parts = _capitalized(self.name)
        words = KINDS[kind].words
        if parts[-1] in words:
            parts.pop()
        return "".join([*parts, words[0]])

    def settings_class(self, kind: str) -> str:
        """``MyTrainerSettings``; among several kinds, the name of the class, or of a block, and ``Settings``."""
        block = KINDS[kind].settings_of if self.several else ""
        if self.several and not block:
            return f"{self.class_name(kind)}Settings"
        prefix = "".join(_capitalized(self.name))
        return f"{prefix}{block}Settings"

    def settings_module(self, kind: str) -> str:
        """``settings``; among several kinds, one module for each."""
        if not self.several:
            return "settings"
        block = KINDS[kind].settings_of.lower()
        return f"{block or KINDS[kind].module}_settings"

    def example(self, kind: str) -> str:
        """The path of the configuration that uses this kind."""
        return f"examples/{kind}.yaml" if self.several else "example.yaml"

    def run_id(self, kind: str) -> str:
        """The id of the run of that configuration."""
        return f"{self.name}-{kind}" if self.several else self.name


def new_package(
    name: str | None,
    kinds: Sequence[str],
    *,
    distribution: str | None = None,
    module: str | None = None,
    commands: Collection[str] = (),
) -> Package:
    """Return the package with these names. The names that are None derive from the others.

    ``walker`` is the plugin of ``rlcore-walker``, and ``acme-walker`` that of ``acme-rl-walker``. A name that begins
    with ``rlcore-`` names the distribution. ``commands`` are the commands of rlcore. Raises ConfigError for names that
    cannot be used or are taken, and for kinds that do not exist or do not go together.
    """
    chosen = _checked_kinds(kinds)
    if name is None and distribution is None:
        raise ConfigError("a name is missing; give NAME or --distribution")
    if distribution is None:
        name = str(name).removeprefix(_PREFIX)
        distribution = f"{_PREFIX}{name}"
    else:
        distribution = _normalized(distribution)
    name = _plugin_of(distribution) if name is None else name
    _check_distribution(distribution)
    _check_plugin(name)
    module = distribution.replace("-", "_") if module is None else module
    _check_module(module)
    package = Package(name, distribution, module, chosen)
    _check_provided(package, commands)
    return package


def _checked_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(kinds))
    if not chosen:
        raise ConfigError(f"a kind is missing; --kind is one or more of {', '.join(KINDS)}")
    for kind in chosen:
        if kind not in KINDS:
            raise ConfigError(f"unknown kind {kind!r}; allowed: {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    modules: dict[str, str] = {}
    for kind in chosen:
        for module in KINDS[kind].modules:
            if module in modules:
                raise ConfigError(
                    f"kinds {modules[module]!r} and {kind!r} do not go together: both have {module}.py; choose one of "
                    "them, or write two packages"
                )
            modules[module] = kind
    return chosen


def _plugin_of(distribution: str) -> str:
    company = _COMPANY.fullmatch(distribution)
    if company:
        return f"{company[1]}-{company[2]}"
    return distribution.removeprefix(_PREFIX)


def _normalized(distribution: str) -> str:
    if not _DISTRIBUTION.fullmatch(distribution):
        raise ConfigError(
            f"{distribution!r} is not a name for a distribution: use letters, digits and single hyphens, such as "
            f"rlcore-walker or acme-rl-walker{_nearest(distribution)}"
        )
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _check_plugin(name: str) -> None:
    single_hyphens = "--" not in name and not name.endswith("-")
    if not Plugin.NAME.fullmatch(name) or not single_hyphens or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is not a plugin name: use small letters, digits and single hyphens, with a letter first"
            f"{_nearest(name)}"
        )
    if len(name) > LONGEST_PLUGIN:
        raise ConfigError(f"the plugin name {name!r} has {len(name)} characters; at most {LONGEST_PLUGIN} are allowed")
    for plugin in load_plugins().found:
        if plugin.name == name:
            raise ConfigError(f"{name!r} is the name of an installed plugin, {plugin.label}; choose another")


def _nearest(name: str) -> str:
    """``"; did you mean 'my-cart'?"`` for ``My Cart``; empty if no valid name is near."""
    near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    usable = Plugin.NAME.fullmatch(near) and not keyword.iskeyword(near) and len(near) <= LONGEST_PLUGIN
    if not usable or near == name:
        return ""
    return f"; did you mean {near!r}?"


def _check_distribution(distribution: str) -> None:
    if distribution in _own_distributions():
        raise ConfigError(f"{distribution!r} is a distribution of rlcore's own; choose another name")
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return
    raise ConfigError(f"{distribution!r} is installed already, version {version}; choose another name")


def _check_module(module: str) -> None:
    advice = "choose another with --module"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        raise ConfigError(
            f"{module!r} is not a name for a module: use small letters, digits and underscores, with a letter first; "
            f"{advice}"
        )
    if len(module) > LONGEST_MODULE:
        raise ConfigError(
            f"the module name {module!r} has {len(module)} characters; at most {LONGEST_MODULE} are allowed; {advice}"
        )
    # The name would hide the other module, or be hidden by it, in the order of sys.path.
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise ConfigError(f"{module!r} is a module that can be imported already; {advice}")


def _check_provided(package: Package, commands: Collection[str]) -> None:
    """Refuse names of what rlcore's own plugins provide: a configuration could not name the new one."""
    plugins = load_plugins()
    distributions = _own_distributions()
    for kind in kinds_of(package):
        records = plugins.records(kind.record) if kind.record in plugins.kinds else ()
        for record in records:
            rlcores = record.plugin is not None and record.plugin.distribution in distributions
            if rlcores and record.name == package.name:
                raise ConfigError(f"{package.name!r} is the name of {kind.noun} of rlcore's own; choose another")
    # A package of hooks registers a command and a block of the configuration under its name.
    used = package.name in commands or package.key in attrs.fields_dict(RunConfig)
    if used and "hooks" in package.kinds:
        raise ConfigError(f"{package.name!r} is the name of a command or a block of rlcore's own; choose another")


def _own_distributions() -> set[str]:
    """The distributions of rlcore's own: the core, and those that its extras name."""
    required = {Requirement(text).name for text in metadata.requires("rlcore") or ()}
    members = {name for name in required if name.startswith(_PREFIX)}
    return members | {"rlcore"}


def _capitalized(name: str) -> list[str]:
    return [part.capitalize() for part in name.split("-")]


def kinds_of(package: Package) -> list[Kind]:
    """Return the descriptions of its kinds."""
    return [KINDS[kind] for kind in package.kinds]
