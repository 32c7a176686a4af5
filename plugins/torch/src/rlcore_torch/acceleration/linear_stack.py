"""A stack of linear layers with a gradient written by hand, for losses that a CPU computes without autograd.

On a few hundred rows, recording and walking a graph takes several times as long as the arithmetic of a small network.
The same layers give a rollout its values, a piece of the rows after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from rlcore_torch.arrays import FloatArray

# Numbers in one layer's activations of the rows that are computed at once, 512 KiB: those that a network keeps for its
# gradient stay in the cache of a core.
LARGEST_LAYER = 2**17
LARGEST_INPUTS = 2**22  # numbers in their inputs, 16 MiB, which are not kept: many are read from memory in any case
MOST_PREPARED = 8  # numbers of rows whose calls are kept
LEAST_HALVED = 2**20  # multiplications of a product, which one thread computes in tens of microseconds

# On a CPU, PyTorch's tanh and its products with a matrix of a few columns take several times as long as necessary. The
# small networks of reinforcement learning consist of them.

Call = Callable[[], object]


@attrs.frozen
class _Activation:
    call: Callable[[Tensor, Tensor], Call]  # of (x, out): a call writes f(x) into out, which is x unless `of_input`
    backward: Callable[[Tensor, Tensor, Tensor], Any]  # (gradient, x or f(x), out) writes gradient * f'(x) into out
    of_input: bool  # whether `backward` takes x; otherwise it takes f(x)

    def derivative(self, gradient: Tensor, kept: Tensor) -> Call:
        """Return a call that writes ``gradient`` times the derivative over ``kept``, which is x or f(x)."""
        return partial(self.backward, gradient, kept, kept)


_aten = torch.ops.aten
FUNCTIONS = {
    "swish": _Activation(
        lambda x, out: partial(_aten.silu.out, x, out=out),
        lambda grad, x, out: _aten.silu_backward.grad_input(grad, x, grad_input=out),
        of_input=True,
    ),
    "tanh": _Activation(
        lambda x, out: partial(np.tanh, x.numpy(), out=out.numpy()),
        lambda grad, y, out: _aten.tanh_backward.grad_input(grad, y, grad_input=out),
        of_input=False,
    ),
    "relu": _Activation(
        lambda x, out: partial(torch.relu_, x),
        lambda grad, y, out: _aten.threshold_backward.grad_input(grad, y, 0, grad_input=out),
        of_input=False,
    ),
}


class LinearStack:
    """Linear layers, each but the last followed by an activation, and the gradients of a sum of losses.

    Inputs are [B, inputs + 1], and their last column is of ones: the first layer then adds its bias within its product,
    and the gradient of the bias is a part of that of the weight. With few inputs, either takes as long as the product.

    Outputs are [outputs, B]: products with a matrix of a few columns take several times as long as with one of a few
    rows. Every array is allocated once, because the pages of a new one take longer than what is computed in it, and the
    calls for a number of rows are prepared once, because making views takes as long as a small product.

    Attributes:
        gradients: By weight and bias, in their shapes, what :meth:`backward` added up since :meth:`begin`.
    """

    def __init__(self, layers: Sequence[nn.Linear], activation: str, inputs: Tensor, memory: Tensor) -> None:
        """``inputs`` [rows, inputs + 1] are read by :meth:`forward`. ``memory`` has :meth:`numbers` for each row.

        Several stacks may have the same inputs. They may have the same memory too, if each is done with a piece of the
        rows before the next begins.
        """
        self._layers = layers
        self._function = FUNCTIONS[activation]
        self._inputs = inputs
        self._memory = memory
        self.gradients: dict[Tensor, Tensor] = {}
        self._products = []
        self._biases = []
        self._added = torch.empty(sum(layer.weight.numel() + layer.bias.numel() for layer in layers))
        start = 0
        for k, layer in enumerate(layers):
            outputs, columns = layer.weight.shape
            has_bias = k == 0 and len(layers) > 1  # the product with the column of ones is the bias's gradient
            width = columns + has_bias
            end = start + outputs * width
            product = self._added[start:end].view(sorted((outputs, width)))  # the narrower side comes first
            gradient = product if outputs <= width else product.t()  # [outputs, width]
            if has_bias:
                bias = gradient[:, columns]
                start = end
            else:
                start = end + outputs
                bias = self._added[end:start]
            self.gradients[layer.weight] = gradient[:, :columns]
            self.gradients[layer.bias] = bias
            self._products.append(product)
            self._biases.append(bias)
        rows = len(inputs)
        first = layers[0]
        last = layers[-1]
        self._entry = torch.empty(first.in_features + 1, first.out_features)  # weight and bias of the first layer
        self._output = torch.empty(last.out_features, rows)
        self._of_output = torch.empty(last.out_features, rows)
        self._ones = torch.ones(1, rows)
        self._places: list[int] = []  # of the parameters in memory
        self._prepared: dict[int, _Calls] = {}  # by the number of rows

    @staticmethod
    def numbers(layers: Sequence[nn.Linear], activation: str) -> int:
        """Return how many numbers of a row a stack keeps."""
        widths = [layer.out_features for layer in layers[:-1]]
        kept = sum(widths)
        if FUNCTIONS[activation].of_input:  # before the activation and after it
            kept *= 2
        return kept + max(widths, default=0)

    def begin(self) -> None:
        """Begin another sum, with the weights as they are now."""
        self._added.zero_()
        self.read_weights()

    def read_weights(self) -> None:
        """Use the weights as they are now."""
        places = [parameter.data_ptr() for parameter in self.gradients]
        if places != self._places:
            self._places = places
            self._prepared.clear()
            first = self._layers[0]
            self._first = [first.weight.detach().t(), first.bias.detach()]
        weight = self._entry[:-1]
        bias = self._entry[-1]
        torch._foreach_copy_([weight, bias], self._first)

    def forward(self, rows: int) -> Tensor:
        """Return the outputs [outputs, B] of the first B ``rows`` of the inputs; they stay until the next call."""
        if rows not in self._prepared:
            if len(self._prepared) == MOST_PREPARED:
                self._prepared.clear()
            self._prepared[rows] = self._prepare(rows)
        calls = self._prepared[rows]
        self._now = calls
        for call in calls.forward:
            call()
        return calls.output

    def backward(self, given: Tensor) -> None:
        """Add the gradients of a loss whose gradient with respect to the latest outputs is ``given`` [outputs, B].

        It writes over what was kept of these rows.
        """
        self._now.of_output.copy_(given)
        for call in self._now.backward:
            call()

    def backward_to_inputs(self, given: Tensor) -> Tensor:
        """Return the gradient [B, inputs] of a loss with respect to the inputs; ``given`` is as in :meth:`backward`.

        The parameters get none. It writes over what was kept of these rows. The gradient stays until the next call.
        """
        calls = self._now
        calls.of_output.copy_(given)
        for call in calls.backward_to_inputs:
            call()
        return calls.of_inputs

    def leave(self) -> None:
        """Let the parameters have the gradients, in their own layout in memory."""
        for parameter, gradient in self.gradients.items():
            parameter.grad = gradient.contiguous()

    def _prepare(self, rows: int) -> _Calls:
        """Make the calls for B ``rows``, and arrays [B, width] of the memory."""
        end = 0
        most_rows = len(self._inputs)

        def array(width: int) -> Tensor:
            nonlocal end
            start = end
            end = start + most_rows * width
            return self._memory[start:end].view(most_rows, width)[:rows]

        hidden = self._layers[:-1]
        widths = [layer.out_features for layer in hidden]
        kept = [array(width) for width in widths]  # before each activation, later its gradient
        after = kept
        if self._function.of_input:
            after = [array(width) for width in widths]
        shared = array(max(widths, default=0)).view(-1)  # the gradient after the activation of one layer at a time
        of_hidden = [shared[: rows * width].view(rows, width) for width in widths]
        inputs = [self._inputs[:rows], *after]
        ones = self._ones[:, :rows]
        output = self._output[:, :rows]
        of_output = self._of_output[:, :rows]
        of_inputs = torch.empty(rows, self._layers[0].in_features)  # takes no memory until it is written
        forward: list[Call] = []
        backward: list[Call] = []
        backward_to_inputs: list[Call] = []
        for k, layer in enumerate(self._layers):
            weight = layer.weight.detach()
            bias = layer.bias.detach()
            of_layer: list[Call] = []
            to_inputs: list[Call] = []
            if k < len(hidden):
                if k == 0:
                    forward.append(_product(inputs[k], self._entry, kept[k]))
                else:
                    forward.append(_product(inputs[k], weight.t(), kept[k], bias))
                forward.append(self._function.call(kept[k], after[k]))
                derivative = self._function.derivative(of_hidden[k], kept[k])
                of_layer.append(derivative)
                to_inputs.append(derivative)
                gradient = kept[k]
                x = inputs[k]
            else:
                gradient = of_output.t()
                x = inputs[k] if hidden else inputs[k][:, :-1]
                forward.append(_product(weight, x.t(), output, bias.unsqueeze(1)))
            of_layer.append(_adds_product(self._products[k], gradient, x))
            if k > 0 or not hidden:
                of_layer.append(_adds_product(self._biases[k].unsqueeze(0), ones.t(), gradient))
            of_input = _product(gradient, weight, of_hidden[k - 1] if k > 0 else of_inputs)
            to_inputs.append(of_input)
            if k > 0:
                of_layer.append(of_input)
            backward = of_layer + backward
            backward_to_inputs = to_inputs + backward_to_inputs
        return _Calls(forward, backward, backward_to_inputs, output, of_output, of_inputs)


@attrs.frozen(eq=False)
class _Calls:
    """What a stack calls for B rows.

    Attributes:
        forward: From the inputs to ``output``.
        backward: From ``of_output`` to the gradients of all layers.
        backward_to_inputs: From ``of_output`` to ``of_inputs``.
        output: [outputs, B].
        of_output: [outputs, B] the gradient by ``output``.
        of_inputs: [B, inputs] the gradient by the inputs.
    """

    forward: Sequence[Call]
    backward: Sequence[Call]
    backward_to_inputs: Sequence[Call]
    output: Tensor
    of_output: Tensor
    of_inputs: Tensor


def _product(x: Tensor, y: Tensor, out: Tensor, plus: Tensor | None = None) -> Call:
    """Return a call that writes ``x @ y``, and ``plus`` added, into ``out``: the same bits with one thread and two.

    A library that divides one product between threads may round it differently; MKL does on CPUs without AVX-512. So a
    large product is a batch of two, each with half of the rows, and a thread computes one of them. A small one has one
    thread.
    """
    rows, inner = x.shape
    if rows % 2 or rows * inner * y.shape[1] < LEAST_HALVED:
        if plus is None:
            return partial(_in_one_thread, partial(torch.mm, x, y, out=out))
        return partial(_in_one_thread, partial(torch.addmm, plus, x, y, out=out))
    halves = torch.unflatten(x, 0, (2, -1))
    of_halves = torch.unflatten(out, 0, (2, -1))
    both = y.expand(2, *y.shape)
    if plus is None:
        return partial(torch.bmm, halves, both, out=of_halves)
    added = torch.unflatten(plus.expand(out.shape), 0, (2, -1))
    return partial(torch.baddbmm, added, halves, both, out=of_halves)


def _adds_product(product: Tensor, gradient: Tensor, x: Tensor) -> Call:
    """Return a call that adds to ``product`` the transposed product of ``gradient`` and x, with the narrower first."""
    narrow, wide = gradient, x
    if gradient.shape[1] > x.shape[1]:
        narrow, wide = x, gradient
    return _product(narrow.t(), wide, product, product)


def _in_one_thread(product: Call) -> None:
    threads = torch.get_num_threads()
    if threads == 1:
        product()
        return
    torch.set_num_threads(1)
    try:
        product()
    finally:
        torch.set_num_threads(threads)


class StackOutputs:
    """The outputs of linear layers for any number of rows, without a gradient, a piece of the rows after the other."""

    def __init__(self, layers: Sequence[nn.Linear], activation: str) -> None:
        self._layers = layers
        self._activation = activation
        self._stack: LinearStack | None = None

    @torch.no_grad()
    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the outputs [B, outputs] of x [B, inputs], with the weights as they are now."""
        layers = self._layers
        if self._stack is None:  # memory is for those that are used
            rows = rows_at_once(layers)
            inputs = torch.ones(rows, layers[0].in_features + 1)
            memory = torch.empty(rows * LinearStack.numbers(layers, self._activation))
            self._stack = LinearStack(layers, self._activation, inputs, memory)
            self._columns = inputs.numpy()
        self._stack.read_weights()
        size = len(self._columns)
        outputs: FloatArray = np.empty((len(x), layers[-1].out_features), np.float32)
        for start in range(0, len(x), size):
            piece = x[start : start + size]
            count = len(piece)
            self._columns[:count, :-1] = piece
            output = self._stack.forward(count).numpy()
            outputs[start : start + count] = output.T
        return outputs

    def value(self, inputs: Sequence[Tensor], stored: object) -> Tensor:
        """Return the outputs of ``inputs``, as :meth:`rlcore_torch.OnPolicyTrainer.value` does."""
        return torch.from_numpy(self(inputs[0].numpy()))


def rows_at_once(layers: Iterable[nn.Linear]) -> int:
    """The rows whose values in the widest of ``layers`` are at most :data:`LARGEST_LAYER` numbers.

    Their inputs are at most :data:`LARGEST_INPUTS` numbers.
    """
    inputs = 1
    outputs = 1
    for layer in layers:
        inputs = max(inputs, layer.in_features + 1)
        outputs = max(outputs, layer.out_features)
    rows = min(LARGEST_LAYER // outputs, LARGEST_INPUTS // inputs)
    return max(1, rows)
