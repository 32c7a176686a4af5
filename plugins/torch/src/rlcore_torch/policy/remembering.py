"""Acting with networks that remember: the policy, and critics whose memory a trainer stores with what it collects."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore import AgentBatch
from rlcore_torch.acceleration.numpy_actor import MOST_ROWS
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.policy.policy import ActorPolicy, Parameters


@torch.inference_mode()
def act_remembering(policy: ActorPolicy, batch: AgentBatch, memory: NDArray[np.float32]) -> Parameters:
    """Return what actions are drawn with, as :meth:`ActorPolicy.parameters` does; slots that act remember the step.

    ``memory`` [S, K * M] of the K bodies in ``model.remembering`` is read and overwritten: the policy's numbers first.
    """
    model = policy.model
    after = memory.copy()
    size, (_, *critics) = model.memory_size, model.remembering
    numpy_memory = policy.numpy_memory if len(memory) <= MOST_ROWS else None
    seen: Any = None
    for place, body in enumerate(critics, 1):
        own = slice(place * size, (place + 1) * size)
        if numpy_memory is not None and body in numpy_memory.steps:
            _, after[:, own] = numpy_memory.steps[body](model.inputs.columns(batch.observations), memory[:, own])
            continue
        if seen is None:
            inputs = model.learner_inputs
            seen = inputs(tuple(x.to(policy.device) for x in inputs.raw(batch.observations)))
        after[:, own] = to_numpy(body.step(seen, torch.from_numpy(memory[:, own]).to(policy.device))[1])
    drawn_with = policy.parameters(batch.observations, batch.action_mask, after[:, :size])
    acting = slice(None) if batch.needs_action is None else batch.needs_action
    memory[acting] = after[acting]
    return drawn_with
