"""A replay buffer that does not fit is refused before it is allocated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml

from rlcore import BehaviorSpec, ConfigError, ObservationSpec
from rlcore_torch import ReplayBuffer, allocation, require_memory
from rlcore_torch.allocation import available_memory, require_network_memory
from rlcore_torch.on_policy.rollout import RolloutBuffer


def behavior(slots: int = 3) -> BehaviorSpec:
    return BehaviorSpec(
        "Camera",
        (ObservationSpec("seen", (84, 84, 3), np.uint8), ObservationSpec("own", (5,), np.float64)),
        continuous=2,
        discrete=(300, 2),
        env_index=np.arange(slots),
    )


def available(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(allocation, "available_memory", lambda: count)


@pytest.mark.parametrize("priorities", [False, True])
def test_a_buffer_takes_what_is_asked_for(monkeypatch: pytest.MonkeyPatch, priorities: bool) -> None:
    """Masks and rewards of groups, which come later, included."""
    rows = 3000
    buffer = ReplayBuffer(behavior(), rows, 0.6 if priorities else None)
    tree = [] if buffer.priorities is None else buffer.priorities.tree._levels
    taken = rows * (buffer.nbytes_of_row + 302 + 4) + sum(level.nbytes for level in tree)
    available(monkeypatch, taken - 1)
    with pytest.raises(ConfigError, match="rows of behavior 'Camera' need"):
        ReplayBuffer(behavior(), rows, 0.6 if priorities else None)
    available(monkeypatch, int(taken * 1.001))
    ReplayBuffer(behavior(), rows, 0.6 if priorities else None)


def test_the_size_that_is_offered_fits_and_one_more_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, 3 * 2**30)
    with pytest.raises(ConfigError) as refused:
        require_memory(behavior(), 10**6)
    text = str(refused.value)
    assert text.startswith("behaviors.Camera.hyperparameters.buffer_size: 1000000 rows of behavior 'Camera' need 20.")
    assert "3.0 GiB are available" in text
    offered = int(text.split("at most ")[1].split()[0])
    require_memory(behavior(), offered)
    with pytest.raises(ConfigError):
        require_memory(behavior(), offered + 1)


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
    room = GROUPS[name]["room"]
    machine = psutil.virtual_memory().available
    assert available_memory(tmp_path) == (pytest.approx(machine, rel=0.2) if room == "machine" else room)


def test_the_limit_of_addresses_counts() -> None:
    """As `ulimit -v` sets it, by which containers and clusters without control groups limit memory."""
    resource = pytest.importorskip("resource", reason="only POSIX limits addresses")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    taken = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**30, limits[1]))
    try:
        assert available_memory() == pytest.approx(2**30, rel=0.1)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_network_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, 10 * 2**30)
    require_network_memory(8, (1024,) * 3)
    with pytest.raises(ConfigError, match=r"200 layers of up to 65536 hidden_units behind 8 inputs need 12736\.0 GiB"):
        require_network_memory(8, (65_536,) * 200)


def test_a_rollout_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, 10_000)
    with pytest.raises(ConfigError, match=r"hyperparameters\.buffer_size: 100000 rows .* need .* of memory"):
        RolloutBuffer(behavior(), 100_000, memory_size=0, noise_size=2, columns=2)
