"""The fingerprint of a checkpoint: everything outside its state that the numbers of a run depend on.

A resumed run equals the run that was never stopped only if the fingerprints are equal; :func:`differences` names what
differs. Values are texts, in seven sections:

- ``libraries``: the versions of rlcore, torch and numpy.
- ``environment``: the versions of the libraries that the environment's plugin names.
- ``plugins``: distribution and version of each plugin that what is learned depends on, by its name.
- ``loaded``: the same of each loaded plugin; :func:`other_plugins` compares it, and a resume does not depend on it.
- ``computing``: the device and the threads of the trainers, the kind of processor, and Python.
- ``processes``: the numbers of ranks and of workers.
- ``configuration``: the SHA-256 of the part of the configuration that a training depends on.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any

from rlcore import __version__
from rlcore.config.dump import dump_config
from rlcore.config.problems import short_repr
from rlcore.config.used_records import listed_records
from rlcore.contracts.states import TreePath, leaves, mapped
from rlcore.errors import dotted
from rlcore.plugins.call import Plugins
from rlcore.plugins.discover import Plugin
from rlcore.records import ConfigSection, EnvironmentSpec
from rlcore.settings import RunConfig

Fingerprint = Mapping[str, Mapping[str, str]]

ENTRY = "fingerprint"  # of a checkpoint's run
ANOTHER_CONFIGURATION = "another configuration"
# Blocks that no number of a training depends on. The section `plugins` says which plugins were loaded.
_WITHOUT_EFFECT = ("checkpoint_settings", "evaluation", "stats", "export", "plugins", "debug")
_SECTIONS = ("libraries", "environment", "plugins", "computing", "processes")
_COMPARED_ELSEWHERE = "ranks"  # by the start of a run, which restores less of a checkpoint of another number


def library_versions() -> Mapping[str, str]:
    """The versions of rlcore, and of torch and numpy where they are installed."""
    return {"rlcore": __version__, **installed(("torch", "numpy"))}


@cache
def installed(distributions: tuple[str, ...]) -> Mapping[str, str]:
    """The versions of those ``distributions`` that are installed.

    They are looked up once, because reading a package's metadata takes a fifth of the time of a checkpoint.
    """
    found = {}
    for distribution in distributions:
        try:
            found[distribution] = version(distribution)
        except PackageNotFoundError:
            continue
    return MappingProxyType(found)


def computing_of(config: RunConfig) -> dict[str, str]:
    """Where trainers compute: a CPU with one thread, unless the section of a plugin says otherwise."""
    found = {"device": "cpu", "threads": "1"}
    for settings in config.sections.values():
        found |= getattr(settings, "computing", {})
    return found


def fingerprint(
    plugins: Plugins, config: RunConfig, ranks: int = 1, took_part: Iterable[Plugin] = ()
) -> dict[str, dict[str, str]]:
    """The fingerprint of a run of ``ranks`` processes, in this process.

    ``took_part`` are the plugins that made or wrapped objects of the run.
    """
    environment: Mapping[str, str] = {}
    workers = 0
    if config.environment is not None:
        spec = plugins.record(EnvironmentSpec, config.environment.type)
        environment = installed(spec.libraries)
        workers = config.environment.executor.count if config.environment.executor else 0
    computing = {
        **computing_of(config),
        "processor": platform.machine(),
        "Python": platform.python_version(),
    }
    return {
        "libraries": dict(library_versions()),
        "environment": dict(environment),
        "plugins": _versions(_of_learning(plugins, config, took_part)),
        "loaded": _versions(plugins.loaded),
        "computing": computing,
        "processes": {"ranks": str(ranks), "workers": str(workers)},
        "configuration": {"sha256": _digest(learning_part(dump_config(config), plugins))},
    }


def _of_learning(plugins: Plugins, config: RunConfig, took_part: Iterable[Plugin]) -> Iterable[Plugin]:
    """The plugins whose records the run learns with, those that took part, and those of distributions that they need.

    A plugin that is merely installed changes nothing of the run, whatever its version.
    """
    owners = [record.plugin for record in listed_records(config, plugins)]
    found = dict.fromkeys([*filter(None, owners), *took_part])
    waiting = [*found]
    for plugin in waiting:  # grows: a needed plugin may need more
        needed = [each for each in plugins.loaded if plugin.needs_distribution_of(each) and each not in found]
        found |= dict.fromkeys(needed)
        waiting += needed
    return found


def _versions(plugins: Iterable[Plugin]) -> dict[str, str]:
    """Distribution and version of each plugin by its name, or by DIST/NAME if several have the name."""
    found = sorted(plugins, key=lambda each: (each.name, each.label))
    several = Counter(plugin.name for plugin in found)
    versions = {}
    for plugin in found:
        name = plugin.name if several[plugin.name] == 1 else plugin.label
        versions[name] = f"{plugin.distribution} {plugin.version}".strip()
    return versions


def differences(saved: Fingerprint, now: Fingerprint) -> list[str]:
    """The differences between a checkpoint (``saved``) and this process: ``torch 2.14.0 instead of 2.13.0``."""
    found = []
    for section in _SECTIONS:
        before = saved[section]
        after = now[section]
        for name in sorted(before.keys() | after.keys()):
            if name != _COMPARED_ELSEWHERE and before.get(name) != after.get(name):
                found.append(_changed(name, before, after, "plugin" if section == "plugins" else ""))
    if saved["configuration"] != now["configuration"]:
        found.append(ANOTHER_CONFIGURATION)
    return found


def other_plugins(saved: Fingerprint, now: Fingerprint) -> list[str]:
    """The differences between the loaded plugins that no number of the training depends on, in words."""
    before = saved["loaded"]
    after = now["loaded"]
    learning = saved["plugins"].keys() | now["plugins"].keys()
    names = sorted((before.keys() | after.keys()) - learning)
    return [_changed(name, before, after, "plugin") for name in names if before.get(name) != after.get(name)]


def _changed(name: str, before: Mapping[str, str], after: Mapping[str, str], word: str) -> str:
    was, is_now = (side.get(name, "not loaded") or "without a version" for side in (before, after))
    return f"{f'{word} {name!r}' if word else name} {is_now} instead of {was}"


def learning_part(data: Mapping[str, Any], plugins: Plugins) -> dict[str, Any]:
    """The part of a complete configuration that a training depends on."""
    found = {key: value for key, value in data.items() if key not in _WITHOUT_EFFECT}
    for record in plugins.records(ConfigSection.kind):
        for name in found.keys() & {record.name, record.reference}:
            block = found.pop(name)
            if record.affects_learning:
                part = getattr(record.resolve(), "learning_part", None)
                found[name] = block if part is None else part(block)
    return found


def _digest(data: Mapping[str, Any]) -> str:
    text = json.dumps(mapped(data, _canonical), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any, path: TreePath) -> Any:
    """Equal numbers are written alike: 1.0 in a file and 1 in another one configure the same."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ---------------------------------------------------------------- changes of the configuration


MISSING = "nothing"
# These say how a run was started, not what it does.
_START = ("checkpoint_settings",)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """``a.b is 2 instead of 1`` for each key that differs, without those that only say how the run is started."""
    left = dict(leaves(before, _is_list))
    right = dict(leaves(now, _is_list))
    keys = [key for key in left | right if key[:1] != _START and left.get(key) != right.get(key)]
    return [f"{dotted(key)} is {_shown(right, key)} instead of {_shown(left, key)}" for key in keys]


def described(found: list[str], most: int = 5) -> str:
    """The changes in one text, up to ``most`` of them."""
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def _shown(values: Mapping[TreePath, Any], key: TreePath) -> str:
    return short_repr(values[key]) if key in values else MISSING


def _is_list(value: Any, path: TreePath) -> bool:
    return isinstance(value, list)
