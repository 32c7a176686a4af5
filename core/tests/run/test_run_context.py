"""The context of a run for plugins: a stash, a purpose, a way to stop the run, and a logger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import RunContext, StashKey, hookimpl
from rlcore.plugins.call import Plugins
from rlcore.run.run import Run
from rlcore.settings import RunConfig

COUNT = StashKey[int]()
OTHER = StashKey[int]()


def context() -> RunContext:
    return RunContext(RunConfig(), Plugins(), Path(), seed=1, num_envs=1)


# ---------------------------------------------------------------- stash


class Counts:
    """Counts summaries and the environments of evaluations in the stash of each run."""

    @hookimpl(wrapper=True)
    def rlcore_create_environment(self, run: RunContext) -> Any:
        run.stash[OTHER] = run.stash.get(OTHER, 0) + 1
        return (yield)

    @hookimpl
    def rlcore_summary_written(self, run: RunContext) -> None:
        run.stash[COUNT] = run.stash.get(COUNT, 0) + 1

    @hookimpl
    def rlcore_report_status(self, run: RunContext) -> Any:
        return {"counts": {"summaries": run.stash.get(COUNT, 0), "environments": run.stash.get(OTHER, 0)}}


def test_runs_of_one_plugin_have_their_own_stash_and_evaluations_share_it(make_run: Any, files: Any) -> None:
    changes = {"evaluation": {"interval": 100, "episodes": 2}}
    plugins = {"counts": Counts()}
    runs = [make_run({**changes, "checkpoint_settings.run_id": name}, plugins) for name in ("first", "second")]
    for _ in zip(*runs, strict=True):  # side by side
        pass
    for name, run in zip(("first", "second"), runs, strict=True):
        run.close()
        assert files(name).status["counts"] == {"summaries": 4, "environments": 2}


# ---------------------------------------------------------------- purpose


class Purposes:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool]] = []

    @hookimpl(wrapper=True)
    def rlcore_create_environment(self, run: RunContext) -> Any:
        self.seen.append(("environment", run.purpose, run.inference))
        return (yield)

    @hookimpl(wrapper=True)
    def rlcore_create_trainer(self, run: RunContext) -> Any:
        self.seen.append(("trainer", run.purpose, run.inference))
        return (yield)


def test_each_object_is_created_for_its_purpose(make_run: Any, files: Any) -> None:
    from rlcore.config.load import load_config
    from rlcore.config.reading import read_document
    from rlcore.run.saved.saved_run import SavedRun

    purposes = Purposes()
    run: Run = make_run({"evaluation": {"interval": 100, "episodes": 2}}, max_steps=100, plugins={"purposes": purposes})
    run.train()
    assert purposes.seen == [
        ("environment", "train", False), ("trainer", "train", False), ("environment", "evaluate", True),
    ]  # fmt: skip

    purposes.seen.clear()
    acting: Run = make_run({"checkpoint_settings.inference": True}, plugins={"purposes": purposes})
    with acting:
        next(acting)
    assert purposes.seen == [("environment", "inference", True), ("trainer", "inference", True)]

    purposes.seen.clear()
    config = load_config(read_document(files().path / "configuration.yaml"), run.plugins)
    SavedRun.load(files().path, config, run.plugins).evaluate(2)
    assert purposes.seen == [("environment", "evaluate", True), ("trainer", "evaluate", True)]


# ---------------------------------------------------------------- stops


class StopsAt:
    def __init__(self, hook: str, *arguments: Any) -> None:
        def stop(run: RunContext) -> None:
            run.request_stop(*arguments)

        setattr(self, f"rlcore_{hook}", hookimpl(stop))


@pytest.mark.parametrize(("hook", "steps"), [("run_started", 0), ("checkpoint_saved", 40), ("summary_written", 50)])
def test_a_plugin_stops_a_run_after_a_checkpoint(make_run: Any, files: Any, hook: str, steps: int) -> None:
    run: Run = make_run(plugins={"budget": StopsAt(hook, "the budget\nis spent", 75)})
    run.train()
    assert run.outcome == "interrupted" and run.stop is not None and run.stop.reason == "the budget is spent"
    assert files().result["stop"] == {"reason": "the budget is spent", "exit_code": 75}
    assert files().steps[-1] == steps
    resumed: Run = make_run({"checkpoint_settings.resume": True})
    assert resumed.train()["Agent"].steps == 200
    assert files().result["outcome"] == "done" and "stop" not in files().result


def test_the_first_request_counts_and_one_after_the_end_has_no_effect(make_run: Any, files: Any) -> None:
    run: Run = make_run(max_steps=50, plugins={"late": StopsAt("run_finished", "late", 9)})
    run.train()
    assert run.outcome == "done" and "stop" not in files().result
    both: Run = make_run(
        {"checkpoint_settings.run_id": "both"}, plugins={"first": StopsAt("checkpoint_saved", "first", 1)}
    )
    both.plugins.register(StopsAt("summary_written", "second", 2), "second")
    both.train()
    assert files("both").result["stop"] == {"reason": "first", "exit_code": 1}


@pytest.mark.parametrize(
    ("reason", "code", "problem"),
    [(" \n", 0, "needs a reason"), ("enough", -1, "not between 0 and 255"), ("enough", 256, "not between 0 and 255")],
)
def test_a_stop_needs_a_reason_and_an_exit_code_that_exists(reason: str, code: int, problem: str) -> None:
    run = context()
    with pytest.raises(ValueError, match=problem):
        run.request_stop(reason, code)


STOPS = """\
from rlcore import hookimpl

@hookimpl
def rlcore_summary_written(run):
    run.logger("acme-budget").warning("spent")
    run.request_stop("the budget is spent", exit_code=75)
"""


def test_the_command_ends_with_the_exit_code_of_the_stop(run_rlcore: Any, write: Any, tmp_path: Path) -> None:
    (tmp_path / "budget.py").write_text(STOPS)
    stubs = Path(__file__).with_name("stub_plugin.py")
    answer = run_rlcore("run", write({"plugins.local": [str(stubs), str(tmp_path / "budget.py")]}))
    assert answer.exit_code == 75
    assert "warning: acme-budget: spent\n" in answer.stderr
    assert "stopped (the budget is spent): 50 steps; " in answer.stdout
