"""Generates the reference pages from the code: hooks, settings, command line, API. MkDocs calls it at every build.

The repository contains no generated page, so no page can be outdated. ``python docs/generate.py hooks`` prints a page.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
import figures
import gallery
import notebooks
import playing
import plugin_list

from rlcore import (
    HOOKS,
    BehaviorSettings,
    CheckpointSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EnvSettings,
    EvaluationSettings,
    ExecutorSettings,
    ExportSettings,
    FieldInfo,
    PluginSettings,
    RewardSettings,
    RunConfig,
    hookspecs,
    load_plugins,
)
from rlcore.hookspecs import HookInfo
from rlcore_torch import MemorySettings, NetworkSettings
from rlcore_torch.networks.settings import CriticSettings
from rlcore_torch.settings import BehavioralCloningSettings, PriorDataSettings

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
EXAMPLES = DOCS / "hook_examples.py"

MEMBERS = ("builtin_trainers", "plugins")  # folders of distributions
TRIED_PLUGINS = """\
## Tried every night

A nightly job installs these packages with rlcore as it is and with rlcore as it was published, checks them with
`rlcore plugins doctor`, and runs their own tests. So a change of rlcore that breaks one of them is found before its
users meet it. The job does the same with what `rlcore plugins new` writes for each kind.

To have your package tried, add an entry for it to `tools/plugins.yaml` with a pull request.
`python tools/plugin_matrix.py` prints the table of the job in a checkout.
"""
PUBLISHED_PLUGINS = """\
## Plugins of others

A package is a plugin for rlcore if it has an entry point in the group `rlcore`. It is found by the keyword
`rlcore-plugin` in its metadata. `rlcore plugins new` writes both. An index shows the keyword on the page of the
package, and its search finds it. [Publish a plugin](../how-to/publish.md) has all steps.

`docs/plugin_list.py` makes the same table for the packages of an index, or for the wheels in a directory. It installs
and imports nothing:

```sh
python docs/plugin_list.py dist/
python docs/plugin_list.py https://index.example/simple/ acme-rl acme-status
```

The column *provides* is told from the names of the functions in the module of the entry point. If the index offers
metadata apart from the wheels (PEP 658), no wheel is downloaded, and the column is empty.

Packages in such a list are not reviewed. Plugins run with all your rights: install only plugins that you trust.
"""

KIND_TITLES = {
    "registry": "Registries: what a plugin contains",
    "factory": "Factories: the first result is used",
    "status": "Status: what plugins save besides the weights",
    "intervention": "Interventions: what plugins may change or refuse",
    "notification": "Notifications: events of a run",
    "extension": "Hooks for plugins with plugins of their own",
}
# The rules of each kind, as in the first lines of hookspecs.py.
KIND_RULES = {
    "registry": "A registry has no arguments and returns records. rlcore calls it at most once per process.",
    "factory": "rlcore uses the first result that is not `None`, and its own implementation comes last. Only these "
    "hooks may be wrapped with `@hookimpl(wrapper=True)`.",
    "status": "rlcore calls every plugin. An error stops the run.",
    "intervention": "rlcore calls every plugin, one after another. The text of each hook says what an error does.",
    "notification": "rlcore calls every plugin, one after another, and ignores results. An error does not stop the run "
    "or affect other plugins, and is repeated when the run ends. With `--strict-plugins`, the run saves a checkpoint "
    "and ends.",
    "extension": "Called before any other hook.",
}

CORE_BLOCKS: tuple[tuple[str, type], ...] = (
    ("The whole file", RunConfig),
    ("behaviors.NAME, default_settings", BehaviorSettings),
    ("behaviors.NAME.network_settings", NetworkSettings),
    ("behaviors.NAME.reward_signals.NAME", RewardSettings),
    ("behaviors.NAME.behavioral_cloning", BehavioralCloningSettings),
    ("behaviors.NAME.hyperparameters.prior_data", PriorDataSettings),
    ("behaviors.NAME.network_settings.critic", CriticSettings),
    ("behaviors.NAME.network_settings.memory", MemorySettings),
    ("environment", EnvironmentSettings),
    ("environment.workers", ExecutorSettings),
    ("environment_parameters.NAME", EnvironmentParameter),
    ("evaluation", EvaluationSettings),
    ("export.NAME", ExportSettings),
    ("env_settings", EnvSettings),
    ("checkpoint_settings", CheckpointSettings),
    ("plugins", PluginSettings),
)
# The kind of record, the path of its block in the file, and the attribute of the record that names the settings class.
PLUGIN_BLOCKS = (
    ("trainer", "behaviors.NAME.hyperparameters, if trainer_type is {name}", "settings"),
    ("encoder", "behaviors.NAME.network_settings.*_encode_settings, if the encoder is {name}", "settings"),
    (
        "action_distribution",
        "behaviors.NAME.network_settings.action_distribution_settings, if action_distribution is {name}",
        "settings",
    ),
    ("reward", "behaviors.NAME.reward_signals.{name}", "settings"),
    ("environment", "environment, if type is {name}", "block"),
    ("environment", "environment.options, if environment.type is {name}", "settings"),
    ("environment", "environment.parameters.NAME, if environment.type is {name}", "parameters"),
    ("executor", "environment.workers, if executor is {name}", "settings"),
    ("curriculum", "environment_parameters.NAME.curriculum, if type is {name}", "settings"),
    ("replay_sampler", "behaviors.NAME.hyperparameters.replay_sampler, if type is {name}", "settings"),
    ("optimizer", "behaviors.NAME.hyperparameters.optimizer, if type is {name}", "settings"),
    ("evaluation", "evaluation", "settings"),
    ("opponent", "evaluation.opponents.NAME, if type is {name}", "settings"),
    ("sampler", "sampler_parameters, if sampler_type is {name}", "settings"),
    ("writer", "stats.{name}", "settings"),
    ("exporter", "export.{name}", "settings"),
    ("section", "{name}", "target"),
    ("command", "{name}", "settings"),
    ("behavior", "behaviors.NAME.{name}", "target"),
)


# ---------------------------------------------------------------- hooks


def hooks_page() -> str:
    """Return the page of all hooks: signature, time of the call, an example, and the version that added the hook."""
    lines = [
        "# Hooks",
        "",
        "This page documents every hook. Signatures, texts and examples come from the code.",
        "",
        "A hook implementation is a function with the name of the hook and the decorator `@hookimpl`. It may have any",
        "subset of the hook's arguments, with the same names and without default values. No hook is called per step.",
        "",
        "```python",
        "from rlcore import hookimpl",
        "```",
        "",
        "| hook | kind | since |",
        "|---|---|---|",
        *(f"| [`{hook.name}`](#{hook.name}) | {hook.kind} | {hook.since} |" for hook in HOOKS),
    ]
    signatures = hook_signatures()
    examples = hook_examples()
    for kind, title in KIND_TITLES.items():
        lines += ["", f"## {title}", "", KIND_RULES[kind]]
        for hook in HOOKS:
            if hook.kind == kind:
                lines += _hook(hook, signatures[hook.name], examples[hook.name])
    lines += ["", "## Hooks that plugins add", "", "A plugin may add hooks with `rlcore_addhooks`. Of this repository:"]
    for distribution, module in added_hooks():
        source = ast.parse(inspect.getsource(module))
        for node in source.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("rlcore_"):
                lines += [
                    "",
                    f"### {node.name}",
                    "",
                    f"From `{distribution}`.",
                    "",
                    "```python",
                    _signature(node),
                    "```",
                ]
                lines += ["", prose(inspect.getdoc(getattr(module, node.name)) or "")]
                if node.name in examples:
                    lines += ["", "Example:", "", "```python", examples[node.name], "```"]
    return "\n".join([*lines, "", *_records(), ""])


def added_hooks() -> Iterator[tuple[str, types.ModuleType]]:
    """Yield the modules of hook specifications that plugins of this repository add, with their distributions."""
    for plugin in load_plugins().found:
        add = getattr(importlib.import_module(plugin.module), "rlcore_addhooks", None)
        if add is not None and plugin.distribution in members():
            modules: list[types.ModuleType] = []
            add(types.SimpleNamespace(add_hookspecs=modules.append))
            yield from ((plugin.distribution, module) for module in modules)


def hook_signatures() -> dict[str, str]:
    """Return the signature of each hook in hookspecs.py by name; long ones have one argument per line."""
    tree = ast.parse(inspect.getsource(hookspecs))
    return {node.name: _signature(node) for node in tree.body if isinstance(node, ast.FunctionDef)}


def hook_examples() -> dict[str, str]:
    """Return the source of each function in hook_examples.py by name, including decorators."""
    source = EXAMPLES.read_text(encoding="utf-8")
    examples = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            examples[node.name] = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    return examples


def _signature(node: ast.FunctionDef) -> str:
    arguments = [ast.unparse(argument) for argument in node.args.args]
    answer = ast.unparse(node.returns) if node.returns is not None else "None"
    one_line = f"def {node.name}({', '.join(arguments)}) -> {answer}"
    if len(one_line) <= 88:
        return one_line
    return "\n".join([f"def {node.name}(", *(f"    {argument}," for argument in arguments), f") -> {answer}"])


def _hook(hook: HookInfo, signature: str, example: str) -> Iterator[str]:
    yield from ("", f"### {hook.name}", "", "```python", signature, "```", "")
    yield prose(inspect.getdoc(getattr(hookspecs, hook.name)) or "")
    if hook.deprecated:
        yield from ("", f"**Deprecated:** {hook.deprecated}. rlcore {hook.removed_in} will no longer call it.")
    yield from ("", "Example:", "", "```python", example, "```")


def _records() -> Iterator[str]:
    yield from (
        "## Records",
        "",
        "Registries return these classes, of `rlcore` or of the package that adds the hook. A record names code by a",
    )
    yield 'string, `"package.module:Name"`, and rlcore imports the code on first use.'
    hooks = [getattr(hookspecs, hook.name) for hook in HOOKS]
    for _, module in added_hooks():
        hooks += [each for name, each in inspect.getmembers(module, inspect.isfunction) if name.startswith("rlcore_")]
    for record in chain.from_iterable(getattr(hook, "rlcore_registry", ()) for hook in hooks):
        yield from ("", f"### {record.__name__}", "", prose(inspect.getdoc(record) or ""), "")
        yield from ("| field | default |", "|---|---|")
        for attribute in attrs.fields(record):
            yield f"| `{attribute.name}` | {_shown(FieldInfo.default_of(attribute))} |"


# ---------------------------------------------------------------- settings


def settings_page() -> str:
    """Return the page of all keys of a configuration file, including the plugins of this repository."""
    lines = [
        "# Settings",
        "",
        "This page lists every key of a configuration file. Keys of ML-Agents keep their names, defaults and meanings.",
        "Numbers may be written as `5e5`. `rlcore schema` of `rlcore-devkit` prints a JSON Schema that includes the",
        "settings of all installed plugins, so that an editor can complete and check a file.",
    ]
    for title, cls in CORE_BLOCKS:
        lines += _table(title, cls)
    lines += [
        "",
        "## Blocks of plugins",
        "",
        "These plugins are part of the repository. `rlcore plugins info NAME` shows the settings of any other plugin.",
    ]
    for title, cls, owner in plugin_blocks():
        lines += _table(title, cls, f"From `{owner}`. ", level="###")
    return "\n".join([*lines, ""])


def plugin_blocks() -> Iterator[tuple[str, type, str]]:
    """Yield title, settings class and distribution of each block of the plugins in this workspace."""
    plugins = load_plugins()
    found = [(title, attribute, record) for kind, title, attribute in PLUGIN_BLOCKS for record in plugins.records(kind)]
    for title, attribute, record in found:
        distribution = record.plugin.distribution if record.plugin is not None else ""
        if distribution in members() and getattr(record, attribute) is not None:
            for path, block in blocks_in(record.resolve(attribute), title.format(name=record.name)):
                yield path, block, distribution


def blocks_in(cls: type, title: str) -> Iterator[tuple[str, type]]:
    """Yield a plugin's settings class and the classes of blocks in it, except classes of the core."""
    yield title, cls
    kinds = FieldInfo.types_of(cls)
    keys = {attribute.name for attribute in FieldInfo.fields_of(cls).values()}
    for key in (key for key in kinds if key in keys):
        kind = kinds[key]
        path, comma, where = title.partition(",")
        for block in dict.fromkeys(_types_in(kind)):
            if attrs.has(block) and block not in dict(CORE_BLOCKS).values():
                yield from blocks_in(block, f"{path}.{key}{comma}{where}")


def _types_in(kind: Any) -> Iterator[type]:
    arguments = typing.get_args(kind)
    if isinstance(kind, type) and not arguments:
        yield kind
    for argument in arguments:
        yield from _types_in(argument)


def members() -> frozenset[str]:
    """Return the distributions in this repository; the reference omits other installed plugins."""
    return frozenset({"rlcore", *(plugin_list.from_project(folder).name for folder in member_folders())})


def member_folders() -> list[Path]:
    """Return the folders of the distributions besides rlcore."""
    return sorted(path.parent for parent in MEMBERS for path in (ROOT / parent).glob("*/pyproject.toml"))


def _table(title: str, cls: type, source: str = "", level: str = "##") -> Iterator[str]:
    kinds = FieldInfo.types_of(cls)
    yield from ("", f"{level} {title}", "", source + prose((cls.__doc__ or "").partition("\n\n")[0]), "")
    yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    for key, attribute in FieldInfo.fields_of(cls).items():
        if cls in (RunConfig, EvaluationSettings) and key == "sections":  # blocks of plugins; not a key
            continue
        cells = (
            f"`{key}`",
            type_words(kinds[attribute.name]),
            _shown(FieldInfo.default_of(attribute)),
            _meaning(attribute),
        )
        yield f"| {' | '.join(cells)} |"


def _meaning(attribute: attrs.Attribute[Any]) -> str:
    info = FieldInfo.of(attribute)
    parts = [prose(info.description).replace("|", "\\|")]
    if info.choices is not None:
        parts.append(f"One of {', '.join(f'`{choice}`' for choice in info.choices)}.")
    limits = [
        f"{words} {limit:g}"
        for words, limit in (
            ("at least", info.minimum),
            ("more than", info.exclusive_minimum),
            ("at most", info.maximum),
        )
        if limit is not None
    ]
    if limits:
        parts.append(f"{' and '.join(limits).capitalize()}.")
    return " ".join(parts)


_WORDS: Mapping[Any, str] = types.MappingProxyType(
    {bool: "true or false", int: "whole number", float: "number", str: "text", type(None): "null", Any: "block"}
)


def type_words(kind: Any) -> str:
    """Describe a type in words for YAML files."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if isinstance(kind, type) and attrs.has(kind):
        return "block"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_words(argument) for argument in arguments))
    if origin is dict:
        return "mapping"
    if origin in (list, tuple):
        return f"list of {type_words(arguments[0])}"
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def _shown(default: Any) -> str:
    if default is attrs.NOTHING:
        return "-"
    if attrs.has(type(default)):
        return "defaults below"
    if default is None:
        return "`null`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, frozenset):
        return " ".join(f"`{item}`" for item in sorted(default))
    if isinstance(default, float):
        return f"`{default:g}`"
    if isinstance(default, tuple):
        return f"`{json.dumps(default)}`"  # as YAML writes a list on one line
    return f"`{default}`" if default != "" else "empty"


# ---------------------------------------------------------------- command line


def cli_page() -> str:
    """Return the page of all commands, those of the plugins in this repository too, with the options of ``--help``."""
    lines = [
        "# Command line",
        "",
        "`--debug`, or `RLCORE_DEBUG=1`, shows tracebacks. See also [exit codes](exit-codes.md).",
    ]
    for path, command, owner in commands():
        context = click.Context(command, info_name=" ".join(path))
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        text = inspect.cleandoc(command.help or "").split("\f")[0]
        source = [f"From `{owner}`.", ""] if owner else []
        lines += ["", f"## {' '.join(path)}", "", *source, "```text", usage, "```", "", prose(text), ""]
        options = [record for parameter in command.params if (record := parameter.get_help_record(context))]
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| `{name.replace('|', '/')}` | {prose(meaning)} |" for name, meaning in options]
        if command.epilog:
            lines += ["", "```text", inspect.cleandoc(command.epilog.removeprefix("\b\n")), "```"]
    return "\n".join([*lines, ""])


def commands() -> Iterator[tuple[tuple[str, ...], click.Command, str]]:
    """Yield every command with its words, without groups, and the distribution of a plugin's command.

    Commands of plugins outside this repository are left out.
    """
    from rlcore.cli.main import rlcore

    yield from ((*found, "") for found in _commands(("rlcore",), rlcore))
    for record in load_plugins().records("command"):
        distribution = record.plugin.distribution if record.plugin is not None else ""
        if distribution in members():
            yield from ((*found, distribution) for found in _commands(("rlcore", record.name), record.resolve()))


def _commands(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _commands((*path, name), inner)


# ---------------------------------------------------------------- plugins


def plugins_page() -> str:
    """Return the page with the plugins of this repository; ``docs/plugin_list.py`` lists those of others."""
    found = [plugin_list.from_project(folder) for folder in member_folders()]
    return "\n".join(
        [
            "# Plugins",
            "",
            "The distributions of this repository besides rlcore, as their metadata describes them:",
            "",
            plugin_list.table(found),
            TRIED_PLUGINS,
            plugin_list.tried(ROOT),
            PUBLISHED_PLUGINS,
        ]
    )


# ---------------------------------------------------------------- zoo


ZOO_TABLE = "<!-- rlcore zoo list -->"


def with_zoo(markdown: str) -> str:
    """Return the page about the zoo with the table of its files, and what they were measured with."""
    from rlcore_zoo.command import row
    from rlcore_zoo.entries import entries

    every = entries()
    head = ("name", "environment", "agent steps", "score", "95% interval of a new seed", "seeds", "published", "CPU")
    rows = [head, ("---",) * 2 + ("---:",) * 6, *((f"`{name}`", *cells) for name, *cells in map(row, every))]
    lines = [each for entry in every for each in entry.measurements.values()]
    dates = sorted({each.date for each in lines})
    machines = sorted({each.machine for each in lines})
    versions = sorted({f"{name} {version}" for each in lines for name, version in each.versions.items()})
    pythons = sorted({f"Python {each.python}" for each in lines})
    circumstances = (
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on {' and '.join(machines)}, with "
        f"{', '.join(pythons + versions)}."
    )
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return markdown.replace(ZOO_TABLE, f"{table}\n\n{circumstances}")


# ---------------------------------------------------------------- text


def prose(text: str) -> str:
    """Convert a docstring to Markdown: ``code`` and :role:`name` become `code`; indented lists stay."""
    text = inspect.cleandoc(text)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


PAGES: Mapping[str, Callable[[], str]] = types.MappingProxyType(
    {
        "reference/hooks.md": hooks_page,
        "reference/settings.md": settings_page,
        "reference/cli.md": cli_page,
        "reference/plugins.md": plugins_page,
    }
)


def pages() -> Mapping[str, Callable[[], str]]:
    """Return all generated pages by their paths in docs/: PAGES, and the API reference, which griffe must read."""
    import api_reference

    api_pages = {f"reference/api/{page}.md": partial(api_reference.api_page, page) for page in api_reference.PAGES}
    return {**PAGES, "reference/api/index.md": api_reference.index_page, **api_pages}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and notebooks to the pages in docs/; a hook of MkDocs."""
    from mkdocs.structure.files import File

    for path, page in pages().items():
        files.append(File.generated(config, path, content=page()))
    for path in notebooks.NOTEBOOKS:
        files.append(File.generated(config, path, content=notebooks.notebook_of(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Link the names of code in sentences to the API reference; a hook of MkDocs."""
    import api_reference

    if page.file.src_uri == "how-to/zoo.md":
        markdown = with_zoo(markdown)
    if page.file.src_uri.startswith("how-to/porting"):
        return markdown  # these pages have names of before, which the reference does not have
    if not page.file.src_uri.startswith("reference/api/"):
        markdown = api_reference.linked(markdown)
    return with_drawings(markdown)


def with_drawings(markdown: str) -> str:
    """Return a page with films, curves and figures in place of the comments that ask for them."""
    for comment, drawn in DRAWINGS.items():
        if f"<!-- {comment} -->" in markdown:
            markdown = markdown.replace(f"<!-- {comment} -->", drawn())
    return markdown


def _returns() -> str:
    return figures.returns((DOCS / "benchmarks.md").read_text(encoding="utf-8"))


DRAWINGS: Mapping[str, Callable[[], str]] = types.MappingProxyType(
    {
        "gallery": lambda: gallery.page(gallery.shown()),
        "front agent": lambda: gallery.front(gallery.shown()),
        "front player": playing.front,
        "figures": lambda: figures.page(figures.cited()),
        "front figures": lambda: figures.front(figures.cited()),
        "returns": _returns,
    }
)


def main(names: Iterable[str]) -> None:
    """Print the pages with these names, such as ``hooks`` or ``api/rewards``, or all pages.

    ``public-names`` prints the list that a test compares.
    """
    wanted = list(names)
    if wanted == ["public-names"]:
        from public_names import public_names

        print("\n".join(public_names()))
        return
    found = {path.removeprefix("reference/").removesuffix(".md"): page for path, page in PAGES.items()}
    if not found.keys() >= set(wanted) or not wanted:
        found = {path.removeprefix("reference/").removesuffix(".md"): page for path, page in pages().items()}
    if unknown := [name for name in wanted if name not in found]:
        sys.exit(f"{unknown[0]}: is not a generated page; these are: {', '.join(found)}, public-names")
    for name in wanted or found:
        print(found[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
