"""The loop: what is due when, and what iterating over a run means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlcore import hookimpl
from rlcore.contracts.ranks import IdleGroups, OneRank
from rlcore.errors import EnvironmentFailed
from rlcore_devkit import TinyCorridor

PAIR: dict[str, Any] = {"environment.type": "pair"}
BOTH: dict[str, Any] = {"behaviors": ("Left", "Right")}


def summaries(files: Any, behavior: str = "Agent") -> list[int]:
    return [line["step"] for line in files.metrics if line["behavior"] == behavior]


# ---------------------------------------------------------------- behaviors that do not act


@pytest.mark.parametrize(
    ("wakes", "right", "taken"),
    [  # agents of Right act from a step of the environment on: its agent steps, and the steps of the environment
        (10**6, 0, 80),  # after 60 steps, Left has learned; after 80, the run does not wait for Right
        (79, 60, 79 + 29),  # it acts in time, and learns from 2 agents in each step
    ],
)
@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_does_not_wait_for_a_behavior_that_never_acts(
    make_run: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, wakes: int, right: int, taken: int, stopped: bool
) -> None:
    monkeypatch.setattr(IdleGroups, "window", 80)
    steps = []

    def asleep(run: Any) -> Any:
        """The run, whose environment has the agents of Right act from the step ``wakes`` on."""
        run.start()
        step, reset = run.environment.step, run.environment.reset

        def changed(batches: Any) -> Any:
            batches["Right"].needs_action = np.full(2, len(steps) >= wakes)
            return batches

        def count(actions: Any) -> Any:
            steps.append(1)
            return changed(step(actions))

        run.environment.step, run.environment.reset = count, lambda *arguments: changed(reset(*arguments))
        changed({"Right": run.behaviors["Right"].batch})
        return run

    changes = {**PAIR, "environment.num_envs": 1}
    keys = {"max_steps": 60, "checkpoint_interval": 60, "summary_freq": 20, "behaviors": ("Left", "Right")}
    run = asleep(make_run(changes, **keys))
    if stopped:  # and resumed: the count of steps goes on
        next(iter(run))
        run.close("interrupted")
        assert len(steps) == 20
        run = asleep(make_run({**changes, "checkpoint_settings.resume": True}, **keys))
    results = run.train()
    assert run.outcome == "done"
    assert (results["Left"].steps, results["Right"].steps) == (60, right)
    assert len(steps) == taken
    told = [text for text in caplog.messages if "have not acted" in text]
    assert told == ([] if right else [
        "behavior 'Right': its agents have not acted for 80 steps of the environments, and the run does not wait for "
        "them: it ends with 0 of 60 steps"
    ])  # fmt: skip


def test_a_group_acts_where_its_agents_act_in_any_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IdleGroups, "window", 3)

    class Other(OneRank):  # in the other rank, the second group acts
        def sum(self, values: Any) -> Any:
            return values + np.array([0, 1, 0])

    groups = IdleGroups(Other(), 3)
    groups.acted[0] = True
    assert [groups.after_step() for _ in range(3)] == [False, False, True]
    assert groups.idle.tolist() == [False, False, True] and not groups.acted.any()


# ---------------------------------------------------------------- summaries


@pytest.mark.parametrize(
    ("num_envs", "summary_freq", "max_steps", "expected"),
    [
        (2, 50, 200, [50, 100, 150, 200]),
        (8, 50, 200, [50, 100, 150, 200]),  # crossed at 56, 104, 152: the boundary is the x value, as in ML-Agents
        (8, 60, 200, [60, 120, 180, 200]),  # and the end
        (8, 500, 200, [200]),
        (3, 50, 100, [50, 100]),  # learning goes past max_steps, to 102, the last summary does not
        (64, 10, 200, [10, 70, 130, 200]),  # one step over several boundaries fires once
    ],
)
def test_a_summary_stands_at_the_boundary_that_was_crossed(
    make_run: Any, files: Any, num_envs: int, summary_freq: int, max_steps: int, expected: list[int]
) -> None:
    make_run({"environment.num_envs": num_envs}, summary_freq=summary_freq, max_steps=max_steps).train()
    written = summaries(files())
    assert written[:-1] == expected[:-1]
    assert len(written) == len(expected) and written[-1] >= max_steps > written[-2:][0] - 64


def test_every_behavior_keeps_its_own_intervals_and_end(make_run: Any, files: Any) -> None:
    run = make_run(
        {
            **PAIR,
            "behaviors.Left": {"max_steps": 70, "summary_freq": 20},
            "behaviors.Right": {"max_steps": 400, "summary_freq": 150},
        },
        **BOTH,
    )
    run.train()
    assert summaries(files(), "Left") == [20, 40, 60, 70]
    assert summaries(files(), "Right") == [150, 300, 400]
    result = files().result["behaviors"]
    assert (result["Left"]["steps"], result["Right"]["steps"]) == (70, 400)
    assert run.results()["Left"].updates == 70 // 16


def test_a_behavior_that_ends_between_summaries_causes_one_summary_and_no_checkpoint(make_run: Any, files: Any) -> None:
    make_run(
        {**PAIR, "behaviors.Left": {"max_steps": 30}},
        **BOTH, summary_freq=1000, checkpoint_interval=1000, max_steps=400,
    ).train()  # fmt: skip
    assert summaries(files(), "Left") == [30] and summaries(files(), "Right") == [400]
    assert files().steps == [430]


def test_a_finished_behavior_keeps_acting_and_learns_no_more(make_run: Any, files: Any) -> None:
    run = make_run({**PAIR, "behaviors.Left.max_steps": 30}, **BOTH, max_steps=400)
    run.train()
    left = run.behaviors["Left"]
    assert left.trainer.steps == 30 and left._player is not None and left._player.steps == (400 - 60) // 4
    assert left.episodes.finished == 2  # of two slots with episodes of eight steps, in fifteen steps
    assert left.window.state_dict() == {}


def test_statistics_of_a_summary_are_those_since_the_last(make_run: Any, files: Any) -> None:
    make_run({"environment.type": "identity", "environment.num_envs": 2}, checkpoint_interval=1000).train()
    episodes = [line["stats"]["Environment/Episode Length"] for line in files().metrics]
    assert episodes == [8.0] * 4
    assert all(0 <= line["stats"]["Environment/Cumulative Reward"] <= 8 for line in files().metrics)
    assert all(line["stats"]["Is Training"] == 1.0 for line in files().metrics)


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize(
    ("num_envs", "behavior", "expected"),
    [
        (2, {"checkpoint_interval": 40}, [40, 80, 120, 160, 200]),
        (2, {"checkpoint_interval": 40, "keep_checkpoints": 2}, [160, 200]),
        (2, {"checkpoint_interval": 40, "keep_checkpoints": 1}, [200]),
        (2, {"checkpoint_interval": 20, "keep_checkpoints": 0}, list(range(20, 201, 20))),
        (2, {"checkpoint_interval": 20, "keep_checkpoints": -1}, list(range(20, 201, 20))),
        (2, {"checkpoint_interval": 70}, [70, 140, 200]),  # and the last one
        (2, {"checkpoint_interval": 1000}, [200]),
        (2, {"checkpoint_interval": 10, "keep_checkpoints": 4, "even_checkpoints": True}, [50, 100, 150, 200]),
        (2, {"checkpoint_interval": 10, "keep_checkpoints": 3, "even_checkpoints": True}, [132, 198, 200]),
        (2, {"checkpoint_interval": 90, "keep_checkpoints": 0, "even_checkpoints": True}, [90, 180, 200]),
        (2, {"checkpoint_interval": 40, "summary_freq": 1000}, [40, 80, 120, 160, 200]),  # between two summaries
        (8, {"checkpoint_interval": 25}, [104, 128, 152, 176, 200]),  # labeled with the step that crossed it
    ],
)
def test_checkpoints_are_saved_and_rotated_as_the_settings_say(
    make_run: Any, files: Any, num_envs: int, behavior: dict[str, Any], expected: list[int]
) -> None:
    make_run({"environment.num_envs": num_envs}, **behavior).train()
    assert files().steps == expected


def test_the_largest_keep_checkpoints_counts_and_all_is_larger_than_any_number(make_run: Any, files: Any) -> None:
    changes = {**PAIR, "behaviors.Left.keep_checkpoints": 2, "behaviors.Right.keep_checkpoints": 3}
    make_run(changes, **BOTH, checkpoint_interval=20).train()
    assert len(files().steps) == 3
    changes |= {"behaviors.Left.keep_checkpoints": 0, "checkpoint_settings.run_id": "all"}
    make_run(changes, **BOTH, checkpoint_interval=20).train()
    assert len(files("all").steps) > 9


@pytest.mark.parametrize(("max_steps", "warned"), [(14, True), (16, False)])
def test_a_run_that_ends_before_its_first_update_says_that_nothing_was_learned(
    make_run: Any, caplog: pytest.LogCaptureFixture, max_steps: int, warned: bool
) -> None:
    """The trainer updates when it holds 16 steps."""
    run = make_run(max_steps=max_steps)
    assert run.train()["Agent"].updates == (0 if warned else 1)
    found = [record.getMessage() for record in caplog.records if "nothing was learned" in record.getMessage()]
    assert len(found) == warned
    assert all(f"behavior 'Agent': nothing was learned: {max_steps} steps were taken" in text for text in found)


def cut_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "no episode ended" in record.getMessage()]


@pytest.mark.parametrize(
    ("behavior", "advice"),
    [
        ({"checkpoint_interval": 12}, "checkpoint_interval is 12 agent steps, 6 for each of 2 agents; raise it"),
        (
            {"even_checkpoints": True, "keep_checkpoints": 20},
            "checkpoint_interval is 10 agent steps, 5 for each of 2 agents; lower keep_checkpoints",
        ),
    ],
)
def test_checkpoints_so_frequent_that_no_episode_ends_are_warned_of_once(
    make_run: Any, caplog: pytest.LogCaptureFixture, behavior: dict[str, Any], advice: str
) -> None:
    """Episodes have eight steps, and the environment cannot save itself."""
    run = make_run({"environment.type": "identity"}, **behavior)
    run.train()
    assert run.results()["Agent"].mean_reward is None
    (warning,) = cut_warnings(caplog)
    assert warning.startswith("behavior 'Agent': no episode ended between two checkpoints") and advice in warning


def test_a_behavior_whose_episodes_end_between_checkpoints_is_not_warned_of(
    make_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that is stopped or resumed just after a checkpoint is not warned of, nor is one that saves itself."""
    stopped = make_run({"environment.type": "identity"}, checkpoint_interval=40, summary_freq=42)
    next(stopped)
    stopped.close("interrupted")
    make_run(
        {"environment.type": "identity", "checkpoint_settings.resume": True}, checkpoint_interval=48, max_steps=96
    ).train()
    make_run({"checkpoint_settings.run_id": "saves"}, checkpoint_interval=2).train()
    assert cut_warnings(caplog) == []


def test_checkpoints_of_two_behaviors_soon_after_each_other_are_not_warned_of(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Episodes have eight steps; Left has a checkpoint every 100, Right every 104 environment steps."""
    intervals = {"behaviors.Left.checkpoint_interval": 200, "behaviors.Right.checkpoint_interval": 416}
    make_run({**PAIR, **intervals}, **BOTH, max_steps=416, summary_freq=1000, keep_checkpoints=0).train()
    assert {600, 624} <= set(files().steps)  # 100 and 104 environment steps with six slots
    assert cut_warnings(caplog) == []


# ---------------------------------------------------------------- iterating


def test_iterating_goes_on_and_never_resets(make_run: Any, files: Any) -> None:
    make_run({"checkpoint_settings.run_id": "whole"}).train()
    run = make_run()
    seen = []
    for epoch in run:
        seen.append((epoch.epoch, epoch.behaviors["Agent"].steps))
        break
    environment = run.environment
    for epoch in run:
        seen.append((epoch.epoch, epoch.behaviors["Agent"].steps))
    assert seen == [(1, 50), (2, 100), (3, 150), (4, 200)]
    assert run.environment is environment
    assert run.outcome == "done" and list(run) == []
    assert files().checkpoint(200) == files("whole").checkpoint(200)


def test_results_of_an_epoch_are_those_of_its_summary(make_run: Any, files: Any) -> None:
    run = make_run({"environment.type": "identity"}, checkpoint_interval=1000)
    epochs = list(run)
    for epoch, line in zip(epochs, files().metrics, strict=True):
        result = epoch.behaviors["Agent"]
        assert {tag: summary.mean for tag, summary in result.stats.items()} == line["stats"]
        assert epoch.seconds >= epoch.collect_seconds + epoch.update_seconds > 0
    assert [epoch.behaviors["Agent"].updates for epoch in epochs] == [3, 6, 9, 12]
    assert [epoch.behaviors["Agent"].episodes for epoch in epochs] == [6, 12, 18, 24]
    assert run.results()["Agent"].mean_reward == epochs[-1].behaviors["Agent"].mean_reward


def test_two_runs_in_one_process_do_not_touch_one_another(make_run: Any, files: Any) -> None:
    for seed in (1, 2):
        make_run({"checkpoint_settings.run_id": f"alone{seed}", "env_settings.seed": seed}).train()
    runs = [make_run({"checkpoint_settings.run_id": f"both{s}", "env_settings.seed": s}) for s in (1, 2)]
    with runs[0], runs[1]:
        assert sum(1 for _ in zip(*runs, strict=True)) == 4
    for seed in (1, 2):
        assert files(f"both{seed}").checkpoint(200) == files(f"alone{seed}").checkpoint(200)
    assert files("both1").checkpoint(200) != files("both2").checkpoint(200)


def test_leaving_the_block_saves_where_the_run_is(make_run: Any, files: Any, abandon: Any) -> None:
    with make_run() as run:
        for _ in run:
            break
    assert run.outcome == "interrupted" and files().steps == [40, 50]
    assert files().result["outcome"] == "interrupted" and "final_checkpoint" not in files().status["Agent"]
    with make_run({"checkpoint_settings.resume": True}) as run:
        run.train()
    assert files().result["outcome"] == "done" and "final_checkpoint" in files().status["Agent"]


def test_an_error_inside_the_block_saves_nothing_more(make_run: Any, files: Any) -> None:
    run = make_run()
    next(run)
    with pytest.raises(ValueError, match="mine"), run:
        raise ValueError("mine")
    assert run.outcome == "failed" and files().steps == [40]
    assert files().result["outcome"] == "failed"


def test_a_block_that_never_began_leaves_nothing(make_run: Any, files: Any) -> None:
    with make_run():
        pass
    assert not files().path.exists()


def test_a_stop_ends_after_the_current_step_with_a_checkpoint(make_run: Any, files: Any) -> None:
    run = make_run()
    run.start()
    run.request_stop()
    assert list(run) == [] and run.outcome == "interrupted"
    assert files().steps == [0]


@pytest.mark.parametrize(("steps", "outcome"), [(0, "interrupted"), (50, "interrupted"), (200, "done")])
def test_a_run_that_is_closed_by_hand_is_done_only_if_it_reached_its_end(
    make_run: Any, files: Any, steps: int, outcome: str
) -> None:
    run = make_run()
    run.start()
    while run.steps < steps:
        next(run)
    run.close()
    assert run.outcome == outcome and files().result["outcome"] == outcome
    assert files().steps[-1] == steps


def test_a_run_that_is_closed_before_its_start_is_interrupted_and_leaves_nothing(make_run: Any, files: Any) -> None:
    run = make_run()
    run.close()
    assert run.outcome == "interrupted" and not files().path.exists()
    assert list(run) == []


# ---------------------------------------------------------------- evaluating while training


def test_evaluating_disturbs_nothing(make_run: Any, files: Any) -> None:
    changes = {**PAIR, "behaviors.Left.max_steps": 40}
    make_run({**changes, "checkpoint_settings.run_id": "whole"}, **BOTH, keep_checkpoints=0).train()
    run = make_run(changes, **BOTH, keep_checkpoints=0)
    first = run.evaluate(3)
    for _ in run:
        run.evaluate(3, seed=run.steps, deterministic=False)
    assert first.behaviors["Left"].episodes == 3 and first.behaviors["Right"].episodes == 6
    assert files().steps == files("whole").steps
    for step in files().steps:
        assert files().checkpoint(step) == files("whole").checkpoint(step)


def test_each_copy_plays_a_fixed_share_however_long_its_episodes_are(make_run: Any) -> None:
    """Copy c returns c + 1 in c + 1 steps: the first eight episodes to end would be those of the short copies."""
    run = make_run({"environment.type": "uneven"})
    result = run.evaluate(20).behaviors["Agent"]
    assert sorted(result.returns) == sorted([*range(1, 17), 1, 2, 3, 4])
    few = run.evaluate(4).behaviors["Agent"]
    assert few.mean_reward == 2.5 and few.std_reward == pytest.approx(1.25**0.5) and few.mean_length == 2.5
    run.close()


def test_one_seed_gives_the_same_numbers_and_another_gives_others(make_run: Any) -> None:
    run = make_run({"environment.type": "identity"})
    evaluate = lambda seed, deterministic=True: run.evaluate(9, seed, deterministic).behaviors["Agent"].returns  # noqa: E731
    assert evaluate(1) == evaluate(1) != evaluate(2)
    assert evaluate(1, False) == evaluate(1, False) != evaluate(2, False)
    assert evaluate(1, False) != evaluate(1)
    assert evaluate(None) == evaluate(None)
    run.close()


class Counts:
    """Makes the environments of the run by itself, with as many copies as ``of`` says."""

    def __init__(self, of: Callable[[Any, Any], int]) -> None:
        self.of = of
        self.told: list[tuple[int, int, int]] = []

    @hookimpl
    def rlcore_create_environment(self, settings: Any, run: Any) -> Any:
        self.told.append((run.num_envs, settings.num_envs, run.config.environment.num_envs))
        return TinyCorridor(self.of(settings, run), run.behavior_names[0])


@pytest.mark.parametrize("of", [lambda settings, run: settings.num_envs, lambda settings, run: run.num_envs])
def test_an_environment_is_told_one_number_of_copies_in_training_and_evaluation(make_run: Any, of: Any) -> None:
    counts = Counts(of)
    run = make_run({"environment.num_envs": 3})
    run.plugins.register(counts, "counts")
    assert run.evaluate(5).behaviors["Agent"].episodes == 5
    assert counts.told == [(3, 3, 3), (5, 5, 5)]
    run.close()


def test_an_environment_with_another_number_of_copies_is_refused(make_run: Any) -> None:
    run = make_run({"environment.num_envs": 3})
    run.plugins.register(Counts(lambda settings, run: 1), "counts")
    with pytest.raises(EnvironmentFailed, match=r"'corridor': was made with num_envs 1 where run.num_envs is 3"):
        run.train()


def test_evaluating_measures_the_agents_own_reward_and_the_groups_apart(make_run: Any) -> None:
    """As "Cumulative Reward" and "Group Cumulative Reward" do, also where few batches carry a group's reward."""
    plain = make_run({"checkpoint_settings.run_id": "plain"})
    own = plain.evaluate(4)
    shared = make_run({"environment.options": {"fault": "group reward now and then"}}).evaluate(4)
    assert own.behaviors["Agent"].returns == shared.behaviors["Agent"].returns
    assert own.behaviors["Agent"].mean_group_reward is None
    assert "mean_group_reward" not in own.to_json()["behaviors"]["Agent"]
    steps = shared.behaviors["Agent"].mean_length
    assert shared.to_json()["behaviors"]["Agent"]["mean_group_reward"] == pytest.approx(0.25 * steps / 2, abs=0.25)
