"""``make_environment``: the chosen form, and the errors."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import gymnasium
import pytest
import yaml
from gym_play import register
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode
from one_behavior import act, begin

from rlcore import ConfigError, EnvironmentFailed
from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.native import NextStepEnvironment

__all__ = ["run_rlcore"]


class OtherCartPole(CartPoleVectorEnv):
    """A native environment that rlcore does not know."""


class SilentCartPole(CartPoleVectorEnv):
    """A native environment that does not declare when it resets."""

    metadata = {"render_modes": []}


def test_an_unknown_native_environment_is_adapted_by_its_autoreset_mode(make) -> None:
    assert OtherCartPole.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env_id = register("rlcore-tests/Other-v0", vector_entry_point=OtherCartPole)
    assert type(make(env_id)) is NextStepEnvironment


@pytest.mark.filterwarnings("ignore:.*missing AutoresetMode")
def test_a_native_form_that_does_not_say_when_it_resets_is_not_used(make) -> None:
    how = {"vector_entry_point": SilentCartPole}
    both = register("rlcore-tests/Silent-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", **how)
    assert isinstance(make(both), InProcessEnvironment)
    only = register("rlcore-tests/Silent-v1", **how)
    with pytest.raises(EnvironmentFailed, match="autoreset_mode"):
        make(only)


def test_the_behavior_has_the_name_in_the_file_and_one_slot_per_environment(make) -> None:
    environment = make("Acrobot-v1", 3, names=("Swinger",))
    assert environment.num_envs == 3
    spec = environment.behaviors["Swinger"]
    assert spec.name == "Swinger" and spec.env_index.tolist() == [0, 1, 2] and spec.discrete == (3,)


def test_a_module_before_the_id_is_imported_to_register_it(make, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "acme_worlds", types.ModuleType("acme_worlds"))
    register("acme/World-v0", entry_point="gymnasium.envs.classic_control:AcrobotEnv", max_episode_steps=5)
    assert isinstance(make("acme_worlds:acme/World-v0"), InProcessEnvironment)
    with pytest.raises(ConfigError, match="cannot import 'acme_missing'"):
        make("acme_missing:acme/World-v0")


@pytest.mark.parametrize("name", ["T/Unheard-v0", "CartPol-v1"])  # one near an id of Gymnasium, and one near none
def test_a_module_of_python_in_place_of_a_file_beside_the_configuration_is_named(make, name: str) -> None:
    with pytest.raises(ConfigError, match=r"'code' does not register it \(it is .*code\.py; give code\.py beside"):
        make(f"code:{name}")


def test_options_reach_the_constructor_of_either_form(make) -> None:
    native = make("CartPole-v1", sutton_barto_reward=True)
    begin(native)
    assert act(native).reward.tolist() == [0.0, 0.0]
    assert make("Pendulum-v1", g=3.5).vector.envs[0].unwrapped.g == 3.5


DATA = Path(__file__).parent / "data"
IDS = yaml.safe_load((DATA / "wrong_ids.yaml").read_text("utf-8"))
VALIDATED = yaml.safe_load((DATA / "validated_ids.yaml").read_text("utf-8"))
ELSEWHERE = " (an environment of another package is written 'its_module:Name-v0')"


@pytest.mark.parametrize(("env_id", "message"), IDS.items())
@pytest.mark.parametrize("block", ["environment", "evaluation.environment"])
def test_a_wrong_id_is_refused_before_anything_is_made(
    make, run_rlcore: RunRlcore, tmp_path, env_id: str, message: str, block: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "environment: {type: gymnasium, id: CartPole-v1}\nevaluation: {interval: 9}\nbehaviors: {A: {}}\npreset: none\n"
    )
    refused = run_rlcore("validate", str(config), "--set", f"{block}.id='{env_id}'")
    assert refused.exit_code == 2 and f"--set {block}.id: {message.format(elsewhere=ELSEWHERE)}" in refused.stdout
    if block == "environment" and "." not in env_id:
        with pytest.raises(ConfigError, match=re.escape(message.format(elsewhere=ELSEWHERE))):
            make(env_id or None)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "acme:Maze-v0", "SomethingThatAPluginRegisters-v3"])
def test_an_id_that_may_be_one_is_not_refused_and_its_module_not_imported(
    run_rlcore: RunRlcore, tmp_path, monkeypatch, env_id: str
) -> None:
    (tmp_path / "acme.py").write_text("raise AssertionError\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = f"environment: {{type: gymnasium, id: '{env_id}'}}\nbehaviors: {{A: {{}}}}\npreset: none\n"
    (tmp_path / "config.yaml").write_text(text)
    done = run_rlcore("validate", str(tmp_path / "config.yaml"))
    assert done.exit_code == 0 and ": valid" in done.stdout


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_an_option_the_constructor_does_not_take_is_one_line_with_id_and_options(make, env_id) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        make(env_id, gravitty=1)
    message = str(caught.value)
    assert message.startswith(f"{env_id}: cannot be made with options {{'gravitty': 1}}") and "\n" not in message
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("mujoco", "pip install 'rlcore-gymnasium[mujoco]'"),
        ("Box2D", "pip install 'rlcore-gymnasium[box2d]'"),
        ("pygame", "pip install 'rlcore-gymnasium[video]'"),
    ],
)
def test_a_missing_package_names_the_extra_that_brings_it(make, module, hint) -> None:
    def needs_a_package(**options: object) -> None:
        told = f'{module} is not installed, you can install it by run `pip install "gymnasium[{module.lower()}]"`'
        raise gymnasium.error.DependencyNotInstalled(told)

    env_id = register("rlcore-tests/Needs-v0", entry_point=needs_a_package)
    with pytest.raises(EnvironmentFailed, match=re.escape(hint)) as caught:
        make(env_id)
    assert str(caught.value).count("pip install") == 1


@pytest.mark.parametrize("env_id", VALIDATED)
def test_validate_calls_no_id_valid_that_it_does_not_know(run_rlcore: RunRlcore, tmp_path: Path, env_id: str) -> None:
    if env_id in ("Pong-v5", "SpaceInvaders-v5"):
        pytest.importorskip("ale_py")
    code, message = VALIDATED[env_id]
    config = tmp_path / "config.yaml"
    config.write_text(f"environment: {{type: gymnasium, id: {env_id}}}\nbehaviors: {{B: {{}}}}\npreset: none\n")
    done = run_rlcore("validate", str(config))
    assert done.exit_code == code and message in done.stdout
    listed = json.loads(run_rlcore("validate", str(config), "--json").stdout)
    assert len(listed.get("not_checked", [])) == ("not checked" in message)
