"""Attention over a set of entities, of which any number may be present, as in ML-Agents.

The layers and their initial weights are those of ML-Agents' ``BufferSensor``. T-Fixup (Huang et al. 2020, "Improving
transformer optimization through better initialization") explains the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["EntityEmbedding", "ResidualSelfAttention"]

HEADS = 4
ABSENT_SCORE = -1e6  # its softmax is 0 beside any entity that is present, and finite where none is


class EntityEmbedding(nn.Module):
    """Embeds each entity of a set beside what is known about the whole: one linear layer and swish.

    Attributes:
        linear: The layer.
    """

    def __init__(self, size: int, width: int, beside: int = 0) -> None:
        """Embed F = ``size`` numbers of an entity and ``beside`` numbers of the whole in ``width`` numbers."""
        super().__init__()
        self.linear = _linear(size + beside, width)

    def forward(self, entities: Tensor, beside: Tensor | None = None) -> Tensor:
        """Return the embeddings [B, E, width] of ``entities`` [B, E, F], beside ``beside`` [B, numbers] if given.

        All numbers must be finite, also those of entities that are absent: NaN there would enter the gradient.
        """
        if beside is not None:
            count = entities.shape[1]
            shared = beside.unsqueeze(1).expand(-1, count, -1)  # [B, E, numbers]
            entities = torch.cat((shared, entities), dim=2)
        embedded = self.linear(entities)
        return functional.silu(embedded)


class ResidualSelfAttention(nn.Module):
    """Reads a set of embedded entities as one vector, whatever their number and order.

    Entities look at each other once, in four heads, and their mean is the result. The mean is over those that are
    present. It is 0 where none is.

    Attributes:
        query: The linear layer of what an entity looks for.
        key: The linear layer of what it is looked at for.
        value: The linear layer of what it tells.
        output: The linear layer after it, whose result is added to the entities.
    """

    def __init__(self, width: int, heads: int = HEADS) -> None:
        """Read embeddings of ``width`` numbers, which ``heads`` must divide: raises ValueError otherwise."""
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads of attention need a width that {heads} divides, not {width}")
        self.width = width
        self.heads = heads
        self.query = _linear(width, width)
        self.key = _linear(width, width)
        self.value = _linear(width, width)
        self.output = _linear(width, width)

    def forward(self, entities: Tensor, present: Tensor | None = None) -> Tensor:
        """Return [B, width] of B sets of ``entities`` [B, E, width].

        ``present`` [B, E] is True for entities that are there; None: all are. Whatever numbers absent entities have,
        NaN included, changes neither the result nor a gradient.
        """
        if present is None:
            everyone = entities.shape[:2]
            present = torch.ones(everyone, dtype=torch.bool, device=entities.device)
        present_rows = present.unsqueeze(2)  # [B, E, 1]
        # Chosen, not multiplied by 0, which would let NaN of an absent entity through.
        entities = torch.where(present_rows, entities, 0.0)
        entities = functional.layer_norm(entities, (self.width,))
        query = self._heads(self.query(entities))
        key = self._heads(self.key(entities))
        value = self._heads(self.value(entities))
        products = query @ key.transpose(2, 3)  # [B, heads, E, E]
        # By the root of the whole width, not by that of a head: ML-Agents' scores.
        scores = products / math.sqrt(self.width)
        present_keys = present[:, None, None, :]
        shares = torch.where(present_keys, scores, ABSENT_SCORE).softmax(3)
        of_heads = (shares @ value).transpose(1, 2)  # [B, E, heads, width / heads]
        attended = self.output(of_heads.flatten(2))
        entities = functional.layer_norm(attended + entities, (self.width,))
        counted = present_rows.to(entities.dtype)
        total = (entities * counted).sum(1)  # [B, width]
        # Without any entity the total is 0, and 0 / 1 stays 0.
        return total / counted.sum(1).clamp(min=1.0)

    def _heads(self, x: Tensor) -> Tensor:
        """[B, heads, E, width / heads] of ``x`` [B, E, width]."""
        of_head = self.width // self.heads
        parts = x.view(*x.shape[:2], self.heads, of_head)
        return parts.transpose(1, 2)


class EntityEncoder(nn.Module):
    """Encodes all observations of entities that a network has as one vector, beside its other observations.

    Attributes:
        beside: The linear layer that shortens the other observations; None if there are none.
        embeddings: The embedding of each observation of entities.
        attention: The attention over the entities of all of them.
    """

    def __init__(self, sizes: Sequence[int], width: int, beside: int) -> None:
        """Encode entities, of which those of observation k have ``sizes[k]`` numbers, as ``width`` numbers.

        ``beside`` are the numbers of the other observations.
        """
        super().__init__()
        self.beside: nn.Linear | None = None
        known_size = 0  # numbers beside each entity
        if beside:
            self.beside = _linear(beside, width)
            known_size = width
        self.embeddings = nn.ModuleList()
        for size in sizes:
            self.embeddings.append(EntityEmbedding(size, width, known_size))
        self.attention = ResidualSelfAttention(width)

    def forward(self, sets: Sequence[Tensor], beside: Tensor | None) -> Tensor:
        """Return [B, width] of ``sets``, each [B, E, F] with its own E and F, and ``beside`` [B, numbers].

        An entity whose numbers are all 0 is absent.
        """
        known: Tensor | None = None
        if self.beside is not None:
            known = functional.silu(self.beside(beside))
        embedded = []
        present = []
        for embedding, entities in zip(self.embeddings, sets, strict=True):
            embedded.append(embedding(entities, known))
            # ML-Agents' buffer sensors fill up with rows of zeros, and send no count.
            present.append((entities != 0.0).any(2))
        everyone = torch.cat(embedded, dim=1)  # of all sets
        return self.attention(everyone, torch.cat(present, dim=1))  # type: ignore[no-any-return]


def _linear(inputs: int, width: int) -> nn.Linear:
    layer = nn.Linear(inputs, width)
    # T-Fixup's scale, as ML-Agents has it for each layer of its attention.
    std = math.sqrt(0.125 / width)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer
