"""``rlcore validate``: shows every error of a configuration file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlcore.cli.error_records import error_records
from rlcore.cli.options import PluginFlags, UserPath, debug_option, json_option, plugin_options
from rlcore.cli.terminal import echo, show_log
from rlcore.errors import ConfigError, ExitCode, RlcoreError
from rlcore.plugins.known import ENVIRONMENT_EXAMPLE

# ML-Agents' files have no such block and are valid.
NO_ENVIRONMENT = f", but `rlcore run` needs an environment block: {ENVIRONMENT_EXAMPLE}"


@click.command("validate")
@click.argument("config", type=UserPath())
@click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Change a key first. May be repeated.")
@click.option("--make", is_flag=True, help="Make the environment once, to choose presets as a run does.")
@json_option
@plugin_options
@debug_option
def validate_command(config: Path, sets: tuple[str, ...], make: bool, as_json: bool, chosen: PluginFlags) -> int:
    """Check CONFIG and show all its errors at once, each with file and line.

    Exit code 0 if it is valid, 2 if not. What only a run can check is listed as not checked. A file whose presets the
    spaces of the environment choose is checked with each preset that may be chosen, and valid if it is with one.
    """
    from rlcore.config.load import load_document, located
    from rlcore.config.overrides import apply_overrides
    from rlcore.config.presets import preset_lines, with_each_preset
    from rlcore.config.problems import ConfigErrors
    from rlcore.config.reading import read_document
    from rlcore.config.rules import learns_offline

    show_log()  # the warnings about plugins that are left out
    refused: dict[str, ConfigError] = {}
    try:
        document = apply_overrides(read_document(config), sets, {})
        plugins = chosen.load(document, tolerate_errors=True)
        if make:
            from rlcore.run.presets_by_default import with_presets_by_default  # which needs what environments need

            document = with_presets_by_default(document, plugins)
        variants = {"": document} if make else with_each_preset(document, plugins)
        for presets, variant in variants.items():
            try:
                loaded, document = load_document(variant, plugins)
                with located(document):
                    unchecked = plugins.check_config(loaded)
            except ConfigError as error:
                refused[presets] = error
        if len(refused) == len(variants):
            raise next(iter(refused.values()))
    except ConfigError as error:
        presets = next(iter(refused), "")
        if presets and isinstance(error, ConfigErrors):
            note = f"with preset {presets}, which may be chosen by default"
            error = ConfigErrors(error.problems, (*error.notes, note))
        if as_json:
            _print_invalid(error, config)
        else:
            _report_errors(error)
        return ExitCode.CONFIG
    except RlcoreError as error:
        if as_json:
            _print_invalid(error, config)
        raise
    possible = [presets for presets in variants if presets and presets not in refused]
    if as_json:
        answer = {"valid": True, "errors": [], "not_checked": unchecked, "presets": possible}
        click.echo(json.dumps(answer, indent=4))
        return ExitCode.DONE
    line = f"{config}: valid"
    if loaded.environment is None and not learns_offline(loaded, plugins):
        line += NO_ENVIRONMENT
    if possible:
        each = "presets" if refused else "each preset"
        line += f" with {each} that may be chosen by default: {', '.join(possible)} (--make shows which)"
    if unchecked:
        line += "; not checked:"
    echo(line)
    for sentence in unchecked:
        echo(f"  {sentence}")
    for presets, refusal in refused.items():
        echo(f"  not valid with preset {presets}: {' '.join(str(refusal).split())}")
    for values in preset_lines(document) if make else ():
        echo(f"  values: {values}")
    return ExitCode.DONE


def _report_errors(error: ConfigError) -> None:
    from rlcore.config.problems import ConfigErrors, Problem

    errors = error
    if not isinstance(errors, ConfigErrors):
        message = " ".join(str(error).split())
        errors = ConfigErrors([Problem("", "", message)])
    for message in errors.messages:
        echo(message)


def _print_invalid(error: RlcoreError, config: Path) -> None:
    """Print the answer of ``--json`` about a file that is not valid, or cannot be checked."""
    notes = list(getattr(error, "notes", ()))
    answer = {"valid": False, "errors": error_records(error, str(config)), "notes": notes}
    click.echo(json.dumps(answer, indent=4))
