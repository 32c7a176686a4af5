from pathlib import Path
from types import SimpleNamespace

from rlcore.plugins import load_plugins
from rlcore.stats import StatsWriter, StatSummary

from rlcore_old_stats.writer import OldStatsWriter


def test_a_summary_is_on_disk_before_the_writer_is_closed(tmp_path: Path) -> None:
    writer = OldStatsWriter(tmp_path / "stats.csv")
    writer.write("Walker", 100, {"Losses/Value Loss": StatSummary.of([1.0, 3.0])})
    assert (tmp_path / "stats.csv").read_text().splitlines() == ["Walker,100,Losses/Value Loss,2.0"]
    writer.close()


def test_a_resumed_run_goes_on_with_its_file(tmp_path: Path) -> None:
    for step in (1, 2):
        writer = OldStatsWriter(tmp_path / "stats.csv")
        writer.write("Walker", step, {"x": StatSummary.of([0.0])})
        writer.close()
    assert len((tmp_path / "stats.csv").read_text().splitlines()) == 2


def test_keeps_the_contract_of_statistics_writers(tmp_path: Path) -> None:
    plugins = load_plugins()
    spec = plugins.stats_writer("rlcore-old-stats/old-stats")
    settings = plugins.resolve(spec, "settings")()
    writer = plugins.create_stats_writer(spec, settings, SimpleNamespace(directory=tmp_path))
    assert isinstance(writer, StatsWriter)
    writer.close()
