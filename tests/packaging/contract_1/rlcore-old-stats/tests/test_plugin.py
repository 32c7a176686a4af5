from rlcore_devkit import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "rlcore-old-stats/old-stats"
