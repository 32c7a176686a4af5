"""A policy as one PyTorch module, for exporters and other runtimes: from raw observations to the environment's actions.

Everything between the two is inside: normalization, the network, action masks, noise, clipping and stretching to the
bounds. :meth:`rlcore_torch.ActorPolicy.act` computes the same with less overhead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlcore_torch.networks.actions import LARGEST_LOGIT, ActionLayout, mask_logits
from rlcore_torch.networks.models import Actor

__all__ = ["PolicyModule"]


class PolicyOutput(NamedTuple):
    """The actions of R rows.

    Attributes:
        continuous: [R, continuous] in the environment's units; None if the behavior has none.
        discrete: [R, branches] int64, index of the chosen option of each branch; None if the behavior has no branches.
        memory: [R, M] after the step; None without memory.
    """

    continuous: Tensor | None
    discrete: Tensor | None
    memory: Tensor | None


class PolicyModule(nn.Module):
    """A policy as one module: from raw observations to the environment's actions.

    ``forward`` has no effect beside its result, and no branch depends on values: it can be traced and exported.

    Attributes:
        low: [continuous] lower bounds.
        high: [continuous] upper bounds.
        middle: [continuous] middle of the range; 0 where unbounded.
        half_range: [continuous] half of the range; 1 where unbounded.
        limit: [continuous] largest absolute value of a raw part: 1, or infinite where unbounded.
    """

    low: Tensor
    high: Tensor
    middle: Tensor
    half_range: Tensor
    limit: Tensor

    def __init__(self, model: Actor, layout: ActionLayout) -> None:
        """``model`` is used as it is, with its own parameters."""
        super().__init__()
        self.model = model
        self.branches = tuple(layout.branches)
        if not layout.continuous:  # torch.export cannot load empty tensors that it saved
            return
        self.register_buffer("low", torch.from_numpy(layout.low.copy()))
        self.register_buffer("high", torch.from_numpy(layout.high.copy()))
        self.register_buffer("middle", torch.from_numpy(layout.middle.copy()))
        self.register_buffer("half_range", torch.from_numpy(layout.half_range.copy()))
        self.register_buffer("limit", torch.from_numpy(layout.clip.copy()))

    def forward(
        self,
        observations: Mapping[str, Tensor],
        action_mask: Tensor | None = None,
        memory: Tensor | None = None,
        noise: tuple[Tensor, Tensor] | None = None,
    ) -> PolicyOutput:
        """Actions for R rows of ``observations``, each [R, *shape] of the observation's type.

        ``action_mask`` [R, logits] is True where allowed. ``memory`` [R, M] is needed with a policy with memory; zeros
        begin an episode. With ``noise``, standard normal [R, ``noise_size``] and Gumbel [R, logits],
        actions are drawn; without, they are those of a deterministic policy.
        """
        columns, logits, memory = self.distribution_parameters(observations, action_mask, memory)
        continuous = discrete = None
        if columns is not None:
            distribution = self.model.policy_head.distribution
            assert distribution is not None
            raw = distribution.deterministic(columns) if noise is None else distribution.sample(columns, noise[0])
            continuous = self.to_environment(raw)
        if logits is not None:
            if noise is not None:
                logits = logits + noise[1]
            # Runtimes of exported programs differ in what they choose beside NaN.
            logits = torch.where(logits < LARGEST_LOGIT, logits, LARGEST_LOGIT)
            branches = logits.split(self.branches, dim=1)  # type: ignore[no-untyped-call]
            choices = [branch.argmax(1) for branch in branches]
            discrete = torch.stack(choices, dim=1)
        return PolicyOutput(continuous, discrete, memory)

    def to_environment(self, raw: Tensor) -> Tensor:
        """Return raw continuous actions [R, continuous] in the environment's units, within its bounds."""
        clipped = raw.clamp(-self.limit, self.limit)
        stretched = clipped * self.half_range + self.middle
        # Clamped again, as ActionLayout does: rounding can step outside of the bounds.
        return stretched.clamp(self.low, self.high)

    @property
    def noise_size(self) -> int:
        """The standard normal numbers that one draw of the continuous parts needs."""
        return self.model.policy_head.noise_size

    @property
    def memory_size(self) -> int:
        """M, the numbers that each row remembers from step to step; 0 without memory."""
        return self.model.memory_size

    def distribution_parameters(
        self, observations: Mapping[str, Tensor], action_mask: Tensor | None = None, memory: Tensor | None = None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts [R, columns], the masked logits [R, logits] and the memory [R, M].

        The arguments are those of :meth:`forward`. A part that the behavior or the policy does not have is None.
        ``model.policy_head.distribution`` says what the columns mean. An exporter can compare its own logits and
        probabilities with these. Raises ValueError for a policy with memory without ``memory``.
        """
        model = self.model
        inputs = self.model.inputs
        columns_of_vectors = []
        for o in inputs.vectors:
            flat = observations[o.name].reshape(-1, o.size)
            columns_of_vectors.append(flat.to(torch.float32))
        raw = [observations[image.name] for image in inputs.images]
        if columns_of_vectors:
            raw.insert(0, torch.cat(columns_of_vectors, dim=1))
        normalized = inputs(tuple(raw))
        if memory is not None:
            columns, logits, memory = model.policy_step(normalized, memory)
        elif model.memory_size:
            raise ValueError("a policy with memory needs the memory of each row; zeros begin an episode")
        else:
            columns, logits = model.policy(normalized)
        if logits is not None and action_mask is not None:
            logits = mask_logits(logits, action_mask)
        return columns, logits, memory
