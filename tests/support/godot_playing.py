"""Play a policy's exported file inside Godot, without a trainer: ``play(file, [godot, "--path", project], world)``.

The project ``tests/support/godot_project`` computes the graph of the file in GDScript (``network.gd``), which shares no
code with rlcore or onnxruntime. Authors of worlds without Godot's C# build, which has onnxruntime, can copy it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper


@attrs.frozen(eq=False)
class Played:
    """Observations, actions and returns of a policy that played in the engine.

    Attributes:
        observations: [B, n] what the agents observed.
        outputs: [B, m] the numbers that the network computed there.
        returns: The return of each episode.
    """

    observations: NDArray[np.float64]
    outputs: NDArray[np.float64]
    returns: list[float]


def graph_of(file: Path) -> dict[str, Any]:
    """Return the graph of a file with one observation ``obs`` as JSON values."""
    graph = onnx.load(str(file)).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    nodes = []
    for node in graph.node:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
            continue
        if node.op_type == "Gemm":
            assert (attributes["alpha"], attributes["beta"], attributes["transB"]) == (1.0, 1.0, 1)
        entry: dict[str, Any] = {
            "kind": node.op_type, "inputs": list(node.input), "outputs": list(node.output)
        }  # fmt: skip
        if node.op_type == "Split":
            entry["sizes"] = constants[node.input[1]].tolist()
        if "state_outs" not in node.output:
            nodes.append(entry)
    return {
        "constants": {
            name: {"shape": list(array.shape), "numbers": np.ravel(array).tolist()} for name, array in constants.items()
        },
        "nodes": nodes,
    }


def play(file: Path, game: Sequence[str], world: str, directory: Path, episodes: int = 20) -> Played:
    """Play ``episodes`` of ``world`` with the policy of ``file``; files are written into ``directory``.

    ``game`` is the command of the test project, without its arguments.
    """
    network = directory / "network.json"
    record = directory / "record.json"
    network.write_text(json.dumps(graph_of(file)))
    words = {"world": world, "network": network, "record": record, "episodes": episodes, "env_seed": 3}
    command = [*game, "--headless", "--fixed-fps", "60"]
    command += [f"--{name}={value}" for name, value in words.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert record.is_file(), done.stdout + done.stderr
    played = json.loads(record.read_text())
    assert not played["problem"], played["problem"]
    rows = played["record"]
    return Played(
        np.array([row["obs"] for row in rows]), np.array([row["output"] for row in rows]), list(played["returns"])
    )
