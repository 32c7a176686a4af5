"""A settings class that fails is its plugin's fault, not the file's. The error names the place in the file too."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore import ConfigErrors, PluginError, load_config, load_plugins_for, main, read_document

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
environment_parameters: {{size: {{curriculum: {{type: spiral, fault: {fault}}}}}}}
"""
WHO = r"curriculum 'spiral' of plugin 'spiral' \(local\)"
AT = r"run.yaml:5: environment_parameters.size.curriculum"
CASES = {
    "init": (PluginError, rf"^{AT}: {WHO} failed in its settings class Settings: ZeroDiv"),
    "raises": (PluginError, rf"{AT}: {WHO} failed in problems\(\) of its settings class: KeyError: 'zzz'"),
    "text": (PluginError, rf"{AT}: {WHO}: problems\(\) of its settings class gave 'just text', not a pair of a path"),
    "says": (ConfigErrors, rf"{AT}.fault: is there"),  # what the class finds is the file's fault
    "turns": (PluginError, r"turns: section 'turns' of plugin 'spiral' \(local\) failed in its settings class"),
}


@pytest.mark.parametrize("fault", CASES)
def test_a_settings_class_that_fails_is_a_plugin_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spiral.py").write_text(PLUGIN)
    Path("run.yaml").write_text(FILE.format(fault=fault, count=0 if fault == "turns" else 1))
    document = read_document(Path("run.yaml"))
    error, message = CASES[fault]
    with pytest.raises(error, match=message) as caught:
        load_config(document, load_plugins_for(document))
    assert main(["validate", "--allow-local", "run.yaml"]) == caught.value.exit_code
    assert str(caught.value) in "".join(capsys.readouterr())
