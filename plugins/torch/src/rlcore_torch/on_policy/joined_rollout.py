"""A rollout whose slots are shared among ranks: how the transitions of all ranks are numbered and drawn.

Every rank draws the minibatches of the whole rollout, from equal generators, and learns from those of its own rows.
With the numbering of one process, the minibatches are those of one process.

Shapes: T rows, S slots of this rank, S* of all ranks; n transitions of this rank, N of all; R reward providers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import Ranks, SlotShare
from rlcore_torch.on_policy.advantages import explained_variances
from rlcore_torch.on_policy.minibatch import Minibatch, minibatch_rows, standardize
from rlcore_torch.on_policy.rollout import valid_rows
from rlcore_torch.on_policy.rollout_memory import RolloutSequences
from rlcore_torch.on_policy.sequences import SequenceTable

Bools = NDArray[np.bool_]


@attrs.frozen(eq=False)
class JoinedRollout:
    """The rollout of all ranks as one of them knows it.

    Attributes:
        own: [N] the row, among those of this rank, of each transition of all ranks; -1 for those of other ranks.
        numbers: [n] the number, among those of all ranks, of each row of this rank.
        advantage: [N] sum over all providers, before it is standardized.
        starts: [T, S*] the first step of each sequence; None without memory.
        valid: [T, S*] the steps that hold a transition.
        own_slots: [S*] whether a slot is of this rank.
        stats: Statistics of all ranks.
    """

    own: NDArray[np.int64]
    numbers: NDArray[np.int64]
    advantage: Tensor
    starts: Bools | None
    valid: Bools
    own_slots: Bools
    stats: Mapping[str, float | Sequence[float]]

    @classmethod
    def gather(
        cls,
        ranks: Ranks,
        share: SlotShare,
        lengths: NDArray[np.int64],
        advantages: NDArray[np.float32],
        values: NDArray[np.float32],
        returns: NDArray[np.float32],
        sequences: RolloutSequences | None,
        provider_names: Sequence[str],
        stats: Mapping[str, float | Sequence[float]],
        device: torch.device,
    ) -> JoinedRollout:
        """Gather what all ranks have to know: ``lengths`` [S], ``advantages`` [T, S], ``values`` and returns [T, S, R].

        ``stats`` are those of this rank; lists of them, with a number for each episode, are joined.
        """
        num_rows = len(advantages)
        valid = valid_rows(num_rows, lengths)
        lists = {tag: value for tag, value in stats.items() if isinstance(value, Sequence)}
        gathered = ranks.all_gather({
            "slots": share.numbers,
            "lengths": lengths,
            "advantages": advantages[valid],
            "values": values[valid],
            "returns": returns[valid],
            "starts": None if sequences is None else sequences.starts,
            "lists": lists,
        })  # fmt: skip
        longest = max(int(each["lengths"].max(initial=0)) for each in gathered)
        all_lengths = np.zeros(share.total, np.int64)
        for each in gathered:
            all_lengths[each["slots"]] = each["lengths"]
        all_valid = valid_rows(longest, all_lengths)
        order = np.full(all_valid.shape, -1, np.int64)
        order[all_valid] = np.arange(np.count_nonzero(all_valid))

        def joined(name: str) -> NDArray[Any]:
            whole = np.zeros((np.count_nonzero(all_valid), *gathered[0][name].shape[1:]), gathered[0][name].dtype)
            for each in gathered:
                numbers = order[:, each["slots"]]
                whole[numbers[numbers >= 0]] = each[name]
            return whole

        numbers = order[:num_rows, share.numbers][valid]
        own = np.full(np.count_nonzero(all_valid), -1, np.int64)
        own[numbers] = np.arange(len(numbers))
        starts = None
        if sequences is not None:
            starts = np.zeros_like(all_valid)
            for each in gathered:
                starts[: len(each["starts"]), each["slots"]] = each["starts"]
        own_slots = np.zeros(share.total, np.bool_)
        own_slots[share.numbers] = True
        whole_values, whole_returns = joined("values"), joined("returns")
        found = dict(stats)
        for k, name in enumerate(provider_names):
            found[f"Policy/{name.capitalize()} Value Estimate"] = float(whole_values[:, k].mean())
        for tag in sorted({tag for each in gathered for tag in each["lists"]}):
            found[tag] = [number for each in gathered for number in each["lists"].get(tag, ())]
        found |= explained_variances(whole_values, whole_returns, provider_names)
        advantage = torch.from_numpy(joined("advantages")).to(device)
        return cls(own, numbers, advantage, starts, all_valid, own_slots, found)

    def standardized(self) -> Tensor:
        """[n] the advantages of this rank, standardized over the whole rollout."""
        return standardize(self.advantage)[torch.from_numpy(self.numbers).to(self.advantage.device)]

    def minibatches(
        self, rollout: Minibatch, batch_size: int, generator: np.random.Generator, standardized: bool
    ) -> Iterator[Minibatch]:
        """The rows that this rank has of each minibatch of one pass; there may be none."""
        rows = minibatch_rows(generator.permutation(len(self.own)), batch_size)
        device = self.advantage.device
        advantages = self.advantage[torch.from_numpy(rows).to(device)]  # [parts, size]
        if standardized:
            advantages = standardize(advantages)
        for own, advantage in zip(self.own[rows], advantages, strict=True):
            yield _part(rollout, own, advantage if standardized else None)

    def sequence_minibatches(
        self,
        rollout: Minibatch,
        sequences: RolloutSequences,
        batch_size: int,
        generator: np.random.Generator,
        standardized: bool,
    ) -> Iterator[Minibatch]:
        """As :meth:`minibatches`, of whole sequences."""
        assert self.starts is not None
        table = SequenceTable(self.starts, self.valid)
        of_rank = self.own[table.first_rows] >= 0  # [Q*]
        own_sequences = np.cumsum(of_rank) - 1
        parts = max(1, round(len(self.own) / batch_size))
        for chosen in table.shuffled(generator, parts):
            rows = table.rows(chosen)
            own = self.own[rows]
            advantage = self.advantage[torch.from_numpy(rows).to(self.advantage.device)]
            part = _part(rollout, own, standardize(advantage) if standardized else None)
            mine = own_sequences[chosen[of_rank[chosen]]]
            if len(mine):
                _, laid_out = sequences.table.select(mine, sequences.actor_memory, sequences.critic_memory)
                part.sequences = laid_out
            yield part


def _part(rollout: Minibatch, own: NDArray[np.int64], advantage: Tensor | None) -> Minibatch:
    """The rows of a minibatch that are of this rank; ``own`` is -1 for the others. ``advantage`` is of all rows."""
    mine = own >= 0
    device = rollout.advantage.device
    rows = torch.from_numpy(own[mine]).to(device)
    part = rollout.map(lambda x: x.index_select(0, rows))
    if advantage is not None:
        part.advantage = advantage[torch.from_numpy(mine).to(device)]
    part.share = float(len(rows) / len(own))
    return part
