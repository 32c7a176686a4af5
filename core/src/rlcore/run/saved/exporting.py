"""Export policies from a checkpoint alone: what ``rlcore export`` does, as a function."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from rlcore.config.document import Document
from rlcore.config.overrides import apply_overrides
from rlcore.config.reading import document_from_mapping
from rlcore.errors import ConfigError, RunStateError, did_you_mean
from rlcore.files.paths import user_path
from rlcore.plugins.call import Plugins
from rlcore.records import ExporterSpec
from rlcore.run.components import settings_of
from rlcore.run.exports import OpenExporter, about_export
from rlcore.run.saved.data import configuration_sha256
from rlcore.run.saved.saved_run import PolicySource, SavedRun
from rlcore.settings.fields import FieldInfo
from rlcore.storage.output import require_output

PROFILE = "profile"  # the setting of an exporter that --profile sets


def export_policies(
    path: str | Path,
    exporter: str | None = None,
    output: str | Path | None = None,
    *,
    checkpoint: str = "last",
    behavior: str | None = None,
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
    plugins: Plugins | None = None,
) -> dict[str, Path]:
    """Export policies of a checkpoint; return the file of each behavior. Needs no environment, and no plugin of one.

    ``path`` and ``checkpoint`` are those of :func:`load_policies`. ``exporter`` is NAME or DIST/NAME; without it, the
    only exporter of the run's ``export`` block, or else the only one that is installed. ``output`` is a directory, by
    default the working directory, or the file of a single behavior; in a directory, files are named ``BEHAVIOR``
    and the ending of the exporter. Without ``behavior``, all are exported. ``settings`` is the block of the exporter
    instead of that in the run's configuration. A file that exists is an error unless ``force`` replaces it. An export
    that fails leaves no file.

    Raises UnsupportedExport for a policy that the exporter refuses, ConfigError for other wrong arguments, PluginError
    for a failing exporter, and RunStateError if there is no such checkpoint.
    """
    source = PolicySource.find(Path(path))
    plugins = plugins or source.plugins()
    spec = chosen_exporter(source.document, plugins, exporter)
    if settings is not None:
        block = document_from_mapping({spec.reference: settings}).data
        data = source.document.data.with_entry("export", block, None)
        document = attrs.evolve(source.document, data=data)
        source = attrs.evolve(source, document=document)
    export = Export.of(source, plugins, spec, checkpoint, behavior)
    written = export.write(output, force)
    return {name: file.path for name, file in written.items()}


def chosen_exporter(document: Document, plugins: Plugins, reference: str | None) -> ExporterSpec:
    """The exporter called ``reference``; without it, the only one that the document names or that is installed.

    Raises ConfigError if there is none, or more than one.
    """
    if reference is None:
        block = document.data.get("export")
        names = list(block) if isinstance(block, Mapping) else []
        if not names:
            exporters = [record for record in plugins.records("exporter") if isinstance(record, ExporterSpec)]
            names = [record.reference for record in exporters if not record.only_by_name]
        if not names:
            absent = f"; {plugins.absent}" if plugins.absent else ""
            raise ConfigError(f"no exporter is installed; install a plugin that has one{absent}")
        if len(names) > 1:
            choices = " or ".join(names)
            raise ConfigError(f"there are several exporters; choose one with --format: {choices}")
        reference = names[0]
    return plugins.record(ExporterSpec, reference)


def with_profile(document: Document, spec: ExporterSpec, profile: str) -> Document:
    """The document with ``profile`` in the settings of the exporter. Raises ConfigError if it has no such setting."""
    if PROFILE not in FieldInfo.fields_of(spec.resolve("settings")):
        raise ConfigError(f"--profile: {spec.described} has no profiles; leave --profile out")
    entry = spec.reference
    block = document.data.get("export")
    if isinstance(block, Mapping):
        for name in (spec.reference, spec.name):
            if name in block:
                entry = name
    return apply_overrides(document, flags={("export", entry, PROFILE): profile})


@attrs.frozen
class WrittenExport:
    """An exported file, and what the exporter reports about it in one line."""

    path: Path
    report: str | None


@attrs.frozen(eq=False)
class Export:
    """Policies of one checkpoint, and the exporter that is to write them."""

    saved: SavedRun
    spec: ExporterSpec
    behaviors: tuple[str, ...]
    checksum: str  # of the configuration in the checkpoint

    @classmethod
    def of(
        cls, source: PolicySource, plugins: Plugins, spec: ExporterSpec, checkpoint: str, behavior: str | None
    ) -> Self:
        """Read the checkpoint; without ``behavior``, all its behaviors are to be exported."""
        saved = source.load(plugins, checkpoint, spec)
        try:
            checksum = configuration_sha256(saved.checkpoint)
        except RunStateError:
            if saved.checkpoint.exists() or checkpoint != "last":
                raise
            # The run is training, and has deleted the checkpoint that was its last: read the one that is.
            return cls.of(source, plugins, spec, checkpoint, behavior)
        names = tuple(saved.specs)
        if behavior is not None and behavior not in names:
            raise ConfigError(
                f"checkpoint {saved.step} has no behavior {behavior!r}; it has {', '.join(names)}"
                f"{did_you_mean(behavior, names)}"
            )
        return cls(saved, spec, names if behavior is None else (behavior,), checksum)

    def files(self, output: str | Path | None) -> dict[str, Path]:
        """The file of each behavior. Raises ConfigError if ``output`` cannot be used.

        ``output`` is a directory if it exists as one, ends in a slash or has no suffix; :meth:`write` makes a new one.
        """
        place = user_path("." if output is None else output)
        suffix = self.spec.suffix
        is_directory = place.is_dir()
        if not is_directory and not place.parent.is_dir():
            raise ConfigError(f"{output}: there is no directory {place.parent}")
        if not place.exists():
            ends_in_slash = str(output).endswith(("/", os.sep))
            is_directory = ends_in_slash or (suffix != "" and not place.suffix)
        if is_directory:
            return {name: place / f"{name}{suffix}" for name in self.behaviors}
        if len(self.behaviors) > 1:
            names = ", ".join(self.behaviors)
            raise ConfigError(
                f"{output}: is not a directory; name one for the files of {names}, or name one of them with --behavior"
            )
        return {self.behaviors[0]: place}

    def write(self, output: str | Path | None, force: bool) -> dict[str, WrittenExport]:
        """Write the files, and return them by behavior, each with the report of the exporter."""
        files = self.files(output)
        saved = self.saved
        for path in files.values():
            require_output(path, force, new_directory=True)  # files() has checked where it will be
        (settings,) = saved.config.export.values()
        exporter = saved.plugins.create(self.spec, settings=settings, run=saved.context)
        opened = OpenExporter(exporter, self.spec, settings)
        specs = {name: saved.specs[name] for name in files}
        for path in files.values():
            path.parent.mkdir(exist_ok=True)
        written = {}
        for name, policy in saved.policies(specs).items():
            path = files[name]
            about = about_export(
                run_id=saved.context.run_id,
                step=saved.step,
                behavior_steps=saved.steps[name],
                trainer_type=settings_of(saved.config, name).trainer_type,
                configuration_sha256=self.checksum,
            )
            report = opened.write(policy, specs[name], path, about, path.parent)
            written[name] = WrittenExport(path, report)
        return written
