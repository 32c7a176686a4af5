"""The body of a policy or a critic: encoders of observations, hidden layers, and a recurrent layer after them.

Everything here is plain PyTorch, so ``torch.compile`` and ``torch.func`` work on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from rlcore import ObservationSpec, UnsupportedSpace
from rlcore_torch.allocation import require_network_memory
from rlcore_torch.networks.attention import EntityEncoder
from rlcore_torch.networks.encoders import image_scale, make_encoder
from rlcore_torch.networks.inputs import AnyInputs, beside, vector_and_images
from rlcore_torch.networks.layers import ACTIVATIONS, HyperLinear, dense, frozen_call, hidden_layers
from rlcore_torch.networks.recurrent import Recurrent
from rlcore_torch.networks.sequence_inputs import Inputs, SequenceInputs, SequenceLayout, SequenceStarts
from rlcore_torch.networks.settings import NetworkSettings

__all__ = ["Body"]


class ObservationEncoders(nn.Module):
    """Encodes observations and puts them side by side: the part of a body before its hidden layers.

    Attributes:
        encoders: The encoders of images.
        vector_encoders: The encoders of vector observations; empty if these enter the hidden layers as they are.
        entities: The encoder of observations of the kind ``entities``; None without any.
        plain: Whether vector observations enter the hidden layers as they are, and no goal makes the weights of one.
        bf16: Whether encoders and hidden layers compute in bfloat16. What they return is float32 all the same.
    """

    def __init__(self, inputs: AnyInputs, settings: NetworkSettings) -> None:
        super().__init__()
        self.bf16 = False
        self.images = inputs.images
        self.vectors = inputs.vectors
        self.encoders, image_sizes = _encoders(settings, inputs.images)
        for place, image in enumerate(inputs.images):
            scale = image_scale(image)
            if isinstance(scale, Tensor):
                of_channels = scale[:, None, None]  # [channels, 1, 1]
                self.register_buffer(f"scale_{place}", of_channels, persistent=False)
            else:  # a number costs a minibatch of images less than a tensor
                setattr(self, f"scale_{place}", scale)
        flat = [o for o in inputs.vectors if o.kind != "entities"]
        self.vector_encoders = nn.ModuleList()
        flat_sizes = [o.size for o in flat]
        if settings.vector_encode_type is not None:
            self.vector_encoders, flat_sizes = _encoders(settings, flat)
        self._encoded_size = sum(image_sizes) + sum(flat_sizes)  # columns that all make together
        self.entities: EntityEncoder | None = None
        entity_sizes = [o.shape[1] for o in inputs.vectors if o.kind == "entities"]
        if entity_sizes:
            units = settings.attention_units
            self.entities = EntityEncoder(entity_sizes, units, beside=self._encoded_size)
            self._encoded_size += units
        self._goal_size = 0  # columns of goals that make the weights of the last hidden layer
        # Without a hidden layer there are no weights to make: goals are observations like all others then.
        if settings.goal_conditioning_type == "hyper" and settings.widths:
            observations = (*inputs.images, *flat)
            sizes = (*image_sizes, *flat_sizes)
            for o, size in zip(observations, sizes, strict=True):
                if o.goal:
                    self._goal_size += size
        self.plain = not (self.vector_encoders or self.entities or self._goal_size)
        self._encodes = bool(self.encoders) or not self.plain

    def encode(self, inputs: Inputs, extra: Tensor | None = None, frozen: bool = False) -> Tensor:
        """Return encoded observations and ``extra`` [B, extra] side by side, [B, width of the first layer].

        With ``frozen``, encoders get no gradient.
        """
        encoded, _ = self._encode_with_goals(inputs, extra, frozen)
        return encoded

    def _encode_with_goals(self, inputs: Inputs, extra: Tensor | None, frozen: bool) -> tuple[Tensor, list[Tensor]]:
        """Return the result of :meth:`encode`, and the goals among it, each [B, size]."""
        columns, images = vector_and_images(inputs, self.vectors)
        parts = list(columns)
        goals: list[Tensor] = []
        if self._encodes:
            learns = torch.is_grad_enabled() and not frozen
            with torch.set_grad_enabled(learns), self._autocast(inputs[0]):
                parts, goals = self._encoded_parts(columns, images)
        if self.bf16:
            # Columns of several types would not go side by side, and what acts and learns outside is float32.
            parts = [part.float() for part in parts]
            goals = [goal.float() for goal in goals]
        if extra is not None:
            parts.append(extra)
        return beside(parts), goals

    def _encoded_parts(self, columns: Inputs, images: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        """Return each encoded observation [B, size], and those that are goals."""
        parts: list[Tensor] = []
        goals: list[Tensor] = []
        entities: list[Tensor] = []  # each [B, E, F]
        if self.plain:
            parts += columns
        elif columns:
            encoders = iter(self.vector_encoders)
            sizes = [o.size for o in self.vectors]
            vectors = columns[0].split(sizes, dim=1)  # type: ignore[no-untyped-call]
            for o, x in zip(self.vectors, vectors, strict=True):
                if o.kind == "entities":
                    entities.append(x.reshape(-1, *o.shape))
                    continue
                if self.vector_encoders:
                    encoder = next(encoders)
                    x = encoder(x)
                parts.append(x)
                if o.goal:
                    goals.append(x)
        for place, encoder in enumerate(self.encoders):
            pixels = self._scaled(place, images[place])
            features = encoder(pixels)
            parts.append(features)
            if self.images[place].goal:
                goals.append(features)
        if self.entities is not None:
            others = beside(parts) if parts else None
            parts.append(self.entities(entities, others))
        return parts, goals

    def _scaled(self, place: int, image: Tensor) -> Tensor:
        """Return [B, channels, height, width] of ``image`` [B, height, width, channels], times its scale."""
        scale: float | Tensor = getattr(self, f"scale_{place}")
        pixels = image.permute(0, 3, 1, 2)
        numbers = pixels.to(torch.float32)
        if numbers is pixels:
            return numbers * scale
        return numbers.mul_(scale)  # in place, as it is a copy: a minibatch of images is large

    def _autocast(self, x: Tensor) -> AbstractContextManager[Any]:
        """Within it, the layers that get ``x`` compute as :attr:`bf16` says. Each weight is rounded once, where it is
        used, so that no rounded copy is kept.
        """
        if not self.bf16:
            return nullcontext()
        return torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False)


def _encoders(settings: NetworkSettings, observations: Sequence[ObservationSpec]) -> tuple[nn.ModuleList, list[int]]:
    """Return an encoder for each observation, and the number of features of each."""
    encoders = nn.ModuleList()
    sizes = []
    for observation in observations:
        encoder, size = make_encoder(settings, observation)
        encoders.append(encoder)
        sizes.append(size)
    return encoders, sizes


class Body(ObservationEncoders):
    """Encoders and hidden layers: inputs to features [B, features].

    ``extra`` columns, such as an action, may enter the first layer next to the observations. With memory they enter
    after it, where as many hidden layers follow: what is remembered are observations, and the values of several actions
    need one pass through the sequence.

    Attributes:
        layers: The hidden layers, as :func:`rlcore_torch.dense` takes them, each followed by the activation; one with
            dropout or LayerNorm is a sequence of a linear layer and these.
        hyper: The last hidden layer, if the goal of a row makes its weights; it is not among ``layers`` then.
        recurrent: The recurrent layer after the hidden layers; None without memory.
        memory_place: Which of the stored memories is this body's; None for one that begins each sequence with zeros.
        later_layers: With memory and ``extra`` columns: the hidden layers after the recurrent one.
        features: Number of features.
    """

    def __init__(
        self, inputs: AnyInputs, settings: NetworkSettings, extra: int = 0, memory_place: int | None = None
    ) -> None:
        super().__init__(inputs, settings)
        self.memory_place = memory_place
        self.activation = settings.activation
        width = self._encoded_size
        if settings.memory is None:
            width += extra
        require_network_memory(width, settings.widths)
        self.layers = nn.ModuleList()
        self.hyper: HyperLinear | None = None
        self.recurrent: Recurrent | None = None
        self.later_layers = nn.ModuleList()
        widths = settings.widths[:-1] if self._goal_size else settings.widths
        if settings.batch_norm != "none":
            self._refuse_batch_norm()
        self.layers.extend(hidden_layers(width, widths, settings))
        width = widths[-1] if widths else width
        if self._goal_size:
            units = settings.widths[-1]
            require_network_memory(units, [width * units])
            self.hyper = HyperLinear(width, units, self._goal_size)
            width = units
        self.features = width
        if settings.memory is None:
            return
        self.recurrent = Recurrent(width, settings.memory, settings.init)
        self.features = self.recurrent.features
        if extra:
            self.features += extra
            self.later_layers.extend(hidden_layers(self.features, settings.widths, settings))
            if settings.widths:
                self.features = settings.widths[-1]

    def _refuse_batch_norm(self) -> None:
        """Raise UnsupportedSpace for observations of which batch normalization was never tried."""
        unread = {"images": self.images, "entities": self.entities, "goals that make weights": self._goal_size}
        for kind, there in unread.items():
            if there:
                advice = "goal_conditioning_type: none, or " if kind.startswith("goals") else ""
                raise UnsupportedSpace(f"network_settings.batch_norm is not for {kind}; set {advice}batch_norm: none")

    def forward(
        self, inputs: Inputs, extra: Tensor | None = None, frozen: bool = False, batch_statistics: bool = False
    ) -> Tensor:
        """Return the features [B, features] of the hidden layers, before a recurrent layer.

        The other arguments are those of :meth:`into`.
        """
        encoded, goals = self._encode_with_goals(inputs, extra, frozen)
        x = self._dense(encoded, list(self.layers), True, frozen, batch_statistics)
        if self.hyper is None:
            return x
        goal = beside(goals)
        x = frozen_call(self.hyper, x, goal) if frozen else self.hyper(x, goal)
        activate = ACTIVATIONS[self.activation]
        return activate(x)

    def remember(self, inputs: Inputs, sequences: SequenceLayout, memory: Tensor) -> Tensor:
        """Features [B, features] of a body with memory: B rows of ``sequences`` that begin with ``memory`` [Q, M]."""
        assert self.recurrent is not None
        x = sequences.padded(self(inputs))
        memory = memory.index_select(0, sequences.order)
        outputs = self.recurrent(x, memory, sequences.segments)
        return sequences.unpadded(outputs)

    @torch.no_grad()
    def memory_before(self, starts: SequenceStarts) -> Tensor:
        """Return the memory [Q, M] at the start of Q sequences, after their burn-in, without a gradient."""
        if starts.computed is None:
            return self._burn_in(starts)
        if self not in starts.computed:
            starts.computed[self] = self._burn_in(starts)
        return starts.computed[self]

    def _burn_in(self, starts: SequenceStarts) -> Tensor:
        assert self.recurrent is not None
        size = self.recurrent.memory_size
        place = self.memory_place
        memory = starts.stored.new_zeros(len(starts.stored), size)
        if place is not None and starts.stored.shape[1]:
            first = place * size
            memory = starts.stored[:, first : first + size]
        layout = starts.layout
        if layout is None:
            return memory
        x = layout.padded(self(starts.lead))
        led = starts.led.index_select(0, layout.order)
        before = memory.index_select(0, led)
        after = self.recurrent.after(x, before, layout.segments)
        return memory.index_copy(0, led, after)

    def last_features(self, inputs: Inputs, frozen: bool = False, batch_statistics: bool = False) -> Tensor:
        """Return the features [B, features] of the hidden layers, or those of the recurrent layer after them.

        ``frozen`` and ``batch_statistics`` are those of :meth:`into`.
        """
        if self.recurrent is None:
            return self(inputs, frozen=frozen, batch_statistics=batch_statistics)  # type: ignore[no-any-return]
        if not isinstance(inputs, SequenceInputs):
            raise TypeError("a network with memory needs SequenceInputs; BatchReader makes them from sequences")
        learns = torch.is_grad_enabled() and not frozen
        with torch.set_grad_enabled(learns):
            memory = self.memory_before(inputs.starts)
            outputs = self.remember(inputs.steps, inputs.layout, memory)
            return outputs.index_select(0, inputs.chosen)

    def step(self, inputs: Inputs, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Features [R, features] and the next memory [R, M] of a body with memory, for one step of R rows."""
        assert self.recurrent is not None
        return self.recurrent.step(self(inputs), memory)

    def encode_once(self, inputs: Inputs) -> Tensor | None:
        """Return encoded observations for several calls of :meth:`into` with the same ``inputs`` and weights.

        None if that saves nothing, because nothing is encoded, or is not possible: with memory, and with goals that
        make weights.
        """
        if not self._encodes or self.recurrent is not None or self.hyper is not None:
            return None
        return self.encode(inputs)

    def into(
        self,
        inputs: Inputs,
        head: nn.Linear,
        extra: Tensor | None = None,
        frozen: bool = False,
        encoded: Tensor | None = None,
        batch_statistics: bool = False,
    ) -> Tensor:
        """Return ``head`` applied to the features, [B, outputs of the head].

        ``extra`` [B, extra] are columns beside the observations. With ``frozen``, only ``extra`` gets a gradient, the
        weights get none. With memory, ``inputs`` are :class:`SequenceInputs`. ``encoded`` is what :meth:`encode_once`
        returned for the ``inputs``. With ``batch_statistics``, layers that normalize over rows use the statistics of
        these B rows and move their running ones. Raises ValueError for that of a frozen body.
        """
        layers = [*self.layers, head]
        if encoded is not None:
            x = encoded.detach() if frozen else encoded
        elif self.recurrent is not None:
            x = self.last_features(inputs, frozen)
            layers = [*self.later_layers, head]
        elif self.hyper is not None:
            x = self(inputs, extra, frozen)
            layers = [head]
            extra = None
        else:
            x = self.encode(inputs, extra, frozen)
            extra = None
        if extra is not None:
            x = torch.cat([x, extra], dim=1)
        return self._dense(x, layers, False, frozen, batch_statistics)

    def _dense(
        self, x: Tensor, layers: Sequence[nn.Module], activate_last: bool, frozen: bool, batch_statistics: bool
    ) -> Tensor:
        """``layers`` applied to x [B, in] by :func:`dense`, in float32 or bfloat16; the result is float32."""
        with self._autocast(x):
            x = dense(x, layers, self.activation, activate_last, frozen, batch_statistics)
        if self.bf16:
            return x.float()
        return x
