"""Finds what is wrong, or will go wrong, with installed plugins. Every finding says how to fix it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlparse

import importlib_metadata as metadata

from rlcore.errors import PluginError
from rlcore.hookspecs import HOOKS
from rlcore.plugins.call import Plugins
from rlcore.plugins.contract import CONTRACT, KEYWORD
from rlcore.plugins.discover import ENTRY_POINT_GROUP, Plugin, canonical, installed, is_file
from rlcore.plugins.manager import deprecations
from rlcore.plugins.registry import section_clash
from rlcore.plugins.select import Selection, decide, obstacles
from rlcore.records import BehaviorSection, ConfigSection, Record

# Kinds of records that a file cannot name in full.
_BLOCKS = (ConfigSection.kind, BehaviorSection.kind)
SLOW_IMPORT_SECONDS = 0.05
# What a light module must not pull in: each start of rlcore would pay for it.
HEAVY = ("torch", "numpy", "gymnasium", "tensorboard")

# Run in an interpreter of its own: what a module imports can only be seen where nothing else was imported.
_PROBE = """
import json, sys, time
import rlcore.records, rlcore.hookspecs
start = time.perf_counter()
__import__(sys.argv[1])
print(json.dumps({"seconds": time.perf_counter() - start, "heavy": [m for m in sys.argv[2:] if m in sys.modules]}))
"""


class Finding(NamedTuple):
    """One thing that is wrong with a plugin; ``plugin`` is its label, DIST/NAME.

    ``rule`` is what it is about: ``bounds``, ``contract``, ``hooks``, ``targets``, ``clash`` and so on; ``alone``,
    ``light`` and ``fast`` are about importing the plugin's module.
    """

    plugin: str
    level: Literal["error", "warning"]
    rule: str
    message: str


def loaded_among_others(plugin: Plugin) -> Plugins:
    """A plugin, loaded beside those that are on: one of them may specify hooks that it implements."""
    others = (each for each in decide(installed(), Selection()) if each.state == "on" and each.label != plugin.label)
    plugins = Plugins(found=(*others, plugin), tolerant=True)
    plugins.load()
    return plugins


def diagnose(plugin: Plugin, import_targets: bool, own_commands: Collection[str] = ()) -> Iterator[Finding]:
    """The findings about one plugin alone. A plugin's command may not have one of the names in ``own_commands``."""
    label = plugin.label
    if plugin.refused:
        yield Finding(label, "error", "fits rlcore", plugin.refused)
        return
    if plugin.distribution and not plugin.essential and not any(_bounded(text) for text in plugin.requires):
        yield Finding(label, "warning", "bounds", "sets no bounds on rlcore; require for example 'rlcore>=0.1,<0.2'")
    if plugin.distribution and not plugin.essential and not plugin.contracts:
        message = f"declares no contract; add the keyword {KEYWORD}{CONTRACT} to its metadata, and install it again"
        yield Finding(label, "warning", "contract", message)
    if plugin.warning:
        yield Finding(label, "warning", "versions", plugin.warning)
    yield from _stale_entry_points(plugin)
    plugins = loaded_among_others(plugin)
    records = plugins.records_of(label)
    if label in plugins.broken:
        yield Finding(label, "error", "loads", str(plugins.broken[label]))
        return
    implemented = plugins.implemented(label)
    if not implemented:
        message = f"{plugin.module} implements no hook; mark functions with @rlcore.hookimpl"
        yield Finding(label, "error", "hooks", message)
    for name in sorted({record.name for record in records if record.kind == "command"} & set(own_commands)):
        yield Finding(label, "error", "commands", f"the command {name!r} is core's own and would never be called")
    yield from (Finding(label, "warning", "deprecated", message) for message in deprecations(implemented))
    yield from _import_cost(plugin)
    if import_targets:
        for record in records:
            for attribute in ("target", "settings", "parameters"):
                if getattr(record, attribute, None):
                    try:
                        record.resolve(attribute)
                    except PluginError as error:
                        extra = _missing_extra(plugin, error)
                        message = f"{error}; pip install '{extra}' to use it" if extra else str(error)
                        yield Finding(label, "warning" if extra else "error", "targets", message)


def diagnose_together(found: Sequence[Plugin], only: set[str]) -> Iterator[Finding]:
    """Clashes between plugins, for those whose label is in ``only``."""
    for obstacle in obstacles(found, Selection()):
        for label in sorted(only & {plugin.label for plugin in obstacle.plugins}):
            yield Finding(label, "error", "clash", obstacle.message)
    plugins = Plugins(found=tuple(plugin for plugin in found if plugin.state == "on"), tolerant=True)
    try:
        plugins.load()
    except PluginError:
        return
    for kind in plugins.kinds:
        by_name: dict[str, list[Record]] = {}
        for record in plugins.records(kind):
            by_name.setdefault(record.name, []).append(record)
        for name, rivals in by_name.items():
            if len(rivals) > 1:
                advice = _advice_on_clash(kind, name, rivals)
                for record in rivals:
                    if record.plugin is not None and record.plugin.label in only:
                        yield Finding(record.plugin.label, "error" if kind in _BLOCKS else "warning", "clash", advice)
    for hook in HOOKS:
        exclusive = hook.kind == "factory" and hook.name != "rlcore_read_status"  # a reader answers for its own only
        answering = plugins.answering(hook.name) if exclusive else ()
        for owner in answering if len(answering) > 1 else ():
            if owner.label in only:
                yield Finding(
                    owner.label,
                    "error",
                    "clash",
                    f"{hook.name} is answered by {', '.join(each.label for each in answering)} and only one can win; "
                    "turn the others off, or make them wrapper=True",
                )


def _advice_on_clash(kind: str, name: str, rivals: Sequence[Record]) -> str:
    if kind in _BLOCKS:
        return section_clash(rivals)
    references = " or ".join(record.reference for record in rivals)
    return f"{kind} {name!r} is provided by {len(rivals)} plugins; users must write {references}"


def _missing_extra(plugin: Plugin, error: PluginError) -> str:
    """``rlcore[torch]`` if a target needs a package that only this extra of its plugin requires; else an empty text."""
    cause = error.__cause__
    if not plugin.distribution or not isinstance(cause, ModuleNotFoundError):
        return ""
    package = canonical((cause.name or "").partition(".")[0])
    for text in metadata.requires(plugin.distribution) or ():
        found = re.match(r"([\w.-]+).*;.*\bextra\s*==\s*['\"]([^'\"]+)", text)
        if found and canonical(found[1]) == package:
            return f"{plugin.distribution}[{found[2]}]"
    return ""


def _bounded(requirement: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return bool(Requirement(requirement).specifier)
    except InvalidRequirement:
        return False


def _import_cost(plugin: Plugin) -> Iterator[Finding]:
    if not plugin.distribution and is_file(plugin.module):
        return
    module = plugin.module.partition(":")[0]
    probe = subprocess.run(
        [sys.executable, "-P", "-c", _PROBE, module, *HEAVY],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # what this process can import
    )
    if probe.returncode:
        last = probe.stderr.strip().splitlines()[-1:] or [f"exit code {probe.returncode}"]
        yield Finding(plugin.label, "error", "alone", f"{module} cannot be imported by itself: {last[0]}")
        return
    measured = json.loads(probe.stdout.splitlines()[-1])
    if measured["heavy"]:
        yield Finding(
            plugin.label,
            "error" if "torch" in measured["heavy"] else "warning",
            "light",
            f"{module} imports {', '.join(measured['heavy'])} at every start of rlcore; "
            "import it in the module that a record's target names",
        )
    elif measured["seconds"] > SLOW_IMPORT_SECONDS:
        yield Finding(
            plugin.label,
            "warning",
            "fast",
            f"{module} takes {measured['seconds'] * 1000:.0f} ms to import (over {SLOW_IMPORT_SECONDS * 1000:.0f} ms)",
        )


def _stale_entry_points(plugin: Plugin) -> Iterator[Finding]:
    """Entry points are written at install time; those of an editable plugin may be older than its pyproject.toml."""
    if not plugin.editable:
        return
    import tomllib

    distribution = metadata.distribution(plugin.distribution)
    url = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "")
    source = Path(unquote(urlparse(url).path))
    try:
        pyproject = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return
    written = pyproject.get("project", {}).get("entry-points", {}).get(ENTRY_POINT_GROUP, {})
    present = {each.name: each.value for each in distribution.entry_points if each.group == ENTRY_POINT_GROUP}
    if written != present:
        message = f"its pyproject.toml and its installed entry points differ; run pip install -e {source}"
        yield Finding(plugin.label, "warning", "entry points", message)
