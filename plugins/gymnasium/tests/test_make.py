"""``make_environment``: the chosen form, and the errors."""

from __future__ import annotations

import sys
import types

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode

from rlcore import Actions, ConfigError, EnvironmentFailed, EpisodeSeeds, UnsupportedSpace
from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_gymnasium.cartpole import CartPoleEnvironment
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.native import NextStepEnvironment
from rlcore_gymnasium.plugin import rlcore_environments

__all__ = ["run_rlcore"]


def register(env_id: str, **how: object) -> str:
    gymnasium.registry.pop(env_id, None)
    gymnasium.register(env_id, **how)
    return env_id


class OtherCartPole(CartPoleVectorEnv):
    """A native environment that rlcore does not know."""


class SilentCartPole(CartPoleVectorEnv):
    """A native environment that does not declare when it resets."""

    metadata = {"render_modes": []}


def test_the_native_form_is_used_if_there_is_one(make) -> None:
    assert isinstance(make("CartPole-v1"), CartPoleEnvironment)
    assert isinstance(make("Acrobot-v1"), InProcessEnvironment)


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


def test_the_record_says_that_the_file_names_the_behavior() -> None:
    (record,) = rlcore_environments()
    assert not record.names_behaviors


@pytest.mark.parametrize(("env_id", "near"), [("CartPole-v3", "CartPole-v"), ("cartpole-v1", "CartPole-v1")])
def test_an_unknown_id_names_the_nearest(make, env_id, near) -> None:
    with pytest.raises(ConfigError, match=f"{env_id}.*did you mean '{near}"):
        make(env_id)


def test_an_id_without_its_version_is_refused_because_it_would_change_with_gymnasium(make) -> None:
    with pytest.raises(ConfigError, match="did you mean 'CartPole-v1'"):
        make("CartPole")


def test_a_missing_id_is_refused(make) -> None:
    with pytest.raises(ConfigError, match=r"environment\.id: missing"):
        make(None)


def test_a_module_before_the_id_is_imported_to_register_it(make, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "acme_worlds", types.ModuleType("acme_worlds"))
    register("acme/World-v0", entry_point="gymnasium.envs.classic_control:AcrobotEnv", max_episode_steps=5)
    assert isinstance(make("acme_worlds:acme/World-v0"), InProcessEnvironment)
    with pytest.raises(ConfigError, match="cannot import 'acme_missing'"):
        make("acme_missing:acme/World-v0")


def test_options_reach_the_constructor_of_either_form(make) -> None:
    native = make("CartPole-v1", sutton_barto_reward=True)
    native.reset(EpisodeSeeds(0), np.zeros(2, np.int64))
    act = {"Agent": Actions(discrete=np.zeros((2, 1), np.int64))}
    assert native.step(act)["Agent"].reward.tolist() == [0.0, 0.0]
    assert make("Pendulum-v1", g=3.5).vector.envs[0].unwrapped.g == 3.5


OTHER_PACKAGE = " (an environment of another package is written 'its_module:Name-v0')"


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("CartPol-v1", f"'CartPol-v1' is not registered with Gymnasium; did you mean 'CartPole-v1'?{OTHER_PACKAGE}"),
        ("cartpole-V1", f"'cartpole-V1' is not registered with Gymnasium; did you mean 'CartPole-v1'?{OTHER_PACKAGE}"),
        ("ALE/Zaxxon-v5", "'ALE/Zaxxon-v5' is not registered with Gymnasium; did you mean 'ale_py:ALE/Zaxxon-v5'?"),
        ("sys:CartPol-v1", "'sys:CartPol-v1' is not registered with Gymnasium; did you mean 'sys:CartPole-v1'?"),
        ("no_such.module:Maze-v0", "'no_such.module:Maze-v0': cannot import 'no_such.module': it is not installed"),
        (".:Maze-v0", "'.:Maze-v0': cannot import '.': it is not installed"),
        ("", "missing; name a Gymnasium environment, such as CartPole-v1"),
    ],
)
@pytest.mark.parametrize("block", ["environment", "evaluation.environment"])
def test_a_wrong_id_is_refused_before_anything_is_made(
    run_rlcore: RunRlcore, tmp_path, monkeypatch, env_id: str, message: str, block: str
) -> None:
    of_ale = [name for name, spec in gymnasium.registry.items() if "ale_py" in str(spec.entry_point)]
    for name in of_ale:  # a test imported ale_py
        monkeypatch.delitem(gymnasium.registry, name)
    config = tmp_path / "config.yaml"
    config.write_text(
        "environment: {type: gymnasium, id: CartPole-v1}\nevaluation: {interval: 9}\nbehaviors: {A: {}}\n"
    )
    refused = run_rlcore("validate", str(config), "--set", f"{block}.id='{env_id}'")
    assert refused.exit_code == 2 and f"--set {block}.id: {message}" in refused.stdout


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "acme:Maze-v0", "SomethingThatAPluginRegisters-v3"])
def test_an_id_that_may_be_one_is_not_refused_and_its_module_not_imported(
    run_rlcore: RunRlcore, tmp_path, monkeypatch, env_id: str
) -> None:
    (tmp_path / "acme.py").write_text("raise AssertionError\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "config.yaml").write_text(f"environment: {{type: gymnasium, id: '{env_id}'}}\nbehaviors: {{A: {{}}}}\n")
    assert run_rlcore("validate", str(tmp_path / "config.yaml")).stdout.endswith(": valid\n")


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_an_option_the_constructor_does_not_take_is_one_line_with_id_and_options(make, env_id) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        make(env_id, gravitty=1)
    message = str(caught.value)
    assert message.startswith(f"{env_id}: cannot be made with options {{'gravitty': 1}}") and "\n" not in message
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("module", "hint"),
    [("mujoco", "pip install 'rlcore-gymnasium[mujoco]'"), ("Box2D", "pip install 'gymnasium[box2d]'")],
)
def test_a_missing_package_names_the_extra_that_brings_it(make, module, hint) -> None:
    def needs_a_package(**options: object) -> None:
        raise gymnasium.error.DependencyNotInstalled(f"{module} is not installed")

    env_id = register("rlcore-tests/Needs-v0", entry_point=needs_a_package)
    with pytest.raises(EnvironmentFailed) as caught:
        make(env_id)
    assert hint in str(caught.value)


def test_a_native_form_whose_package_is_missing_says_so(make) -> None:
    if "jax" in sys.modules:
        pytest.skip("jax is installed")
    with pytest.raises(EnvironmentFailed, match=r"phys2d/CartPole-v1: a package it needs is not installed.*jax"):
        make("phys2d/CartPole-v1")


def test_an_unsupported_space_is_named_with_the_environment(make, recorder) -> None:
    with pytest.raises(UnsupportedSpace, match=rf"{recorder}.*Text"):
        make(recorder, action_space=spaces.Text(3))


def test_a_tuple_of_numbers_is_an_observation_for_each(make) -> None:
    environment = make("Blackjack-v1", 2)
    sums = environment.reset(EpisodeSeeds(0), np.zeros(2, np.int64))["Agent"].observations
    assert {name: array.shape for name, array in sums.items()} == {"0": (2, 32), "1": (2, 11), "2": (2, 2)}
    dealt = gymnasium.make("Blackjack-v1").reset(seed=EpisodeSeeds(0)(1, 0))[0]
    assert tuple(int(sums[name][1].argmax()) for name in sums) == dealt


def test_hybrid_and_image_environments_step(make, recorder) -> None:
    environment = make(
        recorder, 2, ends=["", "truncated"],
        action_space=spaces.Tuple((spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,)))),
        observation_space=spaces.Dict(eyes=spaces.Box(0, 255, (4, 4, 3), np.uint8), speed=spaces.Box(-1, 1, (2,))),
    )  # fmt: skip
    environment.reset(EpisodeSeeds(0), np.zeros(2, np.int64))
    actions = Actions(np.full((2, 2), 0.5, np.float32), np.array([[1], [2]]))
    for _ in range(2):
        batch = environment.step({"Agent": actions})["Agent"]
    assert batch.truncated.all()
    assert batch.final_observations["eyes"].shape == (2, 4, 4, 3) and batch.observations["eyes"].dtype == np.uint8
    choice, aim = environment.vector.envs[1].unwrapped.actions[0]
    assert choice == 2 and aim.tolist() == [0.5, 0.5]
