"""The core's own reward and writer keep the rules of every one; a broken rule is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.rewards import Transitions
from rlcore.contracts.stats import StatsWriter
from rlcore.plugins.core import ExtrinsicReward
from rlcore_devkit import RewardProviderConformance, StatsWriterConformance
from rlcore_devkit.conformance.writers import Written


class TestExtrinsic(RewardProviderConformance):
    reward = "rlcore/extrinsic"


class TestJsonl(StatsWriterConformance):
    writer = "jsonl"

    def read(self, directory: Path) -> list[Written]:
        lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [(line["behavior"], line["step"], line["stats"]) for line in map(json.loads, lines)]


# ---------------------------------------------------------------- broken on purpose


class Doubles(ExtrinsicReward):
    def evaluate(self, transitions: Transitions) -> Any:
        return transitions.reward.astype(np.float64)


class Scribbles(ExtrinsicReward):
    def update(self, transitions: Transitions) -> Mapping[str, float]:
        transitions.reward[...] = 0
        return {}


class ScribblesOnActions(ExtrinsicReward):
    def update(self, transitions: Transitions) -> Mapping[str, float]:
        transitions.actions.discrete[...] = 0
        return {}


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Doubles, "test_rewards_are_finite_and_one_for_each_transition"),
        (Scribbles, "test_what_it_is_shown_stays_as_it_is"),
        (ScribblesOnActions, "test_what_it_is_shown_stays_as_it_is"),
    ],
)
def test_a_broken_reward_is_noticed(tmp_path: Path, broken: type[ExtrinsicReward], rule: str) -> None:
    class Conformance(RewardProviderConformance):
        reward = "extrinsic"

        def make(self, **settings: Any) -> ExtrinsicReward:
            return broken()

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError):
        getattr(conformance, rule)()


def buffers(writer: StatsWriter) -> None:
    calls: list[Any] = []
    write = writer.write
    close = writer.close
    writer.write = lambda *call: calls.append(call)  # type: ignore[method-assign]

    def broken() -> None:
        for call in calls:
            write(*call)
        close()

    writer.close = broken  # type: ignore[method-assign]


def confuses_behaviors(writer: StatsWriter) -> None:
    write = writer.write
    writer.write = lambda behavior, *rest: write("Walker", *rest)  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (buffers, "test_what_was_written_can_be_read_before_the_writer_is_closed"),
        (confuses_behaviors, "test_behaviors_are_kept_apart"),
    ],
)
def test_a_broken_writer_is_noticed(tmp_path: Path, broken: Callable[[StatsWriter], None], rule: str) -> None:
    class Conformance(TestJsonl):
        def make(self, resumed_steps: Mapping[str, int] | None = None) -> StatsWriter:
            writer = super().make(resumed_steps)
            broken(writer)
            return writer

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError):
        getattr(conformance, rule)()
