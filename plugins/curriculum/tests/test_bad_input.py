"""Each mistake in a file gives one line with its place, compared completely; what is right is read as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import dump_config
from rlcore_curriculum.criterion_settings import CriterionSettings
from rlcore_curriculum.lesson_settings import LessonSettings, LessonsSettings
from rlcore_curriculum.sampler_settings import SamplerSettings

RULES = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))
SHORT = RULES["files"]["short"]
TYPED = RULES["files"]["typed"]


@pytest.mark.parametrize("mistake", RULES["mistakes"])
def test_a_mistake_is_one_line(errors: Any, mistake: str) -> None:
    case = RULES["mistakes"][mistake]
    text = RULES["files"][case["file"]]
    assert text.count(case["replace"]) == 1
    assert errors(text.replace(case["replace"], case["with"])) == [case["answer"]]


def test_parameters_of_evaluations_are_checked_in_their_block(errors: Any) -> None:
    text = "evaluation: {interval: 9, environment: {type: still}, environment_parameters: {p: {sampler_type: x}}}\n"
    assert errors(text) == [
        "c.yaml:1: evaluation.environment_parameters.p.sampler_type: unknown sampler 'x'; allowed: constant, gaussian, "
        "multirangeuniform, uniform"
    ]


def test_what_is_right_is_read_as_it_is_written_with_the_defaults_of_ml_agents(load: Any) -> None:
    config = load(SHORT)
    blocks = {name: parameter.curriculum for name, parameter in config.environment_parameters.items()}
    first = CriterionSettings(
        behavior="B", measure="reward", threshold=0.5, min_lesson_length=10, signal_smoothing=True, require_reset=False
    )
    second = CriterionSettings(behavior="B", measure="progress", threshold=0.5, min_lesson_length=0)
    uniform = SamplerSettings(sampler_type="uniform", sampler_parameters={"min_value": 1, "max_value": 2})
    gaussian = SamplerSettings(sampler_type="gaussian", sampler_parameters={"mean": 9.8, "st_dev": 1})
    lessons = (
        LessonSettings(name="Short", value=1.0, completion_criteria=first),
        LessonSettings(name="Mid", value=uniform, completion_criteria=second),
        LessonSettings(name="Long", value=3.0),
    )
    assert blocks == {
        "length": LessonsSettings(lessons=lessons),
        "gravity": LessonsSettings(lessons=(LessonSettings(name="gravity", value=gaussian),)),
        "mass": LessonsSettings(lessons=(LessonSettings(name="mass", value=2.0),)),
    }
    assert CriterionSettings(behavior="B").threshold == 0.0


def test_a_demotion_takes_from_the_only_criterion_what_it_does_not_say(load: Any) -> None:
    lessons = load(TYPED.replace("behavior: B, threshold: 5}", "behavior: C, measure: group_reward, threshold: 5}"))
    demotion = lessons.environment_parameters["length"].curriculum.lessons[1].demotion_criterion
    assert demotion == CriterionSettings(behavior="C", measure="group_reward", threshold=1.0, min_lesson_length=2)


@pytest.mark.parametrize("file", ["short", "typed"])
def test_a_configuration_is_written_down_as_it_is_read(load: Any, file: str) -> None:
    config = load(RULES["files"][file])
    again = load(yaml.safe_dump(dump_config(config)))
    assert again.environment_parameters == config.environment_parameters
