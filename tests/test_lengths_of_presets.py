"""A preset says how long to train and when to report, so that a run without a file ends, and shows that it learns."""

from __future__ import annotations

from rlcore import load_plugins


def test_every_preset_has_steps_and_reports_at_least_fifteen_times() -> None:
    presets = load_plugins().records("preset")
    blocks = {preset.name: preset.resolve()["default_settings"] for preset in presets}
    assert {"ppo-discrete", "ppo-atari", "sac", "td3", "dqn"} <= blocks.keys()
    assert [name for name, block in blocks.items() if block["max_steps"] < 15 * block["summary_freq"]] == []


def test_off_policy_trainers_report_within_a_minute_of_a_slow_core() -> None:
    slow = 40  # agent steps in a second, with a gradient step in each
    for preset in load_plugins().records("preset"):
        block = preset.resolve()["default_settings"]
        hyperparameters = block["hyperparameters"]
        if "buffer_init_steps" in hyperparameters:
            learning = max(0, block["summary_freq"] - hyperparameters["buffer_init_steps"])
            assert learning / hyperparameters.get("steps_per_update", 1) <= 60 * slow, preset.name
