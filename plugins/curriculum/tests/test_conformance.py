"""Lessons pass the conformance tests of curricula in rlcore_devkit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from rlcore_devkit import CurriculumConformance, PluginConformance

pytestmark = pytest.mark.smoke

CRITERION = {"behavior": "Agent", "threshold": 1.0, "min_lesson_length": 5}
UNIFORM = {"sampler_type": "uniform", "sampler_parameters": {"max_value": 3}}
GAUSSIAN = {"sampler_type": "gaussian"}


def lessons(*criteria: Mapping[str, Any], demotion: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Two or more lessons, one of them with a constant."""
    values = [UNIFORM, 2.0, GAUSSIAN, UNIFORM]
    made: list[dict[str, Any]] = [
        {"name": f"L{number}", "value": values[number], "completion_criteria": dict(criterion)}
        for number, criterion in enumerate(criteria)
    ]
    made.append({"name": "Last", "value": values[len(criteria)]})
    if demotion:
        made[1]["demotion"] = dict(demotion)
    return {"lessons": made}


class TestPlugin(PluginConformance):
    plugin = "curriculum"


class TestLessons(CurriculumConformance):
    curriculum = "lessons"
    blocks: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "length": lessons(CRITERION, CRITERION, CRITERION),
        "mass": lessons(
            {"behavior": "Agent", "measure": "progress", "threshold": 0.01},
            {"behavior": "Agent", "measure": "stat:Environment/Cumulative Reward", "threshold": 0.0},
            demotion={"behavior": "Agent", "measure": "reward", "threshold": 0.5, "min_lesson_length": 2},
        ),
        "gravity": lessons(),
    }


class TestLegacyLessons(CurriculumConformance):
    curriculum = "rlcore-curriculum/lessons"
    blocks: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "length": lessons(CRITERION, {"behavior": "Agent", "measure": "progress", "threshold": 0.02})
        | {"smoothing": "legacy"},
        "mass": lessons(CRITERION, CRITERION),
    }
