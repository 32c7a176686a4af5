"""A terminal, a pipe or a file under the output that goes away: training does not end with it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from typing import Any

import pytest

pytestmark = pytest.mark.faults

PIPE = subprocess.PIPE
LOST_OUTPUT = "warning: standard output is lost ({}); the run continues without it\n"
LOST_ERRORS = "warning: standard error is lost ({}); the run continues without it\n"


@pytest.fixture
def closed_pipe() -> Any:
    """The writing end of a pipe that no reader is left of."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_a_reader_that_takes_one_line_does_not_end_training(quick: Any) -> None:
    """``rlcore run ... | head -1``"""
    place = quick()
    process = place.start(stdout=PIPE, stderr=PIPE)
    assert process.stdout.readline().startswith("run ")
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(20) == 0, errors
    assert errors == LOST_OUTPUT.format("Broken pipe")
    place.assert_done()


def test_a_policy_that_only_acts_ends_with_its_reader(quick: Any) -> None:
    """Nothing else ends a run with ``--inference``."""
    place = quick()
    assert place.finish()[0] == 0
    process = place.start("--inference", stdout=PIPE, stderr=PIPE)
    assert process.stdout.readline().startswith("run ")
    process.stdout.close()
    assert process.wait(20) == 0
    assert process.stderr.read() == LOST_OUTPUT.format("Broken pipe")


def test_the_loss_of_standard_error_is_said_on_standard_output(quick: Any, closed_pipe: int) -> None:
    place = quick()
    code, output, _ = place.finish("--debug", stderr=closed_pipe)
    assert code == 0 and output.count("warning:") == 1 and LOST_ERRORS.format("Broken pipe") in output
    assert output.splitlines()[-1].startswith("done: 400 steps")
    place.assert_done()


@pytest.mark.parametrize("descriptors", [(1,), (2,), (1, 2)])
def test_output_that_is_closed_from_the_start_does_not_end_training(quick: Any, descriptors: tuple[int, ...]) -> None:
    """``rlcore run ... >&- 2>&-``"""
    place = quick()
    closing = " ".join(f"{descriptor}>&-" for descriptor in descriptors)
    code, _, errors = place.finish("--debug", shell=f'exec "$@" {closing}')
    assert code == 0, errors
    place.assert_done()


@pytest.mark.parametrize("lost", ["stdout", "stderr"])
def test_an_error_keeps_its_exit_code_where_it_cannot_be_said(quick: Any, closed_pipe: int, lost: str) -> None:
    place = quick({"environment": {"type": "slow", "options": {"fault": "raise in step"}}})
    code, _, errors = place.finish(**{lost: closed_pipe})
    assert code == 3 and (lost == "stderr" or "ZeroDivisionError" in errors)
    assert place.finish("--no-such-flag", **{lost: closed_pipe})[0] in (1, 2)


# ---------------------------------------------------------------- terminals


def start_on_terminal(place: Any, controlling: bool) -> tuple[subprocess.Popen[str], int]:
    """A run that draws its progress bar; closing the descriptor closes the terminal."""
    master, slave = pty.openpty()
    name = os.ttyname(slave)

    def take_terminal() -> None:
        os.close(os.open(name, os.O_RDWR))  # the first terminal that a session without one opens controls it

    process = place.start(
        stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, start_new_session=True,
        preexec_fn=take_terminal if controlling else None,
    )  # fmt: skip
    os.close(slave)
    return process, master


def read_until(master: int, words: str) -> str:
    seen = ""
    while words not in seen:
        seen += os.read(master, 4096).decode(errors="replace")
    return seen


def test_a_terminal_that_goes_away_does_not_end_a_run_that_it_does_not_control(quick: Any) -> None:
    """As with ``setsid`` or ``nohup``: every write fails with EIO, also those of the thread that draws the bar."""
    place = quick(max_steps=4000)
    process, master = start_on_terminal(place, controlling=False)
    read_until(master, "Agent. Step: 50.")
    os.close(master)
    assert process.wait(20) == 0
    place.assert_done(4000)


def test_a_terminal_that_is_closed_has_the_run_save_and_end(quick: Any) -> None:
    place = quick(max_steps=10_000_000)
    process, master = start_on_terminal(place, controlling=True)
    read_until(master, "Agent. Step: 50.")
    place.wait_for_checkpoint(process)
    os.close(master)
    assert process.wait(10) == 128 + signal.SIGHUP
    assert place.result["outcome"] == "interrupted"
    place.assert_resumes()


def test_a_command_that_only_prints_still_ends_with_its_reader(quick: Any, closed_pipe: int) -> None:
    """``rlcore plugins list | head``"""
    process = quick().popen("plugins", "list", stdout=closed_pipe, stderr=PIPE)
    errors = process.communicate(timeout=20)[1]
    assert (process.returncode, errors) == (1, "")
