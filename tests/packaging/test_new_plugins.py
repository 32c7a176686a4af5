"""A stranger's plugins: every kind that `rlcore plugins new` writes is built, installed, tested and used.

The kinds share virtual environments; each environment has what some of them declare, and nothing else. A company's
hooks are called in every run, so they have an environment of their own.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
import yaml
from made_once import made_once
from packaging.requirements import Requirement
from virtualenvs import Venv, build_wheels, wheel_in
from workspace import PLUGINS, pyproject

from rlcore_devkit.scaffold.kinds import KINDS

pytestmark = pytest.mark.packaging

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
NAMES = {"trainer": "rlcore-acme", "env": "rlcore-maze"}  # the others are acme-rl-KIND


def distribution_of(kind: str) -> str:
    return NAMES.get(kind, f"acme-rl-{kind}")


COMPANY = (
    "rlcore plugins new walker --distribution Acme_RL.Walker --kind reward --kind env --license proprietary "
    "--author 'Jo \"Q\" Müller' --email jo@example.com --url https://example.com/walker"
)
# What makes each package, by its distribution.
PACKAGES = {
    **{(name := distribution_of(kind)): f"rlcore plugins new --distribution {name} --kind {kind}" for kind in KINDS},
    "rlcore-maze": "rlcore plugins new maze --kind env --license none",
    "acme-rl-walker": COMPANY,
}
HOOKS = distribution_of("hooks")  # called in every run
# Runs the commands in a file, one after another, in one process: PyTorch is imported once.
COMMANDS = """\
import shlex, sys
from rlcore.cli.main import main

for line in open(sys.argv[1], encoding="utf-8"):
    code = main(shlex.split(line)[1:])
    if code:
        sys.exit(f"exit code {code}: {line}")
"""
# What a run or a command of each kind leaves, besides the results of the run.
LEFT = {
    "stats": "results/acme-stats/acme-stats.csv",
    "exporter": "results/acme-exporter/CartPole.pt2",
    "recording": "recorded/CartPole",
    "hooks": "results/acme-hooks/acme-hooks.jsonl",
}


@pytest.fixture(scope="session")
def strangers(tmp_path_factory: pytest.TempPathFactory, tested: Venv) -> Mapping[str, Path]:
    """Packages as `rlcore plugins new` writes them for a user who has the core and rlcore-devkit, by distribution."""

    def write(directory: Path) -> None:
        run_commands(tested, directory, PACKAGES.values())

    directory = made_once(tmp_path_factory, "packages of strangers", write)
    assert {path.name for path in directory.iterdir()} == {*PACKAGES, "commands.txt"}
    return {name: directory / name for name in PACKAGES}


@pytest.fixture(scope="session")
def groups(strangers: Mapping[str, Path]) -> Mapping[str, list[str]]:
    """The packages by what they require beside the core: "libraries", also "PyTorch", or other "plugins"."""
    groups: dict[str, list[str]] = {"libraries": [], "PyTorch": [], "plugins": []}
    for name, package in strangers.items():
        needs = {Requirement(text).name for text in pyproject(package)["project"]["dependencies"]}
        in_torch = needs & {"torch", "rlcore-torch"}
        if name == HOOKS or needs & {member.name for member in PLUGINS} - in_torch:
            groups["plugins"].append(name)
        else:
            groups["PyTorch" if in_torch else "libraries"].append(name)
    assert all(groups.values())
    return groups


@pytest.fixture(scope="session")
def built(strangers: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheels."""
    directory = made_once(tmp_path_factory, "wheels of strangers", lambda path: build_wheels(path, *strangers.values()))
    return {name: wheel_in(directory, name) for name in strangers}


@pytest.fixture(scope="session")
def with_strangers(
    built: Mapping[str, Path], groups: Mapping[str, list[str]], shared_venv: Callable[..., Venv], tested: Venv
) -> Venv:
    """The core, and packages that need nothing else."""
    return shared_venv(*(built[name] for name in groups["libraries"]), below=tested)


@pytest.fixture(scope="session")
def with_torch_strangers(
    built: Mapping[str, Path], groups: Mapping[str, list[str]], shared_venv: Callable[..., Venv], with_torch: Venv
) -> Venv:
    """The core with rlcore-torch, and packages that need nothing else."""
    return shared_venv(*(built[name] for name in groups["PyTorch"]), below=with_torch)


@pytest.fixture(scope="session")
def with_all(
    built: Mapping[str, Path],
    groups: Mapping[str, list[str]],
    wheels: Mapping[str, Path],
    wheels_with: Callable[..., list[Path]],
    shared_venv: Callable[..., Venv],
    with_torch_strangers: Venv,
) -> Venv:
    """All packages except a company's, and what they and their examples need."""
    needs = {need.partition("[")[0] for what in KINDS.values() for need in what.needs}
    needs |= {"rlcore-curriculum", "rlcore-ghost", "rlcore-offline"}
    there = {wheels[name] for name in ("rlcore", "rlcore-devkit", "rlcore-torch", "rlcore-pettingzoo")}
    classic = f"rlcore-pettingzoo[classic] @ {wheels['rlcore-pettingzoo'].as_uri()}"
    members = [wheel for wheel in wheels_with(*sorted(needs)) if wheel not in there]
    others = [wheel for name, wheel in built.items() if name not in (*groups["PyTorch"], HOOKS)]
    return shared_venv(*members, classic, *others, below=with_torch_strangers)


@pytest.fixture(scope="session")
def with_hooks(built: Mapping[str, Path], shared_venv: Callable[..., Venv], with_all: Venv) -> Venv:
    """A company's package besides all others."""
    return shared_venv(built[HOOKS], below=with_all)


def run_commands(venv: Venv, directory: Path, commands: Iterable[str]) -> str:
    """Run `rlcore` commands in ``directory``, and return what they printed."""
    (directory / "commands.txt").write_text("".join(f"{command}\n" for command in commands), encoding="utf-8")
    return venv.python("-c", COMMANDS, "commands.txt", cwd=directory).stdout


def run_tests(venv: Venv, directory: Path, packages: Iterable[Path]) -> None:
    """Run the tests of packages in one process, away from their sources."""
    for package in packages:
        shutil.copytree(package / "tests", directory / package.name / "tests")
    names = [path.name for path in directory.iterdir()]
    # pytest lets one conftest.py name plugins; each of these packages has one, which names the same.
    passed = venv.pytest(directory, "--noconftest", "-p", "rlcore_devkit", *names)
    assert {each.split("/")[0] for each in passed} == set(names)


# ------------------------------------------------------------ each kind


def test_a_strangers_plugin_passes_its_tests(
    strangers: Mapping[str, Path], groups: Mapping[str, list[str]], with_strangers: Venv, tmp_path: Path
) -> None:
    assert "torch" not in with_strangers.distributions()
    with_strangers.test(strangers["rlcore-acme"] / "tests", tmp_path / "one")  # with its own conftest.py
    others = [name for name in groups["libraries"] if name != "rlcore-acme"]
    run_tests(with_strangers, tmp_path / "all", (strangers[name] for name in others))


def test_a_strangers_plugin_in_pytorch_passes_its_tests(
    strangers: Mapping[str, Path], groups: Mapping[str, list[str]], with_torch_strangers: Venv, tmp_path: Path
) -> None:
    ours = {name for name in with_torch_strangers.distributions() if name.startswith("rlcore")}
    assert ours == {"rlcore", "rlcore-devkit", "rlcore-torch"}
    run_tests(with_torch_strangers, tmp_path, (strangers[name] for name in groups["PyTorch"]))


def test_plugins_on_other_plugins_pass_their_tests(
    strangers: Mapping[str, Path], groups: Mapping[str, list[str]], with_hooks: Venv, tmp_path: Path
) -> None:
    run_tests(with_hooks, tmp_path, (strangers[name] for name in groups["plugins"]))


def test_every_strangers_plugin_is_used_as_its_readme_says(
    strangers: Mapping[str, Path], with_all: Venv, with_hooks: Venv, tmp_path: Path
) -> None:
    for kinds, venv in (([kind for kind in KINDS if kind != "hooks"], with_all), (["hooks"], with_hooks)):
        directory = tmp_path / "-".join(kinds[:2])
        directory.mkdir()
        shown = run_commands(venv, directory, [line for kind in kinds for line in example_of(kind, strangers)])
        for kind in kinds:
            name = distribution_of(kind).replace("-rl-", "-").removeprefix("rlcore-")
            result = json.loads((directory / f"results/{name}/result.json").read_text())
            assert result["outcome"] == "done", kind
            assert kind not in LEFT or (directory / LEFT[kind]).is_file()
        assert "hooks" not in kinds or "acme-hooks: vision, 0.02, best: CartPole " in shown


def example_of(kind: str, strangers: Mapping[str, Path]) -> list[str]:
    """The commands with which the README uses the package, with a shorter run."""
    package = strangers[distribution_of(kind)]
    readme = (package / "README.md").read_text(encoding="utf-8")
    [block] = [block for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) if "rlcore run " in block]
    install, run, *others = block.splitlines()
    assert install == f"pip install {shlex.join(KINDS[kind].needs)}" and run == "rlcore run example.yaml"
    example = package / "example.yaml"
    config = yaml.safe_load(example.read_text(encoding="utf-8"))
    [behavior] = config["behaviors"]
    shorter = {f"behaviors.{behavior}.max_steps": 1024 if kind == "replay-sampler" else 2048}
    if "evaluation" in config:
        shorter["evaluation.episodes"] = 4
    options = [word for key, value in shorter.items() for word in ("--set", f"{key}={value}")]
    return [shlex.join(["rlcore", "run", str(example), "--seed", "1", *options]), *others]


# ------------------------------------------------------------ one after the other


def test_a_strangers_trainer_learns_in_a_strangers_environment_without_torch(
    with_strangers: Venv, tmp_path: Path
) -> None:
    (tmp_path / "stranger.yaml").write_text(TRAINER_ON_ENVIRONMENT)
    with_strangers.rlcore("run", "stranger.yaml", "--seed", "1", cwd=tmp_path)
    measured = with_strangers.rlcore("evaluate", "stranger", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Agent"]["mean_reward"] > 0.9  # the best is 0.98
    written = json.loads((tmp_path / "results/stranger/result.json").read_text())
    assert written["outcome"] == "done"
    with_strangers.rlcore("run", "--resume", "--run-id", "stranger", cwd=tmp_path)


def test_several_kinds_of_one_package_work_together(
    strangers: Mapping[str, Path], with_strangers: Venv, tmp_path: Path
) -> None:
    config = TRAINER_ON_ENVIRONMENT.replace("maze", "walker").replace("stranger", "several")
    config = config.replace("max_steps: 20000", "max_steps: 5000\n    reward_signals: {extrinsic: {}, walker: {}}")
    (tmp_path / "several.yaml").write_text(config)
    with_strangers.rlcore("run", "several.yaml", "--seed", "1", cwd=tmp_path)
    assert json.loads((tmp_path / "results/several/result.json").read_text())["outcome"] == "done"
    listed = json.loads(with_strangers.rlcore("plugins", "list", "--provides", "--json", cwd=tmp_path).stdout)
    [row] = [row for row in listed["plugins"] if row["distribution"] == "acme-rl-walker"]
    assert row["name"] == "walker" and set(row["provides"]) == {"reward:walker", "environment:walker"}
