# mypy: allow-untyped-calls
"""Two functions side by side: both answers, both errors, and a thread that goes with its owner."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable
from typing import NoReturn

import pytest
import torch

from rlcore_torch.cpu.pair import Pair


@pytest.fixture(params=[False, True], ids=["in turn", "threaded"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


@pytest.fixture
def threaded() -> Pair:
    return Pair(True)


def fails(error: BaseException) -> Callable[[], NoReturn]:
    def function() -> NoReturn:
        raise error

    return function


def test_answers_come_in_the_order_of_the_functions(pair: Pair) -> None:
    for k in range(50):
        assert pair.run(lambda k=k: ("first", k), lambda k=k: ["second", k]) == (("first", k), ["second", k])  # type: ignore[misc]


def test_both_run_at_once(threaded: Pair) -> None:
    meeting = threading.Barrier(2, timeout=10)  # passes only if both wait there
    answers = threaded.run(
        lambda: (meeting.wait(), threading.get_ident())[1], lambda: (meeting.wait(), threading.get_ident())[1]
    )
    assert answers[0] == threading.get_ident() != answers[1]


@pytest.mark.parametrize("place", ["first", "second", "both"])
def test_an_error_of_either_is_raised_when_both_have_ended(threaded: Pair, place: str) -> None:
    ended = threading.Event()

    def slow() -> None:
        if place == "first":  # the second function is slower
            released.wait(0.05)
        ended.set()

    released = threading.Event()
    first, second = {
        "first": (fails(KeyError("one")), slow),
        "second": (slow, fails(KeyError("two"))),
        "both": (fails(KeyError("one")), fails(ValueError("two"))),
    }[place]
    with pytest.raises(KeyError, match="two" if place == "second" else "one"):
        threaded.run(first, second)
    assert ended.is_set() == (place != "both")
    assert threaded.run(lambda: 1, lambda: 2) == (1, 2), "the next answers are not those of the failed ones"


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to a thread")
def test_an_interrupt_while_waiting_leaves_nothing_for_the_next_call(threaded: Pair) -> None:
    ended = threading.Event()

    def interrupts() -> str:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.05)
        ended.set()
        return "of the call that was interrupted"

    # A process that a shell starts in the background ignores SIGINT, and Python leaves it at that.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threaded.run(int, interrupts)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ended.is_set(), "what it writes to is the next call's"
    assert threaded.run(lambda: 1, lambda: 2) == (1, 2)


def test_errors_are_raised_without_a_thread_too() -> None:
    for functions in ((fails(KeyError()), int), (int, fails(KeyError()))):
        with pytest.raises(KeyError):
            Pair(False).run(*functions)


def test_without_threads_both_run_in_the_calling_thread() -> None:
    before = threading.active_count()
    assert Pair(False).run(threading.get_ident, threading.get_ident) == (threading.get_ident(),) * 2
    assert threading.active_count() == before


def test_the_thread_is_made_once_and_ends_with_its_owner(threaded: Pair) -> None:
    before = set(threading.enumerate())
    pair = Pair(True)
    assert set(threading.enumerate()) == before, "not before there is work"
    threads = {pair.run(int, threading.current_thread)[1] for _ in range(5)}
    assert len(threads) == 1
    [thread] = threads
    assert thread.is_alive() and thread.daemon
    del pair
    gc.collect()
    thread.join(timeout=10)
    assert not thread.is_alive()


class Payload:
    """Something that can be watched."""


def test_nothing_of_finished_work_is_kept(threaded: Pair) -> None:
    payload = Payload()
    watched = weakref.ref(payload)
    assert threaded.run(int, lambda payload=payload: payload)[1] is payload  # type: ignore[misc]
    del payload
    threaded.run(int, int)
    assert watched() is None


def test_the_thread_computes_with_as_many_threads_as_its_owner(threaded: Pair) -> None:
    assert threaded.run(torch.get_num_threads, torch.get_num_threads) == (torch.get_num_threads(),) * 2


def test_autograd_is_on_in_a_new_thread_whatever_its_owner_has(threaded: Pair) -> None:
    """A function that is given to a pair must set the mode of autograd for itself."""
    with torch.no_grad():
        assert threaded.run(torch.is_grad_enabled, torch.is_grad_enabled) == (False, True)
