"""ML-Agents' ``behavioral_cloning`` in whole runs of PPO, SAC and TD3, with demonstrations from a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import recorded
from small_runs import small_run

from rlcore import Actions, AgentBatch, BehaviorSpec, ObservationSpec, Run
from rlcore_devkit import environments
from rlcore_devkit.environments import SavingEnvironment

KEY = np.array([2, 0, 1, 1, 2, 0, 2, 1])  # the option that opens each dial
BEST = 1.0


class CombinationLock(SavingEnvironment):
    """One right option of three at each of eight dials; a wrong one closes all again. Reward 1 when the last opens.

    Episodes are cut off after 40 steps: at random one in two hundred opens the lock.
    """

    state = ("opened",)

    def __init__(self, num_envs: int = 2, name: str = "Agent") -> None:
        self.opened = np.zeros(num_envs, np.int64)  # [N] dials
        observation = ObservationSpec("opened", (len(KEY) + 1,), np.float32, "one_hot")
        super().__init__(BehaviorSpec(name, (observation,), discrete=(3,), env_index=np.arange(num_envs)), max_steps=40)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.opened[env] = 0

    def advance(self, actions: Actions) -> tuple[Any, Any]:
        assert actions.discrete is not None
        right = actions.discrete[:, 0] == KEY[np.minimum(self.opened, len(KEY) - 1)]
        self.opened = np.where(right, self.opened + 1, 0)
        return (self.opened == len(KEY)).astype(np.float32), self.opened == len(KEY)

    def observe(self) -> dict[str, Any]:
        return {"opened": np.eye(len(KEY) + 1, dtype=np.float32)[self.opened]}


def knowing(batch: AgentBatch) -> Actions:
    return Actions(discrete=KEY[np.minimum(batch.observations["opened"].argmax(1), len(KEY) - 1)][:, None])


@pytest.fixture(autouse=True)
def _lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(environments.FOR_CONFIGURATIONS, "lock", CombinationLock)  # type: ignore[arg-type]


HYPERPARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {"buffer_size": 256, "batch_size": 64, "learning_rate_schedule": "constant"},
    "sac": {"batch_size": 32, "buffer_size": 4000, "steps_per_update": 8.0, "save_replay_buffer": True},
}
TRAINERS = pytest.mark.parametrize("trainer", HYPERPARAMETERS)


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lock opened 10 times, 80 steps."""
    return recorded(tmp_path_factory.mktemp("demonstrations") / "Agent", CombinationLock(2), 40, knowing)


MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path, demonstrations: str) -> MakeRun:
    """``make_run("ppo", imitate={"steps": 1000}, run_id="a")``; ``imitate=None`` leaves the block out."""

    def make(
        trainer: str,
        imitate: Mapping[str, Any] | None,
        run_id: str = "run",
        start: Mapping[str, Any] | None = None,
        **block: Any,
    ) -> Run:
        settings = {
            "trainer_type": trainer,
            "hyperparameters": {"learning_rate": 3e-3, **HYPERPARAMETERS[trainer]},
            "network_settings": {"hidden_units": 16, "num_layers": 1},
            "max_steps": 2048,
            "summary_freq": 512,
            **block,
        }
        if imitate is not None:
            settings["behavioral_cloning"] = {"demo_path": demonstrations, **imitate}
        environment = {"type": "testing", "id": "lock", "num_envs": 4}
        changes: dict[str, Any] = {"plugins": {"local": ["rlcore_devkit.hooks"]}, "environment": environment}
        changes |= {"env_settings.seed": 1, "behaviors.Agent": settings}
        return Run(small_run(tmp_path / "results", changes, run_id=run_id, **(start or {})))

    return make


def test_demonstrations_show_ppo_a_reward_it_does_not_find_by_itself(make_run: MakeRun) -> None:
    reached = {}
    for run_id, imitate in (("alone", None), ("shown", {"batch_size": 16})):
        with make_run("ppo", imitate, run_id, max_steps=4096) as run:
            run.train()
            reached[run_id] = min(run.evaluate(episodes=20).behaviors["Agent"].returns)
    assert reached == {"alone": 0.0, "shown": BEST}


@TRAINERS
def test_imitation_fades_out_after_its_steps(make_run: MakeRun, tmp_path: Path, trainer: str) -> None:
    make_run(trainer, {"steps": 1000, "num_epoch": 1}).train()
    lines = [json.loads(line) for line in (tmp_path / "results/run/metrics.jsonl").read_text().splitlines()]
    told = {line["step"]: line["stats"].get("Losses/Pretraining Loss") for line in lines}
    assert told[512] > 0.0 and told[1024] is not None
    assert told[1536] is None and told[2048] is None


def test_a_deterministic_actor_imitates_actions_that_its_reward_does_not_teach(tmp_path: Path) -> None:
    """The reward is for the action that equals the observation; the demonstrations show the opposite."""

    def opposite(batch: AgentBatch) -> Actions:
        return Actions(continuous=-batch.observations["reals"])

    shown = recorded(tmp_path / "demonstrations" / "Agent", environments.identity_continuous(4), 60, opposite)
    settings = {
        "trainer_type": "td3",
        "hyperparameters": {"batch_size": 32, "learning_rate": 3e-3, "buffer_init_steps": 0, "steps_per_update": 8.0},
        "network_settings": {"hidden_units": 32, "num_layers": 1},
        "behavioral_cloning": {"demo_path": shown, "strength": 3.0},
        "max_steps": 800,
    }
    environment = {"type": "testing", "id": "identity_continuous", "num_envs": 4}
    changes: dict[str, Any] = {"plugins": {"local": ["rlcore_devkit.hooks"]}, "environment": environment}
    changes |= {"env_settings.seed": 1, "behaviors.Agent": settings}
    with Run(small_run(tmp_path / "results", changes)) as run:
        run.train()
        seen = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
        acted = run.behaviors["Agent"].policy.act({"reals": seen}).continuous
    assert acted is not None
    assert np.abs(acted + seen).mean() < 0.15
