"""The threads of gradient steps: two where they are faster and give the same bits, and results never depend on them."""

# mypy: allow-untyped-calls
from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from rlcore_torch.acceleration import update_threads
from rlcore_torch.acceleration.linear_stack import LinearStack
from rlcore_torch.acceleration.update_threads import (
    COMPARED,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    SLOW_STEPS,
    TRIED,
    UpdateThreads,
)


class Machine:
    """A clock, and gradient steps that take ``one`` second with one thread and ``two`` with two."""

    def __init__(self, one: float, two: float, period: int = 1) -> None:
        self.costs, self.now = [0.0, one, two], 0.0
        self.threads = UpdateThreads("Agent", period)
        self.used: list[int] = []
        self.bits = [np.zeros(2), np.zeros(2)]

    def outcome(self, threads: int) -> list[np.ndarray]:
        self.now += self.costs[threads]
        return [self.bits[threads - 1]]

    def step(self, times: int = 1) -> list[int]:
        """Take gradient steps; return the threads of each."""
        for _ in range(times):
            self.threads.compare(self.outcome)
            with self.threads:
                self.used.append(torch.get_num_threads())
                self.now += self.costs[self.used[-1]]
            assert torch.get_num_threads() == 1
        return self.used[-times:]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float, float], Machine]]:
    def make(one: float, two: float) -> Machine:
        made = Machine(one, two)
        monkeypatch.setattr(update_threads, "perf_counter", lambda: made.now)
        return made

    yield make
    torch.set_num_threads(1)


@pytest.mark.parametrize(("two", "chosen"), [(0.6, 2), (0.94, 2), (0.96, 1), (1.0, 1), (1.2, 1)])
def test_the_faster_number_is_chosen_and_one_thread_if_they_are_nearly_equal(
    machine: Callable[[float, float], Machine], two: float, chosen: int
) -> None:
    steps = machine(1.0, two)
    assert steps.step(COMPARED - 1) == [1] * (COMPARED - 1)
    assert steps.step(2 * TRIED) == [1, 2] * TRIED
    assert steps.step(FIRST_PAUSE) == [chosen] * FIRST_PAUSE
    assert steps.step(2 * TRIED) == [1, 2] * TRIED  # the next trial


@pytest.mark.parametrize("at", range(COMPARED))
def test_two_threads_are_never_used_if_a_bit_differs_in_one_of_the_first_steps(
    machine: Callable[[float, float], Machine], caplog: pytest.LogCaptureFixture, at: int
) -> None:
    steps = machine(1.0, 0.5)
    steps.step(at)
    steps.bits[1] = np.nextafter(steps.bits[1], 1.0)
    with caplog.at_level(logging.INFO):
        assert steps.step(3 * FIRST_PAUSE) == [1] * (3 * FIRST_PAUSE)
    assert [each for each in caplog.messages if "would round differently" in each]


def test_nan_in_both_outcomes_is_no_difference(machine: Callable[[float, float], Machine]) -> None:
    steps = machine(1.0, 0.5)
    steps.bits = [np.full(2, np.nan), np.full(2, np.nan)]
    assert 2 in steps.step(COMPARED + 2)


def test_steps_of_which_every_third_one_is_long_are_compared_and_timed_in_threes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two threads take 0.9 of the time, less than the difference between a long step and a short one."""
    steps = Machine(1.0, 0.9, period=3)
    monkeypatch.setattr(update_threads, "perf_counter", lambda: steps.now)
    used = []
    for number in range(3 * (COMPARED + 2 * TRIED + FIRST_PAUSE)):
        steps.costs = [0.0, 4.0, 3.6] if number % 3 == 2 else [0.0, 1.0, 0.9]
        used += steps.step()
    trial = used.index(2)
    assert trial % 3 == 0 and trial >= COMPARED
    assert used[trial : trial + 6 * TRIED - 3] == ([2] * 3 + [1] * 3) * (TRIED - 1) + [2] * 3
    assert set(used[trial + 6 * TRIED - 3 :][: 3 * FIRST_PAUSE]) == {2}


def test_where_the_second_core_is_busy_a_trial_costs_one_slow_step_and_comes_ever_more_rarely(
    machine: Callable[[float, float], Machine],
) -> None:
    steps = machine(1.0, 50.0)
    started = steps.now
    pause = FIRST_PAUSE
    steps.step()
    assert steps.now - started == 52.0  # compared once, and taken with one thread
    while pause < LONGEST_PAUSE:
        started = steps.now
        steps.step(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
        assert steps.now - started <= pause + 51.0
    assert set(steps.used) == {1}


def test_a_program_that_takes_the_second_core_is_noticed_before_the_next_trial(
    machine: Callable[[float, float], Machine],
) -> None:
    steps = machine(1.0, 0.5)
    steps.step(COMPARED - 1 + 2 * TRIED)
    assert steps.step(5) == [2] * 5
    steps.costs[2] = 50.0
    used = steps.step(SLOW_STEPS + 2)
    assert used == [2] * SLOW_STEPS + [1, 2]  # a trial, which is lost at once
    assert steps.step(100) == [1] * 100
    steps.costs[2] = 0.5
    assert 2 in steps.step(FIRST_PAUSE + 2 * TRIED)[-FIRST_PAUSE:]


def test_an_error_in_a_gradient_step_leaves_one_thread(machine: Callable[[float, float], Machine]) -> None:
    steps = machine(1.0, 0.5)
    steps.step(COMPARED - 1 + 2 * TRIED)
    used = []

    def failing_step() -> None:
        with steps.threads:
            used.append(torch.get_num_threads())
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        failing_step()
    assert used == [2]
    assert torch.get_num_threads() == 1


SHAPES = [(256, 256), (256, 64), (256, 400), (512, 128), (250, 256), (255, 256), (1, 256)]  # rows and units


@pytest.mark.parametrize(("rows", "units"), SHAPES)
def test_a_stack_computes_the_same_bits_with_one_thread_and_two(rows: int, units: int) -> None:
    one, two = stack_outcomes(rows, units)
    for of_one, of_two in zip(one, two, strict=True):
        assert torch.equal(of_one, of_two)


def test_a_stack_computes_the_same_bits_also_in_mkls_products_for_cpus_without_avx_512() -> None:
    """There MKL divides a product between threads in another way. The variable is for Intel's CPUs alone."""
    program = (
        "from test_update_threads import SHAPES, test_a_stack_computes_the_same_bits_with_one_thread_and_two as test\n"
        "for shape in SHAPES: test(*shape)"
    )
    environment = {**os.environ, "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=Path(__file__).parent, check=True)


def stack_outcomes(rows: int, units: int) -> list[list[torch.Tensor]]:
    """Return outputs and gradients of a network of 24 inputs for a minibatch, with one thread and with two."""
    torch.manual_seed(0)
    sizes = (24, units, units, 1)
    layers = [torch.nn.Linear(*pair) for pair in pairwise(sizes)]
    inputs = torch.cat([torch.randn(rows, 24), torch.ones(rows, 1)], dim=1)
    given = torch.randn(1, rows)
    outcomes = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            stack = LinearStack(layers, "relu", inputs, torch.empty(rows * LinearStack.numbers(layers, "relu")))
            stack.begin()
            computed = [stack.forward(rows).clone()]
            stack.backward(given)
            stack.forward(rows)
            computed.append(stack.backward_to_inputs(given).clone())
            outcomes.append(computed + [gradient.clone() for gradient in stack.gradients.values()])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(1)
    return outcomes


@pytest.mark.parametrize(("cores", "limit", "chooses"), [(2, "", True), (8, "", True), (1, "", False), (2, "1", False)])
def test_one_core_or_openmps_limit_of_one_thread_leave_nothing_to_choose(
    monkeypatch: pytest.MonkeyPatch, cores: int, limit: str, chooses: bool
) -> None:
    monkeypatch.setattr(update_threads, "cores", lambda: cores)
    monkeypatch.setenv(update_threads.LIMIT, limit)
    model = torch.nn.Module()
    model.inputs, model.memory_size = torch.nn.Module(), 0  # type: ignore[assignment]
    model.inputs.images = ()  # type: ignore[assignment]
    assert (update_threads.update_threads("Agent", model, 1) is not None) == chooses  # type: ignore[arg-type]
