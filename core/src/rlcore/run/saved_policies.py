"""Policies from checkpoints: to act somewhere else than in the run's environment."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import attrs

from rlcore.config import load_config, load_plugins_for
from rlcore.config.document import Document
from rlcore.config.reading import read_document
from rlcore.contracts.policy import Policy
from rlcore.errors import ConfigError
from rlcore.plugins.calls import Plugins
from rlcore.records import ExporterSpec
from rlcore.run.saved_run import SavedRun, find_run
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.configuration import read_saved_configuration

ENVIRONMENT_BLOCKS = ("environment", "environment_parameters", "evaluation")


def load_policies(path: str | Path, checkpoint: str = "last", plugins: Plugins | None = None) -> dict[str, Policy]:
    """The policy of every behavior in a checkpoint, by name. Needs no environment, and no plugin of one.

    ``path`` is a checkpoint directory, which may have been copied from elsewhere, or a run directory, or the id of a
    run in ``results``; of a run, ``checkpoint`` is ``"last"``, ``"best"`` or a step. A checkpoint has all that is
    needed: the configuration and what its agents see and do. Without ``plugins``, the installed plugins that the
    configuration chooses are loaded, and local files are not imported.

    Raises RunStateError if there is no such checkpoint, ConfigError if its configuration or a plugin cannot be used.
    """
    source = PolicySource.find(Path(path))
    return source.load(plugins or source.plugins(), checkpoint).policies()


@attrs.frozen
class PolicySource:
    """A run directory, or the directory of one checkpoint, from which policies are read without an environment."""

    directory: Path
    document: Document  # the saved configuration, without the blocks of environments
    is_checkpoint: bool

    @classmethod
    def find(cls, path: Path) -> Self:
        """The source that ``path``, or a run id, names. Raises RunStateError if there is none."""
        is_checkpoint = path.name.isdecimal() and (path / CONFIGURATION).is_file()
        directory = path if is_checkpoint else find_run(path)
        document = read_document(directory / CONFIGURATION) if is_checkpoint else read_saved_configuration(directory)
        for block in ENVIRONMENT_BLOCKS:
            document = attrs.evolve(document, data=document.data.without(block))
        return cls(directory, document, is_checkpoint)

    def plugins(self) -> Plugins:
        """The installed plugins that the configuration chooses; local files are not imported."""
        return load_plugins_for(self.document, allow_local=False, lenient=True)

    def load(self, plugins: Plugins, checkpoint: str, exporter: ExporterSpec | None = None) -> SavedRun:
        """The checkpoint ``"last"``, ``"best"`` or of a step; a directory of one checkpoint has only that one.

        The configuration has the settings of ``exporter``.
        """
        if self.is_checkpoint and checkpoint not in ("last", self.directory.name):
            raise ConfigError(
                f"{self.directory}: is a single checkpoint, so {checkpoint!r} cannot be chosen; name the directory of "
                "the run"
            )
        config = load_config(self.document, plugins, measuring=True, exporter=exporter)
        if self.is_checkpoint:
            return SavedRun.of_checkpoint(self.directory, config, plugins)
        return SavedRun.load(self.directory, config, plugins, checkpoint)
