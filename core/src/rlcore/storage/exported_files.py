"""The exported policies of a run, as the training status lists them: by behavior and checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import attrs

from rlcore.storage.run_files import read_mark


@attrs.frozen
class ExportedFiles:
    """The files that a run exported and that are there, relative to its directory."""

    steps: Mapping[str, int | None]  # of the run, at the policy in each file; None if the export was not finished

    @classmethod
    def of(cls, directory: Path, exports: Mapping[str, int | None]) -> Self:
        """``exports`` are those of the run's mark; files that are gone are left out."""
        return cls({name: step for name, step in exports.items() if (directory / name).is_file()})

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The files of the run in ``directory``; none if it has no mark."""
        mark = read_mark(directory)
        return cls({}) if mark is None else cls.of(directory, mark.exports)

    def of_checkpoint(self, behavior: str, step: int) -> list[str]:
        """The files beside the checkpoint of ``step``, in the order in which they were first exported."""
        return [name for name, of in self.steps.items() if of == step and name.startswith(f"{behavior}/")]

    def of_end(self, behavior: str, step: int, behaviors: Iterable[str]) -> list[str]:
        """The files in the run directory with the policy of ``step``. ``behaviors`` are all behaviors of the run."""
        here = [name for name, of in self.steps.items() if of == step and "/" not in name]
        return [name for name in here if _owner(name, behaviors) == behavior]


def _owner(name: str, behaviors: Iterable[str]) -> str | None:
    """The behavior that the file in the run directory is named after: ``A.b.onnx`` is of ``A.b``, not of ``A``."""
    return max((each for each in behaviors if name.startswith(f"{each}.")), key=len, default=None)
