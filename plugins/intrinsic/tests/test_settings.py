"""ML-Agents' keys and defaults, the deprecated ``encoding_size``, and what is refused with its place in the file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from rlcore import BehaviorSpec, ConfigError, ConfigErrors, Plugins, RunContext, config_from_mapping, dump_config
from rlcore_devkit.environments import identity_hybrid

REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def behavior() -> BehaviorSpec:
    [behavior] = identity_hybrid(2, "B").behaviors.values()
    return behavior


def block_of(plugins: Plugins, name: str, **settings: Any) -> Any:
    config = config_from_mapping({"behaviors": {"B": {"reward_signals": {name: settings}}}}, plugins)
    assert config_from_mapping(dump_config(config), plugins) == config
    return config.behaviors["B"].reward_signals[name]


@pytest.mark.parametrize(
    ("network", "units"), [(None, 32), ({}, 32), ({"hidden_units": 64}, 64), ({"num_layers": 1}, 128)]
)
def test_encoding_size_is_the_width_unless_the_network_is_described(plugins: Plugins, network: Any, units: int) -> None:
    given = {} if network is None else {"network_settings": network}
    assert block_of(plugins, "rnd", encoding_size=32, **given).network.hidden_units == units


def test_encoding_size_is_a_warning_with_the_key_to_write(
    make: Any, behavior: BehaviorSpec, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "rlcore.plugin.intrinsic"):
        reward = make("curiosity", behavior, encoding_size=32)
    assert reward.model.encoder.features == 32
    assert caplog.messages == [
        "behavior 'B': encoding_size of reward 'curiosity' is deprecated; write network_settings: {hidden_units: 32}"
    ]


@pytest.mark.parametrize(
    ("normalize", "own", "expected"), [(False, True, True), (True, False, True), (False, False, False)]
)
def test_observations_are_normalized_unless_both_keys_say_no(
    plugins: Plugins, normalize: bool, own: bool, expected: bool
) -> None:
    block = block_of(plugins, "rnd", network_settings={"normalize": normalize}, normalize_observations=own)
    assert block.network.normalize is expected


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["message"])
def test_mistakes_are_refused(plugins: Plugins, case: dict[str, Any]) -> None:
    with pytest.raises(ConfigErrors) as caught:
        block_of(plugins, case["reward"], **case["settings"])
    assert case["message"] in str(caught.value)


@pytest.mark.parametrize(
    ("demo_path", "message"),
    [
        ("nowhere", "recording 'nowhere': no such path or name"),
        (
            "other",
            "recording 'other' does not fit behavior 'B': in the recording, discrete actions are (5,) instead of (3,), "
            "which the agents have; record episodes of this environment",
        ),
    ],
)
def test_a_recording_that_cannot_be_learned_from_is_refused_with_the_key(
    plugins: Plugins, behavior: BehaviorSpec, tmp_path: Path, keep: Any, recording_of: Any, demo_path: str, message: str
) -> None:
    keep("other", recording_of(attrs.evolve(behavior, discrete=(5,))))
    block = {"reward_signals": {"rlcore-intrinsic/gail": {"demo_path": demo_path}}}
    config = config_from_mapping({"behaviors": {"B": block}}, plugins)
    with pytest.raises(ConfigError) as caught:
        RunContext(config, plugins, tmp_path, 1, 1).create_reward_providers(behavior, config.behaviors["B"])
    assert caught.value.key == ("behaviors", "B", "reward_signals", "rlcore-intrinsic/gail", "demo_path")
    assert caught.value.message == message
