"""A rollout as tensors, the minibatches that are drawn from it, and the loss of one of them.

Row t of slot s is the place t * S + s of a rollout. With ranks, every rank draws the same places of the whole rollout,
from equal generators, and learns from those of its own slots.

Shapes: T rows, S slots of this rank, S* of all ranks; R reward providers; B transitions of a minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import Ranks
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.networks.sequence_inputs import Inputs, Sequences
from rlcore_torch.on_policy.advantages import Trajectories
from rlcore_torch.on_policy.sequences import SequenceTable
from rlcore_torch.template import Statistic

__all__ = ["Loss", "Minibatch", "Rollout", "mean_over_rows", "probability_ratio"]

Places = NDArray[np.int64]
LossFunction = Callable[["Minibatch"], "Loss"]
LossMethod = TypeVar("LossMethod", bound=Callable[..., "Loss"])

# Parts of a minibatch beside its inputs, and parts of a loss; those before the last are means over rows.
COLUMNS = ("raw", "choices", "mask", "old_log_prob", "old_value", "advantage", "returns")
PARTS = ("total", "policy", "value", "entropy", "log_ratio")

ROUNDING = 8  # units in the last place: what sums of thousands of equal numbers are off by
MOST_LOG_RATIO = 80.0  # its exponential is far beyond each clip range, and float32 has infinity from 88.8 on


@attrs.define(eq=False)
class Minibatch:
    """B transitions of a rollout.

    Attributes:
        inputs: Normalized observations, each [B, ...], as a network takes them.
        raw: [B, continuous] continuous parts of the actions as drawn, before they are clipped and stretched to the
            bounds; None if the behavior has none.
        choices: [B, branches] index of the chosen option of each branch; None if the behavior has no branches.
        mask: [B, logits] whether each option was allowed; None: every option was.
        old_log_prob: [B] log-probability of the actions under the weights that acted, in nats.
        old_value: [B, R] values under the weights that acted, for R reward providers.
        advantage: [B] sum over all providers, standardized as ``advantage_normalization`` says.
        returns: [B, R] targets of the value heads.
        beside: Further numbers of each row by name, each [B, ...], of an algorithm that needs more than the others do.
        sequences: With memory: how the B rows form sequences of steps; None without memory.
        share: The share of these rows in the minibatch of all ranks, of which a rank may have none; 1 in one process.
        weight: [] with memory: the rows of the minibatch of all ranks over their mean in the pass. Minibatches of whole
            sequences differ in size, and each row counts alike. None: all have one size.
    """

    inputs: Inputs
    raw: Tensor | None
    choices: Tensor | None
    mask: Tensor | None
    old_log_prob: Tensor
    old_value: Tensor
    advantage: Tensor
    returns: Tensor
    beside: Mapping[str, Tensor] = attrs.field(factory=dict)
    sequences: Sequences | None = None
    share: float = 1.0
    weight: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Minibatch:
        """Return a minibatch with ``function`` of every tensor [B, ...].

        ``sequences`` describe other rows then, and are left out.
        """
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            column = getattr(self, name)
            if column is not None:
                columns[name] = function(column)
        inputs = tuple(map(function, self.inputs))
        beside = {name: function(column) for name, column in self.beside.items()}
        return attrs.evolve(self, inputs=inputs, beside=beside, sequences=None, share=1.0, **columns)

    def split(self, sizes: Iterable[int]) -> Iterator[Minibatch]:
        """Yield views of as many rows as ``sizes`` say, one after the other."""
        start = 0
        for size in sizes:
            part = slice(start, start + size)
            yield self.map(lambda x, part=part: x[part])  # type: ignore[misc]
            start += size


@attrs.define(eq=False)
class Rollout:
    """The transitions since the last update, with what the weights that acted said of them.

    Attributes:
        raw_inputs: Observations of T + 1 rows before they are normalized, each [(T + 1) * S, ...].
        inputs: The same, normalized.
        raw: [T * S, continuous] continuous parts of the actions as drawn; None if the behavior has none.
        choices: [T * S, branches] chosen options; None if the behavior has no branches.
        mask: [T * S, logits] whether each option was allowed; None: every option was.
        log_prob: [T * S] log-probabilities of the actions, in nats.
        value: [T, S, R] values of the observations that were acted on; a tensor in a tensor environment.
        next_value: [T, S, R] values of what followed, which is the final observation where an episode ended.
        valid: [T, S] whether there is a transition; there is one everywhere while all slots act together.
        valid_of_all: [T*, S*] the same for all ranks.
        own_slot: [S*] this rank's slot, or -1 for one of another rank; None in one process.
        trajectories: How the transitions continue one another.
        memory: [(T + 1) * S, M] what was remembered at each observation; None without memory.
        table: The sequences of all ranks; None without memory.
        beside: Further numbers of each place by name, each [T * S, ...], which minibatches get too.
        episodes: By reward provider, its rewards of the episodes that ended.
        learned: By reward provider, the statistics of what it learned.
        stats: Statistics of the update, by tag.
    """

    raw_inputs: Inputs
    inputs: Inputs
    raw: Tensor | None
    choices: Tensor | None
    mask: Tensor | None
    log_prob: Tensor
    value: NDArray[np.float32]
    next_value: NDArray[np.float32]
    valid: NDArray[np.bool_]
    valid_of_all: NDArray[np.bool_]
    own_slot: NDArray[np.int64] | None
    trajectories: Trajectories
    memory: Tensor | None
    table: SequenceTable | None
    beside: dict[str, Tensor] = attrs.field(factory=dict)
    episodes: list[list[float]] = attrs.field(factory=list)
    learned: list[Mapping[str, Statistic]] = attrs.field(factory=list)
    stats: dict[str, Statistic] = attrs.field(factory=dict)

    def minibatch(self, advantages: Tensor, returns: Tensor) -> Minibatch:
        """Return all places as one minibatch, those without a transition included.

        ``advantages`` are [T, S], ``returns`` [T, S, R].
        """
        old_value = torch.as_tensor(self.value).to(advantages.device)
        return Minibatch(
            inputs=self.inputs,
            raw=self.raw,
            choices=self.choices,
            mask=self.mask,
            old_log_prob=self.log_prob,
            old_value=old_value.flatten(0, 1),
            advantage=advantages.flatten(),
            returns=returns.flatten(0, 1),
            beside=self.beside,
        )

    def draw(self, batch_size: int, generator: np.random.Generator) -> tuple[list[Places], list[Places]]:
        """Draw the places of the minibatches of one pass, of all ranks and in random order.

        Minibatches have equal sizes of about ``batch_size``, as compiled code and CUDA graphs need them: if they do not
        divide the transitions, the first ones of the pass, fewer than there are minibatches, come again at its end.
        With memory, minibatches consist of whole sequences, whose numbers are returned too.
        """
        places = np.flatnonzero(self.valid_of_all)
        count = max(1, round(len(places) / batch_size))
        if self.table is not None:
            sequences = list(self.table.shuffled(generator, count))
            return [self.table.places(chosen) for chosen in sequences], sequences
        order = generator.permutation(len(places))
        size = math.ceil(len(order) / count)
        drawn = np.resize(order, (count, size))  # which repeats the first ones
        return list(places[drawn]), []

    def own(self, places: Places) -> tuple[Places, Any]:
        """Return the places of this rank among ``places`` of all ranks, and which of them they are."""
        if self.own_slot is None:
            return places, slice(None)
        rows, slots = np.divmod(places, len(self.own_slot))
        local_slots = self.own_slot[slots]
        is_local = local_slots >= 0
        slots_here = self.valid.shape[1]
        return rows[is_local] * slots_here + local_slots[is_local], is_local

    def sequences(self, chosen: Places, actor_memory: int) -> Sequences | None:
        """Return how the rows of this rank's sequences among ``chosen`` lie; None if none is of this rank.

        ``actor_memory`` is the size of the policy's memory.
        """
        assert self.table is not None and self.memory is not None
        first_places, is_local = self.own(self.table.first_places[chosen])
        if not len(first_places):
            return None
        index = torch.from_numpy(first_places).to(self.memory.device)
        remembered = self.memory.index_select(0, index)  # before the first step of each sequence
        of_actor = remembered[:, :actor_memory]
        of_critic = remembered[:, -actor_memory:]
        return self.table.layout(chosen[is_local], of_actor, of_critic)


@attrs.define(eq=False)
class Loss:
    """The result of :meth:`rlcore_torch.OnPolicyTrainer.loss`:

    ``total`` is minimized, the rest is reported.

    Attributes:
        total: [] the loss that is minimized.
        policy: [] its policy part.
        value: [] its value part.
        entropy: [] mean entropy of the policy, in nats.
        log_ratio: [B] log of the new over the old probability of the actions.
        reported: [] further parts that are means over the rows, by the tag of their statistic.
        norm: [] norm of the gradient before it was clipped; set by :meth:`rlcore_torch.OnPolicyTrainer.minimize`.
        share: The share of these rows in the minibatch of all ranks; set likewise.
        weight: [] of the minibatch among those of its pass; None: all have one; set likewise.
        stepped: Whether a step was taken; set likewise.
    """

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor
    reported: Mapping[str, Tensor] = MappingProxyType({})  # torch.compile makes none with a factory
    norm: Tensor | None = None
    share: float = 1.0
    weight: Tensor | None = None
    stepped: bool = True

    def detached(self) -> Loss:
        """Return the numbers without their graph, which would keep a minibatch in memory."""
        parts: dict[str, Any] = {name: getattr(self, name).detach() for name in PARTS}
        reported = {tag: part.detach() for tag, part in self.reported.items()}
        return attrs.evolve(self, reported=reported, **parts)

    def parts(self, tags: Sequence[str]) -> Tensor:
        """Return policy, value and entropy, then what is reported by ``tags``: [3 + tags]; 0 without rows."""
        zero = torch.zeros_like(self.policy)
        reported = [self.reported.get(tag, zero) for tag in tags]
        return torch.stack([self.policy, self.value, self.entropy, *reported])

    @classmethod
    def of_pieces(cls, losses: Sequence[Loss], shares: Sequence[float]) -> Loss:
        """Return the loss of a minibatch from those of its pieces, each with its share of the rows."""

        def mean(parts: Iterable[Tensor]) -> Tensor:
            weighted = [part * share for part, share in zip(parts, shares, strict=True)]
            return torch.stack(weighted).sum(0)

        means: dict[str, Any] = {}
        for name in PARTS[:-1]:
            means[name] = mean(getattr(loss, name) for loss in losses)
        reported = {}
        for tag in losses[0].reported:
            reported[tag] = mean([loss.reported[tag] for loss in losses])
        log_ratio = torch.cat([loss.log_ratio for loss in losses])
        return cls(**means, reported=reported, log_ratio=log_ratio)


def mean_over_rows(loss: LossMethod) -> LossMethod:
    """Decorate a method ``loss`` whose results are means over the rows of the minibatch.

    A minibatch may then be taken in pieces. A method that overrides a decorated one is not decorated by that.
    """
    vars(loss)["is_mean_over_rows"] = True
    return loss


def is_mean_over_rows(loss: LossFunction) -> bool:
    """Whether the results of ``loss`` are means over rows."""
    return getattr(loss, "is_mean_over_rows", False)


def mean_losses(losses: Sequence[Loss], ranks: Ranks) -> tuple[dict[str, float], Tensor]:
    """Return the means over all minibatches of an update, by tag, and the log-ratios of all their rows, of all ranks.

    Each rank has a share of the rows of a minibatch, and its means count by it. Minibatches with memory differ in size,
    and count by their rows.
    """
    tags: Sequence[str] = ()
    for loss in losses:
        tags = tags or tuple(loss.reported)  # a rank has none where it has no row of a minibatch
    parts = torch.stack([loss.parts(tags) for loss in losses], dim=1)  # [parts, minibatches]
    weights = [loss.weight for loss in losses if loss.weight is not None]
    if weights:
        parts = parts * torch.stack(weights)
    norms = torch.stack([loss.norm for loss in losses if loss.norm is not None])
    log_ratio = torch.cat([loss.log_ratio for loss in losses])
    if ranks.size > 1:
        device = parts.device
        shares = torch.tensor([loss.share for loss in losses], device=device)
        gathered = ranks.all_gather((to_numpy(parts * shares), to_numpy(log_ratio)))
        parts_of_ranks, log_ratios = zip(*gathered, strict=True)
        parts = torch.as_tensor(np.sum(parts_of_ranks, axis=0)).to(device)
        log_ratio = torch.as_tensor(np.concatenate(log_ratios)).to(device)
    means = torch.cat([parts, norms.unsqueeze(0)]).mean(1)
    policy, value, entropy, *reported, norm = means.tolist()
    by_tag = {
        "Losses/Policy Loss": policy,
        "Losses/Value Loss": value,
        **dict(zip(tags, reported, strict=True)),
        "Losses/Gradient Norm": norm,
        "Policy/Entropy": entropy,
    }
    return by_tag, log_ratio


def standardized_parts(advantage: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    """Standardize each of the parts that ``advantage`` [sum of sizes] consists of."""
    if len(set(sizes)) == 1:
        return standardize(advantage.view(len(sizes), -1)).unbind(0)
    return [standardize(part) for part in advantage.split(list(sizes))]  # type: ignore[no-untyped-call]


def probability_ratio(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """Return the ratios [B] of new to old probabilities for a clipped surrogate, from their logarithms [B].

    Where ``advantage`` [B] is not negative, a ratio beyond the clip range has no gradient, and its size does not
    matter. It stays finite there: autograd multiplies the gradient 0 by the ratio, and 0 times infinity is NaN. With
    a negative advantage the ratio counts in full, and the loss is infinite if it is.
    """
    limited = log_ratio.clamp(max=MOST_LOG_RATIO)
    counted = torch.where(advantage < 0.0, log_ratio, limited)
    return counted.exp()


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Estimate KL(old || new) from samples of old: the mean of (r - 1) - log r.

    See Schulman 2020, "Approximating KL divergence".
    """
    return (log_ratio.expm1() - log_ratio).mean()


def standardize(advantage: Tensor) -> Tensor:
    """Shift and scale to mean 0 and standard deviation 1 along the last axis; equal values become 0.

    Values are equal if they differ by no more than rounding: divided by its spread, rounding would be of size 1.
    """
    deviation = advantage - advantage.mean(-1, keepdim=True)
    spread = advantage.std(-1, correction=0, keepdim=True)
    largest = advantage.abs().amax(-1, keepdim=True)
    rounding = ROUNDING * torch.finfo(advantage.dtype).eps * largest
    standardized = deviation / (spread + 1e-8)
    return torch.where(spread <= rounding, 0.0, standardized)  # NaN stays
