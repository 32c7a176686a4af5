"""The rows of a minibatch that pass through a network at once.

The activations of a large minibatch leave the cache between a layer and the next, and between forward and backward.
"""

from __future__ import annotations

from torch import nn

from rlcore_torch.networks.networks import Actor, Body

# Numbers in one layer's activations, 2 MiB. Measured on [32768, 8] inputs, two layers, us per row at 1/4, 1/1 and 4
# times as many: 64 units 1.37, 1.20, 1.64; 128 units 3.71, 3.77, 4.99; 256 units 10.8, 11.5, 12.6.
LARGEST_LAYER = 2**19


def rows_in_cache(model: Actor) -> int:
    """Rows for which the activations of the widest hidden layer of ``model`` have :data:`LARGEST_LAYER` numbers."""
    layers = [layer for module in model.modules() if isinstance(module, Body) for layer in module.layers]
    widest = max((layer.out_features for layer in layers if isinstance(layer, nn.Linear)), default=1)
    return max(1, LARGEST_LAYER // widest)
