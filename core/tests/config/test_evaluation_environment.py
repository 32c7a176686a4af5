"""``evaluation.environment``: complete after loading, written as what differs, refused at its own line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.config.document import Block
from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping
from rlcore.settings import EnvironmentSettings, EvaluationSettings, RunConfig, SettingError, setting
from rlcore.settings.fields import ReadOnlyDict

Load = Callable[..., RunConfig]
Errors = Callable[..., list[str]]

START = "behaviors: {B: {}}\nenvironment:\n  type: grid\n  num_envs: 4\n  options: {size: 5}\n"


def played(config: RunConfig) -> tuple[str, Any, int | None]:
    settings = config.evaluation_environment
    assert settings is not None
    return settings.type, settings.options, settings.num_envs


@pytest.mark.parametrize(
    ("block", "kind", "size", "num_envs"),
    [
        ("", "grid", 5, None),
        ("evaluation: {interval: 9}", "grid", 5, None),
        ("evaluation: {interval: 9, environment: {num_envs: 2}}", "grid", 5, 2),
        ("evaluation: {interval: 9, environment: {options: {size: 7}}}", "grid", 7, None),
        ("evaluation: {interval: 9, environment: {type: grid}}", "grid", 5, None),
        ("evaluation: {interval: 9, environment: {type: rlcore-fake/grid}}", "rlcore-fake/grid", 3, None),
    ],
)
def test_it_is_the_environment_of_training_but_for_what_the_block_says(
    load: Load, block: str, kind: str, size: int, num_envs: int | None
) -> None:
    config = load(START + block)
    found_kind, options, found_num_envs = played(config)
    assert (found_kind, options.size, found_num_envs) == (kind, size, num_envs)
    assert config.environment is not None
    assert (config.environment.options.size, config.environment.num_envs) == (5, 4)


def test_without_any_environment_there_is_none(load: Load) -> None:
    assert load("behaviors: {B: {}}").evaluation_environment is None
    alone = load("behaviors: {B: {}}\nevaluation: {interval: 9, environment: {type: grid, options: {size: 8}}}")
    assert alone.environment is None and played(alone)[1].size == 8


def test_settings_made_in_python_without_an_environment_of_their_own_use_the_one_of_training() -> None:
    environment = EnvironmentSettings(id="here", num_envs=3)
    config = RunConfig(environment=environment, evaluation=EvaluationSettings(interval=5))
    assert config.evaluation_environment == attrs.evolve(environment, num_envs=None)
    assert config.num_envs == 3


def test_no_node_of_the_document_is_left_in_the_settings(load: Load) -> None:
    config = load(
        "behaviors: {B: {}}\nenvironment: {options: {a: {b: [1, {c: 2}]}}}\n"
        "evaluation: {interval: 9, environment: {options: {a: {d: 3}}}}"
    )
    assert config.environment is not None
    for options in (config.environment.options, played(config)[1]):
        assert type(options) is ReadOnlyDict and type(options["a"]) is dict and type(options["a"]["b"]) is list
        assert not isinstance(options["a"]["b"][1], Block)
    assert played(config)[1] == {"a": {"b": [1, {"c": 2}], "d": 3}}


@pytest.mark.parametrize(
    ("block", "written"),
    [
        ("{}", {}),
        ("{options: {size: 7}}", {"options": {"size": 7}}),
        ("{num_envs: 2, options: {size: 5}}", {"num_envs": 2}),
        (
            "{type: rlcore-fake/grid}",
            {
                "type": "rlcore-fake/grid",
                "id": None,
                "num_envs": None,
                "workers": None,
                "options": {"size": 3},
                "parameters": {},
            },
        ),
    ],
)
def test_what_differs_is_written_and_loads_to_an_equal_configuration(
    load: Load, plugins: Any, block: str, written: dict[str, Any]
) -> None:
    config = load(f"{START}evaluation: {{interval: 9, environment: {block}}}")
    data = dump_config(config)
    assert data["evaluation"]["environment"] == written
    assert config_from_mapping(data, plugins) == config


def test_a_written_configuration_still_follows_a_changed_environment(load: Load, plugins: Any) -> None:
    data = dump_config(load(f"{START}evaluation: {{interval: 9, environment: {{num_envs: 2}}}}"))
    data["environment"]["options"]["size"] = 11
    kind, options, num_envs = played(config_from_mapping(data, plugins))
    assert (kind, options.size, num_envs) == ("grid", 11, 2)


def test_values_that_python_calls_equal_differ_all_the_same(load: Load, plugins: Any) -> None:
    config = load(
        "behaviors: {B: {}}\nenvironment: {options: {a: 1, b: [1]}}\n"
        "evaluation: {interval: 9, environment: {options: {a: true, b: [1.0]}}}"
    )
    again = config_from_mapping(dump_config(config), plugins)
    assert repr(played(again)[1]) == repr(played(config)[1]) == "{'a': True, 'b': [1.0]}"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["x", "", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
options = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@settings(max_examples=100, deadline=None)
@given(base=options, own=options, kind=st.sampled_from([None, "gymnasium", "rlcore-fake/gymnasium"]))
def test_any_options_are_merged_and_survive_being_written(plugins_once: Any, base: Any, own: Any, kind: Any) -> None:
    def over(mine: Any, below: Any) -> Any:
        if not (isinstance(mine, dict) and isinstance(below, dict)):
            return mine
        return {key: over(mine[key], below[key]) if key in mine and key in below else mine.get(key, below.get(key))
                for key in {**mine, **below}}  # fmt: skip

    block = {"options": own, **({} if kind is None else {"type": kind})}
    data = {
        "behaviors": {"B": {}},
        "environment": {"options": base},
        "evaluation": {"interval": 9, "environment": block},
    }
    config = config_from_mapping(data, plugins_once)
    assert played(config)[1] == (own if kind == "rlcore-fake/gymnasium" else over(own, base))
    again = config_from_mapping(dump_config(config), plugins_once)
    assert again == config and dump_config(again) == dump_config(config)


def test_defaults_of_the_options_class_are_decided_once(
    plugins: Any, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapping with a default: after writing, evaluations must not gain or lose entries."""

    @attrs.frozen(kw_only=True)
    class Options:
        extras: dict[str, int] = attrs.field(factory=lambda: {"kept": 1})

    monkeypatch.setattr("fake.GridOptions", Options)
    own = "{options: {extras: {mine: 2}}}"
    config = load(
        f"behaviors: {{B: {{}}}}\nenvironment: {{type: grid}}\nevaluation: {{interval: 9, environment: {own}}}"
    )
    assert played(config)[1].extras == {"kept": 1, "mine": 2}
    assert config_from_mapping(dump_config(config), plugins) == config


def test_an_inherited_value_that_only_evaluations_refuse_is_reported_where_it_is_written(
    errors: Errors, monkeypatch: pytest.MonkeyPatch
) -> None:
    @attrs.frozen(kw_only=True)
    class Options:
        low: int = setting(0, "The least.")
        high: int = setting(9, "The greatest.")

        def __attrs_post_init__(self) -> None:
            if self.low > self.high:
                raise SettingError("low", f"must be at most high ({self.high})", others=("high",))

    monkeypatch.setattr("fake.GridOptions", Options)
    text = (
        "behaviors: {B: {}}\nenvironment:\n  type: grid\n  options:\n    low: 5\n"
        "evaluation:\n  interval: 9\n  environment:\n    options:\n      high: 4\n"
    )
    assert errors(text) == [
        "c.yaml:5: environment.options.low: must be at most high (4) (inherited by evaluation.environment)"
    ]
