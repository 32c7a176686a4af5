"""A replay buffer that does not fit is refused before it is allocated."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

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


@pytest.mark.parametrize("priorities", [False, True])
@pytest.mark.parametrize("buffer_size", [12, 100, 1000])
def test_the_estimate_is_what_a_buffer_takes(buffer_size: int, priorities: bool) -> None:
    buffer = ReplayBuffer(behavior(), buffer_size, 0.6 if priorities else None)
    assert estimate(behavior(), buffer_size, priorities=priorities) == buffer.nbytes
    nobody = np.zeros(3, np.bool_)
    seen = {o.name: np.zeros((3, *o.shape), o.dtype) for o in behavior().observations}
    masked = AgentBatch(seen, np.zeros(3, np.float32), nobody, nobody, action_mask=np.ones((3, 302), np.bool_))
    buffer.begin(masked)
    assert estimate(behavior(), buffer_size, priorities=priorities, masks=True) == buffer.nbytes
    masked.group_reward = np.zeros(3, np.float32)
    buffer.act(np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int64))
    buffer.observe(masked)
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


def test_nothing_is_allocated_before_the_check(monkeypatch: Any) -> None:
    monkeypatch.setattr(allocation, "available_memory", lambda: 10 * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match=r"buffer_size.*10\.0 MiB are available"):
            ReplayBuffer(behavior(), 2000, 0.5)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_masks_and_group_rewards_are_checked_when_the_first_one_comes(monkeypatch: Any) -> None:
    spec = behavior()
    without = estimate(spec, 300)
    monkeypatch.setattr(allocation, "available_memory", lambda: without + 100)
    buffer = ReplayBuffer(spec, 300)
    seen = {o.name: np.zeros((3, *o.shape), o.dtype) for o in spec.observations}
    nobody = np.zeros(3, np.bool_)
    with pytest.raises(ConfigError, match="buffer_size"):
        buffer.begin(AgentBatch(seen, np.zeros(3, np.float32), nobody, nobody, action_mask=np.ones((3, 302), np.bool_)))


# ---------------------------------------------------------------- what is available


def machine(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


LIMITED = {"memory.max": "9000", "memory.current": "5000", "memory.stat": "anon 3000\ninactive_file 700"}
LIMITED_1 = {
    "memory.limit_in_bytes": "9000",
    "memory.usage_in_bytes": "5000",
    "memory.stat": "inactive_file 1\ntotal_inactive_file 700",
}
UNLIMITED_1 = {
    "memory.limit_in_bytes": "9223372036854771712",
    "memory.usage_in_bytes": "5000",
    "memory.stat": "cache 0",
}


def within(group: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{group}/{name}": text for name, text in files.items()}


@pytest.mark.parametrize(
    ("cgroup", "files", "room"),
    [
        ("0::/\n", LIMITED, 4700),  # a container sees its own group as the top
        ("0::/jobs/one\n", within("jobs/one", LIMITED), 4700),
        ("0::/jobs/one\n", within("jobs", LIMITED) | within("jobs/one", {"memory.max": "max"}), 4700),
        ("0::/not/visible\n", LIMITED, 4700),
        ("0::/\n", LIMITED | {"memory.current": "9500", "memory.stat": "inactive_file 0"}, 0),
        ("0::/\n", {}, None),
        ("0::/\n", {"memory.max": "max"}, None),
        ("4:memory:/job\n1:cpu:/\n0::/\n", within("memory/job", LIMITED_1), 4700),
        ("4:cpu,memory:/job\n", within("memory", LIMITED_1) | within("memory/job", UNLIMITED_1), 4700),
        ("4:memory:/\n", within("memory", UNLIMITED_1), None),
        ("4:cpu:/job\n", within("memory/job", LIMITED_1), None),
    ],
)
def test_limits_of_control_groups_count(tmp_path: Path, cgroup: str, files: dict[str, str], room: int | None) -> None:
    found = available_memory(machine(tmp_path, cgroup, files))
    if room is None:
        assert found == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    else:
        assert found == room


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
