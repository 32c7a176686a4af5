"""``rlcore_onnx.runtime``: a policy from an ONNX file acts as the policy that was exported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_files import PAIRS, ExportedPolicy, export, random_mask

from rlcore import spec_mismatch
from rlcore_devkit.playing import random_observations
from rlcore_onnx.runtime import OnnxPolicy, load


def loaded(kind: str, directory: Path, profile: str = "generic", seed: int | None = 1) -> tuple[Any, OnnxPolicy]:
    exported = export(kind, directory, profile)
    return exported, load(exported.path, seed)


@pytest.mark.parametrize(("kind", "profile"), PAIRS)
def test_a_file_acts_as_its_policy(kind: str, profile: str, tmp_path: Path) -> None:
    """For one row and several, with masks, and with memory over several steps and new episodes; in the same units."""
    exported, policy = loaded(kind, tmp_path, profile)
    generator = np.random.default_rng(1)
    behavior = exported.behavior
    assert (policy.profile, policy.memory_size) == (profile, exported.policy.memory_size)
    assert spec_mismatch(behavior, policy.behavior) is None
    assert policy.behavior.observations == behavior.observations and policy.behavior.name == "Walker"
    assert (policy.metadata["run_id"], policy.metadata["step"]) == ("walker", 500)
    assert policy.metadata["configuration_sha256"] == "0" * 64
    for rows in (1, 2, 7, 64):
        memory = policy.initial_memory(rows)
        ours = memory.copy()
        for step in range(5):
            seen = random_observations(behavior, rows, generator)
            mask = random_mask(behavior, rows, generator)
            if step == 3:
                memory[0] = ours[0] = 0.0  # an episode begins
            kept = (memory,) if policy.memory_size else ()
            found = policy.act(seen, mask, True, *kept)
            expected = exported.policy.act(seen, mask, True, *((ours,) if policy.memory_size else ()))
            for name in ("continuous", "discrete"):
                one = getattr(found, name)
                other = getattr(expected, name)
                assert (one is None) == (other is None)
                if one is not None:
                    assert one.shape == other.shape and one.dtype == other.dtype
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
            np.testing.assert_allclose(memory, ours, rtol=0, atol=1e-5)
            if found.continuous is not None:
                assert (behavior.low <= found.continuous).all() and (found.continuous <= behavior.high).all()


# ------------------------------------------------------------ stochastic actions


def draws(policy: Any, exported: ExportedPolicy, mask: Any = None, count: int = 20_000) -> Any:
    seen = random_observations(exported.behavior, 1, np.random.default_rng(5))
    many = {name: np.repeat(array, count, axis=0) for name, array in seen.items()}
    return policy.act(many, None if mask is None else np.repeat(mask, count, axis=0), False)


@pytest.mark.parametrize(("kind", "profile"), [("vector", "generic"), ("vector", "unity"), ("discrete", "generic"),
                                               ("discrete", "unity"), ("discrete", "godot")])  # fmt: skip
def test_drawn_actions_have_the_distribution_of_the_policy(kind: str, profile: str, tmp_path: Path) -> None:
    exported, policy = loaded(kind, tmp_path, profile)
    exported.policy.seed(2)
    mask = np.array([[True, False, True, True]]) if kind == "discrete" else None
    ours, theirs = (draws(each, exported, mask) for each in (policy, exported.policy))
    if kind == "vector":
        spread = theirs.continuous.std(0)
        room = np.sqrt(2 / len(theirs.continuous))
        assert (np.abs(ours.continuous.mean(0) - theirs.continuous.mean(0)) < 3 * spread * room).all()
        assert (np.abs(ours.continuous.std(0) / spread - 1) < 0.05).all()
    else:
        found, expected = (np.bincount(each.discrete[:, 0], minlength=4) / 20_000 for each in (ours, theirs))
        assert found[1] == 0
        assert (np.abs(found - expected) < 3 * np.sqrt(expected * (1 - expected) * 2 / 20_000) + 1e-9).all()


def test_equal_seeds_draw_equal_actions(tmp_path: Path) -> None:
    exported, first = loaded("hybrid", tmp_path)
    second = load(exported.path, 1)
    third = load(exported.path, 2)
    drawn = [draws(each, exported, count=50) for each in (first, second, third)]
    for name in ("continuous", "discrete"):
        one, same, other = (getattr(each, name) for each in drawn)
        assert (one == same).all() and (one != other).any()
    first.seed(1)
    first.act(np.zeros((3, 3), np.float32))  # deterministic actions need no random numbers
    assert (draws(first, exported, count=50).continuous == drawn[0].continuous).all()


# ------------------------------------------------------------ what it accepts


def test_one_observation_needs_no_name_and_numbers_of_other_types_are_converted(tmp_path: Path) -> None:
    exported, policy = loaded("vector", tmp_path)
    seen = np.array([[0.5, -1.0, 2.0]], np.float64)
    expected = exported.policy.act({"state": seen.astype(np.float32)}).continuous
    for given in (seen, seen.tolist(), {"state": seen}, {"state": seen.astype(np.float16)}):
        np.testing.assert_allclose(policy.act(given).continuous, expected, atol=1e-5)
    assert policy.act(np.zeros((2, 3), np.int64)).continuous.shape == (2, 2)
    assert policy.act(np.zeros((0, 3), np.float32)).continuous.shape == (0, 2)


CLEAN = """\
import sys
import numpy as np
from rlcore_onnx.runtime import load

policy = load(sys.argv[1], seed=1)
memory = policy.initial_memory(2)
for deterministic in (True, False):
    policy.act(np.zeros((2, 3), np.float32), np.ones((2, 5), bool), deterministic, memory)
assert memory.any()
print(*sys.modules)
"""


def test_a_program_that_acts_imports_neither_torch_nor_a_plugin(tmp_path: Path) -> None:
    """Torch and all plugins are installed here; nothing may import one of them."""
    exported, _ = loaded("memory", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", CLEAN, str(exported.path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    modules = set(ran.stdout.split())
    assert "onnxruntime" in modules and "rlcore_onnx.runtime" in modules
    unwanted = ("torch", "onnx", "gymnasium", "yaml", "click")
    assert not [name for name in modules if name.partition(".")[0] in unwanted]
    assert {name.partition(".")[0] for name in modules if name.startswith("rlcore_")} == {"rlcore_onnx"}
