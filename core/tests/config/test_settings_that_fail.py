"""A settings class that fails is its plugin's fault, not the file's. The error names the place in the file too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore.config.load import load_config, load_plugins_for
from rlcore.config.problems import ConfigErrors
from rlcore.config.reading import read_document
from rlcore.errors import PluginError
from rlcore_devkit.fixtures import run_rlcore

__all__ = ["run_rlcore"]

PLUGIN = """
import attrs
from rlcore import ConfigSection, CurriculumSpec, TrainerSpec, hookimpl
from rlcore.settings import CurriculumSettings, setting

@hookimpl
def rlcore_curricula():
    return [CurriculumSpec(name="spiral", target="spiral:Spiral", settings="spiral:Settings")]

@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="still", target="spiral:Still", settings="spiral:Turns")]

@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="turns", target="spiral:Turns")]

@attrs.frozen(kw_only=True)
class Settings(CurriculumSettings):
    fault: str = setting("", "What goes wrong.")

    def __attrs_post_init__(self):
        {"init": 1}[self.fault] / 0 if self.fault == "init" else None

    def problems(self, config, plugins):
        if self.fault == "raises":
            raise KeyError("zzz")
        if self.fault == "text":
            yield "just text"
        if self.fault == "says":
            yield ("fault",), "is there"

@attrs.frozen(kw_only=True)
class Turns:
    count: int = setting(1, "How many.")

    def __attrs_post_init__(self):
        1 / self.count
"""
FILE = """
plugins: {{autoload: false, local: [spiral.py]}}
behaviors: {{Agent: {{trainer_type: still}}}}
turns: {{count: {count}}}
environment_parameters:
  size:
    curriculum:
      type: spiral
      fault: {fault}
"""
WHO = r"curriculum 'spiral' of plugin 'spiral' \(local\)"
CASES = {
    "init": r"run.yaml:\d: environment_parameters.size.curriculum: "
    + rf"{WHO} failed in its settings class Settings: ZeroDiv",
    "raises": rf"curriculum: {WHO} failed in problems\(\) of its settings class: KeyError: 'zzz'",
    "text": rf"curriculum: {WHO}: problems\(\) of its settings class gave 'just text', not a pair of a path",
}


@pytest.fixture
def written(tmp_path: Path) -> Any:
    (tmp_path / "spiral.py").write_text(PLUGIN)

    def write(fault: str, count: int = 1) -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(FILE.format(fault=fault, count=count))
        return path

    return write


def load(path: Path) -> Any:
    document = read_document(path)
    return load_config(document, load_plugins_for(document))


@pytest.mark.parametrize("fault", CASES)
def test_a_curriculums_settings_class_that_fails_is_a_plugin_error(written: Any, fault: str) -> None:
    with pytest.raises(PluginError, match=CASES[fault]):
        load(written(fault))


def test_a_sections_settings_class_that_fails_is_a_plugin_error(written: Any) -> None:
    with pytest.raises(
        PluginError, match=r"turns: section 'turns' of plugin 'spiral' \(local\) failed in its settings class"
    ):
        load(written("''", count=0))


def test_a_problem_that_the_class_finds_is_the_files_fault(written: Any) -> None:
    with pytest.raises(ConfigErrors, match=r"environment_parameters.size.curriculum.fault: is there"):
        load(written("says"))


def test_validate_reports_the_plugin_error(written: Any, run_rlcore: Any) -> None:
    said = run_rlcore("validate", "--allow-local", str(written("raises")))
    assert said.exit_code == 4 and "plugin 'spiral' (local) failed in problems() of its settings class" in said.stderr
