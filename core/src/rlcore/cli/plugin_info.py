"""``rlcore plugins info``: everything about one plugin."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any

import click

from rlcore.cli.options import debug_option
from rlcore.cli.terminal import echo
from rlcore.errors import PluginError, did_you_mean
from rlcore.plugins.calls import Plugins
from rlcore.plugins.candidates import LOCAL_PREFIX, installed
from rlcore.plugins.diagnosis import loaded_among_others
from rlcore.plugins.discover import Choice, Decision, Selection, decide


@click.command("info")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def info_command(name: str, as_json: bool) -> None:
    """Show all about one plugin: NAME, DIST/NAME, module:acme.hooks, or what it provides, such as a trainer_type.

    This imports the plugin, and the settings classes of its records.
    """
    try:
        decisions = decisions_for(name)
    except PluginError:
        decisions = tuple(each for each in decisions_for(None) if _provides(each, name))
        if not decisions:
            raise
    reports = [_report(decision) for decision in decisions]
    if as_json:
        click.echo(json.dumps(reports, indent=4, default=str))
        return
    for report in reports:
        _print(report)


def decisions_for(name: str | None) -> tuple[Decision, ...]:
    """The plugins that NAME matches, turned on, or all plugins without a name. Raises PluginError if there is none."""
    local = Selection(choices=(Choice(name, True, "-p"),)) if name and name.startswith(LOCAL_PREFIX) else Selection()
    decisions = decide(installed(), local)
    if name is None:
        return decisions
    chosen = tuple(decision for decision in decisions if Choice(name, True, "-p").matches(decision.candidate))
    if not chosen:
        names = sorted(decision.candidate.name for decision in decisions)
        raise PluginError(f"plugin {name!r} is not installed; installed: {', '.join(names)}{did_you_mean(name, names)}")
    return chosen


def _provides(decision: Decision, name: str) -> bool:
    """Whether a record of the plugin has this name, such as ``iql`` of the plugin ``offline``."""
    if decision.state != "on":  # a plugin that is off or refused is not imported for this
        return False
    return any(record.name == name for record in loaded_among_others(decision).brought_by(decision.candidate.label))


def _report(decision: Decision) -> dict[str, Any]:
    candidate = decision.candidate
    plugins = loaded_among_others(decision)
    records = [_record(plugins, record) for record in plugins.brought_by(candidate.label)]
    report: dict[str, Any] = {
        "name": candidate.name,
        "distribution": candidate.distribution,
        "version": candidate.version,
        **_about(candidate.distribution),
        "requires": list(candidate.requires),
        "state": decision.state,
        "module": candidate.module,
        "file": getattr(sys.modules.get(candidate.module.partition(":")[0]), "__file__", None),
        "editable": candidate.editable,
        "hooks": list(plugins.implemented(candidate.label)),
        "records": records,
    }
    if candidate.label in plugins.broken:
        report["problem"] = plugins.broken[candidate.label]
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


def _record(plugins: Plugins, record: Any) -> dict[str, Any]:
    described = {"kind": record.kind, "name": record.name, "summary": record.summary, "target": record.target}
    for attribute in ("settings", "parameters"):
        settings = getattr(record, attribute, None)
        if settings:
            try:
                described[attribute] = {"class": settings, "fields": _fields(plugins.resolve(record, attribute))}
            except PluginError as error:
                described[attribute] = {"class": settings, "problem": str(error)}
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


def _print(report: dict[str, Any]) -> None:
    for key in ("name", "distribution", "version", "summary", "homepage", "state", "module", "file", "problem"):
        if report.get(key):
            echo(f"{key + ':':14}{report[key]}")
    echo(f"{'editable:':14}{'yes' if report['editable'] else 'no'}")
    echo(f"{'requires:':14}{', '.join(report['requires']) or 'nothing of rlcore'}")
    echo(f"{'hooks:':14}{', '.join(report['hooks']) or 'none'}")
    for record in report["records"]:
        echo(f"\n{record['kind']} {record['name']}: {record['summary']}\n  target {record['target']}")
        for attribute in ("settings", "parameters"):
            settings = record.get(attribute)
            if settings:
                echo(f"  {attribute} {settings['class']}")
                if "problem" in settings:
                    echo(f"    {settings['problem']}")
                for field in settings.get("fields", ()):
                    echo(f"    {field['name']} = {field['default']}  {field['description']}")
