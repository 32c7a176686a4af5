"""An exporter in numpy alone, as a local plugin file: it writes the weights as JSON, or fails as its settings say."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import attrs

from rlcore import BehaviorSpec, ExporterSpec, RunContext, hookimpl
from rlcore.contracts.policy import ExportAbout
from rlcore.errors import UnsupportedExport
from rlcore.settings import ExportSettings, setting


@hookimpl
def rlcore_exporters() -> list[ExporterSpec]:
    settings = "stub_exporter:WeightsSettings"
    return [
        ExporterSpec(name="weights", target="stub_exporter:Weights", settings=settings, suffix=".json"),
        ExporterSpec(name="absent", target="stub_exporter_that_is_absent:Weights", suffix=".absent"),
        ExporterSpec(name="page", target="stub_exporter:Weights", settings=settings, suffix=".html", only_by_name=True),
    ]


@attrs.frozen(kw_only=True)
class WeightsSettings(ExportSettings):
    """Settings of the exporter ``weights``."""

    wrong: str = setting("", "What goes wrong.")
    at: int | None = setting(None, "Step of the export at which it goes wrong; without it, at each.")
    report: str | None = setting(None, "What the exporter returns.")
    profile: str = setting("plain", "The shape of the file.", choices=("plain", "dense", "sparse"))


class Weights:
    def __init__(self, settings: WeightsSettings, run: RunContext) -> None:
        self.settings = settings
        self.tried: list[int] = []

    def export(self, policy: Any, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> Any:
        self.tried.append(about.step)
        text = json.dumps(
            {"weights": policy.trainer.weights.tolist(), "profile": self.settings.profile, "about": attrs.asdict(about)}
        )
        if self.settings.at in (None, about.step):
            self._go_wrong(self.settings.wrong, path)
            if self.settings.wrong in ("nothing", "empty", "folder"):
                return None
        path.write_text(text)
        return {"two lines": "a\nb", "number": 2.0}.get(self.settings.wrong, self.settings.report)

    def _go_wrong(self, wrong: str, path: Path) -> None:
        if wrong == "raises":
            path.write_text("half of it")
            raise KeyError("layer")
        if wrong == "disk":
            path.write_text("half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if wrong == "exits":
            raise SystemExit(3)
        if wrong == "refuses":
            raise UnsupportedExport("it has no continuous actions")
        if wrong == "dies":
            path.write_text("half of it")
            os._exit(9)
        if wrong == "beside":
            path.with_name("data.bin").write_text("large")
        if wrong == "empty":
            path.touch()
        if wrong == "folder":
            path.mkdir()
