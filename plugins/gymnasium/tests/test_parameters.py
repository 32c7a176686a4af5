"""The three ways in which an environment parameter reaches an environment that is stepped in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gym_play import register
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from one_behavior import act, begin

from rlcore import ConfigError, EnvironmentFailed, EpisodeSeeds
from rlcore_gymnasium.parameter_settings import ParameterRoute

SEEDS = EpisodeSeeds(3)
ARGUMENTS = "size, gain, offset, slots, max_episode_steps"
REFUSED = yaml.safe_load((Path(__file__).parent / "data/refused_parameters.yaml").read_text("utf-8"))
BLOCKS = yaml.safe_load((Path(__file__).parent / "data/wrong_blocks.yaml").read_text("utf-8"))
KINDS = yaml.safe_load((Path(__file__).parent / "data/kinds_of_numbers.yaml").read_text("utf-8"))
NUMBERS = ", ".join(f"unwrapped.{name}" for name in ("gain", "level", "narrow", "offset", "pull", "size", "tilt"))


def dials(environment: Any) -> list[Any]:
    return [env.unwrapped for env in environment.vector.envs]


def received(environment: Any, name: str) -> list[list[Any]]:
    """Return what each reset of each environment's current object received."""
    return [[entry[name] for entry in dial.journal] for dial in dials(environment)]


def give(environment: Any, **values: list[float]) -> None:
    """Give the environments values of parameters for their next episodes."""
    environment.set_parameters({name: np.array(each, np.float64) for name, each in values.items()})


def play(environment: Any, **values: list[float]) -> None:
    """Begin an episode with these values everywhere."""
    give(environment, **values)
    begin(environment, SEEDS)


# ---------------------------------------------------------------- the ways


@pytest.mark.parametrize(("how", "value", "arrives"), [*KINDS, ("attribute unwrapped.narrow", 0.25, np.float32(0.25))])
def test_a_number_arrives_as_the_kind_that_the_attribute_or_the_annotation_has(make, dial, how, value, arrives) -> None:
    way, target = how.split()
    environment = make(dial, 1, parameters={"number": {way: target}})
    play(environment, number=[value])
    [[found]] = received(environment, target.rpartition(".")[2])
    assert found == arrives and type(found) is type(arrives)


@pytest.mark.parametrize(("value", "arrives"), [(0.25, 0.25), (2.0, 2)])
def test_an_attribute_that_is_an_argument_too_takes_what_the_argument_takes(make, value, arrives) -> None:
    environment = make("MountainCar-v0", 1, parameters={"goal_velocity": None})  # of __init__(..., goal_velocity=0)
    play(environment, goal_velocity=[value])
    found = dials(environment)[0].goal_velocity
    assert found == arrives and type(found) is type(arrives)


def test_a_constructor_argument_creates_the_environment_again_if_its_value_changed(make, dial) -> None:
    environment = make(dial, 2, parameters={"size": {"constructor": "size"}}, gain=2.0)
    play(environment, size=[2, 3])
    first = dials(environment)
    assert [env.size for env in first] == [2, 3] and [type(env.size) for env in first] == [int, int]
    assert [env.gain for env in first] == [2.0, 2.0]  # environment.options applies to later ones too
    give(environment, size=[2, 5])
    act(environment, steps=2)  # environment 0 ends: its value is unchanged
    assert dials(environment)[0] is first[0] and environment.episodes.tolist() == [1, 0]
    act(environment, steps=1)  # environment 1 ends
    second = dials(environment)
    assert second[1] is not first[1] and second[1].size == 5 and (first[1]._closed, second[1]._closed) == (1, 0)
    batch = act(environment, steps=5)
    assert batch.ended.tolist() == [0, 1][int(batch.ended[0]) :]
    assert environment.episodes.tolist() == [4, 2]


def test_an_environment_that_is_created_again_plays_the_episode_of_a_new_one(make, dial) -> None:
    environment = make(dial, 1, parameters={"gain": {"constructor": "gain"}, "pull": None})
    play(environment, gain=[3.0], pull=[4.0])
    give(environment, gain=[6.0])
    batch = act(environment, steps=4)
    assert batch.observations["observation"].tolist() == [[0, 4, 6, 10, 3, 4, 0]]  # the attribute was set again
    assert batch.final_observations["observation"].tolist() == [[4, 4, 3, 10, 3, 4, 0]]
    plain = gymnasium.make(dial, gain=6.0)
    plain.reset(seed=SEEDS(0, 1))
    assert dials(environment)[0].np_random.random() == plain.unwrapped.np_random.random()


def test_the_time_limit_is_an_argument_of_every_environment(make) -> None:
    environment = make("MountainCar-v0", 2, parameters={"max_episode_steps": None}, max_episode_steps=4)
    play(environment, max_episode_steps=[3, 5])
    assert [act(environment).truncated.tolist() for _ in range(5)] == [
        [False, False], [False, False], [True, False], [False, False], [False, True],
    ]  # fmt: skip


def test_a_parameter_without_a_block_is_an_attribute_before_an_argument(make, dial) -> None:
    environment = make(dial, 1, parameters={"size": None, "gain": {"whole": True}, "slots": None})
    play(environment, size=[2], gain=[5], slots=[7])
    assert dials(environment)[0].size == 2 and type(dials(environment)[0].gain) is int
    before = dials(environment)[0]
    give(environment, size=[3])
    act(environment, steps=2)
    assert dials(environment)[0] is before  # an attribute does not create a new environment


@pytest.mark.parametrize(("whole", "arrives"), [(True, 7), (False, 7.0)])
def test_whole_says_which_kind_of_number_arrives(make, dial, whole, arrives) -> None:
    environment = make(dial, 1, parameters={"push": {"reset_option": "boost", "whole": whole}})
    play(environment, push=[7.0])
    assert [type(value) for [value] in received(environment, "boost")] == [type(arrives)]


@pytest.mark.parametrize("filmed", [False, True])
def test_an_attributes_path_starts_at_the_environment_with_and_without_video(make, dial, tmp_path, filmed) -> None:
    if filmed:
        pytest.importorskip("imageio_ffmpeg", reason="films need the extra 'video'")
    parameters = {"limit": {"attribute": "_max_episode_steps"}}  # of the wrapper with the time limit
    environment = make(
        dial, 1, parameters=parameters, video=tmp_path / "films" if filmed else None, max_episode_steps=2
    )
    play(environment, limit=[3])
    assert [bool(act(environment).truncated[0]) for _ in range(4)] == [False, False, True, False]
    environment.close()


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_way_that_leads_nowhere_is_refused_when_the_environment_is_made(make, dial, case) -> None:
    with pytest.raises(ConfigError) as refused:
        make(dial, 2, parameters=case["parameters"])
    message = case["message"].format(arguments=ARGUMENTS, numbers=NUMBERS)
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


def test_an_unknown_name_is_refused_later_too(make, dial) -> None:
    environment = make(dial, 2, parameters={"push": {"reset_option": "boost"}})
    with pytest.raises(ConfigError, match="has no such parameter; it has push, gain, "):
        give(environment, pussh=[1, 1])
    give(environment, push=[1, 1])


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"attribute": "unwrapped.level"}, "attribute 'unwrapped.level'"),
        ({"constructor": "size"}, "constructor argument 'size'"),
        ({"reset_option": "boost", "whole": True}, "reset option 'boost'"),
    ],
)
def test_a_fraction_for_a_whole_number_is_refused_before_anything_is_played(make, dial, how, what) -> None:
    environment = make(dial, 2, parameters={"number": how})
    with pytest.raises(ConfigError) as refused:
        play(environment, number=[3.0, 3.5])
    assert str(refused.value) == (
        f"environment_parameters.number: 3.5 is not a whole number, but the {what} of rlcore-tests/Dial-v0 is; use "
        "whole numbers, or set whole: false in environment.parameters.number"
    )


def test_an_environment_with_other_spaces_is_refused(make, dial) -> None:
    environment = make(dial, 1, parameters={"slots": None})
    with pytest.raises(ConfigError) as refused:
        play(environment, slots=[8])
    assert str(refused.value) == (
        "rlcore-tests/Dial-v0: made with slots=8, its observation space is Box(-inf, inf, (8,), float64) instead of "
        "Box(-inf, inf, (7,), float64); an environment parameter must leave what agents see and do as it is"
    )
    environment.close()


@pytest.mark.parametrize(("block", "message"), BLOCKS)
def test_a_block_says_one_thing(block, message) -> None:
    with pytest.raises(ConfigError) as refused:
        ParameterRoute(**block)
    assert str(refused.value) == message


def test_a_vectorized_form_alone_takes_no_parameters(make) -> None:
    env_id = register("rlcore-tests/Vector-v0", vector_entry_point=type("Other", (CartPoleVectorEnv,), {}))
    with pytest.raises(EnvironmentFailed) as failed:
        make(env_id, 2, parameters={"length": None})
    assert str(failed.value) == (
        "rlcore-tests/Vector-v0: has only a vectorized form, which supports no environment parameters (length)"
    )
