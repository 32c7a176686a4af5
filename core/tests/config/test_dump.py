"""A written configuration loads to an equal one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlcore.config.dump import config_text, dump_config, write_config
from rlcore.config.load import load_config
from rlcore.config.reading import document_from_mapping, parse_document, read_document
from rlcore.errors import ConfigError
from rlcore.plugins.select import reference_problem
from rlcore.settings import RunConfig

Load = Callable[..., RunConfig]

FULL = """
default_settings: {trainer_type: ppo, hyperparameters: {num_epoch: 5}, max_steps: 1e3}
behaviors:
  A: {reward_signals: {bonus: {scale: 2}}}
  B: {trainer_type: ppo, hyperparameters: {learning_rate: 1e-5, learning_rate_schedule: constant}}
environment: {type: grid, num_envs: 3, options: {size: 4}}
checkpoint_settings: {run_id: "5e5", results_dir: "2026-01-01"}
torch_settings: {device: cpu}
plugins: {disable: [x]}
stats: {jsonl: false, console: {}}
acme: {project: "null"}
"""


def test_a_written_configuration_loads_to_an_equal_one(load: Load, plugins: Any, tmp_path: Path) -> None:
    config = load(FULL)
    write_config(config, tmp_path / "configuration.yaml")
    assert load_config(read_document(tmp_path / "configuration.yaml"), plugins) == config
    assert [path.name for path in tmp_path.iterdir()] == ["configuration.yaml"]


def test_every_block_is_written_complete(load: Load) -> None:
    data = dump_config(load(FULL))
    assert data["behaviors"]["B"]["hyperparameters"]["beta_schedule"] == "constant"
    assert data["behaviors"]["A"]["reward_signals"]["bonus"]["network_settings"]["hidden_units"] == 128
    assert data["acme"] == {"project": "null", "ratio": 0.5}
    assert data["stats"] == {"jsonl": False, "console": {}}
    assert "sections" not in data


@pytest.mark.parametrize(
    "behavior",
    [
        "trainer_type: other",  # complete ppo hyperparameters in default_settings would not fit
        "trainer_type: other, hyperparameters: {extras: {mine: 2}}",
        "reward_signals: {bonus: {scale: 1}}",  # the extrinsic reward that default_settings gets must not come along
    ],
)
def test_completed_default_settings_do_not_leak_into_behaviors(load: Load, plugins: Any, behavior: str) -> None:
    config = load(f"default_settings: {{max_steps: 9}}\nbehaviors: {{A: {{{behavior}}}, B: {{}}}}\n")
    again = load_config(document_from_mapping(dump_config(config)), plugins)
    assert again == config


def test_a_mapping_that_a_behavior_replaced_does_not_come_back(load: Load, plugins: Any) -> None:
    text = "default_settings: {trainer_type: other}\nbehaviors: {A: {hyperparameters: {extras: {mine: 2}}}}\n"
    config = load(text)
    assert config.behaviors["A"].hyperparameters.extras == {"mine": 2}
    assert load_config(document_from_mapping(dump_config(config)), plugins) == config


def test_the_seed_can_be_replaced_before_writing(load: Load, plugins: Any, tmp_path: Path) -> None:
    config = load(FULL)
    config = attrs.evolve(config, env_settings=attrs.evolve(config.env_settings, seed=1234))
    write_config(config, tmp_path / "c.yaml")
    assert load_config(read_document(tmp_path / "c.yaml"), plugins).env_settings.seed == 1234


def test_what_no_file_can_hold_is_refused_with_its_path(load: Load) -> None:
    config = load(FULL)
    assert config.environment is not None
    config = attrs.evolve(config, environment=attrs.evolve(config.environment, options={"f": print}))
    with pytest.raises(ConfigError, match=r"environment\.options\.f: .* cannot be written"):
        dump_config(config)


# ---------------------------------------------------------------- any settings


def is_reference(text: str) -> bool:
    return reference_problem(text) is None


counts = st.integers(1, 65_536)
whole = st.integers(-(2**63), 2**63)
fractions = st.floats(0, 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
plugin_names = st.from_regex(r"([A-Za-z0-9_.-]{1,9}/)?[a-z][a-z0-9-]{0,9}", fullmatch=True).filter(is_reference)
ODD = ["\x85", "\u2028", "é", "1:30", "5e5", "~", " x\n"]
plain = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
network = st.fixed_dictionaries(
    {},
    optional={"hidden_units": counts, "normalize": st.booleans(), "init": st.sampled_from(["kaiming", "orthogonal"])},
)
rewards = st.fixed_dictionaries(
    {},
    optional={
        "extrinsic": st.fixed_dictionaries({}, optional={"gamma": fractions, "network_settings": network}),
        "bonus": st.fixed_dictionaries({"scale": st.floats(allow_nan=False, allow_infinity=False)}),
    },
)
shared = {"max_steps": counts, "threaded": st.just(False), "network_settings": network, "reward_signals": rewards}
ppo = st.fixed_dictionaries(
    {"trainer_type": st.sampled_from(["ppo", "rlcore-fake/ppo"])},
    optional={
        **shared,
        "hyperparameters": st.fixed_dictionaries(
            {},
            optional={
                "lambd": fractions,
                "target_kl": st.none() | st.floats(1e-9, 1e9),
                "widths": st.lists(counts, max_size=3),
                "batch_size": st.integers(1, 10240),
            },
        ),
    },
)
other = st.fixed_dictionaries(
    {"trainer_type": st.just("other")},
    optional={
        **shared,
        "hyperparameters": st.fixed_dictionaries(
            {}, optional={"tau": fractions, "extras": st.dictionaries(texts, whole, max_size=3)}
        ),
    },
)
configurations = st.fixed_dictionaries(
    {
        "behaviors": st.dictionaries(
            st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True), ppo | other, min_size=1, max_size=3
        )  # lower case: names that differ in case alone are refused
    },
    optional={
        "default_settings": st.none() | st.fixed_dictionaries({}, optional=shared),
        "environment": st.fixed_dictionaries(
            {}, optional={"id": texts, "num_envs": counts, "options": st.dictionaries(texts, plain, max_size=3)}
        ),
        "env_settings": st.fixed_dictionaries({}, optional={"seed": st.integers(-1, 2**31 - 1)}),
        "checkpoint_settings": st.fixed_dictionaries({}, optional={"resume": st.booleans(), "results_dir": texts}),
        "plugins": st.fixed_dictionaries({}, optional={"enable": st.lists(plugin_names, max_size=3)}),
        "stats": st.fixed_dictionaries({}, optional={"jsonl": st.just(False) | st.fixed_dictionaries({"path": texts})}),
        "acme": st.fixed_dictionaries({}, optional={"project": st.none() | texts, "ratio": fractions}),
        "debug": st.booleans(),
    },
)


@settings(deadline=None)
@example(
    {"behaviors": {"B": {}}, "environment": {"options": {"x": ["\x85", "\u2028", "é", "1:30", "5e5", "~", " x\n"]}}}
)
@given(data=configurations)
def test_any_configuration_survives_being_written_as_yaml(plugins_once: Any, data: dict[str, Any]) -> None:
    config = load_config(document_from_mapping(data), plugins_once)
    again = load_config(parse_document(config_text(config), "c.yaml"), plugins_once)
    assert again == config
    assert dump_config(again) == dump_config(config)
