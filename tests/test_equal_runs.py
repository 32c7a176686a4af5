"""``tools/equal_runs.py compare``: each value under its own name, and nothing left out silently."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import equal_runs
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save, save_file


def write(run: Path, weights: dict[str, list[float]], snapshot: list[float], **metrics: Any) -> None:
    """A run whose behaviors have ``weights``; the first of them keeps a frozen policy."""
    place = run / "checkpoints" / "100"
    place.mkdir(parents=True)
    state: dict[str, Any] = {"run": {"wall_seconds": np.random.default_rng().random()}}
    for name, values in weights.items():
        save_file({"weight": np.array(values)}, place / f"{name}.safetensors")
        state[name] = {"model": {"$array": "weight"}}
    frozen: NDArray[np.float64] = np.array(snapshot)
    content = save({"weight": frozen})
    file = f"_frozen-{sha256(content).hexdigest()}.safetensors"
    (place / file).write_bytes(content)
    state[next(iter(weights))]["snapshot"] = {"$frozen": file, "content": {"$array": "weight"}}
    (place / "state.json").write_text(json.dumps(state))
    (run / "metrics.jsonl").write_text(json.dumps({"step": 100, "stats": metrics}) + "\n")
    (run / "result.json").write_text("{}")


def test_each_value_is_compared_under_its_own_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a" / "case", {"One": [1.0], "Two": [2e6, 3.0]}, [5.0], loss=0.0, old=1)
    write(tmp_path / "b" / "case", {"One": [1.5], "Two": [2e6, 4.0]}, [5.25], loss=-0.0, new=1)

    assert equal_runs.compare(tmp_path / "a", tmp_path / "b", ["case"], most=5) == 1
    assert capsys.readouterr().out.splitlines() == [
        "case: 2 entries equal, 4 differ, 2 in one of the two",
        "    largest by step: 100: 0.33",
        "    step 100 One/model: 0.5 absolute, 0.33 relative, 1 of 1 values",
        "    step 100 One/snapshot: 0.25 absolute, 0.048 relative, 1 of 1 values",
        "    step 100 Two/model: 1 absolute, 5e-07 relative, 1 of 2 values",
        "    step 100 metrics.jsonl line 1/stats/loss: only signs of zeros, or bits of NaN",
        "    only in the second: metrics.jsonl line 1/stats/new (at 100)",
        "    only in the first: metrics.jsonl line 1/stats/old (at 100)",
        "not compared, because times and installed packages differ: /wall_seconds",
    ]
