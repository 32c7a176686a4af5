"""The distributions of this repository stay alike, and are listed wherever they must be."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from workspace import CORE, MEMBERS, PLUGINS, ROOT, Member, pyproject

from rlcore import CONTRACT
from rlcore.plugins.discover import declared

every_member = pytest.mark.parametrize("member", MEMBERS, ids=str)
every_loaded = pytest.mark.parametrize("member", [CORE, *PLUGINS], ids=str)
every_plugin = pytest.mark.parametrize("member", PLUGINS, ids=str)

# Plugins that `rlcore[all]` and `.[all]` leave out: what they require is hundreds of megabytes that few users want.
LARGE = {"envpool", "jax"}

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


def test_plugins_and_examples_declare_the_contract_of_this_core() -> None:
    found = [member.directory for member in PLUGINS] + [each.parent for each in ROOT.glob("examples/*/pyproject.toml")]
    assert len(found) > 20
    wrong = [path for path in found if declared(" ".join(pyproject(path)["project"]["keywords"])) != (CONTRACT,)]
    assert wrong == []


@every_plugin
def test_the_core_has_an_extra_for_every_plugin(member: Member) -> None:
    extras = CORE.project["optional-dependencies"]
    for plugin in member.plugins.keys() & {member.plugin, *member.extras_of_plugins}:  # others come with the member
        (requirement,) = (Requirement(text) for text in extras[plugin])
        assert requirement.name == member.name and requirement.specifier.contains(member.project["version"])
        assert {plugin} & {*member.extras_of_plugins} <= requirement.extras
        assert (plugin in Requirement(extras["all"][0]).extras) == (plugin not in LARGE)


def test_the_standard_extra_installs_what_the_root_installs() -> None:
    (standard,) = (Requirement(text) for text in CORE.project["optional-dependencies"]["standard"])
    root = {Requirement(text).name for text in pyproject(ROOT)["project"]["dependencies"]}
    assert {f"rlcore-{name}" for name in standard.extras} | {"rlcore"} == root


# ------------------------------------------------------------ what members import


def imported_modules(path: Path) -> Iterator[str]:
    """Top-level names of all modules a file imports, inside functions too; not those only a type checker sees."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@every_member
def test_a_member_imports_only_what_it_declares(member: Member) -> None:
    declared = set()
    for requirement in map(Requirement, member.requirements):
        declared.add(canonicalize_name(requirement.name))
    undeclared = set()
    for path in member.package.rglob("*.py"):
        allowed = declared | {member.name}
        for module in imported_modules(path):
            distribution = canonicalize_name(DISTRIBUTIONS.get(module, module))
            if module not in sys.stdlib_module_names and distribution not in allowed:
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


def test_the_root_installs_every_member() -> None:
    root = pyproject(ROOT)["project"]
    texts = [*root["dependencies"], *(text for extra in root["optional-dependencies"].values() for text in extra)]
    listed = {Requirement(name).name: path for name, path in (text.split(" @ {root:uri}/") for text in texts)}
    assert listed == {each.name: each.path for each in MEMBERS}
    assert "Private :: Do Not Upload" in root["classifiers"]


def test_development_installs_every_member_editable() -> None:
    editable = {line.removeprefix("-e ./").partition("[")[0] for line in lines("requirements-dev.txt") if "-e" in line}
    assert editable == {member.path for member in MEMBERS}


def test_the_tools_know_every_member() -> None:
    tools = pyproject(ROOT)["tool"]
    modules = {member.module for member in MEMBERS}
    assert set(tools["ruff"]["lint"]["isort"]["known-first-party"]) == modules
    assert set(tools["mypy"]["mypy_path"]) == {f"{member.path}/src" for member in MEMBERS}
    assert set(tools["importlinter"]["root_packages"]) == modules
    contracts = {contract["name"]: contract for contract in tools["importlinter"]["contracts"]}
    plugins = {member.module for member in PLUGINS}
    assert set(contracts["the core imports no plugin"]["forbidden_modules"]) == modules - {CORE.module}
    alone = contracts["plugins that nothing builds on do not import one another"]["modules"]
    assert set(alone) == plugins - {
        "rlcore_curriculum",
        "rlcore_devkit",
        "rlcore_torch",
        "rlcore_gymnasium",
        "rlcore_study",
        "rlcore_unity",
        "rlcore_workers",
    }


def test_every_direct_dependency_is_pinned_in_the_constraints() -> None:
    pins = {}
    for line in lines("constraints.txt"):
        (pin,) = (requirement := Requirement(line)).specifier
        assert pin.operator == ("<=" if requirement.name in MANY_VERSIONS else "==") and "+" not in pin.version, line
        pins[canonicalize_name(requirement.name)] = requirement
    ours = {member.name for member in MEMBERS}
    needed = [Requirement(text) for member in MEMBERS for text in member.requirements]
    needed += [Requirement(line) for line in lines("requirements-dev.txt") if not line.startswith("-")]
    needed += map(Requirement, pyproject(ROOT)["build-system"]["requires"])
    assert {canonicalize_name(each.name) for each in needed} - ours <= set(pins)
    for each in needed:
        if each.name not in {*ours, *MANY_VERSIONS}:
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
