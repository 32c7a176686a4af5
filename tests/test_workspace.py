"""The distributions of this repository stay alike, and are listed wherever they must be."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from workspace import CORE, MEMBERS, PLUGINS, ROOT, Member, pyproject, required

from rlcore import CONTRACT
from rlcore.plugins.contract import declared

every_member = pytest.mark.parametrize("member", MEMBERS, ids=str)
every_loaded = pytest.mark.parametrize("member", [CORE, *PLUGINS], ids=str)
every_plugin = pytest.mark.parametrize("member", PLUGINS, ids=str)
NAMES = {member.name for member in MEMBERS}

# Modules whose distribution has another name.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "google": "protobuf",
    "grpc": "grpcio",
    "mlflow": "mlflow-skinny",
    "mujoco_playground": "playground",
    "pyspiel": "open-spiel",
    "yaml": "pyyaml",
}


# Packages of which extras need different versions: the newest one that packages of an extra were seen to work with.
MANY_VERSIONS = {"mujoco": {"mujoco": "4.0.0", "robotics": "3.10.0", "dm-control": "3.17.0"}}
RELEASES_OF_MUJOCO = ("3.10.0", "3.11.0", "3.17.0", "4.0.0")


def lines(name: str) -> list[str]:
    """A requirements file without comments."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line for line in (line.partition("#")[0].strip() for line in text.splitlines()) if line]


# ------------------------------------------------------------ every member


@every_member
@pytest.mark.parametrize("key", ["version", "license", "requires-python"])
def test_members_share(member: Member, key: str) -> None:
    assert member.project[key] == CORE.project[key]


@every_loaded
def test_a_member_announces_plugins_of_its_own(member: Member) -> None:
    """One may have the name of the distribution; each other one is a package in it with the plugin's name."""
    plugins = dict(member.plugins)
    module = "rlcore.plugins.core" if member is CORE else f"{member.module}.plugin"
    assert plugins and plugins.pop(member.plugin, module) == module
    assert plugins == {name: f"{member.module}.{name.replace('-', '_')}.plugin" for name in plugins}


@every_member
def test_a_member_has_what_its_users_read(member: Member) -> None:
    assert member.name in (member.directory / "README.md").read_text(encoding="utf-8")
    changelog = (member.directory / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(member.project['version'])}\b", changelog, re.MULTILINE)
    assert (member.package / "py.typed").is_file()
    # A wheel must carry the license it is under.
    assert (member.directory / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@every_plugin
def test_a_plugin_bounds_the_rlcore_it_was_made_for(member: Member) -> None:
    bounds = [Requirement(text).specifier for text in member.requirements if Requirement(text).name == "rlcore"]
    current = Version(CORE.project["version"])
    following = f"{current.major}.{current.minor + 1}.0"  # rlcore breaks its interfaces in minor releases
    assert bounds
    for specifier in bounds:
        assert specifier.contains(current) and not specifier.contains(following)


def required_members(member: Member) -> set[str]:
    """The members that it requires, but for extras, which may require any plugin."""
    return {Requirement(text).name for text in member.project["dependencies"]} & NAMES


def test_the_core_requires_no_plugin_but_for_an_extra() -> None:
    needed = {Requirement(text).name for text in CORE.project["dependencies"]}
    assert needed & (NAMES | {"torch"}) == set()


@every_plugin
def test_what_a_plugin_requires_requires_no_plugin(member: Member) -> None:
    others = [other for other in MEMBERS if other.name in required_members(member) and other is not CORE]
    assert [other.name for other in others if required_members(other) - {CORE.name}] == []


def test_plugins_and_examples_declare_the_contract_of_this_core() -> None:
    found = [member.directory for member in PLUGINS] + [each.parent for each in ROOT.glob("examples/*/pyproject.toml")]
    assert len(found) > 20
    wrong = [path for path in found if declared(" ".join(pyproject(path)["project"]["keywords"])) != (CONTRACT,)]
    assert wrong == []


def test_the_standard_extra_installs_what_the_root_installs() -> None:
    standard = {Requirement(text).name for text in CORE.project["optional-dependencies"]["standard"]}
    root = {Requirement(text).name for text in pyproject(ROOT)["project"]["dependencies"]}
    assert standard | {CORE.name} == root


# ------------------------------------------------------------ what members import


def imported_modules(path: Path) -> Iterator[str]:
    """Top-level names of all modules a file imports, inside functions and for annotations too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@every_member
def test_a_member_imports_only_what_it_declares(member: Member) -> None:
    requirements = CORE.project["dependencies"] if member is CORE else member.requirements
    # rlcore requires pluggy, whose class of managers annotates rlcore_addhooks.
    declared = {canonicalize_name(Requirement(text).name) for text in requirements} | {member.name, "pluggy"}
    undeclared = set()
    for path in member.package.rglob("*.py"):
        for module in imported_modules(path):
            distribution = canonicalize_name(DISTRIBUTIONS.get(module, module))
            if module not in sys.stdlib_module_names and distribution not in declared:
                undeclared.add((path.relative_to(ROOT).as_posix(), module))
    assert undeclared == set()


PUBLIC = {
    module: frozenset(importlib.import_module(module).__all__) | {"__version__"}
    for module in ("rlcore", "rlcore_torch")
}


def hidden_names(code: str, own: str) -> set[str]:
    """The imports from the core, or from rlcore_torch, of what is not in its list of names; ``own`` is the importer."""
    hidden = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            hidden |= {
                alias.name for alias in node.names if alias.name.partition(".")[0] in PUBLIC and "." in alias.name
            }
        elif isinstance(node, ast.ImportFrom) and not node.level:
            package = str(node.module).partition(".")[0]
            if package in PUBLIC and package != own:
                public = PUBLIC[package] if node.module == package else set()
                hidden |= {f"{node.module}.{alias.name}" for alias in node.names if alias.name not in public}
    return hidden


def shown_to_users() -> list[Path]:
    """Code that others copy or learn from: our plugins, examples and pages."""
    code = [path for member in PLUGINS for path in member.package.rglob("*.py")]
    examples = [*(ROOT / "examples").rglob("*.py")]
    return sorted([*code, *examples, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])


def test_what_others_learn_from_imports_public_names_only() -> None:
    hidden = set()
    for path in shown_to_users():
        code = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            code = "\n".join(re.findall(r"^```python[^\n]*\n(.*?)^```", code, re.DOTALL | re.MULTILINE))
        own = next((member.module for member in PLUGINS if path.is_relative_to(member.package)), "")
        hidden |= {f"{path.relative_to(ROOT)}: {name}" for name in hidden_names(code, own)}
    assert hidden == set()


# ------------------------------------------------------------ the lists of members


def test_the_root_installs_every_member(tmp_path: Path) -> None:
    """As pip reads its metadata: the extra `all` is made by hatch_build.py."""
    left_out = pyproject(ROOT)["tool"]["hatch"]["metadata"]["hooks"]["custom"]["left-out"]
    script = "import sys; from hatchling.build import prepare_metadata_for_build_wheel as f; print(f(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    about = message_from_string((tmp_path / done.stdout.strip() / "METADATA").read_text(encoding="utf-8"))
    needed = [Requirement(text) for text in about.get_all("Requires-Dist", [])]
    places = {each.name: each.url for each in needed if not each.marker or each.marker.evaluate({"extra": "all"})}
    assert places == {each.name: each.directory.as_uri() for each in MEMBERS if each.name not in left_out}
    assert {each.name for each in needed} == NAMES
    # The pip of Python 3.11 does not find the folder of NAME[EXTRA] for a member that requires NAME.
    assert {each.name for each in needed if not each.extras} >= places.keys()
    assert "Private :: Do Not Upload" in about.get_all("Classifier", [])


def test_development_installs_every_member_editable() -> None:
    editable = {line.removeprefix("-e ./").partition("[")[0] for line in lines("requirements-dev.txt") if "-e" in line}
    assert editable == {member.path for member in MEMBERS}


def test_a_member_with_extras_is_installed_before_those_that_need_it() -> None:
    """The pip of Python 3.11 knows ``-e folder[extra]`` as the distribution only once it has come to that line."""
    listed = [line.removeprefix("-e ./").partition("[") for line in lines("requirements-dev.txt") if "-e" in line]
    by_path = {member.path: member for member in MEMBERS}
    needed: set[str] = set()
    for path, extras, _ in listed:
        member = by_path[path]
        assert not extras or member.name not in needed, f"{path} must come before the members that require it"
        needed |= required(member.name)


def test_every_direct_dependency_is_pinned_in_the_constraints() -> None:
    pins = {}
    for line in lines("constraints.txt"):
        (pin,) = (requirement := Requirement(line)).specifier
        limited = requirement.name in {*MANY_VERSIONS, "pandas"}  # tianshou, of the benchmarks, needs pandas 2
        assert pin.operator == ("<=" if limited else "==") and "+" not in pin.version, line
        pins[canonicalize_name(requirement.name)] = requirement
    needed = [Requirement(text) for member in MEMBERS for text in member.requirements]
    needed += [Requirement(line) for line in lines("requirements-dev.txt") if not line.startswith("-")]
    needed += map(Requirement, pyproject(ROOT)["build-system"]["requires"])
    assert {canonicalize_name(each.name) for each in needed} - NAMES <= set(pins)
    for each in needed:
        if each.name not in {*NAMES, *MANY_VERSIONS}:
            (pin,) = pins[canonicalize_name(each.name)].specifier
            assert each.specifier.contains(pin.version), f"{each} excludes the version it is tested with"


@pytest.mark.parametrize(("extra", "works"), MANY_VERSIONS["mujoco"].items())
def test_an_extra_gets_the_mujoco_that_its_packages_work_with(extra: str, works: str) -> None:
    """``pip`` takes the newest release that the constraints and the extra allow."""
    (constraint,) = [each for each in map(Requirement, lines("constraints.txt")) if each.name == "mujoco"]
    (gymnasium,) = [member for member in PLUGINS if member.plugin == "gymnasium"]
    needs = [Requirement(text) for text in gymnasium.project["optional-dependencies"][extra]]
    limits = [each.specifier for each in (constraint, *needs) if each.name == "mujoco"]
    allowed = [each for each in RELEASES_OF_MUJOCO if all(limit.contains(each) for limit in limits)]
    assert allowed[-1] == works
