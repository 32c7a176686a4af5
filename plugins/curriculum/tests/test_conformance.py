"""Lessons and samplers keep the rules of every curriculum and sampler; a broken rule of samplers is noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs
import pytest

from rlcore_curriculum.testing import SamplerConformance
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


# ---------------------------------------------------------------- samplers


class TestConstant(SamplerConformance):
    sampler = "rlcore-curriculum/constant"
    parameters = {"value": 3.0}
    low = high = 3.0


class TestUniform(SamplerConformance):
    sampler = "uniform"
    parameters = {"min_value": -1e308, "max_value": 1.7e308}
    low = -1e308
    high = 1.7e308


class TestGaussian(SamplerConformance):
    sampler = "gaussian"
    parameters = {"mean": 2.0, "st_dev": 0.5}


class TestMultiRangeUniform(SamplerConformance):
    sampler = "multirangeuniform"
    parameters = {"intervals": [[0.0, 1.0], [4.0, 4.5]]}
    low = 0.0
    high = 4.5


# ---------------------------------------------------------------- broken on purpose


@attrs.define
class Broken:
    """Computes values from random numbers and from the last value before them."""

    function: Callable[[Any, float], Any]
    last: float = 0.0

    def sample(self, uniforms: Any) -> Any:
        values = self.function(uniforms, self.last)
        self.last = float(values[-1]) if len(values) else self.last
        return values


def scribbles(uniforms: Any, last: float) -> Any:
    values = uniforms.copy()
    uniforms[:] = 0.5
    return values


ONE_VALUE = "test_each_number_gives_one_finite_value_within_the_bounds"
ALONE = "test_a_value_depends_on_its_number_alone"
CHANGES = "test_sampling_changes_neither_its_argument_nor_global_random_numbers"


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (lambda uniforms, last: uniforms + 0.1, ONE_VALUE),
        (lambda uniforms, last: uniforms * 0.5 + last / 2, ALONE),
        (scribbles, CHANGES),
    ],
)
def test_a_broken_sampler_is_noticed(monkeypatch: pytest.MonkeyPatch, broken: Any, rule: str) -> None:
    class Conformance(SamplerConformance):
        sampler = "uniform"
        low = 0.0
        high = 1.0

    monkeypatch.setattr("rlcore_curriculum.samplers.UniformSampler", lambda settings: Broken(broken))
    with pytest.raises(AssertionError):
        getattr(Conformance(), rule)()
