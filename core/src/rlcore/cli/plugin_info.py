"""``rlcore plugins info``: everything that is known about one plugin."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from typing import Any

import click

from rlcore.cli.options import debug_option
from rlcore.cli.terminal import echo
from rlcore.errors import PluginError, did_you_mean
from rlcore.plugins.discover import LOCAL_PREFIX, Plugin, installed
from rlcore.plugins.doctor import loaded_among_others
from rlcore.plugins.select import Choice, Selection, decide, selection_from
from rlcore.records import BehaviorSection, ConfigSection, ExporterSpec, Record, RunOptionSpec


@click.command("info")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def info_command(name: str, as_json: bool) -> None:
    """Show everything about one plugin: NAME, DIST/NAME, module:acme.hooks, or what it provides, as a trainer_type.

    This imports the plugin, and the settings classes of its records.
    """
    try:
        plugins = plugins_called(name)
    except PluginError:
        plugins = tuple(plugin for plugin in plugins_called(None) if _provides(plugin, name))
        if not plugins:
            raise
    reports = [_report(plugin) for plugin in plugins]
    if as_json:
        click.echo(json.dumps(reports, indent=4, default=str))
        return
    for report in reports:
        _print(report)


def plugins_called(name: str | None) -> tuple[Plugin, ...]:
    """The plugins that NAME means, turned on; all of them for None. PluginError if there is none."""
    local = Selection(choices=(Choice(name, True, "-p"),)) if name and name.startswith(LOCAL_PREFIX) else Selection()
    found = decide(installed(), local)
    if name is None:
        return found
    chosen = tuple(filter(Choice(name, True, "-p").matches, found))
    if not chosen:
        names = sorted(plugin.name for plugin in found)
        raise PluginError(f"plugin {name!r} is not installed; installed: {', '.join(names)}{did_you_mean(name, names)}")
    return chosen


def why_on(plugin: Plugin) -> str:
    """What decides here whether the plugin is on, and what requires it: ``autoload; required by rlcore-ppo/ppo``."""
    found = decide(installed(), selection_from(None, os.environ, (), False))
    here = next((each for each in found if each.label == plugin.label), plugin)
    users = [each.label for each in found if each.on and each.needs_distribution_of(plugin)]
    return "; ".join(([] if here.required_by else [here.why]) + ([f"required by {', '.join(users)}"] if users else []))


def _provides(plugin: Plugin, name: str) -> bool:
    """Whether a record of the plugin has this name, such as ``iql`` of the plugin ``offline``."""
    if plugin.state != "on":  # a plugin that is off, or made for another rlcore, is not imported for a guess
        return False
    return any(record.name == name for record in loaded_among_others(plugin).records_of(plugin.label))


def _report(plugin: Plugin) -> dict[str, Any]:
    plugins = loaded_among_others(plugin)
    report: dict[str, Any] = {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        **_about(plugin.distribution),
        "requires": list(plugin.requires),
        "state": plugin.state,
        "why": why_on(plugin),
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
    for attribute in _settings_of(record):
        settings = getattr(record, attribute, None)
        if settings:
            try:
                fields = _fields(record.resolve(attribute))
                described[_shown_as(attribute)] = {"class": settings, "fields": fields}
            except PluginError as error:
                described[_shown_as(attribute)] = {"class": settings, "problem": str(error)}
    return described


def _settings_of(record: Record) -> tuple[str, ...]:
    """The attributes of a record that name settings classes. A block has nothing but settings."""
    return ("target",) if isinstance(record, ConfigSection | BehaviorSection) else ("settings", "parameters")


def _shown_as(attribute: str) -> str:
    return "settings" if attribute == "target" else attribute


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


def _print(report: dict[str, Any]) -> None:
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
