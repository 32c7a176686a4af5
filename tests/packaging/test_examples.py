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
from virtualenvs import Venv, build_wheels, wheel_in
from workspace import MEMBERS, ROOT, pyproject, required

pytestmark = pytest.mark.packaging

EXAMPLES = ROOT / "examples"


@attrs.frozen
class Group:
    """Packages that share the core with rlcore-torch, and the members ``beside`` it."""

    beside: tuple[str, ...]
    quick: Mapping[str, str]  # by folder: the tests of a run that is not deep, an expression for `-k`, or "" for all


GROUPS = (
    Group(  # trainers, which need nothing of PPO or SAC
        beside=("rlcore-gymnasium",),
        quick={
            "dqn_plugin": "TestPlugin or learns or never_stopped",
            "td3_plugin": "not TestTD3 or never_stopped",
        },
    ),
    Group(  # parts of runs with PPO or SAC
        beside=("rlcore-ghost", "rlcore-gymnasium", "rlcore-ppo", "rlcore-sac"),
        quick={
            "beta_plugin": "",
            "encoder_plugin": "not is_learned",
            "exporter_plugin": "",
            "ghost_plugin": "not TestGhost and not is_learned or OfPPO and never_stopped",
            "her_plugin": "not are_reached or seed11",
            "optimizer_plugin": "not is_learned",
            "novelty_reward": "not is_solved or by_ppo and 21",
        },
    ),
    # A company's hooks are called in every run of an environment that has its package.
    Group(beside=("rlcore-curriculum", "rlcore-gymnasium", "rlcore-ppo"), quick={"company_plugin": ""}),
)


def name_of(example: str) -> str:
    return str(pyproject(EXAMPLES / example)["project"]["name"])


@pytest.fixture(scope="session")
def example_wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheel of every package, by its folder."""
    folders = [folder for group in GROUPS for folder in group.quick]

    def build(directory: Path) -> None:  # from copies, as building leaves files in the sources
        build_wheels(directory, *(shutil.copytree(EXAMPLES / folder, directory / folder) for folder in folders))

    directory = made_once(tmp_path_factory, "wheels of examples", build)
    return {folder: wheel_in(directory, name_of(folder)) for folder in folders}


@pytest.fixture(scope="session")
def with_examples(
    shared_venv: Callable[..., Venv], wheels: Mapping[str, Path], example_wheels: Mapping[str, Path], with_torch: Venv
) -> Callable[[str], Venv]:
    """``with_examples("dqn_plugin")``: the virtual environment of the group of this package."""

    def with_examples(example: str) -> Venv:
        (group,) = (group for group in GROUPS if example in group.quick)
        members = (wheels[name] for name in group.beside)
        return shared_venv(*members, *(example_wheels[folder] for folder in group.quick), below=with_torch)

    return with_examples


def test_every_package_is_in_one_group() -> None:
    listed = [example for group in GROUPS for example in group.quick]
    assert sorted(listed) == sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml"))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: "-".join(group.quick))
def test_examples_pass_their_tests_with_the_wheels_that_they_need(
    group: Group, with_examples: Callable[[str], Venv], tmp_path: Path, deep: bool
) -> None:
    venv = with_examples(next(iter(group.quick)))
    ours = {member.name for member in MEMBERS} | {name_of(each.parent.name) for each in EXAMPLES.glob("*/src")}
    beside = required(*group.beside) | {"rlcore-devkit", "rlcore-torch"}  # of the environment below
    assert ours & venv.distributions().keys() == beside | {*map(name_of, group.quick)}
    for example in group.quick:  # without the source: the wheel is tested
        shutil.copytree(EXAMPLES / example, tmp_path / example, ignore=shutil.ignore_patterns("src", "__pycache__"))
    limits = [f"(not {example} or {tests})" for example, tests in group.quick.items() if tests]
    chosen = () if deep or not limits else ("-k", " and ".join(limits))
    passed = venv.pytest(tmp_path, *chosen, *(f"{example}/tests" for example in group.quick))
    assert {each.split("/")[0] for each in passed} == set(group.quick)


def test_deep_q_learning_trains(with_examples: Callable[[str], Venv], tmp_path: Path, deep: bool) -> None:
    """A tenth of the steps is enough to balance longer than random actions do; a deep run trains to the end."""
    venv = with_examples("dqn_plugin")
    steps, goal = (40_000, 300.0) if deep else (4_000, 50.0)
    changed = ("--set", f"behaviors.CartPole.max_steps={steps}", "--set", "behaviors.CartPole.summary_freq=2000")
    venv.rlcore("run", EXAMPLES / "dqn_plugin/cartpole.yaml", "--seed", "1", *changed, cwd=tmp_path)
    measured = venv.rlcore("evaluate", "cartpole-dqn", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["CartPole"]["mean_reward"] >= goal


def test_the_delayed_actor_trains(with_examples: Callable[[str], Venv], tmp_path: Path, deep: bool) -> None:
    """A deep run trains to the end, and to the score in the README."""
    venv = with_examples("td3_plugin")
    steps, goal = (15_000, -200.0) if deep else (6_000, -700.0)  # random actions have about -1200
    changed = ("--set", f"behaviors.Pendulum.max_steps={steps}")
    venv.rlcore("run", EXAMPLES / "td3_plugin/pendulum.yaml", "--seed", "1", *changed, cwd=tmp_path)
    measured = venv.rlcore("evaluate", "pendulum-td3", "--episodes", "50", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Pendulum"]["mean_reward"] >= goal


def test_an_optimizer_and_a_schedule_by_their_names_train(
    with_examples: Callable[[str], Venv], tmp_path: Path, deep: bool
) -> None:
    """A deep run trains to the end, which one of its own tests does too."""
    venv = with_examples("optimizer_plugin")
    short = () if deep else ("--set", "behaviors.CartPole.max_steps=2048")
    venv.rlcore("run", EXAMPLES / "optimizer_plugin/cartpole.yaml", "--seed", "1", *short, cwd=tmp_path)
    assert json.loads((tmp_path / "results/cartpole-adamw/result.json").read_text())["outcome"] == "done"


@pytest.mark.deep
def test_a_distribution_by_its_name_learns(with_examples: Callable[[str], Venv], tmp_path: Path) -> None:
    venv = with_examples("beta_plugin")
    venv.rlcore("run", EXAMPLES / "beta_plugin/pendulum_beta.yaml", cwd=tmp_path)
    measured = venv.rlcore("evaluate", "pendulum-beta", "--episodes", "100", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Pendulum"]["mean_reward"] >= -220.0  # seeds 1 to 3: -162 to -165


@pytest.mark.deep
def test_a_convolutional_network_by_its_name_learns(with_examples: Callable[[str], Venv], tmp_path: Path) -> None:
    venv = with_examples("encoder_plugin")
    venv.rlcore("run", EXAMPLES / "encoder_plugin/quadrant.yaml", cwd=tmp_path)
    measured = venv.rlcore("evaluate", "quadrant", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Quadrant"]["mean_reward"] >= 7.0


@pytest.mark.parametrize(("name", "run_id"), [("deep_sea.yaml", "deep-sea"), ("deep_sea_sac.yaml", "deep-sea-sac")])
def test_a_reward_that_learns_trains(
    name: str, run_id: str, with_examples: Callable[[str], Venv], tmp_path: Path
) -> None:
    """One update of PPO, and SAC's first; the tests of the package train to the end, in a deep run."""
    venv = with_examples("novelty_reward")
    venv.rlcore("run", EXAMPLES / "novelty_reward" / name, "--set", "behaviors.Diver.max_steps=1024", cwd=tmp_path)
    assert json.loads((tmp_path / "results" / run_id / "result.json").read_text())["outcome"] == "done"


def test_opponents_that_are_earlier_selves_train(with_examples: Callable[[str], Venv], tmp_path: Path) -> None:
    """The tests of the package train to the end, in a deep run."""
    venv = with_examples("ghost_plugin")
    venv.rlcore("run", EXAMPLES / "ghost_plugin/nim.yaml", "--set", "behaviors.Player.max_steps=2048", cwd=tmp_path)
    assert json.loads((tmp_path / "results/nim/result.json").read_text())["outcome"] == "done"
