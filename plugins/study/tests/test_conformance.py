"""Each plugin of rlcore-study keeps the rules of every plugin."""

from __future__ import annotations

import pytest

from rlcore import load_plugins, selection_from
from rlcore_devkit import PluginConformance


@pytest.mark.smoke
class TestStudy(PluginConformance):
    plugin = "rlcore-study/study"


@pytest.mark.smoke
class TestReport(PluginConformance):
    plugin = "rlcore-study/report"


@pytest.mark.smoke
class TestSweep(PluginConformance):
    plugin = "rlcore-study/sweep"


@pytest.mark.smoke
class TestCheckpoints(PluginConformance):
    plugin = "rlcore-study/checkpoints"


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["study", "report", "sweep", "checkpoints"])
def test_each_plugin_is_turned_on_and_off_alone(name: str) -> None:
    on = {each.name for each in load_plugins(selection_from(None, {}, [name], no_plugins=True)).found if each.on}
    assert on == {"core", name}
    off = {each.name for each in load_plugins(selection_from(None, {}, [f"no:{name}"], False)).found if not each.on}
    assert off == {name}
