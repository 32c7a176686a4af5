"""Products of matrices on a CPU, by either library, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from rlcore.torch import products
from rlcore.torch.products import LARGE, NARROW, affine, product, transposed_product

# B, in, out: narrow on either side, on both sides of LARGE, and no power of two among the large ones.
SHAPES = [
    (9, 12, 1),
    (9, 12, NARROW - 1),
    (9, 12, NARROW),
    (1, 256, 256),
    (256, 4, 256),
    (256, 256, 1),
    (64, 128, 127),
    (64, 128, 128),
    (300, 23, 257),
    (1000, 63, 65),
    (1, 1024, 1024),
    (4096, 256, 3),
]


@pytest.fixture(params=["as_chosen", "mkl_alone"])
def libraries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "mkl_alone":
        monkeypatch.setattr(products, "_linear", None)


def expect(found: Tensor, expected: np.ndarray) -> None:
    assert found.shape == expected.shape and found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("rows", "inward", "outward"), SHAPES)
def test_products_of_any_shape(rows: int, inward: int, outward: int) -> None:
    torch.manual_seed(0)
    # Views into something larger, as the parameters of a model are.
    memory = torch.randn(outward * inward + 2 * outward + 1)
    weight, bias = memory[1 : 1 + outward * inward].view(outward, inward), memory[-outward:]
    x, slope = torch.randn(rows, inward), torch.randn(rows, outward)
    wide_x, wide_weight, wide_slope = (each.double().numpy() for each in (x, weight, slope))
    expect(affine(x, weight, bias), wide_x @ wide_weight.T + bias.double().numpy())
    expect(product(slope, weight), wide_slope @ wide_weight)
    expect(transposed_product(slope, x), wide_slope.T @ wide_x)
    out = torch.full((outward, inward), 7.0)
    assert transposed_product(slope, x, out) is out
    expect(out, wide_slope.T @ wide_x)


def test_repeated_products_are_the_same_bit_by_bit() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(256, 256), torch.randn(256, 256), torch.randn(256)
    assert x.numel() * len(weight) >= LARGE
    first = affine(x, weight, bias)
    assert all(affine(x.clone(), weight.clone(), bias).equal(first) for _ in range(20))


def test_without_onednn_everything_is_left_to_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert products._one_dnn() is None


def test_without_wide_vector_instructions_everything_is_left_to_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert products._one_dnn() is None
