"""Stored transitions as tensors: what one gradient step of an off-policy or offline trainer sees."""

from __future__ import annotations

import attrs
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
        starts: [B] rows of the replay buffer at which the stretches start. No argument of the class, so that recorded
            gradient steps do not depend on it.
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
