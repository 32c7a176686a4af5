"""Environments of other packages: how an id finds its package, and what is said where the package is absent."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from one_behavior import act, begin

from rlcore import ConfigError, EpisodeSeeds
from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_gymnasium.worlds import WORLDS

__all__ = ["run_rlcore"]

# An id as users type it, the module that registers it, and the extra that installs the module.
KNOWN = {
    "ALE/Pong-v5": ("ale_py", "atari"),
    "PongNoFrameskip-v4": ("ale_py", "atari"),
    "MiniGrid-Empty-5x5-v0": ("minigrid", "minigrid"),
    "BabyAI-GoToObj-v0": ("minigrid", "minigrid"),
    "FetchReachDense-v4": ("gymnasium_robotics", "robotics"),
    "PointMaze_UMazeDense-v3": ("gymnasium_robotics", "robotics"),
    "highway-fast-v0": ("highway_env", "highway"),
    "merge-v0": ("highway_env", "highway"),
}


def file_with(tmp_path, env_id: str):
    path = tmp_path / "config.yaml"
    path.write_text(f"environment: {{type: gymnasium, id: '{env_id}'}}\nbehaviors: {{A: {{}}}}\npreset: none\n")
    return path


@pytest.mark.parametrize("env_id", [*KNOWN][::2])
def test_an_id_of_a_known_package_needs_no_module_in_front(env_id: str) -> None:
    module, _ = KNOWN[env_id]
    pytest.importorskip(module)
    program = (  # in a new process: this one may have imported the module already
        "import sys; from rlcore_gymnasium.plugin import check_id, registered\n"
        f"check_id({env_id!r}); assert {module!r} not in sys.modules\n"
        f"print(registered({env_id!r}).id)"
    )
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip().endswith(env_id), ran.stderr


@pytest.mark.parametrize("prefix", ["", "module:"])
@pytest.mark.parametrize("env_id", KNOWN)
def test_a_known_package_that_is_absent_is_named_with_the_extra_that_installs_it(
    run_rlcore: RunRlcore, tmp_path, monkeypatch, env_id: str, prefix: str
) -> None:
    module, extra = KNOWN[env_id]
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr("rlcore_gymnasium.modules._is_installed", lambda package: False)
    monkeypatch.setattr("rlcore_gymnasium.plugin._registry", dict)
    monkeypatch.setattr("gymnasium.registry", {})
    written = prefix.replace("module", module) + env_id
    refused = run_rlcore("validate", str(file_with(tmp_path, written)))
    said = f"{written!r}: cannot import {module!r}: it is not installed; run: pip install 'rlcore-gymnasium[{extra}]'"
    assert refused.exit_code == 2 and said in refused.stdout


def test_the_extras_that_messages_name_exist() -> None:
    about = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    extras = about["project"]["optional-dependencies"]
    named = {world.install for world in WORLDS if "rlcore" in world.install}
    assert len(named) == 5 and named <= {f"'rlcore-gymnasium[{extra}]'" for extra in extras}


def test_a_misspelled_id_of_a_known_package_is_answered_with_the_nearest(make) -> None:
    pytest.importorskip("minigrid")
    with pytest.raises(ConfigError, match="did you mean 'MiniGrid-Empty-5x5-v0'"):
        make("minigrid-Empty-5x5-v0")
    with pytest.raises(ConfigError, match="did you mean 'minigrid:MiniGrid-Empty-5x5-v0'"):
        make("minigrid:MiniGrid-Empty-5x5-v00")


def test_a_module_that_does_not_register_the_id_is_named(make, tmp_path, monkeypatch) -> None:
    (tmp_path / "hollow_package.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for env_id in ("hollow_package/Zz9-v0", "hollow_package:Zz9-v0"):
        told = f"'{env_id}' is not registered with Gymnasium, and the module 'hollow_package' does not register it"
        with pytest.raises(ConfigError, match=told):
            make(env_id)


def test_a_package_that_is_there_and_fails_is_not_to_be_installed_again(make, tmp_path, monkeypatch) -> None:
    (tmp_path / "miniworld.py").write_text(
        "class NoSuchDisplayException(Exception): ...\nraise NoSuchDisplayException('Cannot connect to None')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "miniworld", raising=False)
    with pytest.raises(ConfigError) as caught:
        make("MiniWorld-Hallway-v0")
    told = str(caught.value)
    assert told.endswith("Cannot connect to None; without a display, set the environment variable PYGLET_HEADLESS=true")


def test_a_namespace_that_is_an_installed_module_is_imported_to_register_its_ids(make, tmp_path, monkeypatch) -> None:
    (tmp_path / "acme_mazes.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('acme_mazes/Maze-v0', entry_point='gymnasium.envs.classic_control:AcrobotEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    environment = make("acme_mazes/Maze-v0")
    begin(environment, EpisodeSeeds(0))
    batch = act(environment)
    assert batch.reward.tolist() == [-1.0, -1.0]
