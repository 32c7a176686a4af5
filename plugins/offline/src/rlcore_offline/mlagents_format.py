"""The format ``mlagents``: demonstrations that Unity ML-Agents recorded, files ``*.demo``.

Nothing of ML-Agents is needed: the messages are in ``rlcore_unity.mlagents_messages``. The extra ``mlagents`` installs
rlcore-unity.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rlcore import BehaviorSpec, ConfigError, Recording, RecordingAbout, pip_install
from rlcore_offline.formats import RecordingWriter

SUFFIX = ".demo"


def demonstrations_at(path: Path) -> list[Path]:
    """The demonstration files that ``path`` names: itself, or those in the directory, by name; none if it is another.

    Raises an OSError for a directory that cannot be listed.
    """
    if path.is_dir():
        return sorted(each for each in path.iterdir() if each.suffix == SUFFIX)
    return [path] if path.suffix == SUFFIX and path.exists() else []


def require_messages() -> None:
    """Raise ConfigError unless rlcore-unity is installed, which has the messages of ML-Agents."""
    if find_spec("rlcore_unity") is None:
        raise ConfigError(f"demonstrations of ML-Agents need rlcore-unity; run: {pip_install('rlcore-unity')}")


class MLAgentsFormat:
    """Reads one demonstration or a directory of them, and writes a directory with one."""

    def reads(self, path: Path) -> bool:
        try:
            return bool(demonstrations_at(path))
        except OSError:
            return False

    def stored(self) -> dict[str, Path]:
        """Nothing: ML-Agents has no place of its own for demonstrations."""
        return {}

    def behavior(self, path: Path, name: str) -> BehaviorSpec:
        require_messages()
        from rlcore_offline.mlagents_reader import describe

        return describe(demonstrations_at(path), name)

    def read(self, path: Path, name: str) -> Recording:
        require_messages()
        from rlcore_offline.mlagents_reader import read_demonstrations

        return read_demonstrations(demonstrations_at(path), name)

    def writer(self, path: Path, behavior: BehaviorSpec, about: RecordingAbout) -> RecordingWriter:
        require_messages()
        from rlcore_offline.mlagents_writer import MLAgentsWriter

        return MLAgentsWriter(path, SUFFIX, behavior)
