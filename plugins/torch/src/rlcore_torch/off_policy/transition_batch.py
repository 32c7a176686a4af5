"""Stored transitions as tensors: what one gradient step of an off-policy or offline trainer sees."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from rlcore_torch.networks.sequence_inputs import Inputs
from rlcore_torch.off_policy.joined_replay import RowShare
from rlcore_torch.off_policy.replay_rings import NO_ROWS, Rows

__all__ = ["ActionBatch", "TransitionBatch"]


@attrs.define(eq=False)
class ActionBatch:
    """Observations and actions of agents in B steps: the input of imitation.

    Attributes:
        inputs: Normalized observations, each [B, ...], as a network takes them.
        raw: [B, continuous] continuous parts of the actions, as a policy draws them, before they are stretched to the
            environment's range: in [-1, 1] if its distribution is bounded. None if the behavior has none.
        choices: [B, branches] index of the chosen option of each branch; None if the behavior has no branches.
        mask: [B, logits] whether each option is allowed; None: every option is.
    """

    inputs: Inputs
    raw: Tensor | None
    choices: Tensor | None
    mask: Tensor | None


@attrs.frozen(eq=False)
class StepsBetween:
    """The steps of B stretches between their first step and their end: n - 1 for each stretch of n steps.

    A stretch that ends early repeats its last step, with a discount of 0.

    Attributes:
        inputs: Normalized observations, each [(n - 1) * B, ...], step after step.
        mask: [(n - 1) * B, logits] whether each option is allowed; None: every option is.
        discount: [n - 1, B, R] gamma^k of step k.
    """

    inputs: Inputs
    mask: Tensor | None
    discount: Tensor


@attrs.frozen(eq=False)
class AfterEnds:
    """The observations after the ends of B stretches for rewards with ``ignore_done``: no episode ends for them.

    Where the episode ended, that is the first observation of the agent's next one, as in the code of RND (Burda et al.
    2018, arXiv:1810.12894, section 2.3); the final observation only where the agent has not seen the next one yet.

    Attributes:
        inputs: Normalized observations, each [B, ...]; those of ``next_inputs`` where the episode did not end.
        mask: [B, logits] whether each option is allowed; None: every option is.
        ignores_done: [R] whether each reward has ``ignore_done``.
    """

    inputs: Inputs
    mask: Tensor | None
    ignores_done: Tensor


@attrs.define(eq=False)
class TransitionBatch(ActionBatch):
    """B stretches of n steps (n is 1 unless ``n_steps`` says otherwise) with R rewards.

    The fields of :class:`ActionBatch` are from the start of each stretch. The target of a value that ``n_steps`` later
    is worth ``next_value`` [B, R] is ``reward + discount * next_value``. A value that contains a bonus for the policy's
    entropy needs ``between`` too: the bonus of step k counts gamma^k.

    Attributes:
        next_inputs: Normalized observations at the end, each [B, ...].
        next_mask: [B, logits] whether each option is allowed at the end; None: every option is.
        reward: [B, R] discounted sum of the rewards over the stretch, strength included.
        discount: [B, R] gamma^m for the m steps of a stretch: n, or fewer where the episode ended or the newest
            transition is. 0 where the episode terminated (unless the reward ignores that).
        weight: [B] importance weight of each transition in the loss, under prioritized replay; None: all equal.
        between: The steps between; None if n is 1, or if the trainer does not read them.
        rows: The rows of this rank in the minibatch of all ranks; None in one process.
        after_ends: Where the values of rewards with ``ignore_done`` continue; None if ``next_inputs`` have it: without
            such a reward, and without the end of an episode among the stretches.
        starts: [B] rows of the replay buffer at which the stretches start; with ``prior_data``, those of the first
            stretches, which are not recorded. No argument of the class, so that recorded gradient steps do not depend
            on it.
    """

    next_inputs: Inputs
    next_mask: Tensor | None
    reward: Tensor
    discount: Tensor
    weight: Tensor | None = None
    between: StepsBetween | None = None
    rows: RowShare | None = None
    after_ends: AfterEnds | None = None
    starts: Rows = attrs.field(default=NO_ROWS, init=False)


def joined(first: TransitionBatch, second: TransitionBatch) -> TransitionBatch:
    """Return the stretches of ``first``, and then those of ``second``, whose weights are 1 if ``first`` has weights.

    Both have stretches of the same n and the same rewards; neither is of several ranks, or has sequences. ``starts``
    are those of ``first``.
    """
    rows = len(first.reward)
    more = len(second.reward)
    weight = first.weight
    if weight is not None:
        weight = torch.cat([weight, weight.new_ones(more)])
    batch = TransitionBatch(
        inputs=_joined_inputs(first.inputs, second.inputs),
        raw=_joined(first.raw, second.raw),
        choices=_joined(first.choices, second.choices),
        mask=_joined_masks(first.mask, second.mask, rows, more),
        next_inputs=_joined_inputs(first.next_inputs, second.next_inputs),
        next_mask=_joined_masks(first.next_mask, second.next_mask, rows, more),
        reward=torch.cat([first.reward, second.reward]),
        discount=torch.cat([first.discount, second.discount]),
        weight=weight,
        between=_joined_between(first.between, second.between),
        after_ends=_joined_after_ends(first, second),
    )
    batch.starts = first.starts
    return batch


def _joined_between(first: StepsBetween | None, second: StepsBetween | None) -> StepsBetween | None:
    if first is None or second is None:
        return None
    steps, rows, _ = first.discount.shape
    more = second.discount.shape[1]
    return StepsBetween(
        inputs=_joined_inputs(first.inputs, second.inputs, steps),
        mask=_joined_masks(first.mask, second.mask, rows, more, steps),
        discount=torch.cat([first.discount, second.discount], dim=1),
    )


def _joined_after_ends(first: TransitionBatch, second: TransitionBatch) -> AfterEnds | None:
    """Stretches of a batch without :class:`AfterEnds` continue at their ends."""
    given = first.after_ends or second.after_ends
    if given is None:
        return None
    after = []
    for batch in (first, second):
        at_ends = AfterEnds(batch.next_inputs, batch.next_mask, given.ignores_done)
        after.append(batch.after_ends or at_ends)
    one, other = after
    inputs = _joined_inputs(one.inputs, other.inputs)
    mask = _joined_masks(one.mask, other.mask, len(first.reward), len(second.reward))
    return AfterEnds(inputs, mask, given.ignores_done)


def _joined_inputs(first: Inputs, second: Inputs, steps: int = 1) -> Inputs:
    pairs = zip(first, second, strict=True)
    return tuple(_joined_steps(a, b, steps) for a, b in pairs)


def _joined_masks(first: Tensor | None, second: Tensor | None, rows: int, more: int, steps: int = 1) -> Tensor | None:
    """Where one batch has masks, every option is allowed in a batch without."""
    if first is None and second is None:
        return None
    if first is None:
        assert second is not None
        first = second.new_ones(steps * rows, second.shape[1])
    if second is None:
        second = first.new_ones(steps * more, first.shape[1])
    return _joined_steps(first, second, steps)


def _joined(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return None
    return torch.cat([first, second])


def _joined_steps(first: Tensor, second: Tensor, steps: int) -> Tensor:
    """Join tensors that are [steps * B, ...] step after step, so that each step has all rows."""
    of_steps = [tensor.reshape(steps, -1, *tensor.shape[1:]) for tensor in (first, second)]
    return torch.cat(of_steps, dim=1).flatten(0, 1)
