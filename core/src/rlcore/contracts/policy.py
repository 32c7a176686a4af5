"""Policies: what acts without learning, what agents remember, and what writes a policy for other programs.

Trainers hand policies out; evaluation, inference, self-play and exporters use them.

An exporter gets a frozen policy, what its agents observe and do, and the path of a file. rlcore decides when policies
are exported and where: ``rlcore export`` exports from a checkpoint alone, and a run whose configuration has an
``export`` block exports at its end and, with ``checkpoints: true``, at every checkpoint. No environment is needed. An
export is outside the training loop, and a failing one never stops a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.saved_values import fill, saved_count
from rlcore.contracts.seeding import derive_seed
from rlcore.errors import UnsupportedExport


@runtime_checkable
class Policy(Protocol):
    """The policy that evaluation, inference and exporters use. Calling it changes no state of the trainer.

    A policy that reads fewer observations than its agents have, because critics read the others, has an attribute
    ``behavior``: the BehaviorSpec of the agents with the observations that it reads.
    """

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        """Return actions for R rows of observations, each [R, *shape], in the environment's units.

        ``action_mask`` [R, mask_size] is True for allowed options; None allows all. ``deterministic`` takes the mean of
        continuous parts and the most likely option of each branch; otherwise the policy samples from a generator of its
        own, seeded by :meth:`seed`.
        """

    def seed(self, seed: int) -> None:
        """Seed the generator that stochastic actions are drawn from."""


def read_by(policy: Policy, behavior: BehaviorSpec) -> BehaviorSpec:
    """Return ``behavior``, that of its agents, with the observations that ``policy`` reads."""
    declared = getattr(policy, "behavior", None)
    if not isinstance(declared, BehaviorSpec):
        return behavior
    return attrs.evolve(behavior, observations=declared.observations)


@runtime_checkable
class MemoryPolicy(Policy, Protocol):
    """A policy with memory, such as a recurrent network: its actions depend on the earlier steps of an episode.

    The caller keeps the memory, [R, memory_size] for R rows, so that rows can be joined, split and copied. A row is
    zero where an episode begins. :class:`Player` keeps the memory of an environment's agents.

    Attributes:
        memory_size: M, the numbers that a row remembers; a policy with 0 is called without memory.
    """

    memory_size: int

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
        memory: NDArray[np.float32] | None = None,
    ) -> Actions:
        """Actions as of :meth:`Policy.act`. ``memory`` [R, M] is read, and overwritten by what the rows remember next.

        Without ``memory``, an episode begins in every row.
        """


@runtime_checkable
class Snapshot(Policy, Protocol):
    """A policy that does not change any more: training goes on without it. Several may be alive at once."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that the policy computes with: nested mappings of numpy arrays and JSON values."""


class Player:
    """Plays for the agents of a behavior with a policy that does not learn, and keeps what they remember.

    Attributes:
        policy: The policy that acts.
        memory: [S, M] what the agents remember; None for a policy without memory.
    """

    def __init__(self, policy: Policy, slots: int, seed: int | None = None) -> None:
        """Begin an episode in all ``slots``, the number of slots of the behavior.

        With ``seed``, actions that are drawn depend on it and the number of the step, so that a player that continues
        from :meth:`state_dict` draws the same ones. Without it, the caller seeds the policy.
        """
        self.policy = policy
        self.steps = 0  # calls of `act`
        self._seed = seed
        size = getattr(policy, "memory_size", 0)
        self.memory = np.zeros((slots, size), np.float32) if size else None  # [S, M]

    def act(self, batch: AgentBatch, deterministic: bool = True) -> Actions:
        """Actions of all slots. Slots that need no action remember what they did before."""
        if self._seed is not None and not deterministic:
            self.policy.seed(derive_seed(self._seed, "step", self.steps))
        self.steps += 1
        if self.memory is None:
            return self.policy.act(batch.observations, batch.action_mask, deterministic)
        policy = cast(MemoryPolicy, self.policy)
        waiting = None if batch.needs_action is None else ~batch.needs_action
        kept = None if waiting is None else self.memory[waiting]
        actions = policy.act(batch.observations, batch.action_mask, deterministic, self.memory)
        if waiting is not None:
            self.memory[waiting] = kept
        return actions

    def observe(self, batch: AgentBatch) -> None:
        """Forget in the slots whose episode ended, or whose environment was lost, in the step that led to ``batch``."""
        if self.memory is not None:
            self.memory[batch.ended] = 0.0
            if batch.aborted is not None:
                self.memory[batch.aborted] = 0.0

    def begin(self) -> None:
        """Begin an episode in all slots: the environment was reset."""
        if self.memory is not None:
            self.memory[:] = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, and what the agents remember. The policy is not part of it."""
        state: dict[str, Any] = {"steps": self.steps}
        if self.memory is not None:
            state["memory"] = self.memory.copy()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""
        steps = saved_count(state, "steps")
        if self.memory is not None:
            fill(self.memory, state, "memory")
        self.steps = steps


# ---------------------------------------------------------------- policies as files for other programs


@attrs.frozen(kw_only=True)
class ExportAbout:
    """The origin of an exported policy. An exporter stores what its format has a place for.

    Attributes:
        run_id: The id of the run.
        step: Agent steps of the run, over all behaviors; the name of the checkpoint.
        behavior_steps: Agent steps of the exported behavior.
        trainer_type: ``trainer_type`` of the behavior.
        rlcore_version: The version of rlcore.
        configuration_sha256: SHA-256 of the complete configuration that the policy was trained with, as 64 hexadecimal
            digits: the checksum in the first line of the run's ``configuration.yaml``, which is that of all following
            lines. A run that is resumed with an unchanged configuration keeps the checksum; a changed one, also through
            ``--set``, has another.
    """

    run_id: str
    step: int
    behavior_steps: int
    trainer_type: str
    rlcore_version: str
    configuration_sha256: str


@runtime_checkable
class Exporter(Protocol):
    """Writes policies in one format. Created once per run, before the first step, and once by ``rlcore export``."""

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> str | None:
        """Write ``policy`` as the file ``path``, which does not exist, and as nothing else.

        Return a report in one line, such as the result of a check of the file, or None. ``rlcore export`` prints the
        report, and a run logs it.

        ``policy`` is a copy that no training changes; ``behavior.name`` is its name, and ``behavior`` has the
        observations, actions and bounds. :func:`policy_module` returns the policy as one PyTorch module. ``path`` is
        in an empty directory on the disk of the final place: rlcore moves the file there, under the same name, when
        this method has returned. A file that is there under this name is therefore always complete. rlcore deletes
        the directory if this method raises.

        Raise :class:`rlcore.UnsupportedExport` for a policy that the format cannot represent, with the reason.
        Any other exception counts as a failure of the exporter.
        """


def policy_module(policy: Policy) -> Any:
    """Return the policy as one PyTorch module on the CPU, from raw observations to actions of the environment.

    For policies of :mod:`rlcore_torch` it is a new :class:`rlcore_torch.PolicyModule`, which may be
    changed. Another policy may have a method ``module()`` too: its module is called like a PolicyModule, returns a
    PolicyOutput, and has the whole numbers ``memory_size`` and ``noise_size``. Raises UnsupportedExport for a policy
    without this method.
    """
    module = getattr(policy, "module", None)
    if not callable(module):
        raise UnsupportedExport(
            f"the policy {type(policy).__name__} has no method module(), so it is not available as a PyTorch module"
        )
    return module().cpu()
