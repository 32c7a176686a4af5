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
    versions = {}
    for distribution in distributions:
        try:
            versions[distribution] = version(distribution)
        except PackageNotFoundError:
            continue
    return MappingProxyType(versions)


def computing_of(config: RunConfig) -> dict[str, str]:
    """Where trainers compute: a CPU with one thread, unless the section of a plugin says otherwise."""
    computing = {"device": "cpu", "threads": "1"}
    for settings in config.sections.values():
        computing |= getattr(settings, "computing", {})
    return computing


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
        executor = config.environment.executor
        if executor:
            workers = executor.count
    computing = {
        **computing_of(config),
        "processor": platform.machine(),
        "Python": platform.python_version(),
    }
    learning_plugins = _of_learning(plugins, config, took_part)
    learning_config = learning_part(dump_config(config), plugins)
    return {
        "libraries": dict(library_versions()),
        "environment": dict(environment),
        "plugins": _versions(learning_plugins),
        "loaded": _versions(plugins.loaded),
        "computing": computing,
        "processes": {"ranks": str(ranks), "workers": str(workers)},
        "configuration": {"sha256": _digest(learning_config)},
    }


def _of_learning(plugins: Plugins, config: RunConfig, took_part: Iterable[Plugin]) -> Iterable[Plugin]:
    """The plugins whose records the run learns with, those that took part, and those of distributions that they need.

    A plugin that is merely installed changes nothing of the run, whatever its version.
    """
    learning: list[Plugin] = []
    for record in listed_records(config, plugins):
        if record.plugin is not None:
            learning.append(record.plugin)
    learning += took_part
    for plugin in learning:  # grows: a needed plugin may need more
        for other in plugins.loaded:
            if other not in learning and plugin.needs_distribution_of(other):
                learning.append(other)
    return dict.fromkeys(learning)


def _versions(plugins: Iterable[Plugin]) -> dict[str, str]:
    """Distribution and version of each plugin by its name, or by DIST/NAME if several have the name."""
    ordered = sorted(plugins, key=lambda plugin: (plugin.name, plugin.label))
    count = Counter(plugin.name for plugin in ordered)
    versions = {}
    for plugin in ordered:
        name = plugin.name if count[plugin.name] == 1 else plugin.label
        release = f"{plugin.distribution} {plugin.version}"
        versions[name] = release.strip()  # a local plugin has neither
    return versions


def differences(saved: Fingerprint, now: Fingerprint) -> list[str]:
    """The differences between a checkpoint (``saved``) and this process: ``torch 2.14.0 instead of 2.13.0``."""
    changed = []
    for section in _SECTIONS:
        before = saved[section]
        after = now[section]
        kind = "plugin" if section == "plugins" else ""
        names = before.keys() | after.keys()
        changed += _differences_of(names - {_COMPARED_ELSEWHERE}, before, after, kind)
    if saved["configuration"] != now["configuration"]:
        changed.append(ANOTHER_CONFIGURATION)
    return changed


def other_plugins(saved: Fingerprint, now: Fingerprint) -> list[str]:
    """The differences between the loaded plugins that no number of the training depends on, in words."""
    before = saved["loaded"]
    after = now["loaded"]
    learning = saved["plugins"].keys() | now["plugins"].keys()
    names = before.keys() | after.keys()
    return _differences_of(names - learning, before, after, "plugin")


def _differences_of(names: Iterable[str], before: Mapping[str, str], after: Mapping[str, str], kind: str) -> list[str]:
    """``name 2 instead of 1`` for each of the ``names`` that differs; ``kind`` stands in front if there is one."""
    changed = []
    for name in sorted(names):
        if before.get(name) == after.get(name):
            continue
        what = f"{kind} {name!r}" if kind else name
        then = before.get(name, "not loaded") or "without a version"
        now = after.get(name, "not loaded") or "without a version"
        changed.append(f"{what} {now} instead of {then}")
    return changed


def learning_part(data: Mapping[str, Any], plugins: Plugins) -> dict[str, Any]:
    """The part of a complete configuration that a training depends on."""
    learning = {key: value for key, value in data.items() if key not in _WITHOUT_EFFECT}
    for record in plugins.records(ConfigSection.kind):
        for name in learning.keys() & {record.name, record.reference}:
            block = learning.pop(name)
            if not record.affects_learning:
                continue
            part = getattr(record.resolve(), "learning_part", None)
            learning[name] = block if part is None else part(block)
    return learning


def _digest(data: Mapping[str, Any]) -> str:
    canonical = mapped(data, _canonical)
    text = json.dumps(canonical, sort_keys=True)  # the order of keys in a file configures nothing
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any, path: TreePath) -> Any:
    """Equal numbers are written alike: 1.0 in a file and 1 in another one configure the same."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


# ---------------------------------------------------------------- changes of the configuration


MISSING = "nothing"
# These say how a run was started, not what it does.
_START = ("checkpoint_settings",)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """``a.b is 2 instead of 1`` for each key that differs, without those that only say how the run is started."""
    old = dict(leaves(before, _is_list))
    new = dict(leaves(now, _is_list))
    changed = []
    for key in old | new:
        if key[:1] != _START and old.get(key) != new.get(key):
            changed.append(f"{dotted(key)} is {_value_at(new, key)} instead of {_value_at(old, key)}")
    return changed


def described(changed: list[str], most: int = 5) -> str:
    """The changes in one text, up to ``most`` of them."""
    text = ", ".join(changed[:most])
    if len(changed) > most:
        text += f" and {len(changed) - most} more"
    return text


def _value_at(values: Mapping[TreePath, Any], key: TreePath) -> str:
    return short_repr(values[key]) if key in values else MISSING


def _is_list(value: Any, path: TreePath) -> bool:
    return isinstance(value, list)
