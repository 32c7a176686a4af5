"""Finds a record by NAME or DIST/NAME, and says what to do if there is none or more than one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeVar, cast

from rlcore.errors import NotInstalled, PluginError, did_you_mean
from rlcore.plugins.known import first_package, package_of
from rlcore.plugins.plugin import Plugin, canonical
from rlcore.records import BehaviorSection, Record

R = TypeVar("R", bound=Record)


def find(
    record_class: type[R],
    reference: str,
    records: Sequence[Record],
    found: Sequence[Plugin],
    left_out: Sequence[str],
) -> R:
    """The one of ``records`` that ``reference`` names.

    NotInstalled if there is none; ``found`` are all plugins, on or off, and ``left_out`` the lines about broken ones,
    for its message. PluginError if there are several.
    """
    source, _, name = reference.rpartition("/")
    matches = [record for record in records if record.name == name and (not source or _is_of(source, record))]
    if len(matches) == 1:
        return cast(R, matches[0])
    if not matches:
        _unknown(record_class, reference, records, found, left_out)
    if record_class is BehaviorSection:
        raise PluginError(section_clash(matches))
    choices = [record.reference for record in matches]
    if len(set(choices)) < len(choices):
        advice = "turn one of the plugins off with -p no:DIST/PLUGIN"
    else:
        advice = f"write {record_class.key or record_class.kind}: {' or '.join(choices)}"
    owners = " and ".join(record.plugin.described for record in matches if record.plugin is not None)
    raise PluginError(f"{_word(record_class)} {reference!r} is provided by {owners}; {advice}")


def section_clash(rivals: Sequence[Record]) -> str:
    """Return the message about sections of one name: a file has only one block of that name, so nothing can run."""
    owners = " and ".join(record.plugin.described for record in rivals if record.plugin is not None)
    off = " or ".join(f"-p no:{record.plugin.label}" for record in rivals if record.plugin is not None)
    what = rivals[0].called or "configuration section"
    return f"the {what} {rivals[0].name!r} is claimed by {owners}; turn one of them off with {off}"


def plugins_off(found: Sequence[Plugin]) -> str:
    """Return the plugins that are off and how to turn them on, for a message about a name that is unknown."""
    off = [plugin for plugin in found if not plugin.on]
    if not off:
        return ""
    advice = f"-p {off[0].name} turns it on" if len(off) == 1 else "-p NAME turns one on"
    return f"turned off: {', '.join(plugin.described for plugin in off)}; {advice}"


def _unknown(
    record_class: type[Record],
    reference: str,
    records: Sequence[Record],
    found: Sequence[Plugin],
    left_out: Sequence[str],
) -> NoReturn:
    kind, word = record_class.kind, _word(record_class)
    source, _, name = reference.rpartition("/")
    names = sorted({record.name for record in records})
    allowed = [record.reference for record in records] if source else names
    parts = [f"unknown {word} {reference!r}"]
    parts.append(f"allowed: {', '.join(allowed)}" if names else f"no {word} is installed")
    package = package_of(kind, name) or (None if names else first_package(kind))
    present = {canonical(plugin.distribution) for plugin in found}
    if package in present:
        package = None  # it is installed, but off or broken
    if package:
        parts.append(f"pip install {package}")
    if source and canonical(source) not in present and not any(_is_of(source, record) for record in records):
        parts.append(f"nothing called {source!r} is installed")
    off = [plugin for plugin in found if not plugin.on]
    off = [plugin for plugin in off if _provides(plugin, kind, name)] or off
    note = "; ".join(filter(None, (plugins_off(off), *left_out)))
    raise NotInstalled("; ".join(parts) + did_you_mean(reference, allowed), package, note)


def _provides(plugin: Plugin, kind: str, name: str) -> bool:
    """Whether a plugin that is off is known to provide a record, without importing it."""
    return canonical(plugin.distribution) == package_of(kind, name) or plugin.name == name


def _is_of(source: str, record: Record) -> bool:
    return record.plugin is not None and canonical(source) == canonical(record.plugin.source)


def _word(record_class: type[Record]) -> str:
    return record_class.called or record_class.kind
