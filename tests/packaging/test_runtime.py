"""``rlcore_onnx.runtime`` where only the core and rlcore-onnx are installed: on a robot, in a server, beside a game."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx_files import export
from virtualenvs import Venv

pytestmark = pytest.mark.packaging

PROGRAM = """\
import json
import sys

import numpy as np

from rlcore_onnx.runtime import load

policy = load("memory-unity.onnx", seed=1)
memory = policy.initial_memory(2)
actions = [policy.act(np.full((2, 3), step, np.float32), memory=memory) for step in range(3)]
policy.act(np.zeros((2, 3), np.float32), deterministic=False, memory=memory)
print(json.dumps([each.continuous.tolist() for each in actions]))
loaded = {name.partition(".")[0] for name in sys.modules}
assert not {name for name in loaded - {"rlcore_onnx"} if name in ("onnx", "torch") or name.startswith("rlcore_")}
"""


def test_the_core_and_onnxruntime_act_with_a_file(
    make_venv: Callable[..., Venv], bare: Venv, wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    exported = export("memory", tmp_path, "unity")
    (tmp_path / "act.py").write_text(PROGRAM)
    venv = make_venv(below=bare)
    venv.install("--no-deps", wheels["rlcore-onnx"])
    without = venv.python("act.py", cwd=tmp_path, code=1)
    assert without.stderr.rstrip().endswith("No module named 'onnxruntime'")
    venv.install(wheels["rlcore-onnx"])
    installed = venv.distributions()
    assert "onnxruntime" in installed and "torch" not in installed
    assert {name for name in installed if name.startswith("rlcore")} == {"rlcore", "rlcore-onnx"}
    found = np.array(json.loads(venv.python("act.py", cwd=tmp_path).stdout))
    memory = np.zeros((2, exported.policy.memory_size), np.float32)
    for step, continuous in enumerate(found):
        seen = {"state": np.full((2, 3), step, np.float32)}
        expected = exported.policy.act(seen, None, True, memory).continuous
        np.testing.assert_allclose(continuous, expected, rtol=0, atol=1e-5)
