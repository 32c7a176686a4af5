from rlcore.testing import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "rlcore-old-trainer/old-trainer"
