"""Messages say what to install: paths in a checkout, and names after a release."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rlcore import NotInstalled, Plugins, TrainerSpec, pip_install
from rlcore.plugins import installing
from rlcore_devkit.fixtures import InstallPlugin

CHECKOUT = installing.checkout  # the fixture of all tests replaces it


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with three distributions, from which messages advise."""
    root = tmp_path / "checkout of mine"
    for place, needs in (("core", []), ("plugins/near", ["rlcore>=0.1", "rlcore-far[x]>=0.1"]), ("plugins/far", [])):
        (root / place).mkdir(parents=True)
        (root / place / "pyproject.toml").write_text(f"[project]\ndependencies = {json.dumps(needs)}\n")
    (root / "constraints.txt").touch()
    monkeypatch.setattr(installing, "checkout", lambda: root)
    monkeypatch.chdir(root)
    return root


def test_in_a_checkout_distributions_of_rlcore_are_installed_from_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed_plugin: InstallPlugin
) -> None:
    assert pip_install("rlcore", upgrade=True) == "pip install -U -c constraints.txt ./core"
    # What it needs is no more on an index than itself.
    assert pip_install("rlcore-near[all]") == "pip install -c constraints.txt './plugins/near[all]' ./plugins/far"
    assert pip_install("acme-ppo>=2", "numpy") == "pip install 'acme-ppo>=2' numpy"
    assert pip_install("rlcore_Far", "acme") == "pip install -c constraints.txt ./plugins/far acme"
    assert pip_install("rlcore-unknown") == "pip install rlcore-unknown"
    installed_plugin("far", "rlcore-far", "0.1", "")
    assert pip_install("rlcore-near") == "pip install -c constraints.txt ./plugins/near"
    monkeypatch.chdir(tmp_path)
    assert pip_install("rlcore-far") == f"pip install -c '{root}/constraints.txt' '{root}/plugins/far'"


def test_after_a_release_names_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "checkout", lambda: None)
    assert pip_install("rlcore-near[all]") == "pip install 'rlcore-near[all]'"


def test_the_checkout_is_the_one_that_rlcore_came_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = Path(__file__).parents[3]
    monkeypatch.setattr(installing, "checkout", CHECKOUT)
    monkeypatch.chdir(tmp_path)
    CHECKOUT.cache_clear()
    if (here / "constraints.txt").is_file() and (here / "core").samefile(Path(installing.__file__).parents[3]):
        assert CHECKOUT() == here
        said = f"-c {here}/constraints.txt {here}/builtin_trainers/ppo"
        with pytest.raises(NotInstalled, match=re.escape(said)):
            Plugins().record(TrainerSpec, "ppo")
    monkeypatch.setattr("rlcore.__file__", str(tmp_path / "site-packages" / "rlcore" / "__init__.py"))
    monkeypatch.setattr(installing.metadata, "distribution", lambda name: _Installed(None))
    CHECKOUT.cache_clear()
    assert CHECKOUT() is None  # from an index
    for place in ("core", "core/src"):
        (tmp_path / place).mkdir()
    (tmp_path / "core" / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    source = {"url": (tmp_path / "core").as_uri(), "dir_info": {}}
    monkeypatch.setattr(installing.metadata, "distribution", lambda name: _Installed(source))
    CHECKOUT.cache_clear()
    assert CHECKOUT() == tmp_path  # pip install . of a checkout
    CHECKOUT.cache_clear()


class _Installed:
    def __init__(self, source: object) -> None:
        self.source = source

    def read_text(self, name: str) -> str | None:
        return None if self.source is None else json.dumps(self.source)
