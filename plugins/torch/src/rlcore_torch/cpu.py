"""Code written by hand for speed on a CPU. ``torch_settings.fast_cpu: false`` runs without any of it.

Each part replaces one piece of plain PyTorch that computes the same numbers, up to rounding:

- :func:`numpy_actor`: the actor in NumPy for a few rows, in place of ``Actor.policy``;
- :class:`PieceThreads`: a minibatch of images in pieces side by side, in place of threads within each operation;
- :class:`UpdateThreads`: one thread or two within the operations of a gradient step, whichever is faster.

:mod:`rlcore_torch.optimization.flat_adam` has Adam and gradient clipping over one flat tensor.
:mod:`rlcore_torch.by_hand` has networks for losses whose gradient is written by hand in place of autograd, as PPO's is.
``rlcore_torch.backend`` chooses. Parameters and checkpoints have the same names and shapes with and without.
``benchmarks/fast_cpu.py`` measures what each part is worth.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.distributions import ActionDistribution
from rlcore_torch.networks.heads import PolicyHead
from rlcore_torch.networks.inputs import ObservationInputs, to_numpy
from rlcore_torch.networks.layers import Dropout, is_plain_linear
from rlcore_torch.networks.models import Actor

log = logging.getLogger("rlcore.plugin.torch")

# ---------------------------------------------------------------- layers
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


@contextmanager
def sums_in_one_thread(columns: int) -> Iterator[None]:
    """Compute a product that has one row in one thread: several would split each sum, and round it differently."""
    threads = torch.get_num_threads()
    if columns > 1 or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# ---------------------------------------------------------------- acting
# On eight rows the arithmetic of a small network takes a quarter of the time that PyTorch needs to dispatch it.

FloatArray = NDArray[np.float32]
# Vector observations [R, size] to columns of the continuous parts [R, ...] and logits [R, logits].
NumpyActor = Callable[[FloatArray], tuple[FloatArray | None, FloatArray | None]]

MOST_ROWS = 128  # above this PyTorch's products are faster


def numpy_actor(model: Actor) -> NumpyActor | None:
    """:meth:`Actor.policy` in NumPy, normalization included.

    None for images, entities, encoders, goals and memory, for an actor that overrides any part, and for an activation
    that is not in :data:`NUMPY_FUNCTIONS`.

    The returned function reads the model's own weights, so updates in place need no other call. Call it again if the
    normalizer changes, or if parameters move to other memory.
    """
    if not _is_plain(model):
        return None
    arrays = numpy_layers(model)
    activate = NUMPY_FUNCTIONS[model.actor.activation]
    split: Any = model.policy_head.split
    return lambda x: split(numpy_network(x, arrays, activate))


def _is_plain(model: Actor) -> bool:
    return (
        type(model).policy is Actor.policy
        and "policy" not in model.__dict__
        and type(model.inputs) is ObservationInputs
        and type(model.policy_head) is PolicyHead
        and not model.policy_head.reads_features
        and is_plain_body(model.actor, model.policy_head.linear)
    )


def is_plain_body(body: Body, head: nn.Module) -> bool:
    """Whether vector observations pass through linear layers alone in ``body`` and ``head``, and known activations."""
    return (
        type(body) is Body
        and body.plain
        and not body.images
        and body.recurrent is None
        and body.activation in FUNCTIONS
        and all(is_plain_linear(layer) for layer in (*body.layers, head))
    )


def numpy_layers(model: Actor) -> list[FloatArray]:
    """Shift, factor and limit of the normalization, if there is one; weight [in, out] and bias [out] of each layer."""
    arrays = normalization(model.inputs)
    for layer in (*model.actor.layers, model.policy_head.linear):
        arrays += [to_numpy(layer.weight).T, to_numpy(layer.bias)]
    return arrays


def normalization(inputs: ObservationInputs) -> list[FloatArray]:
    """Shift, factor and limit, each [vector_size]; nothing without normalization."""
    if (normalizer := inputs.normalizer) is None:
        return []
    normalized = to_numpy(inputs.normalized_columns)  # the other columns pass unchanged
    values: tuple[Any, ...] = to_numpy(normalizer.shift), to_numpy(normalizer.inverse_std), normalizer.clip
    return [
        np.where(normalized, value, unchanged).astype(np.float32)
        for value, unchanged in zip(values, (0, 1, np.inf), strict=True)
    ]


def numpy_normalized(x: FloatArray, arrays: Sequence[FloatArray]) -> FloatArray:
    """Return x [..., R, size] normalized by ``arrays``, which are those of :func:`normalization`."""
    if not arrays:
        return x
    shift, factor, limit = arrays
    scaled: FloatArray = np.clip((x - shift) * factor, -limit, limit)
    return scaled


def numpy_network(
    x: FloatArray, arrays: Sequence[FloatArray], activate: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return the output [..., R, columns + logits] for x [..., R, size]; ``arrays`` are as :func:`numpy_layers` says.

    Arrays of several networks may be stacked, [..., in, out] and [..., 1, out].
    """
    scaling = len(arrays) % 2 * 3  # arrays of the normalization
    x = numpy_normalized(x, arrays[:scaling])
    layers = arrays[scaling:]
    for index in range(0, len(layers), 2):
        if index:
            x = activate(x)
        x = np.matmul(x, layers[index])
        x += layers[index + 1]
    return x


@torch.no_grad()
def draws_agree(distribution: ActionDistribution, device: torch.device) -> bool:
    """Whether ``distribution`` draws in NumPy, and draws there what its module does, on a few rows."""
    draw = distribution.numpy_draw()
    if draw is None:
        return False
    generator = np.random.default_rng(0)
    rows = 4
    columns = generator.standard_normal((rows, distribution.width), np.float32)
    noise = generator.standard_normal((rows, distribution.noise_size), np.float32)
    at = torch.from_numpy(columns).to(device)
    drawn = distribution.sample(at, torch.from_numpy(noise).to(device))
    pairs = ((draw(columns, noise), drawn), (draw(columns, None), distribution.deterministic(at)))
    return all(np.allclose(ours, to_numpy(theirs), 1e-3, 1e-3) for ours, theirs in pairs)


NUMPY_FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "swish": lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),  # by tanh, which cannot overflow
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0.0, out=x),
}


# ---------------------------------------------------------------- threads
# Threads within an operation wait for each other at the end of each of its loops, and each time for as long as another
# process holds the processor of one of them. Threads that each take a piece of the rows meet once per minibatch.

Piece = TypeVar("Piece")
Made = TypeVar("Made")


class PieceThreads:
    """Threads that compute pieces of a minibatch side by side, each operation of a piece in one thread.

    Results do not depend on which thread is faster: they are joined in the order of the pieces.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="rlcore-pieces")

    def map(self, function: Callable[[Piece], Made], pieces: Iterable[Piece]) -> list[Made]:
        """Return ``function`` of every piece, computed without a graph."""

        def without_graph(piece: Piece) -> Made:
            with torch.no_grad():
                return function(piece)

        return list(self._pool.map(without_graph, pieces))

    def gradients(
        self, losses: Callable[[Piece], tuple[Tensor, Made]], pieces: Iterable[Piece], parameters: Sequence[Tensor]
    ) -> list[Made]:
        """Leave the gradient of the sum of all losses in ``parameters``; return what ``losses`` returned beside them.

        ``losses`` returns the loss of a piece [], and anything else.
        """

        def gradient(piece: Piece) -> tuple[Sequence[Tensor | None], Made]:
            loss, beside = losses(piece)
            return torch.autograd.grad(loss, parameters, allow_unused=True), beside

        found = list(self._pool.map(gradient, pieces))
        for parameter, *parts in zip(parameters, *(grads for grads, _ in found), strict=True):
            given = [part for part in parts if part is not None]
            for part in given[1:]:
                given[0] += part
            parameter.grad = given[0] if given else None
        return [beside for _, beside in found]


def piece_threads(model: Actor, threads: int) -> PieceThreads | None:
    """Return ``threads`` threads for pieces if ``model`` sees images; operations have one thread each from then on.

    None for a single thread, for networks of vectors, whose operations are too short, for those with memory, whose
    minibatches of sequences are not split, and for those with dropout, which counts its draws.
    """
    drops = any(isinstance(module, Dropout) for module in model.modules())
    if threads < 2 or not model.inputs.images or model.memory_size or drops:
        return None
    torch.set_num_threads(1)
    return PieceThreads(threads)


COMPARED = 4  # gradient steps that are computed with one thread and with two before two are used
TRIED = 6  # gradient steps with each number of threads in a trial
FASTER = 0.95  # of the time with one thread: from here on two are used
SLOW = 1.5  # times the time with one thread: a trial is lost at once
# gradient steps between trials
FIRST_PAUSE = 500
LONGEST_PAUSE = 8_000
SLOW_STEPS = 10  # that take long, one after the other, begin a trial early


class UpdateThreads:
    """One thread or two within the operations of a gradient step, whichever takes less time.

    Results do not depend on the choice: the first ``COMPARED`` gradient steps are computed with either number, and one
    thread is used for good if any bit differs. In trials, gradient steps of the training are timed with each number in
    turn. There is a trial from time to time, because another program may take the second core, or leave it.

    A trainer calls :meth:`compare` before a gradient step, and takes it within ``with threads:``. Where operations
    repeat after ``period`` gradient steps, as those of TD3, which moves its actor every second time, periods are
    counted and timed in the place of steps.

    Attributes:
        count: The threads of gradient steps between trials.
    """

    def __init__(self, behavior: str, period: int = 1) -> None:
        self.behavior = behavior
        self._period = period
        self.count = 1
        self._to_compare = max(COMPARED, period)
        # gradient steps
        self._pause = 0
        self._next_pause = FIRST_PAUSE
        self._trial: list[float] = []  # seconds of gradient steps, with one thread and with two in turn
        self._usual = 0.0  # seconds of a gradient step with `count` threads in the latest trial
        self._slow = 0  # steps that took long, one after the other
        self._steps: list[float] = []  # seconds of those of an unfinished period
        self._started = 0.0

    def compare(self, outcome: Callable[[int], Sequence[NDArray[Any]]]) -> None:
        """Compare ``outcome``, all that a gradient step with so many threads changes, if that is due."""
        if self._pause or self._trial or not self._to_compare:
            return
        seconds = []
        found = []
        for threads in (1, 2):
            started = perf_counter()
            found.append(outcome(threads))
            seconds.append(perf_counter() - started)
        if not all(np.array_equal(one, two, equal_nan=True) for one, two in zip(*found, strict=True)):
            log.info("behavior %r: gradient steps use one thread; two would round differently", self.behavior)
            self._pause = -1
        elif seconds[1] > SLOW * seconds[0]:
            self._choose(*seconds)
        else:
            self._to_compare -= 1

    def __enter__(self) -> None:
        trial = not (self._pause or self._to_compare)
        torch.set_num_threads(1 + len(self._trial) % 2 if trial else self.count)
        self._started = perf_counter()

    def __exit__(self, *error: object) -> None:
        seconds = perf_counter() - self._started
        torch.set_num_threads(1)
        self.took(seconds)

    def took(self, seconds: float) -> None:
        """Count a gradient step; at the end of a trial, choose."""
        self._steps.append(seconds)
        if len(self._steps) < self._period:
            return
        seconds = sum(self._steps) / self._period
        self._steps = []
        if self._pause > 0:
            self._pause -= 1
            self._slow = self._slow + 1 if self.count > 1 and seconds > SLOW * self._usual else 0
            if self._slow == SLOW_STEPS:
                self._pause = 0
                self._slow = 0
        elif not (self._pause or self._to_compare):
            self._trial.append(seconds)
            one = self._trial[::2]
            two = self._trial[1::2]
            if len(two) == TRIED or (len(one) == len(two) and two[-1] > SLOW * one[-1]):
                self._choose(median(one), median(two))

    def _choose(self, one: float, two: float) -> None:
        before = self.count
        first = not self._usual
        self.count = 2 if two < FASTER * one else 1
        self._usual = (one, two)[self.count - 1]
        self._trial = []
        if self.count != before:
            self._next_pause = FIRST_PAUSE
        self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, LONGEST_PAUSE)
        if first or self.count != before:
            log.info(
                "behavior %r: gradient steps use %s (%.1f ms with one, %.1f ms with two); results do not depend on it",
                self.behavior,
                ("one thread", "two threads")[self.count - 1],
                1e3 * one,
                1e3 * two,
            )


def update_threads(behavior: str, model: Actor, period: int) -> UpdateThreads | None:
    """Return what chooses the threads of gradient steps of ``model``, if it may have more than one.

    Their operations repeat after ``period`` steps. None for a process that may use one core only, and for networks with
    images, memory or dropout.
    """
    drops = any(isinstance(module, Dropout) for module in model.modules())
    if cores() < 2 or os.environ.get(LIMIT) == "1" or model.inputs.images or model.memory_size or drops:
        return None
    return UpdateThreads(behavior, period)


LIMIT = "OMP_THREAD_LIMIT"  # of OpenMP, whose threads PyTorch uses


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
