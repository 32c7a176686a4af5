"""Parts of other packages: the runs that a path stands for, and what they add to the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore import load_plugins, selection_from
from rlcore_study.parts import Part, ReportPartSpec


class Parts:
    """The parts that the installed plugins register."""

    def __init__(self) -> None:
        plugins = load_plugins(selection_from())
        self._specs = [each for each in plugins.records(ReportPartSpec.kind) if isinstance(each, ReportPartSpec)]

    def runs(self, paths: Sequence[Path]) -> list[Path]:
        """The paths, each that stands for several runs replaced by their directories."""
        found: list[Path] = []
        for path in paths:
            expanded = (spec.resolve("expand")(path) for spec in self._specs if spec.expand is not None)
            found += next((each for each in expanded if each is not None), [path])
        return found

    def of(self, runs: Sequence[Path]) -> list[Part]:
        """The parts about these run directories. Raises PluginError for a plugin that fails."""
        return [part for spec in self._specs for part in spec.create(runs=runs)]
