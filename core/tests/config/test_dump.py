"""Writing a configuration: complete, as YAML, and equal when it is read again; ``test_loads.py`` has single blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlcore import ConfigError, RunConfig, load_config
from rlcore.config.dump import config_text, dump_config
from rlcore.config.reading import document_from_mapping, parse_document
from rlcore.plugins.select import reference_problem

Load = Callable[..., RunConfig]
FULL = "behaviors: {A: {reward_signals: {bonus: {scale: 2}}}}\nenvironment: {type: grid, options: {size: 4}}\n"


def test_what_no_file_can_hold_is_refused_with_its_path(load: Load) -> None:
    config = load(FULL)
    assert config.environment is not None
    config = attrs.evolve(config, environment=attrs.evolve(config.environment, options={"f": print}))
    with pytest.raises(ConfigError, match=r"environment\.options\.f: .* cannot be written"):
        dump_config(config)


# ---------------------------------------------------------------- any settings


def optional(**keys: Any) -> Any:
    return st.fixed_dictionaries({}, optional=keys)


counts = st.integers(1, 65_536)
whole = st.integers(-(2**63), 2**63)
fractions = st.floats(0, 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
references = st.from_regex(r"([A-Za-z0-9_.-]{1,9}/)?[a-z][a-z0-9-]{0,9}", fullmatch=True)
plugin_names = references.filter(lambda text: reference_problem(text) is None)
plain = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
network = optional(hidden_units=counts, normalize=st.booleans(), init=st.sampled_from(["kaiming", "orthogonal"]))
bonus = st.fixed_dictionaries({"scale": st.floats(allow_nan=False, allow_infinity=False)})
rewards = optional(extrinsic=optional(gamma=fractions, network_settings=network), bonus=bonus)
shared = {"max_steps": counts, "threaded": st.just(False), "network_settings": network, "reward_signals": rewards}
of_ppo = optional(
    lambd=fractions,
    target_kl=st.none() | st.floats(1e-9, 1e9),
    widths=st.lists(counts, max_size=3),
    batch_size=st.integers(1, 10240),
)
of_other = optional(tau=fractions, extras=st.dictionaries(texts, whole, max_size=3))
ppo, other = (
    st.fixed_dictionaries({"trainer_type": st.sampled_from(names)}, optional={**shared, "hyperparameters": settings})
    for names, settings in ((["ppo", "rlcore-fake/ppo"], of_ppo), (["other"], of_other))
)
names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True)  # those that differ in case alone are refused
configurations = st.fixed_dictionaries(
    {"behaviors": st.dictionaries(names, ppo | other, min_size=1, max_size=3)},
    optional={
        "default_settings": st.none() | optional(**shared),
        "environment": optional(id=texts, num_envs=counts, options=st.dictionaries(texts, plain, max_size=3)),
        "env_settings": optional(seed=st.integers(-1, 2**31 - 1)),
        "checkpoint_settings": optional(resume=st.booleans(), results_dir=texts),
        "plugins": optional(enable=st.lists(plugin_names, max_size=3)),
        "stats": optional(jsonl=st.just(False) | st.fixed_dictionaries({"path": texts})),
        "acme": optional(project=st.none() | texts, ratio=fractions),
        "debug": st.booleans(),
    },
)
ODD = ["\x85", "\u2028", "é", "1:30", "5e5", "~", " x\n", "1e-3", "+1.e4", ".5E2", "1_0e1", "010", "089", "1e999"]


@settings(deadline=None)
@example({"behaviors": {"B": {}}, "environment": {"options": {"x": ODD}}})
@given(data=configurations)
def test_any_configuration_survives_being_written_as_yaml(plugins_once: Any, data: dict[str, Any]) -> None:
    config = load_config(document_from_mapping(data), plugins_once)
    again = load_config(parse_document(config_text(config), "c.yaml"), plugins_once)
    assert again == config
    assert dump_config(again) == dump_config(config)
