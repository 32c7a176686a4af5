"""Fills the templates and writes a package: all of it, or nothing."""

from __future__ import annotations

import datetime
import re
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

from rlcore._version import __version__
from rlcore.errors import ConfigError
from rlcore.plugins.contract import CONTRACT
from rlcore.plugins.scaffold.about import About, toml_text
from rlcore.plugins.scaffold.kinds import KINDS, Kind
from rlcore.plugins.scaffold.names import Package, kinds_of
from rlcore.plugins.scaffold.plugin_module import merged, wrapped

_SUFFIX = ".tmpl"
_PLUGIN = PurePosixPath("src/plugin.py")
# The least version of each requirement, as in rlcore's own.
_LEAST = {"attrs": "23.2", "click": "8.1.7", "numpy": "1.26"}
# By whether there are several kinds.
_EXAMPLES_NEED = ("The example uses other plugins:", "The examples use other plugins:")
_EXAMPLE_ROW = (
    "| `example.yaml` | a configuration that uses the plugin |",
    "| `examples/` | configurations that use the plugin, one for each kind |",
)
_SUMMARY = r"^( *)summary=.*,$"
_TEMPLATES = files("rlcore.plugins") / "templates"


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
    common = _values(package, about)
    for path, text in _templates(_TEMPLATES / "common"):
        yield _placed(path, package), Template(text).substitute(common)
    if about.expression is not None:
        text = (_TEMPLATES / "licenses" / f"{about.license}{_SUFFIX}").read_text(encoding="utf-8")
        yield PurePosixPath("LICENSE"), Template(text).substitute(common)
    hooks = []
    for kind in package.kinds:
        values = {**common, **_values_of(package, kind)}
        for path, text in _templates(_TEMPLATES / kind):
            filled = Template(text).substitute(values)
            if path == _PLUGIN and about.description and not package.several:
                filled = _described(filled, about.description)
            if path.suffix == ".py":
                filled = wrapped(filled)
            if path == _PLUGIN:
                hooks.append(filled)
            else:
                yield _placed(_renamed(path, package, kind), package), filled
    yield _placed(_PLUGIN, package), hooks[0] if len(hooks) == 1 else merged(hooks)


def _templates(folder: Traversable, *above: str) -> Iterator[tuple[PurePosixPath, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _templates(entry, *above, entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield PurePosixPath(*above, entry.name.removesuffix(_SUFFIX)), entry.read_text(encoding="utf-8")


def _renamed(path: PurePosixPath, package: Package, kind: str) -> PurePosixPath:
    if path.name == "example.yaml":
        return PurePosixPath(package.example(kind))
    return path.with_name(f"{package.settings_module(kind)}.py") if path.name == "settings.py" else path


def _placed(path: PurePosixPath, package: Package) -> PurePosixPath:
    return PurePosixPath("src", package.module, *path.parts[1:]) if path.parts[0] == "src" else path


# ------------------------------------------------------------ the values of the templates


def _values_of(package: Package, kind: str) -> dict[str, str]:
    """The values of the templates of one kind."""
    return {
        "settings_class": package.settings_class(kind),
        "settings_module": package.settings_module(kind),
        "class_name": package.class_name(kind),
        "example": package.example(kind),
        "run_id": package.run_id(kind),
        "needs": _quoted(KINDS[kind].needs),
        "required": "" if KINDS[kind].required else "".join(f"{each}\n" for each in _required(package)),
    }


def _values(package: Package, about: About) -> dict[str, str]:
    """The values of all templates."""
    kinds = kinds_of(package)
    title = kinds[0].title if len(kinds) == 1 else f"{listed([kind.noun for kind in kinds])} for rlcore"
    title = about.description or title[0].upper() + title[1:]
    needs = dict.fromkeys(need for kind in kinds for need in kind.needs)
    return {
        "name": package.name,
        "key": package.key,
        "agent": "".join(part.capitalize() for part in package.name.split("-")),
        "distribution": package.distribution,
        "contract": str(CONTRACT),
        "module": package.module,
        "title": title.rstrip("."),
        "description": toml_text(title),
        "needs": _quoted(tuple(needs)),
        "requirements": "".join(f"    {toml_text(each)},\n" for each in _requirements(kinds)),
        "oldest": f"rlcore=={_minor(0)}",
        "license": "" if about.expression is None else f'license = "{about.expression}"\nlicense-files = ["LICENSE"]\n',
        "license_note": _license_note(about),
        "publish": _publish(about),
        "private": '    "Private :: Do Not Upload",\n' if about.license == "proprietary" else "",
        "authors": _authors(about),
        "urls": _urls(about),
        "year": str(datetime.date.today().year),
        "holder": about.author or f"the authors of {package.distribution}",
        "usage": "\n\n".join([*_needed(package), *(_usage(package, kind) for kind in package.kinds)]),
        "examples": "\n".join(_commands(package, kind) for kind in package.kinds),
        "modules": "".join(_module_rows(package, kind) for kind in package.kinds),
        "contracts": "".join(_contract_row(package, kind) for kind in package.kinds),
        "first_example": package.example(package.kinds[0]),
        "examples_need": _EXAMPLES_NEED[package.several],
        "example_row": _EXAMPLE_ROW[package.several],
    }


def _minor(more: int) -> str:
    major, minor = __version__.split(".")[:2]
    return f"{major}.{int(minor) + more}"


def _requirements(kinds: list[Kind]) -> list[str]:
    bounds = f">={_minor(0)},<{_minor(1)}"
    imports = sorted({name for kind in kinds for name in kind.imports})
    torch = "[torch]" if any(kind.torch for kind in kinds) else ""
    ours = [f"rlcore{torch}", *dict.fromkeys(name for kind in kinds for name in kind.builds_on)]
    return [*(f"{name}>={_LEAST[name]}" for name in imports), *(f"{name}{bounds}" for name in ours)]


def _authors(about: About) -> str:
    fields = {"name": about.author, "email": about.email}
    given = ", ".join(f"{key} = {toml_text(text)}" for key, text in fields.items() if text)
    return f"authors = [{{ {given} }}]\n" if given else ""


def _urls(about: About) -> str:
    lines = [f"{toml_text(label)} = {toml_text(address)}\n" for label, address in about.urls.items()]
    return "\n[project.urls]\n" + "".join(lines) if lines else ""


def _license_note(about: About) -> str:
    notes: Mapping[str, str] = {
        "none": "None yet. Without a license, others have no right to use the package.",
        "proprietary": "Proprietary, see [LICENSE](LICENSE).",
    }
    return notes.get(about.license, f"{about.license}, see [LICENSE](LICENSE).")


def _publish(about: About) -> str:
    notes = {
        "none": "\nBefore you publish it, choose a license: put its text into `LICENSE`, and its SPDX identifier into\n"
        "`pyproject.toml`, as `license`.\n",
        "proprietary": "\nThe classifier `Private :: Do Not Upload` keeps it off PyPI.\n"
        "`twine upload --repository-url ADDRESS dist/*` uploads it to an index of your own.\n",
    }
    return notes.get(about.license, "\nThen `twine upload dist/*` publishes it.\n")


def _described(hooks: str, description: str) -> str:
    """The hooks with ``description`` as the summary of their record; several records keep their own."""
    found = re.findall(_SUMMARY, hooks, re.MULTILINE)
    if len(found) != 1:
        return hooks
    indent = found[0]
    lines = [_literal(line) for line in textwrap.wrap(description, 90, drop_whitespace=False, break_on_hyphens=False)]
    text = lines[0] if len(lines) == 1 else "\n".join(["(", *(f"{indent}    {line}" for line in lines), f"{indent})"])
    return re.sub(_SUMMARY, lambda _: f"{indent}summary={text},", hooks, flags=re.MULTILINE)


def _literal(text: str) -> str:
    """Printable text as ``ruff format`` writes it in Python: with the quotes that need fewer backslashes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    escaped = text.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    return f"{quote}{escaped}{quote}"


def _required(package: Package) -> list[str]:
    """The blocks that every run needs while the package is installed."""
    return [KINDS[kind].required.format(key=package.key) for kind in package.kinds if KINDS[kind].required]


def _needed(package: Package) -> list[str]:
    """What the README says of these blocks."""
    blocks = "\n".join(_required(package))
    return [f"While the package is installed, every run needs this block:\n\n```yaml\n{blocks}\n```"] if blocks else []


def _usage(package: Package, kind: str) -> str:
    commands = [each.format(name=package.name, run_id=package.run_id(kind)) for each in KINDS[kind].commands]
    block = KINDS[kind].usage.format(name=package.name)
    parts = [f"```yaml\n{block}\n```"] if block else []
    parts += ["```sh\n" + "\n".join(commands) + "\n```"] if commands and not block else []
    return "\n\n".join(parts)


def _commands(package: Package, kind: str) -> str:
    lines = [f"rlcore run {package.example(kind)}"]
    lines += [each.format(name=package.name, run_id=package.run_id(kind)) for each in KINDS[kind].commands]
    return "\n".join(lines)


def _module_rows(package: Package, kind: str) -> str:
    rows = []
    if KINDS[kind].settings:
        of = f" of the {KINDS[kind].noun.partition(' ')[2]}" if package.several else ""
        text = f"the settings{of}; errors, the JSON schema and `rlcore plugins info` show their descriptions"
        rows.append((package.settings_module(kind), text))
    rows += KINDS[kind].modules.items()
    return "".join(f"| `src/{package.module}/{module}.py` | {text} |\n" for module, text in rows)


def _contract_row(package: Package, kind: str) -> str:
    what = KINDS[kind]
    conformance = what.conformance if "." in what.conformance else f"rlcore_devkit.{what.conformance}"
    return f"| `{what.module}.py` | `{what.contract}` | `{conformance}` | `{what.page}` |\n"


def _quoted(needs: tuple[str, ...]) -> str:
    """The distributions as words of a shell, in which brackets are quoted."""
    return " ".join(f"'{each}'" if "[" in each else each for each in needs)


def listed(nouns: list[str]) -> str:
    """``"a trainer, a reward and an environment"``"""
    return nouns[0] if len(nouns) == 1 else f"{', '.join(nouns[:-1])} and {nouns[-1]}"
