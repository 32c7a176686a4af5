"""Reward providers as a run creates them, with demonstrations that a format of the tests keeps in memory.

The tests need no other plugin: they also run in an environment that has this distribution and rlcore alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from rlcore import (
    BehaviorSpec,
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
NAMES = ("curiosity", "gail", "rnd")


class KeptFormat:
    """Reads recordings that :func:`keep` kept, by the last part of their paths."""

    kept: dict[str, Recording] = {}

    def reads(self, path: Path) -> bool:
        return path.name in self.kept

    def stored(self) -> Mapping[str, Path]:
        return {}

    def behavior(self, path: Path, name: str) -> BehaviorSpec:
        return attrs.evolve(self.kept[path.name].behavior, name=name)

    def read(self, path: Path, name: str) -> Recording:
        return attrs.evolve(self.kept[path.name], behavior=self.behavior(path, name))

    def writer(self, path: Path, behavior: BehaviorSpec, about: Any) -> Any:
        raise NotImplementedError


class Beside:
    """A format for kept recordings, and a trainer that behaviors name and no test creates."""

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return [TrainerSpec(name="none", target="kept_recordings:none", settings="rlcore.settings:RewardSettings")]

    if find_spec("rlcore_offline"):  # only some tests need it

        @hookimpl
        def rlcore_recording_formats(self) -> list[Any]:
            from rlcore_offline import RecordingFormatSpec

            return [
                RecordingFormatSpec(name="kept", target="kept_recordings:KeptFormat", summary="recordings of tests")
            ]


@pytest.fixture(autouse=True)
def _kept() -> Iterator[None]:
    module = ModuleType("kept_recordings")
    module.KeptFormat = KeptFormat  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    yield
    del sys.modules[module.__name__]
    KeptFormat.kept.clear()


@pytest.fixture
def keep() -> Callable[[str, Recording], str]:
    """``keep("expert", recording)``: the path of the recording."""

    def keep(name: str, recording: Recording) -> str:
        KeptFormat.kept[name] = recording
        return name

    return keep


@pytest.fixture
def plugins() -> Plugins:
    """The plugin of this distribution, a trainer, and the format that reads kept recordings."""
    loaded = load_plugins(selection_from(None, {}, (), False, used=(f"{DISTRIBUTION}/rnd",)))
    loaded.register(Beside(), "beside")
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
            "torch_settings": dict(torch_settings or {}),
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
