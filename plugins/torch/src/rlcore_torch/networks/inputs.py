"""Observations as inputs of networks, and the normalization of their vector part.

Inputs are a tuple of tensors: all vector observations side by side, with the numbers of entities among them, then each
image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, Ranks, did_you_mean
from rlcore_torch.networks.normalizer import CLIP, RunningNormalizer
from rlcore_torch.networks.sequence_inputs import Inputs
from rlcore_torch.networks.settings import NetworkSettings

__all__ = ["ObservationInputs"]

AnyInputs: TypeAlias = "ObservationInputs | LearnerInputs"


class ObservationInputs(nn.Module):
    """Turns arrays by observation name into a model's inputs, and normalizes the vector part if asked to.

    Attributes:
        normalized_columns: [vector_size] bool, the columns that are normalized: those of the kind ``vector``.
        vectors: The observations other than images, in the order of their columns; entities are flat.
        images: The images.
        vector_size: Columns of the vector observations.
        normalizer: The running mean and variance; None without ``normalize``.
    """

    normalized_columns: Tensor

    def __init__(self, observations: tuple[ObservationSpec, ...], normalize: bool, clip: float = CLIP) -> None:
        super().__init__()
        self.vectors = tuple(o for o in observations if o.kind != "image")
        self.images = tuple(o for o in observations if o.kind == "image")
        self.vector_size = sum(o.size for o in self.vectors)
        self.normalizer: RunningNormalizer | None = None
        # One-hot observations are left as they are: scaling an indicator by its rarity does not help. Entities are too:
        # a row of zeros must stay one, as it says that the entity is absent.
        of_columns: list[bool] = []
        for o in self.vectors:
            of_columns += [o.kind == "vector"] * o.size
        normalized = torch.tensor(of_columns, dtype=torch.bool)
        self.register_buffer("normalized_columns", normalized, persistent=False)
        self._all_normalized = all(of_columns)
        if normalize and any(of_columns):
            self.normalizer = RunningNormalizer(self.vector_size, clip)

    def raw(self, observations: Mapping[str, NDArray[Any] | Tensor], lead: int = 1) -> Inputs:
        """Return the inputs, not normalized, of observations by name, each [*L, *shape].

        The ``lead`` leading axes *L become one, B. Tensors share the memory of the arrays where possible. Observations
        may also be tensors, on any device.
        """
        columns = []
        for o in self.vectors:
            rows = _rows(observations[o.name], lead)  # [B, *shape]
            flat = rows.reshape(-1, o.size)
            columns.append(flat.to(torch.float32))
        # Images keep their type until a body scales them: as float32, bytes would take four times the memory.
        images = [_rows(observations[image.name], lead) for image in self.images]
        if columns:
            return (beside(columns), *images)
        return tuple(images)

    def columns(self, observations: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return the vector observations of R rows, not normalized, side by side: [R, vector_size]."""
        parts = []
        for o in self.vectors:
            array = observations[o.name]
            parts.append(array.reshape(-1, o.size))
        x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return x.astype(np.float32, copy=False)

    def forward(self, raw: Inputs) -> Inputs:
        """Normalize the vector part of ``raw``. Called once per rollout or sample, not in every network."""
        if self.normalizer is None:
            return raw
        columns, *images = raw
        scaled = self.normalizer(columns)
        if not self._all_normalized:
            scaled = torch.where(self.normalized_columns, scaled, columns)
        return (scaled, *images)

    @property
    def has_statistics(self) -> bool:
        """Whether the normalizer, if there is one, has seen anything yet."""
        return self.normalizer is None or bool(self.normalizer.count > 0)

    def update_normalizer(self, raw: Inputs, ranks: Ranks | None = None) -> None:
        """Add the vector part of ``raw``, [B, vector_size] on any device, to the running mean and variance.

        With ``ranks``, add those of all ranks.
        """
        if self.normalizer is not None:
            self.normalizer.update(raw[0], ranks)


class LearnerInputs:
    """Makes the inputs of critics, which read the observations of the policy and others that it does not see.

    Inputs have the layout of :data:`Inputs`: the vector observations of the policy, those of critics alone beside them,
    then the images in the same order. Attributes and methods are those of :class:`ObservationInputs`.

    Attributes:
        vectors: The observations other than images, in the order of their columns.
        images: The images.
        vector_size: Columns of the vector observations.
        normalizer: A running mean and variance, of the policy's observations if they have one; None without any.
    """

    def __init__(self, of_actor: ObservationInputs, of_critics: ObservationInputs) -> None:
        self._of_actor = of_actor
        self._of_critics = of_critics
        self.vectors = (*of_actor.vectors, *of_critics.vectors)
        self.images = (*of_actor.images, *of_critics.images)
        self.vector_size = of_actor.vector_size + of_critics.vector_size
        self.normalizer = of_actor.normalizer or of_critics.normalizer

    def raw(self, observations: Mapping[str, NDArray[Any] | Tensor], lead: int = 1) -> Inputs:
        """Return the inputs, not normalized; see :meth:`ObservationInputs.raw`."""
        of_actor = self._of_actor.raw(observations, lead)
        of_critics = self._of_critics.raw(observations, lead)
        return self._merged(of_actor, of_critics)

    def __call__(self, raw: Inputs) -> Inputs:
        """Normalize the vector part of ``raw``, each part with its own statistics."""
        raw_of_actor, raw_of_critics = self.split(raw)
        of_actor = self._of_actor(raw_of_actor)
        of_critics = self._of_critics(raw_of_critics)
        return self._merged(of_actor, of_critics)

    @property
    def has_statistics(self) -> bool:
        """Whether each normalizer has seen anything yet."""
        return self._of_actor.has_statistics and self._of_critics.has_statistics

    def update_normalizer(self, raw: Inputs, ranks: Ranks | None = None) -> None:
        """Add the vector part of ``raw`` to the statistics; see :meth:`ObservationInputs.update_normalizer`."""
        of_actor, of_critics = self.split(raw)
        self._of_actor.update_normalizer(of_actor, ranks)
        self._of_critics.update_normalizer(of_critics, ranks)

    def split(self, inputs: Inputs) -> tuple[Inputs, Inputs]:
        """Return the inputs of the policy, and those of critics alone."""
        columns, images = vector_and_images(inputs, self.vectors)
        count = len(self._of_actor.images)
        of_actor = images[:count]
        of_critics = images[count:]
        size = self._of_actor.vector_size
        if self._of_actor.vectors:
            of_actor = (columns[0][:, :size], *of_actor)
        if self._of_critics.vectors:
            of_critics = (columns[0][:, size:], *of_critics)
        return of_actor, of_critics

    def _merged(self, of_actor: Inputs, of_critics: Inputs) -> Inputs:
        actor_columns, actor_images = vector_and_images(of_actor, self._of_actor.vectors)
        critics_columns, critics_images = vector_and_images(of_critics, self._of_critics.vectors)
        columns = actor_columns + critics_columns
        images = actor_images + critics_images
        if columns:
            return (torch.cat(columns, dim=1), *images)
        return images


def vector_and_images(inputs: Inputs, vectors: Sequence[ObservationSpec]) -> tuple[Inputs, Inputs]:
    """Return the vector part of ``inputs``, a tuple that is empty without ``vectors``, and the images."""
    count = 1 if vectors else 0
    return inputs[:count], inputs[count:]


def beside(parts: list[Tensor]) -> Tensor:
    """Return ``parts``, each [B, any number], side by side."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts, dim=1)


def _rows(array: NDArray[Any] | Tensor, lead: int) -> Tensor:
    """Return [B, *shape] of an ``array`` [*L, *shape] with ``lead`` leading axes."""
    shape = array.shape[lead:]
    return torch.as_tensor(array.reshape(-1, *shape))


def divided_observations(
    behavior: BehaviorSpec, settings: NetworkSettings
) -> tuple[tuple[ObservationSpec, ...], tuple[ObservationSpec, ...]]:
    """Return the observations that a policy reads, and those that critics alone read (``critic_observations``).

    Raises ConfigError for a name that the agents do not observe, and if nothing is left for the policy.
    """
    names = [observation.name for observation in behavior.observations]
    observed = ", ".join(names)
    key = ("behaviors", behavior.name, "network_settings", "critic_observations")
    for name in settings.critic_observations:
        if name not in names:
            raise ConfigError(f"agents observe {observed}, and not {name!r}{did_you_mean(name, names)}", key=key)
    acting: list[ObservationSpec] = []
    privileged: list[ObservationSpec] = []
    for observation in behavior.observations:
        readers = privileged if observation.name in settings.critic_observations else acting
        readers.append(observation)
    if not acting:
        raise ConfigError(f"has all that agents observe ({observed}); leave one for the policy", key=key)
    return tuple(acting), tuple(privileged)


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Return the tensor's values as an array, which shares memory with it on a CPU."""
    return np.asarray(tensor.detach().cpu().numpy())
