"""Keys of a behavior that no plugin claims or may claim; core/tests/config/data has those that one claims."""

from __future__ import annotations

import pytest

from rlcore import BehaviorSection, ConfigErrors, PluginError, Plugins, hookimpl
from rlcore.config.load import load_config
from rlcore.config.reading import parse_document
from rlcore.settings import RunConfig


def load(plugins: Plugins, text: str) -> RunConfig:
    return load_config(parse_document(text, "c.yaml"), plugins)


def test_a_known_package_is_what_pip_installs(bare: Plugins) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(bare, "behaviors:\n  A:\n    self_play: {window: 3}\n")
    (problem,) = caught.value.problems
    assert problem.package or "-p ghost turns it on" in problem.note  # it is installed, and off
    bare.found = ()  # as if rlcore-ghost were not installed
    with pytest.raises(ConfigErrors) as caught:
        load(bare, "behaviors:\n  A: {self_play: {}}")
    assert str(caught.value) == (
        "c.yaml:2: behaviors.A.self_play: unknown block of a behavior 'self_play'; no block of a behavior is "
        "installed; pip install rlcore-ghost"
    )
    assert caught.value.problems[0].package == "rlcore-ghost"


@pytest.mark.parametrize("key", ["max_steps", "sections", "network_settings"])
def test_a_key_of_cores_cannot_be_claimed(bare: Plugins, key: str) -> None:
    class Greedy:
        @hookimpl
        def rlcore_config_sections(self) -> list[BehaviorSection]:
            return [BehaviorSection(name=key, target="a:b")]

    bare.register(Greedy(), "greedy", "acme-greedy", "1")
    with pytest.raises(PluginError, match=rf"acme-greedy 1\): the block of a behavior '{key}' is core's own"):
        load(bare, "behaviors: {A: {}}")
