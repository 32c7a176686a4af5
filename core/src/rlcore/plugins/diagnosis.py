"""What is wrong, or will go wrong, with installed plugins. Every finding says how to mend it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlparse

from rlcore.errors import PluginError
from rlcore.plugins.calls import Plugins
from rlcore.plugins.candidates import Candidate, installed
from rlcore.plugins.catalog import HOOKS
from rlcore.plugins.discover import Decision, Selection, decide, is_file, obstacles
from rlcore.plugins.markers import ENTRY_POINT_GROUP

SLOW_IMPORT_SECONDS = 0.05
# What a light module must not pull in: each start of rlcore would pay for it.
HEAVY = ("torch", "numpy", "gymnasium", "tensorboard")

# Run in an interpreter of its own: what a module imports can only be seen where nothing else was imported.
_PROBE = """
import json, sys, time
import rlcore.plugins.records, rlcore.plugins.markers
start = time.perf_counter()
__import__(sys.argv[1])
print(json.dumps({"seconds": time.perf_counter() - start, "heavy": [m for m in sys.argv[2:] if m in sys.modules]}))
"""


class Finding(NamedTuple):
    plugin: str  # its label, DIST/NAME
    level: Literal["error", "warning"]
    message: str


def loaded_among_others(decision: Decision) -> Plugins:
    """A plugin, loaded beside those that are on: one of them may specify hooks that it implements."""
    label = decision.candidate.label
    others = (each for each in decide(installed(), Selection()) if each.state == "on" and each.candidate.label != label)
    plugins = Plugins(decisions=(*others, decision), tolerant=True)
    plugins.load()
    return plugins


def diagnose(decision: Decision, import_targets: bool, own_commands: Collection[str] = ()) -> Iterator[Finding]:
    """What can be said of one plugin by itself. A plugin's command may not be called like one of ``own_commands``."""
    candidate = decision.candidate
    label = candidate.label
    if decision.refused:
        yield Finding(label, "error", decision.refused)
        return
    if candidate.distribution and not candidate.essential and not any(_bounded(text) for text in candidate.requires):
        yield Finding(label, "warning", "sets no bounds on rlcore; require for example 'rlcore>=0.1,<0.2'")
    yield from (Finding(label, "warning", message) for message in _stale_entry_points(candidate))
    plugins = loaded_among_others(decision)
    records = plugins.brought_by(label)
    if label in plugins.broken:
        yield Finding(label, "error", plugins.broken[label].partition("; run rlcore")[0])
        return
    implemented = plugins.implemented(label)
    if not implemented:
        yield Finding(label, "error", f"{candidate.module} implements no hook; mark functions with @rlcore.hookimpl")
    for name in sorted({record.name for record in records if record.kind == "command"} & set(own_commands)):
        yield Finding(label, "error", f"the command {name!r} is core's own and would never be called")
    for hook in HOOKS:
        if hook.deprecated and hook.name in implemented:
            yield Finding(label, "warning", f"{hook.name} is deprecated: {hook.deprecated}")
    yield from _import_cost(candidate)
    if import_targets:
        for record in records:
            for attribute in ("target", "settings", "parameters"):
                if getattr(record, attribute, None):
                    try:
                        plugins.resolve(record, attribute)
                    except PluginError as error:
                        yield Finding(label, "error", str(error))


def diagnose_together(decisions: Sequence[Decision], only: set[str]) -> Iterator[Finding]:
    """Clashes between plugins, reported for the plugins in ``only``."""
    for message in obstacles(decisions, Selection()):
        for label in sorted(only):
            if label in message:
                yield Finding(label, "error", message)
    usable = tuple(decision for decision in decisions if decision.state == "on")
    plugins = Plugins(decisions=usable, tolerant=True)
    try:
        plugins.load()
    except PluginError:
        return
    for kind in plugins.kinds:
        names: dict[str, list[Any]] = {}
        for owned in plugins.records(kind):
            names.setdefault(owned.record.name, []).append(owned)
        for name, rivals in names.items():
            if len(rivals) > 1:
                advice = f"{kind} {name!r} is brought by {len(rivals)} plugins; users must write " + " or ".join(
                    owned.reference for owned in rivals
                )
                for owned in rivals:
                    if owned.label in only:
                        yield Finding(owned.label, "warning", advice)
    for hook in HOOKS:
        answering = plugins.answering(hook.name) if hook.kind == "factory" else ()
        for owner in answering if len(answering) > 1 else ():
            if owner.label in only:
                yield Finding(
                    owner.label,
                    "error",
                    f"{hook.name} is answered by {', '.join(each.label for each in answering)} and only one can win; "
                    "turn the others off, or make them wrapper=True",
                )


def _bounded(requirement: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return bool(Requirement(requirement).specifier)
    except InvalidRequirement:
        return False


def _import_cost(candidate: Candidate) -> Iterator[Finding]:
    if not candidate.distribution and is_file(candidate.module):
        return
    module = candidate.module.partition(":")[0]
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE, module, *HEAVY],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # what this process can import
    )
    if probe.returncode:
        last = probe.stderr.strip().splitlines()[-1:] or [f"exit code {probe.returncode}"]
        yield Finding(candidate.label, "error", f"{module} cannot be imported by itself: {last[0]}")
        return
    measured = json.loads(probe.stdout.splitlines()[-1])
    if measured["heavy"]:
        yield Finding(
            candidate.label,
            "error" if "torch" in measured["heavy"] else "warning",
            f"{module} imports {', '.join(measured['heavy'])} at every start of rlcore; "
            "import it in the module that a record's target names",
        )
    elif measured["seconds"] > SLOW_IMPORT_SECONDS:
        yield Finding(
            candidate.label,
            "warning",
            f"{module} takes {measured['seconds'] * 1000:.0f} ms to import (over {SLOW_IMPORT_SECONDS * 1000:.0f} ms)",
        )


def _stale_entry_points(candidate: Candidate) -> Iterator[str]:
    """Entry points are written at install time: those of an editable plugin may be older than its pyproject."""
    if not candidate.editable:
        return
    import tomllib

    distribution = metadata.distribution(candidate.distribution)
    url = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "")
    source = Path(unquote(urlparse(url).path))
    try:
        pyproject = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return
    written = pyproject.get("project", {}).get("entry-points", {}).get(ENTRY_POINT_GROUP, {})
    present = {each.name: each.value for each in distribution.entry_points if each.group == ENTRY_POINT_GROUP}
    if written != present:
        yield f"its pyproject.toml and its installed entry points differ; run pip install -e {source}"
