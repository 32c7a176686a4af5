"""The plugin keeps the rules of all plugins."""

from __future__ import annotations

import pytest

from rlcore_devkit import PluginConformance

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-devkit/devkit"
