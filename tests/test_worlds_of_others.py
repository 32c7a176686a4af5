"""Environments of packages that users try first: what agents see in them, and that their runs are resumed exactly.

Their state is not saved: checkpoints end episodes. ``plugins/gymnasium/tests/test_worlds.py`` is about their ids,
``tests/learning/test_worlds.py`` about what is learned in them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import small_run

from rlcore import Run, UnsupportedSpace, load_policies

SMALL_ROAD = {"config": {"vehicles_count": 3, "lanes_count": 2, "duration": 4, "simulation_frequency": 5}}
WORLDS: dict[str, tuple[str, dict[str, Any], int, dict[str, tuple[int, ...]]]] = {
    # The module, keys of the environment block, environment steps, and what an agent sees.
    "MiniGrid-Empty-5x5-v0": (
        "minigrid", {"observations": {"mission": "ignore", "image": {"flatten": True}}}, 96,
        {"direction": (4,), "image": (147,)},
    ),
    "PointMaze_UMazeDense-v3": (
        "gymnasium_robotics", {}, 96, {"achieved_goal": (2,), "desired_goal": (2,), "observation": (4,)},
    ),
    "LunarLander-v3": ("Box2D", {}, 96, {"observation": (8,)}),
    "highway-fast-v0": ("highway_env", {"options": SMALL_ROAD}, 32, {"observation": (5, 5)}),
}  # fmt: skip


def config_of(place: Path, env_id: str, **start: Any) -> dict[str, Any]:
    _, block, steps, _ = WORLDS[env_id]
    batches = {"batch_size": steps // 4, "buffer_size": steps // 4}
    changes = {"behaviors.Agent.max_steps": steps, "behaviors.Agent.hyperparameters": batches}
    changes |= {"behaviors.Agent.checkpoint_interval": steps // 2, "behaviors.Agent.summary_freq": steps // 2}
    changes |= {"environment": {"id": env_id, "num_envs": 2, **block}}
    return small_run(place, changes, **start)


def weights(place: Path) -> dict[str, Any]:
    module = load_policies(place / "run")["Agent"].module()
    return {name: value.tolist() for name, value in module.state_dict().items()}


NIGHTLY = ("MiniGrid-Empty-5x5-v0", "highway-fast-v0")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "env_id", [pytest.param(name, marks=pytest.mark.learning) if name in NIGHTLY else name for name in WORLDS]
)
def test_a_run_is_resumed_bit_for_bit_from_a_checkpoint_that_ended_its_episodes(tmp_path: Path, env_id: str) -> None:
    module, _, _, seen = WORLDS[env_id]
    pytest.importorskip(module)
    with Run(config_of(tmp_path / "whole", env_id)) as run:
        resume = str(run.describe().resume)
        assert resume.startswith("exact; ") and "the environment cannot save its state" in resume
        assert {each.name: each.shape for each in run.behaviors["Agent"].spec.observations} == seen
        run.train()
    with Run(config_of(tmp_path / "parts", env_id)) as run:
        next(run)
    halfway = weights(tmp_path / "parts")
    Run(config_of(tmp_path / "parts", env_id, resume=True)).train()
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole") != halfway


@pytest.mark.parametrize(
    ("observations", "told"),
    [
        ({}, r"observation 'mission' has the unsupported space .*environment\.observations: \{mission: ignore\}"),
        ({"mission": "ignore"}, r"encoder 'simple' needs .*environment\.observations: \{image: \{flatten: true\}\}\)"),
    ],
)
def test_what_minigrid_lacks_is_told_with_the_keys_to_write(
    tmp_path: Path, observations: dict[str, Any], told: str
) -> None:
    pytest.importorskip("minigrid")
    config = config_of(tmp_path, "MiniGrid-Empty-5x5-v0")
    config["environment"]["observations"] = observations
    with pytest.raises(UnsupportedSpace, match=told):
        Run(config).start()


def test_small_images_have_an_encoder_that_fits(tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    config = config_of(tmp_path, "MiniGrid-Empty-5x5-v0")
    config["environment"]["observations"] = {"mission": "ignore"}
    config["behaviors"]["Agent"]["network_settings"]["vis_encode_type"] = "match3"
    assert Run(config).train()["Agent"].steps == 96
