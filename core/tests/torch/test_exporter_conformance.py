"""The rules for exporters notice what is broken."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore.environment import Actions, BehaviorSpec
from rlcore.errors import UnsupportedExport
from rlcore.exporters import ExportAbout, Exporter, policy_module
from rlcore.storage.checkpoint_directory import save_checkpoint
from rlcore.storage.checkpoint import load_checkpoint
from rlcore.testing import ExporterConformance
from rlcore.testing.conformance.exporters import BEHAVIORS
from rlcore.torch.policy import ActorPolicy


class StateExporter:
    """Writes the state of a policy with torch.save."""

    def export(self, policy: ActorPolicy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> None:
        torch.save(policy_module(policy), path)


class Wrong:
    """An exporter that goes wrong in one way."""

    def __init__(self, wrong: str) -> None:
        self.wrong = wrong

    def export(self, policy: ActorPolicy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> None:
        if self.wrong == "swallows errors" and not path.parent.is_dir():
            return
        if self.wrong == "draws":
            random.random()
        if self.wrong == "remembers":
            path = path.with_name("Walker.state")
        if self.wrong == "scribbles":
            Path("log.txt").write_text("exported")
        if self.wrong == "trains":
            with torch.no_grad():
                policy.model.policy_head.linear.weight.add_(1.0)
            policy.refresh()
        module = policy_module(policy)
        if self.wrong == "forgets the normalizer":
            module.model.inputs.normalizer = None
        if self.wrong == "swaps bounds" and behavior.continuous:
            module.low, module.high = module.high, module.low
        torch.save(module, path)
        if self.wrong == "leaves a file":
            path.with_suffix(".log").write_text("exported")
