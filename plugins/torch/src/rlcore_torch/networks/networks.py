"""Networks of policies and critics: observation encoders, hidden layers, heads.

Observations enter as a tuple of tensors made by :class:`ObservationInputs`: all vector observations side by side, with
the numbers of entities among them, then each image. Weights are initialized as in ML-Agents (Kaiming normal, small
policy heads) or orthogonally (``network_settings.init``).

Everything here is plain PyTorch, so ``torch.compile`` and ``torch.func`` work on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.functional import linear

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, Ranks, did_you_mean
from rlcore_torch.allocation import require_network_memory
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.networks.attention import EntityEncoder
from rlcore_torch.networks.distributions import ActionDistribution, make_distribution
from rlcore_torch.networks.dropout import Dropout
from rlcore_torch.networks.encoders import image_scale, make_encoder
from rlcore_torch.networks.hyper import HyperLinear
from rlcore_torch.networks.normalizer import CLIP, RunningNormalizer
from rlcore_torch.networks.recurrent import Recurrent
from rlcore_torch.networks.sequence_inputs import Inputs, SequenceInputs, SequenceLayout, SequenceStarts
from rlcore_torch.on_policy.sequences import Sequences
from rlcore_torch.settings import NetworkSettings

__all__ = [
    "Actor",
    "ActorCritic",
    "Body",
    "Critic",
    "Inputs",
    "ObservationInputs",
    "PolicyHead",
    "dense",
    "initialize",
    "min_q",
]

AnyInputs: TypeAlias = "ObservationInputs | LearnerInputs"

# Those of NetworkSettings.activation.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swish": functional.silu,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "selu": functional.selu,
    "gelu": functional.gelu,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "sigmoid": torch.sigmoid,
}


def dense(
    x: Tensor, layers: Sequence[nn.Module], activation: str, activate_last: bool = False, frozen: bool = False
) -> Tensor:
    """Apply ``layers`` to x [B, in], with the activation between them, and after the last if ``activate_last``.

    With ``frozen`` x gets a gradient and the layers get none.
    """
    for index, layer in enumerate(layers):
        x = _frozen(layer, x) if frozen else layer(x)
        if activate_last or index < len(layers) - 1:
            x = ACTIVATIONS[activation](x)
    return x


def _frozen(layer: nn.Module, *x: Tensor) -> Tensor:
    """``layer(*x)`` without a gradient for the layer."""
    if is_plain_linear(layer):
        return linear(x[0], layer.weight.detach(), layer.bias.detach())
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    return functional_call(layer, parameters, x)  # type: ignore[no-any-return]


def is_plain_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether ``layer`` only multiplies by its weight and adds its bias: no hooks, no parametrization, no subclass."""
    return (
        type(layer) is nn.Linear
        and layer.bias is not None
        and not (layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks)
        and "forward" not in layer.__dict__
    )


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
        columns = [torch.full((o.size,), o.kind == "vector") for o in self.vectors]
        normalized = torch.cat(columns) if columns else torch.empty(0, dtype=torch.bool)
        self.register_buffer("normalized_columns", normalized, persistent=False)
        self._all_normalized = bool(normalized.all())
        if normalize and bool(normalized.any()):
            self.normalizer = RunningNormalizer(self.vector_size, clip)

    def raw(self, observations: Mapping[str, NDArray[Any] | Tensor], lead: int = 1) -> Inputs:
        """Return the inputs, not normalized, of observations by name, each [*L, *shape].

        The ``lead`` leading axes *L become one, B. Tensors share the memory of the arrays where possible. Observations
        may also be tensors, on any device.
        """
        inputs = []
        if self.vectors:
            parts = [self._rows(observations[o.name], lead).reshape(-1, o.size).to(torch.float32) for o in self.vectors]
            inputs.append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
        inputs.extend(self._rows(observations[o.name], lead) for o in self.images)
        return tuple(inputs)

    def columns(self, observations: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return the vector observations of R rows, not normalized, side by side: [R, vector_size]."""
        parts = [observations[o.name].reshape(-1, o.size) for o in self.vectors]
        x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return x if x.dtype == np.float32 else x.astype(np.float32)

    @staticmethod
    def _rows(array: NDArray[Any] | Tensor, lead: int) -> Tensor:
        return torch.as_tensor(array.reshape(-1, *array.shape[lead:]))

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
        return self._joined([part.raw(observations, lead) for part in self._parts])

    def __call__(self, raw: Inputs) -> Inputs:
        """Normalize the vector part of ``raw``, each part with its own statistics."""
        return self._joined([part(own) for part, own in zip(self._parts, self.split(raw), strict=True)])

    @property
    def has_statistics(self) -> bool:
        """Whether each normalizer has seen anything yet."""
        return all(part.has_statistics for part in self._parts)

    def update_normalizer(self, raw: Inputs, ranks: Ranks | None = None) -> None:
        """Add the vector part of ``raw`` to the statistics; see :meth:`ObservationInputs.update_normalizer`."""
        for part, own in zip(self._parts, self.split(raw), strict=True):
            part.update_normalizer(own, ranks)

    def split(self, inputs: Inputs) -> tuple[Inputs, Inputs]:
        """Return the inputs of the policy, and those of critics alone."""
        of_actor, of_critics = self._parts
        columns = inputs[: bool(self.vectors)]
        images = inputs[bool(self.vectors) :]
        own = [x[:, : of_actor.vector_size] for x in columns if of_actor.vectors]
        others = [x[:, of_actor.vector_size :] for x in columns if of_critics.vectors]
        count = len(of_actor.images)
        return (*own, *images[:count]), (*others, *images[count:])

    def _joined(self, parts: Sequence[Inputs]) -> Inputs:
        has_columns = [bool(part.vectors) for part in self._parts]
        columns = [inputs[0] for inputs, has in zip(parts, has_columns, strict=True) if has]
        images = [image for inputs, has in zip(parts, has_columns, strict=True) for image in inputs[has:]]
        return (torch.cat(columns, dim=1), *images) if columns else tuple(images)


class Body(nn.Module):
    """Encoders and hidden layers: inputs to features [B, features].

    ``extra`` columns, such as an action, may enter the first layer next to the observations. With memory they enter
    after it, where as many hidden layers follow: what is remembered are observations, and the values of several actions
    need one pass through the sequence.

    Attributes:
        layers: The hidden layers, each followed by the activation; one with dropout or LayerNorm is a sequence of a
            linear layer and these.
        hyper: The last hidden layer, if the goal of a row makes its weights; it is not among ``layers`` then.
        entities: The encoder of observations of the kind ``entities``; None without any.
        plain: Whether vector observations enter the first of ``layers`` as they are, and these are all layers.
        recurrent: The recurrent layer after the hidden layers; None without memory.
        memory_place: Which of the stored memories is this body's; None for one that begins each sequence with zeros.
        later_layers: With memory and ``extra`` columns: the hidden layers after the recurrent one.
        features: Number of features.
        bf16: Whether encoders and hidden layers compute in bfloat16. What the body returns is float32 all the same,
            and so is a recurrent layer.
    """

    def __init__(
        self, inputs: AnyInputs, settings: NetworkSettings, extra: int = 0, memory_place: int | None = None
    ) -> None:
        super().__init__()
        self.memory_place = memory_place
        self.bf16 = False
        self.activation = settings.activation
        self.images = inputs.images
        self.vectors = inputs.vectors
        self.encoders, of_images = _encoders(settings, inputs.images)
        for place, image in enumerate(inputs.images):
            scale = image_scale(image)
            if isinstance(scale, Tensor):
                self.register_buffer(f"scale_{place}", scale[:, None, None], persistent=False)
            else:  # a number costs a minibatch of images less than a tensor
                setattr(self, f"scale_{place}", scale)
        flat = [o for o in inputs.vectors if o.kind != "entities"]
        encoded = flat if settings.vector_encode_type is not None else []
        self.vector_encoders, of_vectors = _encoders(settings, encoded)
        of_vectors = of_vectors if encoded else [o.size for o in flat]
        width = sum((*of_images, *of_vectors))
        self.entities: EntityEncoder | None = None
        if len(flat) < len(inputs.vectors):
            sizes = [o.shape[1] for o in inputs.vectors if o.kind == "entities"]
            self.entities = EntityEncoder(sizes, settings.attention_units, beside=width)
            width += settings.attention_units
        width += extra if settings.memory is None else 0
        require_network_memory(width, settings.widths)
        seen = zip((*inputs.images, *flat), (*of_images, *of_vectors), strict=True)
        goal = sum(features for o, features in seen if o.goal) if settings.goal_conditioning_type == "hyper" else 0
        self.hyper: HyperLinear | None = None
        self.layers = nn.ModuleList()  # each is followed by the activation
        for place, units in enumerate(settings.widths):
            if goal and place == len(settings.widths) - 1:
                require_network_memory(units, [width * units])
                self.hyper = HyperLinear(width, units, goal)
            else:
                self.layers.append(_hidden_layer(width, units, settings))
            width = units
        self.plain = not (self.vector_encoders or self.entities or self.hyper)
        self.features = width
        self.recurrent: Recurrent | None = None
        self.later_layers = nn.ModuleList()
        if settings.memory is not None:
            self.recurrent = Recurrent(self.features, settings.memory, settings.init)
            self.features = self.recurrent.features
            for width in settings.widths if extra else ():
                self.later_layers.append(_hidden_layer(self.features + extra, width, settings))
                self.features = width
                extra = 0
            self.features += extra

    def encode(self, inputs: Inputs, extra: Tensor | None = None, frozen: bool = False) -> Tensor:
        """Return encoded observations and ``extra`` [B, extra] side by side, [B, width of the first layer].

        With ``frozen``, encoders get no gradient.
        """
        return self._encoded(inputs, extra, frozen)[0]

    def _encoded(self, inputs: Inputs, extra: Tensor | None, frozen: bool) -> tuple[Tensor, Tensor | None]:
        """The result of :meth:`encode`, and the goals [B, goal] if a layer depends on them."""
        parts = list(inputs[:1]) if self.vectors else []
        images = inputs[1:] if self.vectors else inputs
        goals: list[Tensor] = []
        if self.encoders or not self.plain:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen), self._autocast(inputs[0]):
                sets: list[Tensor] = []
                if self.vectors and not self.plain:
                    parts, sets = self._columns(inputs[0], goals)
                for place, (encoder, image, o) in enumerate(zip(self.encoders, images, self.images, strict=True)):
                    scale = getattr(self, f"scale_{place}")
                    pixels = image.permute(0, 3, 1, 2)
                    # In place where the numbers are new: a minibatch of images is large.
                    own = pixels.to(torch.float32)
                    parts.append(encoder(own * scale if own is pixels else own.mul_(scale)))
                    if o.goal:
                        goals.append(parts[-1])
                if self.entities is not None:
                    parts.append(self.entities(sets, torch.cat(parts, dim=1) if parts else None))
        if self.bf16:
            parts = [part.float() for part in parts]
            goals = [goal.float() for goal in goals]
        if extra is not None:
            parts.append(extra)
        encoded = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return encoded, None if self.hyper is None else torch.cat(goals, dim=1)

    def _columns(self, columns: Tensor, goals: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Vector observations, encoded if they are, and entities [B, E, F], of ``columns`` [B, vector_size].

        Adds those that are goals to ``goals``.
        """
        encoders = iter(self.vector_encoders)
        parts: list[Tensor] = []
        sets: list[Tensor] = []
        of_each = columns.split([o.size for o in self.vectors], dim=1)  # type: ignore[no-untyped-call]
        for o, x in zip(self.vectors, of_each, strict=True):
            if o.kind == "entities":
                sets.append(x.reshape(-1, *o.shape))
                continue
            parts.append(next(encoders)(x) if self.vector_encoders else x)
            if o.goal:
                goals.append(parts[-1])
        return parts, sets

    def forward(self, inputs: Inputs, extra: Tensor | None = None, frozen: bool = False) -> Tensor:
        """Return the features [B, features] of the hidden layers, before a recurrent layer.

        The other arguments are those of :meth:`into`.
        """
        x, goal = self._encoded(inputs, extra, frozen)
        x = self._dense(x, list(self.layers), activate_last=True, frozen=frozen)
        if self.hyper is None or goal is None:
            return x
        return ACTIVATIONS[self.activation](_frozen(self.hyper, x, goal) if frozen else self.hyper(x, goal))

    def remember(self, inputs: Inputs, sequences: SequenceLayout, memory: Tensor) -> Tensor:
        """Features [B, features] of a body with memory: B rows of ``sequences`` that begin with ``memory`` [Q, M]."""
        assert self.recurrent is not None
        x = sequences.padded(self(inputs))
        memory = memory.index_select(0, sequences.order)
        return sequences.unpadded(self.recurrent(x, memory, sequences.segments))

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
            memory = starts.stored[:, place * size : (place + 1) * size]
        if starts.layout is None:
            return memory
        lead = starts.layout.padded(self(starts.lead))
        led = starts.led.index_select(0, starts.layout.order)
        after = self.recurrent.after(lead, memory.index_select(0, led), starts.layout.segments)
        return memory.index_copy(0, led, after)

    def last_features(self, inputs: Inputs, frozen: bool = False) -> Tensor:
        """Return the features [B, features] of the hidden layers, or those of the recurrent layer after them."""
        if self.recurrent is None:
            return self(inputs, frozen=frozen)  # type: ignore[no-any-return]
        if not isinstance(inputs, SequenceInputs):
            raise TypeError("a network with memory needs SequenceInputs; BatchReader makes them from sequences")
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            outputs = self.remember(inputs.steps, inputs.layout, self.memory_before(inputs.starts))
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
        encodes = bool(self.encoders) or not self.plain
        return self.encode(inputs) if encodes and self.recurrent is None and self.hyper is None else None

    def into(
        self,
        inputs: Inputs,
        head: nn.Linear,
        extra: Tensor | None = None,
        frozen: bool = False,
        encoded: Tensor | None = None,
    ) -> Tensor:
        """Return ``head`` applied to the features, [B, outputs of the head].

        ``extra`` [B, extra] are columns beside the observations. With ``frozen``, only ``extra`` gets a gradient, the
        weights get none. With memory, ``inputs`` are :class:`SequenceInputs`. ``encoded`` is what :meth:`encode_once`
        returned for the ``inputs``.
        """
        if encoded is not None:
            x = encoded.detach() if frozen else encoded
            x = x if extra is None else torch.cat([x, extra], dim=1)
            return self._dense(x, [*self.layers, head], frozen=frozen)
        if self.recurrent is not None:
            x = self.last_features(inputs, frozen)
            x = x if extra is None else torch.cat([x, extra], dim=1)
            return self._dense(x, [*self.later_layers, head], frozen=frozen)
        if self.hyper is not None:
            return self._dense(self(inputs, extra, frozen), [head], frozen=frozen)
        return self._dense(self.encode(inputs, extra, frozen), [*self.layers, head], frozen=frozen)

    def _dense(
        self, x: Tensor, layers: Sequence[nn.Module], activate_last: bool = False, frozen: bool = False
    ) -> Tensor:
        """``layers`` applied to x [B, in] by :func:`dense`, in float32 or bfloat16; the result is float32."""
        with self._autocast(x):
            x = dense(x, layers, self.activation, activate_last=activate_last, frozen=frozen)
        return x.float() if self.bf16 else x

    def _autocast(self, x: Tensor) -> AbstractContextManager[Any]:
        """Within it, the layers that get ``x`` compute as :attr:`bf16` says. Each weight is rounded once, where it is
        used, so that no rounded copy is kept.
        """
        if not self.bf16:
            return nullcontext()
        return torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False)


def _encoders(settings: NetworkSettings, observations: Sequence[ObservationSpec]) -> tuple[nn.ModuleList, list[int]]:
    """One encoder for each observation, and the number of features of each."""
    made = [make_encoder(settings, observation) for observation in observations]
    return nn.ModuleList(encoder for encoder, _ in made), [features for _, features in made]


def _hidden_layer(width: int, units: int, settings: NetworkSettings) -> nn.Module:
    """A linear layer from ``width`` to ``units`` numbers, without the activation that follows it."""
    layer = nn.Linear(width, units)
    initialize(layer, settings.init, gain=2**0.5 if settings.init == "orthogonal" else 1.0)
    if not (settings.layer_norm or settings.dropout):
        return layer
    # In the order of DroQ (Hiraoka et al. 2022, arXiv:2110.02034).
    dropped = [Dropout(settings.dropout)] if settings.dropout else []
    normalized = [nn.LayerNorm(units)] if settings.layer_norm else []
    return nn.Sequential(layer, *dropped, *normalized)


class PolicyHead(nn.Module):
    """Features [B, features] to the parameters of the joint action distribution.

    ``linear`` returns [B, continuous + logits]: first the columns of the continuous parts, then one logit for each
    option of all branches, branch after branch. :meth:`split` separates the two.

    Attributes:
        distribution: The distribution of the continuous parts, which says what their columns mean; None without them.
            It has ``columns`` numbers for each part. Those of a Gaussian are all means, then all log standard
            deviations if these depend on the observations.
        continuous: The number of columns of the continuous parts, and of features that their distribution reads; 0
            without such parts.
        reads_features: Whether the features follow the columns of ``linear``, because the distribution reads them.
        logits: The number of options of all branches; 0 without branches.
        linear: The layer.
    """

    def __init__(
        self,
        features: int,
        layout: ActionLayout,
        init: str,
        distribution: ActionDistribution | None,
    ) -> None:
        super().__init__()
        self.distribution = distribution if layout.continuous else None
        columns = 0 if self.distribution is None else layout.continuous * self.distribution.columns
        self.reads_features = self.distribution is not None and self.distribution.reads_features
        if self.distribution is not None and self.reads_features:
            self.distribution.read_features(features)
        self.continuous = columns if self.distribution is None else self.distribution.width
        self.logits = layout.logits
        self.linear = nn.Linear(features, columns + layout.logits)
        initialize(self.linear, init, gain=0.01 if init == "orthogonal" else 0.1)
        with torch.no_grad():
            if init == "kaiming":
                self.linear.weight[:columns] *= 2.0  # ML-Agents: 0.2 for means, 0.1 for logits
            if self.distribution is not None:
                self.distribution.initialize(self.linear.weight[:columns], self.linear.bias[:columns])

    @property
    def noise_size(self) -> int:
        """The standard normal numbers that one draw of the continuous parts needs."""
        return 0 if self.distribution is None else self.distribution.noise_size

    @property
    def held_size(self) -> int:
        """The standard normal numbers that an agent keeps for ``distribution.hold`` steps while it explores."""
        return 0 if self.distribution is None else self.distribution.held_size

    @property
    def hold(self) -> int:
        """Environment steps for which an agent that explores keeps its noise."""
        return 1 if self.distribution is None else self.distribution.hold

    def forward(self, features: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts, features that are read among them, and the logits [B, logits].

        A part that the behavior does not have is None.
        """
        output = self.linear(features)
        if not self.reads_features:
            return self.split(output)
        columns = output.shape[1] - self.logits
        return torch.cat((output[:, :columns], features), dim=1), output[:, columns:] if self.logits else None

    def split(self, output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts and the logits [B, logits] of ``output``.

        ``output`` [B, columns + logits] is that of the linear layer, and no features are read. A part that the behavior
        does not have is None.
        """
        if not self.logits:
            return output, None
        if not self.continuous:
            return None, output
        return output[:, : self.continuous], output[:, self.continuous :]


class Actor(nn.Module):
    """A policy network: what acting, evaluation and export need. Trainers derive from it and add critics.

    ``distribution`` is that of the continuous parts of an action; by default the one that ``settings`` name.

    Attributes:
        memory: The block ``memory``; None without memory.
        inputs: Makes inputs of the policy from observations; for all parts of the model without ``privileged``.
        privileged: Makes inputs from the observations that critics alone read, ``critic_observations``; None without.
        actor: The body of the policy.
        policy_head: The parameters of the distribution from the features of the body.
    """

    def __init__(
        self, behavior: BehaviorSpec, settings: NetworkSettings, distribution: ActionDistribution | None = None
    ) -> None:
        super().__init__()
        self.memory = settings.memory
        acting, privileged = divided_observations(behavior, settings)
        self.inputs = ObservationInputs(acting, settings.normalize, settings.normalize_clip)
        self.privileged: ObservationInputs | None = None
        if privileged:
            self.privileged = ObservationInputs(privileged, settings.normalize, settings.normalize_clip)
        self.actor = Body(self.inputs, settings, memory_place=0)
        layout = ActionLayout(behavior)
        if distribution is None and behavior.continuous:
            distribution = make_distribution(settings, behavior)
        self.policy_head = PolicyHead(self.actor.features, layout, settings.init, distribution)

    def policy(self, inputs: Inputs) -> tuple[Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts [B, columns] and the logits [B, logits].

        See :class:`PolicyHead`. A part that the behavior does not have is None.
        """
        if self.policy_head.reads_features:
            return self.policy_head(self.actor.last_features(inputs))  # type: ignore[no-any-return]
        return self.policy_head.split(self.actor.into(inputs, self.policy_head.linear))

    @property
    def learner_inputs(self) -> AnyInputs:
        """Makes inputs from all observations, for minibatches; those that the policy reads alone are ``inputs``."""
        return self.inputs if self.privileged is None else LearnerInputs(self.inputs, self.privileged)

    def of_actor(self, inputs: Inputs) -> Inputs:
        """Return what the policy reads of the ``inputs`` of a minibatch."""
        if self.privileged is None:
            return inputs
        split = LearnerInputs(self.inputs, self.privileged).split
        return inputs.map(lambda each: split(each)[0]) if isinstance(inputs, SequenceInputs) else split(inputs)[0]

    # ------------------------------------------------------------ with memory

    @property
    def memory_size(self) -> int:
        """M, the numbers that each row remembers from step to step; 0 without memory."""
        return 0 if self.memory is None else self.memory.memory_size

    @property
    def remembering(self) -> Sequence[Body]:
        """The bodies whose memory a trainer keeps while it acts, at their ``memory_place``; that of the policy first.

        By default, the bodies of ``critics`` that have a place follow.
        """
        critics = [each.body for each in getattr(self, "critics", ()) if isinstance(each, Critic)]
        return (self.actor, *(body for body in critics if body.memory_place is not None))

    def policy_step(self, inputs: Inputs, memory: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return the output of :meth:`policy` for one step of R rows, and their next memory [R, M].

        ``memory`` [R, M] is the memory before the step.
        """
        features, memory = self.actor.step(inputs, memory)
        return *self.policy_head(features), memory

    def policy_of(self, inputs: Inputs, sequences: Sequences) -> tuple[Tensor | None, Tensor | None]:
        """Return the output of :meth:`policy` for the B rows of ``sequences``, [B, columns] and [B, logits]."""
        features = self.actor.remember(inputs, sequences, sequences.actor_memory)
        return self.policy_head(features)  # type: ignore[no-any-return]


class ActorCritic(Actor):
    """A policy and one value head for each reward provider, on one body (``shared``) or on two.

    Attributes:
        critic: The body of the values; that of the policy if shared.
        value_head: The values from the features of the body.
    """

    def __init__(
        self,
        behavior: BehaviorSpec,
        settings: NetworkSettings,
        value_heads: int,
        shared: bool,
        initial_log_std: float = 0.0,
    ) -> None:
        distribution = make_distribution(settings, behavior, initial_log_std) if behavior.continuous else None
        super().__init__(behavior, settings, distribution)
        self.critic = self.actor if shared else Body(self.learner_inputs, settings.of_critic, memory_place=1)
        self.value_head = nn.Linear(self.critic.features, value_heads)
        initialize(self.value_head, settings.init, gain=1.0)

    @property
    def remembering(self) -> Sequence[Body]:
        return (self.actor,) if self.critic is self.actor else (self.actor, self.critic)

    def value(self, inputs: Inputs) -> Tensor:
        """Return the values by reward provider, [B, value_heads]."""
        return self.critic.into(inputs, self.value_head)

    def value_step(self, inputs: Inputs, memory: Tensor) -> Tensor:
        """Return the values [R, value_heads] of R rows with the critic's ``memory`` [R, M] before them."""
        features, _ = self.critic.step(inputs, memory)
        return self.value_head(features)  # type: ignore[no-any-return]

    def policy_and_value(
        self, inputs: Inputs, sequences: Sequences | None = None
    ) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return the output of :meth:`policy` and the values [B, value_heads], running a shared body once.

        ``inputs`` are those of a minibatch. With memory, B are the rows of ``sequences``.
        """
        if self.critic is not self.actor:
            if sequences is None:
                return *self.policy(self.of_actor(inputs)), self.value(inputs)
            features = self.critic.remember(inputs, sequences, sequences.critic_memory)
            return *self.policy_of(self.of_actor(inputs), sequences), self.value_head(features)
        if sequences is None:
            features = self.actor(inputs)
        else:
            features = self.actor.remember(inputs, sequences, sequences.actor_memory)
        return *self.policy_head(features), self.value_head(features)


class Critic(nn.Module):
    """A value network of its own: inputs, and an action's continuous parts if ``continuous``, to [B, outputs].

    Of ``settings``, those of a critic are used. With memory, its stored memory is at ``memory_place``, or sequences
    begin with zeros.

    Attributes:
        body: The body.
        head: The outputs from the features of the body.
    """

    def __init__(
        self,
        inputs: AnyInputs,
        settings: NetworkSettings,
        outputs: int,
        continuous: int = 0,
        memory_place: int | None = None,
    ) -> None:
        super().__init__()
        self.body = Body(inputs, settings.of_critic, continuous, memory_place)
        self.head = nn.Linear(self.body.features, outputs)
        initialize(self.head, settings.init, gain=1.0)

    def forward(
        self, inputs: Inputs, continuous: Tensor | None = None, frozen: bool = False, encoded: Tensor | None = None
    ) -> Tensor:
        """Return [B, outputs].

        With ``frozen``, ``continuous`` [B, continuous] gets a gradient and the weights get none. ``encoded`` is what
        :meth:`Body.encode_once` returned for the ``inputs``.
        """
        return self.body.into(inputs, self.head, continuous, frozen, encoded)


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


def min_q(one: Tensor, two: Tensor) -> Tensor:
    """Return, in each row of two critics' values [B, R, ...], those of the critic with the smaller sum over R rewards.

    This is clipped double Q-learning (Fujimoto et al. 2018, arXiv:1802.09477).

    Each reward has its own value, and what an action is worth is their sum. The minimum of each value by itself would
    combine two critics, neither of which expects this sum.
    """
    return torch.where(one.sum(1, keepdim=True) <= two.sum(1, keepdim=True), one, two)


def initialize(layer: nn.Linear, init: str, gain: float) -> None:
    """Set biases to zero and weights to ``init`` times ``gain``; ``uniform`` keeps PyTorch's own initial values."""
    if init == "uniform":
        return
    if init == "orthogonal":
        nn.init.orthogonal_(layer.weight, gain)
    else:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
        with torch.no_grad():
            layer.weight *= gain
    nn.init.zeros_(layer.bias)


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """The tensor's values as a numpy array, sharing memory on a CPU."""
    return np.asarray(tensor.detach().cpu().numpy())
