"""The import of a plugin that changes what belongs to the whole process is noticed, and the plugin is named."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import StatsWriterSpec, load_plugins
from rlcore.contracts.seeding import ProcessGenerators
from rlcore.plugins import process_state
from rlcore.plugins.process_state import process_settings, watch_process
from rlcore_devkit.fixtures import InstallPlugin

HEAD = "from rlcore import hookimpl\n"
NAMED = "plugin 'rude' (acme-rude 1) changed {} at import, from "
RUDE = {
    "import os; os.chdir('/')": "the working directory",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)": "the handler of SIGTERM",
    "import os; os.environ['OMP_NUM_THREADS'] = '7'": "the environment variable OMP_NUM_THREADS",
    "import warnings; warnings.simplefilter('ignore')": "the filter that hides all warnings",
    "import logging; logging.root.setLevel('CRITICAL')": "the level of the root logger",
    "import logging; logging.disable(logging.ERROR)": "logging.disable",
    "import random; random.seed(1)": "the generator of `random`",
    "import numpy; numpy.seterr(all='raise')": "numpy.geterr()",
    "import numpy; numpy.random.seed(1)": "the generator of `numpy.random`",
}


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    directory = Path.cwd()
    handler = signal.getsignal(signal.SIGTERM)
    level = logging.root.level
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings(), np.errstate(), ProcessGenerators.kept():
        yield
    os.chdir(directory)
    signal.signal(signal.SIGTERM, handler)
    logging.root.setLevel(level)
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("code", RUDE)
def test_a_light_module_that_changes_the_process_is_named(installed_plugin: InstallPlugin, code: str) -> None:
    installed_plugin("rude", "acme-rude", "1", f"{HEAD}{code}\n")
    (warning,) = [line for line in load_plugins().warnings if "rude" in line]
    assert warning.startswith(NAMED.format(RUDE[code]))


def test_a_target_that_changes_the_process_is_named(
    installed_plugin: InstallPlugin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Settings of libraries too, which a plugin reads."""
    library: dict[str, Any] = {"library.precision": "double"}
    monkeypatch.setattr(process_state, "_readers", [])
    watch_process(lambda: dict(library))
    monkeypatch.setattr(process_state, "changed_library", library, raising=False)
    source = (
        "from rlcore import StatsWriterSpec, hookimpl\n@hookimpl\ndef rlcore_stats_writers():\n"
        "    return [StatsWriterSpec(name='rude', target='acme_rude_heavy:Writer')]\n"
    )
    heavy = (
        "from rlcore.plugins.process_state import changed_library\n"
        "changed_library['library.precision'] = 'half'\nWriter = object\n"
    )
    (installed_plugin("rude", "acme-rude", "1", source).directory / "acme_rude_heavy.py").write_text(heavy)
    record = load_plugins().record(StatsWriterSpec, "rude")
    record.resolve()
    record.resolve()
    (line,) = caplog.messages
    assert line.startswith(
        "writer 'rude' of plugin 'rude' (acme-rude 1) changed library.precision at import, from 'double' to 'half'"
    )


def test_draws_from_the_generator_are_no_change(installed_plugin: InstallPlugin) -> None:
    """Each run seeds it. The import of rich draws a number."""
    installed_plugin("polite", "acme-polite", "1", f"{HEAD}import random; random.random(); random.randint(0, 9999)\n")
    assert not [line for line in load_plugins().warnings if "polite" in line]


def test_the_plugins_of_this_repository_change_nothing() -> None:
    before = process_settings()
    assert not [line for line in load_plugins().warnings if "at import" in line]
    assert process_settings() == before
