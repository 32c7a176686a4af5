"""The exporter: a policy as one program of torch.export, which runs where there is PyTorch and no rlcore."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from acme_export.settings import PT2Settings
from rlcore import BehaviorSpec, ExportAbout, Policy, RunContext, policy_module


class Function(nn.Module):
    """The policy with its results by name, because a program must not refer to a class of rlcore."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(
        self, observations: dict[str, Tensor], action_mask: Tensor | None, memory: Tensor | None
    ) -> dict[str, Tensor]:
        output = self.policy(observations, action_mask, memory)
        return {name: part for name, part in output._asdict().items() if part is not None}


class PT2Exporter:
    def __init__(self, settings: PT2Settings, run: RunContext) -> None:
        self.settings = settings

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> None:
        rows, remembered = 3, getattr(policy, "memory_size", 0)
        observations = {o.name: torch.from_numpy(np.zeros((rows, *o.shape), o.dtype)) for o in behavior.observations}
        mask = torch.ones(rows, behavior.mask_size, dtype=torch.bool) if behavior.discrete else None
        memory = torch.zeros(rows, remembered) if remembered else None
        any_number = {0: torch.export.Dim("rows", max=self.settings.max_rows)}
        shapes = (
            dict.fromkeys(observations, any_number),
            None if mask is None else any_number,
            None if memory is None else any_number,
        )
        function = Function(policy_module(policy)).eval()
        program = torch.export.export(function, (observations, mask, memory), dynamic_shapes=shapes)
        torch.export.save(program, path, extra_files={"about.json": json.dumps(attrs.asdict(about))})
