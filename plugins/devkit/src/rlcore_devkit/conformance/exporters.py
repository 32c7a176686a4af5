"""The rules of :class:`rlcore.Exporter` as tests for authors of exporters to inherit.

::

    class TestMyExporter(ExporterConformance):
        exporter = "acme-export/pt2"

        def load(self, path):
            program = torch.export.load(path).module()
            return lambda observations, action_mask, memory: program(...)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import (
    Actions,
    BehaviorSpec,
    ExportAbout,
    Exporter,
    ExporterSpec,
    ObservationSpec,
    UnsupportedExport,
)
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal, copied, global_generators
from rlcore_devkit.playing import random_mask, random_observations
from rlcore_torch import MemorySettings, NetworkSettings

_ABOUT = ExportAbout(
    run_id="walker",
    step=500,
    behavior_steps=300,
    trainer_type="ppo",
    rlcore_version="0.1.0",
    configuration_sha256="0" * 64,
)
_STATE = ObservationSpec("state", (3,), np.float32)
_WIND = ObservationSpec("wind", (2, 2), np.float64)
_ROOM = ObservationSpec("room", (4,), np.float32, "one_hot")
_TARGET = ObservationSpec("target", (2,), np.float32, goal=True)
_OTHERS = ObservationSpec("others", (5, 3), np.float32, "entities")
_CAMERA = ObservationSpec("camera", (20, 24, 3), np.uint8, "image")


def _behavior(*observations: ObservationSpec, continuous: int = 0, discrete: tuple[int, ...] = ()) -> BehaviorSpec:
    # Two parts have other bounds than -1 and 1, so that actions in another unit differ.
    low = np.array([-2.0, 0.0, -1.0], np.float32)[:continuous]
    high = np.array([1.0, 5.0, 1.0], np.float32)[:continuous]
    envs = np.arange(2)
    return BehaviorSpec("Walker", observations, continuous, discrete, low, high, env_index=envs)


BEHAVIORS: dict[str, BehaviorSpec] = {
    "vector": _behavior(_STATE, continuous=2),
    "several": _behavior(_STATE, _WIND, _ROOM, continuous=1),
    "image": _behavior(_CAMERA, _STATE, discrete=(3,)),
    "discrete": _behavior(_STATE, discrete=(4,)),
    "branches": _behavior(_STATE, discrete=(2, 3, 4)),
    "hybrid": _behavior(_STATE, continuous=3, discrete=(2, 3)),
    "entities": _behavior(_OTHERS, _STATE, _TARGET, discrete=(3,)),
    "memory": _behavior(_STATE, continuous=1, discrete=(2, 3)),
}
_MEMORY = MemorySettings(memory_size=8, sequence_length=4)


Part = NDArray[Any] | None
"""One part of a result, such as the continuous actions; None for one that the policy does not have."""


class LoadedPolicy(Protocol):
    """An exported policy that was loaded again."""

    def __call__(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None,
        memory: NDArray[np.float32] | None,
    ) -> tuple[Actions, NDArray[np.float32] | None]:
        """The most likely actions of R rows, and the memory [R, M] after them if the policy has one.

        ``observations`` are [R, *shape], of the behavior's types, ``action_mask`` is [R, mask_size].
        """


class ExporterConformance(RecordRules):
    """Tests of exporters: set ``exporter`` and override :meth:`load`.

    Attributes:
        exporter: The exporter, NAME or DIST/NAME, as installed.
        settings: The block of the exporter under ``export``.
        kinds: The behaviors that it can export, any of ``vector``, ``several`` (observations), ``image``, ``discrete``,
            ``branches``, ``hybrid``, ``entities`` (and a goal) and ``memory``; the exporter must refuse the
            others with an UnsupportedExport.
        tolerance: Largest difference of continuous actions.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = ExporterSpec
    named = "exporter"
    exporter: ClassVar[str] = ""
    kinds: ClassVar[frozenset[str]] = frozenset(BEHAVIORS)
    tolerance: ClassVar[float] = 1e-5

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = tmp_path / "export"
        self.place.mkdir()
        self.elsewhere = tmp_path / "working"
        self.elsewhere.mkdir()
        monkeypatch.chdir(self.elsewhere)

    def load(self, path: Path) -> LoadedPolicy:
        """Load the exported policy at ``path``, with another program than rlcore if possible."""
        raise NotImplementedError

    def make(self, **settings: Any) -> Exporter:
        """Create the exporter; ``settings`` override those of the class."""
        run = self.context(BEHAVIORS["vector"], directory=self.elsewhere)
        block = self.block(**settings)
        record = self.record()
        exporter: Exporter = run.plugins.create(record, settings=block, run=run)
        return exporter

    def policy(self, kind: str, seed: int = 1) -> Any:
        """Return a policy of :mod:`rlcore_torch` with random weights."""
        untrained = pytest.importorskip("rlcore_torch.policy.untrained", reason="the policies need PyTorch")
        memory = _MEMORY if kind == "memory" else None
        network = NetworkSettings(hidden_units=16, num_layers=1, normalize=True, memory=memory)
        return untrained.untrained_policy(BEHAVIORS[kind], network, seed)

    def file(self, name: str = "Walker") -> Path:
        """Return the path of an exported file, which has the suffix of the exporter."""
        return self.place / f"{name}{self.record().suffix}"

    def claimed(self) -> str:
        """Return the first behavior that the exporter can export."""
        claimed = [kind for kind in BEHAVIORS if kind in self.kinds]
        return claimed[0]

    # ------------------------------------------------------------ rules

    def test_declares_what_it_can_export(self) -> None:
        assert self.kinds and self.kinds <= BEHAVIORS.keys(), f"kinds are any of {', '.join(BEHAVIORS)}"

    @pytest.mark.parametrize("kind", list(BEHAVIORS))
    def test_an_exported_policy_acts_as_before_or_is_refused(self, kind: str) -> None:
        """For one row and for several; with masks; with memory over several steps and a new episode."""
        behavior = BEHAVIORS[kind]
        policy = self.policy(kind)
        path = self.file()
        exporter = self.make()
        if kind not in self.kinds:
            with pytest.raises(UnsupportedExport):
                exporter.export(policy, behavior, path, _ABOUT)
            assert not list(self.place.iterdir()), "an export that is refused leaves no file"
            return
        exporter.export(policy, behavior, path, _ABOUT)
        loaded = self.load(path)
        for rows in (1, 2, 7):
            self._compare(policy, loaded, behavior, rows)

    def _compare(self, policy: Any, loaded: LoadedPolicy, behavior: BehaviorSpec, rows: int) -> None:
        """Act with both policies for four steps; an episode begins in one row before the third."""
        generator = np.random.default_rng(rows)
        size = policy.memory_size
        expected_memory = np.zeros((rows, size), np.float32) if size else None
        memory = copied(expected_memory)
        for step in range(4):
            observations = random_observations(behavior, rows, generator)
            mask = random_mask(behavior, rows, generator)
            arguments = [observations, mask, True]
            if expected_memory is not None:
                if step == 2:  # a memory of zeros begins an episode
                    memory[0] = 0.0
                    expected_memory[0] = 0.0
                arguments.append(expected_memory)
            expected = policy.act(*arguments)  # overwrites its memory
            actions, memory = loaded(observations, mask, memory)
            self._close(actions.continuous, expected.continuous)
            assert_equal(actions.discrete, expected.discrete)
            if expected_memory is not None:
                assert memory is not None, "a policy with memory returns what it remembers"
                self._close(memory, expected_memory)
                memory = np.array(memory, np.float32)  # writable: a loaded policy may return a view

    def _close(self, values: Part, expected: Part) -> None:
        if values is None or expected is None:
            assert values is expected
            return
        np.testing.assert_allclose(values, expected, rtol=0, atol=self.tolerance)

    def test_writes_one_file_and_nothing_else(self) -> None:
        kind = self.claimed()
        path = self.file()
        policy = self.policy(kind)
        report = self.make().export(policy, BEHAVIORS[kind], path, _ABOUT)
        assert report is None or len(report.splitlines()) == 1, "a report is one line of text"
        assert path.is_file() and path.stat().st_size
        assert list(self.place.iterdir()) == [path]
        others = list(self.elsewhere.iterdir())
        assert not others, "an export writes nothing into the working or run directory"

    def test_exports_are_independent(self) -> None:
        """One exporter exports every policy of a run, of several behaviors and at several times."""
        kind = self.claimed()
        exporter = self.make()
        exports = []
        for seed, name in ((1, "Walker"), (2, "Other")):
            policy = self.policy(kind, seed)
            behavior = attrs.evolve(BEHAVIORS[kind], name=name)
            path = self.file(name)
            exporter.export(policy, behavior, path, _ABOUT)
            exports.append((policy, behavior, path))
        for policy, behavior, path in exports:
            self._compare(policy, self.load(path), behavior, 2)

    def test_exporting_changes_neither_the_policy_nor_global_random_numbers(self) -> None:
        """A run with exports learns what it would learn without them."""
        kind = self.claimed()
        policy = self.policy(kind)
        behavior = BEHAVIORS[kind]
        observations = random_observations(behavior, 5, np.random.default_rng(0))
        mask = random_mask(behavior, 5, np.random.default_rng(0))
        actions = copied(policy.act(observations, mask))
        generators = _generators()
        weights = copied(policy.state_dict())
        self.make().export(policy, behavior, self.file(), _ABOUT)
        after = _generators()
        assert after == generators, "an export drew from a global generator, or left another setting of PyTorch"
        assert_equal(policy.state_dict(), weights)
        assert_equal(policy.act(observations, mask), actions)

    def test_a_file_that_cannot_be_written_is_an_error(self) -> None:
        kind = self.claimed()
        missing = self.place / "missing"
        path = missing / self.file().name
        exporter = self.make()
        policy = self.policy(kind)
        with pytest.raises(Exception):  # noqa: B017, PT011  # of any kind: rlcore reports it
            exporter.export(policy, BEHAVIORS[kind], path, _ABOUT)
        assert not missing.exists()
        assert not list(self.place.iterdir())
        assert not list(self.elsewhere.iterdir())


def _generators() -> tuple[Any, ...]:
    """The states of the global generators, and the global settings of PyTorch that change what is computed."""
    torch = pytest.importorskip("torch")
    return (
        *global_generators(),
        torch.get_rng_state().tolist(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
    )
