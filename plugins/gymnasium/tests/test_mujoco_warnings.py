"""A warning of MuJoCo is logged once, however many copies of an environment there are."""

from __future__ import annotations

import logging

import pytest

from rlcore_gymnasium.environment import _one
from rlcore_gymnasium.mujoco_warnings import OncePerText

mujoco = pytest.importorskip("mujoco")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_copies_of_an_environment_give_one_warning(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(None)
    try:
        for _ in range(3):
            _one("HalfCheetah-v5", {}, ()).close()
    finally:
        mujoco.set_mju_user_warning(before)
    assert "WARNING" not in "".join(capfd.readouterr())
    if mujoco.__version__.startswith("4."):  # whose compiler warns of an attribute in the model
        (line,) = warnings_of(caplog)
        assert line.startswith("MuJoCo: compiler attribute 'settotalmass' is deprecated")


def test_texts_that_differ_in_numbers_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    warn = OncePerText()
    for time in ("0.4700", "1.2e-05"):
        warn(f"Nan, Inf or huge value in QACC at DOF 0. The simulation is unstable. Time = {time}.")
    warn("Nan, Inf or huge value in QPOS at DOF 0.")
    assert len(warnings_of(caplog)) == 2


def test_a_program_that_takes_the_warnings_itself_keeps_them(caplog: pytest.LogCaptureFixture) -> None:
    before = mujoco.get_mju_user_warning()
    taken: list[str] = []
    mujoco.set_mju_user_warning(taken.append)
    try:
        _one("HalfCheetah-v5", {}, ()).close()
    finally:
        mujoco.set_mju_user_warning(before)
    assert warnings_of(caplog) == []
