"""``rlcore plugins doctor``: what is wrong, or will go wrong, with installed plugins, and how to fix it."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from itertools import groupby, product
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlparse

import click
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rlcore import (
    CONTRACT,
    BehaviorSection,
    ConfigSection,
    ExitCode,
    Plugin,
    PluginError,
    Plugins,
    debug_option,
    echo,
    json_option,
    pip_install,
    python_command,
)
from rlcore_devkit.successors import renamed, successor

SLOW_IMPORT_SECONDS = 0.05
IMPORT_SECONDS = 30.0  # for an import by itself, and the end of its process
# What a light module must not pull in: each start of rlcore would pay for it.
HEAVY = ("torch", "numpy", "gymnasium", "tensorboard")

# Run in an interpreter of its own: what a module imports can only be seen where nothing else was imported.
_PROBE = """
import json, sys, time
import rlcore.records, rlcore.hookspecs
start = time.perf_counter()
__import__(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "heavy": [m for m in sys.argv[2:] if m in sys.modules]}), flush=True)
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


@click.command("doctor")
@click.argument("name", required=False)
@click.option(
    "--import/--no-import",
    "import_targets",
    default=True,
    show_default=True,
    help="Import every target too (torch among them).",
)
@json_option
@debug_option
@click.pass_context
def doctor_command(context: click.Context, name: str | None, import_targets: bool, as_json: bool) -> None:
    """Check plugins, and say how to fix them. Exits with 1 if there is an error.

    Checks all plugins, or NAME (DIST/NAME, module:acme.hooks): its bounds on rlcore and its contract, what importing
    it costs and imports, its hooks and records with all that they name, clashes with others, and entry points that were
    not reinstalled.
    """
    plugins, chosen = Plugins.inspect(name)
    own_commands = _commands(context.find_root()) + _commands(context.parent, "plugins ")
    findings: list[Finding] = []
    for plugin in chosen:
        findings += _diagnose(plugins, plugin, import_targets, own_commands)
    labels = {plugin.label for plugin in chosen}
    for clash in _clashes(plugins):
        if clash.plugin in labels:
            findings.append(clash)
    if as_json:
        document = {"findings": [finding._asdict() for finding in findings]}
        click.echo(json.dumps(document, indent=4))
    else:
        for label in sorted(labels):
            of_plugin = [finding for finding in findings if finding.plugin == label]
            echo(f"{label}:" if of_plugin else f"{label}: ok")
            for finding in of_plugin:
                echo(f"  {finding.level}: {finding.message}")
    levels = {finding.level for finding in findings}
    if "error" in levels:
        context.exit(ExitCode.INTERNAL)


def _commands(context: click.Context | None, front: str = "") -> list[str]:
    if context is None or not isinstance(context.command, click.Group):
        return []
    return [front + name for name in context.command.list_commands(context)]


def _diagnose(
    plugins: Plugins, plugin: Plugin, import_targets: bool, own_commands: Collection[str]
) -> Iterator[Finding]:
    """The findings about one plugin alone. A plugin's command may not have one of the names in ``own_commands``."""

    finding = partial(Finding, plugin.label)
    if plugin.refused:
        yield finding("error", "fits rlcore", plugin.refused)
        return
    if plugin.lacks and not plugin.on:
        yield finding("warning", "libraries", f"needs {plugin.lacks}; nothing else of it was checked")
        return
    if plugin.distribution and not plugin.essential:  # a local plugin has no metadata
        bounded = any(Requirement(text).specifier for text in plugin.requires)
        if not bounded:
            yield finding("warning", "bounds", "sets no bounds on rlcore; require for example 'rlcore>=0.1,<0.2'")
        if not plugin.contracts:
            keyword = f"rlcore-plugin-contract-{CONTRACT}"
            message = f"declares no contract; add the keyword {keyword} to its metadata, and install it again"
            yield finding("warning", "contract", message)
    if plugin.warning:
        yield finding("warning", "versions", plugin.warning)
    if plugin.editable and (source := _changed_since_installed(plugin)):
        message = f"its pyproject.toml and its installed entry points differ; run pip install -e {source}"
        yield finding("warning", "entry points", message)
    records = plugins.records_of(plugin.label)
    if plugin.label in plugins.broken:
        error = plugins.broken[plugin.label]
        yield finding("error", "loads", f"{error}{renamed(error)}")
        return
    if not plugins.implemented(plugin.label):
        yield finding("error", "hooks", f"{plugin.module} implements no hook; mark functions with @rlcore.hookimpl")
    commands = {record.name for record in records if record.kind == "command"}
    hidden = commands & set(own_commands)
    for name in sorted(hidden):
        yield finding("error", "commands", f"the command {name!r} is core's own and would never be called")
    for message in plugins.deprecations(plugin):
        yield finding("warning", "deprecated", message)
    others = _packages_of_others(plugin, plugins.found)
    for message in _private_imports(plugin, others):
        yield finding("warning", "private", message)
    if plugin.distribution or not plugin.module.endswith(".py"):
        yield from _import_cost(plugin)
    if not import_targets:
        return
    for record, attribute in product(records, ("target", "settings", "parameters")):
        if not getattr(record, attribute, None):
            continue
        try:
            record.resolve(attribute)
        except PluginError as error:
            extra = _missing_extra(plugin, error)
            if extra:
                yield finding("warning", "targets", f"{error}; {pip_install(extra)} to use it")
            else:
                yield finding("error", "targets", f"{error}{renamed(error)}")


def _clashes(plugins: Plugins) -> Iterator[Finding]:
    """Clashes between plugins: of their names, of their records, and of stores of the status."""
    for message, rivals, fatal in plugins.obstacles():
        level: Literal["error", "warning"] = "error" if fatal else "warning"
        for plugin in rivals:
            yield Finding(plugin.label, level, "clash", message)
    for kind in plugins.kinds:
        for _, group in groupby(plugins.records(kind), key=lambda record: record.name):
            records = list(group)
            if len(records) == 1:
                continue
            message = plugins.clash(records)
            # A file can write DIST/NAME for other records, but not for blocks.
            blocks = isinstance(records[0], ConfigSection | BehaviorSection)
            level = "error" if blocks else "warning"
            for record in records:
                if record.plugin is not None:
                    yield Finding(record.plugin.label, level, "clash", message)
    stores = plugins.answering("rlcore_write_status")  # every other factory may be answered by several
    if len(stores) > 1:
        labels = ", ".join(store.label for store in stores)
        advice = "only one can win; turn the others off, or make them wrapper=True"
        message = f"rlcore_write_status is answered by {labels} and {advice}"
        for store in stores:
            yield Finding(store.label, "error", "clash", message)


def _missing_extra(plugin: Plugin, error: PluginError) -> str:
    """``rlcore[torch]`` if a target needs a package that only this extra of its plugin requires; else an empty text."""
    cause = error.__cause__
    if not plugin.distribution or not isinstance(cause, ModuleNotFoundError):
        return ""
    package = canonicalize_name((cause.name or "").partition(".")[0])
    for text in metadata.requires(plugin.distribution) or ():
        extra = re.search(r"\bextra\s*==\s*['\"]([^'\"]+)", text)
        if extra and canonicalize_name(Requirement(text).name) == package:
            return f"{plugin.distribution}[{extra[1]}]"
    return ""


class Imported(NamedTuple):
    """The cost of an import in a new interpreter: its seconds and heavy modules, or the last line of its error."""

    seconds: float = 0.0
    heavy: tuple[str, ...] = ()
    error: str = ""


def import_alone(module: str, heavy: Collection[str] = HEAVY) -> Imported:
    """Import ``module`` in a new interpreter, which can import what this one can."""
    try:
        probe = subprocess.run(
            python_command("-c", _PROBE, module, *heavy),
            capture_output=True,
            text=True,
            check=False,
            timeout=IMPORT_SECONDS,
        )
    except subprocess.TimeoutExpired as expired:
        problem = f"it does not return within {IMPORT_SECONDS:g} s"
        if expired.stdout:  # printed after the import
            problem = f"the process does not end within {IMPORT_SECONDS:g} s: a thread or exit handler hangs"
        return Imported(error=problem)
    if probe.returncode:
        lines = probe.stderr.strip().splitlines()
        return Imported(error=lines[-1] if lines else f"exit code {probe.returncode}")
    last_line = probe.stdout.splitlines()[-1]  # the module may print too
    measured = json.loads(last_line)
    return Imported(measured["seconds"], tuple(measured["heavy"]))


def _import_cost(plugin: Plugin) -> Iterator[Finding]:
    module = plugin.module.partition(":")[0]
    imported = import_alone(module)
    if imported.error:
        yield Finding(plugin.label, "error", "alone", f"{module} cannot be imported by itself: {imported.error}")
    elif imported.heavy:
        advice = "import it in the module that a record's target names"
        message = f"{module} imports {', '.join(imported.heavy)} at every start of rlcore; {advice}"
        yield Finding(plugin.label, "error" if "torch" in imported.heavy else "warning", "light", message)
    elif imported.seconds > SLOW_IMPORT_SECONDS:
        took = f"{imported.seconds * 1000:.0f} ms"
        limit = f"{SLOW_IMPORT_SECONDS * 1000:.0f} ms"
        yield Finding(plugin.label, "warning", "fast", f"{module} takes {took} to import (over {limit})")


def _private_imports(plugin: Plugin, others: Collection[str]) -> Iterator[str]:
    """One line for each name that the code of a plugin imports although it is not public.

    ``others`` are the packages beside ``rlcore`` whose names are looked at. The code is read, not run: the package of
    the plugin's module, or its file. rlcore's own plugins are held to the same rule by its tests.
    """
    module = plugin.module.partition(":")[0]
    file = Path(getattr(sys.modules.get(module), "__file__", None) or plugin.module)
    if plugin.essential or not file.is_file():
        return
    sources = [file]
    in_package = "." in module or file.name == "__init__.py"
    if in_package and plugin.distribution:
        sources = sorted(file.parent.rglob("*.py"))
    for source in sources:
        for line, name in _imported_names(source):
            package = name.partition(".")[0]
            if package not in ("rlcore", *others) or _is_public(name):
                continue
            place = f"{source.name}:{line} imports {name}"
            if _exists(name):
                yield (
                    f"{place}, which is not public and may move at any time; "
                    f"import from {package} what its API reference lists"
                )
            else:
                became = successor(name) or "docs/how-to/porting.md has the names that moved before 0.1"
                yield f"{place}, which is not there; {became}"


def _exists(name: str) -> bool:
    """Whether a dotted name is a module, or a name in one."""
    module, _, last = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), last) or find_spec(name) is not None
    except ImportError:
        return False


def _imported_names(source: Path) -> Iterator[tuple[int, str]]:
    """The dotted names that a file imports, with their lines; relative imports stay in the plugin's package."""
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name


def _packages_of_others(plugin: Plugin, plugins: Collection[Plugin]) -> set[str]:
    """The packages called ``rlcore_NAME`` that plugins of other distributions are in."""
    own_package = plugin.module.partition(".")[0]
    packages = set()
    for other in plugins:
        package = other.module.partition(".")[0]
        if other.distribution != plugin.distribution and package.startswith("rlcore_"):
            packages.add(package)
    return packages - {own_package}


def _is_public(name: str) -> bool:
    """Whether a dotted name is a package, or public in it.

    A package whose ``__init__`` has ``__all__`` lists its public names there, and those of a library within it in the
    ``__init__`` of that. In any other package, each module may have a list of its own. A module without a list says
    nothing about its names, but for those with an underscore.
    """
    package, _, rest = name.partition(".")
    if not rest or rest in ("*", "__version__"):
        return True
    listed = getattr(importlib.import_module(package), "__all__", None)
    module, _, last = name.rpartition(".")
    if module == package and listed is not None:
        return rest in listed
    names = _listed(module)
    if listed is not None:
        library = _source(module).name == "__init__.py"  # within the package; rlcore has none
        return package != "rlcore" and library and last in (names or ())
    if names is None or _listed(name) is not None:
        return not any(part.startswith("_") for part in rest.split("."))
    return last in names


def _source(module: str) -> Path:
    """The file of a module, which is not imported: it may be heavy."""
    package, *inner = module.split(".")
    path = Path(str(sys.modules[package].__file__)).parent.joinpath(*inner)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _listed(module: str) -> Collection[str] | None:
    """The ``__all__`` of a module, read from its code; None if there is no such module or list."""
    try:
        tree = ast.parse(_source(module).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            constants = [part for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            return {str(constant.value) for constant in constants}
    return None


def _changed_since_installed(plugin: Plugin) -> Path | None:
    """The source of an editable plugin whose pyproject.toml is newer than its entry points, written by the install."""
    import tomllib

    distribution = metadata.distribution(plugin.distribution)
    # https://packaging.python.org/en/latest/specifications/direct-url/: where an editable install has its source
    direct_url = json.loads(distribution.read_text("direct_url.json") or "{}")
    path = urlparse(direct_url.get("url", "")).path
    source = Path(unquote(path))
    try:
        pyproject = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return None
    written = pyproject.get("project", {}).get("entry-points", {}).get("rlcore", {})
    installed = {point.name: point.value for point in distribution.entry_points if point.group == "rlcore"}
    return source if written != installed else None
