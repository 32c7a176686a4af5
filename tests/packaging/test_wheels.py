"""Wheels, as a user gets them from pip: every distribution is installed as a wheel, with no more than it declares."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from virtualenvs import Venv, build_wheel
from workspace import CORE, MEMBERS, PLUGINS, ROOT, Member

pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("packaging")]

CARTPOLE = ROOT / "examples/cartpole.yaml"

CONFORMANCE = """\
import pytest

from rlcore.testing import PluginConformance


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = {!r}
"""

every_member = pytest.mark.parametrize("member", MEMBERS, ids=str)
every_plugin = pytest.mark.parametrize("member", PLUGINS, ids=str)


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
    assert "file:" not in text


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


@every_plugin
def test_a_plugin_passes_its_tests_with_nothing_but_the_core(
    member: Member, with_plugin: Callable[[str], Venv], tmp_path: Path, chosen: str
) -> None:
    venv = with_plugin(member.name)
    assert {name for name in venv.distributions() if name.startswith("rlcore")} == {"rlcore", member.name}
    own = tmp_path / "own"
    shutil.copytree(member.directory / "tests", own)
    (own / "test_rules_for_plugins.py").write_text(CONFORMANCE.format(f"{member.name}/{member.plugin}"))
    venv.test(own, tmp_path, chosen=chosen)


def test_the_core_with_a_trainer_and_an_environment_trains(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], with_plugin: Callable[[str], Venv], tmp_path: Path
) -> None:
    venv = make_venv(wheels["rlcore-gymnasium"], below=with_plugin("rlcore-ppo"))
    assert "tensorboard" not in venv.distributions()
    venv.rlcore("run", CARTPOLE, "--set", "behaviors.CartPole.max_steps=8192", cwd=tmp_path)
    result = json.loads((tmp_path / "results/cartpole/result.json").read_text())
    assert result["outcome"] == "done"
    assert result["behaviors"]["CartPole"]["steps"] >= 8192


def test_the_example_of_an_algorithm_passes_its_tests_and_trains(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], with_torch: Venv, tmp_path: Path, deep: bool
) -> None:
    """As its README says: one wheel beside the core and an environment, and nothing of PPO or SAC.

    A deep run checks every rule and trains to the end. A tenth of the steps is enough to balance longer than random
    actions do.
    """
    example = ROOT / "examples/dqn_plugin"
    copied = shutil.copytree(example, tmp_path / "copied")  # building leaves nothing in the repository
    venv = make_venv(build_wheel(copied, tmp_path), wheels["rlcore-gymnasium"], below=with_torch)
    installed = {name for name in venv.distributions() if name.startswith("rlcore")}
    assert installed == {"rlcore", "rlcore-dqn", "rlcore-gymnasium"}
    venv.test(example / "tests", tmp_path, "-k", "Test" if deep else "TestPlugin or learns or never_stopped")
    steps, goal = (40_000, 300.0) if deep else (4_000, 50.0)
    changed = ("--set", f"behaviors.CartPole.max_steps={steps}", "--set", "behaviors.CartPole.summary_freq=2000")
    venv.rlcore("run", example / "cartpole.yaml", "--seed", "1", *changed, cwd=tmp_path)
    measured = venv.rlcore("evaluate", "cartpole-dqn", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["CartPole"]["mean_reward"] >= goal


def test_the_example_of_a_delayed_actor_passes_its_tests_and_trains(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], with_torch: Venv, tmp_path: Path, deep: bool
) -> None:
    """As its README says. A deep run trains to the end, and to the score in the README."""
    example = ROOT / "examples/td3_plugin"
    copied = shutil.copytree(example, tmp_path / "copied")
    venv = make_venv(build_wheel(copied, tmp_path), wheels["rlcore-gymnasium"], below=with_torch)
    installed = {name for name in venv.distributions() if name.startswith("rlcore")}
    assert installed == {"rlcore", "rlcore-td3", "rlcore-gymnasium"}
    venv.test(example / "tests", tmp_path, "-k", "test" if deep else "not TestTD3 or never_stopped")
    steps, goal = (15_000, -200.0) if deep else (6_000, -700.0)  # random actions have about -1200
    changed = ("--set", f"behaviors.Pendulum.max_steps={steps}")
    venv.rlcore("run", example / "pendulum.yaml", "--seed", "1", *changed, cwd=tmp_path)
    measured = venv.rlcore("evaluate", "pendulum-td3", "--episodes", "50", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Pendulum"]["mean_reward"] >= goal


def test_the_example_of_a_replay_sampler_passes_its_tests_with_the_stock_sac(
    make_venv: Callable[..., Venv], with_trainers: Venv, tmp_path: Path, deep: bool
) -> None:
    example = ROOT / "examples/her_plugin"
    copied = shutil.copytree(example, tmp_path / "copied")
    venv = make_venv(build_wheel(copied, tmp_path), below=with_trainers)
    venv.test(example / "tests", tmp_path, *(() if deep else ("-k", "not are_reached or seed11")))


def test_the_example_of_a_status_in_a_database_passes_its_tests_and_trains(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], with_torch: Venv, tmp_path: Path
) -> None:
    """As its README says: a company's package beside the core and what its configuration names."""
    example = ROOT / "examples/company_status"
    copied = shutil.copytree(example, tmp_path / "copied")
    named = ("rlcore-curriculum", "rlcore-gymnasium", "rlcore-ppo")
    venv = make_venv(build_wheel(copied, tmp_path), *(wheels[name] for name in named), below=with_torch)
    installed = {name for name in venv.distributions() if name.startswith(("rlcore", "acme"))}
    assert installed == {"rlcore", "acme-status", *named}
    venv.test(example / "tests", tmp_path)
    venv.rlcore("run", example / "cartpole.yaml", "--seed", "1", cwd=tmp_path)
    assert not list(tmp_path.rglob("training_status.json"))
    shown = venv.rlcore("status", "cartpole-lessons", cwd=tmp_path).stdout
    assert "2 (short)" in shown and "60000 (100%)" in shown


def test_the_example_of_a_companys_hooks_passes_its_tests_and_trains(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], with_torch: Venv, tmp_path: Path
) -> None:
    """As its README says: a company's package beside the core and what its configuration names."""
    example = ROOT / "examples/company_hooks"
    copied = shutil.copytree(example, tmp_path / "copied")
    named = ("rlcore-curriculum", "rlcore-gymnasium", "rlcore-ppo")
    venv = make_venv(build_wheel(copied, tmp_path), *(wheels[name] for name in named), below=with_torch)
    venv.test(example / "tests", tmp_path)
    refused = venv.rlcore("run", example / "cartpole.yaml", cwd=tmp_path, code=2)
    assert "name the team that pays" in refused.stderr
    venv.rlcore("run", example / "cartpole.yaml", "--acme-team", "vision", "--seed", "1", cwd=tmp_path)
    copies = sorted(int(path.name) for path in (tmp_path / "mirror/cartpole-acme").iterdir())
    assert copies == [30_000, 40_000]
    assert (tmp_path / "results/cartpole-acme/bill.txt").read_text() == "0.40\n"


def test_the_example_of_an_encoder_passes_its_tests_and_trains(
    make_venv: Callable[..., Venv], with_trainers: Venv, tmp_path: Path, deep: bool
) -> None:
    """As its README says: a convolutional network by its name. A deep run trains it to the end."""
    example = ROOT / "examples/encoder_plugin"
    copied = shutil.copytree(example, tmp_path / "copied")
    venv = make_venv(build_wheel(copied, tmp_path), below=with_trainers)
    venv.test(example / "tests", tmp_path, *(() if deep else ("-k", "not is_learned")))
    if not deep:
        return
    venv.rlcore("run", example / "quadrant.yaml", cwd=tmp_path)
    measured = venv.rlcore("evaluate", "quadrant", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Quadrant"]["mean_reward"] >= 7.0


def test_the_example_of_a_reward_that_learns_passes_its_tests_and_trains(
    make_venv: Callable[..., Venv], with_trainers: Venv, tmp_path: Path, deep: bool
) -> None:
    """As its README says: one wheel beside the core and what its configurations name. A deep run solves the task."""
    example = ROOT / "examples/rnd_reward"
    copied = shutil.copytree(example, tmp_path / "copied")
    venv = make_venv(build_wheel(copied, tmp_path), below=with_trainers)
    for name, run_id in (("deep_sea.yaml", "deep-sea"), ("deep_sea_sac.yaml", "deep-sea-sac")):
        shutil.copy(example / name, tmp_path)  # the tests read both
        venv.rlcore("run", name, "--set", "behaviors.Diver.max_steps=2048", cwd=tmp_path)
        assert json.loads((tmp_path / "results" / run_id / "result.json").read_text())["outcome"] == "done"
    venv.test(example / "tests", tmp_path, *(() if deep else ("-k", "not is_solved or by_ppo and 21")))


# ------------------------------------------------------------ a stranger's plugins

TRAINER_ON_ENVIRONMENT = """\
environment: {type: maze, num_envs: 8}
behaviors:
  Agent:
    trainer_type: acme
    hyperparameters: {buffer_size: 512}
    max_steps: 20000
    summary_freq: 5000
checkpoint_settings: {run_id: stranger}
"""


@pytest.fixture(scope="session")
def strangers(tmp_path_factory: pytest.TempPathFactory, tested: Venv) -> Mapping[str, Path]:
    """A trainer and an environment as `rlcore plugins new` writes them for a user who has only the core."""
    directory = tmp_path_factory.mktemp("strangers")
    tested.rlcore("plugins", "new", "acme", "--kind", "trainer", "--dir", directory, cwd=directory)
    tested.rlcore("plugins", "new", "maze", "--kind", "env", "--dir", directory, cwd=directory)
    return {"acme": directory / "rlcore-acme", "maze": directory / "rlcore-maze"}


@pytest.fixture(scope="session")
def with_strangers(
    strangers: Mapping[str, Path],
    make_venv: Callable[..., Venv],
    tested: Venv,
    tmp_path_factory: pytest.TempPathFactory,
) -> Venv:
    """The core and the wheels of both."""
    directory = tmp_path_factory.mktemp("wheels")
    return make_venv(*(build_wheel(source, directory) for source in strangers.values()), below=tested)


@pytest.mark.parametrize("name", ["acme", "maze"])
def test_a_strangers_plugin_passes_its_tests(
    name: str, strangers: Mapping[str, Path], with_strangers: Venv, tmp_path: Path
) -> None:
    with_strangers.test(strangers[name] / "tests", tmp_path)


def test_a_strangers_trainer_learns_in_a_strangers_environment_without_torch(
    with_strangers: Venv, tmp_path: Path
) -> None:
    assert "torch" not in with_strangers.distributions()
    (tmp_path / "stranger.yaml").write_text(TRAINER_ON_ENVIRONMENT)
    with_strangers.rlcore("run", "stranger.yaml", "--seed", "1", cwd=tmp_path)
    measured = with_strangers.rlcore("evaluate", "stranger", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Agent"]["mean_reward"] > 0.9  # the best is 0.98
    written = json.loads((tmp_path / "results/stranger/result.json").read_text())
    assert written["outcome"] == "done"
    with_strangers.rlcore("run", "--resume", "--run-id", "stranger", cwd=tmp_path)


def test_a_strangers_trainer_trains_on_gymnasium(
    strangers: Mapping[str, Path],
    with_plugin: Callable[[str], Venv],
    make_venv: Callable[..., Venv],
    tmp_path: Path,
) -> None:
    venv = make_venv(build_wheel(strangers["acme"], tmp_path), below=with_plugin("rlcore-gymnasium"))
    example = strangers["acme"] / "example.yaml"
    venv.rlcore("run", example, "--run-id", "acme", "--set", "behaviors.CartPole.max_steps=4096", cwd=tmp_path)
    assert json.loads((tmp_path / "results/acme/result.json").read_text())["outcome"] == "done"
