"""The rules of exporters for every profile, with files that onnxruntime computes and nothing of rlcore-onnx reads."""

from __future__ import annotations

import json
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


def _metadata(session: onnxruntime.InferenceSession) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(session.get_modelmeta().custom_metadata_map["rlcore"])
    return document


class TestUnity(ExporterConformance):
    exporter = "rlcore-onnx/onnx"
    settings = {"profile": "unity"}

    def load(self, path: Path) -> Any:
        session = onnxruntime.InferenceSession(path)
        behavior = _metadata(session)["behavior"]
        shapes = {each.name: each.shape for each in session.get_inputs()}
        outputs = [each.name for each in session.get_outputs()]
        low, high = (np.array(behavior[name], np.float32) for name in ("low", "high"))

        def act(
            observations: Mapping[str, NDArray[Any]],
            action_mask: NDArray[np.bool_] | None,
            memory: NDArray[np.float32] | None,
        ) -> tuple[Actions, NDArray[np.float32] | None]:
            feed: dict[str, NDArray[Any]] = {}
            for index, (name, o) in enumerate(observations.items()):
                assert behavior["observations"][index]["name"] == name
                image = behavior["observations"][index]["kind"] == "image"
                feed[f"obs_{index}"] = (o.transpose(0, 3, 1, 2) / 255 if image else o).astype(np.float32)
            rows = len(feed["obs_0"])
            feed["epsilon"] = np.ones((rows, shapes["epsilon"][1]), np.float32)
            if action_mask is not None:
                feed["action_masks"] = action_mask.astype(np.float32)
            if memory is not None:
                feed["recurrent_in"] = memory[:, None, :]
            found = dict(zip(outputs, session.run(outputs, feed), strict=True))
            continuous = found.get("deterministic_continuous_actions")
            if continuous is not None:
                assert np.abs(continuous).max() <= 1
                continuous = low + (continuous + 1) / 2 * (high - low)
            after = found["recurrent_out"][:, 0] if memory is not None else None
            return Actions(continuous, found.get("deterministic_discrete_actions")), after

        return act
