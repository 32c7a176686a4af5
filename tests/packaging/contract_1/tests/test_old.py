from types import SimpleNamespace

from rlcore.plugins import load_plugins
from rlcore.stats import StatsWriter, StatSummary
from rlcore.testing import PluginConformance, TrainerConformance


class TestPlugin(PluginConformance):
    plugin = "rlcore-old/old"


class TestTrainer(TrainerConformance):
    trainer = "rlcore-old/old-trainer"
    learns_within = 30_000


def test_keeps_the_contract_of_statistics_writers(tmp_path):
    plugins = load_plugins()
    spec = plugins.stats_writer("old-stats")
    settings = plugins.resolve(spec, "settings")()
    writer = plugins.create_stats_writer(spec, settings, SimpleNamespace(directory=tmp_path))
    assert isinstance(writer, StatsWriter)
    writer.write("Walker", 100, {"Reward": StatSummary.of([1.0, 3.0])})
    assert (tmp_path / "old-stats.csv").read_text() == "Walker,100,Reward,2.0\n"
