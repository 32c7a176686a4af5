"""Acting with networks that remember: the policy, and critics whose memory a trainer stores with what it collects."""

from __future__ import annotations

from typing import Any

import torch

from rlcore import AgentBatch
from rlcore_torch.acceleration.numpy_actor import MOST_ROWS
from rlcore_torch.arrays import FloatArray
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.policy.policy import ActorPolicy, Parameters


@torch.inference_mode()
def act_remembering(policy: ActorPolicy, batch: AgentBatch, memory: FloatArray) -> Parameters:
    """Return what actions are drawn with, as :meth:`ActorPolicy.parameters` does; slots that act remember the step.

    ``memory`` [S, K * M] of the K bodies in ``model.remembering`` is read and overwritten: the policy's numbers first.
    """
    model = policy.model
    observations = batch.observations
    size = model.memory_size
    after = memory.copy()
    numpy_memory = policy.numpy_memory if len(memory) <= MOST_ROWS else None
    normalized: Any = None  # inputs of critics that PyTorch computes
    _, *critics = model.remembering
    for place, body in enumerate(critics, 1):
        columns = slice(place * size, (place + 1) * size)
        before = memory[:, columns]
        if numpy_memory is not None and body in numpy_memory.steps:
            step = numpy_memory.steps[body]
            _, after[:, columns] = step(model.inputs.columns(observations), before)
            continue
        if normalized is None:
            inputs = model.learner_inputs
            normalized = inputs(tuple(x.to(policy.device) for x in inputs.raw(observations)))
        _, remembered = body.step(normalized, torch.from_numpy(before).to(policy.device))
        after[:, columns] = to_numpy(remembered)
    parameters = policy.parameters(observations, batch.action_mask, after[:, :size])
    # A slot that waits for its turn has seen nothing new: it remembers what it did.
    acting = slice(None) if batch.needs_action is None else batch.needs_action
    memory[acting] = after[acting]
    return parameters
