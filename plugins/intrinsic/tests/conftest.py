"""Reward providers as a run creates them, with demonstrations that a format of the tests keeps in memory.

The tests need no other plugin: they also run in an environment that has this distribution and rlcore alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import (
    Actions,
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
from rlcore_offline import RecordingFormatSpec

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

    @hookimpl
    def rlcore_recording_formats(self) -> list[RecordingFormatSpec]:
        return [RecordingFormatSpec(name="kept", target="kept_recordings:KeptFormat", summary="recordings of tests")]


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


def random_transitions(behavior: BehaviorSpec, lead: tuple[int, ...], seed: int = 0) -> Transitions:
    """Return transitions with random values and the leading shape ``lead``."""
    random = np.random.default_rng(seed)

    def values() -> dict[str, Any]:
        return {
            o.name: (random.random((*lead, *o.shape)) * (255 if o.dtype.kind == "u" else 1)).astype(o.dtype)
            for o in behavior.observations
        }

    terminated = random.random(lead) < 0.2
    observations, following = values(), values()
    return Transitions(
        observations=observations,
        actions=Actions(
            random.uniform(-1, 1, (*lead, behavior.continuous)).astype(np.float32) if behavior.continuous else None,
            random.integers(behavior.discrete, size=(*lead, len(behavior.discrete))) if behavior.discrete else None,
        ),
        reward=random.standard_normal(lead).astype(np.float32),
        terminated=terminated,
        truncated=(random.random(lead) < 0.2) & ~terminated,
        following=lambda: following,
    )


def random_recording(behavior: BehaviorSpec, lengths: tuple[int, ...] = (7, 4, 9), seed: int = 5) -> Recording:
    """Return a recording with random values, of which every other episode terminated."""
    count, ends = sum(lengths), np.cumsum(lengths) - 1
    shown = random_transitions(behavior, (count + len(lengths),), seed)
    acted = random_transitions(behavior, (count,), seed + 1)
    terminated = np.zeros(count, np.bool_)
    terminated[ends[::2]] = True
    truncated = np.zeros(count, np.bool_)
    truncated[ends[1::2]] = True
    return Recording(
        attrs.evolve(behavior, env_index=np.zeros(1, np.int64)),
        dict(shown.observations), acted.actions, acted.reward, terminated, truncated, np.array(lengths),
    )  # fmt: skip


@pytest.fixture
def recording_of() -> Callable[..., Recording]:
    """See :func:`random_recording`."""
    return random_recording


@pytest.fixture
def transitions_of() -> Callable[..., Transitions]:
    """See :func:`random_transitions`."""
    return random_transitions
