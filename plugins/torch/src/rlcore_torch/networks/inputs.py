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
        # a row of zeros must stay one.
        normalized = torch.tensor([o.kind == "vector" for o in self.vectors for _ in range(o.size)], dtype=torch.bool)
        self.register_buffer("normalized_columns", normalized, persistent=False)
        self._all_normalized = bool(normalized.all())
        if normalize and bool(normalized.any()):
            self.normalizer = RunningNormalizer(self.vector_size, clip)

    def raw(self, observations: Mapping[str, NDArray[Any] | Tensor], lead: int = 1) -> Inputs:
        """Return the inputs, not normalized, of observations by name, each [*L, *shape].

        The ``lead`` leading axes *L become one, B. Tensors share the memory of the arrays where possible. Observations
        may also be tensors, on any device.
        """
        columns = []
        for o in self.vectors:
            rows = _rows(observations[o.name], lead)  # [B, *shape]
            columns.append(rows.reshape(-1, o.size).to(torch.float32))
        images = [_rows(observations[o.name], lead) for o in self.images]
        if columns:
            return (beside(columns), *images)
        return tuple(images)

    def columns(self, observations: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return the vector observations of R rows, not normalized, side by side: [R, vector_size]."""
        parts = [observations[o.name].reshape(-1, o.size) for o in self.vectors]
        x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if x.dtype == np.float32:
            return x
        return x.astype(np.float32)

    def forward(self, raw: Inputs) -> Inputs:
        """Normalize the vector part of ``raw``. Called once per rollout or sample, not in every network."""
        if self.normalizer is None:
            return raw
        scaled = self.normalizer(raw[0])
        if not self._all_normalized:
            scaled = torch.where(self.normalized_columns, scaled, raw[0])
        return (scaled, *raw[1:])

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
        self._parts = of_actor, of_critics
        self.vectors = (*of_actor.vectors, *of_critics.vectors)
        self.images = (*of_actor.images, *of_critics.images)
        self.vector_size = of_actor.vector_size + of_critics.vector_size
        self.normalizer = of_actor.normalizer or of_critics.normalizer

    def raw(self, observations: Mapping[str, NDArray[Any] | Tensor], lead: int = 1) -> Inputs:
        """Return the inputs, not normalized; see :meth:`ObservationInputs.raw`."""
        of_actor, of_critics = self._parts
        return self._merged(of_actor.raw(observations, lead), of_critics.raw(observations, lead))

    def __call__(self, raw: Inputs) -> Inputs:
        """Normalize the vector part of ``raw``, each part with its own statistics."""
        of_actor, of_critics = self._parts
        actor_raw, critics_raw = self.split(raw)
        return self._merged(of_actor(actor_raw), of_critics(critics_raw))

    @property
    def has_statistics(self) -> bool:
        """Whether each normalizer has seen anything yet."""
        return all(part.has_statistics for part in self._parts)

    def update_normalizer(self, raw: Inputs, ranks: Ranks | None = None) -> None:
        """Add the vector part of ``raw`` to the statistics; see :meth:`ObservationInputs.update_normalizer`."""
        for part, part_raw in zip(self._parts, self.split(raw), strict=True):
            part.update_normalizer(part_raw, ranks)

    def split(self, inputs: Inputs) -> tuple[Inputs, Inputs]:
        """Return the inputs of the policy, and those of critics alone."""
        actor, critics = self._parts
        columns, images = vector_and_images(inputs, self.vectors)
        count = len(actor.images)
        of_actor = [x[:, : actor.vector_size] for x in columns if actor.vectors]
        of_critics = [x[:, actor.vector_size :] for x in columns if critics.vectors]
        return (*of_actor, *images[:count]), (*of_critics, *images[count:])

    def _merged(self, of_actor: Inputs, of_critics: Inputs) -> Inputs:
        actor, critics = self._parts
        actor_columns, actor_images = vector_and_images(of_actor, actor.vectors)
        critics_columns, critics_images = vector_and_images(of_critics, critics.vectors)
        columns = (*actor_columns, *critics_columns)
        images = (*actor_images, *critics_images)
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
    return torch.as_tensor(array.reshape(-1, *array.shape[lead:]))


def divided_observations(
    behavior: BehaviorSpec, settings: NetworkSettings
) -> tuple[tuple[ObservationSpec, ...], tuple[ObservationSpec, ...]]:
    """Return the observations that a policy reads, and those that critics alone read (``critic_observations``).

    Raises ConfigError for a name that the agents do not observe, and if nothing is left for the policy.
    """
    names = [observation.name for observation in behavior.observations]
    key = ("behaviors", behavior.name, "network_settings", "critic_observations")
    for name in settings.critic_observations:
        if name not in names:
            problem = f"agents observe {', '.join(names)}, and not {name!r}{did_you_mean(name, names)}"
            raise ConfigError(problem, key=key)
    privileged = tuple(o for o in behavior.observations if o.name in settings.critic_observations)
    acting = tuple(o for o in behavior.observations if o.name not in settings.critic_observations)
    if not acting:
        raise ConfigError(f"has all that agents observe ({', '.join(names)}); leave one for the policy", key=key)
    return acting, privileged


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Return the tensor's values as an array, which shares memory with it on a CPU."""
    return np.asarray(tensor.detach().cpu().numpy())
