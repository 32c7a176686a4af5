"""The selection of plugins that are on: precedence, references, and what is refused before anything is imported."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import CONTRACT, ConfigError, PluginError, PluginSettings, load_plugins
from rlcore.config.plugins_block import recorded
from rlcore.plugins.discover import Plugin, handshake
from rlcore.plugins.select import Selection, decide, obstacles, selection_from, unmatched
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

pytestmark = pytest.mark.smoke

EMPTY = "from rlcore import hookimpl\n@hookimpl\ndef rlcore_trainers():\n    return []\n"
EXPLODES = "raise RuntimeError('imported although it is off')\n"

CORE = Plugin("core", "rlcore.plugins.core", "rlcore", "0.1.0")
PPO = Plugin("ppo", "rlcore_ppo.plugin", "rlcore-ppo", "0.1.0")
ACME = Plugin("acme", "acme.hooks", "Acme_RL", "2.0")


def data(name: str) -> Any:
    return yaml.safe_load((Path(__file__).parent / f"data/{name}.yaml").read_text(encoding="utf-8"))


def select(*p: str, no_plugins: bool = False, environ: Any = None, used: Any = (), **config: Any) -> Selection:
    settings = PluginSettings(**config) if config else None
    return selection_from(settings, environ or {}, p, no_plugins, used=used)


def selection_of(case: dict[str, Any]) -> Selection:
    config = case.get("config", {})
    environ = case.get("environ")
    used = case.get("used", ())
    return select(*case.get("p", ()), no_plugins="no_plugins" in case, environ=environ, used=used, **config)


@pytest.mark.parametrize("case", data("selection"), ids=str)
def test_the_last_source_that_names_a_plugin_wins(case: dict[str, Any]) -> None:
    [plugin] = decide([PPO], selection_of(case))
    assert (plugin.on, plugin.why) == (case["loaded"], case["decides"])


@pytest.mark.parametrize("case", data("missed_plugins"), ids=str)
def test_what_is_said_of_a_name_that_is_not_installed(case: dict[str, Any]) -> None:
    selection = selection_of(case)
    missed = [message for message, _, _ in obstacles(decide([PPO, ACME], selection), selection)]
    warned = list(unmatched([PPO, ACME], selection))
    said = [] if case["said"] is None else [case["said"]]
    assert (missed, warned) == ((said, []) if "asked for" in str(case["said"]) else ([], said))


def test_core_stays_on() -> None:
    for selection in (select(no_plugins=True), select("no:core")):
        [core] = decide([CORE], selection)
        assert (core.on, core.why) == (True, "autoload")
    [(message, concerned, fatal)] = obstacles([core], selection)
    assert "cannot be turned off" in message and concerned == (core,) and fatal


@pytest.mark.parametrize("text", ["", "no:", "a/b/c", "module:", "Ppo", "no:no:x", "acme.hooks"])
def test_malformed_references_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a plugin") as caught:
        select(text)
    assert "module:" in str(caught.value)  # a module must be asked for as one, so that a typo is never imported


def test_sources_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be 0 or 1, not 'maybe'"):
        select(environ={"RLCORE_PLUGIN_AUTOLOAD": "maybe"})
    with pytest.raises(ConfigError, match=r"^plugins\.disable\[0\]: 'ppo' is in both enable and disable$"):
        select(enable=["ppo"], disable=["ppo"])


# ---------------------------------------------------------------- installed distributions


def test_two_distributions_with_one_plugin_name_are_reported_and_the_bare_name_is_refused(
    installed_plugin: InstallPlugin,
) -> None:
    first = installed_plugin("twin", "acme-one", "1.0", EMPTY)
    installed_plugin("twin", "acme-two", "2.0", EMPTY)
    said = (
        "2 plugins are named 'twin': acme-one/twin (1.0, acme_one_twin_hooks) and acme-two/twin (2.0, "
        "acme_two_twin_hooks); turn one off, for example with -p no:acme-one/twin or -p no:acme-two/twin"
    )
    both = load_plugins()
    assert said in both.warnings
    assert [each.label for each in both.loaded if each.name == "twin"] == ["acme-one/twin", "acme-two/twin"]
    with pytest.raises(PluginError) as caught:
        load_plugins(select("twin"))
    assert str(caught.value) == said
    sys.modules.pop(first.module)
    (first.directory / f"{first.module}.py").write_text(EXPLODES)
    plugins = load_plugins(select("no:acme-one/twin"), strict=True)  # and what is off is not imported
    assert [plugin.label for plugin in plugins.loaded if plugin.name == "twin"] == ["acme-two/twin"]


def test_a_distribution_that_is_there_twice_is_reported(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    for version in ("1.0", "1.0", "2.0"):  # the last is the first on the path
        installed = installed_plugin("twice", "acme-twice", version, EMPTY, module="acme_twice")
    (installed.directory / "acme_twice.py").touch()
    twice = (
        "plugin 'twice' (acme-twice 2.0): acme-twice 1.0 is on the path too, and Python uses the first that it finds; "
        "pip uninstall acme-twice until one is left"
    )
    assert twice in load_plugins().warnings
    assert f"warning: {twice}\n" in run_rlcore("plugins", "list").stderr


@pytest.fixture
def chain(installed_plugin: InstallPlugin) -> None:
    """``top`` requires ``base``, which requires ``ground``; two more are only required elsewhere, or by an extra."""
    needs = ["rlcore>=0.1,<0.2", "Acme_Base>=1", "acme-far; python_version<'3'", "acme-extra; extra == 'more'"]
    installed_plugin("top", "acme-top", "1", EMPTY, requires=needs)
    installed_plugin("base", "acme-base", "1", EMPTY, requires=["acme_ground", "rlcore>=0.1,<0.2"])
    for name in ("ground", "far", "extra"):
        installed_plugin(name, f"acme-{name}", "1", EMPTY)


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize(
    "selection",
    [
        select("top", no_plugins=True),
        select(autoload=False, enable=["top"]),
        select(environ={"RLCORE_PLUGIN_AUTOLOAD": "0", "RLCORE_PLUGINS": "top"}),
        select(environ={"RLCORE_PLUGIN_AUTOLOAD": "0"}, used=["acme-top/trainer"]),
    ],
)
def test_a_plugin_turns_on_the_plugins_of_the_distributions_that_it_requires(selection: Selection) -> None:
    on = {plugin.name: plugin.because for plugin in load_plugins(selection).loaded}
    assert on.keys() == {"core", "top", "base", "ground"}
    assert (on["base"], on["ground"]) == ("required by acme-top/top", "required by acme-base/base")


@pytest.mark.usefixtures("chain")
def test_a_required_plugin_that_is_blocked_by_name_is_an_error_that_names_both() -> None:
    message = (
        "plugin 'top' (acme-top 1): requires plugin 'base' (acme-base 1), which -p turns off; "
        "turn it on, or turn 'top' off"
    )
    with pytest.raises(PluginError, match=re.escape(message)):
        load_plugins(select("top", "no:base"))
    assert message in load_plugins(select("no:base")).warnings[0]  # merely autoloaded: left out


@pytest.mark.parametrize("asked", [False, True])
def test_a_plugin_for_another_rlcore_is_refused_before_import(installed_plugin: InstallPlugin, asked: bool) -> None:
    installed_plugin("old", "acme-old", "3.2", EXPLODES, requires=["numpy", "rlcore >=0.0.1,<0.1"])
    advice = "pip install -U rlcore acme-old installs versions that fit"
    expected = f"acme-old 3.2 needs rlcore<0.1,>=0.0.1, this is rlcore 0.1.0; {advice}"
    if asked:
        with pytest.raises(PluginError, match=re.escape(expected)) as caught:
            load_plugins(select("old"))
        assert caught.value.exit_code == 4
    else:
        [warning] = load_plugins().warnings
        assert warning == f"plugin 'old' (acme-old 3.2): {expected}; run rlcore plugins doctor"


@pytest.mark.parametrize("requires", ["rlcore>0.1", "rlcore~=0.2.0", "rlcore==0.2.*", "rlcore<0.1", "rlcore!=0.1.0"])
def test_bounds_that_the_running_version_breaks_are_refused(requires: str) -> None:
    problem = handshake(Plugin("json", "json", "acme-old", "3.2", (requires,), contracts=(CONTRACT,)), "0.1.0")
    assert problem is not None and problem.startswith(f"acme-old 3.2 needs {requires}, this is rlcore 0.1.0; ")


def test_only_requirements_on_rlcore_itself_count(installed_plugin: InstallPlugin) -> None:
    installed_plugin("none", "acme-none", "1", EMPTY)
    fits = ["rlcore-extras<0.0.1", "RLCore>=0.1", "rlcore<0.0.1; extra == 'x'", "rlcore<0.0.1; python_version < '3'"]
    installed_plugin("fits", "acme-fits", "1", EMPTY, requires=fits)
    assert load_plugins().warnings == ()


def test_damaged_metadata_costs_only_its_own_plugin(installed_plugin: InstallPlugin) -> None:
    installed_plugin("odd", "acme-odd", "1", EXPLODES, requires=["rlcore >=>= 1"])
    installed_plugin("Big_Name", "acme-big", "1", EXPLODES)
    installed = installed_plugin("broken", "acme-broken", "1", EXPLODES)
    next(installed.directory.glob("*.dist-info/METADATA")).unlink()
    big, broken, odd = load_plugins().warnings
    assert "must match [a-z][a-z0-9-]*" in big and "'broken'" in broken and "InvalidRequirement" in odd
    installed = installed_plugin("points", "acme-points", "1", EXPLODES)
    next(installed.directory.glob("*.dist-info/entry_points.txt")).write_text("[rlcore]\nno equals sign\n")
    assert "core" in [plugin.name for plugin in load_plugins().loaded]


def test_plugins_are_sorted_whatever_order_they_are_found_in(installed_plugin: InstallPlugin) -> None:
    for name in ("zeta", "alpha", "mid"):
        installed_plugin(name, f"acme-{name}", "1", EMPTY)
    names = [plugin.name for plugin in load_plugins().loaded]
    assert names == sorted(names)


def test_list_shows_state_and_reason_without_importing(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    installed_plugin("boom", "acme-boom", "0.4", EXPLODES)
    installed_plugin("bad", "acme-bad", "1", EXPLODES)
    installed_plugin("old", "acme-old", "3.2", EXPLODES, requires=["rlcore<0.1"])
    result = run_rlcore("plugins", "list", "-p", "no:boom")
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
    assert rows["boom"][1:] == ["acme-boom", "0.4", "off", "-p"]
    assert rows["old"][1:] == ["acme-old", "3.2", "refused", "autoload"] and rows["bad"][3] == "on"
    assert result.exit_code == 0 and "pip install -U rlcore acme-old" in result.stderr
    provided = run_rlcore("plugins", "list", "--provides", "-p", "no:boom").stdout  # which imports
    assert re.search(r"^bad +acme-bad 1 +refused ", provided, re.MULTILINE)


# ---------------------------------------------------------------- what a run writes down


@pytest.mark.parametrize("case", data("written_selections"), ids=str)
def test_what_a_run_writes_down_chooses_the_same_plugins_without_environment_and_options(
    installed_plugin: InstallPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    for name, distribution in (("twin", "acme-one"), ("twin", "acme-two"), ("one", "acme-three")):
        installed_plugin(name, distribution, "1.0", EMPTY)
    (tmp_path / "acme_beside.py").write_text(EMPTY)
    monkeypatch.syspath_prepend(tmp_path)
    plugins = load_plugins(selection_of(case))
    written = recorded(PluginSettings(**case.get("config", {})), None, plugins)
    again = load_plugins(selection_from(written, {}, [], False))
    assert {plugin.label for plugin in again.loaded} == {plugin.label for plugin in plugins.loaded}
    assert recorded(written, None, again) == written
    if not case.keys() - {"config"}:
        assert written == PluginSettings(**case["config"])


def test_a_distribution_that_is_installed_while_the_process_runs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def versions() -> list[str]:
        return [plugin.version for plugin in load_plugins(select("no:late")).found if plugin.name == "late"]

    def install(version: str, changed: int) -> None:
        information = tmp_path / f"acme_late-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-late\nVersion: {version}\n")
        (information / "entry_points.txt").write_text("[rlcore]\nlate = acme_late\n")
        os.utime(tmp_path, ns=(changed, changed))  # the clock of a file system may be coarse

    monkeypatch.syspath_prepend(tmp_path)
    assert versions() == []
    install("1", changed=10**18)
    assert versions() == ["1"]
    shutil.rmtree(tmp_path / "acme_late-1.dist-info")
    install("2", changed=2 * 10**18)
    assert versions() == ["2"]
