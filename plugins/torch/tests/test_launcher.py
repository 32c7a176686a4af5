"""The exit code of ``rlcore torchrun``, and the words that it gives to PyTorch's torchrun."""

from __future__ import annotations

import signal
import sys

import click
import pytest
from torch.distributed import run as torchrun

from rlcore_torch.ranks import launcher


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0, 0], 0),
        ([143, 143], 143),  # saved at a signal
        ([130, 0], 130),
        ([1, 5], 5),  # rank 0 says that rank 1 failed
        ([5, 1], 5),
        ([2, -15], 2),  # torchrun ended the other
        ([1, -15], 1),
        ([143, -9], 137),  # killed before it had saved
        ([-9, 1], 1),
        ([77, 77], 77),  # chosen by a plugin
        ([None, 143], 1),
        ([], 0),
    ],
)
def test_the_exit_code_is_that_of_the_rank_that_failed_by_itself(codes: list[int | None], code: int) -> None:
    assert launcher.exit_code(dict(enumerate(codes))) == code


def test_what_stands_before_the_configuration_is_of_torchrun() -> None:
    options = launcher._options(
        torchrun.get_args_parser(), ["--nnodes", "2", "--max-restarts=3", "a.yaml", "--seed", "1"]
    )
    assert (options.nnodes, options.max_restarts) == ("2", 3)
    assert options.no_python and options.training_script == sys.executable
    assert options.training_script_args[-4:] == ["run", "a.yaml", "--seed", "1"]


def test_signals_of_batch_systems_are_passed_on_unless_they_are_ignored_or_chosen() -> None:
    def handled(*words: str) -> list[str]:
        options = launcher._options(torchrun.get_args_parser(), [*words, "a.yaml"])
        names: list[str] = options.signals_to_handle.split(",")
        return names

    assert {"SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGXCPU"} <= set(handled())
    assert handled("--signals-to-handle", "SIGTERM") == ["SIGTERM"]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert "SIGHUP" not in handled()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--nproc-per-node", "2"], "the following arguments are required"),
        (["--max-restarts", "x", "a.yaml"], "invalid int value"),
        (["-m", "rlcore", "run", "a.yaml"], "`-m rlcore run` is added"),
    ],
)
def test_a_mistake_has_one_line(words: list[str], problem: str) -> None:
    with pytest.raises(click.UsageError, match=problem):
        launcher._options(torchrun.get_args_parser(), words)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "a.example:29500"], ("a.example", 29500)),
        (["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "a.example"], ("a.example", 29400)),
        (["--nnodes", "2", "--master-addr", "10.0.0.1", "--master-port", "29500"], ("10.0.0.1", 29500)),
        (["--standalone"], None),
        (["--nnodes", "2", "--rdzv-backend", "etcd-v2", "--rdzv-endpoint", "a.example:1"], None),
    ],
)
def test_the_host_where_all_meet_is_known(words: list[str], place: tuple[str, int] | None) -> None:
    assert launcher._meeting_place(launcher._options(torchrun.get_args_parser(), [*words, "a.yaml"])) == place
