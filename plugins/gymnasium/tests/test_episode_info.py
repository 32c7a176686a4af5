"""Numbers in the last infos of episodes are statistics: in summaries, the result, evaluations, and where a run ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gym_play import Scripted
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from one_behavior import begin

from rlcore import Actions, EpisodeSeeds, Run, load_checkpoint
from rlcore_gymnasium.episode_info import final_info, final_info_of_vector
from rlcore_gymnasium.native import ADAPTERS

WANTED = ["is_success", "distance"]


class Reach(Scripted):
    """Episodes of 4 steps, of which about half succeed. Infos before the end are not of the episode."""

    _length = 4

    def begin(self, seed: int | None, options: Any) -> None:
        self.good = bool(self.np_random.integers(2))

    def act(self, action: Any) -> float:
        return 1.0

    def observe(self) -> Any:
        return np.full(2, 0.5 if self.good and self._steps else 0.0, np.float32)

    def info(self) -> dict[str, Any]:
        if not self._steps:
            return {"is_success": -9.0}
        if self._steps < self._length:
            return {"distance": 7}
        return {"is_success": self.good, "distance": np.float32(0.25), "name": "a text"}


def run_of(directory: Path, info: Any, checkpoint_settings: Any = None, **more: Any) -> Run:
    config = {
        "preset": "none",
        "environment": {"num_envs": 2, "info": info},
        "behaviors": {
            "B": {
                "trainer_type": "ppo", "max_steps": 96, "summary_freq": 40, "checkpoint_interval": 48,
                "hyperparameters": {"buffer_size": 24, "batch_size": 12, "num_epoch": 1},
            }
        },
        "env_settings": {"seed": 3},
        "checkpoint_settings": {"run_id": "reach", "results_dir": str(directory), **(checkpoint_settings or {})},
        **more,
    }  # fmt: skip
    return Run(config, environment=Reach)


def metrics(directory: Path) -> list[dict[str, float]]:
    lines = (directory / "reach" / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line)["stats"].items() if "Episode/" in k} for line in lines]


def test_numbers_of_ended_episodes_reach_summaries_the_result_and_evaluations(tmp_path: Path) -> None:
    with run_of(tmp_path, WANTED) as run:
        run.train()
        result = run.evaluate(6).behaviors["B"]
    shares = [line["Episode/is_success"] for line in metrics(tmp_path)]
    assert all(0 <= share <= 1 for share in shares)
    assert [line["Episode/distance"] for line in metrics(tmp_path)] == [0.25] * 3
    written = json.loads((tmp_path / "reach" / "result.json").read_text())["behaviors"]["B"]["info"]
    assert written["distance"] == 0.25
    # 40, 40 and 16 agent steps are 10, 10 and 4 episodes.
    assert written["is_success"] == pytest.approx(np.average(shares, weights=[10, 10, 4]))
    assert result.info["distance"] == (0.25,) * 6
    assert result.mean_info["is_success"] == np.mean(result.info["is_success"])
    assert set(result.info["is_success"]) <= {0.0, 1.0}


def test_a_resumed_run_has_the_numbers_of_one_that_was_never_stopped(tmp_path: Path) -> None:
    with run_of(tmp_path, "all") as run:
        run.train()
    whole = metrics(tmp_path)
    last = tmp_path / "reach" / "checkpoints" / "96"
    expected = load_checkpoint(last)["run"]["behaviors"]["B"]["recent_info"]
    assert set(expected) == set(WANTED)
    with run_of(tmp_path, "all", checkpoint_settings={"resume": True, "checkpoint": "48"}) as resumed:
        resumed.train()
    assert metrics(tmp_path) == whole
    assert load_checkpoint(last)["run"]["behaviors"]["B"]["recent_info"] == expected


@pytest.mark.parametrize(("least", "steps"), [(0.25, 32), (0.26, 96)])
def test_a_run_ends_where_an_evaluation_reaches_the_means_of_stop_at(tmp_path: Path, least: float, steps: int) -> None:
    evaluation = {"interval": 32, "episodes": 2, "stop_at": {"distance": least}}
    with run_of(tmp_path, WANTED, evaluation=evaluation) as run:
        run.train()
    assert run.steps == steps
    assert metrics(tmp_path)[-1]["Evaluation/Episode/distance"] == 0.25


def test_without_the_key_nothing_is_reported(tmp_path: Path) -> None:
    with run_of(tmp_path, None) as run:
        run.train()
    assert metrics(tmp_path) == [{}] * 3


def test_a_name_that_no_info_has_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with run_of(tmp_path, ["is_succes", "distance"]) as run:
        run.train()
    said = [each.message for each in caplog.records if "environment.info" in each.message]
    assert len(said) == 1 and "'is_succes' is not a number of the last infos" in said[0] and "distance" in said[0]


def test_numbers_of_single_infos() -> None:
    infos: list[Any] = [{"a": True, "b": np.int64(3), "c": "text", "d": {"e": 1}}, {"a": False}, None]
    found = final_info(infos, "all")
    assert found is not None and found.keys() == {"a", "b"}
    np.testing.assert_array_equal(found["a"], [1, 0, np.nan])
    np.testing.assert_array_equal(found["b"], [3, np.nan, np.nan])
    assert final_info(infos, None) is final_info([], "all") is None
    with pytest.raises(ValueError, match=r"the info 'c' as 'text' .str.; expected a number"):
        final_info(infos, ["c"])


def test_numbers_of_a_vectorized_form_and_who_has_them() -> None:
    info = {"a": np.array([1.0, 2, 3]), "_a": np.array([True, True, False]), "b": np.array([True, False, True])}
    found = final_info_of_vector(info, np.array([0, 2]), ["a", "b"])
    assert found is not None
    np.testing.assert_array_equal(found["a"], [1, np.nan])
    np.testing.assert_array_equal(found["b"], [1, 1])


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_vectorized_forms_report_the_numbers_of_the_episode_that_ended(mode: AutoresetMode) -> None:
    vector = SyncVectorEnv([Reach, Reach], autoreset_mode=mode)
    environment = ADAPTERS[mode]("Reach-v0", "B", vector)
    environment.reported = WANTED
    begin(environment, EpisodeSeeds(5))
    ended = 0
    for _ in range(12):
        batch = environment.step({"B": Actions(discrete=np.zeros((2, 1), np.int64))})["B"]
        if batch.ended.size:
            assert batch.final_info is not None and batch.final_observations is not None
            good = batch.final_observations["observation"][:, 0] == 0.5
            np.testing.assert_array_equal(batch.final_info["is_success"], good)
            np.testing.assert_array_equal(batch.final_info["distance"], 0.25)
            ended += len(batch.ended)
    assert ended >= 4
