"""Settings of all tests: one thread per process, profiles of Hypothesis, ``--nightly``, ``--deep``, ``--plain-torch``.

The log of rlcore is after each test as it was before, and modules that a test wrote are forgotten.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

# Before numpy is imported here or in a process that a test starts: several processes run tests side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_THREAD_LIMIT", "1")

import pytest
from hypothesis import settings

THRESHOLD = gc.get_threshold()
gc.set_threshold(1_000_000)  # what tests import is never garbage, and looking for it there takes a third of collecting

MEMORY = Path("/dev/shm")  # the memory file system of Linux
NIGHTLY = ("learning", "packaging", "faults", "distributed", "documentation", "lint")  # marks of a nightly run
LONGEST = ("learning", "packaging", "faults", "long")  # marks, in the order in which their tests start
OWN = pytest.StashKey[Path | None]()  # the tmp_path of a test
DEEP = {"RLCORE_ATTACK_TRIALS": "120", "RLCORE_ATTACK_DAMAGES": "all"}

settings.register_profile("quick", max_examples=40, deadline=None)
settings.register_profile("deep", max_examples=1000, deadline=None)


@pytest.fixture(autouse=True)
def messages_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have messages say what to install from an index, whether the tests run in a checkout or not."""
    from rlcore.plugins import installing

    monkeypatch.setattr(installing, "checkout", lambda: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly",
        action="store_true",
        help=f"also the tests marked {', '.join(NIGHTLY)}, of which a few, marked daily, always run",
    )

    parser.addoption(
        "--deep",
        action="store_true",
        help="everything that tests can try: a nightly run, all seeds, every kind of damage, 120 random kills, "
        "a thousand examples of each property, and the whole suite of each distribution in a virtual environment of "
        "its own",
    )

    parser.addoption(
        "--plain-torch",
        action="store_true",
        help="trainers that tests make, in their own and in forked processes, have torch_settings.fast_cpu: false",
    )


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLD)


def pytest_configure(config: pytest.Config) -> None:
    # Tests start hundreds of processes, and each would compile rlcore again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Runs wait for the disk at each checkpoint, because of power failures. Tests kill processes, and what a process has
    # written survives that in memory too.
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if config.getoption("--plain-torch"):
        from plain_torch import compute_with_plain_torch

        compute_with_plain_torch()
    if config.getoption("--deep"):
        for name, value in DEEP.items():
            os.environ.setdefault(name, value)
    # Hypothesis reads its own option later, so `--hypothesis-profile` wins.
    settings.load_profile("deep" if config.getoption("--deep") else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run is not for, and what needs a device that is not there.

    The longest tests start first.

    A process that starts one of them last would run it alone, while the others have nothing left to do. One module of
    packaging is before them all: it makes the virtual environments for which the others would wait together.
    """
    absent = [] if config.getoption("--deep") else ["deep"]
    if not Path("/dev/nvidiactl").exists():  # asking PyTorch would import it
        absent.append("cuda")
    night = config.getoption("--nightly") or config.getoption("--deep")

    def wanted(item: pytest.Item) -> bool:
        if any(map(item.get_closest_marker, absent)):
            return False
        return bool(night or item.get_closest_marker("daily") or not any(map(item.get_closest_marker, NIGHTLY)))

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = filter(wanted, items)
    first = next((item.path for item in items if item.get_closest_marker("packaging")), None)

    def place(item: pytest.Item) -> int:
        if item.path == first:
            return -1
        return next((k for k, mark in enumerate(LONGEST) if item.get_closest_marker(mark)), len(LONGEST))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a class in one process, which makes what they share once, such as the training of an unchanged
    script. Any other test without a group runs wherever a process is free.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class LoadClassScheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            owner, _, _ = nodeid.partition("[")[0].rpartition("::")
            is_of_class = scope == nodeid and "::" in owner
            return owner if is_of_class else scope

    return LoadClassScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    item.stash[OWN] = getattr(item, "funcargs", {}).get("tmp_path")
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Undo what runs and commands change in the process, which is theirs elsewhere: the log, and imported modules.

    A fixture would not do for the log, because fixtures of a module run before it. pytest attaches its own handlers to
    loggers that do not propagate, so a later test would see records twice. Modules are forgotten if they are below
    ``tmp_path``: another test may write one of the same name.
    """
    log = logging.getLogger("rlcore")
    modules = set(sys.modules)
    handlers = [*log.handlers]
    propagate = log.propagate
    level = log.level
    try:
        return (yield)
    finally:
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)  # the method also clears the caches of child loggers
        own = item.stash.get(OWN, None)
        if own is not None:
            sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(own))]
            for name in sys.modules.keys() - modules:
                if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(own)):
                    del sys.modules[name]


@pytest.fixture(scope="session")
def deep(pytestconfig: pytest.Config) -> bool:
    """Whether ``pytest --deep`` was asked for."""
    return bool(pytestconfig.getoption("--deep"))
