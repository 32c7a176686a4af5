"""Environment parameters on their way through a run: drawn, played, counted, saved."""

from __future__ import annotations

import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import hookimpl
from rlcore.contracts.curriculum import Curriculum
from rlcore.contracts.seeding import derive_generator, derive_seed
from rlcore.errors import ConfigError, RunStateError
from rlcore.run.run import Run

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
PACED: dict[str, Any] = {
    "plugins.local": STUBS,
    "environment.type": "paced",
    "environment_parameters.pace": {"curriculum": {"type": "stages", "every": 5}},
}
SAVED = {**PACED, "environment.type": "paced_and_saved"}
BOTH = {"environment_parameters.pay": {"curriculum": {"type": "lessons", "every": 3, "reset": True}}}
CASES = yaml.safe_load((Path(__file__).parent / "data/curricula.yaml").read_text(encoding="utf-8"))
WHOLE = {"checkpoint_settings.run_id": "whole"}
RESUME = {"checkpoint_settings.resume": True}


def curricula_of(run: Run) -> dict[str, Any]:
    curricula = run._training.state.curricula
    assert curricula is not None
    return {kind: each.curriculum for kind, each in curricula._curricula.items()}


def parts(run: Run) -> tuple[Any, Any]:
    """The environment, and the first curriculum."""
    return run.environment, next(iter(curricula_of(run).values()))


def fraction(seed: int, name: str, env: int, episode: int) -> float:
    """The number in [0, 1) that belongs to an episode, drawn by itself."""
    return float(derive_generator(seed, f"parameters/{name}", env, episode).random())


@pytest.mark.parametrize("several", [False, True])
def test_every_episode_begins_with_what_was_drawn_for_it(make_run: Any, several: bool) -> None:
    """The rule holds also with curricula of several types side by side."""
    run = make_run({**PACED, **BOTH, "environment_parameters.pay.curriculum.reset": False} if several else PACED)
    run.train()
    environment, curriculum = parts(run)
    assert isinstance(curriculum, Curriculum) and list(curricula_of(run)) == ["stages", "lessons"][: 1 + several]
    _, _, paces, pays = zip(*environment.begun, strict=True)
    stages = [pace // 10 for pace in paces]
    assert len(stages) > 40 and stages == sorted(stages) and set(stages) == {0.0, 1.0, 2.0, 3.0}
    assert {pay // 10 for pay in pays} == ({0, 1, 2, 3} if several else {0})
    for env, episode, pace, pay in environment.begun:
        assert pace % 10 == pytest.approx(fraction(5, "pace", env, episode))
        assert pay % 10 == pytest.approx(fraction(5, "pay", env, episode) if several else 1.0)  # the environment's own


def test_a_new_stage_is_what_every_copy_plays_next(make_run: Any) -> None:
    """Values that were staged for an environment before the change are drawn again."""
    changes: list[Any] = []

    class Hear:
        @hookimpl
        def rlcore_lesson_changed(self, run: Any, step: int, change: Any) -> None:
            changes.append((step, change.parameter, change.previous, change.lesson, len(environment.begun)))

    run = make_run(PACED, checkpoint_interval=10_000, plugins={"hear": Hear()})
    run.start()
    environment, _ = parts(run)
    run.train()
    assert [change[1:4] for change in changes] == [("pace", 0, 1), ("pace", 1, 2), ("pace", 2, 3)]
    for k, (_, _, _, lesson, begun) in enumerate(changes):
        until = changes[k + 1][4] if k + 1 < len(changes) else None
        assert {pace // 10 for _, _, pace, _ in environment.begun[begun:until]} == {lesson}


def test_a_reset_begins_all_copies_anew(make_run: Any) -> None:
    run = make_run({**SAVED, "environment_parameters.pace.curriculum.reset": True}, checkpoint_interval=10_000)
    run.train()
    environment, curriculum = parts(run)
    changed_at = [index for index, (_, _, pace, _) in enumerate(environment.begun) if pace >= 10]
    first = changed_at[0]
    assert [env for env, _, _, _ in environment.begun[first : first + 2]] == [0, 1]
    # Episodes that the reset ended do not count: the curriculum gets no report of them.
    told = sum(len(ended.returns) for ended in curriculum.told)
    assert told == run.behaviors["Agent"].episodes.finished < len(environment.begun) - 2


# ---------------------------------------------------------------- state


@pytest.mark.parametrize("changes", [PACED, SAVED, {**PACED, **BOTH}, {**SAVED, **BOTH}])
@pytest.mark.parametrize("at", [1, 100])
def test_a_killed_run_resumed_equals_the_run_that_was_never_stopped(
    make_run: Any, files: Any, kill_after: Any, changes: dict[str, Any], at: int
) -> None:
    keywords = {"summary_freq": 34, "checkpoint_interval": 26, "keep_checkpoints": 0}
    whole = make_run({**changes, **WHOLE}, **keywords)
    whole.train()
    kill_after(make_run(changes, **keywords), at)
    before = files().steps[-1]
    resumed = make_run({**changes, **RESUME}, **keywords)
    resumed.train()
    assert files().checkpoints(after=before) == files("whole").checkpoints(after=before) != {}
    played = parts(resumed)[0].begun
    all_played = parts(whole)[0].begun
    assert played == all_played[-len(played) :]


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["message"])
def test_other_parameters_than_the_checkpoints_are_refused(make_run: Any, configure: Any, case: Any) -> None:
    learned, given = ({name: {"curriculum": each} for name, each in case[key].items()} for key in ("learned", "given"))
    for parameters, resume in ((learned, False), (given, True)):
        config = configure({**PACED, "checkpoint_settings.resume": resume})
        config["environment_parameters"] = parameters
        with pytest.raises(RunStateError, match=re.escape(case["message"])) if resume else nullcontext():
            Run(config).train()


# ---------------------------------------------------------------- what people see


def test_lessons_are_in_every_summary_and_in_the_status(make_run: Any, files: Any) -> None:
    make_run({**PACED, **BOTH}).train()
    lessons = [line["stats"]["Environment/Lesson Number/pace"] for line in files().metrics]
    assert lessons[-1] == 3.0 and lessons == sorted(lessons)
    assert files().status["pace"] == {"lesson_num": 3} and files().status["pay"] == {"lesson_num": 3}


def test_lessons_of_ml_agents_are_where_a_run_begins(make_run: Any, files: Any) -> None:
    theirs = files("theirs").path
    (theirs / "run_logs").mkdir(parents=True)
    (theirs / "run_logs/training_status.json").write_text(json.dumps(CASES["ml_agents"], indent=4))
    for run_id, origin in (("by_name", "theirs"), ("by_path", str(theirs))):
        with make_run({**PACED, "checkpoint_settings": {"initialize_lessons_from": origin, "run_id": run_id}}) as run:
            run.start()
            assert [pace // 10 for _, _, pace, _ in run.environment.begun] == [2.0, 2.0]


# ---------------------------------------------------------------- evaluation and acting


@pytest.mark.parametrize(
    ("overrides", "pace"), [({}, 30), ({"pace": {"curriculum": {"type": "stages", "stages": 2}}}, 10)]
)
def test_evaluations_play_the_task_training_is_for_or_what_they_are_told(
    make_run: Any, overrides: dict[str, Any], pace: int
) -> None:
    evaluation = {"interval": 10_000, "episodes": 4, "environment_parameters": overrides}
    with make_run({**PACED, "evaluation": evaluation}) as run:
        lengths = [run.evaluate(4).behaviors["Agent"].mean_length for _ in range(2)]
        run.train()
        lengths.append(run.evaluate(4).behaviors["Agent"].mean_length)
    assert lengths == [3 + pace / 10] * 3


def test_a_policy_that_only_acts_goes_on_with_the_lesson_it_had(make_run: Any) -> None:
    make_run(PACED).train()
    run = make_run({**PACED, "checkpoint_settings.inference": True, "environment.num_envs": 3})
    run.start()
    environment, curriculum = parts(run)
    curriculum.advance = curriculum.summarised = None  # is not asked
    next(run)
    assert len(environment.begun) > 6 and {pace // 10 for _, _, pace, _ in environment.begun} == {3.0}
    for env, episode, pace, _ in environment.begun:
        assert pace % 10 == pytest.approx(fraction(5, "pace", env, episode))
    run.close()


@pytest.mark.parametrize("parameters", [(True, False), (False, True)])
def test_a_policy_acts_with_and_without_the_parameters_it_learned_with(
    make_run: Any, parameters: tuple[bool, bool]
) -> None:
    bare = {key: value for key, value in PACED.items() if not key.startswith("environment_parameters")}
    trained, played = (PACED if each else bare for each in parameters)
    make_run(trained).train()
    with make_run({**played, "checkpoint_settings.inference": True}) as run:
        next(run)
        assert run.behaviors["Agent"].policy_steps == 200
        assert {pace // 10 for _, _, pace, _ in run.environment.begun} == {0.0}


def test_every_episode_of_an_evaluation_begins_with_its_own_draw(make_run: Any) -> None:
    with make_run({**PACED, "evaluation": {"interval": 10_000, "environment": {"num_envs": 2}}}) as run:
        run.evaluate(10)
        environment = run._training.evaluations.evaluator._environment._environment
    seed = derive_seed(5, "evaluation")
    assert len({episode for _, episode, _, _ in environment.begun}) >= 5
    for env, episode, pace, _ in environment.begun:
        assert pace == pytest.approx(30 + fraction(seed, "pace", env, episode))


def test_a_parameter_the_environment_does_not_have_is_refused_before_the_first_step(make_run: Any) -> None:
    with pytest.raises(ConfigError, match="pase") as caught:
        make_run({**PACED, "environment_parameters.pase": {"curriculum": {"type": "lessons"}}}).start()
    assert "pace, pay" in str(caught.value)


def test_parameters_without_the_plugin_that_chooses_them_name_it(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The curriculum of another plugin is there."""
    run = make_run(PACED)
    monkeypatch.setattr(sys.modules["stub_curriculum"], "InstalledCurricula", lambda: None)
    named = "environment_parameters: no plugin that chooses them is loaded; pip install .*curriculum.*-p curriculum"
    with pytest.raises(ConfigError, match=named) as error:
        run.train()
    assert "\n" not in str(error.value)
