# mypy: allow-untyped-calls
"""Replay samplers of plugins under SAC, which knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import (
    BehaviorSpec,
    ConfigError,
    PluginError,
    Plugins,
    RunContext,
    RunStateError,
    hookimpl,
    load_plugins,
    saved_count,
    setting,
)
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import TinyCorridor
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import ReplayBuffer, ReplaySampler, ReplaySamplerSettings, ReplaySamplerSpec, Sample

MakeTrainer = Callable[..., SACTrainer]


@attrs.frozen(kw_only=True)
class TestSettings(ReplaySamplerSettings):
    __test__ = False

    first: int = setting(0, "Samples before this one.", minimum=0)


class Alternating(ReplaySampler):
    """A uniform sample and the newest transition of the first agent in turn."""

    uses_td_errors = True

    def __init__(self, settings: TestSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.taken = settings.first
        self.errors: list[Any] = []

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        self.taken += 1
        rows = buffer.sample(batch_size, generator)
        if self.taken % 2:
            return Sample(rows)
        closed = np.flatnonzero(buffer.flags)
        return Sample(np.full(batch_size, closed[-1]), np.full(batch_size, 0.5, np.float32))

    def learned(self, buffer: ReplayBuffer, rows: Any, td_errors: Any) -> None:
        self.errors.append((rows, td_errors))

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self.taken}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        saved_count(state, "taken")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.taken = saved_count(state, "taken")


EMPTY = "rows of the replay buffer that hold no transition"
ROWS = "rows that are not an int64 array of 16 numbers"
WEIGHTS = "weights that are not a float32 array of 16 numbers"
NOT_POSITIVE = "weights that are not finite and positive"
# What is said of a sample, and the sample that is returned instead of these rows of the buffer.
WRONG: list[tuple[str, Callable[[ReplayBuffer, Any], Any]]] = [
    (EMPTY, lambda buffer, rows: Sample(0 * rows + buffer.head[0])),
    (EMPTY, lambda buffer, rows: Sample(0 * rows + buffer.capacity)),
    (ROWS, lambda buffer, rows: Sample(rows[1:])),
    (ROWS, lambda buffer, rows: Sample(rows * 1.0)),
    ("a ndarray instead of a Sample", lambda buffer, rows: rows),
    ("steps, but its changes_steps is False", lambda buffer, rows: Sample(rows, None, buffer.transitions(rows))),
    (WEIGHTS, lambda buffer, rows: Sample(rows, np.ones(3, np.float32))),
    (WEIGHTS, lambda buffer, rows: Sample(rows, [1.0] * 16)),  # type: ignore[arg-type]
    (NOT_POSITIVE, lambda buffer, rows: Sample(rows, np.full(16, np.nan, np.float32))),
    (NOT_POSITIVE, lambda buffer, rows: Sample(rows, np.zeros(16, np.float32))),
]


class Wrong(Alternating):
    uses_td_errors = False

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Any:
        return WRONG[self.taken][1](buffer, buffer.sample(batch_size, generator))


class Relabeling(Alternating):
    """Every reward is 5."""

    uses_td_errors = False
    changes_steps = True

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        rows = buffer.sample(batch_size, generator)
        steps = buffer.transitions(rows)
        return Sample(rows, steps=attrs.evolve(steps, reward=np.full_like(steps.reward, 5.0)))


class Samplers:
    @hookimpl
    def rlcore_replay_buffer_samplers(self) -> list[ReplaySamplerSpec]:
        settings = f"{__name__}:TestSettings"
        return [
            ReplaySamplerSpec(name=cls.__name__.lower(), target=f"{__name__}:{cls.__name__}", settings=settings)
            for cls in (Alternating, Wrong, Relabeling)
        ]


@pytest.fixture
def plugins() -> Plugins:
    loaded = load_plugins()
    loaded.register(Samplers(), "samplers")
    return loaded


BASE = {"batch_size": 16, "save_replay_buffer": True, "buffer_init_steps": 20}


def made(make_trainer: MakeTrainer, plugins: Plugins, sampler: dict[str, Any] | None, **more: Any) -> SACTrainer:
    return make_trainer(TinyCorridor(2), plugins=plugins, replay_sampler=sampler, **BASE, **more)


def test_a_sampler_gets_the_errors_of_its_rows(
    make_trainer: MakeTrainer, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = made(make_trainer, plugins, {"type": "alternating"})
    weights = []
    read = trainer.reader.read

    def seen(rows: Any, weight: Any, steps: Any) -> Any:
        weights.append((rows, weight))
        return read(rows, weight, steps)

    monkeypatch.setattr(trainer.reader, "read", seen)
    learn(trainer, TinyCorridor(2), 40)
    received = trainer.sampler.errors  # type: ignore[attr-defined]
    assert len(received) == len(weights) == trainer.gradient_steps > 20
    for k, ((rows, weight), (learned, errors)) in enumerate(zip(weights, received, strict=True), 1):
        assert rows is learned and errors.shape == (16,)
        assert (weight == (1.0 if k % 2 else 0.5)).all() and (k % 2 or len(set(rows)) == 1)


def test_learning_goes_on_bit_for_bit_with_the_state_of_the_sampler(
    make_trainer: MakeTrainer, plugins: Plugins
) -> None:
    sampler = {"type": "alternating"}
    whole, resumed, forgetful = (made(make_trainer, plugins, sampler, learning_rate=1e-3) for _ in range(3))
    learn(whole, TinyCorridor(2), 35)
    whole.sampler.taken += 1  # type: ignore[attr-defined]
    state = copied(whole.state_dict())
    assert state["sampler"] == {"type": "alternating", "state": {"taken": whole.gradient_steps + 1}}
    assert whole.gradient_steps % 2 == 0
    resumed.load_state_dict(copied(state))
    state["sampler"]["state"]["taken"] = 0
    forgetful.load_state_dict(state)
    for trainer in (whole, resumed, forgetful):
        learn(trainer, TinyCorridor(2), 20, seed=2)
    assert_equal(whole.state_dict(), resumed.state_dict())
    with pytest.raises(AssertionError):
        assert_equal(whole.state_dict()["model"], forgetful.state_dict()["model"])


def test_another_sampler_cannot_resume(make_trainer: MakeTrainer, plugins: Plugins) -> None:
    state = copied(made(make_trainer, plugins, {"type": "alternating"}).state_dict())
    with pytest.raises(RunStateError, match=r"replay_sampler.type 'alternating' and this run has 'uniform'"):
        made(make_trainer, plugins, None).load_state_dict(state)
    state["sampler"]["state"]["taken"] = "many"
    with pytest.raises(RunStateError, match="taken"):
        made(make_trainer, plugins, {"type": "alternating"}).load_state_dict(state)


def test_changed_transitions_are_what_is_learned(
    make_trainer: MakeTrainer, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = made(make_trainer, plugins, {"type": "relabeling"})
    rewards = []
    step = trainer.gradient_step
    monkeypatch.setattr(trainer, "gradient_step", lambda batch: rewards.append(batch.reward) or step(batch))
    learn(trainer, TinyCorridor(2), 40)
    assert len(rewards) > 20 and all((reward == 5.0).all() for reward in rewards)
    with pytest.raises(ConfigError, match=r"n_steps: must be 1 with replay_sampler 'relabeling'.*, not 3"):
        made(make_trainer, plugins, {"type": "relabeling"}, n_steps=3)


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_wrong_sample_ends_with_the_name_of_the_plugin(
    make_trainer: MakeTrainer, plugins: Plugins, case: int
) -> None:
    trainer = made(make_trainer, plugins, {"type": "wrong", "first": case})
    with pytest.raises(PluginError) as refused:
        learn(trainer, TinyCorridor(2), 40)
    assert (
        str(refused.value) == f"replay_sampler 'wrong' of plugin 'samplers' (local): sample returned {WRONG[case][0]}"
    )
