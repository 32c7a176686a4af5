"""``rlcore_onnx.runtime`` where only the core and onnxruntime are installed: on a robot, in a server, beside a game."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx_files import export
from virtualenvs import Venv
from workspace import CORE

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
assert not {name for name in sys.modules if name == "torch" or name.startswith("rlcore_")}
"""


def test_the_core_and_onnxruntime_act_with_a_file(
    make_venv: Callable[..., Venv], bare: Venv, wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    exported = export("memory", tmp_path, "unity")
    (tmp_path / "act.py").write_text(PROGRAM)
    without = bare.python("act.py", cwd=tmp_path, code=1)
    assert without.stderr.rstrip().endswith("rlcore_onnx.runtime needs onnxruntime; pip install 'rlcore[runtime]'")
    venv = make_venv(f"rlcore[runtime] @ {wheels[CORE.name].as_uri()}", below=bare)
    installed = venv.distributions()
    assert "onnxruntime" in installed and not {"torch", "onnx"} & installed.keys()
    assert {name for name in installed if name.startswith("rlcore")} == {"rlcore"}
    found = np.array(json.loads(venv.python("act.py", cwd=tmp_path).stdout))
    memory = np.zeros((2, exported.policy.memory_size), np.float32)
    for step, continuous in enumerate(found):
        seen = {"state": np.full((2, 3), step, np.float32)}
        expected = exported.policy.act(seen, None, True, memory).continuous
        np.testing.assert_allclose(continuous, expected, rtol=0, atol=1e-5)
