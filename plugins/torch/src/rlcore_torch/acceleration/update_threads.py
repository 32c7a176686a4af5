"""One thread or two within the operations of a gradient step, whichever takes less time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore import generator_state, restore_generator
from rlcore_torch.acceleration.registry import Acceleration, Function, every_method
from rlcore_torch.networks.layers import Dropout
from rlcore_torch.networks.models import Actor
from rlcore_torch.off_policy.minibatch_trainer import GradientStep, MinibatchTrainer
from rlcore_torch.off_policy.transition_batch import TransitionBatch

log = logging.getLogger("rlcore.plugin.torch")

Trainer = TypeVar("Trainer", bound=MinibatchTrainer)

COMPARED = 4  # gradient steps that are computed with one thread and with two before two are used
TRIED = 6  # gradient steps with each number of threads in a trial
FASTER = 0.95  # of the time with one thread: from here on two are used
SLOW = 1.5  # times the time with one thread: a trial is lost at once
# gradient steps between trials
FIRST_PAUSE = 100
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
        outcomes = []
        for threads in (1, 2):
            started = perf_counter()
            outcomes.append(outcome(threads))
            seconds.append(perf_counter() - started)
        pairs = zip(*outcomes, strict=True)
        if not all(np.array_equal(one, two, equal_nan=True) for one, two in pairs):
            log.info("behavior %r: gradient steps use one thread; two would round differently", self.behavior)
            self._pause = -1
        elif seconds[1] > SLOW * seconds[0]:
            self._choose(*seconds)
        else:
            self._to_compare -= 1

    @property
    def _in_trial(self) -> bool:
        return not self._pause and not self._to_compare

    def __enter__(self) -> None:
        threads = self.count
        if self._in_trial:
            threads = 1 + len(self._trial) % 2  # in turn
        torch.set_num_threads(threads)
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
            is_slow = self.count > 1 and seconds > SLOW * self._usual
            self._slow = self._slow + 1 if is_slow else 0
            if self._slow == SLOW_STEPS:
                self._pause = 0
                self._slow = 0
        elif self._in_trial:
            self._trial.append(seconds)
            one = self._trial[::2]
            two = self._trial[1::2]
            is_lost = len(one) == len(two) and two[-1] > SLOW * one[-1]
            if is_lost or len(two) == TRIED:
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
    if cores() < 2 or os.environ.get(LIMIT) == "1":
        return None
    if model.inputs.images or model.memory_size:
        return None
    if any(isinstance(module, Dropout) for module in model.modules()):
        return None
    return UpdateThreads(behavior, period)


LIMIT = "OMP_THREAD_LIMIT"  # of OpenMP, whose threads PyTorch uses


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chosen_threads(of: type[Trainer], period: Callable[[Trainer], int] = lambda trainer: 1) -> Acceleration[Trainer]:
    """Return the acceleration of exactly the class ``of`` whose gradient steps have one thread or two.

    ``period`` gets the trainer: the number of gradient steps after which their operations repeat. Gradient steps must
    change nothing but the model, the optimizers and ``generator``.
    """

    def make(trainer: Trainer) -> Mapping[Function, Function] | None:
        threads = update_threads(trainer.behavior.name, trainer.model, period(trainer))
        if threads is None:
            return None
        plain = trainer.gradient_step

        def gradient_step(batch: TransitionBatch) -> GradientStep:
            threads.compare(partial(outcome, trainer, plain, batch))
            with threads:
                return plain(batch)

        return {of.gradient_step: gradient_step}

    return Acceleration(piece="update_threads", methods=every_method(of), make=make)


def outcome(
    trainer: MinibatchTrainer, plain: Callable[[TransitionBatch], GradientStep], batch: TransitionBatch, threads: int
) -> list[NDArray[Any]]:
    """Return all numbers that a gradient step on ``batch`` with this many threads changes, and undo the step.

    They are the parameters and the state of the optimizers, of any shapes, the statistics [] and the errors [B].
    """
    tensors = [*trainer.model.parameters(), *trainer.model.buffers()]
    before = [tensor.detach().clone() for tensor in tensors]
    states = {name: optimizer.state_dict() for name, optimizer in trainer.optimizers.items()}
    generator = generator_state(trainer.generator)
    torch.set_num_threads(threads)
    try:
        step = plain(batch)
    finally:
        torch.set_num_threads(1)
    results = [*tensors, *step.stats.values()]
    if step.td_error is not None:
        results.append(step.td_error)
    changed = [tensor.detach().numpy().copy() for tensor in results]
    for name, optimizer in trainer.optimizers.items():
        for value in optimizer.state_dict().values():
            if isinstance(value, np.ndarray):
                changed.append(value)
        optimizer.load_state_dict(states[name])
    with torch.no_grad():
        for tensor, was in zip(tensors, before, strict=True):
            tensor.copy_(was)
    restore_generator(trainer.generator, generator)
    return changed
