"""A correct exporter keeps the rules for exporters, and each rule notices what is broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rlcore import Actions, BehaviorSpec, ExportAbout, UnsupportedExport, policy_module
from rlcore_devkit import ExporterConformance
from rlcore_devkit.fixtures import InstallPlugin, installed_plugin

__all__ = ["installed_plugin"]

PLUGIN = """
from rlcore import ExporterSpec, hookimpl

@hookimpl
def rlcore_exporters():
    return [ExporterSpec(name="pickled", target="{module}:Pickled", suffix=".pt", summary="as PyTorch saves modules")]
"""


BESIDES: dict[str, Callable[[Any, Path], Any]] = {
    "makes folders": lambda policy, path: path.parent.mkdir(exist_ok=True),
    "draws with torch": lambda policy, path: torch.rand(1),
    "writes elsewhere": lambda policy, path: Path("log.txt").write_text("exported"),
    "changes the policy": lambda policy, path: policy.model.policy_head.linear.bias.data.add_(1.0),
}


class Pickled:
    """Saves the module of a policy, or goes wrong in one way."""

    def __init__(self, settings: Any = None, run: Any = None, wrong: str = "") -> None:
        self.wrong = wrong

    def export(self, policy: Any, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> None:
        BESIDES.get(self.wrong, lambda *_: None)(policy, path)
        module = policy_module(policy)
        if self.wrong == "forgets the bounds" and behavior.continuous:
            module.low[:], module.high[:] = -torch.inf, torch.inf
            module.middle[:], module.half_range[:] = 0.0, 1.0
        torch.save(module, path if self.wrong != "overwrites" else path.with_name("Walker.pt"))


class TestPickled(ExporterConformance):
    exporter = "acme-export/pickled"

    @pytest.fixture(autouse=True)
    def _install(self, installed_plugin: InstallPlugin) -> None:
        installed_plugin("acme", "acme-export", "1.0", PLUGIN.format(module=__name__))

    def load(self, path: Path) -> Any:
        module = torch.load(path, weights_only=False)

        def act(observations: Any, action_mask: Any, memory: Any) -> Any:
            given = [None if each is None else torch.from_numpy(each) for each in (action_mask, memory)]
            with torch.no_grad():
                found = module({name: torch.from_numpy(each) for name, each in observations.items()}, *given)
            parts = [None if part is None else part.numpy() for part in found]
            return Actions(parts[0], parts[1]), parts[2]

        return act


class Broken(TestPickled):
    """The rules for an exporter that goes wrong, without the plugin around it."""

    __test__ = False
    wrong = ""

    def make(self, **settings: Any) -> Any:
        return Pickled(wrong=self.wrong)

    def file(self, name: str = "Walker") -> Path:
        return self.place / f"{name}.pt"

    def load(self, path: Path) -> Any:
        return LOADED.get(self.wrong, lambda act: act)(super().load(path))


def forgetting(act: Any) -> Any:
    def without_memory(observations: Any, action_mask: Any, memory: Any) -> Any:
        actions, after = act(observations, action_mask, memory)
        return actions, None if after is None else np.zeros_like(after)

    return without_memory


LOADED = {
    "ignores masks": lambda act: lambda observations, action_mask, memory: act(observations, None, memory),
    "forgets": forgetting,
}


ACTS = "test_an_exported_policy_acts_as_before_or_is_refused"
ONE_FILE = "test_writes_one_file_and_nothing_else"
UNCHANGED = "test_exporting_changes_neither_the_policy_nor_global_random_numbers"
CANNOT = "test_a_file_that_cannot_be_written_is_an_error"


@pytest.mark.parametrize(
    ("wrong", "rule", "kinds"),
    [
        ("forgets the bounds", ACTS, ("vector",)),
        ("ignores masks", ACTS, ("branches",)),
        ("forgets", ACTS, ("memory",)),
        ("writes elsewhere", ONE_FILE, ()),
        ("overwrites", "test_exports_are_independent", ()),
        ("draws with torch", UNCHANGED, ()),
        ("changes the policy", UNCHANGED, ()),
        ("makes folders", CANNOT, ()),
    ],
)
def test_a_broken_exporter_is_noticed(
    wrong: str, rule: str, kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conformance = Broken()
    conformance.wrong = wrong
    conformance.place, conformance.elsewhere = tmp_path / "export", tmp_path / "working"
    for directory in (conformance.place, conformance.elsewhere):
        directory.mkdir()
    monkeypatch.chdir(conformance.elsewhere)
    with pytest.raises((AssertionError, pytest.fail.Exception, FileNotFoundError)):
        getattr(conformance, rule)(*kinds)


def test_a_policy_without_pytorch_has_no_module() -> None:
    policy: Any = SimpleNamespace(act=None, seed=None)
    with pytest.raises(UnsupportedExport, match=r"the policy SimpleNamespace has no method module\(\)"):
        policy_module(policy)
