"""Evaluations within a run: when, what they leave alone, the best policies, an end at a score, and a resume."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import rlcore.runs.evaluator
from rlcore import hookimpl
from rlcore.config import ConfigErrors
from rlcore.errors import ConfigError, PluginError
from rlcore.results import BehaviorEvaluation, EvaluationResult
from rlcore.runs.run import Run
from rlcore.storage.checkpoint import load_checkpoint, verify_checkpoint
from rlcore.storage.checkpoint_directory import find_checkpoints, save_checkpoint
from rlcore.testing.fixtures import RunRlcore

IDENTITY = {"environment.type": "identity"}  # cannot save itself: every checkpoint begins new episodes
TAGS = ("Evaluation/Cumulative Reward", "Evaluation/Episode Length")


class Heard:
    """The evaluations that a plugin hears of."""

    def __init__(self) -> None:
        self.evaluations: list[tuple[int, float]] = []

    @hookimpl
    def rlcore_evaluated(self, run: Any, step: int, result: EvaluationResult) -> None:
        assert run.run_id
        self.evaluations.append((step, result.score))


def train(run: Run) -> list[tuple[int, float]]:
    """Trains to the end; the steps and scores of all evaluations."""
    heard = Heard()
    run.plugins.register(heard, "heard")
    run.train()
    return heard.evaluations


Script = Callable[..., None]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """``script(1, 3, 2)``: the scores that evaluations get, whatever is played."""

    def play(scores: Iterator[float], policies: Any) -> EvaluationResult:
        score = float(next(scores))
        return EvaluationResult({name: BehaviorEvaluation(score, 0.0, 1, 7.0, (score,)) for name in policies})

    def make(*scores: float) -> None:
        iterator = iter(scores)
        monkeypatch.setattr(rlcore.runs.evaluator, "play", lambda policies, *_: play(iterator, policies))

    return make


# ---------------------------------------------------------------- when


@pytest.mark.parametrize(
    ("num_envs", "interval", "max_steps", "expected"),
    [
        (2, 50, 200, [50, 100, 150, 200]),
        (8, 50, 200, [56, 104, 152, 200]),  # the step that crossed the multiple
        (2, 80, 200, [80, 160, 200]),  # and the end
        (2, 500, 200, [200]),
        (64, 10, 200, [64, 128, 192, 256]),  # one step over several multiples evaluates once
    ],
)
def test_an_evaluation_follows_the_step_that_crosses_a_multiple_of_the_interval_and_the_last(
    make_run: Any, num_envs: int, interval: int, max_steps: int, expected: list[int]
) -> None:
    run = make_run(
        {"environment.num_envs": num_envs, "evaluation": {"interval": interval, "episodes": 2}}, max_steps=max_steps
    )
    assert [step for step, _ in train(run)] == expected


@pytest.mark.parametrize("interval", [6, 40, 50, 90, 131])
def test_the_steps_of_all_behaviors_count(make_run: Any, interval: int) -> None:
    """Left takes two and Right four agent steps in an environment step; Left ends early."""
    run = make_run(
        {
            "environment.type": "pair",
            "behaviors.Left": {"max_steps": 30, "summary_freq": 7, "checkpoint_interval": 1000},
            "behaviors.Right": {"max_steps": 300, "summary_freq": 70, "checkpoint_interval": 110},
            "evaluation": {"interval": interval, "episodes": 2},
        },
        behaviors=("Left", "Right"),
    )
    steps = [6 * moved for moved in range(1, 16)] + [90 + 4 * moved for moved in range(1, 61)]
    before = [0, *steps[:-1]]
    crossing = [now for was, now in zip(before, steps, strict=True) if now // interval > was // interval]
    assert [step for step, _ in train(run)] == list(dict.fromkeys([*crossing, steps[-1]]))


def test_with_interval_null_the_run_makes_none_and_the_block_is_for_others(make_run: Any) -> None:
    watched, heard = Watched(), Heard()
    block = {"evaluation": {"interval": None, "environment": {"num_envs": 3}}}
    run = make_run(block)
    run.plugins.register(watched, "watched")
    run.plugins.register(heard, "heard")
    for _ in run:
        pass
    assert heard.evaluations == [] and len(watched.made) == 1 and run.scores.score is None
    other = make_run({**block, "checkpoint_settings.run_id": "other"})
    other.plugins.register(watched, "watched")
    other.evaluate(4)
    other.close()
    assert [environment.num_envs for environment in watched.made] == [2, 2, 3]


def test_an_interrupted_run_is_not_evaluated_for_it(make_run: Any) -> None:
    run = make_run({"evaluation": {"interval": 1000}})
    heard = Heard()
    run.plugins.register(heard, "heard")
    next(run)
    run.close("interrupted")
    assert heard.evaluations == []


def test_the_evaluation_is_made_before_the_summary_and_checkpoint_of_its_step(make_run: Any, files: Any) -> None:
    run = make_run({"evaluation": {"interval": 100, "episodes": 2}}, checkpoint_interval=100, summary_freq=100)
    found = dict(train(run))
    for line in files().metrics:
        assert line["stats"][TAGS[0]] == found[line["step"]]
        state = load_checkpoint(files().path / "checkpoints" / str(line["step"]))
        assert state["run"]["evaluation"]["score"] == found[line["step"]]


def test_the_next_summary_has_the_mean_reward_and_length_of_each_behavior(make_run: Any, files: Any) -> None:
    run = make_run(
        {"environment.type": "pair", "evaluation": {"interval": 60, "episodes": 3}}, behaviors=("Left", "Right")
    )
    results = [epoch.evaluation for epoch in run if epoch.evaluation is not None]
    for name in ("Left", "Right"):
        lines = [line["stats"] for line in files().metrics if line["behavior"] == name and TAGS[0] in line["stats"]]
        assert lines and all(line[TAGS[1]] == 8.0 for line in lines)
        assert lines[-1][TAGS[0]] == results[-1].behaviors[name].mean_reward


# ---------------------------------------------------------------- what it leaves alone


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("environment", ["corridor", "identity", "pair"])
def test_weights_after_training_are_equal_with_and_without_evaluation(
    make_run: Any, files: Any, environment: str, deterministic: bool
) -> None:
    behaviors = ("Left", "Right") if environment == "pair" else ("Agent",)
    changes: dict[str, Any] = {"environment.type": environment}
    make_run({**changes, "checkpoint_settings.run_id": "without"}, behaviors=behaviors, keep_checkpoints=0).train()
    block = {"interval": 10, "episodes": 3, "deterministic": deterministic}
    make_run({**changes, "evaluation": block}, behaviors=behaviors, keep_checkpoints=0).train()
    assert files().steps == files("without").steps
    for step in files().steps:
        ours, theirs = (load_checkpoint(files(run).path / "checkpoints" / str(step)) for run in ("run", "without"))
        for content in (ours, theirs):
            del content["run"]["evaluation"], content["run"]["wall_seconds"]
            for behavior in content["run"]["behaviors"].values():
                for tag in TAGS:
                    behavior["window"].pop(tag, None)
        np.testing.assert_equal(ours, theirs)


def test_every_evaluation_plays_the_same_episodes(make_run: Any) -> None:
    """Policies that do not change score the same, sampled actions and all."""
    block = {"interval": 20, "episodes": 5, "deterministic": False}
    run = make_run({**IDENTITY, "evaluation": block}, hyperparameters={"buffer_size": 10_000})
    scores = {score for _, score in train(run)}
    assert len(scores) == 1
    other = make_run({**IDENTITY, "evaluation": block, "env_settings.seed": 6, "checkpoint_settings.run_id": "other"})
    assert {score for _, score in train(other)} != scores


class Watched:
    """Environments that are made and closed."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.closed: list[Any] = []

    @hookimpl(wrapper=True)
    def rlcore_create_environment(self) -> Any:
        environment = yield
        self.made.append(environment)
        close = environment.close
        environment.close = lambda: (self.closed.append(environment), close())
        return environment


def test_the_environment_is_made_once_kept_open_and_closed_with_the_run(make_run: Any) -> None:
    watched = Watched()
    run = make_run({"evaluation": {"interval": 20, "episodes": 4}})
    run.plugins.register(watched, "watched")
    for _ in run:
        run.evaluate(4)
        assert len(watched.made) == 2 and not watched.closed
    assert sorted(map(id, watched.closed)) == sorted(map(id, watched.made))
    assert [environment.num_envs for environment in watched.made] == [2, 4]


def test_an_evaluation_of_another_number_of_copies_has_an_environment_for_itself(make_run: Any) -> None:
    watched = Watched()
    run = make_run({"evaluation": {"interval": 20, "episodes": 4}})
    run.plugins.register(watched, "watched")
    first = run.evaluate(4).score
    assert run.evaluate(3).behaviors["Agent"].episodes == 3
    assert [environment.num_envs for environment in watched.made] == [2, 4, 3]
    assert watched.closed == watched.made[2:]
    assert run.evaluate(4).score == first and len(watched.made) == 3
    run.close()


def test_every_way_to_evaluate_plays_the_same_episodes_and_tells_plugins(
    configure: Any, make_run: Any, run_rlcore: RunRlcore, files: Any, tmp_path: Path
) -> None:
    changes = {**IDENTITY, "evaluation": {"interval": 200, "episodes": 6, "environment": {"num_envs": 4}}}
    run = make_run(changes)
    heard = Heard()
    run.plugins.register(heard, "heard")
    for epoch in run:
        last = epoch.evaluation
        if run.finished:
            again = run.evaluate(6)
    assert last is not None and last == again
    assert heard.evaluations == [(200, last.score), (200, last.score)]
    printed = run_rlcore("evaluate", files().path, "--episodes", "6", "--json")
    assert json.loads(printed.stdout) == last.to_json()


def test_rlcore_evaluate_calls_the_hook_once(
    make_run: Any, run_rlcore: RunRlcore, files: Any, hook_calls: Counter[str]
) -> None:
    make_run().train()
    hook_calls.clear()
    assert run_rlcore("evaluate", files().path, "--episodes", "2").exit_code == 0
    assert hook_calls["rlcore_evaluated"] == 1 and hook_calls["rlcore_run_started"] == 0


# ---------------------------------------------------------------- its environment


def test_overrides_are_merged_into_the_environment_block(make_run: Any) -> None:
    overrides = {"num_envs": 5, "options": {"fault": "group reward now and then"}}
    block = {"interval": 100, "episodes": 3, "environment": overrides}
    run = make_run({"environment.options": {"length": 6}, "evaluation": block})
    run.start()
    evaluating, training = run._training.evaluation.evaluator._environment, run.environment
    assert (evaluating.fault, evaluating.length, evaluating.num_envs) == ("group reward now and then", 6, 5)
    assert (training.fault, training.length, training.num_envs) == ("", 6, 2)
    run.close()


def test_an_override_of_the_kind_takes_nothing_over_from_another_kind(make_run: Any) -> None:
    run = make_run({"environment.options": {"length": 4}, "evaluation": {
        "interval": 100, "environment": {"type": "uneven"}}})  # fmt: skip
    with pytest.raises(
        ConfigError, match=r"environment 'uneven' to evaluate in: behavior 'Agent': observation 'position'"
    ):
        run.start()


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("interval: 0", "c.yaml:6: evaluation.interval: must be at least 1, not 0"),
        ("episodes: 3", "c.yaml:5: evaluation.interval: missing; it has no default"),
        ("interval: null\n  stop_at: 9", "c.yaml:7: evaluation.stop_at: without an interval no evaluation could stop"),
        ("interval: 9\n  episode: 3", "c.yaml:7: evaluation.episode: unknown key; did you mean 'episodes'?"),
        ("interval: 9\n  environment: {num_env: 3}", "c.yaml:7: evaluation.environment.num_env: unknown key; did"),
        ("interval: 9\n  environment:\n    num_envs: x", "c.yaml:8: evaluation.environment.num_envs: must be a"),
        ("interval: 9\n  environment: {type: corridr}", "c.yaml:7: evaluation.environment.type: unknown environment"),
        ("interval: 9\n  environment: 4", "c.yaml:7: evaluation.environment: must be a mapping"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_block_is_told_at_its_own_line(
    block: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stubs = Path(__file__).parent / "stub_plugin.py"
    Path("c.yaml").write_text(
        f"behaviors: {{Agent: {{trainer_type: numpy}}}}\nenvironment: {{type: corridor}}\n"
        f"plugins: {{autoload: false, local: ['{stubs}']}}\n\nevaluation:\n  {block}\n"
    )
    with pytest.raises(ConfigErrors) as refused:
        Run("c.yaml")
    assert refused.value.messages[0].startswith(told) and len(refused.value.messages) == 1


def test_an_evaluation_without_any_environment_is_refused(configure: Any) -> None:
    with pytest.raises(ConfigErrors, match="evaluation: there is no environment to evaluate in"):
        Run(configure({"environment": None, "evaluation": {"interval": 5}}))


def test_the_written_configuration_evaluates_alike(make_run: Any, files: Any) -> None:
    changes = {"evaluation": {"interval": 50, "episodes": 3, "environment": {"options": {"length": 6}}}}
    found = train(make_run(changes))
    written = yaml.safe_load((files().path / "configuration.yaml").read_text())
    assert written["evaluation"]["environment"] == {"options": {"length": 6}}
    written["checkpoint_settings"]["run_id"] = "again"
    assert train(Run(written)) == found


# ---------------------------------------------------------------- the best


def test_the_best_policies_are_those_that_were_scored(make_run: Any, files: Any, script: Script) -> None:
    script(1, 3, 3, 2)
    run = make_run({"evaluation": {"interval": 50}}, keep_checkpoints=1)
    weights = {}
    for epoch in run:
        weights[run.steps] = run.behaviors["Agent"].trainer.weights
        assert (epoch.best_score, epoch.best_step) == ((1, 50) if run.steps == 50 else (3, 100))
    assert files().best == [100] and files().steps == [200]
    path = files().path / "checkpoints" / "best" / "100"
    assert set(verify_checkpoint(path)) == {"state.json", "Agent.safetensors", "configuration.yaml"}
    state = load_checkpoint(path)
    assert np.array_equal(state["Agent"]["model"]["weights"], weights[100])
    assert state["Agent"].keys() == {"model"}
    assert state["run"] == {"seed": 5, "steps": {"Agent": 100}, "score": 3.0}
    assert files().result["evaluation"] == {
        "score": 2.0, "step": 200, "best_score": 3.0, "best_step": 100, "stopped": False,
    }  # fmt: skip


def test_the_score_is_the_mean_over_behaviors(make_run: Any) -> None:
    run = make_run({"environment.type": "pair"}, behaviors=("Left", "Right"))
    result = run.evaluate(4)
    left, right = (result.behaviors[name].mean_reward for name in ("Left", "Right"))
    assert result.score == (left + right) / 2 and left != right
    run.close()


def test_no_checkpoint_lists_the_best_as_one_of_its_own(make_run: Any, files: Any, script: Script) -> None:
    script(5, 1, 1, 1)
    make_run({"evaluation": {"interval": 50}}, keep_checkpoints=1).train()
    assert files().best == [50]
    assert [checkpoint.step for checkpoint in find_checkpoints(files().path / "checkpoints")] == [200]


def test_keeping_no_best_keeps_none_and_cuts_no_episode(make_run: Any, files: Any) -> None:
    make_run({**IDENTITY, "evaluation": {"interval": 50, "keep_best": False}}).train()
    assert not (files().path / "checkpoints" / "best").exists()
    assert files().result["evaluation"]["best_step"] is not None


def test_saving_the_best_cuts_no_episode(make_run: Any, files: Any, script: Script) -> None:
    script(*range(100))
    run = make_run({**IDENTITY, "evaluation": {"interval": 2}}, checkpoint_interval=1000, max_steps=96)
    run.train()
    assert run.results()["Agent"].episodes == 96 // 8 and files().best == [96]


def test_the_older_best_stays_until_a_checkpoint_knows_of_the_new_one(
    make_run: Any, files: Any, script: Script, abandon: Any
) -> None:
    """A run killed in between goes on from a checkpoint that calls the older one its best."""
    script(1, 2)
    run = make_run({"evaluation": {"interval": 50}}, checkpoint_interval=80)
    epochs = iter(run)
    next(epochs), next(epochs)
    assert files().steps == [80] and files().best == [50, 100]
    abandon(run)
    script(1.5, 1.2, 1)
    resumed = make_run({"evaluation": {"interval": 50}, "checkpoint_settings.resume": True}, checkpoint_interval=80)
    resumed.start()
    assert files().best == [50, 100], "that of the future that was given up scored more"
    resumed.train()
    assert files().best == [100] and files().result["evaluation"]["best_score"] == 1.5
    assert load_checkpoint(files().path / "checkpoints" / "best" / "100")["run"]["score"] == 2


def test_the_best_policies_stay_also_where_the_checkpoints_that_knew_of_them_are_lost(
    make_run: Any, files: Any, script: Script
) -> None:
    script(1, 2, 3, 4)
    make_run({"evaluation": {"interval": 50}}, keep_checkpoints=0).train()
    assert files().best == [200]
    for step in (120, 160, 200):  # the checkpoints that knew of it are lost
        (files().path / "checkpoints" / str(step) / "manifest.json").unlink()
    script(1.5, 1.2, 1.9)
    resumed = make_run({"evaluation": {"interval": 50}, "checkpoint_settings.resume": True})
    resumed.start()
    assert resumed.scores.best_step == 50 and files().best == [200]
    resumed.train()
    assert files().best == [200] and files().result["evaluation"]["best_score"] == 1.9
    assert load_checkpoint(files().path / "checkpoints" / "best" / "200")["run"]["score"] == 4


def test_a_trainer_whose_model_cannot_be_saved_is_named(make_run: Any, script: Script) -> None:
    script(1)
    run = make_run({"evaluation": {"interval": 50}}, checkpoint_interval=1000)
    run.start()
    run.behaviors["Agent"].trainer.state_dict = lambda: {"model": {"weights": object()}}
    with pytest.raises(PluginError, match="best checkpoint, of step 50: state entry 'Agent/model/weights': object is"):
        run.train()


# ---------------------------------------------------------------- the end at a score


def test_the_current_score_ends_the_run_not_the_best(make_run: Any, files: Any, script: Script) -> None:
    """With stop_at raised on the way, an older best is above nothing that is scored now."""
    script(4, 6, 1, 1)
    run = make_run({"evaluation": {"interval": 50, "stop_at": 5}})
    epochs = list(run)
    assert run.outcome == "done" and run.steps == 100 and len(epochs) == 2
    assert epochs[-1].evaluation is not None and epochs[-1].evaluation.score == 6
    assert files().steps[-1] == 100
    assert files().result["evaluation"]["stopped"] is True and files().result["outcome"] == "done"
    script(1, 1)
    raised = make_run({"evaluation": {"interval": 50, "stop_at": 5.5}, "checkpoint_settings.resume": True})
    raised.start()
    assert raised.nothing_left, "6 is still above it"
    raised.close()
    higher = make_run({"evaluation": {"interval": 50, "stop_at": 7}, "checkpoint_settings.resume": True})
    assert [step for step, _ in train(higher)] == [150, 200]
    assert files().result["evaluation"] == {
        "score": 1.0, "step": 200, "best_score": 6.0, "best_step": 100, "stopped": False,
    }  # fmt: skip


def test_a_score_that_equals_stop_at_is_enough(make_run: Any, script: Script) -> None:
    script(4, 6, 1, 1)
    settings = {"evaluation": {"interval": 50, "stop_at": 6}}
    assert [step for step, _ in train(make_run(settings))] == [50, 100]
    resumed = make_run(settings | {"checkpoint_settings.resume": True})
    resumed.start()
    assert resumed.nothing_left
    resumed.close()


def test_a_run_that_stopped_between_summaries_writes_a_last_one(make_run: Any, files: Any, script: Script) -> None:
    script(4, 6)
    make_run({"evaluation": {"interval": 30, "stop_at": 5}}).train()
    assert [(line["step"], line["stats"][TAGS[0]]) for line in files().metrics] == [(50, 4.0), (60, 6.0)]
    assert files().steps == [40, 60] and files().best == [60]


def test_a_stopped_run_that_is_resumed_has_nothing_left_unless_stop_at_goes(
    make_run: Any, configure: Any, run_rlcore: RunRlcore, files: Any, script: Script, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configure({"evaluation": {"interval": 50, "stop_at": 5}})))
    script(6)
    done = run_rlcore("run", path)
    assert "; evaluation 6.00, best 6.00 at step 50; stopped at step 50 because stop_at 5 was reached; " in done.stdout
    before = files().everything()
    again = run_rlcore("run", path, "--resume")
    assert again.stdout.startswith(
        "nothing left to learn: evaluation.stop_at 5 is reached, by a score of 6.00 at step 50"
    )
    assert {name for name, content in files().everything().items() if before[name] != content} <= {
        "run_logs/training_status.json", "configuration.yaml", "run_logs/timers.json"
    }  # fmt: skip
    script(1, 1, 1)
    on = run_rlcore("run", path, "--resume", "--set", "evaluation.stop_at=null")
    assert on.exit_code == 0 and on.stdout.splitlines()[-1].startswith("done: 200 steps"), on.stdout


# ---------------------------------------------------------------- a resume


@pytest.mark.parametrize("environment", ["corridor", "identity"])
@pytest.mark.parametrize("killed_at", [60, 130])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_resumed_run_evaluates_and_ends_as_the_run_never_stopped(
    make_run: Any, files: Any, abandon: Any, environment: str, killed_at: int, dropped: bool
) -> None:
    """The negative control drops what the checkpoint knows of evaluations, and is noticed."""
    changes = {"environment.type": environment, "evaluation": {"interval": 30, "episodes": 4, "deterministic": False}}
    whole = train(make_run({**changes, "checkpoint_settings.run_id": "whole"}, keep_checkpoints=0))
    run = make_run(changes, keep_checkpoints=0, summary_freq=10)
    for _ in run:
        if run.steps >= killed_at:
            break
    abandon(run)
    at = files().steps[-1]
    if dropped:
        state = load_checkpoint(files().path / "checkpoints" / str(at))
        del state["run"]["evaluation"]
        save_checkpoint(files().path / "checkpoints", at, state)
    rest = train(make_run({**changes, "checkpoint_settings.resume": True}, keep_checkpoints=0, summary_freq=10))
    assert rest == [(step, score) for step, score in whole if step > at]
    same = files().result["evaluation"] == files("whole").result["evaluation"] and files().best == files("whole").best
    assert same == (not dropped)


def test_an_evaluation_that_is_added_on_the_way_begins_there(make_run: Any, files: Any) -> None:
    make_run(max_steps=60).train()
    run = make_run({"evaluation": {"interval": 50, "episodes": 2}, "checkpoint_settings.resume": True})
    assert [step for step, _ in train(run)] == [100, 150, 200]


# ---------------------------------------------------------------- commands


@pytest.fixture
def trained(make_run: Any, files: Any, script: Script) -> Any:
    script(1, 3, 2, 2)
    make_run({"evaluation": {"interval": 50, "episodes": 2}}, keep_checkpoints=2).train()
    return files()


@pytest.mark.parametrize(
    ("checkpoint", "place"), [("best", "best checkpoint 100"), ("last", "checkpoint 200"), ("160", "checkpoint 160")]
)
def test_evaluate_takes_the_checkpoint_that_is_named(
    trained: Any, run_rlcore: RunRlcore, script: Script, checkpoint: str, place: str
) -> None:
    script(7)
    done = run_rlcore("evaluate", trained.path, "--checkpoint", checkpoint)
    assert done.exit_code == 0 and f"mean reward 7.00 +/- 0.00 over 1 episodes of 7.0 steps ({place})" in done.stdout


def test_evaluate_says_which_checkpoints_there_are(
    trained: Any, run_rlcore: RunRlcore, make_run: Any, files: Any
) -> None:
    missing = run_rlcore("evaluate", trained.path, "--checkpoint", "40")
    assert missing.exit_code == 5
    assert missing.stderr.endswith("there is no checkpoint '40'; there are 160, 200, and best (of step 100)\n")
    make_run({"checkpoint_settings.run_id": "plain"}, keep_checkpoints=1).train()
    missing = run_rlcore("evaluate", files("plain").path, "--checkpoint", "best")
    assert missing.exit_code == 5
    assert "there is no best checkpoint, because no evaluation was made while it trained" in missing.stderr


def test_evaluate_takes_keys_of_the_configuration(make_run: Any, run_rlcore: RunRlcore, files: Any) -> None:
    make_run({"evaluation": {"interval": 100, "episodes": 2}}).train()
    plain = run_rlcore("evaluate", files().path, "--episodes", "4")
    assert "mean group reward" not in plain.stdout
    option = "evaluation.environment.options.fault='group reward now and then'"
    changed = run_rlcore("evaluate", files().path, "--episodes", "4", "--set", option)
    assert changed.exit_code == 0 and "mean group reward" in changed.stdout


def test_status_and_its_json_tell_the_last_and_the_best_score(trained: Any, run_rlcore: RunRlcore) -> None:
    shown = run_rlcore("status", trained.path).stdout
    assert "evaluation: score 2.00 at step 200, best 3.00 at step 100" in shown
    answer = json.loads(run_rlcore("status", trained.path, "--json").stdout)
    assert answer["evaluation"] == {"score": 2.0, "step": 200, "best_score": 3.0, "best_step": 100, "stopped": False}
