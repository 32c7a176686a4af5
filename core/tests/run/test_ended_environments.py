"""Environments that end or fail between two steps: what was learned before is saved and exported, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.contracts.environment import Environment
from rlcore.contracts.ranks import Ranks
from rlcore.errors import EnvironmentEnded, EnvironmentFailed
from rlcore.run import components
from rlcore.run.environments import make_environment
from rlcore.run.evaluation import evaluate
from rlcore_torch.ranks.lost import LostEnvironments

RESUME = {"checkpoint_settings.resume": True}
EXPORT = {
    "plugins.local": [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_exporter.py")],
    "export": {"weights": {}},
}
EVALUATED = {"evaluation": {"interval": 30, "episodes": 2}}
ENDED = EnvironmentEnded("the window was closed")


class Ends:
    """Has ``method`` of the environments of a ``purpose`` raise ``error`` in its call number ``at``."""

    def __init__(self, error: BaseException, method: str = "step", at: int = 14, purpose: str = "train") -> None:
        self.error, self.method, self.at, self.purpose = error, method, at, purpose
        self.calls = 0
        self.asked: list[str] = []  # calls after the error

    @contextmanager
    def __call__(self) -> Iterator[None]:
        def made(config: Any, plugins: Any, context: Any) -> Environment:
            environment = make_environment(config, plugins, context)
            if context.purpose == self.purpose:
                for name in ("step", "reset", "state_dict"):
                    if hasattr(environment, name):
                        self._watch(environment, name)
            return environment

        with pytest.MonkeyPatch.context() as patch:
            for module in (components, evaluate):
                patch.setattr(module, "make_environment", made)
            yield

    def _watch(self, environment: Environment, name: str) -> None:
        method = getattr(environment, name)

        def call(*arguments: Any) -> Any:
            if self.calls == self.at:
                self.asked.append(name)
            elif name == self.method:
                self.calls += 1
                if self.calls == self.at:
                    environment.episodes += 7  # half of a step: numbers to skip
                    raise self.error
            return method(*arguments)

        setattr(environment, name, call)


def trained(run: Any, ends: Ends) -> Any:
    """Train until the environment ends or fails."""
    with ends(), nullcontext() if isinstance(ends.error, EnvironmentEnded) else pytest.raises(EnvironmentFailed):
        run.train()
    return run


def stopped_at(make_run: Any, step: int, changes: Any) -> None:
    """Train a run as Ctrl-C leaves it at ``step``."""
    run = make_run(changes)
    learned = run.start() or run.behaviors["Agent"].trainer
    observe = learned.observe

    def observing(*arguments: Any) -> None:
        observe(*arguments)
        if learned.steps >= step:
            run.request_stop()

    learned.observe = observing
    run.train()


@pytest.mark.parametrize("kind", ["corridor", "identity"])  # which saves itself, and cannot
@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ENDED, "environment ended"), (EnvironmentFailed("gone"), "failed"), (ZeroDivisionError(), "failed")],
)
def test_all_that_was_learned_before_a_step_that_ended_or_failed_is_saved_and_exported(
    make_run: Any, files: Any, kind: str, error: BaseException, outcome: str
) -> None:
    environment = {**EXPORT, "environment.type": kind, "behaviors.Agent.checkpoint_interval": 1000}
    ends = Ends(error)
    run = trained(make_run(environment), ends)
    assert run.outcome == outcome == files().result["outcome"]
    assert not ends.asked, "nothing is asked of it after the step"
    assert files().steps == [26] and (files().path / "Agent.json").is_file()
    stopped_at(make_run, 26, {**environment, "checkpoint_settings.run_id": "stopped"})
    ours = files().checkpoint(26)["state.json"]
    theirs = files("stopped").checkpoint(26)["state.json"]
    assert ours["Agent"]["buffer"] == theirs["Agent"]["buffer"], "nothing of the step was observed"
    assert (ours["run"]["environment"], ours["run"]["environment_lost"]) == (None, True)
    weights = [files(name).checkpoint(26)["Agent.safetensors"] for name in ("run", "stopped")]
    assert weights[0] == weights[1]

    resumed = make_run({**environment, **RESUME})
    resumed.start()
    assert resumed.steps == 26 and resumed.behaviors["Agent"].trainer.begun > theirs["Agent"]["counters"]["begun"] - 2
    assert resumed.environment.episodes.min() > 7, "its open episodes are dropped"
    promise = resumed.describe().resume
    assert promise.kind == ("statistical" if kind == "corridor" else "exact")
    resumed.train()
    assert files().result["outcome"] == "done" and 200 in files().steps


@pytest.mark.parametrize("error", [ENDED, EnvironmentFailed("gone")])
def test_a_reset_that_ends_or_fails_at_a_checkpoint_loses_nothing(make_run: Any, files: Any, error: Any) -> None:
    trained(make_run({"environment.type": "identity"}), Ends(error, "reset", at=2))
    assert files().steps == [40]
    make_run({"environment.type": "identity", **RESUME}).train()
    assert files().result["outcome"] == "done"


def test_an_evaluation_that_fails_is_left_to_the_resumed_run(make_run: Any, files: Any) -> None:
    """The environment of the training still runs, and its open episodes are saved."""
    trained(make_run(EVALUATED), Ends(ValueError(), "step", 3, "evaluate"))
    assert files().steps == [30] and files().result["outcome"] == "failed"
    assert files().checkpoint(30)["state.json"]["run"]["environment"] is not None
    make_run({**EVALUATED, **RESUME}).train()
    make_run({**EVALUATED, "checkpoint_settings.run_id": "whole"}).train()
    for name in ("run", "whole"):
        assert [line["step"] for line in files(name).metrics] == [50, 100, 150, 200]
    assert files().checkpoint(200) == files("whole").checkpoint(200), "equal to a run in which it did not fail"


def test_a_failure_before_anything_was_learned_leaves_the_name_of_the_run_free(make_run: Any, files: Any) -> None:
    trained(make_run(), Ends(EnvironmentFailed("gone"), at=1))
    assert files().steps == []
    trained(make_run(), Ends(ENDED, at=1))
    assert files().steps == [0] and files().result["outcome"] == "environment ended"


def test_an_environment_that_ends_at_the_start_is_an_error(make_run: Any) -> None:
    class Gone:
        @hookimpl(tryfirst=True)
        def rlcore_create_environment(self, run: Any) -> Any:
            raise ENDED

    with pytest.raises(EnvironmentEnded):
        make_run(plugins={"gone": Gone()}).train()


def test_an_environment_that_gives_up_because_of_a_stop_leaves_an_interrupted_run(make_run: Any, files: Any) -> None:
    """An environment may wait for long, and looks at ``run.stop_requested`` meanwhile."""

    class Hears(Ends):
        def _watch(self, environment: Any, name: str) -> None:
            super()._watch(environment, name)
            method = getattr(environment, name)

            def call(*arguments: Any) -> Any:
                if self.calls == self.at - 1:
                    run.request_stop("enough", 9)
                return method(*arguments)

            setattr(environment, name, call)

    run = make_run()
    trained(run, Hears(ENDED))
    assert (run.outcome, files().result["stop"]) == ("interrupted", {"reason": "enough", "exit_code": 9})
    assert files().steps == [26]


FAULT = """
from rlcore import EnvironmentEnded, hookimpl

class Ends:
    @hookimpl(wrapper=True)
    def rlcore_create_environment(self, run):
        environment = yield
        step, calls = environment.step, []
        def ending(actions):
            calls.append(1)
            if len(calls) == 14:
                raise {error}
            return step(actions)
        environment.step = ending
        return environment

rlcore_create_environment = Ends().rlcore_create_environment
"""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("EnvironmentEnded('the window was closed')", 0, "environment ended (the window was closed): 26 steps; "),
        ("OSError('no such port')", 3, "failed: 26 steps; "),
    ],
)
def test_the_command_says_what_is_saved_and_how_to_resume(
    write: Any, tmp_path: Path, run_rlcore: Any, error: str, code: int, said: str
) -> None:
    (tmp_path / "ends.py").write_text(FAULT.format(error=error))
    plugins = [str(Path(__file__).parent / "stub_plugin.py"), str(tmp_path / "ends.py")]
    done = run_rlcore("run", str(write({"plugins.local": plugins})))
    assert done.exit_code == code
    assert said in done.stdout and "; resume with: rlcore run --resume --run-id run" in done.stdout
    assert ("no such port" in done.stderr) == (code == 3)


@pytest.mark.parametrize(("error", "code"), [(ENDED, 0), (EnvironmentFailed("gone"), 3)])
def test_a_rank_that_loses_its_environment_takes_part_until_all_ranks_stop(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    """This process does what one of two ranks does; the other one is not there."""
    monkeypatch.setattr(Ranks, "stand_in", lambda ranks, environment: LostEnvironments(environment))
    ends = Ends(error)
    run = make_run({**EXPORT, "environment.type": "identity", "behaviors.Agent.checkpoint_interval": 1000})
    with ends():
        run.start()
        run._training.context.ranks.size = 2
        run.train()
    assert run.outcome == "interrupted" and not ends.asked
    assert files().result["stop"] == {"reason": f"rank 0: {error}", "exit_code": code}
    assert files().steps == [26] and (files().path / "Agent.json").is_file()
    state = files().checkpoint(26)["state.json"]["run"]
    assert (state["environment"], state["environment_lost"]) == (None, True)
    make_run({**EXPORT, "environment.type": "identity", **RESUME}).train()
    assert files().result["outcome"] == "done"


def test_a_rank_whose_trainer_takes_no_turns_ends_with_the_error(make_run: Any, files: Any) -> None:
    """No agent of it can wait."""
    run = make_run({**EXPORT, "environment.type": "identity"})
    with Ends(EnvironmentFailed("gone"))():
        run.start()
        run._training.context.ranks.size = 2
        run.behaviors["Agent"].checks.takes_no_turns = "trainer 'steady'"
        with pytest.raises(EnvironmentFailed, match="gone"):
            run.train()
    assert run.outcome == "failed"
