"""Policies from checkpoints: to act somewhere else than in the run's environment."""

from __future__ import annotations

from pathlib import Path

import attrs

from rlcore.config import load_config, load_plugins_for
from rlcore.config.document import read_document
from rlcore.plugins.calls import Plugins
from rlcore.runs.saved_run import SavedRun, find_run
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.configuration import read_saved_configuration
from rlcore.trainer import Policy

ENVIRONMENT_BLOCKS = ("environment", "environment_parameters", "evaluation")


def load_policies(path: str | Path, checkpoint: str = "last", plugins: Plugins | None = None) -> dict[str, Policy]:
    """The policy of every behavior in a checkpoint, by name. Needs no environment, and no plugin of one.

    ``path`` is a checkpoint directory, which may have been copied from elsewhere, or a run directory, or the id of a
    run in ``results``; of a run, ``checkpoint`` is ``"last"``, ``"best"`` or a step. A checkpoint has all that is
    needed: the configuration and what its agents see and do. Without ``plugins``, the installed plugins that the
    configuration chooses are loaded, and local files are not imported.

    Raises RunStateError if there is no such checkpoint, ConfigError if its configuration or a plugin cannot be used.
    """
    path = Path(path)
    alone = path.name.isdecimal() and (path / CONFIGURATION).is_file()
    directory = path if alone else find_run(path)
    document = read_document(directory / CONFIGURATION) if alone else read_saved_configuration(directory)
    for block in ENVIRONMENT_BLOCKS:
        document = attrs.evolve(document, data=document.data.without(block))
    plugins = plugins or load_plugins_for(document, allow_local=False, lenient=True)
    config = load_config(document, plugins, measuring=True)
    if alone:
        return SavedRun.of_checkpoint(directory, config, plugins).policies()
    return SavedRun.load(directory, config, plugins, checkpoint).policies()
