"""The list of plugins for rlcore, made from what packages say about themselves; no package is installed or imported.

    python docs/plugin_list.py dist/                               the wheels in a directory
    python docs/plugin_list.py http://localhost:8080/simple/       all packages of a small index
    python docs/plugin_list.py ADDRESS rlcore-ppo acme-rl          these packages of an index

A package is in the list if ``rlcore-plugin`` is among the keywords of its metadata. A wheel also needs an entry point
in the group ``rlcore``, whose module shows what the plugin provides. The index is read as PEP 503 describes; with PEP
658, only the metadata is downloaded.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import email
import html
import re
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.message import Message
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from urllib.parse import urljoin, urlparse

import attrs
import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from rlcore import HOOKS

ENTRY_POINT_GROUP = "rlcore"
TRIED = "tools/plugins.yaml"
KEYWORD = "rlcore-plugin"
LARGEST = 50 * 2**20  # bytes of a file from an index
SHOWN_LINKS = ("homepage", "documentation", "source", "repository", "changelog", "issues")


@attrs.frozen
class ListedPlugin:
    """A row of the list.

    Attributes:
        name: The distribution.
        version: Its version.
        summary: One sentence.
        keywords: Keywords of the metadata.
        bounds: The versions of rlcore that it was made for, such as ``>=0.1,<0.2``; empty if it names none.
        provides: Kinds of objects, such as ``trainers``; None if only the metadata is known.
        links: Addresses by name.
    """

    name: str
    version: str
    summary: str
    keywords: tuple[str, ...]
    bounds: str
    provides: tuple[str, ...] | None
    links: Mapping[str, str]


# ---------------------------------------------------------------- what a package says


def from_metadata(metadata: Message, sources: Iterable[str] | None) -> ListedPlugin:
    """Return the row of a package with this core metadata; ``sources`` are the modules of its entry points."""
    keywords = [each for each in re.split(r"[,\s]+", metadata.get("Keywords", "")) if each]
    links = dict(each.split(",", 1) for each in metadata.get_all("Project-URL", []) if "," in each)
    if metadata.get("Home-page"):
        links.setdefault("Homepage", metadata["Home-page"])
    return ListedPlugin(
        name=metadata.get("Name", ""),
        version=metadata.get("Version", ""),
        summary=" ".join(metadata.get("Summary", "").split()),
        keywords=tuple(keywords),
        bounds=bounds(metadata.get_all("Requires-Dist", [])),
        provides=None if sources is None else provides(sources),
        links={name.strip(): address.strip() for name, address in links.items()},
    )


def from_project(directory: Path) -> ListedPlugin:
    """Return the row of a member of this repository, from its pyproject.toml."""
    project = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    modules = project.get("entry-points", {}).get(ENTRY_POINT_GROUP, {}).values()  # a library has none
    sources = [(directory / "src" / f"{each.replace('.', '/')}.py").read_text(encoding="utf-8") for each in modules]
    return ListedPlugin(
        project["name"],
        project["version"],
        project["description"],
        tuple(project.get("keywords", ())),
        bounds(project["dependencies"]),
        provides(sources),
        project.get("urls", {}),
    )


def bounds(requirements: Iterable[str]) -> str:
    """Return the bounds on rlcore among requirements, the lower one first."""
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) == "rlcore" and requirement.marker is None:
            return ",".join(sorted(map(str, requirement.specifier), reverse=True))
    return ""


def provides(sources: Iterable[str]) -> tuple[str, ...]:
    """Return what the modules with hook implementations provide, told from the names of their functions."""
    found: dict[str, None] = {}
    kinds = {hook.name: hook.kind for hook in HOOKS}
    for source in sources:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("rlcore_") and is_hook(node):
                registry = kinds.get(node.name, "registry") == "registry"
                found[node.name.removeprefix("rlcore_").replace("_", " ") if registry else "hooks"] = None
    return tuple(sorted(found))


def is_hook(function: ast.FunctionDef) -> bool:
    """Return whether a function is marked with ``@hookimpl``."""
    return any("hookimpl" in ast.unparse(decorator) for decorator in function.decorator_list)


# ---------------------------------------------------------------- wheels


def from_wheel(content: bytes | Path) -> ListedPlugin:
    """Return the row of a wheel. Raises ValueError if it is not a wheel of a plugin."""
    try:
        with zipfile.ZipFile(BytesIO(content) if isinstance(content, bytes) else content) as wheel:
            names = wheel.namelist()
            found = [name.partition("/")[0] for name in names if name.endswith(".dist-info/METADATA")]
            if len(found) != 1:
                raise ValueError("it is not a wheel: it has no metadata")
            (information,) = found
            metadata = email.message_from_bytes(wheel.read(f"{information}/METADATA"))
            declared = configparser.ConfigParser(delimiters=("=",), interpolation=None)
            if f"{information}/entry_points.txt" in names:
                declared.read_string(wheel.read(f"{information}/entry_points.txt").decode())
            if not declared.has_section(ENTRY_POINT_GROUP):
                raise ValueError(f"it has no entry point in the group {ENTRY_POINT_GROUP!r}")
            paths = [
                value.partition(":")[0].strip().replace(".", "/") for _, value in declared[ENTRY_POINT_GROUP].items()
            ]
            files = [name for path in paths for name in (f"{path}.py", f"{path}/__init__.py") if name in names]
            return from_metadata(metadata, [wheel.read(name).decode(errors="replace") for name in files])
    except (zipfile.BadZipFile, KeyError, configparser.Error) as error:
        raise ValueError(f"it is not a wheel: {error}") from error


def from_directory(directory: Path) -> Iterator[ListedPlugin]:
    """Yield the plugins among the newest wheels of a directory; others are reported on standard error."""
    newest: dict[str, tuple[Version, Path]] = {}
    for path in sorted(directory.rglob("*.whl")):
        name, version, *_ = parse_wheel_filename(path.name)
        if name not in newest or newest[name][0] < version:
            newest[name] = version, path
    for _, path in newest.values():
        yield from accepted(path.name, path)


def accepted(label: str, content: bytes | Path) -> Iterator[ListedPlugin]:
    """Yield the row of a wheel if it is that of a plugin; otherwise say why not, on standard error."""
    try:
        plugin = from_wheel(content)
    except ValueError as error:
        print(f"{label}: left out: {error}", file=sys.stderr)
        return
    if KEYWORD in plugin.keywords:
        yield plugin
    else:
        print(f"{label}: left out: its keywords lack {KEYWORD}", file=sys.stderr)


# ---------------------------------------------------------------- an index


class Links(HTMLParser):
    """The links of a page of an index, with their attributes."""

    def __init__(self, address: str, text: str) -> None:
        super().__init__()
        self.address = address
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "a" and given.get("href"):
            self.found.append((urljoin(self.address, given["href"]), given))


def fetch(address: str) -> bytes:
    """Return the content at an address. Raises ValueError for large files, and unless it begins with http or https."""
    if urlparse(address).scheme not in ("http", "https"):
        raise ValueError(f"{address}: not an address with http or https")
    request = urllib.request.Request(address, headers={"Accept": "text/html, */*;q=0.1"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        content: bytes = answer.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{address}: has more than {LARGEST} bytes")
    return content


def from_index(index: str, names: Sequence[str]) -> Iterator[ListedPlugin]:
    """Yield the plugins among the packages ``names`` of an index, all packages if there are none."""
    index = index.rstrip("/") + "/"
    pages = [urljoin(index, f"{canonicalize_name(name)}/") for name in names]
    for page in pages or [address for address, _ in Links(index, fetch(index).decode()).found]:
        wheels = {}
        for address, attributes in Links(page, fetch(page).decode()).found:
            try:
                _, version, *_ = parse_wheel_filename(Path(urlparse(address).path).name)
            except InvalidWheelFilename:
                continue
            if "data-yanked" not in attributes:
                wheels[version] = address.partition("#")[0], attributes
        if not wheels:
            print(f"{page}: left out: there is no wheel", file=sys.stderr)
            continue
        address, attributes = wheels[max(wheels)]
        if attributes.keys() & {"data-core-metadata", "data-dist-info-metadata"}:
            plugin = from_metadata(email.message_from_bytes(fetch(f"{address}.metadata")), None)
            if KEYWORD in plugin.keywords:
                yield plugin
        else:
            yield from accepted(address, fetch(address))


# ---------------------------------------------------------------- the page


def table(plugins: Iterable[ListedPlugin]) -> str:
    """Return the plugins as a Markdown table, sorted by name."""
    rows = ["| package | version | what it is | provides | rlcore | links |", "|---|---|---|---|---|---|"]
    for plugin in sorted(plugins, key=lambda each: canonicalize_name(each.name)):
        chosen = {name.lower(): address for name, address in plugin.links.items() if is_address(address)}
        links = ", ".join(f"[{name}]({chosen[name]})" for name in SHOWN_LINKS if name in chosen)
        found = "" if plugin.provides is None else ", ".join(plugin.provides)
        cells = (
            code(plugin.name),
            plain(plugin.version),
            plain(plugin.summary),
            plain(found),
            code(plugin.bounds),
            links,
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def tried(root: Path) -> str:
    """Return the packages of ``tools/plugins.yaml``, which ``tools/plugin_matrix.py`` tries, as a Markdown table."""
    rows = ["| package | what it is | provides | where |", "|---|---|---|---|"]
    for entry in yaml.safe_load((root / TRIED).read_text(encoding="utf-8")):
        place = entry["package"]
        if (root / place).is_dir():
            plugin = from_project(root / place)
            cells = (code(plugin.name), plain(plugin.summary), ", ".join(plugin.provides or ()), code(place))
        else:
            about = plain(entry["about"])
            cells = (code(re.split(r"[ @<>=!~\[]", place)[0]), about, "", link(place))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def link(place: str) -> str:
    """Return an address in what pip installs, which may begin with ``git+``, as a link, and anything else as code."""
    address = place.rpartition(" ")[2].removeprefix("git+")
    return f"<{address}>" if is_address(address) else code(place)


def plain(text: str) -> str:
    """Return text of a stranger so that Markdown shows its characters."""
    shown = html.escape("".join(each if each.isprintable() else " " for each in text), quote=False)
    return re.sub(r"([\\`*_{}\[\]()#|~])", r"\\\1", shown)


def code(text: str) -> str:
    """Return a name or bounds as code; empty for other text."""
    return f"`{text}`" if re.fullmatch(r"[A-Za-z0-9._/<>=!~,-]+", text) else plain(text)


def is_address(text: str) -> bool:
    """Return whether a link of a stranger may be shown."""
    return bool(re.fullmatch(r"https?://[A-Za-z0-9./?=&%+~:@,_#-]+", text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", help="a directory with wheels, or the address of a simple index")
    parser.add_argument("names", nargs="*", help="packages of the index")
    given = parser.parse_args(arguments)
    directory = Path(given.source)
    found = from_directory(directory) if directory.is_dir() else from_index(given.source, given.names)
    try:
        print(table(found), end="")
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
