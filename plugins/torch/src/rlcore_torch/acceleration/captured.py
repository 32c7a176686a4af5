"""A gradient step that is recorded once as a CUDA graph and replayed: one launch in the place of hundreds.

A GPU runs the small kernels of a small network faster than Python can start them. ``torch_settings.cuda_graphs`` turns
recording on. A step that is recorded must be a function of tensors: nothing in it may depend on their values or wait
for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs
import torch
from torch import Tensor

from rlcore import ConfigError
from rlcore_torch.optimization.optimizer import Optimizer

WARM_UP = 3  # calls before a recording, as PyTorch recommends: libraries choose kernels and allocate in them
MOST = 8  # recordings of one step; each keeps the memory of its tensors

Result = TypeVar("Result")
Replay = Callable[[], None]
Record = Callable[[Callable[[], Sequence[Tensor]]], tuple[Replay, Sequence[Tensor]]]


class CapturedStep(Generic[Result]):
    """A function of tensors that is recorded after a few calls, and replayed from then on.

    Arguments and result are tensors, or tuples, mappings and attrs classes of tensors, numbers, text, functions and
    None. There is one recording for each combination of shapes and other values. The first calls of each are ordinary
    ones, so that every call takes exactly one step. A call with anything else among its arguments, or with more
    combinations than are kept, is an ordinary one too.

    Everything else that the function reads or writes must stay where it is in memory: call :meth:`forget` when
    parameters or states of optimizers were replaced.
    """

    def __init__(self, function: Callable[..., Result], device: torch.device, record: Record | None = None) -> None:
        """``record`` records a function and returns what replays it, and the tensors that a replay fills."""
        self._function = function
        self._device = device
        self._record = record or _graph
        self._recordings: dict[Hashable, _Recording] = {}

    def __call__(self, *arguments: Any) -> Result:
        """Call the function, or replay it. Tensors of the result are the caller's."""
        tensors: list[Tensor] = []
        key = _flat(arguments, tensors)
        if key is None:
            return self._function(*arguments)
        recording = self._recordings.get(key)
        if recording is None:
            if len(self._recordings) >= MOST:
                return self._function(*arguments)
            recording = _Recording()
            self._recordings[key] = recording
        if recording.calls < WARM_UP:
            recording.calls += 1
            return self._aside(arguments)
        if recording.replay is None:
            self._fill(recording, arguments, tensors)
        assert recording.replay is not None
        # A graph reads the addresses that it was recorded with.
        for recorded, tensor in zip(recording.arguments, tensors, strict=True):
            recorded.copy_(tensor)
        recording.replay()
        copies = [tensor.detach().clone() for tensor in recording.filled]  # the next replay writes over them
        result: Result = _with_tensors(recording.result, iter(copies))
        return result

    def forget(self) -> None:
        """Record again, because memory that recordings use was replaced."""
        self._recordings.clear()

    def _aside(self, arguments: tuple[Any, ...]) -> Result:
        """Call the function as it will be recorded: not in the stream of everything else."""
        if self._device.type != "cuda":
            return self._function(*arguments)
        current = torch.cuda.current_stream(self._device)
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(current)
        with torch.cuda.stream(side):
            result = self._function(*arguments)
        current.wait_stream(side)
        return result

    def _fill(self, recording: _Recording, arguments: tuple[Any, ...], tensors: Sequence[Tensor]) -> None:
        """Record the function with copies of ``tensors``, those of its ``arguments``."""
        recording.arguments = [tensor.detach().clone() for tensor in tensors]
        copied = _with_tensors(arguments, iter(recording.arguments))

        def step() -> Sequence[Tensor]:
            filled: list[Tensor] = []
            recording.result = self._function(*copied)
            _flat(recording.result, filled)
            return filled

        try:
            recording.replay, recording.filled = self._record(step)
        except RuntimeError as error:
            cause = str(error).splitlines()[0]
            raise ConfigError(
                f"the gradient step cannot be recorded: {cause}; a step that reads values of tensors, such as one with "
                "item(), needs cuda_graphs: false",
                key=("torch_settings", "cuda_graphs"),
            ) from error


@attrs.define(eq=False)
class _Recording:
    """One recording: the tensors that it reads and fills, and the result that they are parts of."""

    calls: int = 0
    replay: Replay | None = None
    arguments: Sequence[Tensor] = ()
    filled: Sequence[Tensor] = ()
    result: Any = None


def require_capturable(optimizer: Optimizer) -> None:
    """Raise ConfigError for an optimizer whose learning rate a recorded step would not see change."""
    if not optimizer.capturable:
        raise ConfigError(
            f"optimizer {optimizer.type!r} keeps its learning rate as a number, which a recorded gradient step does "
            "not see change; choose adam, or leave cuda_graphs out",
            key=("torch_settings", "cuda_graphs"),
        )


def _graph(step: Callable[[], Sequence[Tensor]]) -> tuple[Replay, Sequence[Tensor]]:
    """Record a CUDA graph. Other threads may use the GPU meanwhile."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        filled = step()
    return graph.replay, filled


def _flat(value: Any, tensors: list[Tensor]) -> Hashable | None:
    """Return what a recording depends on, but for the numbers in tensors; None if it depends on something unknown.

    Tensors are added to ``tensors``, in the order in which :func:`_with_tensors` replaces them.
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        return (tuple(value.shape), value.dtype)
    if value is None or isinstance(value, bool | int | float | str) or callable(value):
        return ("value", value)
    parts = _parts(value)
    if parts is None:
        return None
    keys = [_flat(part, tensors) for part in parts.values()]
    if None in keys:
        return None
    return (type(value).__name__, tuple(parts), tuple(keys))


def _with_tensors(value: Any, tensors: Iterator[Tensor]) -> Any:
    """``value`` with other tensors."""
    if isinstance(value, Tensor):
        return next(tensors)
    parts = _parts(value)
    if parts is None:
        return value
    replaced = {name: _with_tensors(part, tensors) for name, part in parts.items()}
    if isinstance(value, Mapping):
        return replaced
    if isinstance(value, tuple):
        return tuple(replaced.values())
    return attrs.evolve(value, **replaced)


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """The parts of a tuple, a mapping or an attrs class, by index, key or field; None for anything else."""
    if type(value) is tuple:  # one of a derived class has more than its items
        return dict(enumerate(value))
    if isinstance(value, Mapping):
        return dict(value)
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in attrs.fields(type(value)) if field.init}
    return None
