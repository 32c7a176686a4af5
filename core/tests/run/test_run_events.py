"""``rlcore run --json``: events on standard output, and everything else on standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore import Launch
from rlcore.plugins.call import Plugins
from rlcore_devkit.fixtures import RunRlcore

Write = Callable[..., Path]


def events_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_events_are_those_of_the_run_and_what_people_read_is_on_the_other_stream(
    write: Write, files: Any, run_rlcore: RunRlcore
) -> None:
    config = write({"evaluation": {"interval": 100, "episodes": 3}, "stats.console": {}})
    done = run_rlcore("run", config, "--max-steps", "200", "--json")
    assert done.exit_code == 0, done.stderr
    events = events_of(done.stdout)
    kinds = [event["event"] for event in events]
    assert kinds[0] == "start" and kinds[-1] == "end" and {"summary", "checkpoint", "evaluation"} == set(kinds[1:-1])
    start, end = events[0], events[-1]
    assert start["behaviors"]["Agent"]["max_steps"] == 200 and start["resumed_from"] is None
    assert Path(start["directory"]) == files().path == Path(end["directory"])
    of_kind = {kind: [event for event in events if event["event"] == kind] for kind in kinds}
    written = [(line["step"], line["stats"]) for line in files().metrics]
    assert [(event["step"], event["stats"]) for event in of_kind["summary"]] == written
    assert [event["step"] for event in of_kind["evaluation"]] == [100, 200]
    last = of_kind["checkpoint"][-1]
    assert Path(last["path"]).is_dir() and last["step"] == 200
    result = files().result
    assert end["outcome"] == result["outcome"] == "done" and end["resume_with"] is None
    assert end["behaviors"]["Agent"]["mean_reward"] == result["behaviors"]["Agent"]["mean_reward"]
    assert end["evaluation"]["best_score"] == result["evaluation"]["best_score"]
    assert "Agent. Step: " in done.stderr and "\ndone: 200 steps" in done.stderr


@pytest.mark.parametrize(
    ("words", "exit_code", "code", "key"),
    [
        (["--set", "behaviors.Agent.max_stpes=1"], 2, "unknown-key", "behaviors.Agent.max_stpes"),
        (["--resume"], 5, "run-state", None),
        (["-p", "nope"], 4, "plugin-failed", None),
    ],
)
def test_an_error_is_the_last_event_and_the_exit_code_stays(
    write: Write, run_rlcore: RunRlcore, words: list[str], exit_code: int, code: str, key: str | None
) -> None:
    config = write({})
    failed = run_rlcore("run", config, "--json", *words)
    assert failed.exit_code == exit_code
    event = events_of(failed.stdout)[-1]
    assert (event["event"], event["exit_code"]) == ("error", exit_code)
    assert [(error["code"], error["key"]) for error in event["errors"]] == [(code, key)]
    assert failed.stderr.count("error: ") == 1


def test_an_interrupted_run_ends_with_the_command_that_resumes_it(
    write: Write, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify = Plugins.notify

    def stop(self: Plugins, hook: str, **arguments: Any) -> None:
        notify(self, hook, **arguments)
        if hook == "rlcore_run_started":
            arguments["run"].request_stop("enough", 7)

    monkeypatch.setattr(Plugins, "notify", stop)
    stopped = run_rlcore("run", write({}), "--json")
    assert stopped.exit_code == 7
    end = events_of(stopped.stdout)[-1]
    assert (end["event"], end["outcome"], end["reason"], end["exit_code"]) == ("end", "interrupted", "enough", 7)
    assert end["resume_with"].startswith("rlcore run --resume --run-id ")


PRINTS = """\
import os
from rlcore import hookimpl

@hookimpl
def rlcore_run_started(run):
    print("printed by a plugin")
    os.write(1, b"written to the descriptor\\n")
"""


def test_what_other_code_prints_is_not_between_the_events(write: Write, tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(PRINTS)
    config = write({})
    command = [sys.executable, "-m", "rlcore", "run", str(config), "--json", "--max-steps", "60"]
    environment = {**os.environ, "RLCORE_ALLOW_LOCAL": "1"}
    done = subprocess.run(
        [*command, "-p", f"module:{tmp_path / 'prints.py'}"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kinds = [event["event"] for event in events_of(done.stdout)]
    assert kinds[0] == "start" and kinds[-1] == "end"
    assert "printed by a plugin" in done.stderr and "written to the descriptor" in done.stderr


def test_seeds_and_other_commands_that_take_over_refuse_events(write: Write, run_rlcore: RunRlcore) -> None:
    refused = run_rlcore("run", write({"plugins.autoload": True}), "--json", "--seeds", "1-2")
    assert refused.exit_code == 2 and "--json prints the events of one run" in refused.stderr


def test_one_rank_prints_the_events_of_a_run(
    write: Write, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", write({}), "--json", "--set", "behaviors.Agent.max_stpes=1")
    printed = []
    for rank in (0, 1):
        launch = Launch(rank, 2, 0, job="test")
        monkeypatch.setattr("rlcore.contracts.ranks.launched", lambda launch=launch: launch)
        failed = run_rlcore(*words)
        assert failed.exit_code == 2
        printed.append(failed.stdout)
    assert events_of(printed[0])[-1]["event"] == "error" and printed[1] == ""
