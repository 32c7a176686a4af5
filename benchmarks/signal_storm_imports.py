"""Imports all modules of a run, for the fork server of ``signal_storm.py``: a run then starts sooner."""

from __future__ import annotations

import importlib
import pkgutil

import gymnasium  # noqa: F401
import torch  # noqa: F401
import yaml  # noqa: F401

PACKAGES = ("rlcore", "rlcore_gymnasium", "rlcore_ppo", "rlcore_torch", "rlcore_onnx", "rlcore_tensorboard")

for package in PACKAGES:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
