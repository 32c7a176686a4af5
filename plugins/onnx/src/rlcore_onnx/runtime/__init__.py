"""Act with a policy from an ONNX file of rlcore: numpy and onnxruntime, without PyTorch and without plugins.

::

    from rlcore_onnx.runtime import load

    policy = load("CartPole.onnx")
    actions = policy.act(observation[None])  # one row
    env.step(actions.discrete[0, 0])

The exporter ``onnx`` writes such files, of any profile. ``pip install rlcore-onnx`` brings onnxruntime.
"""

from __future__ import annotations

from rlcore_onnx.runtime.policy import OnnxPolicy, load

__all__ = ["OnnxPolicy", "load"]
