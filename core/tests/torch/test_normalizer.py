"""The running normalizer against numpy over everything it was given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.environment import ObservationSpec
from rlcore.torch.networks import ObservationInputs
from rlcore.torch.normalizer import RunningNormalizer
from rlcore.torch.saved_networks import load_model_state, model_state


@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6))
@settings(deadline=None)
def test_mean_and_deviation_are_those_of_all_batches_together(seed: int, sizes: list[int]) -> None:
    random = np.random.default_rng(seed)
    normalizer = RunningNormalizer(3)
    batches = [(random.standard_normal((size, 3)) * [1, 10, 0.1] + [0, 300, -5]).astype(np.float32) for size in sizes]
    for batch in batches:
        normalizer.update(torch.from_numpy(batch))
    everything = np.concatenate(batches).astype(np.float64)
    assert normalizer.count.item() == len(everything)
    np.testing.assert_allclose(normalizer.mean.numpy(), everything.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(normalizer.m2.numpy() / len(everything), everything.var(0), rtol=1e-6, atol=1e-9)
    if len(everything) > 1:
        shown = normalizer(torch.from_numpy(batches[0])).numpy()
        expected = (batches[0] - everything.mean(0)) / np.sqrt(everything.var(0) + 1e-8)
        np.testing.assert_allclose(shown, expected.clip(-5, 5), rtol=1e-3, atol=1e-3)


def test_values_are_clipped_at_five_deviations() -> None:
    normalizer = RunningNormalizer(1)
    normalizer.update(torch.tensor([[-1.0], [1.0]]))
    assert normalizer(torch.tensor([[100.0], [-100.0]])).tolist() == [[5.0], [-5.0]]


def test_values_pass_through_before_there_is_data() -> None:
    x = torch.tensor([[1.5, -3.0]])
    assert RunningNormalizer(2)(x).equal(x)


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


@pytest.mark.parametrize("kind", ["one_hot", "image"])
def test_nothing_is_normalized_without_vector_observations(kind: str) -> None:
    observation = (
        ObservationSpec("room", (2,), np.float32, "one_hot")
        if kind == "one_hot"
        else ObservationSpec("camera", (20, 20, 3), np.uint8, "image")
    )
    assert ObservationInputs((observation,), normalize=True).normalizer is None


def test_the_normalizer_takes_in_what_is_on_another_device_and_leaves_images_there() -> None:
    specs = (ObservationSpec("own", (2,), np.float32), ObservationSpec("seen", (8, 8, 1), np.uint8, "image"))
    inputs = ObservationInputs(specs, normalize=True).to("meta")
    raw = inputs.raw({"own": np.ones((3, 2), np.float32), "seen": np.ones((3, 8, 8, 1), np.uint8)})
    inputs.update_normalizer(raw)
    assert inputs.normalizer is not None and inputs.normalizer.mean.device.type == "meta"
    assert [x.device.type for x in raw] == ["cpu", "cpu"]


def test_a_saved_normalizer_goes_on_where_it_was() -> None:
    random = torch.Generator().manual_seed(0)
    first, second = torch.randn(50, 2, generator=random), torch.randn(30, 2, generator=random) + 3
    whole, half = RunningNormalizer(2), RunningNormalizer(2)
    whole.update(first)
    half.update(first)
    restored = RunningNormalizer(2)
    load_model_state(restored, model_state(half), "Agent")
    whole.update(second)
    restored.update(second)
    assert restored(second).equal(whole(second))
