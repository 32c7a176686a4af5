"""``rlcore plugins``: lists and inspects plugins. ``rlcore plugins new`` and ``doctor`` are commands of a plugin."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import importlib_metadata as metadata

from rlcore.cli.commands import LazyCommand, LazyGroup, debug_option, selection_options
from rlcore.cli.terminal import echo, echo_columns
from rlcore.errors import PluginError, did_you_mean
from rlcore.plugins.discover import Plugin, installed
from rlcore.plugins.select import decide, obstacles, selection_from, unmatched

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.records import Record

COMMANDS = {
    "list": LazyCommand("rlcore.cli.plugins:list_command", "List the installed plugins."),
    "info": LazyCommand("rlcore.cli.plugins:info_command", "Show all about one plugin."),
    "hooks": LazyCommand("rlcore.cli.plugins:hooks_command", "Show what each hook is for."),
}


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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def list_command(dash_p: tuple[str, ...], no_plugins: bool, provides: bool, as_json: bool) -> None:
    """List the installed plugins.

    STATE is on, off or refused (written for another rlcore, or its module is missing); WHY says what decided it.
    Without --provides nothing of a plugin is imported; with it, a plugin that cannot be loaded is refused too.
    """
    selection = selection_from(None, os.environ, dash_p, no_plugins)
    found = decide(installed(), selection)
    rows = [_row(plugin) for plugin in found]
    notes = [*(message for message, _ in obstacles(found, selection)), *unmatched(found, selection)]
    notes += [f"{plugin.described}: {plugin.refused}" for plugin in found if plugin.state == "refused"]
    notes += [plugin.warning for plugin in found if plugin.state == "on" and plugin.warning and not provides]
    if provides:
        notes += _add_provided(rows, found)
    if as_json:
        click.echo(json.dumps({"plugins": rows, "problems": notes}, indent=4))
        return
    _print_table(rows, provides)
    for note in notes:
        echo(f"warning: {note}", err=True)


def _row(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "state": plugin.state,
        "why": plugin.because,
        "editable": plugin.editable,
        "module": plugin.module,
    }


def _add_provided(rows: list[dict[str, Any]], found: tuple[Plugin, ...]) -> list[str]:
    """Adds the records of each plugin to its row; returns the warnings about plugins that cannot be loaded."""
    from rlcore.plugins.call import Plugins

    plugins = Plugins(found=tuple(plugin for plugin in found if plugin.state == "on"), tolerant=True)
    plugins.load()
    for row, plugin in zip(rows, found, strict=True):
        if plugin.label in plugins.broken:
            row["state"] = "refused"
        row["provides"] = [f"{record.kind}:{record.name}" for record in plugins.records_of(plugin.label)]
    return list(plugins.warnings)


def _print_table(rows: list[dict[str, Any]], provides: bool) -> None:
    lines = [("NAME", "DIST VERSION", "STATE", "WHY", "PROVIDES" if provides else "")]
    for row in rows:
        source = f"{row['distribution']} {row['version']}" if row["distribution"] else row["module"]
        if row["editable"]:
            source += " (editable)"
        lines.append((row["name"], source, row["state"], row["why"], " ".join(row.get("provides", ()))))
    echo_columns(lines)


@click.command("info")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def info_command(name: str, as_json: bool) -> None:
    """Show everything about one plugin: NAME, DIST/NAME, module:acme.hooks, or what it provides, as a trainer_type.

    This imports the plugin, and the settings classes of its records.
    """
    from rlcore.plugins.call import inspect_plugins

    plugins, chosen = inspect_plugins(name)
    reports = [_report(plugins, plugin) for plugin in chosen]
    if as_json:
        click.echo(json.dumps(reports, indent=4, default=str))
        return
    for report in reports:
        _print_report(report)


def _why_on(plugin: Plugin) -> str:
    """The source that turns the plugin on or off, and what requires it: ``autoload; required by acme-rl/acme``."""
    found = decide(installed(), selection_from(None, os.environ, (), False))
    here = next((each for each in found if each.label == plugin.label), plugin)
    users = [each.label for each in found if each.on and each.needs_distribution_of(plugin)]
    return "; ".join(([] if here.required_by else [here.why]) + ([f"required by {', '.join(users)}"] if users else []))


def _report(plugins: Plugins, plugin: Plugin) -> dict[str, Any]:
    report: dict[str, Any] = {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        **_about(plugin.distribution),
        "requires": list(plugin.requires),
        "state": plugin.state,
        "why": _why_on(plugin),
        "module": plugin.module,
        "file": getattr(sys.modules.get(plugin.module.partition(":")[0]), "__file__", None),
        "editable": plugin.editable,
        "hooks": list(plugins.implemented(plugin.label)),
        "records": [_record(record) for record in plugins.records_of(plugin.label)],
    }
    if plugin.label in plugins.broken:
        report["problem"] = str(plugins.broken[plugin.label])
    return report


def _about(distribution: str) -> dict[str, str]:
    try:
        found: dict[str, Any] = metadata.metadata(distribution).json
    except (metadata.PackageNotFoundError, ValueError):  # a local module has no distribution
        return {"summary": "", "homepage": ""}
    links = dict(_link(line) for line in found.get("project_url", ()))
    return {
        "summary": found.get("summary", ""),
        "homepage": links.get("homepage") or links.get("repository") or found.get("home_page", ""),
    }


def _link(line: str) -> tuple[str, str]:
    """Label and address of ``"Homepage, https://..."``, as metadata has it."""
    label, _, url = line.partition(",")
    return label.strip().lower(), url.strip()


def _record(record: Record) -> dict[str, Any]:
    from rlcore.records import BehaviorSection, ConfigSection, ExporterSpec, RunOptionSpec

    described: dict[str, Any] = {
        "kind": record.kind,
        "name": record.name,
        "summary": record.summary,
        "target": record.target,
    }
    if isinstance(record, RunOptionSpec):
        described["sets"] = record.sets
    if kinds := getattr(record, "kinds", None):
        described["reads"] = ", ".join(sorted(kinds))
    if isinstance(record, ExporterSpec):
        described["ending"] = record.suffix
    # A block has nothing but settings, which are its target.
    block = isinstance(record, ConfigSection | BehaviorSection)
    for shown in ("settings",) if block else ("settings", "parameters"):
        attribute = "target" if block else shown
        settings = getattr(record, attribute, None)
        if settings:
            try:
                described[shown] = {"class": settings, "fields": _fields(record.resolve(attribute))}
            except PluginError as error:
                described[shown] = {"class": settings, "problem": str(error)}
    return described


def _fields(settings: Any) -> list[dict[str, Any]]:
    import attrs

    from rlcore.settings.fields import field_info

    if not attrs.has(settings):
        return []
    return [
        {
            "name": field.name,
            "type": getattr(field.type, "__name__", None) or str(field.type),
            "default": _default(field.default),
            "description": field_info(field).description,
        }
        for field in attrs.fields(settings)
    ]


def _default(default: Any) -> Any:
    import attrs

    if default is attrs.NOTHING:
        return "required"
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # attrs types Factory as a function
        made = None if default.takes_self else default.factory()
        return made if isinstance(made, list | dict | None) else type(made).__name__
    return default


def _print_report(report: dict[str, Any]) -> None:
    for key in ("name", "distribution", "version", "summary", "homepage", "state", "why", "module", "file", "problem"):
        if report.get(key):
            echo(f"{key + ':':14}{report[key]}")
    echo(f"{'editable:':14}{'yes' if report['editable'] else 'no'}")
    echo(f"{'requires:':14}{', '.join(report['requires']) or 'nothing of rlcore'}")
    echo(f"{'hooks:':14}{', '.join(report['hooks']) or 'none'}")
    for record in report["records"]:
        echo(f"\n{record['kind']} {record['name']}: {record['summary']}")
        if record["target"]:
            echo(f"  target {record['target']}")
        for key in ("sets", "reads", "ending"):
            if key in record:
                echo(f"  {key} {record[key]}")
        for attribute in ("settings", "parameters"):
            settings = record.get(attribute)
            if settings:
                echo(f"  {attribute} {settings['class']}")
                if "problem" in settings:
                    echo(f"    {settings['problem']}")
                for field in settings.get("fields", ()):
                    echo(f"    {field['name']} = {field['default']}  {field['description']}")


@click.command("hooks")
@click.argument("name", required=False)
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def hooks_command(name: str | None, dash_p: tuple[str, ...], no_plugins: bool, as_json: bool) -> None:
    """Show what each hook is for, when it is called and with which arguments; only NAME, if given.

    Hooks that plugins add are included. This imports the plugins.
    """
    from rlcore.hookspecs import HOOKS
    from rlcore.plugins.call import load_plugins
    from rlcore.plugins.contract import successor

    plugins = load_plugins(selection_from(None, os.environ, dash_p, no_plugins))
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    found = plugins.specifications
    if name is not None and name not in found:
        raise PluginError(
            f"no hook {name!r}{f'; {answer}' if (answer := successor(name)) else did_you_mean(name, found)}"
        )
    core = {hook.name: hook for hook in HOOKS}
    hooks = [
        {
            "name": each,
            "kind": core[each].kind if each in core else "added",
            "of": function.__module__,
            "since": core[each].since if each in core else None,
            "deprecated": core[each].deprecated if each in core else None,
            "signature": _signature(function),
            "text": inspect.getdoc(function) or "",
        }
        for each, function in found.items()
        if name in (None, each)
    ]
    if as_json:
        click.echo(json.dumps({"hooks": hooks}, indent=4))
        return
    click.echo("\n\n".join(map(_shown, hooks)))


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)  # its annotations are text, which str() would quote
    arguments = ", ".join(f"{each.name}: {each.annotation}" for each in signature.parameters.values())
    return f"{function.__name__}({arguments}) -> {signature.return_annotation}"


def _shown(hook: dict[str, Any]) -> str:
    about = f"{hook['kind']} hook of {hook['of']}" + (f", since {hook['since']}" if hook["since"] else "")
    lines = [hook["signature"], f"    {about}", ""]
    lines += [f"    Deprecated: {hook['deprecated']}.", ""] if hook["deprecated"] else []
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in hook["text"].splitlines())])
