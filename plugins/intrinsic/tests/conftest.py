"""Reward providers as a run creates them, with demonstrations that the tests keep in memory.

The tests need no other plugin: they also run in an environment that has this distribution and rlcore alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from rlcore import (
    BehaviorSpec,
    ConfigError,
    Plugins,
    Recording,
    RunContext,
    TrainerSpec,
    Transitions,
    config_from_mapping,
    hookimpl,
    load_plugins,
    selection_from,
)
from rlcore_devkit.conformance.rewards import random_transitions
from rlcore_devkit.playing import random_recording

DISTRIBUTION = "rlcore-intrinsic"


class Beside:
    """A plugin with recordings that tests keep, by name, and a trainer that behaviors name and no test creates."""

    def __init__(self) -> None:
        self.kept: dict[str, Recording] = {}

    def read(self, path: str | Path, behavior: str, start: Path = Path()) -> Recording:
        if str(path) not in self.kept:
            raise ConfigError(f"recording {str(path)!r}: no such path or name")
        recording = self.kept[str(path)]
        return attrs.evolve(recording, behavior=attrs.evolve(recording.behavior, name=behavior))

    @hookimpl
    def rlcore_create_recordings(self) -> Any:
        return self

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return [TrainerSpec(name="none", target="math:inf", settings="rlcore.settings:RewardSettings")]


@pytest.fixture
def beside() -> Beside:
    return Beside()


@pytest.fixture
def keep(beside: Beside) -> Callable[[str, Recording], None]:
    """``keep("expert", recording)`` keeps a recording for this path."""
    return beside.kept.__setitem__


@pytest.fixture
def plugins(beside: Beside) -> Plugins:
    """The plugin of this distribution, a trainer, and the recordings that are kept."""
    loaded = load_plugins(selection_from(None, {}, (), False, used=(f"{DISTRIBUTION}/rnd",)))
    loaded.register(beside, "beside")
    return loaded


@pytest.fixture
def make(plugins: Plugins, tmp_path: Path) -> Callable[..., Any]:
    """``make("rnd", behavior, gamma=0.9)``: the provider; ``seed``, ``purpose`` and ``torch_settings`` of the run."""

    def make(
        name: str,
        behavior: BehaviorSpec,
        *,
        seed: int = 1,
        purpose: Any = "train",
        torch_settings: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        document = {
            "default_settings": {"trainer_type": "none", "reward_signals": {name: settings}},
            "behaviors": {behavior.name: {}},
            **({"torch_settings": dict(torch_settings)} if torch_settings else {}),
        }
        config = config_from_mapping(document, plugins)
        block = config.behaviors[behavior.name]
        run = RunContext(config, plugins, tmp_path, seed, 1, purpose=purpose)
        [provider] = run.create_reward_providers(behavior, block)
        return provider

    return make


@pytest.fixture
def recording_of() -> Callable[[BehaviorSpec], Recording]:
    """``recording_of(behavior)``: three episodes with random values."""
    return lambda behavior: random_recording(behavior, (7, 4, 9))


@pytest.fixture
def transitions_of() -> Callable[..., Transitions]:
    """See :func:`random_transitions`."""
    return random_transitions
