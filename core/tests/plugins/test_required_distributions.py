"""RLCORE_REQUIRE refuses to run without a company's plugins; damaged metadata are named with their place."""

from __future__ import annotations

import pytest

from rlcore import CONTRACT, PluginError, load_plugins, selection_from
from rlcore_devkit.fixtures import InstallPlugin

GUARD = "from rlcore import ConfigError, hookimpl\n@hookimpl\ndef rlcore_check_config(config):\n    pass\n"
ASKS = "RLCORE_REQUIRE asks for 'Acme_Guard', "


@pytest.mark.parametrize(
    ("source", "contract", "dash_p", "said"),
    [
        (
            GUARD,
            CONTRACT - 1,
            (),
            "whose hooks are not active: plugin 'guard' (acme-guard 1): acme-guard 1 is written for",
        ),
        (
            "1 / 0",
            CONTRACT,
            (),
            "whose hooks are not active: plugin 'guard' (acme-guard 1) failed to load: ZeroDivision",
        ),
        (
            GUARD,
            CONTRACT,
            ("no:guard",),
            "whose hooks are not active: plugin 'guard' (acme-guard 1) is turned off (-p)",
        ),
        (None, CONTRACT, (), "of which no plugin is installed"),
    ],
)
def test_nothing_runs_without_a_required_distribution(
    installed_plugin: InstallPlugin,
    monkeypatch: pytest.MonkeyPatch,
    source: str | None,
    contract: int,
    dash_p: tuple[str, ...],
    said: str,
) -> None:
    if source is not None:
        installed_plugin("guard", "acme-guard", "1", source, contract=contract)
    selection = selection_from(None, {}, dash_p, False)
    left_out = [line for line in load_plugins(selection).warnings if "guard" in line]
    assert (
        all("; not active: rlcore_check_config; run rlcore plugins doctor" in line for line in left_out)
        or source == "1 / 0"
    )
    monkeypatch.setenv("RLCORE_REQUIRE", "rlcore, Acme_Guard")
    with pytest.raises(PluginError) as caught:
        load_plugins(selection)
    assert str(caught.value).startswith(ASKS + said)


def test_a_required_distribution_that_is_active_lets_all_run(
    installed_plugin: InstallPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_plugin("guard", "acme-guard", "1", GUARD)
    monkeypatch.setenv("RLCORE_REQUIRE", "acme.guard")
    assert "guard" in {plugin.name for plugin in load_plugins().loaded}


def test_damaged_metadata_are_named_with_distribution_and_place(installed_plugin: InstallPlugin) -> None:
    place = installed_plugin("guard", "acme-guard", "1.2", GUARD).directory / "acme_guard-1.2.dist-info"
    (place / "direct_url.json").write_text("{")
    (warning,) = [line for line in load_plugins().warnings if "guard" in line]
    assert warning.startswith(f"plugin 'guard' (acme-guard 1.2): unreadable metadata in {place} (JSONDecodeError")
    assert "reinstall acme-guard, or delete the directory" in warning
