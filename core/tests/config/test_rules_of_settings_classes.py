"""The rules of settings classes of plugins: ``problems`` of every block, and the checks of a base class."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore import ConfigErrors, load_config, load_plugins_for
from rlcore.config.reading import parse_document

PLUGIN = """
import attrs
from rlcore import (ConfigSection, EnvironmentSpec, EvaluationSection, ExporterSpec, StatsWriterSpec, TrainerSpec,
    hookimpl, setting)
from rlcore.settings import EnvironmentSettings, ExportSettings, SettingError

class Asked:
    def problems(self, config, plugins):
        if not config.behaviors["Agent"].hyperparameters.low:
            yield (), f"{type(self).__name__} was asked"

@attrs.frozen(kw_only=True)
class Base:
    low: int = setting(0, "Low.")
    high: int = setting(1, "High.")

    def __attrs_post_init__(self):
        if self.low > self.high:
            raise SettingError("low", "must be at most high", others=("high",))

@attrs.frozen(kw_only=True)
class Silent(Base):
    odd: int = setting(1, "Odd.")

    def __attrs_post_init__(self):
        if self.odd % 2 == 0:
            raise SettingError("odd", "must be odd")

@attrs.frozen(kw_only=True)
class Polite(Silent):
    def __attrs_post_init__(self):
        super().__attrs_post_init__()

@attrs.frozen(kw_only=True)
class World(EnvironmentSettings, Asked):
    gravity: float = setting(9.8, "Gravity.")

    def __attrs_post_init__(self):
        pass

@attrs.frozen(kw_only=True)
class Section(Asked):
    key: int = setting(1, "A key.")

class Options(Section): pass
class Route(Section): pass
class Writer(Section): pass
class Plan(Section): pass

@attrs.frozen(kw_only=True)
class Export(ExportSettings, Asked):
    pass

@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="rules", target="asking:Section"),
        EvaluationSection(name="plan", target="asking:Plan", settings="asking:Plan")]

@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="silent", target="asking:X", settings="asking:Silent"),
        TrainerSpec(name="polite", target="asking:X", settings="asking:Polite")]

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="world", target="asking:X", block="asking:World", settings="asking:Options",
        parameters="asking:Route")]

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="asked", target="asking:X", settings="asking:Writer")]

@hookimpl
def rlcore_exporters():
    return [ExporterSpec(name="asked", target="asking:X", settings="asking:Export", suffix=".asked")]
"""
FILE = """
plugins: {{autoload: false, enable: [curriculum], local: [{directory}/asking.py]}}
behaviors: {{Agent: {{trainer_type: {trainer}, hyperparameters: {{{settings}}}}}}}
environment: {{type: world, num_envs: 2, workers: {workers}{more}}}
"""


def load(
    tmp_path: Path, trainer: str = "silent", settings: str = "low: 1", workers: str = "null", more: str = ""
) -> None:
    (tmp_path / "asking.py").write_text(PLUGIN)
    inside, _, outside = more.partition("\n")
    text = FILE.format(directory=tmp_path, trainer=trainer, settings=settings, workers=workers, more=inside) + outside
    document = parse_document(text, "run.yaml")
    load_config(document, load_plugins_for(document))


@pytest.mark.parametrize("trainer", ["silent", "polite"])
@pytest.mark.parametrize(
    ("settings", "problem"),
    [("low: 2", "low: must be at most high"), ("odd: 2, low: 1", "odd: must be odd"), ("low: 1", None)],
)
def test_a_class_that_calls_no_super_keeps_the_checks_of_its_base(
    tmp_path: Path, trainer: str, settings: str, problem: str | None
) -> None:
    if problem is None:
        load(tmp_path, trainer, settings)
        return
    with pytest.raises(ConfigErrors, match=f"run.yaml:3: behaviors.Agent.hyperparameters.{problem}"):
        load(tmp_path, trainer, settings)


def test_an_environment_block_that_calls_no_super_still_reads_the_number_of_workers(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match="unknown executor 'processes'"):
        load(tmp_path, workers="2")


MORE = """, options: {key: 2}, parameters: {size: {key: 3}}
environment_parameters: {size: 1.0}
rules: {key: 1}
stats: {asked: {}}
export: {asked: {}}
evaluation: {interval: 10, key: 3}
"""
PLACES = {
    "rules": "Section",
    "evaluation": "Plan",
    "environment": "World",
    "environment.options": "Options",
    "environment.parameters.size": "Route",
    "evaluation.environment": "World",  # what it inherits is reported at its own place
    "stats.asked": "Writer",
    "export.asked": "Export",
}


def test_every_block_of_a_plugin_may_check_the_rest_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(tmp_path, settings="low: 0", more=MORE)
    found = {problem.path: problem.message.partition(" was asked")[0] for problem in caught.value.problems}
    assert found.items() >= PLACES.items(), found
