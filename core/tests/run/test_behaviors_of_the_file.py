"""The behaviors of a file and those of an environment: entries that no agent has, and agents without an entry."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.errors import ConfigError


def test_an_entry_that_no_agent_has_is_a_warning_with_the_nearest_name(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run({"environment.type": "pair"}, behaviors=("Left", "Right", "Lift"))
    run.train()
    assert caplog.messages[0] == (
        "behaviors.Lift: has no effect, because the environment has no such behavior; it has Left, Right; did you mean "
        "'Left'?"
    )
    assert files("run").result["behaviors"].keys() == {"Left", "Right"}
    assert run.evaluate(episodes=1).behaviors.keys() == {"Left", "Right"}
    resumed = make_run(
        {"environment.type": "pair", "checkpoint_settings.resume": True}, behaviors=("Left", "Right"), max_steps=300
    )
    resumed.train()
    assert resumed.outcome == "done"


def test_an_agent_without_an_entry_names_the_misspelled_one(make_run: Any) -> None:
    run = make_run({"environment.type": "pair"}, behaviors=("Left", "Rihgt"))
    with pytest.raises(ConfigError, match=r"has a behavior 'Right', which .* does not list; did you mean 'Rihgt'\?"):
        run.train()
