"""POCA's keys are those of PPO: ML-Agents' files have one set for both, and both settings derive from one class."""

from __future__ import annotations

import attrs

from rlcore_poca.settings import POCASettings
from rlcore_ppo.settings import PPOSettings

# One model of POCA has critics of its own, and ML-Agents clips no value.
OF_PPO_ALONE = {"shared_critic", "value_clip"}


def test_pocas_keys_are_ppos_with_equal_defaults_texts_and_limits() -> None:
    of_ppo = {field.name: field for field in attrs.fields(PPOSettings)}
    of_poca = {field.name: field for field in attrs.fields(POCASettings)}
    assert of_poca.keys() == of_ppo.keys() - OF_PPO_ALONE
    for name, field in of_poca.items():
        same = of_ppo[name]
        assert (field.type, field.metadata) == (same.type, same.metadata), name
    poca = attrs.asdict(POCASettings())
    assert poca == {name: value for name, value in attrs.asdict(PPOSettings()).items() if name in poca}
