"""``tools/mlagents_files.py``: files of ML-Agents validate and train in scenes of their shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlagents_files
import numpy as np
import pytest
import yaml
from mlagents_scenes import SCENES, SceneEnvironment

from rlcore import Actions, AgentBatch, BehaviorSpec, EpisodeSeeds
from rlcore_devkit import EnvironmentConformance

FILES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "data" / "mlagents_scenes.yaml").read_text("utf-8"))


@pytest.mark.learning
@pytest.mark.parametrize("name", FILES)
def test_a_file_with_this_feature_of_ml_agents_trains(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(FILES[name]), encoding="utf-8")
    outcome = mlagents_files.check(tmp_path, f"{name}.yaml", tmp_path, steps=512)
    assert not outcome.refused
    assert not outcome.failed


def test_a_file_is_reported_with_the_words_of_its_refusal_and_another_with_those_of_its_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ppo").mkdir()
    (tmp_path / "ppo" / "a.yaml").write_text("behaviors: {Basic: {trainer_type: poco}}\n", encoding="utf-8")
    (tmp_path / "ppo" / "b.yaml").write_text("behaviors: {Basik: {trainer_type: ppo}}\n", encoding="utf-8")
    assert mlagents_files.main([str(tmp_path), "--work", str(tmp_path / "work")]) == 1
    refused, failed, total = capsys.readouterr().out.splitlines()
    assert refused.startswith("ppo/a.yaml")
    assert "refused:" in refused and "a.yaml:1: behaviors.Basic.trainer_type" in refused
    assert failed.startswith("ppo/b.yaml")
    assert "failed: " in failed and "did you mean 'Basic'" in failed
    assert total == "1 of 2 files are valid, 0 of 2 have trained 2000 steps"


@pytest.mark.parametrize(
    ("steps", "stats", "words"),
    [
        (100, {"Losses/Value Loss": 0.5}, ""),
        (99, {"Losses/Value Loss": 0.5}, "Ball has made 99 steps"),
        (100, {"Policy/Entropy": 0.5}, "Ball has not been updated"),
        (100, {"Losses/Q1 Loss": 0.5, "Losses/Value Loss": None}, "Ball: Losses/Value Loss is not finite"),
    ],
)
def test_a_run_without_its_steps_updates_or_finite_losses_has_not_trained(
    tmp_path: Path, steps: int, stats: dict[str, float | None], words: str
) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"behaviors": {"Ball": {"steps": steps}}}))
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"behavior": "Ball", "step": steps, "stats": stats}) + "\n")
    assert mlagents_files.untrained(tmp_path, 100) == words


@pytest.mark.learning
class Scene(EnvironmentConformance):
    name: str

    def make(self, num_envs: int) -> SceneEnvironment:
        return SceneEnvironment(SCENES[self.name], num_envs)


class TestAgentWithTwoBehaviors(Scene):
    name = "WallJump"


class TestGroupWhoseAgentsLeave(Scene):
    name = "DungeonEscape"


class TestTwoTeamsOfTwoBehaviors(Scene):
    name = "StrikersVsGoalie"


class TestLessonsOfEntities(Scene):
    name = "Sorter"
    parameters = {"num_tiles": (1.0, 20.0)}


def choosing_first(behaviors: dict[str, BehaviorSpec]) -> dict[str, Actions]:
    return {
        name: Actions(discrete=np.zeros((spec.slots, len(spec.discrete)), np.int64)) for name, spec in behaviors.items()
    }


def played(name: str, num_envs: int = 4, steps: int = 200) -> list[dict[str, AgentBatch]]:
    environment = SceneEnvironment(SCENES[name], num_envs)
    batches = [environment.reset(EpisodeSeeds(3), np.zeros(num_envs, np.int64))]
    actions = choosing_first(dict(environment.behaviors))
    return [*batches, *(environment.step(actions) for _ in range(steps))]


def acting(batch: AgentBatch) -> Any:
    assert batch.needs_action is not None
    return batch.needs_action


def shared(batch: AgentBatch) -> Any:
    assert batch.group_reward is not None
    return batch.group_reward


def test_an_agent_has_one_of_its_two_behaviors_in_each_episode() -> None:
    batches = played("WallJump")
    small = [acting(batch["SmallWallJump"]) for batch in batches]
    assert (np.stack(small) != np.stack([acting(batch["BigWallJump"]) for batch in batches])).all()
    assert 0 < np.mean(small) < 1


def test_an_agent_that_leaves_waits_for_the_others_of_its_group() -> None:
    batches = [batch["DungeonEscape"] for batch in played("DungeonEscape")]
    alive = np.stack([acting(batch) for batch in batches]).reshape(-1, 4, 3)
    assert alive[:, :, 1:].all()
    assert not alive[:, :, 0].all()
    ended = np.stack([batch.terminated | batch.truncated for batch in batches]).reshape(-1, 4, 3)
    assert (ended[:, :, 1] == ended[:, :, 2]).all()
    assert (ended[:, :, 0].sum(0) - ended[:, :, 1].sum(0) <= 1).all()  # once in each episode of its group


def test_teams_win_what_the_others_lose() -> None:
    batches = played("StrikersVsGoalie")
    won = np.stack([shared(batch["Striker"]) for batch in batches]).reshape(-1, 4, 2)
    assert {-1.0, 0.0, 1.0} == set(won.ravel().tolist())
    assert (won == -np.stack([shared(batch["Goalie"]) for batch in batches])[..., None]).all()
