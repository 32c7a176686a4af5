"""New plugins that ``rlcore plugins new`` writes pass their tests. test_scaffold_choices.py tests the options."""

from __future__ import annotations

import ast
import os
import pydoc
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from rlcore_devkit.scaffold.about import About
from rlcore_devkit.scaffold.kinds import KINDS
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin

# Kinds whose code needs PyTorch; the sampler needs rlcore-curriculum.
TORCH = {"exporter"} | {kind for kind, what in KINDS.items() if what.contract.startswith("rlcore_torch")}
TOGETHER = ("hooks", "env", "curriculum", "reward", "recording", "opponent", "schedule", "trainer")
WITH_TORCH = ("exporter", "replay-sampler", "encoder", "distribution", "optimizer", "torch-trainer")
OFF_POLICY = ("off-policy-trainer", "hooks")
CONTINUOUS = ("continuous-trainer", "reward")
DAILY = ("trainer", "env", "stats", "encoder", "torch-trainer")
LONG = "a23456789-123456789-123456789b"  # of the most characters


def written(parent: Path, *kinds: str, name: str = "fresh", distribution: str | None = None) -> Path:
    return write_plugin(new_package(name, kinds, distribution=distribution), parent)


def run_tests(site: Path, directories: Sequence[Path], *arguments: str) -> None:
    """Run the tests of packages in one process. ``site`` is filled as pip would fill it."""
    for directory in directories:
        project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
        information = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        information.mkdir(parents=True)
        entry_points = "\n".join(f"{name} = {value}" for name, value in project["entry-points"]["rlcore"].items())
        (information / "entry_points.txt").write_text(f"[rlcore]\n{entry_points}\n")
        required = "\n".join(f"Requires-Dist: {requirement}" for requirement in project["dependencies"])
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n{required}\n"
        )
    path = [site, *(directory / "src" for directory in directories), *filter(None, sys.path)]
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments, *(directory / "tests" for directory in directories)],
        cwd=site, env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tests.returncode == 0, tests.stdout + tests.stderr


@pytest.mark.long
def test_new_plugins_pass_their_own_tests(tmp_path: Path) -> None:
    """Tests of some kinds, but few of the longest classes; tests/packaging runs all, and has the trainers learn."""
    kinds = [kind for kind in DAILY if kind not in TORCH or find_spec("torch")]
    made = [written(tmp_path, kind, name=f"fresh-{kind}") for kind in kinds]
    made.append(written(tmp_path, "hooks", "reward", "schedule", name="walker", distribution="acme-rl-walker"))
    long = "TestPlugin or TestTrainer or TestDistribution or TestEncoder or TestExporter or among_several"
    long += " or same_values_in_any_order or test_replay_sampler and TestSampler or never_stopped and not TestOptimizer"
    kept = "loads or counts_agent_steps or vector or is_a_function or improves or gradient or features_have"
    run_tests(tmp_path / "site", made, "-k", f"not ({long}) or {kept}")


# ------------------------------------------------------------ what is written


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind and several combinations, each with a short, a usual and the longest name."""
    parent = tmp_path_factory.mktemp("everything")
    about = About(author='Jo "Q" Müller', email="jo@example.com", urls={"Source": "https://example.com/walker"})
    combinations = [*((kind,) for kind in KINDS), TOGETHER, WITH_TORCH, OFF_POLICY, CONTINUOUS, ("stats", "sampler")]
    for number, kinds in enumerate(combinations):
        for name, distribution in (("x", "x-rl"), ("walker", None), (LONG, "a-distribution-of-forty-characters-01234")):
            write_plugin(new_package(name, kinds, distribution=distribution), parent / f"{number}-{name}", about)
    return parent


@pytest.mark.xdist_group("everything")
@pytest.mark.skipif(find_spec("ruff") is None, reason="needs ruff")
def test_ruff_finds_nothing_with_the_settings_of_the_package(everything: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--no-cache", "."]
        checked = subprocess.run(ruff, cwd=everything, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


@pytest.mark.xdist_group("everything")
def test_nothing_of_the_templates_is_left_in_the_files(everything: Path) -> None:
    for path in filter(Path.is_file, everything.rglob("*")):
        assert path.suffix != ".jinja"
        text = path.read_text(encoding="utf-8").replace("${{ matrix.", "")  # which belongs to GitHub's workflows
        assert "{{" not in text and "{%" not in text
        assert text == "" or (text[0] != "\n" and text[-1] == "\n" and text[-2] != "\n"), path
        if path.suffix in (".yaml", ".yml"):
            assert yaml.safe_load(text)


def test_several_kinds_have_a_settings_module_and_an_example_each(tmp_path: Path) -> None:
    directory = written(tmp_path, "reward", "trainer", distribution="acme-rl-walker")
    assert {path.name for path in (directory / "src/acme_rl_walker").iterdir()} == {
        "__init__.py", "plugin.py", "py.typed", "reward.py", "reward_settings.py", "trainer.py", "trainer_settings.py",
    }  # fmt: skip
    assert {path.name for path in (directory / "examples").iterdir()} == {"reward.yaml", "trainer.yaml"}
    assert not (directory / "example.yaml").exists()
    source = (directory / "src/acme_rl_walker/plugin.py").read_text()
    assert source.startswith('"""The hooks of acme-rl-walker.')
    assert source.count("from rlcore import RewardProviderSpec, TrainerSpec, hookimpl\n") == 1
    functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    assert functions == ["rlcore_reward_providers", "rlcore_trainers"]
    runs = [yaml.safe_load(path.read_text())["checkpoint_settings"] for path in (directory / "examples").iterdir()]
    assert sorted(run["run_id"] for run in runs) == ["fresh-reward", "fresh-trainer"]


@pytest.mark.parametrize("kinds", [("trainer",), TOGETHER, WITH_TORCH, OFF_POLICY], ids="-".join)
def test_a_new_plugin_depends_on_what_its_code_imports(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    directory = written(tmp_path, *kinds)
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    requirements = {each.name.replace("-", "_"): each for each in map(Requirement, project["dependencies"])}
    trees = [ast.parse(path.read_text()) for path in (directory / "src").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imported = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"rlcore_fresh"}
    assert imported == requirements.keys()
    assert any("torch" in kind for kind in kinds) <= ("rlcore_torch" in imported)
    assert [Requirement(each).name for each in project["optional-dependencies"]["test"]] == ["pytest", "rlcore-devkit"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_guide_for_agents_names_exists(kind: str) -> None:
    what = KINDS[kind]
    for name in (what.conformance, what.contract):
        assert pydoc.locate(name) is not None or find_spec(name.partition(".")[0]) is None
    docs = Path(__file__).parents[3] / "docs"
    assert not docs.exists() or (docs / f"{what.page}.md").exists()
