"""The test player keeps the rules of players: it names its misbehaviors, and refuses answers that Unity cannot use."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import unity_faults
from unity_contract import Action, ForbiddenAction, Report
from unity_games import make_game
from unity_player import Package
from unity_worlds import make_world

from rlcore import EpisodeSeeds


def test_every_misbehavior_is_described() -> None:
    described = re.findall(r"^``([a-z0-9-]+)``", unity_faults.__doc__ or "", re.MULTILINE)
    assert sorted(described) == sorted(unity_faults.FAULTS) and len(described) >= 40
    for name in described:
        unity_faults.fault_of(name)


@pytest.mark.parametrize(
    ("version", "communication", "hybrid", "first"),
    [("1.0.8", "1.0.0", False, False), ("2.3.0", "1.5.0", True, False), ("4.0.0", "1.5.0", True, True)],
)
def test_packages_differ(version: str, communication: str, hybrid: bool, first: bool) -> None:
    package = Package(version)
    assert (package.communication, package.hybrid, package.channels_first) == (communication, hybrid, first)


def walk(world: object, reports: list[Report], way: float = 1.0) -> list[Report]:
    """Let all agents that wait go to their goals, or away from them."""
    actions = {}
    for report in reports:
        if not report.done:
            right = report.sees[0].flat[0] * way > 0
            actions[report.agent] = (
                Action((1.0 if right else -1.0,)) if "Reach" in report.behavior else Action((), (int(right),))
            )
    return world.step(actions)  # type: ignore[attr-defined, no-any-return]


def test_who_walks_to_the_goal_is_right_and_the_next_episode_is_in_the_same_message() -> None:
    world = make_world("continuous", seed=1, agents=1)
    reports = world.reset()
    for _ in range(4):
        reports = walk(world, reports)
        assert [(each.reward, each.done) for each in reports] == [(-0.01, False)]
    end, begin = walk(world, reports)
    assert (end.reward, end.done, end.cut) == (1.0, True, False)
    assert not begin.done and begin.agent != end.agent


def test_a_group_ends_together_and_shares_its_reward() -> None:
    world = make_world("groups", seed=1, agents=3)
    reports = world.reset()
    for _ in range(4):
        reports = walk(world, reports)
    reports = walk(world, reports, way=-1.0)
    assert not any(each.done for each in reports)
    reports = walk(world, walk(world, reports))
    ends = [each for each in reports if each.done]
    assert [(each.group, each.group_reward, each.cut) for each in ends] == [(1, 1.0, False)] * 3


def test_an_option_that_is_forbidden_ends_the_player() -> None:
    world = make_world("masked", seed=1, agents=1)
    (report,) = world.reset()
    assert report.mask is not None and report.mask.any()
    with pytest.raises(ForbiddenAction, match="is forbidden for agent 1"):
        world.step({report.agent: Action((), (int(report.mask.argmax()),))})


def test_a_seed_decides_all_that_is_drawn() -> None:
    def first(seed: int) -> list[bytes]:
        return [each.sees[0].tobytes() for each in make_world("crowd", seed).reset()]

    assert first(1) == first(1) != first(2)


def test_the_player_of_the_page_needs_neither_opencv_nor_grpcio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's commands install neither."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['cv2'] = sys.modules['grpc'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    game = make_game(tmp_path, world="continuous", agents=2)
    batch = game.reset(EpisodeSeeds(0), np.zeros(1, np.int64))["Reach"]
    assert len(batch.reward) == 2
    game.close()
