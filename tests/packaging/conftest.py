"""Wheels of every member, and virtual environments that hold some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from virtualenvs import Venv, build_wheels
from workspace import CORE, MEMBERS


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheel of every member, by the member's name."""
    directory = tmp_path_factory.mktemp("wheels")
    built = build_wheels(directory, *(member.directory for member in MEMBERS))
    return {member.name: wheel for member, wheel in zip(MEMBERS, built, strict=True)}


@pytest.fixture(scope="session")
def chosen(deep: bool) -> str:
    """The expression of markers for tests that run again where nothing else is installed; empty, so all, if deep."""
    return "" if deep else "smoke"


@pytest.fixture(scope="session")
def make_venv(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Venv]:
    """``make_venv(*requirements, below=...)``"""

    def make(*requirements: str | Path, below: Venv | None = None) -> Venv:
        made = Venv.make(tmp_path_factory.mktemp("venv"), below)
        if requirements:
            made.install(*requirements)
        return made

    return make


@pytest.fixture(scope="session")
def bare(make_venv: Callable[..., Venv], wheels: Mapping[str, Path]) -> Venv:
    """The core, and nothing beside it."""
    return make_venv(wheels[CORE.name])


@pytest.fixture(scope="session")
def tested(make_venv: Callable[..., Venv], bare: Venv) -> Venv:
    """The core, and what tests need."""
    return make_venv("pytest", "hypothesis", below=bare)


@pytest.fixture(scope="session")
def with_torch(make_venv: Callable[..., Venv], wheels: Mapping[str, Path], tested: Venv) -> Venv:
    """The core with its extra ``torch``."""
    return make_venv(f"rlcore[torch] @ {wheels[CORE.name].as_uri()}", below=tested)


@pytest.fixture(scope="session")
def with_plugin(
    make_venv: Callable[..., Venv], wheels: Mapping[str, Path], tested: Venv, request: pytest.FixtureRequest
) -> Callable[[str], Venv]:
    """``with_plugin("rlcore-ppo")``: the core and that one plugin."""
    made: dict[str, Venv] = {}
    members = {member.name: member for member in MEMBERS}

    def with_plugin(name: str) -> Venv:
        if name not in made:
            asked = any(text.startswith("rlcore[torch]") for text in members[name].requirements)
            below = request.getfixturevalue("with_torch") if asked else tested  # PyTorch is installed once
            made[name] = make_venv(wheels[name], below=below)
        return made[name]

    return with_plugin
