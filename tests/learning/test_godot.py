"""PPO learns in the Godot engine, and the exported files play there without a trainer, computed in GDScript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from godot_playing import play
from godot_worlds import engine_of, project_of

from rlcore import AgentBatch, Player, Run, load_policies

onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1800)]

# The return to reach. A point that walks straight to its target has about 1.9; standing still has 0. The pole's best
# return is 100, and pushes at random have about 16.
WORLDS = {
    "reach": (1.7, {"max_steps": 60_000, "gamma": 0.95, "learning_rate": 1e-3, "normalize": False}),
    "pole": (95.0, {"max_steps": 60_000, "gamma": 0.98, "learning_rate": 3e-3, "normalize": True}),
}


def config(directory: Path, game: dict[str, Any], world: str, settings: dict[str, Any]) -> dict[str, Any]:
    behavior = {
        "trainer_type": "ppo",
        "max_steps": settings["max_steps"],
        "hyperparameters": {
            "batch_size": 256, "buffer_size": 2048, "num_epoch": 6, "learning_rate": settings["learning_rate"],
        },
        "network_settings": {"hidden_units": 32, "num_layers": 2, "normalize": settings["normalize"]},
        "reward_signals": {"extrinsic": {"gamma": settings["gamma"]}},
        "time_horizon": 128,
    }  # fmt: skip
    return {
        "environment": {"type": "godot", "args": [f"--world={world}"], **game},
        "behaviors": {world: behavior},
        "export": {"onnx": {"profile": "godot"}},
        "checkpoint_settings": {"run_id": world, "results_dir": str(directory)},
        "env_settings": {"seed": 1},
        "stats": {"console": False, "tensorboard": False},
    }


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("world", WORLDS)
def test_a_world_is_learned_in_the_engine_and_its_file_plays_there(world: str, version: int, tmp_path: Path) -> None:
    engine = engine_of(version)
    project = str(project_of(version, tmp_path))
    wanted, settings = WORLDS[world]
    with Run(config(tmp_path, {"project": project, "engine": engine}, world, settings)) as run:
        run.train()
        reached = float(run.evaluate(40).behaviors[world].mean_reward)
    assert reached >= wanted
    file = tmp_path / world / f"{world}.onnx"
    played = play(file, [engine, "--path", project], world, tmp_path, episodes=40)
    assert np.mean(played.returns) >= wanted
    seen = played.observations.astype(np.float32)
    session = onnxruntime.InferenceSession(str(file))
    feed = {"obs": seen, "state_ins": np.zeros(len(seen), np.float32)}
    print("differs at most by", abs(played.outputs - session.run(["output"], feed)[0]).max(), played.returns[:3])
    np.testing.assert_allclose(played.outputs, session.run(["output"], feed)[0], atol=1e-4)
    none = np.zeros(len(seen), np.bool_)
    batch = AgentBatch({"obs": seen}, np.zeros(len(seen), np.float32), none, none)
    chosen = Player(load_policies(tmp_path / world)[world], len(seen)).act(batch)
    if chosen.continuous is not None:
        np.testing.assert_allclose(played.outputs, chosen.continuous, atol=1e-4)
    else:
        assert chosen.discrete is not None
        assert (played.outputs.argmax(1) == chosen.discrete[:, 0]).mean() > 0.999
