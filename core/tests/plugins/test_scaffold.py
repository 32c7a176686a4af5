"""A plugin that ``rlcore plugins new`` writes works: its own tests are run."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rlcore.errors import ConfigError
from rlcore.plugins.scaffold import KINDS, write_plugin
from rlcore.testing.fixtures import InstallPlugin, RunRlcore


def run_its_tests(directory: Path, *site: Path) -> None:
    path = os.pathsep.join([*map(str, site), *filter(None, sys.path)])
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert " passed" in tests.stdout


# A sampler is made with rlcore-curriculum, which whoever has the core alone lacks.
TESTABLE = [
    pytest.param(
        kind, marks=pytest.mark.skipif(find_spec("rlcore_curriculum") is None, reason="needs rlcore-curriculum")
    )
    if KINDS[kind].builds_on
    else kind
    for kind in KINDS
]


@pytest.mark.parametrize("kind", TESTABLE)
def test_a_new_plugin_passes_its_own_tests(tmp_path: Path, kind: str) -> None:
    directory = write_plugin("fresh-thing", kind, tmp_path)
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    site = tmp_path / "site"  # what pip would write; the next test asks pip itself
    information = site / "rlcore_fresh_thing-0.1.0.dist-info"
    information.mkdir(parents=True)
    entry_points = "\n".join(f"{name} = {value}" for name, value in project["entry-points"]["rlcore"].items())
    (information / "entry_points.txt").write_text(f"[rlcore]\n{entry_points}\n")
    requires = "\n".join(f"Requires-Dist: {requirement}" for requirement in project["dependencies"])
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n{requires}\n"
    )
    run_its_tests(directory, site, directory / "src")


# tests/packaging does the same for a trainer and an environment, in a virtual environment.
@pytest.mark.packaging
@pytest.mark.parametrize(
    "kind", [kind if kind == "stats" else pytest.param(kind, marks=pytest.mark.deep) for kind in KINDS]
)
def test_a_new_plugin_can_be_installed(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    directory = write_plugin("fresh-thing", kind, tmp_path)
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    if find_spec("hatchling") and not request.config.getoption("--deep", default=False):
        command.append("--no-build-isolation")  # pip would download what it names for the build, for over a minute
    subprocess.run([*command, str(directory)], check=True)
    run_its_tests(directory, site)


def test_the_command_says_what_to_do_next(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    result = run_rlcore("plugins", "new", "rlcore-fresh", "--kind", "reward", "--dir", tmp_path)
    assert result.exit_code == 0
    assert f"cd {tmp_path / 'rlcore-fresh'}" in result.stdout
    assert "rlcore run example.yaml" in result.stdout
    assert "needs rlcore-gymnasium and rlcore-ppo" in result.stdout
    assert {path.name for path in (tmp_path / "rlcore-fresh").iterdir()} == {
        ".gitignore",
        "CHANGELOG.md",
        "README.md",
        "example.yaml",
        "pyproject.toml",
        "src",
        "tests",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_template_is_left_in_the_files(tmp_path: Path, kind: str) -> None:
    directory = write_plugin("fresh-thing", kind, tmp_path)
    for path in directory.rglob("*"):
        assert path.suffix != ".tmpl"
        if path.is_file():
            text = path.read_text()
            assert "${" not in text
            assert path.suffix != ".py" or max(map(len, text.splitlines()), default=0) <= 120


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_depends_on_what_its_code_imports(tmp_path: Path, kind: str) -> None:
    directory = write_plugin("fresh-thing", kind, tmp_path)
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    required = {Requirement(text).name.replace("-", "_") for text in project["dependencies"]}
    trees = [ast.parse(path.read_text()) for path in (directory / "src").rglob("*.py")]
    modules = {node.module or "" for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported = {module.partition(".")[0] for module in modules if module.startswith("rlcore")}
    assert imported - {"rlcore_fresh_thing"} == {name for name in required if name.startswith("rlcore")}


@pytest.mark.parametrize(
    ("name", "kind", "file", "expected"),
    [
        ("my-trainer", "trainer", "trainer", "MyTrainer"),
        ("fast", "trainer", "trainer", "FastTrainer"),
        ("trainer", "trainer", "trainer", "Trainer"),
        ("my-reward", "reward", "reward", "MyReward"),
        ("my-stats", "stats", "writer", "MyStatsWriter"),
        ("my-env", "env", "environment", "MyEnvironment"),
        ("maze-environment", "env", "environment", "MazeEnvironment"),
        ("spiral", "curriculum", "curriculum", "SpiralCurriculum"),
        ("my-sampler", "sampler", "sampler", "MySampler"),
    ],
)
def test_the_name_of_a_class_says_nothing_twice(tmp_path: Path, name: str, kind: str, file: str, expected: str) -> None:
    source = write_plugin(name, kind, tmp_path) / "src" / f"rlcore_{name.replace('-', '_')}" / f"{file}.py"
    assert f"class {expected}:" in source.read_text()


@pytest.mark.parametrize("name", ["Big", "under_score", "9lives", "", "a--b", "a-", "class"])
def test_names_that_cannot_be_used_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a plugin name"):
        write_plugin(name, "reward", tmp_path)


def test_the_name_of_an_installed_plugin_is_refused(tmp_path: Path, installed_plugin: InstallPlugin) -> None:
    installed_plugin("taken", "acme-taken", "1", "")
    with pytest.raises(ConfigError, match="the name of an installed plugin, acme-taken/taken"):
        write_plugin("taken", "reward", tmp_path)


def test_an_existing_directory_is_left_alone(tmp_path: Path) -> None:
    write_plugin("fresh", "reward", tmp_path)
    with pytest.raises(ConfigError, match="exists; choose another name"):
        write_plugin("fresh", "reward", tmp_path)
