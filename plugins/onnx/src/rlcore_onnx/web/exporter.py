"""The exporter ``web``. Importing it imports everything an export needs, so that nothing is found missing later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import gymnasium

from rlcore import BehaviorSpec, ExportAbout, Policy, RunContext, policy_module
from rlcore_onnx.conversion import LOGITS
from rlcore_onnx.exporter import checked_file
from rlcore_onnx.settings import WebSettings
from rlcore_onnx.web.episodes import play
from rlcore_onnx.web.page_file import page
from rlcore_onnx.web.runtime import VERSION, runtime_files
from rlcore_onnx.web.task import TASKS, chosen_task

__all__ = ["WebExporter"]


class WebExporter:
    """Writes a page in which a policy plays its task, and which compares itself with the policy in Python.

    Raises ConfigError for an environment that a page cannot show, and without the files of onnxruntime-web.
    """

    def __init__(self, settings: WebSettings, run: RunContext) -> None:
        self.settings = settings
        self.run = run
        self.task = chosen_task(settings, run)
        self._runtime()

    def check(self, policy: Policy, behavior: BehaviorSpec) -> None:
        """Raise UnsupportedExport for a behavior that is not the one of the task."""
        TASKS[self.task].require(self.task, behavior)

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> str:
        """Write the file ``path``, and return the score of the episodes that were played for it."""
        self.check(policy, behavior)
        module = policy_module(policy)
        checked = checked_file(policy, behavior, about, "generic", self.settings.tolerance)
        played = play(self.task, policy, module, behavior)
        data: dict[str, Any] = {
            "environment": self.task,
            "metadata": json.loads(checked.metadata.to_json()),
            "logits": LOGITS if checked.has_logits else None,
            "recorded": [attrs.asdict(step) for step in played.steps],
            "score": {"mean": played.mean, "episodes": len(played.returns)},
            "tolerance": self.settings.tolerance,
            "gymnasium": gymnasium.__version__,
            "runtime": VERSION,
        }
        title = f"{self.task} by {about.trainer_type}"
        text = page(title, checked.with_logits, self._runtime(), data)
        path.write_text(text, "utf-8")
        megabytes = len(text) / 1e6
        return (
            f"{self.task}, mean return {played.mean:.5g} of {len(played.returns)} episodes; {megabytes:.1f} MB; "
            f"onnxruntime and the policy differ by at most {checked.difference:.2g}"
        )

    def _runtime(self) -> dict[str, bytes]:
        place = self.settings.runtime
        return runtime_files(None if place is None else self.run.absolute(place), self.run.working_directory)
