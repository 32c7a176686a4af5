"""The API reference: which names are public, their pages, and what mkdocstrings must know of this code.

A name is public if ``__init__.pyi`` of one of SOURCES lists it; in a package without that file, if a module lists it in
``__all__``. The module that defines it decides the page (PAGES). mkdocstrings reads the source and imports nothing;
:class:`RlcoreDocstrings` is an extension of griffe, its reader.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import griffe

ROOT = Path(__file__).parent.parent
# Packages with public names, by their folders of sources: the core, and plugins that others import.
SOURCES = {
    "rlcore": ROOT / "core/src",
    "rlcore_torch": ROOT / "plugins/torch/src",
    "rlcore_devkit": ROOT / "plugins/devkit/src",
    "rlcore_ghost": ROOT / "builtin_trainers/ghost/src",
    "rlcore_gymnasium": ROOT / "plugins/gymnasium/src",
    "rlcore_offline": ROOT / "plugins/offline/src",
    "rlcore_onnx": ROOT / "plugins/onnx/src",
    "rlcore_ppo": ROOT / "builtin_trainers/ppo/src",
    "rlcore_workers": ROOT / "plugins/workers/src",
}


@attrs.frozen
class Page:
    """A page of the API reference: ``modules`` are the modules and packages whose names are on it."""

    title: str
    text: str
    modules: tuple[str, ...]


# Names of a module are on the page with the longest prefix of the module's path, in the order of these prefixes.
PAGES: Mapping[str, Page] = {
    "environments": Page(
        "Environments",
        "The contract of environments, and the specifications and batches that environments and trainers share. "
        "See [Write an environment](../../how-to/environment.md).",
        (
            "rlcore.contracts.environment",
            "rlcore.contracts.behavior_spec",
            "rlcore.contracts.batches",
            "rlcore_gymnasium",
        ),
    ),
    "workers": Page(
        "Workers",
        "The contract of executors, which run the environments of a run in workers. See "
        "[Run environments in workers](../../how-to/workers.md).",
        ("rlcore_workers",),
    ),
    "trainers": Page(
        "Trainers, policies and exporters",
        "The contract of trainers, in numpy: a trainer may be written in any framework. See "
        "[Write your first trainer](../../tutorial/first-trainer.md). Trainers in PyTorch derive from a "
        "[template](torch-templates.md). An exporter writes the policy of a trainer for other programs: "
        "[Write an exporter](../../how-to/write-exporter.md).",
        ("rlcore.contracts.trainer", "rlcore.contracts.policy"),
    ),
    "rewards": Page(
        "Rewards",
        "The contract of reward providers. See [Write a reward](../../how-to/reward.md) and "
        "[Write a reward that learns](../../how-to/rewards-that-learn.md).",
        ("rlcore.contracts.rewards",),
    ),
    "curricula": Page(
        "Curricula",
        "The contract of curricula, which choose the environment parameters of each episode. See "
        "[Write a curriculum](../../how-to/write-curriculum.md).",
        ("rlcore.contracts.curriculum",),
    ),
    "statistics": Page(
        "Statistics",
        "Summaries, their tags, and the contract of writers. See "
        "[Write a statistics writer](../../how-to/stats-writer.md).",
        ("rlcore.contracts.stats",),
    ),
    "recordings": Page(
        "Recordings",
        "Recorded episodes, and the contract of file formats for them. See "
        "[Record episodes and read recordings](../../how-to/recordings.md).",
        ("rlcore.contracts.recordings", "rlcore_offline"),
    ),
    "opponents": Page(
        "Opponents and self-play",
        "Opponents of evaluations, samplers of opponents, and policies that act together. See "
        "[Write an opponent](../../how-to/opponents.md) and [Self-play](../../how-to/self-play.md).",
        ("rlcore_ghost",),
    ),
    "runtime": Page(
        "rlcore_onnx.runtime",
        "Policies from ONNX files, with numpy and onnxruntime alone. See [Export policies](../../how-to/export.md).",
        ("rlcore_onnx",),
    ),
    "runs": Page(
        "Runs from Python",
        "Train, read finished runs, act with saved policies. See [Use rlcore from Python](../../how-to/python.md).",
        ("rlcore.run", "rlcore.contracts.results", "rlcore.config", "rlcore"),
    ),
    "plugins": Page(
        "Plugins",
        "The records that registries return, the run as plugins see it, and the plugins of a run. "
        "[Hooks](../hooks.md) has all hooks.",
        (
            "rlcore.hookspecs",
            "rlcore.records",
            "rlcore.plugins",
            "rlcore.cli",
            "rlcore.contracts.ranks",
            "rlcore.contracts.parts",
        ),
    ),
    "settings": Page(
        "Settings classes",
        "Declare settings of a plugin, and read those of a run. [Settings](../settings.md) has all keys of a "
        "configuration file with defaults and limits.",
        ("rlcore.settings",),
    ),
    "errors": Page(
        "Errors",
        "The exceptions of rlcore, and helpers for messages. [Exit codes](../exit-codes.md) has the exit code of each.",
        ("rlcore.errors",),
    ),
    "state": Page(
        "Random streams, saved values, files",
        "Random numbers that do not depend on the order of work, checked access to saved state, and files that are "
        "whole or absent.",
        (
            "rlcore.contracts.seeding",
            "rlcore.contracts.saved_values",
            "rlcore.contracts.states",
            "rlcore.contracts.finite",
            "rlcore.files",
            "rlcore.storage",
        ),
    ),
    "torch-templates": Page(
        "rlcore_torch: templates of trainers",
        "Classes to derive a trainer from, and the data that they hand to a loss. See "
        "[Write an algorithm](../../tutorial/algorithm.md).",
        ("rlcore_torch", "rlcore_torch.on_policy", "rlcore_torch.off_policy", "rlcore_ppo"),
    ),
    "torch-networks": Page(
        "rlcore_torch: networks and policies",
        "Networks, encoders, distributions of actions, and policies. See "
        "[Build networks in a trainer](../../how-to/network-layers.md).",
        ("rlcore_torch.networks", "rlcore_torch.policy"),
    ),
    "torch-tensors": Page(
        "rlcore_torch: tensor environments",
        "Environments whose batches are tensors on a device, and random numbers there. See "
        "[Tensor environments](../../how-to/tensor-environments.md).",
        ("rlcore_torch.tensors",),
    ),
    "torch-learning": Page(
        "rlcore_torch: optimizers, schedules, records, settings",
        "Optimizers and schedules, and what plugins announce for trainers in PyTorch.",
        ("rlcore_torch.optimization", "rlcore_torch.plugin", "rlcore_torch.settings"),
    ),
    "testing": Page(
        "rlcore_devkit",
        "Conformance classes to inherit from, fixtures, and environments with known best returns. See "
        "[Test a plugin](../../how-to/testing.md).",
        ("rlcore_devkit",),
    ),
}


# ---------------------------------------------------------------- public names


@attrs.frozen(order=True)
class PublicName:
    """A public object: where it is defined, and every module to import it from."""

    target: str
    imports: tuple[str, ...]  # the shortest first

    @property
    def label(self) -> str:
        """The name without modules."""
        return self.target.rpartition(".")[2]

    @property
    def path(self) -> str:
        """The shortest path that a plugin can import."""
        return f"{self.imports[0]}.{self.label}"


def _read(extensions: griffe.Extensions | None) -> Mapping[str, griffe.Module]:
    loader = griffe.GriffeLoader(search_paths=[str(folder) for folder in SOURCES.values()], extensions=extensions)
    for name in SOURCES:
        loader.load(name)
    return {name: loader.modules_collection[name] for name in SOURCES}


@cache
def packages() -> Mapping[str, griffe.Module]:
    """Return SOURCES as griffe reads them, with the extension that mkdocstrings uses."""
    return _read(griffe.load_extensions(RlcoreDocstrings))


@cache
def plain() -> Mapping[str, griffe.Module]:
    """Return SOURCES as they are written: what a name in a docstring means."""
    return _read(None)


@cache
def public_paths() -> Mapping[str, str]:
    """Return the path to import each public object from, by the path where it is defined."""
    return {name.target: name.path for package in plain().values() for name in public_names(package).values()}


@cache
def reference() -> Mapping[str, tuple[PublicName, ...]]:
    """Return the public names of each page."""
    pages: dict[str, list[tuple[int, PublicName]]] = {page: [] for page in PAGES}
    for source in packages().values():
        for name in public_names(source).values():
            page, place = page_of(name.target)
            pages[page].append((place, name))
    return {page: tuple(name for _, name in sorted(names, key=lambda each: each[0])) for page, names in pages.items()}


def definition(name: PublicName) -> griffe.Object:
    """Return the object itself, as griffe reads it."""
    found = _find(name.target, packages())
    assert found is not None
    return found


def _find(path: str, among: Mapping[str, griffe.Module]) -> griffe.Object | None:
    source, _, inside = path.partition(".")
    try:
        found = among[source][inside] if inside else among[source]
        return found.final_target if isinstance(found, griffe.Alias) else found
    except (KeyError, griffe.AliasResolutionError):
        return None


def modules(module: griffe.Module) -> Iterator[griffe.Module]:
    """Yield the module and every module in it."""
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from modules(inner)


def front_page(package: griffe.Module) -> dict[str, str]:
    """Return the names of ``__init__.pyi`` with the module of each; nothing if the package has no such file."""
    stub = Path(str(package.filepath)).with_suffix(".pyi")
    if not stub.exists():
        return {}
    lists = [node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f"{package.path}.{node.module}" for node in lists for alias in node.names}


def public_names(package: griffe.Module) -> dict[str, PublicName]:
    """Return every public name by the path where it is defined, in the order of the source."""
    found: dict[str, list[str]] = {}
    for name, module in front_page(package).items():
        member = package[f"{module}.{name}".partition(".")[2]]
        found.setdefault(member.final_target.path if member.is_alias else member.path, []).append(package.path)
    for module in modules(package) if not found else ():
        for name in module.exports or ():
            member = module.members[str(name)]
            found.setdefault(member.final_target.path if member.is_alias else member.path, []).append(module.path)
    names = [
        PublicName(target, tuple(sorted(imports, key=lambda path: (path.count("."), path))))
        for target, imports in found.items()
        if not target.rpartition(".")[2].startswith("__")
    ]
    return {name.target: name for name in sorted(names, key=lambda name: _place(package, name.target))}


def _place(package: griffe.Module, target: str) -> tuple[str, int]:
    module = target.rpartition(".")[0]
    return module, package[target.partition(".")[2]].lineno or 0


def page_of(target: str) -> tuple[str, int]:
    """Return the page of the object that is defined at ``target``, and the place of its module on the page."""
    prefixes = [(prefix, name, place) for name, page in PAGES.items() for place, prefix in enumerate(page.modules)]
    inside = (each for each in prefixes if f"{target}.".startswith(f"{each[0]}."))
    _, page, place = max(inside, key=lambda each: len(each[0]))
    return page, place


# ---------------------------------------------------------------- pages


def index_page() -> str:
    """Return the overview: what is public, and the names on each page."""
    lines = [
        "# API reference",
        "",
        "The names on these pages are public; all others are internal. The pages are made from the docstrings, which",
        "`help()` shows too.",
        "",
        "Shapes are in brackets: `[S, ...]` is an array with S rows. If a docstring does not say otherwise, S is the",
        "number of slots (agents) of a behavior, N the number of environments, T the steps of a rollout, B the rows of",
        "a minibatch, K the episodes that ended, and R any number of rows.",
        "",
        "| page | names |",
        "|---|---|",
    ]
    for page, about in PAGES.items():
        lines.append(f"| [{about.title}]({page}.md) | {', '.join(map(_link, reference()[page]))} |")
    return "\n".join([*lines, ""])


def api_page(page: str) -> str:
    """Return the page of this name, with a table of its public names and a directive of mkdocstrings for each."""
    about = PAGES[page]
    names = reference()[page]
    lines = [f"# {about.title}", "", about.text, "", "| name | import from | summary |", "|---|---|---|"]
    for name in names:
        docstring = definition(name).docstring
        summary = re.split(r"(?<=\.)\s(?=\D)|\n\n|:$", docstring.value if docstring else "", maxsplit=1)[0]
        imports = ", ".join(f"`{module}`" for module in name.imports)
        lines.append(f"| {_link(name)} | {imports} | {' '.join(summary.split()).replace('|', chr(92) + '|')} |")
    for name in names:
        lines += ["", f"::: {name.path}"]
    return "\n".join([*lines, ""])


def _link(name: PublicName) -> str:
    return f"[`{name.label}`][{name.path}]"


# ---------------------------------------------------------------- links from other pages

_CODE = re.compile(r"(?<!\[)`(?P<path>[A-Za-z_][\w.]*)(?P<call>\([^`]*\))?`(?!\])")


@cache
def _linkable() -> Mapping[str, PublicName]:
    """Return the public names that code in a sentence means: by path, and by name unless it is an ordinary word."""
    names = [name for page in reference().values() for name in page]
    found = {f"{module}.{name.label}": name for name in names for module in name.imports}
    labels = [name.label for name in names]
    ordinary = {label for label in labels if label.islower() and "_" not in label}
    return found | {name.label: name for name in names if labels.count(name.label) == 1 and name.label not in ordinary}


def linked(text: str) -> str:
    """Link the first mention of each public name in the sentences of a page, such as `AgentBatch`, to its text."""
    seen: set[str] = set()

    def link(match: re.Match[str]) -> str:
        path = match["path"]
        members = ""
        while path and path not in _linkable():
            path, _, member = path.rpartition(".")
            members = f".{member}{members}"
        if not path or path in seen or path == "rlcore":
            return match[0]
        target = documented_path(f"{_linkable()[path].target}{members}")
        if target is None:
            return match[0]
        seen.add(path)
        return f"[{match[0]}][{target}]"

    parts = re.split(r"(^```.*?^```|^#.*?$|\[[^\]]*\]\([^)]*\))", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if index % 2 else _CODE.sub(link, part) for index, part in enumerate(parts))


# ---------------------------------------------------------------- docstrings


class RlcoreDocstrings(griffe.Extension):
    """Roles of docstrings become links, attrs classes get their signature, settings fields their descriptions."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Change the docstrings and classes of a package after it was read."""
        if pkg.name not in SOURCES:
            return
        for documented in list(objects(pkg)):
            if isinstance(documented, griffe.Class):
                _add_init(documented)
                _add_types(documented)
                _describe_settings(documented)
                _list_tests(documented)
            if documented.docstring is not None:
                documented.docstring.value = markdown(documented.docstring.value, documented.path)


def objects(parent: griffe.Object) -> Iterator[griffe.Object]:
    """Yield the object and every object in it that rlcore defines."""
    yield parent
    for member in parent.members.values():
        if isinstance(member, griffe.Object):
            yield from objects(member)


_ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|exc):`(~?)([^`]+)`")


def markdown(text: str, scope: str) -> str:
    """Convert the docstring of ``scope`` to Markdown: roles become links to public names, and code elsewhere."""

    def link(match: re.Match[str]) -> str:
        name = match[2]
        target = documented_path(name, scope)
        label = re.sub(r"^[a-z_.]+\.", "", name) if match[1] or (target and name.startswith("rlcore")) else name
        return f"[`{label}`][{target}]" if target else f"`{label}`"

    text = _ROLE.sub(link, text)
    text = re.sub(r"(?<=\S)::$", ":", text, flags=re.MULTILINE)
    # A star outside of code is the star of a shape such as [R, *shape], unless it begins an item of a list.
    parts = re.split(r"(``.+?``|`[^`]+`|^ *\* )", text, flags=re.MULTILINE)
    return "".join(part if index % 2 else part.replace("*", "\\*") for index, part in enumerate(parts))


def documented_path(name: str, scope: str = "rlcore") -> str | None:
    """Return the path in the reference of what ``name`` means in the docstring of ``scope``; None if it has none."""
    found = meant(name, scope)
    if found is None:
        return None
    if found.path in public_paths():
        return public_paths()[found.path]
    parent = found.parent
    if parent is None or parent.path not in public_paths():
        return None
    owner = public_paths()[parent.path]
    described = (found.has_docstring and not found.is_attribute) or "property" in found.labels
    return f"{owner}.{found.name}" if described else owner


def meant(name: str, scope: str) -> griffe.Object | None:
    """Return the object that ``name`` means in the docstring of ``scope``; None if there is none."""
    first, _, rest = name.partition(".")
    if first in SOURCES:
        return _find(name, plain())
    place = _find(scope, plain())
    assert place is not None
    owner = place if isinstance(place, griffe.Class) else place.parent
    if isinstance(owner, griffe.Class) and first in owner.all_members:
        return _find(f"{owner.path}.{name}", plain())
    try:
        return _find(place.resolve(first) + (f".{rest}" if rest else ""), plain())
    except griffe.NameResolutionError:
        return None


# ---------------------------------------------------------------- attrs


def _attrs_call(expression: Any, *functions: str) -> dict[str, Any] | None:
    """Return the arguments of a call of one of these functions by name, or by position."""
    if not isinstance(expression, griffe.ExprCall) or expression.canonical_path not in functions:
        return None
    values = enumerate(expression.arguments)
    return {v.name if isinstance(v, griffe.ExprKeyword) else str(i): getattr(v, "value", v) for i, v in values}


_SETTING = ("rlcore.setting", "rlcore.settings.fields.setting", "setting")


def _is_attrs(cls: griffe.Class) -> bool:
    return any(str(decorator.callable_path) in ("attrs.frozen", "attrs.define") for decorator in cls.decorators)


def _add_init(cls: griffe.Class) -> None:
    """Give an attrs class the signature of the ``__init__`` that attrs writes, without private parameters."""
    if not _is_attrs(cls) or "__init__" in cls.members:
        return
    parameters = {name: each for base in reversed([cls, *cls.mro()]) if _is_attrs(base) for name, each in _fields(base)}
    ordered = sorted(parameters.values(), key=lambda each: each.kind is griffe.ParameterKind.keyword_only)
    own = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(own, *ordered), parent=cls))


def _fields(cls: griffe.Class) -> Iterator[tuple[str, griffe.Parameter]]:
    all_kw = any("kw_only=True" in str(decorator.value) for decorator in cls.decorators)
    decorators = {str(d.value) for function in cls.functions.values() for d in function.decorators}
    for name, attribute in cls.attributes.items():
        if attribute.annotation is None or name.startswith("_") or "ClassVar" in str(attribute.annotation):
            continue
        if "property" in attribute.labels or "instance-attribute" not in attribute.labels:
            continue
        field = _attrs_call(attribute.value, "attrs.field")
        field = _attrs_call(attribute.value, *_SETTING) if field is None else field
        default: Any = attribute.value
        if field is not None:
            if str(field.get("init")) == "False":
                continue
            default = field.get("default", field.get("0"))
            if f"{name}.default" in decorators or "factory" in field:
                default = "..."
        kw = all_kw or str((field or {}).get("kw_only")) == "True"
        kind = griffe.ParameterKind.keyword_only if kw else griffe.ParameterKind.positional_or_keyword
        yield name, griffe.Parameter(name, annotation=attribute.annotation, kind=kind, default=default)


def _add_types(cls: griffe.Class) -> None:
    """Give attributes without an annotation the type of the argument, or of the constant, that they are set to."""
    init = cls.members.get("__init__")
    parameters = init.parameters if isinstance(init, griffe.Function) else griffe.Parameters()
    for attribute in cls.attributes.values():
        value = str(attribute.value)
        if attribute.annotation is None and value in parameters:
            attribute.annotation = parameters[value].annotation
        elif attribute.annotation is None and re.fullmatch(r"True|False|-?[\d.]+|'.*'", value):
            attribute.annotation = type(ast.literal_eval(value)).__name__


def _describe_settings(cls: griffe.Class) -> None:
    """List the fields of a settings class, with their descriptions, as attributes in its docstring."""
    lines = []
    for name, attribute in cls.attributes.items():
        field = _attrs_call(attribute.value, *_SETTING) or {}
        text = field.get("1", field.get("description"))
        described = re.search(
            r"FieldInfo\(((['\"]).*\2), key=False\)", str(attribute.value)
        )  # a field that no file has
        text = described[1] if described else text
        if text is not None:
            lines.append(f"    {name}: {ast.literal_eval(str(text))}")
    if lines and cls.docstring is not None:
        text, _, attributes = cls.docstring.value.partition("\n\nAttributes:\n")
        cls.docstring.value = "\n".join([text, "", "Attributes:", *filter(None, [attributes]), *lines])


def _list_tests(cls: griffe.Class) -> None:
    """List the tests of a conformance class, by what their names say, in its docstring."""
    tests = [name.removeprefix("test_").replace("_", " ") for name in cls.functions if name.startswith("test_")]
    if tests and cls.docstring is not None:
        text, heading, attributes = cls.docstring.value.partition("\n\nAttributes:")
        lines = [text, "", "The tests:", "", *(f"* {words}" for words in tests)]
        cls.docstring.value = "\n".join(lines) + heading + attributes
