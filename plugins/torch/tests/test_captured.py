"""Recorded gradient steps: every call is one step, whatever is recorded. A GPU is imitated; `cuda` tests have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor

from rlcore import ConfigError
from rlcore_torch import CapturedStep, choose_backend
from rlcore_torch.optimization import captured
from rlcore_torch.optimization.captured import WARM_UP

Replay = Callable[[], None]


@attrs.frozen(eq=False)
class Batch:
    x: Tensor
    inputs: tuple[Tensor, ...] = ()
    mask: Tensor | None = None
    share: float = 1.0


class Accumulator:
    """A step with state: the sum of what it was given, in a tensor that stays where it is."""

    def __init__(self) -> None:
        self.sum = torch.zeros(())
        self.executed = 0  # by Python, as opposed to replays
        self.recorded = 0

    def step(self, batch: Batch, factor: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        self.executed += 1
        self.sum += batch.share * factor * (batch.x.sum() + sum(part.sum() for part in batch.inputs))
        return {"sum": self.sum * 1.0, "first": batch.x[0] * 1.0}, batch.mask

    def record(self, step: Callable[[], Sequence[Tensor]]) -> tuple[Replay, Sequence[Tensor]]:
        """As a CUDA graph: nothing happens while it is recorded, and a replay fills the same tensors."""
        self.recorded += 1
        before, executed = self.sum.clone(), self.executed
        made = [tensor.clone() for tensor in step()]
        self.sum.copy_(before)
        self.executed = executed

        def replay() -> None:
            for mine, tensor in zip(made, step(), strict=True):
                mine.copy_(tensor)
            self.executed = executed

        return replay, made


def a_step() -> tuple[Accumulator, CapturedStep[Any]]:
    own = Accumulator()
    return own, CapturedStep(own.step, torch.device("cpu"), own.record)


def test_each_call_is_one_step_and_results_are_the_callers_own() -> None:
    own, step = a_step()
    plain = Accumulator()
    results = []
    for number in range(8):
        given = Batch(torch.full((3,), float(number)), (torch.ones(2) * number,)), torch.tensor(0.5 + number)
        expected, _ = plain.step(*given)
        found, mask = step(*given)
        assert mask is None and found.keys() == expected.keys()
        assert found["sum"] == expected["sum"] == own.sum and found["first"] == number
        results.append(found)
    assert own.executed == WARM_UP and own.recorded == 1
    assert [float(each["first"]) for each in results] == list(range(8)), "a later call changed an earlier result"


def test_other_shapes_and_other_numbers_are_recorded_separately() -> None:
    own, step = a_step()
    plain = Accumulator()
    kinds = [
        Batch(torch.ones(3)),
        Batch(torch.ones(4)),
        Batch(torch.ones(3), share=0.5),
        Batch(torch.ones(3), mask=torch.ones(2)),
        Batch(torch.ones(3), (torch.ones(1),)),
        Batch(torch.ones(3, dtype=torch.float64)),
    ]
    for _ in range(WARM_UP + 2):
        for batch in kinds:
            _, expected = plain.step(batch, torch.tensor(2.0))
            found, mask = step(batch, torch.tensor(2.0))
            assert found["sum"] == plain.sum
            assert (mask is None) == (expected is None)
    assert own.recorded == len(kinds)


def test_what_cannot_be_recorded_is_an_ordinary_call() -> None:
    own = Accumulator()
    step = CapturedStep(lambda x, _: own.step(Batch(x), torch.tensor(1.0)), torch.device("cpu"), own.record)
    for number in range(10):
        step(torch.ones(1), object())
        assert own.sum == number + 1
    for size in range(1, captured.MOST + 5):  # more shapes than are kept
        for _ in range(WARM_UP + 2):
            step(torch.zeros(size), None)
    assert own.sum == 10 and own.recorded == captured.MOST


def test_a_forgotten_step_is_recorded_again() -> None:
    own, step = a_step()
    given = Batch(torch.ones(3)), torch.tensor(1.0)
    for _ in range(WARM_UP + 2):
        step(*given)
    own.sum = torch.zeros(())  # in another place: what was recorded writes to the one before
    step.forget()
    for _ in range(WARM_UP + 2):
        step(*given)
    assert own.sum == 3 * (WARM_UP + 2) and own.recorded == 2


def test_a_step_that_reads_a_value_is_refused_with_the_key() -> None:
    def record(step: Callable[[], Sequence[Tensor]]) -> tuple[Replay, Sequence[Tensor]]:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    step = CapturedStep(lambda x: x * 1.0, torch.device("cpu"), record)
    for _ in range(WARM_UP):
        step(torch.ones(1))
    with pytest.raises(ConfigError, match=r"cannot be recorded: operation not permitted.*item") as caught:
        step(torch.ones(1))
    assert caught.value.key == ("torch_settings", "cuda_graphs") and "\n" not in str(caught.value)


def test_graphs_without_a_gpu_are_refused() -> None:
    settings = SimpleNamespace(device="cpu", cuda_graphs=True, deterministic=False, fast_cpu=True, num_threads=1)
    run: Any = SimpleNamespace(config=SimpleNamespace(torch_settings=settings), ranks=SimpleNamespace(size=1))
    with pytest.raises(ConfigError, match="need an NVIDIA GPU, and the device is cpu"):
        choose_backend(run)
