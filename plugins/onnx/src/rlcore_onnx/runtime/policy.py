"""The policy of an ONNX file, which acts on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore import Actions, ConfigError, checked_observations, repeating
from rlcore_onnx.runtime.onnx_file import KEY, Layout, inputs_of, open_session, read_metadata

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

__all__ = ["OnnxPolicy", "load"]


def load(path: str | Path, seed: int | None = None, threads: int = 1) -> OnnxPolicy:
    """Load the policy that rlcore exported to the ONNX file ``path``, of any profile.

    ``seed`` is that of the generator for stochastic actions; None draws one. ``threads`` is the number of threads of
    onnxruntime: one is the fastest for small networks.

    Raises NotInstalled without onnxruntime, and ConfigError for a file that is missing, is not an ONNX file, was not
    written by rlcore, was written in a later format, or changed since it was exported.
    """
    path = Path(path)
    session, content = open_session(path, threads)
    metadata = read_metadata(session, content, path)
    outputs = {each.name for each in session.get_outputs()}
    try:
        layout, inputs = Layout.of(metadata), inputs_of(session)
        profile = str(metadata["profile"])
        wrong = sorted(map(str, (layout.inputs ^ inputs.keys()) | (layout.outputs - outputs)))
        if not wrong:
            layout.require(inputs)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:
        raise repeating(error, f"{path}: the metadata {KEY!r} is not as rlcore writes it", ConfigError) from error
    if wrong:
        raise ConfigError(f"{path}: the metadata {KEY!r} does not fit the graph: {', '.join(wrong)}")
    return OnnxPolicy(session, layout, inputs, metadata, profile, seed)


class OnnxPolicy:
    """A policy that onnxruntime computes. :func:`load` creates it.

    The policy keeps no memory of its own: the caller holds the memory of each row, as with
    :class:`rlcore.MemoryPolicy`, so that rows can start episodes, end and move independently::

        memory = policy.initial_memory(rows)
        while True:
            actions = policy.act(observations, memory=memory)  # writes the new memory into the array
            ...
            memory[ended] = 0  # an episode begins in these rows

    Attributes:
        behavior: What the agents observe and do: names, shapes and types of observations, actions and bounds.
        memory_size: M, the numbers that a row remembers; 0 for a policy without memory.
        profile: The profile of the file: ``"generic"``, ``"unity"`` or ``"godot"``.
        metadata: The JSON object in the file: the origin of the policy (``run_id``, ``step``, ``rlcore_version``,
            ``configuration_sha256``) and the names of inputs and outputs.
    """

    def __init__(
        self,
        session: InferenceSession,
        layout: Layout,
        inputs: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
        metadata: Mapping[str, Any],
        profile: str,
        seed: int | None,
    ) -> None:
        """:func:`load` calls this; ``inputs`` has the type and the shape of one row of each input."""
        self.behavior = layout.behavior
        self.memory_size = layout.memory_size
        self.profile = profile
        self.metadata = metadata
        self._session = session
        self._layout = layout
        self._inputs = inputs
        self._generator = np.random.default_rng(seed)

    def seed(self, seed: int) -> None:
        """Seed the generator that stochastic actions are drawn from."""
        self._generator = np.random.default_rng(seed)

    def initial_memory(self, rows: int) -> NDArray[np.float32]:
        """Return the memory [rows, M] of episodes that begin: zeros."""
        return np.zeros((rows, self.memory_size), np.float32)

    def act(
        self,
        observations: Mapping[str, ArrayLike] | ArrayLike,
        action_mask: ArrayLike | None = None,
        deterministic: bool = True,
        memory: NDArray[np.float32] | None = None,
    ) -> Actions:
        """Return the actions of R rows in the environment's units, each within its bounds.

        ``observations`` has an array [R, *shape] for each observation of the behavior, by name; an array alone is the
        observation of a behavior that has only one. ``action_mask`` [R, mask_size] is True for allowed options; None
        allows all. ``deterministic`` takes the mean of continuous parts and the most likely option of each branch;
        otherwise actions are drawn with the generator of this object. ``memory`` [R, M] is needed with a policy with
        memory: it is read, and overwritten by what the rows remember next.

        Raises ValueError for arguments that do not fit the behavior, naming the observation and the row.
        """
        seen = checked_observations(self.behavior, observations)
        rows = len(next(iter(seen.values())))
        mask = self._mask(action_mask, rows)
        layout, remembered = self._layout, self._memory(memory, rows)
        feeds = {each.name: each.fed(seen[each.spec.name], self._inputs[each.name][0]) for each in layout.observations}
        if layout.action_mask is not None:
            feeds[layout.action_mask] = mask.astype(self._inputs[layout.action_mask][0])
        if layout.memory_in is not None:
            feeds[layout.memory_in] = remembered.reshape(rows, *self._inputs[layout.memory_in][1])
        if layout.epsilon is not None:
            feeds[layout.epsilon] = self._noise((rows, layout.epsilon_size), deterministic)
        for name, shape in layout.unused.items():
            feeds[name] = np.zeros((rows, *shape), self._inputs[name][0])
        chosen = layout.deterministic if deterministic else layout.drawn
        wanted = [name for name in (*chosen, layout.columns, layout.memory_out) if name is not None]
        found = dict(zip(wanted, self._session.run(wanted, feeds), strict=True))
        if layout.memory_out is not None:
            remembered[:] = found[layout.memory_out].reshape(rows, self.memory_size)
        if layout.columns is None:
            continuous, discrete = (None if name is None else found[name] for name in chosen)
        else:
            continuous, discrete = self._from_columns(found[layout.columns], mask, deterministic)
        return Actions(None if continuous is None else layout.in_units(continuous), discrete)

    # ------------------------------------------------------------ arguments

    def _mask(self, action_mask: ArrayLike | None, rows: int) -> NDArray[np.bool_]:
        """The mask [R, mask_size], all True if there is none."""
        size = self.behavior.mask_size
        if action_mask is None:
            return np.ones((rows, size), np.bool_)
        mask = np.asarray(action_mask, np.bool_)
        if mask.shape != (rows, size):
            raise ValueError(f"action_mask has shape {list(mask.shape)} and must have {[rows, size]}")
        for branch, part in enumerate(np.split(mask, np.cumsum(self.behavior.discrete)[:-1], axis=1)):
            barred = np.flatnonzero(~part.any(1))
            if part.shape[1] and len(barred):
                raise ValueError(f"action_mask allows no option of branch {branch} in row {barred[0]}")
        return mask

    def _memory(self, memory: NDArray[np.float32] | None, rows: int) -> NDArray[np.float32]:
        """The memory [R, M] of the caller; empty for a policy without memory."""
        name, shape = self.behavior.name, [rows, self.memory_size]
        if memory is None:
            if not self.memory_size:
                return np.zeros((rows, 0), np.float32)
            raise ValueError(
                f"behavior {name!r}: the policy has memory; give memory=policy.initial_memory(rows), keep the array "
                "from step to step, and set the rows of ended episodes to 0"
            )
        if not isinstance(memory, np.ndarray) or list(memory.shape) != shape or memory.dtype != np.float32:
            found = (
                f"{list(memory.shape)} of {memory.dtype}" if isinstance(memory, np.ndarray) else type(memory).__name__
            )
            raise ValueError(f"behavior {name!r}: memory is {found} and must be an array {shape} of float32")
        return memory

    def _noise(self, shape: tuple[int, int], deterministic: bool) -> NDArray[np.float32]:
        return np.zeros(shape, np.float32) if deterministic else self._generator.standard_normal(shape, np.float32)

    # ------------------------------------------------------------ the profile godot

    def _from_columns(
        self, columns: NDArray[np.float32], mask: NDArray[np.bool_], deterministic: bool
    ) -> tuple[NDArray[np.float32] | None, NDArray[np.int64] | None]:
        """Actions of one output [R, columns]: continuous parts, then the probabilities of the options."""
        behavior = self.behavior
        if behavior.continuous and not deterministic:
            raise ValueError(
                f"a file of the profile {self.profile} has no stochastic actions; export with profile generic for them"
            )
        continuous = columns[:, : behavior.continuous] if behavior.continuous else None
        if not behavior.discrete:
            return continuous, None
        probabilities = columns[:, behavior.continuous :]
        # An allowed option beats a forbidden one even if its probability is rounded to 0.
        scores = np.where(mask, np.log(np.maximum(probabilities, np.finfo(np.float32).tiny)), -np.inf)
        if not deterministic:
            scores = scores + self._generator.gumbel(size=scores.shape)
        branches = np.split(scores, np.cumsum(behavior.discrete)[:-1], axis=1)
        return continuous, np.stack([branch.argmax(1) for branch in branches], axis=1)
