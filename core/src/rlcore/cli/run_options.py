"""The options of ``rlcore run``: those that plugins add, what is said about others, and the run that all describe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from rlcore.cli.commands import listed_options
from rlcore.cli.options import PluginFlags, words_before_dashes
from rlcore.errors import ConfigError, PluginError
from rlcore.files.paths import user_path
from rlcore.plugins.known import PACKAGES

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins
    from rlcore.records import RunOptionSpec
    from rlcore.run.run import Run

# Keys of a context's `meta`.
ADDED = "rlcore.cli.run_options.added"  # the options of plugins
WORDS = "rlcore.cli.run_options.words"  # the words after `rlcore run`
TAKER = "rlcore.cli.run_options.taker"  # the option that hands the command over, and the values

AUTO = "auto"
RESUME_AUTO = "--resume-auto"  # that `--resume auto` becomes; hidden

_PREFIX = "of_plugin_"  # of the names under which click passes values of plugins' options


class OptionsCommand(click.Command):
    """Has the options of plugins, and says what to write instead of options of other programs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = with_auto(args)
        ctx.meta[WORDS] = tuple(args)
        plugins = plugins_for_options(args, self.params)
        if plugins is None:
            return super().parse_args(ctx, args)
        ctx.meta[ADDED] = options_of(plugins, self.params)
        try:
            return super().parse_args(ctx, with_rest(args, plugins))
        except click.NoSuchOption as error:
            _explain(error, plugins)
            raise

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        *parameters, help_option = super().get_params(ctx)
        return [*parameters, *ctx.meta.get(ADDED, ()), help_option]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        if ctx.meta.get(ADDED):  # they are among the options above
            return
        options = listed_options()
        if options:
            with formatter.section("Options of installed plugins"):
                formatter.write_dl(list(options.items()))


def with_auto(args: Sequence[str]) -> list[str]:
    """The words of a command line in which ``--resume auto`` and ``--resume=auto`` are one flag.

    ``--resume`` alone stays a flag: any other word after it is CONFIG.
    """
    words = list(args)
    for place in reversed(range(len(words_before_dashes(words)))):
        if words[place] == f"--resume={AUTO}":
            words[place] = RESUME_AUTO
        elif words[place : place + 2] == ["--resume", AUTO]:
            words[place : place + 2] = [RESUME_AUTO]
    return words


def _explain(error: click.NoSuchOption, plugins: Plugins) -> None:
    """Raise what says more than ``error`` about an option that no plugin has, if anything does."""
    from rlcore.config.record_reader import Hints
    from rlcore.plugins.installing import pip_install

    option = error.option_name
    package = PACKAGES.get(("option", option.removeprefix("--")))
    if package:
        advice = f"{pip_install(package)}, or turn it on if it is installed"
        raise ConfigError(f"{option}: an option of {package}; {advice}") from None
    hints = Hints(plugins, {})
    hint = hints.message((option,), "", True)
    if hint:
        raise ConfigError(f"{option}: {hint}") from None
    if not error.possibilities:
        advice = "keys of CONFIG are set with --set, such as --set behaviors.NAME.time_horizon=128"
        raise click.NoSuchOption(option, f"No such option {option!r}; {advice}.", ctx=error.ctx) from None


def _names(parameters: Iterable[click.Parameter]) -> set[str]:
    names = {"--help"}
    for parameter in parameters:
        names.update(parameter.opts, parameter.secondary_opts)
    return names


def plugins_for_options(args: Sequence[str], parameters: Iterable[click.Parameter]) -> Plugins | None:
    """The plugins that environment variables and ``-p`` choose, if ``args`` have an option of none of ``parameters``.

    The configuration is read later. Help alone loads no plugin, so that it is fast.
    """
    words = [word.partition("=")[0] for word in words_before_dashes(args)]
    known = _names(parameters)
    if not any(word.startswith("--") and word not in known for word in words):
        return None
    from rlcore.plugins.call import load_plugins
    from rlcore.plugins.select import selection_from

    selection = selection_from(dash_p=_dash_p(args), no_plugins="--no-plugins" in words)
    return load_plugins(selection)


def options_of(plugins: Plugins, parameters: Iterable[click.Parameter]) -> list[click.Option]:
    """The options that plugins add. Raises PluginError for an option that rlcore or another plugin has."""
    from rlcore.records import RunOptionSpec

    known = _names(parameters)
    records: dict[str, RunOptionSpec] = {}
    for record in plugins.records("option"):
        assert isinstance(record, RunOptionSpec)
        if record.option in known:
            raise PluginError(f"{record.described}: {record.option} is an option of rlcore itself")
        if record.option in records:
            other = records[record.option].described
            raise PluginError(f"{record.described} clashes with {other}; turn one off with -p no:DIST/PLUGIN")
        records[record.option] = record
    return list(map(_option, records.values()))


def _option(record: RunOptionSpec) -> click.Option:
    """An option whose value is the override that it stands for: ``("--acme-team", "acme.team=vision")``.

    An option with a target has no value: it is noted in ``ctx.meta[TAKER]``, with all given options of that target.
    """

    def override(ctx: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, str] | None:
        if value is None or value is False:
            return None
        if not record.target:
            text = "true" if record.flag else value
            return record.option, f"{record.sets}={text}"
        taker, values = ctx.meta.setdefault(TAKER, (record, {}))
        if taker.target != record.target:
            raise click.UsageError(f"{taker.option} and {record.option} exclude each other; give only one of them", ctx)
        values[record.name] = value
        return None

    name = _PREFIX + record.name.replace("-", "_")
    summary = record.summary
    if record.sets:
        summary = f"{summary} Sets {record.sets}."
    metavar = "VALUE..." if record.rest else "VALUE"
    return click.Option(
        [record.option, name],
        help=summary,
        callback=override,
        is_flag=record.flag or None,
        metavar=None if record.flag else metavar,
    )


def with_rest(args: Sequence[str], plugins: Plugins) -> list[str]:
    """The words of a command line in which an option that takes the rest of it has one value, a list of YAML.

    One word with a space, or in brackets, is such a value already, and further options may follow it.
    """
    words = list(args)
    for record in plugins.records("option"):
        option = f"--{record.name}"
        if not getattr(record, "rest", False) or option not in words:
            continue
        start = words.index(option) + 1
        rest = words[start:]
        if rest and " " not in rest[0] and not rest[0].startswith("["):
            words[start:] = [json.dumps(rest)]
    return words


def pop_overrides(flags: dict[str, Any]) -> Mapping[str, str]:
    """Remove the values of plugins' options from ``flags``; return what each sets, ``a.b=VALUE``, by option."""
    overrides = {}
    for name in list(flags):
        if name.startswith(_PREFIX):
            override = flags.pop(name)
            if override is not None:
                option, text = override
                overrides[option] = text
    return overrides


def _dash_p(args: Sequence[str]) -> list[str]:
    """The plugins that ``-p`` names in a command line that is not parsed yet."""
    words = list(words_before_dashes(args))
    separate = [after for word, after in pairwise(words) if word == "-p"]
    attached = [word[2:] for word in words if word.startswith("-p") and word != "-p"]
    return separate + attached


# ---------------------------------------------------------------- the run that all options describe


FLAG_KEYS = {
    "env": ("environment", "id"),
    "preset": ("preset",),
    "run_id": ("checkpoint_settings", "run_id"),
    "results_dir": ("checkpoint_settings", "results_dir"),
    "wait_for_lock": ("checkpoint_settings", "wait_for_lock"),
    "resume": ("checkpoint_settings", "resume"),
    "checkpoint": ("checkpoint_settings", "checkpoint"),
    "force": ("checkpoint_settings", "force"),
    "inference": ("checkpoint_settings", "inference"),
    "initialize_from": ("checkpoint_settings", "initialize_from"),
    "seed": ("env_settings", "seed"),
    "debug": ("debug",),
}
OF_BEHAVIORS = {
    "max_steps": ("max_steps",),
    "trainer": ("trainer_type",),
    "deterministic": ("network_settings", "deterministic"),
}


def make_run(config: Path | None, sets: tuple[str, ...], flags: dict[str, Any], chosen: PluginFlags) -> Run:
    """The run that the arguments describe, before it starts."""
    from rlcore.config.overrides import apply_overrides
    from rlcore.config.reading import read_document
    from rlcore.run.run import Run
    from rlcore.run.saved.provenance import refuse_code_of_others, refuse_names_of_others, with_records_of_run

    options = pop_overrides(flags)
    is_saved = config is None and flags["env"] is None
    if is_saved:
        document = configuration_of_run(flags)
        flags["results_dir"] = flags["results_dir"] or "results"  # or a copied run would resume the original
    elif config is None:
        document = document_for_environment(sets, flags, options, chosen)
    else:
        document = read_document(config)
    typed = typed_flags(flags, document.data)
    document = apply_overrides(document, sets, typed, options)
    may_be_of_others = is_saved and not chosen.allow_local
    if may_be_of_others:  # before its plugins are imported
        refuse_code_of_others(document, run_directory(flags), local=True)
    document = with_records_of_run(document)
    plugins = chosen.load(document, allow_local=True)
    num_envs = _num_envs(flags["num_envs"], document.data, plugins)
    document = apply_overrides(document, flags=num_envs)
    run = Run(document, plugins)
    if may_be_of_others:
        refuse_names_of_others(run.config, run.plugins, run_directory(flags), document)
    if config is not None:
        refuse_configuration_of_another(config, run)
    if run.offline and flags["num_envs"] is not None and not flags["inference"]:
        raise ConfigError(
            "--num-envs: this run learns from recorded data, so no environment is stepped; the copies of an evaluation "
            "are evaluation.environment.num_envs"
        )
    return run


def document_for_environment(
    sets: tuple[str, ...], flags: dict[str, Any], options: Mapping[str, str], chosen: PluginFlags
) -> Document:
    """The document of a run without CONFIG: the file that a collection has for the environment, else an empty one.

    A preset on the command line chooses the values itself, so no collection is asked. The run is named after the
    environment.
    """
    from rlcore.config.document import merged
    from rlcore.config.inheritance import id_as_name
    from rlcore.config.overrides import apply_overrides
    from rlcore.config.reading import document_from_mapping, file_for
    from rlcore.plugins.call import load_plugins
    from rlcore.plugins.select import selection_from

    start = {"checkpoint_settings": {"run_id": id_as_name(flags["env"])}}
    empty = document_from_mapping({"environment": {}, "default_settings": {}, **start})
    given = apply_overrides(empty, sets, typed_flags(flags, empty.data), options).data
    if given.get("preset") is not None:
        return empty
    plugins = load_plugins(selection_from(dash_p=chosen.dash_p, no_plugins=chosen.no_plugins))
    found = file_for(given, plugins)
    if found is None:
        return empty
    return attrs.evolve(found, data=merged(document_from_mapping(start).data, found.data))


def _num_envs(count: int | None, data: Mapping[str, Any], plugins: Plugins) -> dict[tuple[str, ...], Any]:
    """The key that ``--num-envs`` sets in a configuration that has everything else of the command line.

    Without an ``environment`` block, a plugin may still make one of what a file of ML-Agents says. It then finds the
    number under ML-Agents' key, which only a plugin reads.
    """
    if data.get("environment") is not None:
        return {("environment", "num_envs"): count}
    for record in plugins.records("hints"):
        if getattr(record, "rewrites", None):
            return {("env_settings", "num_envs"): count}
    return {}


def typed_flags(flags: dict[str, Any], data: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The configuration keys, and their values, of the flags that were given."""
    # Not `in (None, False)`: seed 0 equals False.
    values = {name: value for name, value in flags.items() if value is not None and value is not False}
    typed: dict[tuple[str, ...], Any] = {}
    for name, key in FLAG_KEYS.items():
        if name in values:
            typed[key] = values[name]
    behaviors = data.get("behaviors")
    names = behaviors if isinstance(behaviors, Mapping) else ()
    blocks: list[tuple[str, ...]] = [("behaviors", name) for name in names]
    has_defaults = data.get("default_settings") is not None
    if has_defaults or {"preset", "trainer"} & {*data, *values}:
        blocks.append(("default_settings",))
    for name, key in OF_BEHAVIORS.items():
        if name in values:
            for block in blocks:
                typed[*block, *key] = values[name]
    return typed


def configuration_of_run(flags: dict[str, Any]) -> Document:
    """The configuration in the run's directory, to resume it without naming a file."""
    if not (flags["resume"] or flags["inference"]) or flags["run_id"] is None:
        raise click.UsageError("CONFIG is missing; give --env ID instead, or --run-id with --resume or --inference")
    if flags["preset"] is not None:
        raise click.UsageError("--preset has no effect: the configuration of a run has every key; leave it out")
    from rlcore.config.rules import name_problem
    from rlcore.run.saved.data import read_saved_configuration, require_run_directory

    problem = name_problem("a run id", flags["run_id"])
    if problem:
        raise ConfigError(f"--run-id: {problem}")
    directory = run_directory(flags)
    require_run_directory(directory)
    return read_saved_configuration(directory)


def refuse_configuration_of_another(config: Path, run: Run) -> None:
    """Raises ConfigError if CONFIG is in the directory of one run and would resume another run.

    That happens when a run's directory was copied or renamed.
    """
    from rlcore.storage.mark import read_mark

    settings = run.config.checkpoint_settings
    home = config.absolute().parent
    if not (settings.resume or settings.inference) or read_mark(home) is None:
        return
    directory = run.directory.path
    if not directory.exists() or not home.samefile(directory):
        raise ConfigError(
            f"{config}: is in the directory of run {home.name!r} and names run {settings.run_id!r}; "
            f"say which with --run-id and --results-dir, or leave CONFIG out: --resume --run-id {home.name}"
        )


def run_directory(flags: dict[str, Any]) -> Path:
    """The directory of the run that ``--run-id`` names, for a command without CONFIG."""
    return user_path(flags["results_dir"] or "results") / str(flags["run_id"])
