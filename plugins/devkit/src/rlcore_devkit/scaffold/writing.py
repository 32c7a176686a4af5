"""Renders the templates and writes a package: all of it, or nothing."""

from __future__ import annotations

import ast
import datetime
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, pass_context
from jinja2.runtime import Context

from rlcore import CONTRACT, ConfigError, __version__
from rlcore_devkit.scaffold.about import About, toml_text
from rlcore_devkit.scaffold.kinds import KINDS
from rlcore_devkit.scaffold.names import Package, kinds_of

_SUFFIX = ".jinja"
_LINE_LENGTH = 120  # of ruff in the new package
# The least version of each requirement, as in rlcore's own.
_LEAST = {"attrs": "23.2", "click": "8.1.7", "numpy": "1.26", "torch": "2.4"}


def write_plugin(package: Package, parent: Path, about: About | None = None) -> Path:
    """Write ``parent/DISTRIBUTION`` and return it. An error leaves nothing there.

    Raises ConfigError if the directory exists.
    """
    directory = parent / package.distribution
    if directory.exists() or directory.is_symlink():
        raise ConfigError(f"{directory} exists; choose another name, or another place with --dir")
    contents = dict(_contents(package, about or About()))
    parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{package.distribution}-", dir=parent))
    try:
        written = unfinished / package.distribution  # not the temporary directory, which only its owner may read
        for path, text in contents.items():
            target = written / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
        written.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return directory


def _contents(package: Package, about: About) -> Iterator[tuple[PurePosixPath, str]]:
    """The paths of all files and their texts."""
    values = _values(package, about)
    values["own_import"] = lambda module, name: import_from(f"{package.module}.{module}", [name])
    templates = _templates()

    def rendered(name: str, **more: Any) -> str:
        return templates.get_template(f"{name}{_SUFFIX}").render(values, **more)

    code = PurePosixPath("src", package.module)
    sources = {code / "plugin.py": rendered("code/plugin.py")}
    for kind in values["kinds"]:
        for module, template in kind["files"].items():
            sources[code / f"{module}.py"] = rendered(f"code/{template}.py", **kind)
        # All kinds of trainers have the same tests.
        test = "trainer" if kind["what"].module == "trainer" else kind["file"]
        yield PurePosixPath(f"tests/test_{test}.py"), rendered(f"tests/{test}.py", **kind)
        yield PurePosixPath(kind["example"]), rendered("example.yaml", **kind)
    yield from sources.items()
    yield code / "__init__.py", ""
    yield code / "py.typed", ""
    requirements = _requirements(package, sources.values())
    for name in templates.list_templates(filter_func=lambda name: name.startswith("package/")):
        path = PurePosixPath(name.removesuffix(_SUFFIX)).relative_to("package")
        yield path, templates.get_template(name).render(values, requirements=requirements)
    if about.expression is not None:
        yield PurePosixPath("LICENSE"), rendered(f"licenses/{about.license}")


@cache  # whoever writes several packages compiles each template once
def _templates() -> Environment:
    """The templates, without the values of a package."""
    templates = Environment(  # nosec B701 # no HTML is written
        loader=PackageLoader("rlcore_devkit.scaffold"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    templates.globals.update(import_from=import_from, literal=literal, toml=toml_text)
    templates.filters["rendered"] = _rendered
    return templates


@pass_context
def _rendered(context: Context, text: str) -> str:
    """A text of ``kinds.toml``, with the values of the template that it stands in."""
    return _template_of(text).render(context.get_all())


@cache
def _template_of(text: str) -> Template:
    return _templates().from_string(text)


def _values(package: Package, about: About) -> dict[str, Any]:
    """The values of all templates; those of one kind are in its entry of ``kinds``."""
    kinds = kinds_of(package)
    if about.description:
        title = about.description
    elif len(kinds) == 1:
        title = kinds[0].title
    else:
        nouns = listed([kind.noun for kind in kinds])
        title = f"{nouns[0].upper()}{nouns[1:]} for rlcore"
    return {
        "name": package.name,
        "key": package.key,
        "agent": "".join(part.capitalize() for part in package.name.split("-")),
        "distribution": package.distribution,
        "module": package.module,
        "several": package.several,
        "contract": CONTRACT,
        "oldest": _minor(0),
        "next": _minor(1),
        "title": title.rstrip("."),
        "description": title,
        "needs": _quoted(need for kind in kinds for need in kind.needs),
        "about": about,
        "year": datetime.date.today().year,
        "holder": about.author or f"the authors of {package.distribution}",
        "required": "".join(f"{kind.required}\n" for kind in kinds if kind.required),
        "kinds": [_values_of(package, kind, about) for kind in package.kinds],
    }


def _values_of(package: Package, name: str, about: About) -> dict[str, Any]:
    """The values of the templates of one kind."""
    kind = KINDS[name]
    file = name.replace("-", "_")
    files = {module: module for module in kind.modules}  # the template of each module
    files[kind.module] = file
    if kind.settings is not None:
        files[package.settings_module(name)] = "settings"
    summary = kind.summary
    # A company's package has several records, which keep their own summaries.
    if about.description and not package.several and name != "hooks":
        summary = about.description
    return {
        "kind": name,
        "what": kind,
        "file": file,
        "files": files,
        "class_name": package.class_name(name),
        "settings_class": package.settings_class(name),
        "settings_module": package.settings_module(name),
        "example": package.example(name),
        "run_id": package.run_id(name),
        "quoted_needs": _quoted(kind.needs),
        "summary": summary,
    }


def _requirements(package: Package, sources: Iterable[str]) -> list[str]:
    """What the code imports, as requirements; rlcore among them."""
    modules: list[str] = []
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                modules.append(node.module or "")
            elif isinstance(node, ast.Import):
                modules += [alias.name for alias in node.names]
    # The code says what it needs, so a template and the requirements of its package cannot differ.
    packages = {module.partition(".")[0] for module in modules}
    imported = packages - sys.stdlib_module_names - {package.module}
    libraries = sorted(imported & _LEAST.keys())
    members = sorted(name.replace("_", "-") for name in imported - _LEAST.keys())
    requirements = [f"{name}>={_LEAST[name]}" for name in libraries]
    requirements += [f"{name}>={_minor(0)},<{_minor(1)}" for name in members]
    return requirements


def _minor(more: int) -> str:
    major, minor = __version__.split(".")[:2]
    return f"{major}.{int(minor) + more}"


def import_from(module: str, names: Iterable[str]) -> str:
    """Return an import of sorted names, split as ``ruff format`` splits it if it does not fit in a line."""

    def isort_order(name: str) -> tuple[bool, bool, str]:
        """Constants, then classes, then functions."""
        return not name.isupper(), not name[0].isupper(), name

    ordered = sorted(set(names), key=isort_order)
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= _LINE_LENGTH:
        return line
    names_in_lines = [f"    {name}," for name in ordered]
    return "\n".join([f"from {module} import (", *names_in_lines, ")"])


def literal(text: str, indent: int) -> str:
    """Return printable text as ``ruff format`` writes it in Python: long text in several lines, few backslashes."""
    literals = []
    for line in textwrap.wrap(text, 90, drop_whitespace=False, break_on_hyphens=False):
        quote = "'" if line.count('"') > line.count("'") else '"'
        escaped = line.replace("\\", "\\\\").replace(quote, f"\\{quote}")
        literals.append(f"{quote}{escaped}{quote}")
    if len(literals) == 1:
        return literals[0]
    newline = "\n" + " " * indent
    lines = "".join(f"{newline}    {line}" for line in literals)
    return f"({lines}{newline})"


def _quoted(needs: Iterable[str]) -> str:
    """The distributions as words of a shell, in which brackets are quoted."""
    return " ".join(f"'{need}'" if "[" in need else need for need in dict.fromkeys(needs))


def listed(nouns: list[str]) -> str:
    """``"a trainer, a reward and an environment"``"""
    if len(nouns) == 1:
        return nouns[0]
    return f"{', '.join(nouns[:-1])} and {nouns[-1]}"
