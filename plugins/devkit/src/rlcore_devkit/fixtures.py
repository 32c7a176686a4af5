"""pytest fixtures for authors of plugins. pytest finds them where this distribution is installed."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
import pytest

from rlcore import CONTRACT, Plugins, main
from rlcore_devkit.doctor import import_alone

DEFAULT_REQUIRES = ("rlcore>=0.1",)


@attrs.frozen
class CommandResult:
    """The result of one ``rlcore`` command.

    Attributes:
        exit_code: The exit code.
        stdout: The text on standard output.
        stderr: The text on standard error.
    """

    exit_code: int
    stdout: str
    stderr: str


@attrs.frozen
class InstalledPlugin:
    """A fake distribution on ``sys.path``.

    Attributes:
        name: The name of the entry point.
        distribution: The distribution.
        version: Version of the distribution.
        module: The module with the hook implementations.
        directory: The directory of the distribution.
    """

    name: str
    distribution: str
    version: str
    module: str
    directory: Path

    @property
    def label(self) -> str:
        """The unique name, DIST/NAME."""
        return f"{self.distribution}/{self.name}"


InstallPlugin = Callable[..., InstalledPlugin]
"""The type of the fixture ``installed_plugin``."""
RunRlcore = Callable[..., CommandResult]
"""The type of the fixture ``run_rlcore``."""
CleanImport = Callable[..., None]
"""The type of the fixture ``clean_import``."""


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Plugins:
    """An empty set of plugins. ``plugins.register(module, "name")`` adds one; installed plugins have no effect."""

    def refuse() -> NoReturn:
        raise AssertionError("a test with the `plugins` fixture may not look for installed plugins")

    monkeypatch.setattr("rlcore.plugins.call.installed", refuse)
    return Plugins()


@pytest.fixture
def installed_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallPlugin]:
    """Install a plugin in a millisecond: ``installed_plugin(name, distribution, version, source, requires=...)``.

    ``source`` is the text of its light module. ``contract`` is the number that the distribution declares, by default
    that of the running rlcore; None for none. Write further modules into ``directory`` of the result.
    """
    modules: list[str] = []

    def install(
        name: str,
        distribution: str,
        version: str,
        source: str,
        requires: Sequence[str] = DEFAULT_REQUIRES,
        module: str | None = None,
        contract: int | None = CONTRACT,
    ) -> InstalledPlugin:
        module = module or f"{distribution}_{name}_hooks".replace("-", "_").lower()
        # One directory each: importlib.metadata caches listings by modification time, which is too coarse for tests.
        directory = tmp_path / f"site-{len(modules)}-{distribution}"
        information = directory / f"{distribution.replace('-', '_')}-{version}.dist-info"
        information.mkdir(parents=True)
        (directory / f"{module}.py").write_text(source, encoding="utf-8")
        (information / "entry_points.txt").write_text(f"[rlcore]\n{name} = {module}\n", encoding="utf-8")
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        if contract is not None:
            lines.append(f"Keywords: rlcore-plugin-contract-{contract}")
        (information / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        monkeypatch.syspath_prepend(directory)
        importlib.invalidate_caches()
        modules.append(module)
        return InstalledPlugin(name, distribution, version, module, directory)

    yield install
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def run_rlcore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunRlcore]:
    """Run a command in this process, in an empty directory, without RLCORE_*: ``run_rlcore("plugins", "list")``.

    Local plugins that the commands import from ``tmp_path`` are forgotten after the test.
    """
    for name in [name for name in os.environ if name.startswith("RLCORE_")]:
        monkeypatch.delenv(name)
    working = tmp_path / "working"
    working.mkdir(exist_ok=True)

    def run(*argv: str | Path) -> CommandResult:
        out = io.StringIO()
        err = io.StringIO()
        log = logging.getLogger("rlcore")
        with monkeypatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            patch.chdir(working)
            for name, value in (("handlers", [*log.handlers]), ("propagate", log.propagate)):
                patch.setattr(log, name, value)  # a command configures its log once, because its process ends
            before = log.level
            try:
                code = main([str(argument) for argument in argv])
            finally:
                log.setLevel(before)  # not by patching: setLevel clears the caches of child loggers
        return CommandResult(code, out.getvalue(), err.getvalue())

    path = [*sys.path]
    modules = set(sys.modules)
    yield run
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def hook_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of each hook, by rlcore and by plugins, in all runs of this test."""
    calls: Counter[str] = Counter()
    make_plugins = Plugins.__init__

    def counted(self: Plugins, *arguments: Any, **options: Any) -> None:
        make_plugins(self, *arguments, **options)
        self.count_calls(calls)

    monkeypatch.setattr(Plugins, "__init__", counted)
    return calls


@pytest.fixture
def clean_import() -> CleanImport:
    """Fail if the import of a module also imports torch or numpy: ``clean_import("acme_ppo.plugin")``."""

    def check(module: str, forbidden: Sequence[str] = ("torch", "numpy")) -> None:
        imported = import_alone(module, forbidden)
        assert not imported.error, imported.error
        assert not imported.heavy, f"importing {module} imports {', '.join(imported.heavy)}"

    return check
