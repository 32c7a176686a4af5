"""Several policies as one: each row acts with a policy of its own, such as another opponent.

Policies of one shape act together if their framework can stack them: :class:`StackableSnapshot` and
:class:`PolicyStack` say how. A framework need not import this module to fit them.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, MemoryPolicy, Policy, Snapshot, derive_seed

__all__ = ["NumberedPolicy", "PolicyMix", "PolicyStack", "StackableSnapshot"]


@runtime_checkable
class NumberedPolicy(Protocol):
    """A policy, or a stack of policies, whose rows draw by their numbers: the same actions, whichever rows are there.

    The agents of a run are numbered. In a run of several processes, each then acts as it does in one process.
    """

    def seed_rows(self, seed: int, numbers: NDArray[np.int64], total: int) -> None:
        """Seed as :meth:`Policy.seed` does, for calls of ``act`` with R rows that have ``numbers`` [R] below ``total``.

        The draws of a row depend on ``seed``, the number of the row, and ``total``. Forgotten at the next ``seed``.
        """


class PolicyStack(MemoryPolicy, Protocol):
    """Frozen policies of one shape that act together, each at a place: one forward pass instead of one for each policy.

    A framework implements it with stacked weights and a batched product of matrices. :class:`PolicyMix` calls
    :meth:`put` when a policy was replaced, :meth:`assign` when rows changed their policy, and ``act`` for each step.

    ``act`` gets observations, action masks and memory of all R rows, and returns the actions of the r rows that have a
    place, in their order. ``memory`` [R, at least M] is read and overwritten in the first M columns of these rows;
    without it, an episode begins in every row.
    """

    def put(self, place: int, policy: Policy) -> bool:
        """Copy the weights of ``policy`` to ``place``, and return True; False if this stack cannot hold the policy.

        Places are counted from 0, and there can be as many as the mix has policies. Only the weights of ``policy`` are
        copied. After False, no row is assigned to ``place``. A stack refuses policies of any other kind or framework.
        """

    def assign(self, places: NDArray[np.integer[Any]]) -> None:
        """Choose the policy of each row for calls of ``act``: ``places`` [R], -1 for rows of other policies.

        At least one row has a place. Numerical results of rows may depend on ``places``, and on nothing earlier: a
        resumed run then acts bit for bit as one that was never stopped.
        """


@runtime_checkable
class StackableSnapshot(Snapshot, Protocol):
    """A snapshot that can act together with others of its shape. ``make_stack`` is optional for snapshots."""

    def make_stack(self) -> PolicyStack | None:
        """Return an empty stack for snapshots of this shape; None if snapshots of it act faster one by one."""


Rows = NDArray[np.intp]


class PolicyMix:
    """Several policies as one: each row acts with a policy of its own. For example, against different opponents.

    Snapshots of one shape act in one forward pass (:class:`StackableSnapshot`); each other policy acts by itself. A
    policy may be replaced in ``policies``, which copies its weights and no others. Weights of a snapshot that change
    after the snapshot has acted are not noticed.

    Attributes:
        policies: The policies, None for a place that no row has; may be changed between calls.
        policy_index: [R] index in ``policies`` of the policy of each row; may be changed between calls, R included.
        memory_size: Numbers that a row remembers with the policy that remembers most.
    """

    def __init__(self, policies: Sequence[Policy | None], policy_index: NDArray[np.integer[Any]]) -> None:
        """``policy_index`` [R] is the index in ``policies`` of each row's policy. Both may be changed between calls."""
        self.policies = list(policies)
        self.policy_index = policy_index
        self._seed = 0
        self._known: list[Policy | None] = []  # `policies` when stacks were last changed
        self._stack_of: list[PolicyStack | None] = []  # of each known policy; its place is its index
        self._grouped: NDArray[np.integer[Any]] | None = None  # `policy_index` of `_stacked` and `_single`
        self._stacked: list[tuple[Rows, PolicyStack]] = []  # rows [r] of each stack
        self._single: list[tuple[Rows, Policy]] = []  # rows [r] of each policy without a stack

    @property
    def memory_size(self) -> int:
        """The largest memory of a policy; 0 if none has memory."""
        sizes = [getattr(policy, "memory_size", 0) for policy in self.policies]
        return max(sizes, default=0)

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
        memory: NDArray[np.float32] | None = None,
    ) -> Actions:
        """Actions of all R rows. ``memory`` [R, memory_size] has room for the largest memory.

        Raises ValueError if ``policy_index`` does not have R indices of ``policies``.
        """
        rows = len(next(iter(observations.values())))
        index = np.asarray(self.policy_index)
        fits = rows == len(index)
        if fits and rows:
            fits = 0 <= index.min() <= index.max() < len(self.policies)
        if not fits:
            raise ValueError(
                f"PolicyMix: policy_index is {index}; set it to {rows} indices from 0 to {len(self.policies) - 1}"
            )
        self._stack()
        self._group()
        parts: list[tuple[Rows, Actions]] = []
        for chosen, stack in self._stacked:
            actions = stack.act(observations, action_mask, deterministic, memory)
            parts.append((chosen, actions))
        if len(parts) == 1 and not self._single:
            return parts[0][1]
        for chosen, policy in self._single:
            seen = {name: array[chosen] for name, array in observations.items()}
            mask = None if action_mask is None else action_mask[chosen]
            size = getattr(policy, "memory_size", 0)
            if size and memory is not None:
                # A copy: columns of an array are not contiguous, and policies overwrite what they get.
                part = np.ascontiguousarray(memory[chosen, :size])
                actions = cast(MemoryPolicy, policy).act(seen, mask, deterministic, part)
                memory[chosen, :size] = part
            else:
                actions = policy.act(seen, mask, deterministic)
            parts.append((chosen, actions))
        return Actions.joined(parts)

    def seed(self, seed: int) -> None:
        """Seed each policy differently.

        A row of stacked snapshots draws an action that depends on the seed, the row's number and the row's policy, not
        on the policies of other rows.
        """
        self._stack()
        self._seed = seed
        for index, policy in enumerate(self.policies):
            if policy is not None and self._stack_of[index] is None:
                policy.seed(derive_seed(seed, f"policy/{index}"))
        for stack in self._stacks():
            self._seed_stack(stack)

    def seed_rows(self, seed: int, numbers: NDArray[np.int64], total: int) -> None:
        """Seed draws by the ``numbers`` [R] of the rows of ``policy_index``, which must be set before.

        A policy without ``seed_rows`` is seeded by the number of its first row.
        """
        self._stack()
        self._group()
        for rows, stack in self._stacked:
            part = derive_seed(seed, f"stack/{self._stack_of.index(stack)}")
            first = int(numbers[rows[0]])
            _seed_rows(stack, part, numbers, total, first)  # a stack gets all rows
        for rows, policy in self._single:
            part = derive_seed(seed, f"policy/{self.policy_index[rows[0]]}")
            first = int(numbers[rows[0]])
            _seed_rows(policy, part, numbers[rows], total, first)

    # ------------------------------------------------------------ stacks

    def _stacks(self) -> list[PolicyStack]:
        """Each stack once, in the order of their first policies."""
        stacks = {id(stack): stack for stack in self._stack_of if stack is not None}
        return list(stacks.values())

    def _seed_stack(self, stack: PolicyStack) -> None:
        place = self._stack_of.index(stack)
        stack.seed(derive_seed(self._seed, f"stack/{place}"))

    def _stack(self) -> None:
        """Put policies that are new in ``policies`` into stacks."""
        known = len(self._known)
        size = len(self.policies)
        if known == size and all(map(operator.is_, self._known, self.policies)):
            return
        # A row whose policy was replaced may belong to another stack.
        self._grouped = None
        kept = self._stack_of[:size]
        self._stack_of = [*kept, *[None] * (size - known)]
        for index, policy in enumerate(self.policies):
            if index >= known or policy is not self._known[index]:
                self._stack_of[index] = self._stack_with(index, policy)
        self._known = list(self.policies)

    def _stack_with(self, index: int, policy: Policy | None) -> PolicyStack | None:
        """The stack that holds ``policy`` now at the place ``index``; None if none can."""
        if not isinstance(policy, StackableSnapshot):
            return None
        # The stacks of other shapes, or frameworks, refuse it.
        for stack in self._stacks():
            if stack.put(index, policy):
                return stack
        made = policy.make_stack()
        if made is None or not made.put(index, policy):
            return None
        self._stack_of[index] = made
        # A stack that is made between two calls of `seed` draws as one that was there before.
        self._seed_stack(made)
        return made

    def _group(self) -> None:
        """Find the rows of each stack, and of each policy without one."""
        grouped = self._grouped
        if grouped is not None and np.array_equal(grouped, self.policy_index):
            return
        index = np.array(self.policy_index)
        self._stacked = []
        self._single = []
        for stack in self._stacks():
            holds = np.array([other is stack for other in self._stack_of])
            places = np.where(holds[index], index, -1)
            rows = np.flatnonzero(places >= 0)
            if len(rows):
                stack.assign(places)
                self._stacked.append((rows, stack))
        for place in np.unique(index).tolist():
            policy = self.policies[place]
            if policy is not None and self._stack_of[place] is None:
                rows = np.flatnonzero(index == place)
                self._single.append((rows, policy))
        self._grouped = index


def _seed_rows(policy: PolicyStack | Policy, seed: int, numbers: NDArray[np.int64], total: int, first: int) -> None:
    """Seed draws by the ``numbers`` of rows, or by the ``first`` one if the policy does not tell rows apart."""
    if isinstance(policy, NumberedPolicy):
        policy.seed_rows(seed, numbers, total)
    else:
        policy.seed(derive_seed(seed, "row", first))
