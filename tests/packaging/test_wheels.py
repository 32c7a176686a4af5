"""Wheels, as a user gets them from pip: every distribution is installed as a wheel, with no more than it declares."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from virtualenvs import PIP, Venv
from workspace import CORE, MEMBERS, PLUGINS, ROOT, Member, complete, required

pytestmark = pytest.mark.packaging

CARTPOLE = ROOT / "examples/cartpole.yaml"
TICTACTOE = ROOT / "examples/tictactoe.yaml"

every_member = pytest.mark.parametrize("member", MEMBERS, ids=str)


@every_member
def test_a_wheel_is_complete_and_could_be_published(member: Member, wheels: Mapping[str, Path]) -> None:
    with zipfile.ZipFile(wheels[member.name]) as wheel:
        names = set(wheel.namelist())
        (information,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        text = wheel.read(f"{information}/METADATA").decode()
    on_disk = {
        path.relative_to(member.package.parent).as_posix()
        for path in member.package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if not name.startswith(information)} == on_disk
    assert f"{information}/licenses/LICENSE" in names
    headers, _, _ = text.partition("\n\n")  # the description, a README, may show any text
    assert "file:" not in headers


def test_the_constraints_allow_every_member_in_one_environment(wheels: Mapping[str, Path]) -> None:
    options = ("--dry-run", "--ignore-installed", "-c", ROOT / "constraints.txt")
    every = [complete(wheels, name) for name in wheels]
    found = subprocess.run([*PIP, "install", *options, *every], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


# ------------------------------------------------------------ the core alone


def test_the_core_alone_has_no_torch_and_its_commands_work(bare: Venv, tmp_path: Path) -> None:
    assert "rlcore" in bare.distributions() and "torch" not in bare.distributions()
    bare.python("-c", "import torch", cwd=tmp_path, code=1)
    assert (bare.binaries / "rlcore").exists() or (bare.binaries / "rlcore.exe").exists()
    assert "Train agents" in bare.rlcore("--help", cwd=tmp_path).stdout
    listed = json.loads(bare.rlcore("plugins", "list", "--json", cwd=tmp_path).stdout)
    assert [(each["name"], each["state"]) for each in listed["plugins"]] == [("core", "on")]
    assert listed["problems"] == []


def test_the_core_alone_says_what_to_install(bare: Venv, tmp_path: Path) -> None:
    refused = bare.rlcore("run", CARTPOLE, cwd=tmp_path, code=2)
    (line,) = refused.stderr.splitlines()
    assert line.endswith("pip install rlcore-gymnasium rlcore-ppo")
    assert not list(tmp_path.iterdir())


def pluggy_requirement() -> Requirement:
    return next(each for each in map(Requirement, CORE.requirements) if each.name == "pluggy")


def oldest_pluggy() -> str:
    (bound,) = (each.version for each in pluggy_requirement().specifier if each.operator == ">=")
    return f"pluggy=={bound}"


@pytest.mark.parametrize("requirement", [oldest_pluggy(), str(pluggy_requirement())], ids=["oldest", "newest"])
def test_the_plugin_system_works_with_the_pluggys_it_allows(
    requirement: str, make_venv: Callable[..., Venv], tested: Venv, tmp_path: Path, chosen: str
) -> None:
    venv = make_venv(below=tested)
    venv.install("--upgrade", requirement, constrained=False)
    assert SpecifierSet(requirement.removeprefix("pluggy")).contains(venv.distributions()["pluggy"])
    # What `rlcore plugins new` writes is tested below, with the pluggy of the constraints.
    venv.test(ROOT / "core/tests/plugins", tmp_path, "--ignore=tests/test_scaffold.py", chosen=chosen)


# ------------------------------------------------------------ the core and plugins


@pytest.mark.parametrize("member", PLUGINS, ids=str)
def test_a_plugin_passes_its_tests_with_nothing_but_the_core_and_what_it_requires(
    member: Member, with_plugin: Callable[[str], Venv], tmp_path: Path, chosen: str
) -> None:
    venv = with_plugin(member.name)
    ours = {name for name in venv.distributions() if name.startswith("rlcore")}
    assert ours == {"rlcore", "rlcore-devkit", *required(member.name, *member.in_torch)}
    venv.test(member.directory / "tests", tmp_path, chosen=chosen)


def test_the_core_with_a_trainer_and_an_environment_trains(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], with_plugin: Callable[[str], Venv], tmp_path: Path
) -> None:
    venv = make_venv(wheels["rlcore-gymnasium"], below=with_plugin("rlcore-ppo"))
    assert "tensorboard" not in venv.distributions()
    venv.rlcore("run", CARTPOLE, "--set", "behaviors.CartPole.max_steps=8192", cwd=tmp_path)
    result = json.loads((tmp_path / "results/cartpole/result.json").read_text())
    assert result["outcome"] == "done"
    assert result["behaviors"]["CartPole"]["steps"] >= 8192


def test_tic_tac_toe_trains_with_self_play_and_is_refused_without_its_package(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], with_plugin: Callable[[str], Venv], tmp_path: Path
) -> None:
    classic = f"rlcore-pettingzoo[classic] @ {wheels['rlcore-pettingzoo'].as_uri()}"
    without = make_venv(wheels["rlcore-gymnasium"], classic, below=with_plugin("rlcore-ppo"))
    refused = without.rlcore("run", TICTACTOE, cwd=tmp_path, code=2)
    (line,) = refused.stderr.splitlines()
    first, _, others = line.partition(" (and ")  # the opponents of the evaluation are rlcore-ghost's too
    assert "behaviors.Player.self_play" in first and first.endswith("pip install rlcore-ghost") and "1 more" in others
    assert not list(tmp_path.iterdir())
    venv = make_venv(wheels["rlcore-ghost"], below=without)
    ours = {name for name in venv.distributions() if name.startswith("rlcore")}
    assert ours == {"rlcore-devkit", *required("rlcore-ppo", "rlcore-pettingzoo", "rlcore-ghost")}
    shorter = ("--set", "behaviors.Player.max_steps=8192", "--set", "evaluation.interval=8192")
    venv.rlcore("run", TICTACTOE, *shorter, cwd=tmp_path)
    result = json.loads((tmp_path / "results/tictactoe/result.json").read_text())
    assert result["outcome"] == "done" and result["behaviors"]["Player"]["steps"] >= 8192
    rated = json.loads(venv.rlcore("ratings", "tictactoe", "--json", cwd=tmp_path).stdout)
    assert len(rated["players"]) > 1
