"""A replay buffer that does not fit is refused before it is allocated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml

from rlcore import AgentBatch, BehaviorSpec, ConfigError, ObservationSpec
from rlcore_torch import ReplayBuffer, allocation, require_memory
from rlcore_torch.allocation import available_memory, estimate, require_network_memory
from rlcore_torch.on_policy.rollout import RolloutBuffer

GIB = 2**30


def behavior(slots: int = 3) -> BehaviorSpec:
    return BehaviorSpec(
        "Camera",
        (ObservationSpec("seen", (84, 84, 3), np.uint8), ObservationSpec("own", (5,), np.float64)),
        continuous=2,
        discrete=(300, 2),
        env_index=np.arange(slots),
    )


def masked() -> AgentBatch:
    nobody = np.zeros(3, np.bool_)
    seen = {o.name: np.zeros((3, *o.shape), o.dtype) for o in behavior().observations}
    return AgentBatch(seen, np.zeros(3, np.float32), nobody, nobody, action_mask=np.ones((3, 302), np.bool_))


@pytest.mark.parametrize(("buffer_size", "priorities"), [(12, False), (1000, True)])
def test_the_estimate_is_what_a_buffer_takes(buffer_size: int, priorities: bool) -> None:
    buffer = ReplayBuffer(behavior(), buffer_size, 0.6 if priorities else None)
    assert estimate(behavior(), buffer_size, priorities=priorities) == buffer.nbytes
    buffer.begin(batch := masked())
    assert estimate(behavior(), buffer_size, priorities=priorities, masks=True) == buffer.nbytes
    batch.group_reward = np.zeros(3, np.float32)
    buffer.act(np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int64))
    buffer.observe(batch)
    assert estimate(behavior(), buffer_size, priorities=priorities, masks=True, groups=True) == buffer.nbytes


def test_masks_of_recorded_data_need_room_for_themselves_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows before them are written, so they are part of what is in use, not of what is still needed."""
    buffer = ReplayBuffer(behavior(1), 100)
    monkeypatch.setattr(allocation, "available_memory", lambda: 100 * 302)
    buffer.fill(np.ones(100, np.uint8), np.ones((100, 302), np.bool_))
    assert buffer.masks is not None and len(buffer) == 100


@pytest.mark.parametrize("priorities", [False, True])
def test_the_size_that_is_offered_fits_and_one_more_does_not(priorities: bool) -> None:
    with pytest.raises(ConfigError) as refused:
        require_memory(behavior(), 10**6, priorities=priorities, available=3 * GIB)
    text = str(refused.value)
    assert text.startswith(
        "behaviors.Camera.hyperparameters.buffer_size: 1000000 rows of behavior 'Camera' need 19.8 GiB"
    )
    assert "3.0 GiB are available" in text
    offered = int(text.split("at most ")[1].split()[0])
    require_memory(behavior(), offered, priorities=priorities, available=3 * GIB)
    with pytest.raises(ConfigError):
        require_memory(behavior(), offered + 1, priorities=priorities, available=3 * GIB)


def test_it_says_when_nothing_fits() -> None:
    with pytest.raises(ConfigError, match="not even one row fits"):
        require_memory(behavior(), 1000, available=100)


def test_masks_and_group_rewards_are_checked_when_the_first_one_comes(monkeypatch: Any) -> None:
    monkeypatch.setattr(allocation, "available_memory", lambda: estimate(behavior(), 300) + 100)
    buffer = ReplayBuffer(behavior(), 300)
    with pytest.raises(ConfigError, match="buffer_size"):
        buffer.begin(masked())


# ---------------------------------------------------------------- what is available


GROUPS = yaml.safe_load((Path(__file__).parent / "data/control_groups.yaml").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("name", GROUPS)
def test_limits_of_control_groups_count(tmp_path: Path, name: str) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(GROUPS[name]["cgroup"] + "\n")
    for group, files in GROUPS[name]["files"].items():
        (tmp_path / "sys/fs/cgroup" / group).mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (tmp_path / "sys/fs/cgroup" / group / file).write_text(f"{text}\n")
    room, machine = GROUPS[name]["room"], psutil.virtual_memory().available
    assert available_memory(tmp_path) == (pytest.approx(machine, rel=0.2) if room == "machine" else room)


def test_a_machine_without_control_groups_has_what_it_has(tmp_path: Path) -> None:
    assert available_memory(tmp_path) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_network_that_does_not_fit_is_refused_before_it_is_allocated() -> None:
    require_network_memory(8, (1024,) * 3, available=10 * GIB)
    with pytest.raises(ConfigError, match=r"200 layers of up to 65536 hidden_units behind 8 inputs need 12736\.0 GiB"):
        require_network_memory(8, (65_536,) * 200, available=10 * GIB)


def test_a_rollout_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcore_torch.allocation.available_memory", lambda: 10_000)
    with pytest.raises(ConfigError, match=r"hyperparameters\.buffer_size: 100000 rows .* need .* of memory"):
        RolloutBuffer(behavior(), 100_000)


def test_without_proc_nothing_is_known_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/meminfo")

    monkeypatch.setattr("psutil.virtual_memory", missing)
    assert available_memory() == sys.maxsize
