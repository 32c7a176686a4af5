"""The command line over the file over the defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlcore.config.reading import parse_document
from rlcore.config.rewriting import apply_overrides
from rlcore.errors import ConfigError
from rlcore.settings import RunConfig

Load = Callable[..., RunConfig]
Errors = Callable[..., list[str]]

FILE = "behaviors:\n  B: {max_steps: 10}\nenv_settings: {seed: 5}\n"
SEED = ("env_settings", "seed")


@pytest.mark.parametrize(
    ("text", "sets", "flags", "seed"),
    [
        ("behaviors: {B: {}}", [], {}, -1),
        (FILE, [], {}, 5),
        (FILE, ["env_settings.seed=6"], {}, 6),
        (FILE, [], {SEED: 7}, 7),
        (FILE, ["env_settings.seed=6"], {SEED: 7}, 7),
        (FILE, ["env_settings.seed=6", "env_settings.seed=8"], {SEED: None}, 8),
    ],
)
def test_flags_beat_set_beats_file_beats_default(load: Load, text: str, sets: Any, flags: Any, seed: int) -> None:
    assert load(text, sets, flags).env_settings.seed == seed


def test_set_reads_its_value_as_yaml_and_makes_missing_blocks(load: Load) -> None:
    config = load(
        FILE,
        [
            "behaviors.B.max_steps=5e5",
            "behaviors.B.trainer_type=ppo",
            "behaviors.B.hyperparameters.widths=[1, 2]",
            "torch_settings.device=null",
            "environment.options.'a.b'=text",
            "debug=true",
        ],
    )
    assert config.behaviors["B"].max_steps == 500_000
    assert config.behaviors["B"].hyperparameters.widths == (1, 2)
    assert config.environment is not None and config.environment.options == {"a.b": "text"}
    assert config.debug is True


def test_the_document_itself_is_left_alone() -> None:
    document = parse_document(FILE, "c.yaml")
    changed = apply_overrides(document, ["behaviors.B.max_steps=1"], {})
    assert document.data["behaviors"]["B"]["max_steps"] == 10
    assert changed.where(("behaviors", "B", "max_steps")) == "--set behaviors.B.max_steps"
    assert changed.where(("behaviors", "B")) == "c.yaml:2"
    with pytest.raises(ConfigError):
        apply_overrides(document, ["x"], {})


@pytest.mark.parametrize("path", [("env_settings", "num_envs"), ("environment", "num_envs")])
def test_the_command_line_sets_num_envs_under_either_key(load: Load, path: tuple[str, str]) -> None:
    for block in ("environment: {num_envs: 4}", "environment: {}\nenv_settings: {num_envs: 4}"):
        config = load(f"behaviors: {{B: {{}}}}\n{block}\n", [], {path: 2})
        assert config.environment is not None
        assert config.environment.num_envs == 2


RESUME = ("checkpoint_settings", "resume")
INITIALIZE = ("checkpoint_settings", "initialize_from")


def test_resuming_leaves_the_files_initialize_from_in_place(load: Load) -> None:
    text = "behaviors: {B: {}}\ncheckpoint_settings: {initialize_from: old}\n"
    start = load(text, [], {RESUME: True}).checkpoint_settings
    assert start.resume and start.initialize_from == "old"


def test_resume_and_initialize_from_are_refused_if_both_are_given_in_one_place(load: Load, errors: Errors) -> None:
    text = "behaviors: {B: {}}\ncheckpoint_settings: {initialize_from: old, resume: true}\n"
    assert len(errors(text)) == 1
    assert len(errors("behaviors: {B: {}}", [], {RESUME: True, INITIALIZE: "old"})) == 1
    assert len(errors("behaviors: {B: {}}", ["checkpoint_settings.resume=true"], {INITIALIZE: "old"})) == 1
    start = load(text, [], {INITIALIZE: "other"}).checkpoint_settings
    assert start.initialize_from == "other" and not start.resume


def test_an_override_reaches_behaviors_through_default_settings(load: Load, errors: Errors) -> None:
    assert load("behaviors: {B: {}}", ["default_settings.max_steps=3"]).behaviors["B"].max_steps == 3
    assert errors("behaviors: {B: {}}", ["default_settings.max_steps=0"]) == [
        "--set default_settings.max_steps: must be at least 1, not 0"
    ]


def test_a_set_adds_no_behavior_to_those_a_file_lists(load: Load, errors: Errors) -> None:
    assert errors("behaviors: {Cartpole: {}}", ["behaviors.CartPole.max_steps=1"]) == [
        "--set behaviors.CartPole.max_steps: the file has no behavior 'CartPole'; it has Cartpole; "
        "did you mean 'Cartpole'?"
    ]
    assert errors(FILE, ["behaviors.Zebra={}"]) == ["--set behaviors.Zebra: the file has no behavior 'Zebra'; it has B"]
    assert load("default_settings: {}", ["behaviors.C.max_steps=3", "behaviors.C.summary_freq=2"]).behaviors.keys() == {
        "C"
    }
    assert load(FILE, ["behaviors={C: {max_steps: 3}}"]).behaviors.keys() == {"C"}
