"""The description that an exported file carries: one JSON object in ``metadata_props`` of the model, under ``rlcore``.

A program that acts with a file needs nothing else: it has the observations, the input that each of them feeds, the
outputs by meaning, and the bounds of actions. The README of rlcore-onnx describes every field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ObservationKind, ObservationSpec

__all__ = [
    "FORMAT",
    "KEY",
    "ActionPart",
    "BehaviorInfo",
    "InputNames",
    "Metadata",
    "ObservationInput",
    "OutputNames",
    "checksum",
    "signed",
]

KEY = "rlcore"
"""The key in ``metadata_props``."""
UNSIGNED = "0" * 64  # in place of the checksum in the file that it is of
FORMAT = 1
"""The version of the schema. A reader refuses a file with a larger number; fields may be added without a new one."""


@attrs.frozen(kw_only=True)
class ObservationInput:
    """One observation of the behavior, and the input of the graph that it feeds.

    To feed it: take values [B, *shape] of the environment, multiply them by ``scale``, move the last of three axes to
    the front if ``channels_first``, reshape to [B, *input_shape] and convert to ``input_dtype``.

    Attributes:
        name: The name in the behavior.
        shape: Shape of the observation of one agent.
        dtype: Type of the numbers in the environment, such as ``"uint8"``.
        kind: ``"vector"``, ``"image"`` (height, width, channels) or ``"one_hot"``.
        input: The name of the input.
        input_shape: Shape of one row of the input; the first axis of the input, the batch, is not in it.
        input_dtype: Type of the numbers of the input.
        channels_first: Whether the input has the channels before height and width.
        scale: Factor from values of the environment to those of the input.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: ObservationKind
    input: str
    input_shape: tuple[int, ...]
    input_dtype: str
    channels_first: bool = False
    scale: float = 1.0


@attrs.frozen(kw_only=True)
class BehaviorInfo:
    """The observations and actions of the agents, and the inputs that observations feed.

    Attributes:
        name: The name of the behavior.
        observations: The observations, in the order of the behavior.
        continuous: Number of continuous parts of an action.
        low: Lower bounds of the continuous parts in the environment's units; None where there is no bound.
        high: Upper bounds of the continuous parts.
        discrete: Number of options of each discrete branch.
        memory_size: M, the numbers that a row remembers from step to step; 0 without memory.
        start: The environment's own number for option 0 of each branch; empty if all are 0. Outputs count from 0.
    """

    name: str
    observations: tuple[ObservationInput, ...]
    continuous: int
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    discrete: tuple[int, ...]
    memory_size: int
    start: tuple[int, ...] = ()

    @classmethod
    def of(cls, behavior: BehaviorSpec, observations: tuple[ObservationInput, ...], memory_size: int) -> Self:
        """Describe ``behavior``, whose observations feed the inputs ``observations``."""
        return cls(
            name=behavior.name,
            observations=observations,
            continuous=behavior.continuous,
            low=_finite(behavior.low),
            high=_finite(behavior.high),
            discrete=tuple(behavior.discrete),
            memory_size=memory_size,
            start=behavior.start,
        )

    def spec(self) -> BehaviorSpec:
        """Return the behavior."""
        observations = []
        for o in self.observations:
            spec = ObservationSpec(o.name, o.shape, o.dtype, o.kind)
            observations.append(spec)
        return BehaviorSpec(
            name=self.name,
            observations=tuple(observations),
            continuous=self.continuous,
            discrete=self.discrete,
            low=_bounds(self.low, -np.inf),
            high=_bounds(self.high, np.inf),
            start=self.start,
        )


def _finite(bounds: NDArray[np.float32]) -> tuple[float | None, ...]:
    """Return bounds with None for an infinite one: JSON has no number for it."""
    finite = np.isfinite(bounds)
    return tuple(float(bound) if known else None for bound, known in zip(bounds, finite, strict=True))


def _bounds(bounds: tuple[float | None, ...], infinite: float) -> NDArray[np.float32]:
    """Return the bounds that :func:`_finite` gave."""
    numbers = [infinite if bound is None else bound for bound in bounds]
    return np.array(numbers, np.float32)


@attrs.frozen(kw_only=True)
class InputNames:
    """Names of the inputs other than observations, by meaning; None for one that the graph does not have.

    Attributes:
        action_mask: [B, options of all branches side by side], true or 1 where allowed.
        memory: [B, ..., M], zeros at the beginning of an episode.
        epsilon: [B, epsilon_size] standard normal numbers. Zeros make the sampled actions the deterministic ones.
        epsilon_size: Numbers per row of ``epsilon``: first those of the continuous parts, then one for each option.
        unused: Inputs that a client feeds and the policy does not need, each with its shape without the batch.
    """

    action_mask: str | None = None
    memory: str | None = None
    epsilon: str | None = None
    epsilon_size: int = 0
    unused: dict[str, tuple[int, ...]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class OutputNames:
    """Names of the outputs by meaning; None for one that the graph does not have.

    Attributes:
        continuous: [B, continuous], drawn with ``epsilon``.
        discrete: [B, branches] indices of the chosen options, drawn with ``epsilon``.
        deterministic_continuous: [B, continuous], without noise.
        deterministic_discrete: [B, branches] indices of the most likely allowed options.
        actions: [B, columns], the parts of an action side by side; ``Metadata.action_order`` lists the columns.
        memory: The memory after the step, in the layout of the input.
    """

    continuous: str | None = None
    discrete: str | None = None
    deterministic_continuous: str | None = None
    deterministic_discrete: str | None = None
    actions: str | None = None
    memory: str | None = None


@attrs.frozen(kw_only=True)
class ActionPart:
    """One part of an action.

    Attributes:
        part: ``"continuous"`` or ``"discrete"``.
        index: The index of the continuous part or of the branch, from 0.
        size: Columns of the part in the output ``actions``: 1, or the options of the branch, whose probabilities they
            are.
    """

    part: str
    index: int
    size: int


@attrs.frozen(kw_only=True)
class Metadata:
    """The JSON object in ``metadata_props`` of an exported file.

    Attributes:
        format: The version of this schema, 1.
        rlcore_version: The version of rlcore that wrote the file.
        profile: ``"generic"``, ``"unity"`` or ``"godot"``.
        behavior: What agents observe and do.
        inputs: The inputs by meaning; those of observations are in ``behavior``.
        outputs: The outputs by meaning.
        continuous_units: ``"environment"`` if continuous outputs are within ``low`` and ``high``; ``"normalized"`` if
            they are within -1 and 1, which stand for these bounds.
        action_order: The parts of an action in their order.
        run_id: The id of the run.
        step: Agent steps of the run, over all behaviors.
        behavior_steps: Agent steps of the behavior.
        trainer_type: The trainer of the behavior.
        configuration_sha256: The checksum of the configuration of the run.
        sha256: The checksum of the file with 64 zeros in the place of this entry.
    """

    rlcore_version: str
    profile: str
    behavior: BehaviorInfo
    inputs: InputNames
    outputs: OutputNames
    continuous_units: str
    action_order: tuple[ActionPart, ...]
    run_id: str
    step: int
    behavior_steps: int
    trainer_type: str
    configuration_sha256: str
    sha256: str = UNSIGNED
    format: int = FORMAT

    def to_json(self) -> str:
        """Return the JSON text, with sorted keys."""
        document = attrs.asdict(self)
        return json.dumps(document, sort_keys=True, allow_nan=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the metadata that ``document``, the JSON object, describes. Fields of later versions are ignored.

        Raises LookupError, TypeError, ValueError or AttributeError for one that rlcore did not write.
        """
        from cattrs import Converter

        return Converter(detailed_validation=False).structure(document, cls)


def signed(model: bytes) -> bytes:
    """Return a serialized model with its checksum in the metadata."""
    digest = hashlib.sha256(model).hexdigest()
    return model.replace(_entry(UNSIGNED), _entry(digest), 1)


def checksum(model: bytes, digest: str) -> str:
    """Return the checksum of a serialized model that has the checksum ``digest`` in its metadata."""
    unsigned = model.replace(_entry(digest), _entry(UNSIGNED), 1)
    return hashlib.sha256(unsigned).hexdigest()


def _entry(digest: str) -> bytes:
    return f'"sha256": "{digest}"'.encode()
