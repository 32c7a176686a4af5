"""Each mistake in a file gives one line with its place; every line is compared completely."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import dump_config
from rlcore_curriculum.criterion_settings import CriterionSettings, DemotionSettings
from rlcore_curriculum.lesson_settings import LessonSettings, LessonsSettings
from rlcore_curriculum.sampler_settings import SamplerSettings

TEXT = """environment_parameters:
  length:
    curriculum:
      - name: Short
        value: 1
        completion_criteria:
          behavior: B
          measure: reward
          threshold: 0.5
          min_lesson_length: 10
      - name: Mid
        value:
          sampler_type: uniform
          sampler_parameters: {min_value: 1, max_value: 2}
        completion_criteria: {behavior: B, measure: progress, threshold: 0.5}
      - name: Long
        value: 3
  gravity:
    sampler_type: gaussian
    sampler_parameters: {mean: 9.8, st_dev: 1}
  mass: 2
"""
TYPED = """environment_parameters:
  length:
    curriculum:
      type: lessons
      lessons:
        - {name: Short, value: 1, completion_criteria: {behavior: B, threshold: 5, min_lesson_length: 2}}
        - name: Mid
          value: 2
          completion_criteria: {behavior: B, threshold: 5}
          demotion: {threshold: 1, min_lesson_length: 2}
        - {name: Long, value: 3}
"""
MEASURES = "must be one of reward, progress, group_reward, stat:TAG"
NONE_FOLLOWS = "delete it (ML-Agents ignores it)"
NEEDED = "missing; every lesson but the last needs it, or the next one never comes"
IN_UNIT = "must be in [0, 1] if the measure is progress"
SAMPLERS = "constant, gaussian, multirangeuniform, uniform"
LENGTH, MASS = "environment_parameters.length.curriculum", "environment_parameters.mass"
CRITERIA = f"{LENGTH}[0].completion_criteria"
MULTI = "  mass:\n    sampler_type: multirangeuniform\n    sampler_parameters: {intervals: "
LESSONS = f"{LENGTH}.lessons"
CASES = {
    "a last lesson with a criterion": (
        TEXT, "        value: 3\n", "        value: 3\n        completion_criteria: {behavior: B}\n",
        f"c.yaml:18: {LENGTH}[2].completion_criteria: no lesson follows 'Long'; {NONE_FOLLOWS}",
    ),
    "an only lesson with a criterion": (
        TEXT, "  mass: 2\n",
        "  mass:\n    curriculum:\n      - {name: A, value: 1, completion_criteria: {behavior: B}}\n",
        f"c.yaml:23: {MASS}.curriculum[0].completion_criteria: no lesson follows 'A'; {NONE_FOLLOWS}",
    ),
    "a lesson without a criterion": (
        TEXT, "        completion_criteria: {behavior: B, measure: progress, threshold: 0.5}\n", "",
        f"c.yaml:11: {LENGTH}[1].completion_criteria: {NEEDED}",
    ),
    "no criterion in a list": (
        TEXT, "{behavior: B, measure: progress, threshold: 0.5}", "[]",
        f"c.yaml:15: {LENGTH}[1].completion_criteria: {NEEDED}",
    ),
    "no lesson": (
        TEXT, "  mass: 2\n", "  mass: {curriculum: []}\n",
        "c.yaml:21: environment_parameters.mass.curriculum: there must be at least one",
    ),
    "progress above one": (
        TEXT, "measure: progress, threshold: 0.5", "measure: progress, threshold: 1.5",
        f"c.yaml:15: {LENGTH}[1].completion_criteria.threshold: {IN_UNIT}, not 1.5",
    ),
    "progress below zero": (
        TEXT, "measure: progress, threshold: 0.5", "measure: progress, threshold: -0.1",
        f"c.yaml:15: {LENGTH}[1].completion_criteria.threshold: {IN_UNIT}, not -0.1",
    ),
    "a threshold that is not a number": (
        TEXT, "          threshold: 0.5\n", "          threshold: .inf\n",
        f"c.yaml:9: {CRITERIA}.threshold: must be a finite number, not inf",
    ),
    "an unknown behavior": (
        TEXT, "          behavior: B\n", "          behavior: Bb\n",
        f"c.yaml:7: {CRITERIA}.behavior: unknown behavior 'Bb'; did you mean 'B'? (known: B, C)",
    ),
    "a behavior with a team": (
        TEXT, "          behavior: B\n", "          behavior: B?team=0\n",
        f"c.yaml:7: {CRITERIA}.behavior: unknown behavior 'B?team=0' (known: B, C)",
    ),
    "no behavior": (
        TEXT, "          behavior: B\n", "", f"c.yaml:6: {CRITERIA}.behavior: missing; it has no default",
    ),
    "an unknown measure": (
        TEXT, "measure: reward", "measure: rewrd",
        f"c.yaml:8: {CRITERIA}.measure: {MEASURES}, not 'rewrd'; did you mean 'reward'?",
    ),
    "a measure of ML-Agents' documentation": (
        TEXT, "measure: reward", "measure: Elo",
        f"c.yaml:8: {CRITERIA}.measure: {MEASURES}, not 'Elo'; a rating is a statistic: stat:Self-play/ELO",
    ),
    "a statistic without a tag": (
        TEXT, "measure: reward", "measure: 'stat:'",
        f"c.yaml:8: {CRITERIA}.measure: {MEASURES}, not 'stat:'; did you mean 'stat:TAG'?",
    ),
    "a misspelled key": (
        TEXT, "min_lesson_length: 10", "min_leson_length: 10",
        f"c.yaml:10: {CRITERIA}.min_leson_length: unknown key; did you mean 'min_lesson_length'? (allowed: behavior, "
        "measure, threshold, min_lesson_length, signal_smoothing, require_reset)",
    ),
    "a negative length": (
        TEXT, "min_lesson_length: 10", "min_lesson_length: -1",
        f"c.yaml:10: {CRITERIA}.min_lesson_length: must be at least 0, not -1",
    ),
    "a criterion within a list": (
        TEXT, "{behavior: B, measure: progress, threshold: 0.5}", "[{behavior: B}, {behavior: D, threshold: 1}]",
        f"c.yaml:15: {LENGTH}[1].completion_criteria[1].behavior: unknown behavior 'D' (known: B, C)",
    ),
    "a type within a list": (
        TEXT, "{behavior: B, measure: progress, threshold: 0.5}", "[{behavior: B}, {behavior: B, threshold: x}]",
        f"c.yaml:15: {LENGTH}[1].completion_criteria[1].threshold: must be a finite number, not 'x'",
    ),
    "criteria of another shape": (
        TEXT, "{behavior: B, measure: progress, threshold: 0.5}", "0.5",
        f"c.yaml:15: {LENGTH}[1].completion_criteria: must be a mapping of settings or a list or null, not 0.5",
    ),
    "a lesson without a value": (
        TEXT, "        value: 3\n", "",
        "c.yaml:16: environment_parameters.length.curriculum[2].value: missing; it has no default",
    ),
    "a value that is not a number": (
        TEXT, "        value: 3\n", "        value: far\n",
        f"c.yaml:17: {LENGTH}[2].value: must be a finite number or a mapping of settings, not 'far'",
    ),
    "a lesson without a name": (
        TEXT, "      - name: Long\n        value: 3\n", "      - value: 3\n",
        "c.yaml:16: environment_parameters.length.curriculum[2].name: missing; it has no default",
    ),
    # ---------------------------------------------------------------- samplers
    "an unknown sampler in a lesson": (
        TEXT, "sampler_type: uniform", "sampler_type: unifrom",
        f"c.yaml:13: {LENGTH}[1].value.sampler_type: unknown sampler 'unifrom'; allowed: {SAMPLERS}; did you mean "
        "'uniform'?",
    ),
    "an unknown sampler": (
        TEXT, "sampler_type: gaussian", "sampler_type: gausian",
        f"c.yaml:19: environment_parameters.gravity.sampler_type: unknown sampler 'gausian'; allowed: {SAMPLERS}; did "
        "you mean 'gaussian'?",
    ),
    "an unknown parameter of a sampler": (
        TEXT, "st_dev: 1", "st_dve: 1",
        "c.yaml:20: environment_parameters.gravity.sampler_parameters.st_dve: unknown key; did you mean 'st_dev'? "
        "(allowed: seed, mean, st_dev)",
    ),
    "a negative deviation": (
        TEXT, "st_dev: 1", "st_dev: -1",
        "c.yaml:20: environment_parameters.gravity.sampler_parameters.st_dev: must be at least 0, not -1",
    ),
    "a minimum above the maximum": (
        TEXT, "min_value: 1, max_value: 2", "min_value: 2.5, max_value: 2",
        "c.yaml:14: environment_parameters.length.curriculum[1].value.sampler_parameters.min_value: must be at most "
        "max_value (2), not 2.5",
    ),
    "an interval the wrong way round": (
        TEXT, "  mass: 2\n", f"{MULTI}[[0, 1], [3, 2]]}}\n",
        f"c.yaml:23: {MASS}.sampler_parameters.intervals: the lower bound must be at most the upper, not [3, 2]",
    ),
    "no interval": (
        TEXT, "  mass: 2\n", f"{MULTI}[]}}\n",
        f"c.yaml:23: {MASS}.sampler_parameters.intervals: there must be at least one",
    ),
    "an interval with one end": (
        TEXT, "  mass: 2\n", f"{MULTI}[[0]]}}\n",
        f"c.yaml:23: {MASS}.sampler_parameters.intervals[0]: must be a list of 2 values, not [0]",
    ),
    "a seed below -1": (
        TEXT, "st_dev: 1", "seed: -2",
        "c.yaml:20: environment_parameters.gravity.sampler_parameters.seed: must be at least -1, not -2",
    ),
    # ---------------------------------------------------------------- features that ML-Agents does not have
    "demotion in the first lesson": (
        TYPED, "{name: Short, value: 1,", "{name: Short, value: 1, demotion: {threshold: 1, min_lesson_length: 2},",
        f"c.yaml:6: {LESSONS}[0].demotion: no lesson precedes 'Short'; delete it",
    ),
    "demotion without a length": (
        TYPED, "demotion: {threshold: 1, min_lesson_length: 2}", "demotion: {threshold: 1}",
        f"c.yaml:10: {LESSONS}[1].demotion.min_lesson_length: missing; it has no default",
    ),
    "demotion without hysteresis": (
        TYPED, "demotion: {threshold: 1, min_lesson_length: 2}", "demotion: {threshold: 5, min_lesson_length: 2}",
        f"c.yaml:10: {LESSONS}[1].demotion.threshold: must be less than that of completion_criteria (5), not 5; "
        "between the two the lesson stays",
    ),
    "demotion of the last lesson without a behavior": (
        TYPED, "{name: Long, value: 3}", "{name: Long, value: 3, demotion: {threshold: 1, min_lesson_length: 2}}",
        f"c.yaml:11: {LESSONS}[2].demotion.behavior: missing; there is no single criterion to take it from",
    ),
    "demotion by an unknown behavior": (
        TYPED, "demotion: {", "demotion: {behavior: X, ",
        f"c.yaml:10: {LESSONS}[1].demotion.behavior: unknown behavior 'X' (known: B, C)",
    ),
    "demotion by progress": (
        TYPED, "demotion: {", "demotion: {measure: progress, ",
        f"c.yaml:10: {LESSONS}[1].demotion.measure: progress never falls",
    ),
    "demotion by the progress of the criterion": (
        TYPED, "completion_criteria: {behavior: B, threshold: 5}\n",
        "completion_criteria: {behavior: B, measure: progress}\n",
        f"c.yaml:10: {LESSONS}[1].demotion.measure: missing; that of completion_criteria is progress, which never "
        "falls",
    ),
    "legacy arithmetic with another measure": (
        TEXT, "  length:\n",
        "  length:\n    curriculum: {smoothing: legacy, lessons: [{name: A, value: 1, completion_criteria: {behavior: "
        "B, measure: group_reward}}, {name: B, value: 2}]}\n  other:\n",
        f"c.yaml:3: {LESSONS}[0].completion_criteria.measure: 'group_reward' is not in ML-Agents; delete smoothing: "
        "legacy to use it",
    ),
    "legacy arithmetic with a demotion": (
        TYPED, "      type: lessons\n", "      smoothing: legacy\n",
        f"c.yaml:10: {LESSONS}[1].demotion: ML-Agents has no demotion; delete smoothing: legacy to use it",
    ),
    "an unknown arithmetic": (
        TYPED, "      type: lessons\n", "      smoothing: legcy\n",
        f"c.yaml:4: {LENGTH}.smoothing: must be one of episodes, legacy, not 'legcy'; did you mean 'legacy'?",
    ),
    "legacy arithmetic with several criteria": (
        TYPED.replace("          demotion: {threshold: 1, min_lesson_length: 2}\n", "").replace(
            "lessons\n", "lessons\n      smoothing: legacy\n", 1),
        "{behavior: B, threshold: 5}\n", "[{behavior: B, threshold: 5}, {behavior: C}]\n",
        f"c.yaml:10: {LESSONS}[1].completion_criteria: ML-Agents has one criterion; delete smoothing: legacy to use "
        "several",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", CASES)
def test_a_mistake_is_one_line(errors: Any, mistake: str) -> None:
    text, old, new, message = CASES[mistake]
    assert text.count(old) == 1
    assert errors(text.replace(old, new)) == [message]


def test_parameters_of_evaluations_are_checked_in_their_block(errors: Any) -> None:
    text = "evaluation: {interval: 9, environment: {type: still}, environment_parameters: {p: {sampler_type: x}}}\n"
    assert errors(text) == [
        f"c.yaml:1: evaluation.environment_parameters.p.sampler_type: unknown sampler 'x'; allowed: {SAMPLERS}"
    ]


def test_several_mistakes_are_several_lines_in_the_order_of_the_file(errors: Any) -> None:
    text = TEXT.replace("behavior: B\n", "behavior: X\n").replace("uniform", "even").replace("st_dev: 1", "st_dev: -1")
    assert [line.split(": ")[0] for line in errors(text)] == ["c.yaml:7", "c.yaml:13", "c.yaml:20"]


def test_what_is_right_is_read_as_it_is_written(load: Any) -> None:
    config = load(TEXT)
    blocks = {name: parameter.curriculum for name, parameter in config.environment_parameters.items()}
    assert blocks["length"] == LessonsSettings(
        lessons=(
            LessonSettings(
                name="Short",
                value=1.0,
                completion_criteria=CriterionSettings(behavior="B", threshold=0.5, min_lesson_length=10),
            ),
            LessonSettings(
                name="Mid",
                value=SamplerSettings(sampler_type="uniform", sampler_parameters={"min_value": 1, "max_value": 2}),
                completion_criteria=CriterionSettings(behavior="B", measure="progress", threshold=0.5),
            ),
            LessonSettings(name="Long", value=3.0),
        )
    )
    gaussian = SamplerSettings(sampler_type="gaussian", sampler_parameters={"mean": 9.8, "st_dev": 1})
    assert blocks["gravity"] == LessonsSettings(lessons=(LessonSettings(name="gravity", value=gaussian),))
    assert blocks["mass"] == LessonsSettings(lessons=(LessonSettings(name="mass", value=2.0),))


def test_ml_agents_defaults() -> None:
    criterion = CriterionSettings(behavior="B")
    assert (criterion.measure, criterion.threshold, criterion.min_lesson_length) == ("reward", 0.0, 0)
    assert (criterion.signal_smoothing, criterion.require_reset) == (True, False)


def test_a_demotion_takes_from_the_only_criterion_what_it_does_not_say(load: Any) -> None:
    lessons = load(TYPED.replace("behavior: B, threshold: 5}", "behavior: C, measure: group_reward, threshold: 5}"))
    demotion = lessons.environment_parameters["length"].curriculum.lessons[1].demotion_criterion
    assert demotion == CriterionSettings(behavior="C", measure="group_reward", threshold=1.0, min_lesson_length=2)
    several = LessonSettings(
        name="x",
        value=0.0,
        completion_criteria=(CriterionSettings(behavior="B"), CriterionSettings(behavior="C")),
        demotion=DemotionSettings(threshold=-1.0, min_lesson_length=3, behavior="C", signal_smoothing=False),
    )
    assert several.demotion_criterion == CriterionSettings(
        behavior="C", threshold=-1.0, min_lesson_length=3, signal_smoothing=False
    )


@pytest.mark.parametrize("text", [TEXT, TYPED], ids=["short", "typed"])
def test_a_configuration_is_written_down_as_it_is_read(load: Any, text: str) -> None:
    import yaml

    config = load(text)
    again = load(yaml.safe_dump(dump_config(config)))
    assert again.environment_parameters == config.environment_parameters
