"""The policy of an ONNX file, which acts on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore import Actions, ConfigError, DamagedFile, checked_observations, parse_json, read_regular, repeating
from rlcore_onnx.metadata import FORMAT, KEY, Metadata, checksum
from rlcore_onnx.session import Session, open_model

__all__ = ["OnnxPolicy", "load"]

MAX_BYTES = 2**31  # of a file in one piece, as protobuf has it


def load(path: str | Path, seed: int | None = None, threads: int = 1) -> OnnxPolicy:
    """Load the policy that rlcore exported to the ONNX file ``path``, of any profile.

    ``seed`` is that of the generator for stochastic actions; None draws one. ``threads`` is the number of threads of
    onnxruntime: one is the fastest for small networks.

    Raises ConfigError for a file that is missing, is not an ONNX file, was not written by rlcore, was written in a
    later format, or changed since it was exported.
    """
    path = Path(path)
    try:
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except DamagedFile as error:
        raise ConfigError(str(error)) from error
    try:
        model = open_model(content, threads)
        text = model.get_modelmeta().custom_metadata_map.get(KEY)
    except Exception as error:  # onnxruntime has no common class for its errors
        raise repeating(error, f"{path}: onnxruntime cannot load the file", ConfigError) from error
    if text is None:
        raise ConfigError(
            f"{path}: was not exported by rlcore (its metadata has no {KEY!r}); export a run with rlcore export "
            "--format onnx"
        )
    try:
        document = parse_json(text)
        _require_readable(document, content, path)
        return OnnxPolicy(Session(model, Metadata.of(document)), document, seed)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise repeating(error, f"{path}: the metadata {KEY!r} is not as rlcore writes it", ConfigError) from error


def _require_readable(document: Mapping[str, Any], content: bytes, path: Path) -> None:
    """Raise ConfigError for metadata of a later format, and for a file that changed since it was exported."""
    if document["format"] != FORMAT:
        raise ConfigError(
            f"{path}: has format {document['format']!r} of rlcore's metadata, and this version of rlcore reads "
            f"{FORMAT}; it was written by rlcore {document.get('rlcore_version')}"
        )
    digest = document["sha256"]
    if checksum(content, digest) != digest:
        raise ConfigError(
            f"{path}: its checksum is wrong: the file is damaged, or was changed after its export; export it again"
        )


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

    def __init__(self, session: Session, metadata: Mapping[str, Any], seed: int | None) -> None:
        """:func:`load` calls this."""
        self.behavior = session.behavior
        self.memory_size = session.memory_size
        self.profile = session.metadata.profile
        self.metadata = metadata
        self._session = session
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
        arrays = checked_observations(self.behavior, observations)
        rows = len(next(iter(arrays.values())))
        mask = self._mask(action_mask, rows)
        remembered = self._memory(memory, rows)
        epsilon = None
        prefix = "deterministic_"
        if not deterministic:
            size = self._session.epsilon_size
            epsilon = self._generator.standard_normal((rows, size), np.float32)
            prefix = ""
        parts = (f"{prefix}continuous", f"{prefix}discrete")
        wanted = (*parts, "actions", "memory")
        results = self._session(arrays, mask, remembered, epsilon, wanted)
        if self.memory_size:
            remembered[:] = results["memory"]
        if "actions" in results:
            return self._from_columns(results["actions"], mask, deterministic)
        return Actions(*map(results.get, parts))

    def _mask(self, action_mask: ArrayLike | None, rows: int) -> NDArray[np.bool_]:
        """The mask [R, mask_size], all True if there is none."""
        size = self.behavior.mask_size
        if action_mask is None:
            return np.ones((rows, size), np.bool_)
        mask = np.asarray(action_mask, np.bool_)
        if mask.shape != (rows, size):
            raise ValueError(f"action_mask has shape {list(mask.shape)} and must have {[rows, size]}")
        ends = np.cumsum(self.behavior.discrete)[:-1]
        for branch, part in enumerate(np.split(mask, ends, axis=1)):
            barred = np.flatnonzero(~part.any(1))
            if part.shape[1] and len(barred):
                raise ValueError(f"action_mask allows no option of branch {branch} in row {barred[0]}")
        return mask

    def _memory(self, memory: NDArray[np.float32] | None, rows: int) -> NDArray[np.float32]:
        """The memory [R, M] of the caller; empty for a policy without memory."""
        if memory is None and not self.memory_size:
            return self.initial_memory(rows)
        if memory is None:
            raise ValueError(
                f"behavior {self.behavior.name!r}: the policy has memory; give memory=policy.initial_memory(rows), "
                "keep the array from step to step, and set the rows of ended episodes to 0"
            )
        shape = [rows, self.memory_size]
        description = type(memory).__name__
        if isinstance(memory, np.ndarray):
            description = f"{list(memory.shape)} of {memory.dtype}"
        if description != f"{shape} of float32":
            name = self.behavior.name
            raise ValueError(f"behavior {name!r}: memory is {description} and must be an array {shape} of float32")
        return memory

    def _from_columns(self, columns: NDArray[np.float32], mask: NDArray[np.bool_], deterministic: bool) -> Actions:
        """Actions of the output [R, columns] of the profile godot: continuous parts, then probabilities of options."""
        behavior = self.behavior
        if behavior.continuous and not deterministic:
            raise ValueError(
                f"a file of the profile {self.profile} has no stochastic actions; export with profile generic for them"
            )
        continuous, probabilities = np.split(columns, [behavior.continuous], axis=1)
        # An allowed option beats a forbidden one even if its probability is rounded to 0.
        smallest = np.finfo(np.float32).tiny
        logits = np.log(np.maximum(probabilities, smallest))
        scores = np.where(mask, logits, -np.inf)
        if not deterministic:
            scores = scores + self._generator.gumbel(size=scores.shape)
        discrete = None
        if behavior.discrete:
            ends = np.cumsum(behavior.discrete)[:-1]
            branches = np.split(scores, ends, axis=1)
            discrete = np.stack([branch.argmax(1) for branch in branches], axis=1)
        if not behavior.continuous:
            return Actions(None, discrete)
        return Actions(self._session.in_units(continuous), discrete)
