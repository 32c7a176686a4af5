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

ROWS = 3  # of the examples that the program is traced with; 0 and 1 would stay constants of it


class Function(nn.Module):
    """The policy with its results by name, because a program must not refer to a class of rlcore."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(
        self, observations: dict[str, Tensor], action_mask: Tensor | None, memory: Tensor | None
    ) -> dict[str, Tensor]:
        output = self.policy(observations, action_mask, memory)
        parts = output._asdict()
        return {name: part for name, part in parts.items() if part is not None}


class PT2Exporter:
    def __init__(self, settings: PT2Settings, run: RunContext) -> None:
        self.settings = settings

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> None:
        observations = {}
        for spec in behavior.observations:
            zeros = np.zeros((ROWS, *spec.shape), spec.dtype)
            observations[spec.name] = torch.from_numpy(zeros)
        mask = None
        if behavior.discrete:
            mask = torch.ones(ROWS, behavior.mask_size, dtype=torch.bool)
        memory = None
        memory_size = getattr(policy, "memory_size", 0)
        if memory_size:
            memory = torch.zeros(ROWS, memory_size)

        any_rows = {0: torch.export.Dim("rows", max=self.settings.max_rows)}
        dynamic_shapes = (
            dict.fromkeys(observations, any_rows),
            None if mask is None else any_rows,
            None if memory is None else any_rows,
        )
        function = Function(policy_module(policy)).eval()
        arguments = (observations, mask, memory)
        program = torch.export.export(function, arguments, dynamic_shapes=dynamic_shapes)
        description = json.dumps(attrs.asdict(about))
        torch.export.save(program, path, extra_files={"about.json": description})
