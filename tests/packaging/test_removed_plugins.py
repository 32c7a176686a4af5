"""Any plugin can be removed: the others work as before, and what needs the plugin says what to install.

Members are installed side by side, each wheel unpacked into a directory; the libraries are those of this process.
"""

from __future__ import annotations

import json
import re
import site
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import plugin_list
import pytest
import yaml
from virtualenvs import Venv
from workspace import CORE, PLUGINS, Member, required

pytestmark = pytest.mark.packaging

# A use of each plugin, from the tests of its member: a configuration beside the trainer `ppo` in CartPole of two
# environments (`config`), or other words for `rlcore` (`words`); and the plugins that it needs besides (`needs`).
USES: dict[str, dict[str, Any]] = {
    plugin: use
    for file in (member.directory / "tests/uses.yaml" for member in PLUGINS)
    if file.is_file()
    for plugin, use in yaml.safe_load(file.read_text("utf-8")).items()
}
POLE = {
    "preset": "none",
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
    "behaviors": {"Agent": {"trainer_type": "ppo"}},
}


def needed(plugin: str) -> list[str]:
    """The plugins that the use of a plugin needs, with itself."""
    return [plugin, *USES[plugin]["needs"]]


# Runs commands one after another in one process, which costs less than one for each.
ANSWERS = """
import contextlib, io, json, sys
from rlcore.cli.main import main

answers = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def unpacked(wheels: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A directory for each member, as if pip had installed its wheel there."""
    directories = {}
    for name, wheel in wheels.items():
        directories[name] = tmp_path_factory.mktemp(name)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directories[name])
    return directories


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is installed here, also in an environment that this one sees, but for packages of rlcore."""
    directory = tmp_path_factory.mktemp("libraries")
    seen = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    for place in map(Path, dict.fromkeys([*site.getsitepackages(), *seen])):
        for path in place.iterdir() if place.is_dir() else ():
            name = path.name.partition("-")[0].partition(".")[0]
            link = directory / path.name
            if path.suffix != ".pth" and not (name == CORE.module or name.startswith("rlcore_")) and not link.exists():
                link.symlink_to(path)
    return directory


@pytest.fixture(scope="module")
def without(
    unpacked: Mapping[str, Path], libraries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Venv]:
    """``without("rlcore-ppo")``: all members but this one."""
    made = Venv.make(tmp_path_factory.mktemp("venv"))

    def remove(name: str) -> Venv:
        there = [libraries, *(directory for member, directory in unpacked.items() if member != name)]
        (made.site / "below.pth").write_text("".join(f"{path}\n" for path in there))
        return made

    return remove


def member_of(plugin: str) -> Member:
    (member,) = (member for member in PLUGINS if plugin in member.plugins)
    return member


def provides_something(plugin: str) -> bool:
    return bool(plugin_list.from_project(member_of(plugin).directory).provides)


def answers(venv: Venv, directory: Path, *commands: list[str]) -> list[tuple[int, str, str]]:
    printed = venv.python("-c", ANSWERS, json.dumps(commands), cwd=directory).stdout
    return [tuple(each) for each in json.loads(printed)]


def command(plugin: str, directory: Path) -> list[str]:
    use = USES[plugin]
    if "words" in use:
        return list(use["words"])
    path = directory / f"{plugin}.yaml"
    config = {key: value for key, value in {**POLE, **use.get("config", {})}.items() if value is not None}
    path.write_text(yaml.safe_dump(config))
    return ["validate", "--allow-local", str(path)]


def test_every_plugin_has_a_use() -> None:
    without = {"torch", "migrate"}  # no configuration names them: trainers require one, messages alone use the other
    assert sorted(USES) == sorted({plugin for member in PLUGINS for plugin in member.plugins} - without)


@pytest.mark.parametrize("removed", [CORE, *PLUGINS], ids=lambda member: member.plugin)
def test_others_work_without_a_plugin_and_what_needs_it_says_what_to_install(
    removed: Member, without: Callable[[str], Venv], tmp_path: Path, deep: bool
) -> None:
    name = "" if removed is CORE else removed.name  # the first case removes nothing
    venv = without(name)
    uses = [plugin for plugin in USES if all(map(provides_something, needed(plugin)))]
    commands = [command(plugin, tmp_path) for plugin in uses]
    listed, *answered = answers(venv, tmp_path, ["plugins", "list", "--json"], *commands)
    plugins = json.loads(listed[1])
    assert {each["name"]: each["state"] for each in plugins["plugins"]} == {
        plugin: "on" for member in [CORE, *PLUGINS] if member.name != name for plugin in member.plugins
    }
    assert plugins["problems"] == []
    for plugin, (code, out, err) in zip(uses, answered, strict=True):
        what = f"{plugin}\n{out}{err}"
        members = {member_of(each).name for each in needed(plugin)}
        if name not in required(*members):
            assert code == 0, what
        elif name in members:
            assert code == 2, what
            lines = [line for line in (out + err).splitlines() if not line.startswith("warning: ")]  # of other plugins
            told = [line for line in lines if re.search(rf"pip install '?{name}\b", line)]  # quoted with an extra
            assert len(told) == 1, what
        elif code:  # pip would not have removed what another plugin requires; a command is not there then
            assert code == (2 if "words" in USES[plugin] else 4), what
            assert f"No module named '{removed.module}'" in out + err, what
        assert "Traceback" not in what
    if deep:
        venv.rlcore("plugins", "doctor", cwd=tmp_path)


def test_removing_a_plugin_hides_it_for_real(without: Callable[[str], Venv], tmp_path: Path) -> None:
    """Neither the module nor the metadata of this process's editable members can be seen."""
    venv = without("rlcore-ppo")
    venv.python("-c", "import rlcore_ppo", cwd=tmp_path, code=1)
    found = venv.distributions()
    assert "rlcore-ppo" not in found and "rlcore-sac" in found
    where = venv.python("-c", "import rlcore; print(rlcore.__file__)", cwd=tmp_path).stdout
    assert str(CORE.directory) not in where
