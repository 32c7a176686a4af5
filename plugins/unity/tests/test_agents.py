"""Agents get slots: messages as Unity sends them, made by hand, and what rlcore receives of each slot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_unity.agents import BehaviorArrays, Seated
from rlcore_unity.behaviors import Brain, UnusableBehavior, read_brain, split_name
from rlcore_unity.census import Counted, Seats
from rlcore_unity.mlagents_messages import ActionSpec, AgentInfo, BrainParameters, Observation
from rlcore_workers import PlayerFailed

SEATINGS = yaml.safe_load((Path(__file__).parent / "data/seatings.yaml").read_text("utf-8"))


class NoPlayer:
    number = 0

    def failed(self, problem: str) -> PlayerFailed:
        return PlayerFailed(problem, [])


def agent(number: int, sees: Sequence[float] = (0.0,), reward: float = 0.0, **fields: Any) -> Any:
    info = AgentInfo(id=number, reward=reward, **fields)
    info.observations.add(shape=[len(sees)], name="vector").float_data.data.extend(sees)
    return info


def brain_of(continuous: int = 1, branches: tuple[int, ...] = (), sees: Any = None) -> Brain:
    actions = ActionSpec(
        num_continuous_actions=continuous, num_discrete_actions=len(branches), discrete_branch_sizes=branches
    )
    return read_brain(BrainParameters(brain_name="Ball?team=0", action_spec=actions), (sees or agent(0)).observations)


def seated(groups: Sequence[int], brain: Brain | None = None) -> tuple[Seated, BehaviorArrays]:
    brain = brain or brain_of()
    group = np.array(groups) if max(groups) >= 0 else None
    spec = BehaviorSpec(
        brain.name,
        brain.spec.observations,
        brain.spec.continuous,
        brain.spec.discrete,
        brain.spec.low,
        brain.spec.high,
        env_index=np.zeros(len(groups), np.int64),
        group=group,
    )
    arrays = BehaviorArrays(spec)
    return Seated(NoPlayer(), Seats(brain, tuple(groups), Counted(brain)), arrays, 0), arrays  # type: ignore[arg-type]


def test_the_end_and_the_next_episode_in_one_message_are_one_slot() -> None:
    agents, arrays = seated([-1])
    agents.receive([agent(7, [1.0])])
    arrays.begin()
    assert agents.receive([agent(7, [2.0], reward=5.0, done=True), agent(8, [3.0], reward=9.0)])
    batch = arrays.batch()
    assert batch.observations["observation"].tolist() == [[3.0]]
    assert batch.reward.tolist() == [5.0]  # without what the next agent got before it could act
    assert (batch.terminated.tolist(), batch.truncated.tolist()) == ([True], [False])
    assert batch.final_observations is not None
    assert batch.final_observations["observation"].tolist() == [[2.0]]
    assert batch.needs_action is None
    assert agents.order.tolist() == [0]


def test_an_interrupted_episode_is_truncated() -> None:
    agents, arrays = seated([-1])
    agents.receive([agent(1)])
    arrays.begin()
    assert not agents.receive([agent(1, done=True, max_step_reached=True)])
    batch = arrays.batch()
    assert (batch.terminated.tolist(), batch.truncated.tolist()) == ([False], [True])
    assert batch.needs_action is not None and batch.needs_action.tolist() == [False]


def test_an_agent_that_does_not_decide_waits_with_its_transition_open() -> None:
    agents, arrays = seated([-1, -1])
    agents.receive([agent(1, [1.0]), agent(2, [2.0])])
    arrays.begin()
    agents.receive([agent(2, [3.0], reward=0.5)])
    batch = arrays.batch()
    assert batch.needs_action is not None and batch.needs_action.tolist() == [False, True]
    assert batch.reward.tolist() == [0.0, 0.5]
    assert batch.observations["observation"].tolist() == [[1.0], [3.0]]
    assert agents.order.tolist() == [1]


def test_an_agent_that_ends_before_it_acted_had_no_episode() -> None:
    agents, arrays = seated([-1])
    arrays.begin()
    agents.receive([agent(5, done=True), agent(6)])
    assert not arrays.batch().ended.size


@pytest.mark.parametrize("case", SEATINGS.values(), ids=SEATINGS)
def test_slots_of_agents_by_groups_and_messages(case: dict[str, Any]) -> None:
    agents, _ = seated(case["places"])
    for message, slots in case["messages"]:
        agents.receive([
            agent(int(number), group_id=int(group or 0), done=bool(end))
            for number, group, end in re.findall(r"(\d+)(?::(\d+))?(!?)", str(message))
        ])  # fmt: skip
        assert agents.order.tolist() == slots


def test_agents_beyond_the_places_act_without_being_learned_from(caplog: pytest.LogCaptureFixture) -> None:
    agents, arrays = seated([-1])
    assert agents.receive([agent(1), agent(2)])
    assert agents.order.tolist() == [0, -1]
    assert "environment.agents" in caplog.text
    arrays.begin()
    agents.receive([agent(1, done=True), agent(2, [7.0])])  # a place is free now
    assert agents.order.tolist() == [0]
    assert arrays.observations["observation"].tolist() == [[7.0]]


def test_agents_that_join_their_group_after_their_first_decision_keep_their_places() -> None:
    agents, arrays = seated([0, 0, 1, 1])
    agents.receive([agent(number) for number in range(4)])
    arrays.begin()
    agents.receive([agent(number, group_id=8 - number // 2, reward=1.0) for number in range(4)])
    batch = arrays.batch()
    assert batch.reward.tolist() == [1.0] * 4 and batch.aborted is None


def test_rewards_of_a_group_are_those_of_its_slots() -> None:
    agents, arrays = seated([0, 0, 1, 1])
    agents.receive([agent(number, group_id=group) for number, group in enumerate((31, 31, 30, 30))])
    arrays.begin()
    ends = [agent(number, group_id=30, done=True, group_reward=1.0) for number in (2, 3)]
    agents.receive([*ends, agent(0, group_id=31, group_reward=0.5), agent(8, group_id=30), agent(9, group_id=30)])
    batch = arrays.batch()
    assert batch.group_reward is not None and batch.group_reward.tolist() == [0.5, 0.0, 1.0, 1.0]
    assert batch.ended.tolist() == [2, 3]


def test_an_agent_that_turns_out_to_be_of_another_group_begins_an_episode_there() -> None:
    agents, arrays = seated([0, 0, 1, 1])
    agents.receive([agent(1), agent(2, group_id=5), agent(3, group_id=6)])
    arrays.begin()
    agents.receive([agent(1, reward=1.0, group_id=5), agent(2, group_id=5), agent(3, group_id=6, reward=2.0)])
    batch = arrays.batch()
    assert batch.aborted is not None and batch.aborted.tolist() == [True, False, False, False]
    assert batch.reward.tolist() == [0.0, 2.0, 0.0, 0.0]  # its reward is of the episode that is dropped
    assert agents.moved == 1


def test_forbidden_options_become_those_that_are_allowed() -> None:
    agents, arrays = seated([-1, -1], brain_of(0, (2, 3)))
    agents.receive([agent(1, action_mask=[True, False, False, True, True]), agent(2)])
    mask = arrays.batch().action_mask
    assert mask is not None and mask.tolist() == [[False, True, True, False, False], [True] * 5]


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        (agent(1, [0.0, 1.0]), "'observation' has shape"),
        (AgentInfo(id=1), "'observation' is missing"),
        (agent(1, action_mask=[True]), "mask of 1 options, and 5"),
        (agent(1, action_mask=[True, True, False, False, False]), "all options of branch 0"),
    ],
)
def test_what_does_not_fit_the_behavior_is_a_failure_of_the_player(info: Any, problem: str) -> None:
    agents, _ = seated([-1], brain_of(0, (2, 3)))
    with pytest.raises(PlayerFailed, match=problem):
        agents.receive([info])


def test_one_agent_twice_in_a_message_is_a_failure_of_the_player() -> None:
    agents, _ = seated([-1, -1])
    with pytest.raises(PlayerFailed, match="twice"):
        agents.receive([agent(1), agent(1)])


def test_numbers_of_many_agents_are_those_of_each() -> None:
    """The bytes of several agents are read at once."""
    generator = np.random.default_rng(0)
    for size in (1, 31, 32, 4095, 4096):  # around lengths whose own length takes another byte
        sees = generator.normal(size=(3, size)).astype(np.float32)
        agents, arrays = seated([-1] * 3, brain_of(sees=agent(0, sees[0].tolist())))
        agents.receive([agent(number, row.tolist()) for number, row in enumerate(sees)])
        assert (arrays.observations["observation"] == sees).all()


def test_a_lost_player_aborts_the_episodes_that_are_open_and_those_that_ended_in_this_step() -> None:
    agents, arrays = seated([-1, -1, -1])
    agents.receive([agent(1), agent(2)])
    arrays.begin()
    agents.receive([agent(1, done=True, reward=1.0)])
    assert agents.abort() == 2
    batch = arrays.batch()
    assert batch.aborted is not None and batch.aborted.tolist() == [True, True, False]
    assert not batch.ended.size and not batch.reward.any()


# ------------------------------------------------------------ descriptions


def test_old_packages_describe_one_kind_of_actions() -> None:
    sees = agent(0).observations
    real = BrainParameters(brain_name="A", vector_action_size_deprecated=[3], vector_action_space_type_deprecated=1)
    branches = BrainParameters(brain_name="A", vector_action_size_deprecated=[2, 3])
    assert (read_brain(real, sees).spec.continuous, read_brain(real, sees).spec.discrete) == (3, ())
    assert (read_brain(branches, sees).spec.continuous, read_brain(branches, sees).spec.discrete) == (0, (2, 3))


@pytest.mark.parametrize(
    ("full", "expected"),
    [("Soccer?team=1", ("Soccer", 1)), ("My Behavior", ("MyBehavior", 0)), ("3DBall?team=0", ("3DBall", 0))],
)
def test_a_name_is_without_team_and_spaces(full: str, expected: tuple[str, int]) -> None:
    assert split_name(full) == expected


@pytest.mark.parametrize("name", ["../../escaped", "/", "", "?team=0", "a" * 101, "a..b"])
def test_a_name_that_is_a_path_is_refused(name: str) -> None:
    with pytest.raises(UnusableBehavior, match="a behavior's name"):
        split_name(name)


@pytest.mark.parametrize(
    ("continuous", "branches", "problem"),
    [(0, (), "no actions"), (-1, (), "-1 real actions"), (0, (2**31 - 1,), "options"), (0, (2, 0), "options")],
)
def test_impossible_actions_are_refused(continuous: int, branches: tuple[int, ...], problem: str) -> None:
    with pytest.raises(UnusableBehavior, match=problem):
        brain_of(continuous, branches)


def test_a_goal_and_entities_are_what_demonstrations_call_them() -> None:
    info = AgentInfo()
    info.observations.add(shape=[10, 5], name="buffer", dimension_properties=[4, 1])
    info.observations.add(shape=[2], name="goal", observation_type=1)
    info.observations.add(shape=[3, 4, 5], name="camera", dimension_properties=[1, 2, 2])
    specs = brain_of(sees=info).spec.observations
    assert [(each.name, each.shape, each.kind, each.goal) for each in specs] == [
        ("buffer", (10, 5), "entities", False),
        ("goal", (2,), "vector", True),
        ("camera", (4, 5, 3), "image", False),
    ]
    assert isinstance(specs[0], ObservationSpec)


def test_an_impossible_shape_is_refused() -> None:
    for shape in ([-1], [100_000, 100_000, 3]):
        with pytest.raises(UnusableBehavior, match="has the shape"):
            brain_of(sees=AgentInfo(observations=[Observation(shape=shape)]))


def test_agents_without_a_place_are_counted_with_the_others() -> None:
    agents, _ = seated([-1, -1])
    agents.receive([agent(1), agent(2)])
    assert not agents.crowded
    agents.receive([agent(3)])  # in a message of its own: the others decide later
    agents.receive([agent(4), agent(3)])
    assert agents.crowded and agents.seats.enlarged().groups == (-1,) * 4
    agents.receive([agent(3, done=True), agent(5)])
    assert len(agents.seats.enlarged().groups) == 4, "three and four were not there at once with five"
    agents.receive([agent(1, done=True), agent(5)])
    assert [slot for slot in agents.order if slot >= 0] == [0], "the first place that is free"


def test_places_are_added_for_groups() -> None:
    agents, _ = seated([0, 0])
    agents.receive([agent(1, group_id=7), agent(2, group_id=7)])
    agents.receive([agent(3, group_id=9), agent(4, group_id=9), agent(5, group_id=9)])
    assert agents.crowded and agents.seats.enlarged().groups == (0, 0, 0, 1, 1)
