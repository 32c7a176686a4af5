"""Networks: encoders of images, initial weights, shared bodies."""

# mypy: allow-untyped-calls
from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from rlcore import BehaviorSpec, ObservationSpec, UnsupportedSpace
from rlcore_torch import (
    ActionLayout,
    Actor,
    ActorCritic,
    Gaussian,
    MemorySettings,
    NetworkSettings,
    ObservationInputs,
    PolicyHead,
    RunningNormalizer,
)
from rlcore_torch.networks.encoders import BUILT_IN, ImageEncoder, ImpalaEncoder, ResidualBlock
from rlcore_torch.networks.image_sizes import MINIMUM_SIZE
from rlcore_torch.networks.recurrent import Recurrent

VECTOR = ObservationSpec("seen", (3,), np.float32)
SPACES = BehaviorSpec("Agent", (VECTOR,), 8, (4, 4), -np.ones(8, np.float32), np.ones(8, np.float32))


def camera(height: int, width: int, dtype: type = np.uint8) -> ObservationSpec:
    return ObservationSpec("camera", (height, width, 3), dtype, "image")


def network(*observations: ObservationSpec, shared: bool = False, **settings: object) -> ActorCritic:
    torch.manual_seed(0)
    one = np.ones(1, np.float32)
    spec = BehaviorSpec("Agent", observations, continuous=1, discrete=(2, 3), low=-one, high=one)
    return ActorCritic(spec, NetworkSettings(hidden_units=16, **settings), value_heads=2, shared=shared)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "smallest"), MINIMUM_SIZE.items())
def test_an_encoder_takes_its_smallest_image_and_any_shape_above(kind: str, smallest: int) -> None:
    for height, width in ((smallest, smallest), (smallest + 3, smallest + 17)):
        encoder = BUILT_IN[kind](None, camera(height, width), 24)
        features = 256 if kind == "impala" else 24  # a setting of its own
        assert encoder(torch.rand(5, 3, height, width)).shape == (5, features)


@pytest.mark.parametrize(("kind", "smallest"), [(kind, size) for kind, size in MINIMUM_SIZE.items() if size > 1])
def test_an_image_too_small_for_its_encoder_is_refused(kind: str, smallest: int) -> None:
    with pytest.raises(UnsupportedSpace, match=rf"'camera' .*{kind}.*{smallest}x{smallest}.* to (.*)$") as refused:
        BUILT_IN[kind](None, camera(64, smallest - 1), 16)
    advice = str(refused.value).rpartition(" to ")[2]
    assert advice.endswith("(environments of Gymnasium: environment.observations: {camera: {flatten: true}})")
    for advised in advice.partition(", or make a vector of it ")[0].split(" or "):
        BUILT_IN[advised](None, camera(64, smallest - 1), 16)


def made_of(encoder: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: weights.shape for name, weights in encoder.state_dict().items()}


@pytest.mark.parametrize(
    ("pixels", "kind"), [(84, "simple"), (20, "simple"), (19, "fully_connected"), (1, "fully_connected")]
)
def test_by_default_the_size_of_an_image_chooses_its_encoder(pixels: int, kind: str) -> None:
    image = camera(64, pixels)
    by_default = network(image).actor.encoders[0]
    named = network(image, vis_encode_type=kind).actor.encoders[0]
    assert made_of(by_default) == made_of(named)
    assert all(torch.equal(one, other) for one, other in zip(by_default.parameters(), named.parameters(), strict=True))


def test_each_image_has_the_encoder_of_its_own_size() -> None:
    """A camera beside a small map: one encoder for both would be too large for the map, or too small for the camera."""
    small = ObservationSpec("map", (7, 7, 3), np.uint8, "image")
    encoders = network(camera(84, 84), small).actor.encoders
    for encoder, kind, image in zip(encoders, ("simple", "fully_connected"), (camera(84, 84), small), strict=True):
        assert made_of(encoder) == made_of(BUILT_IN[kind](None, image, 16))


def test_the_deep_networks_of_atari_have_the_sizes_of_their_papers() -> None:
    """Numbers of weights: kernels times channels in and out, and biases."""

    def weights(kind: str, channels: int) -> int:
        made = BUILT_IN[kind](None, ObservationSpec("frame", (84, 84, channels), np.uint8, "image"), 512)
        return sum(parameter.numel() for parameter in made.parameters())

    nature = (8 * 8 * 4 * 32 + 32) + (4 * 4 * 32 * 64 + 64) + (3 * 3 * 64 * 64 + 64) + (7 * 7 * 64 * 512 + 512)
    assert weights("nature_cnn", 4) == nature == 1_684_128

    def stage(into: int, out: int) -> int:
        return 9 * into * out + out + 4 * (9 * out * out + out)

    assert weights("impala", 3) == stage(3, 16) + stage(16, 32) + stage(32, 32) + 11 * 11 * 32 * 256 + 256


def test_pixels_are_bytes_until_the_network_divides_them() -> None:
    observation = camera(8, 8)
    model = network(observation, vis_encode_type="impala")
    pixels = np.random.default_rng(0).integers(0, 256, (3, *observation.shape)).astype(np.uint8)
    (raw,) = model.inputs.raw({"camera": pixels})
    (image,) = model.inputs((raw,))
    assert image.dtype == torch.uint8 and np.shares_memory(image.numpy(), pixels)
    (encoder,) = model.actor.encoders
    assert isinstance(encoder, ImpalaEncoder)
    expected = encoder(torch.from_numpy(pixels / np.float32(255.0)).permute(0, 3, 1, 2))
    torch.testing.assert_close(model.actor.encode((image,)), expected)


def test_a_residual_block_adds_its_input() -> None:
    block = ResidualBlock(4)
    x = torch.randn(2, 4, 5, 6)
    block.layers = nn.Sequential()
    assert block(x).equal(2 * x)


def test_images_are_height_width_channels() -> None:
    """A network sees what a network over channels first sees after moving the axis by hand."""
    body = network(camera(20, 24, np.float32)).actor
    (encoder,) = body.encoders
    assert isinstance(encoder, ImageEncoder)
    image = torch.randn(2, 20, 24, 3)
    first = encoder.convolutions(torch.stack([image[..., channel] for channel in range(3)], dim=1))
    torch.testing.assert_close(body.encode((image,)), encoder.dense(first))


def test_only_a_shared_critic_moves_the_body_of_the_policy() -> None:
    for shared in (False, True):
        model = network(VECTOR, shared=shared)
        model.value((torch.randn(4, 3),)).sum().backward()
        moved = [parameter.grad is not None for parameter in model.actor.parameters()]
        assert all(moved) if shared else not any(moved)
    sizes = [sum(p.numel() for p in network(VECTOR, shared=shared).parameters()) for shared in (False, True)]
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("init", ["orthogonal", "kaiming"])
def test_initial_weights_have_the_gains_of_their_scheme(init: str) -> None:
    model = network(ObservationSpec("seen", (512,), np.float32), init=init)
    head = model.policy_head
    assert isinstance(head.distribution, Gaussian)
    assert not head.distribution.log_std.detach().any(), "the deviation starts at one"
    layers = [layer for layer in model.actor.layers if isinstance(layer, nn.Linear)]
    assert all(not linear.bias.detach().any() for linear in (*layers, head.linear, model.value_head))
    if init == "orthogonal":
        gains = ((layers[0], 2**0.5), (head.linear, 0.01), (model.value_head, 1.0))
        for linear, gain in gains:
            weight = linear.weight.detach()
            torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), rtol=1e-4, atol=1e-4)
    else:
        # Kaiming normal for a linear layer: variance 1 / inputs.
        assert layers[0].weight.std().item() == pytest.approx(512**-0.5, rel=0.05)
        wide = PolicyHead(256, ActionLayout(SPACES), init, Gaussian(SPACES)).linear.weight
        assert wide[:8].std().item() == pytest.approx(0.2 / 16, rel=0.1), "means"
        assert wide[8:].std().item() == pytest.approx(0.1 / 16, rel=0.1), "logits"


def test_a_recurrent_layer_begins_with_open_forget_gates_and_a_scheme_for_each_gate() -> None:
    lstm = Recurrent(6, MemorySettings(memory_size=8), "orthogonal").lstm
    assert lstm.bias_ih_l0.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8 and not lstm.bias_hh_l0.any()
    for gate in (*lstm.weight_ih_l0.chunk(4), *lstm.weight_hh_l0.chunk(4)):
        torch.testing.assert_close(gate @ gate.T, torch.eye(4))


# ---------------------------------------------------------------- normalization


@pytest.mark.parametrize("limit", [0.5, 5.0, 10.0])
def test_the_limit_of_normalized_values_is_a_setting(limit: float) -> None:
    spec = BehaviorSpec("Agent", (ObservationSpec("own", (1,), np.float32),), discrete=(2,))
    model = Actor(spec, NetworkSettings(normalize=True, normalize_clip=limit, hidden_units=2))
    model.inputs.update_normalizer((torch.tensor([[-1.0], [1.0]]),))
    (shown,) = model.inputs((torch.tensor([[100.0], [-100.0], [0.25]]),))
    assert shown.flatten().tolist() == pytest.approx([limit, -limit, 0.25])


def test_a_column_that_has_not_varied_is_shifted_and_an_empty_batch_changes_nothing() -> None:
    normalizer = RunningNormalizer(2)
    normalizer.update(torch.empty(0, 2))
    normalizer.update(torch.tensor([[1000.0, -1.0]]))
    assert normalizer(torch.tensor([[1002.0, -1.5]])).tolist() == [[2.0, -0.5]]
    normalizer.update(torch.tensor([[1000.0, 1.0]]))
    normalizer.update(torch.empty(0, 2))
    assert normalizer(torch.tensor([[1002.0, 1.0]])).tolist() == [[2.0, 1.0]]
    assert normalizer.count == 2


def test_indicators_pass_through_beside_normalized_columns() -> None:
    inputs = ObservationInputs(
        (ObservationSpec("room", (2,), np.float32, "one_hot"), ObservationSpec("speed", (1,), np.float32)), True
    )
    seen = {
        "room": np.array([[1, 0], [0, 1], [0, 1]], np.float32),
        "speed": np.array([[10.0], [12.0], [14.0]], np.float32),
    }
    raw = inputs.raw(seen)
    inputs.update_normalizer(raw)
    (shown,) = inputs(raw)
    np.testing.assert_array_equal(shown[:, :2].numpy(), seen["room"])
    np.testing.assert_allclose(shown[:, 2].numpy(), [-(1.5**0.5), 0, 1.5**0.5], rtol=1e-5, atol=1e-6)


VECTORS = {name: ObservationSpec(name, (size,), np.float32) for name, size in (("a", 2), ("b", 3), ("c", 1))}
PICTURES = {name: ObservationSpec(name, (20, 20, 1), np.uint8, "image") for name in ("front", "back")}


@pytest.mark.parametrize(
    ("acting", "privileged"),
    [
        ("a", "b"),
        ("a b", "c"),
        ("a front", "back"),
        ("front", "a"),
        ("front", "back"),
        ("front a", "b back"),
        ("b", "front"),
    ],
    ids=str,
)
def test_a_critic_reads_what_the_policy_reads_and_more(acting: str, privileged: str) -> None:
    """The parts come in the order of one network that reads all of them; the policy gets its own back."""
    specs = VECTORS | PICTURES
    own, others = ([specs[name] for name in names.split()] for names in (acting, privileged))
    behavior = BehaviorSpec("Agent", (*others, *own), discrete=(2,))
    settings = NetworkSettings(hidden_units=4, num_layers=1, normalize=True, critic_observations=privileged.split())
    model = ActorCritic(behavior, settings, 1, False)
    drawn = np.random.default_rng(1)
    seen = {
        o.name: drawn.integers(0, 255, (5, *o.shape)).astype(o.dtype) if o.kind == "image"
        else drawn.standard_normal((5, *o.shape)).astype(o.dtype)
        for o in behavior.observations
    }  # fmt: skip
    raw = model.learner_inputs.raw(seen)
    model.learner_inputs.update_normalizer(raw)
    alone = ObservationInputs((*own, *others), normalize=True)
    alone.update_normalizer(alone.raw(seen))
    inputs = model.learner_inputs(raw)
    wanted = alone(alone.raw(seen))
    assert len(inputs) == len(wanted)
    assert all(torch.equal(one, other) for one, other in zip(inputs, wanted, strict=True))
    of_actor = model.of_actor(inputs)
    of_policy = model.inputs(model.inputs.raw(seen))
    assert len(of_actor) == len(of_policy)
    assert all(torch.equal(one, other) for one, other in zip(of_actor, of_policy, strict=True))
    assert model.policy_and_value(inputs)[2].shape == (5, 1)
