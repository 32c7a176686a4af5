"""The encoder of images beside PyTorch's own functions, for images of every size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, layer_norm, linear, relu

from rlcore import ObservationSpec
from rlcore_pqn.encoder import LayerNormCNN


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((1, 1, 3), []),
        ((2, 40, 3), []),
        ((3, 3, 4), [1]),
        ((10, 10, 4), [1]),  # MinAtar
        ((19, 64, 1), [1]),
        ((20, 20, 3), [4, 2]),
        ((36, 36, 3), [4, 2, 1]),
        ((84, 84, 4), [4, 2, 1]),  # Atari
    ],
)
def test_each_layer_is_normalized_over_all_of_its_numbers_before_a_relu(
    shape: tuple[int, int, int], strides: list[int]
) -> None:
    torch.manual_seed(0)
    encoder = LayerNormCNN(ObservationSpec("camera", shape, np.float32, "image"), 12)
    height, width, channels = shape
    x = torch.randn(5, channels, height, width)
    result = encoder(x)
    convolutions = [module for module in encoder.modules() if isinstance(module, nn.Conv2d)]
    for convolution, stride in zip(convolutions, strides, strict=True):
        x = conv2d(x, convolution.weight, convolution.bias, stride)
        x = relu(layer_norm(x, x.shape[1:]))
    (dense,) = (module for module in encoder.modules() if isinstance(module, nn.Linear))
    x = linear(x.flatten(1), dense.weight, dense.bias)
    x = relu(layer_norm(x, (12,)))
    assert result.shape == (5, 12)
    torch.testing.assert_close(result, x, rtol=1e-4, atol=1e-5)
