"""The plugin passes the conformance tests of plugins."""

from __future__ import annotations

import pytest

from rlcore_devkit import PluginConformance

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-unity/unity"
