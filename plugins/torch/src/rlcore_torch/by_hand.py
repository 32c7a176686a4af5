"""A stack of linear layers with a gradient written by hand, for losses that a CPU computes without autograd.

On a few hundred rows, recording and walking a graph takes several times as long as the arithmetic of a small network.
:mod:`rlcore_torch.cpu` has the other code that is written for a CPU, and says how it is switched off.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlcore_torch.cpu import FUNCTIONS, is_plain_body, sums_in_one_thread
from rlcore_torch.networks.networks import ActorCritic, PolicyHead

# Numbers in one layer's activations of the rows that are computed at once, 512 KiB: those that a network keeps for its
# gradient stay in the cache of a core.
LARGEST_LAYER = 2**17


class LinearStack:
    """Linear layers, each but the last followed by an activation, and the gradients of a sum of losses.

    Outputs are [outputs, B]: products with a matrix of a few columns take several times as long as with one of a few
    rows. Every array is allocated once, because the pages of a new one take longer than what is computed in it.

    Attributes:
        gradients: By weight and bias, in their shapes, what :meth:`backward` added up since :meth:`begin`.
    """

    def __init__(self, layers: Sequence[nn.Linear], activation: str, rows: int, memory: Tensor) -> None:
        """``rows`` is the largest B. ``memory`` has :meth:`numbers` numbers for each of them.

        Several stacks may have the same memory, if each is done with a piece of the rows before the next begins.
        """
        self._layers = layers
        self._function = FUNCTIONS[activation]
        self._memory, self._rows = memory, rows
        self.gradients: dict[Tensor, Tensor] = {}
        self._products, self._biases = [], []
        for layer in layers:
            outputs, inputs = layer.weight.shape
            product = torch.empty(sorted((outputs, inputs)))  # the narrower side comes first
            self.gradients[layer.weight] = product if outputs <= inputs else product.t()
            self.gradients[layer.bias] = bias = torch.empty(outputs)
            self._products.append(product)
            self._biases.append(bias)
        self._output = torch.empty(layers[-1].out_features, rows)
        self._divide(rows)

    @staticmethod
    def numbers(layers: Sequence[nn.Linear], activation: str) -> int:
        """The numbers of a row that a stack keeps."""
        widths = [layer.out_features for layer in layers[:-1]]
        return (1 + FUNCTIONS[activation].of_input) * sum(widths) + max(widths, default=0)

    def _divide(self, rows: int) -> None:
        """Make arrays [rows, width] of the memory: before and after each activation, and for one gradient."""
        start, self._now = 0, rows

        def array(width: int) -> Tensor:
            nonlocal start
            start += self._rows * width
            return self._memory[start - self._rows * width : start].view(-1, width)[:rows]

        widths = [layer.out_features for layer in self._layers[:-1]]
        self._before = [array(width) for width in widths]
        self._after = [array(width) for width in widths] if self._function.of_input else self._before
        place = start
        self._given = []
        for width in widths:
            start = place
            self._given.append(array(width))
        self._outputs = self._output[:, :rows]

    def begin(self) -> None:
        """Begin another sum, with the weights as they are now."""
        self._first = True
        self._parameters = [(layer.weight, layer.weight.t(), layer.bias) for layer in self._layers]
        self._last_bias = self._layers[-1].bias.unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs [outputs, B] of x [B, inputs]; they stay until the next call."""
        if len(x) != self._now:
            self._divide(len(x))
        self._inputs = [x]
        for (_, transposed, bias), before, after in zip(self._parameters, self._before, self._after, strict=False):
            torch.addmm(bias, x, transposed, out=before)
            x = self._function.into(before, after)
            self._inputs.append(x)
        return torch.addmm(self._last_bias, self._parameters[-1][0], x.t(), out=self._outputs)

    def backward(self, given: Tensor) -> None:
        """Add the gradients of a loss whose gradient with respect to the latest outputs is ``given`` [outputs, B].

        It writes over what was kept of these rows.
        """
        keep = 0 if self._first else 1
        self._first = False
        gradient = given.t()
        for k in range(len(self._layers) - 1, -1, -1):
            product, x, bias = self._products[k], self._inputs[k], self._biases[k]
            narrow, wide = (gradient, x) if gradient.shape[1] <= x.shape[1] else (x, gradient)
            with sums_in_one_thread(narrow.shape[1]):
                torch.addmm(product, narrow.t(), wide, beta=keep, out=product)
            if keep:
                bias += gradient.sum(0)
            else:
                torch.sum(gradient, 0, out=bias)
            if k > 0:
                of_activation = torch.mm(gradient, self._parameters[k][0], out=self._given[k - 1])
                gradient = self._before[k - 1]
                self._function.backward(of_activation, gradient, gradient)

    def backward_to_inputs(self, given: Tensor) -> Tensor:
        """Return the gradient [B, inputs] of a loss with respect to the latest x; ``given`` is as in :meth:`backward`.

        The parameters get none. It writes over what was kept of these rows.
        """
        gradient = given.t()
        for k in range(len(self._layers) - 1, 0, -1):
            of_activation = torch.mm(gradient, self._parameters[k][0], out=self._given[k - 1])
            gradient = self._before[k - 1]
            self._function.backward(of_activation, gradient, gradient)
        return gradient @ self._parameters[0][0]


def actor_critic_layers(model: ActorCritic) -> tuple[LinearStack, LinearStack, int] | None:
    """Return the layers of policy and critic, and the rows that they take at once.

    None for a model that is more than two stacks of linear layers between vector observations and their outputs.
    """
    methods = ("policy", "value", "policy_and_value")
    changed = any(getattr(type(model), name) is not getattr(ActorCritic, name) for name in methods)
    if changed or any(name in model.__dict__ for name in methods):
        return None
    if model.critic is model.actor or model.privileged is not None:
        return None
    head = model.policy_head
    if (
        type(head) is not PolicyHead
        or head.reads_features
        or not all(parameter.requires_grad for parameter in model.parameters())
    ):
        return None
    bodies = ((model.actor, head.linear), (model.critic, model.value_head))
    if not all(is_plain_body(body, head) for body, head in bodies):
        return None
    stacks = [([*body.layers, head], body.activation) for body, head in bodies]
    rows = max(1, LARGEST_LAYER // max(layer.out_features for layers, _ in stacks for layer in layers))
    memory = torch.empty(rows * max(LinearStack.numbers(*stack) for stack in stacks))
    policy, critic = (LinearStack(layers, activation, rows, memory) for layers, activation in stacks)
    return policy, critic, rows
