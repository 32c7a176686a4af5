"""The packages in ``examples/``, as their READMEs say: their tests pass beside wheels, and their configurations train.

Packages are listed by their folder in the groups below. A group shares one virtual environment, so a package whose
presence changes what others do needs another group.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest
from made_once import made_once
from plugin_matrix import listed
from virtualenvs import Venv, build_wheels, wheel_in
from workspace import MEMBERS, ROOT, pyproject, required

pytestmark = pytest.mark.packaging

EXAMPLES = ROOT / "examples"


# The tests of each package in a run that is not deep, an expression for `-k`, or "" for all.
QUICK = {each.package.removeprefix("examples/"): each.tests for each in listed(ROOT)}


@attrs.frozen
class Group:
    """Packages that share the core with rlcore-torch, and the members ``beside`` it."""

    beside: tuple[str, ...]
    folders: tuple[str, ...]


GROUPS = (
    # Trainers, which need nothing of PPO or SAC.
    Group(beside=("rlcore-gymnasium",), folders=("tqc_plugin",)),
    Group(  # parts of runs with PPO or SAC
        beside=("rlcore-ghost", "rlcore-gymnasium", "rlcore-ppo", "rlcore-sac"),
        folders=(
            "a2c_plugin",
            "beta_plugin",
            "encoder_plugin",
            "exporter_plugin",
            "ghost_plugin",
            "optimizer_plugin",
            "spot_notice",
            "novelty_reward",
        ),
    ),
    # A company's hooks are called in every run of an environment that has its package.
    Group(beside=("rlcore-curriculum", "rlcore-gymnasium", "rlcore-ppo"), folders=("company_plugin",)),
)


def name_of(example: str) -> str:
    return str(pyproject(EXAMPLES / example)["project"]["name"])


@pytest.fixture(scope="session")
def example_wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheel of every package, by its folder."""
    folders = [folder for group in GROUPS for folder in group.folders]

    def build(directory: Path) -> None:  # from copies, as building leaves files in the sources
        build_wheels(directory, *(shutil.copytree(EXAMPLES / folder, directory / folder) for folder in folders))

    directory = made_once(tmp_path_factory, "wheels of examples", build)
    return {folder: wheel_in(directory, name_of(folder)) for folder in folders}


@pytest.fixture(scope="session")
def with_examples(
    shared_venv: Callable[..., Venv], wheels: Mapping[str, Path], example_wheels: Mapping[str, Path], with_torch: Venv
) -> Callable[[str], Venv]:
    """``with_examples("tqc_plugin")``: the virtual environment of the group of this package."""

    def with_examples(example: str) -> Venv:
        (group,) = (group for group in GROUPS if example in group.folders)
        members = (wheels[name] for name in group.beside)
        return shared_venv(*members, *(example_wheels[folder] for folder in group.folders), below=with_torch)

    return with_examples


def test_every_package_is_in_one_group() -> None:
    grouped = [example for group in GROUPS for example in group.folders]
    assert sorted(grouped) == sorted(QUICK) == sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml"))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: "-".join(group.folders))
def test_examples_pass_their_tests_with_the_wheels_that_they_need(
    group: Group, with_examples: Callable[[str], Venv], tmp_path: Path, deep: bool
) -> None:
    venv = with_examples(group.folders[0])
    ours = {member.name for member in MEMBERS} | {name_of(each.parent.name) for each in EXAMPLES.glob("*/src")}
    beside = required(*group.beside) | {"rlcore-devkit", "rlcore-torch"}  # of the environment below
    assert ours & venv.distributions().keys() == beside | {*map(name_of, group.folders)}
    for example in group.folders:  # without the source: the wheel is tested
        shutil.copytree(EXAMPLES / example, tmp_path / example, ignore=shutil.ignore_patterns("src", "__pycache__"))
    limits = [f"(not {example} or {QUICK[example]})" for example in group.folders if QUICK[example]]
    chosen = () if deep or not limits else ("-k", " and ".join(limits))
    passed = venv.pytest(tmp_path, *chosen, *(f"{example}/tests" for example in group.folders))
    assert {each.split("/")[0] for each in passed} == set(group.folders)


# Packages, their configurations, settings of a shorter training, and the mean reward that it reaches. With the default
# settings the tests of the packages train to the end. Random actions have -1200 in Pendulum.
TRAININGS = [
    ("tqc_plugin", "pendulum", "pendulum-tqc", {"Pendulum.max_steps": 4000}, -700.0),
    ("optimizer_plugin", "cartpole", "cartpole-adamw", {"CartPole.max_steps": 2048}, None),
    ("novelty_reward", "deep_sea", "deep-sea", {"Diver.max_steps": 1024}, None),
    ("novelty_reward", "deep_sea_sac", "deep-sea-sac", {"Diver.max_steps": 1024}, None),
    ("ghost_plugin", "nim", "nim", {"Player.max_steps": 2048}, None),
    ("tqc_plugin", "pendulum", "pendulum-tqc", {}, -200.0),
    ("beta_plugin", "pendulum_beta", "pendulum-beta", {}, -220.0),  # seeds 1 to 3: -162 to -165
    ("encoder_plugin", "quadrant", "quadrant", {}, 7.0),
]
IN_FULL = len(TRAININGS) - 3  # from here on


@pytest.mark.parametrize(
    ("example", "name", "run_id", "changed", "reward"),
    [
        pytest.param(*each, id=f"{each[0]}-{each[1]}-{number}", marks=pytest.mark.deep if number >= IN_FULL else ())
        for number, each in enumerate(TRAININGS)
    ],
)
def test_a_configuration_of_a_package_trains(
    with_examples: Callable[[str], Venv],
    tmp_path: Path,
    example: str,
    name: str,
    run_id: str,
    changed: Mapping[str, int],
    reward: float | None,
) -> None:
    venv = with_examples(example)
    words = [word for key, value in changed.items() for word in ("--set", f"behaviors.{key}={value}")]
    venv.rlcore("run", EXAMPLES / example / f"{name}.yaml", "--seed", "1", *words, cwd=tmp_path)
    assert json.loads((tmp_path / "results" / run_id / "result.json").read_text())["outcome"] == "done"
    if reward is not None:
        measured = venv.rlcore("evaluate", run_id, "--episodes", "50", "--json", cwd=tmp_path)
        [behavior] = json.loads(measured.stdout)["behaviors"].values()
        assert behavior["mean_reward"] >= reward
