"""``rlcore plugins``: lists and inspects plugins. ``rlcore plugins new``, ``doctor`` and ``hooks`` are of a plugin."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import attrs
import click
import importlib_metadata as metadata

from rlcore.cli.commands import LazyCommand, LazyGroup
from rlcore.cli.options import debug_option, json_option, selection_options
from rlcore.cli.terminal import echo, echo_columns, warn
from rlcore.errors import PluginError
from rlcore.plugins.discover import Plugin, installed
from rlcore.plugins.select import decide, obstacles, selection_from, unmatched
from rlcore.settings.fields import FieldInfo

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.records import Record

COMMANDS = {
    "list": LazyCommand("rlcore.cli.plugins:list_command", "List the installed plugins."),
    "info": LazyCommand("rlcore.cli.plugins:info_command", "Show all about one plugin."),
}


FIELDS = ("name", "distribution", "version", "state", "editable", "module")  # of a plugin, in `list --json`


@click.group(
    "plugins",
    cls=LazyGroup,
    lazy=COMMANDS,
    within="plugins",
)
def plugins_command() -> None:
    """List, inspect, check and create plugins."""


@click.command("list")
@selection_options
@click.option("--provides", is_flag=True, help="Also list what each provides; this imports the plugins.")
@json_option
@debug_option
def list_command(dash_p: tuple[str, ...], no_plugins: bool, provides: bool, as_json: bool) -> None:
    """List the installed plugins.

    STATE is on, off, refused (written for another rlcore, or its module is missing), or what to install because a
    library is missing, as in: needs rlcore-trackers[wandb]. WHY says what decided it.
    Without --provides nothing of a plugin is imported; with it, a plugin that cannot be loaded is refused too.
    """
    selection = selection_from(dash_p=dash_p, no_plugins=no_plugins)
    decided = decide(installed(), selection)
    rows: list[dict[str, Any]] = []
    for plugin in decided:
        row = {key: getattr(plugin, key) for key in FIELDS}
        row["why"] = plugin.because
        rows.append(row)
    on = tuple(plugin for plugin in decided if plugin.state == "on")
    notes = [message for message, _, _ in obstacles(decided, selection)]
    notes += unmatched(decided, selection)
    notes += [f"{plugin.described}: {plugin.refused}" for plugin in decided if plugin.state == "refused"]
    if provides:
        from rlcore.plugins.call import Plugins

        plugins = Plugins(found=on, tolerant=True)
        plugins.load()
        for row, plugin in zip(rows, decided, strict=True):
            if plugin.label in plugins.broken:
                row["state"] = "refused"
            records = plugins.records_of(plugin.label)
            row["provides"] = [f"{record.kind}:{record.name}" for record in records]
        notes += plugins.warnings
    else:
        notes += [plugin.warning for plugin in on if plugin.warning]
    if as_json:
        answer = {"plugins": rows, "problems": notes}
        click.echo(json.dumps(answer, indent=4))
        return
    lines = [("NAME", "DIST VERSION", "STATE", "WHY", "PROVIDES" if provides else "")]
    for row in rows:
        source = f"{row['distribution']} {row['version']}" if row["distribution"] else row["module"]
        if row["editable"]:
            source += " (editable)"
        provided = " ".join(row.get("provides", ()))
        lines.append((row["name"], source, row["state"], row["why"], provided))
    echo_columns(lines)
    warn(notes)


@click.command("info")
@click.argument("name")
@json_option
@debug_option
def info_command(name: str, as_json: bool) -> None:
    """Show everything about one plugin: NAME, DIST/NAME, module:acme.hooks, or what it provides, as a trainer_type.

    This imports the plugin, and the settings classes of its records.
    """
    from rlcore.plugins.call import Plugins

    plugins, matching = Plugins.inspect(name)
    reports = [_report(plugins, plugin) for plugin in matching]
    if as_json:
        click.echo(json.dumps(reports, indent=4, default=str))
        return
    for report in reports:
        _print_report(report)


def _why_on(plugin: Plugin) -> str:
    """The source that turns the plugin on or off, and what requires it: ``autoload; required by acme-rl/acme``."""
    reason = plugin
    users = []
    for other in decide(installed(), selection_from()):
        if other.label == plugin.label:
            reason = other
        if other.on and other.needs_distribution_of(plugin):
            users.append(other.label)
    required = f"required by {', '.join(users)}" if users else ""
    why = "" if reason.required_by else reason.why
    return "; ".join(filter(None, (why, required)))


def _report(plugins: Plugins, plugin: Plugin) -> dict[str, Any]:
    module = sys.modules.get(plugin.module.partition(":")[0])
    report: dict[str, Any] = {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        **_about(plugin.distribution),
        "state": plugin.state,
        "why": _why_on(plugin),
        "module": plugin.module,
        "file": getattr(module, "__file__", None),
        "problem": str(plugins.broken.get(plugin.label, "")),
        "editable": plugin.editable,
        "requires": list(plugin.requires),
        "hooks": list(plugins.implemented(plugin.label)),
        "records": [_record(plugins, record) for record in plugins.records_of(plugin.label)],
    }
    return {key: value for key, value in report.items() if value not in ("", None)}


def _about(distribution: str) -> dict[str, str]:
    try:
        about = metadata.metadata(distribution)
    except (metadata.PackageNotFoundError, ValueError):  # a local module has no distribution
        return {}
    links = {}
    for line in about.get_all("Project-URL", ()):
        label, _, url = line.partition(", ")
        links[label.lower()] = url
    homepage = links.get("homepage") or links.get("repository")
    if not homepage:
        homepage = about.get("Home-page") or ""  # of metadata before PEP 753
    return {"summary": about.get("Summary") or "", "homepage": homepage}


def _record(plugins: Plugins, record: Record) -> dict[str, Any]:
    """What a record says, but for defaults, with the fields of the settings classes that it names."""
    from rlcore.records import BehaviorSection, ConfigSection, EvaluationSection

    report: dict[str, Any] = {"kind": record.kind, "name": record.name, "summary": record.summary}
    for attribute in attrs.fields(type(record)):
        name = attribute.name
        value = getattr(record, name)
        if name in ("settings", "parameters") and value:
            report[name] = _settings(plugins, record, name)
        elif name not in (*report, "plugin") and value != attribute.default:
            report[name] = sorted(value) if isinstance(value, frozenset) else value
    if isinstance(record, ConfigSection | BehaviorSection | EvaluationSection):  # nothing but settings
        report["settings"] = _settings(plugins, record, "target")
    return report


def _settings(plugins: Plugins, record: Record, attribute: str) -> dict[str, Any]:
    from rlcore.plugins.settings_schema import SettingsSchema

    report: dict[str, Any] = {"class": getattr(record, attribute)}
    try:
        cls = record.resolve(attribute)
        if attrs.has(cls):
            report["schema"] = SettingsSchema(plugins).document(cls)
    except PluginError as error:
        return {**report, "problem": str(error)}
    fields = attrs.fields(cls) if attrs.has(cls) else ()
    report["fields"] = [
        {
            "name": field.name,
            "type": getattr(field.type, "__name__", None) or str(field.type),
            "default": _default(field),
            "description": FieldInfo.of(field).description,
        }
        for field in fields
    ]
    return report


def _default(field: attrs.Attribute[Any]) -> Any:
    default = FieldInfo.default_of(field)
    if default is attrs.NOTHING:
        return "required"
    if attrs.has(type(default)):  # a block
        return type(default).__name__
    return default


def _print_report(report: dict[str, Any]) -> None:
    for key, value in report.items():
        if key == "records":
            continue
        if key == "editable":
            value = "yes" if value else "no"
        text = value if isinstance(value, str) else ", ".join(value) or "none"
        echo(f"{key + ':':14}{text}")
    for record in report["records"]:
        echo(f"\n{record.pop('kind')} {record.pop('name')}: {record.pop('summary')}")
        for key, value in record.items():
            if not isinstance(value, dict):
                text = ", ".join(value) if isinstance(value, list) else value
                echo(f"  {key} {text}")
                continue
            echo(f"  {key} {value['class']}")
            if "problem" in value:
                echo(f"    {value['problem']}")
            for field in value.get("fields", ()):
                echo(f"    {field['name']} = {field['default']}  {field['description']}")
