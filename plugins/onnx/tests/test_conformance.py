"""The rules of exporters for every profile, with files that onnxruntime computes and nothing of rlcore-onnx reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from rlcore import Actions
from rlcore_devkit import ExporterConformance, PluginConformance

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "onnx"


class TestGeneric(ExporterConformance):
    exporter = "rlcore-onnx/onnx"

    def load(self, path: Path) -> Any:
        session = onnxruntime.InferenceSession(path)
        inputs = {each.name for each in session.get_inputs()}
        outputs = [each.name for each in session.get_outputs()]

        def act(
            observations: Mapping[str, NDArray[Any]],
            action_mask: NDArray[np.bool_] | None,
            memory: NDArray[np.float32] | None,
        ) -> tuple[Actions, NDArray[np.float32] | None]:
            rows = len(next(iter(observations.values())))
            width = next(each.shape[1] for each in session.get_inputs() if each.name == "epsilon")
            given = {"action_mask": action_mask, "memory": memory, "epsilon": np.ones((rows, width), np.float32)}
            feed = {**observations, **{name: given[name] for name in inputs & given.keys()}}
            found = dict(zip(outputs, session.run(outputs, feed), strict=True))
            actions = Actions(found.get("deterministic_continuous"), found.get("deterministic_discrete"))
            return actions, found.get("memory_out")

        return act
