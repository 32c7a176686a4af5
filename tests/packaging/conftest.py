"""Wheels of every member, and virtual environments that hold some of them.

Processes of pytest-xdist share what :func:`made_once` makes, so the tests can run in any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from made_once import made_once
from virtualenvs import Venv, build_wheels, wheel_in
from workspace import CORE, MEMBERS, complete, required


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheel of every member, by the member's name."""
    sources = [member.directory for member in MEMBERS]
    directory = made_once(tmp_path_factory, "wheels of members", lambda path: build_wheels(path, *sources))
    return {member.name: wheel_in(directory, member.name) for member in MEMBERS}


@pytest.fixture(scope="session")
def chosen(deep: bool) -> str:
    """The expression of markers for tests that run again where nothing else is installed; empty, so all, if deep."""
    return "" if deep else "smoke"


@pytest.fixture(scope="session")
def shared_venv(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Venv]:
    """``shared_venv(*requirements, below=...)``, which no test may change."""

    def share(*requirements: str | Path, below: Venv | None = None) -> Venv:
        key = "\n".join(map(str, ("venv", below and below.directory, *requirements)))
        directory = made_once(tmp_path_factory, key, lambda path: Venv.make(path, below).install(*requirements))
        return Venv(directory, below)

    return share


@pytest.fixture
def make_venv(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Venv]:
    """``make_venv(*requirements, below=...)``, which the test may change."""

    def make(*requirements: str | Path, below: Venv | None = None) -> Venv:
        made = Venv.make(tmp_path_factory.mktemp("venv"), below)
        if requirements:
            made.install(*requirements)
        return made

    return make


@pytest.fixture(scope="session")
def bare(shared_venv: Callable[..., Venv], wheels: Mapping[str, Path]) -> Venv:
    """The core, and nothing beside it."""
    return shared_venv(wheels[CORE.name])


@pytest.fixture(scope="session")
def wheels_with(wheels: Mapping[str, Path]) -> Callable[..., list[Path]]:
    """``wheels_with("rlcore-ppo")``: the wheels of members and of all members that they require; no index has them."""
    return lambda *names: [wheels[name] for name in sorted(required(*names))]


@pytest.fixture(scope="session")
def tested(shared_venv: Callable[..., Venv], bare: Venv, wheels: Mapping[str, Path]) -> Venv:
    """The core, and what tests need."""
    return shared_venv("pytest", "hypothesis", wheels["rlcore-devkit"], below=bare)


@pytest.fixture(scope="session")
def with_torch(shared_venv: Callable[..., Venv], wheels: Mapping[str, Path], tested: Venv) -> Venv:
    """The core with rlcore-torch."""
    return shared_venv(wheels["rlcore-torch"], below=tested)


@pytest.fixture(scope="session")
def with_plugin(
    shared_venv: Callable[..., Venv],
    wheels: Mapping[str, Path],
    tested: Venv,
    request: pytest.FixtureRequest,
) -> Callable[[str], Venv]:
    """``with_plugin("rlcore-ppo")``: the core, this member with what its plugins need, and members that it requires."""

    def with_plugin(name: str) -> Venv:
        (member,) = (member for member in MEMBERS if member.name == name)
        needed = required(name, *member.in_torch)
        # PyTorch is installed once.
        below = request.getfixturevalue("with_torch") if "rlcore-torch" in needed else tested
        more = sorted(needed - below.distributions().keys())
        wanted = (complete(wheels, each) if each == name else wheels[each] for each in more)
        return shared_venv(*wanted, below=below) if more else below

    return with_plugin
