"""Two ranks learn what one process learns from the joined batch: the oracle is a run without torchrun."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from rank_training import PPO, SCRIPT, torchrun, written

from rlcore import load_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.xdist_group("ranks")]

UPDATES = {"ppo": 10, "scaled": 10, "pqn": 10, "sac": 11, "td3": 11, "dqn": 11, "poles": 11, "memory": 11}
DAILY = pytest.mark.daily  # conformance compares ranks of the other trainers every day
EVERY = pytest.mark.parametrize("name", UPDATES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=DAILY if name in ("ppo", "sac") else ()) for name in UPDATES]
)
def test_parameters_after_ten_updates_are_those_of_one_process(trained: Path, name: str) -> None:
    one = written(trained / "one", name, "one")
    two = written(trained / "two", name, 0)
    assert one["weights Pendulum"].shape[0] == UPDATES[name]
    assert one["steps"].tolist() == two["steps"].tolist()
    moved = np.abs(one["weights Pendulum"][9] - one["weights Pendulum"][0]).max()
    assert moved > 1e-4
    np.testing.assert_allclose(two["weights Pendulum"], one["weights Pendulum"], rtol=0, atol=1e-6)


@EVERY
def test_weights_of_the_ranks_are_identical_after_each_update(trained: Path, name: str) -> None:
    first, second = (written(trained / "two", name, rank)["weights Pendulum"] for rank in (0, 1))
    assert [each.tobytes() for each in first] == [each.tobytes() for each in second]


@EVERY
def test_results_and_statistics_are_of_all_ranks(trained: Path, name: str) -> None:
    one = written(trained / "one", name, "one")
    ranks = [written(trained / "two", name, rank) for rank in (0, 1)]
    apart = ("weights", "exchanges")
    names = [key for key in one if not key.startswith(apart)]
    assert {key for key in ranks[0] if not key.startswith(apart)} == set(names)
    for each in ranks:
        for key in names:
            np.testing.assert_allclose(each[key], one[key], rtol=2e-3, atol=1e-4, err_msg=key)


@EVERY
def test_rank_0_writes_one_directory_with_the_state_of_both(trained: Path, name: str) -> None:
    directories = [trained / kind / "results" / name for kind in ("one", "two")]
    named = re.compile("_frozen-[0-9a-f]{64}")  # by its content: that of one rank is half of the replay buffer
    files = [sorted(named.sub("", str(path.relative_to(where))) for path in where.rglob("*")) for where in directories]
    assert files[0] == files[1]
    newest = max((directories[1] / "checkpoints").iterdir(), key=lambda path: int(path.name))
    state = load_checkpoint(newest)
    assert state["run"]["ranks"]["size"] == 2
    changed = {tuple(path)[:2] for path in state["run"]["ranks"]["parts"]["1"]["paths"]}
    assert ("Pendulum", "buffer") in changed
    assert not {path for path in changed if path[1] in ("model", "optimizer", "optimizers", "steps")}
    summaries = [json.loads(line) for line in (directories[1] / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in summaries]
    assert steps == sorted(set(steps))


def test_ranks_exchange_nothing_in_most_steps_of_the_environments(trained: Path) -> None:
    in_updates, in_first_rollout, elsewhere = written(trained / "two", "ppo", 0)["exchanges"]
    rollouts = 10
    steps_of_rollout = 64
    # In its steps, the first rollout begins the statistics of `normalize`.
    assert in_first_rollout < steps_of_rollout * 11 / 10
    assert elsewhere < (rollouts - 1) * steps_of_rollout / 10
    # A gradient and a KL divergence for each of 3 epochs of 4 minibatches. Once an update: sequences, values,
    # advantages, losses, and statistics of observations.
    assert in_updates <= rollouts * (3 * 4 * 2 + 5)


@EVERY
def test_ranks_listen_to_this_machine_alone(trained: Path, name: str) -> None:
    for rank in (0, 1):
        assert written(trained / "two", name, rank)["listening"] == 0


def test_a_rank_that_is_killed_is_started_again_and_learns_the_same(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "ppo.yaml").write_text(f"checkpoint_settings: {{run_id: ppo}}\n{PPO}")
    ended = torchrun([SCRIPT, ".", "ppo.yaml"], tmp_path, restarts=1, RLCORE_TEST_KILL="8")
    assert ended.returncode == 0, ended.stderr
    whole = written(trained / "two", "ppo", 0)["weights Pendulum"]
    for rank in (0, 1):
        resumed = written(tmp_path, "ppo", rank)["weights Pendulum"]
        assert len(resumed) == 5  # from the checkpoint at update 5
        assert resumed[-1].tobytes() == whole[-1].tobytes()
    newest = [where / "results" / "ppo" / "checkpoints" / "2560" for where in (tmp_path, trained / "two")]
    states = [load_checkpoint(path) for path in newest]
    np.testing.assert_equal(states[0]["Pendulum"], states[1]["Pendulum"])
