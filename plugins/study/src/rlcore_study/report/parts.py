"""Parts of other packages: the runs that a path stands for, and what they add to the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore import load_plugins, selection_from
from rlcore_study.parts import Part, ReportPartSpec


class Parts:
    """The parts that the installed plugins register."""

    def __init__(self) -> None:
        records = load_plugins(selection_from()).records(ReportPartSpec.kind)
        self._specs = [record for record in records if isinstance(record, ReportPartSpec)]

    def runs(self, paths: Sequence[Path]) -> list[Path]:
        """The paths, each that stands for several runs replaced by their directories."""
        return [run for path in paths for run in self._expanded(path)]

    def _expanded(self, path: Path) -> Sequence[Path]:
        for spec in self._specs:
            if spec.expand is None:
                continue
            directories: Sequence[Path] | None = spec.resolve("expand")(path)
            if directories is not None:
                return directories
        return [path]

    def of(self, runs: Sequence[Path]) -> list[Part]:
        """The parts about these run directories. Raises PluginError for a plugin that fails."""
        return [part for spec in self._specs for part in spec.create(runs=runs)]
