"""rlcore-skills keeps the rules of every plugin."""

from __future__ import annotations

import pytest

from rlcore_devkit import PluginConformance


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-skills/skills"
