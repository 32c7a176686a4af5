"""A run before it starts: a checked configuration, its plugins and its directory; nothing is created yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.document import Block, Document
from rlcore.config.dump import dump_config
from rlcore.config.load import load_document
from rlcore.config.plugins_block import load_plugins_for, recorded
from rlcore.config.problems import ConfigErrors, short_repr
from rlcore.config.reading import document_from_mapping, object_hint, read_document
from rlcore.config.rules import learns_offline
from rlcore.config.used_records import block_with_sections, with_records
from rlcore.contracts.ranks import Launch, Ranks, launched
from rlcore.contracts.seeding import fresh_seed
from rlcore.errors import ConfigError
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.known import PROGRAM
from rlcore.plugins.stops import StopRequests
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.presets_by_default import with_presets_by_default
from rlcore.run.saved.provenance import directory_to_continue, raise_with_absent_plugins, with_records_of_run
from rlcore.run.timers import Timers
from rlcore.settings import CheckpointSettings, RunConfig
from rlcore.settings.blocks import AUTO
from rlcore.storage.directory import ResultsDirectory
from rlcore.storage.store import CheckpointStore

# What a program may give as a configuration; the strings are paths of files.
Configuration = RunConfig | Document | Mapping[str, Any] | str | Path
# Entered around one close(), with what is closed and how many seconds that may take.
CloseDeadline = Callable[[str, float], AbstractContextManager[None]]


def no_deadline(what: str, seconds: float) -> AbstractContextManager[None]:
    """Wait as long as it takes: a run that a program makes does not end the process."""
    return nullcontext()


@attrs.define(eq=False)
class Preparation:
    """A checked configuration, and what a run of it has from its beginning to its end.

    A run and its training share it. The training does not know the run: no cycle keeps a dropped run, and its lock.

    Attributes:
        config: The complete configuration, as it was checked. That of a started run's context has the seed of the run.
        document: The places of the values of the configuration, for errors.
        offline: Whether trainers learn from recorded data: no environment is created.
        given: The environment that a program gave, or the function that makes it; None otherwise.
        launch: How ``torchrun`` started the process; None if it did not.
        close_deadline: Entered around each ``close()`` of an environment or a writer.
    """

    config: RunConfig
    document: Document
    plugins: Plugins
    offline: bool
    launch: Launch | None
    directory: ResultsDirectory
    store: CheckpointStore
    timers: Timers = attrs.field(factory=Timers)
    stops: StopRequests = attrs.field(factory=StopRequests)
    given: Any = None
    close_deadline: CloseDeadline = no_deadline

    def deadline(self, what: str, seconds: float) -> AbstractContextManager[None]:
        """A :data:`CloseDeadline`: the one that is set when something is closed."""
        return self.close_deadline(what, seconds)

    def configure(self, context: RunContext, behaviors: Iterable[TrainedBehavior] = ()) -> None:
        """Have checkpoints state the configuration that starts this run again.

        It has no ``resume``, ``checkpoint``, ``force`` and ``inference``, and states the intervals of checkpoints that
        the run chose for ``behaviors``, so that a new run with it does the same. It also has the sections of the
        plugins that took part in making the objects of the run, which are noted in ``context``.
        """
        config = context.config
        took_part = context.factories.plugins
        start = attrs.evolve(config.checkpoint_settings, resume=False, checkpoint=None, force=False, inference=False)
        settings = dict(config.behaviors)
        for behavior in behaviors:
            interval = behavior.chosen_interval
            if interval is not None and behavior.settings.checkpoint_interval is None:
                settings[behavior.name] = attrs.evolve(behavior.settings, checkpoint_interval=interval)
        written = attrs.evolve(
            config,
            checkpoint_settings=start,
            behaviors=settings,
            plugins=block_with_sections(config, self.plugins, took_part),
        )
        self.store.configure(written, context.ranks.size, took_part)


def prepare(config: Configuration, plugins: Plugins | None, given: Any = None) -> Preparation:
    """Check the configuration. Loads the plugins that it chooses if ``plugins`` is None. Raises ConfigError."""
    checked, plugins, document = _checked(config, plugins, given)
    offline = learns_offline(checked, plugins)
    launch = launched()
    directory = directory_of_rank(launch, checked.checkpoint_settings)
    store = CheckpointStore(directory, plugins)
    return Preparation(checked, document, plugins, offline, launch, directory, store, given=given)


def _checked(config: Configuration, plugins: Plugins | None, given: Any) -> tuple[RunConfig, Plugins, Document]:
    """A checked configuration, the plugins it was checked with, and the document that gives errors their place."""
    if isinstance(config, RunConfig) and config.preset == AUTO:
        raise ConfigError(
            "presets are not chosen yet, because this configuration was read without its environment: give Run the "
            "file or the mapping that it was read from, or read it with preset: none",
            key=("preset",),
        )
    if isinstance(config, RunConfig) and given is None:
        if plugins is None:
            config, plugins = _with_plugins(config)
        return config, plugins, Document(None)
    document = _document_of(config)
    if given is not None:
        document = _of_program(document, given)
    document = with_records_of_run(document)
    if plugins is None:
        plugins = load_plugins_for(document)
    try:
        document = with_presets_by_default(document, plugins, given)
        loaded, document = load_document(document, plugins)
    except ConfigErrors as error:
        raise_with_absent_plugins(error, directory_to_continue(document), plugins)
    return loaded, plugins, document


def _with_plugins(config: RunConfig) -> tuple[RunConfig, Plugins]:
    """A configuration that was checked before, with the records that its plugins have, and its plugins."""
    data = dump_config(config)
    plugins = load_plugins_for(document_from_mapping(data))
    settings = recorded(config.plugins, None, plugins)
    return with_records(config, settings, plugins, data), plugins


def _document_of(config: Configuration) -> Document:
    if isinstance(config, Document):
        return config
    if isinstance(config, RunConfig):
        config = dump_config(config)
    if isinstance(config, Mapping):
        return document_from_mapping(config)
    if isinstance(config, str | PathLike):
        return read_document(Path(config))
    kinds = "a mapping, the path of a file, or a RunConfig"
    problem = f"a run is made from a configuration: {kinds}, not {short_repr(config)}"
    raise ConfigError(problem + object_hint(config))


def _of_program(document: Document, given: Any) -> Document:
    """The document with ``environment.type: program``, and the number of copies if ``given`` is one object."""
    block = document.data.get("environment") or Block()
    if not isinstance(block, Block):
        return document  # which is refused when it is read
    named = {key: block[key] for key in ("type", "id") if block.get(key) not in (None, PROGRAM)}
    if named:
        raise ConfigError(
            f"{document.where(('environment',))}: environment names {named}, and Run(config, environment=...) gives "
            "another one; delete one of the two"
        )
    if not callable(given) and block.get("num_envs") is None:
        count = int(getattr(given, "num_envs", 1))
        block = block.with_entry("num_envs", count, None)
    block = block.with_entry("type", PROGRAM, None)
    return attrs.evolve(document, data=document.data.with_entry("environment", block, None))


def with_seed(config: RunConfig, seed: int | None, ranks: Ranks | None = None) -> RunConfig:
    """The configuration with the run's seed in it: ``seed`` of a resumed run, the configured one, or a fresh one.

    Every one of the ``ranks`` has the seed of the first.
    """
    configured = config.env_settings.seed
    if seed is None:
        seed = configured if configured >= 0 else fresh_seed()
    elif configured not in (-1, seed):
        raise ConfigError(
            f"the run was started with seed {seed}, not {configured}; leave the seed out to resume",
            key=("env_settings", "seed"),
        )
    shared = seed if ranks is None else ranks.share(seed)
    return attrs.evolve(config, env_settings=attrs.evolve(config.env_settings, seed=shared))


def run_context(
    config: RunConfig,
    plugins: Plugins,
    directory: Path,
    working_directory: Path,
    resumed_steps: Mapping[str, int] | None = None,
    stops: StopRequests | None = None,
    ranks: Ranks | None = None,
    declare: Callable[[RunContext], None] = lambda context: None,
) -> RunContext:
    """The run as plugins see it, with the environments of this rank. ``declare`` gets those that declare files."""
    ranks = ranks or Ranks()
    first_env, num_envs = ranks.own_environments(config.num_envs)
    return RunContext(
        config=config,
        plugins=plugins,
        directory=directory,
        seed=config.env_settings.seed,
        num_envs=num_envs,
        first_env=first_env,
        ranks=ranks,
        purpose="inference" if config.checkpoint_settings.inference else "train",
        resumed_steps=dict(resumed_steps or {}),
        offline=learns_offline(config, plugins),
        working_directory=working_directory,
        stops=StopRequests() if stops is None else stops,
        declare=declare,
    )


def plugin_files(context: RunContext) -> list[str]:
    """Patterns of the files that plugins write, one for each behavior if a pattern names it."""
    patterns = []
    for pattern in context.files:
        if "{behavior}" in pattern:
            patterns += [pattern.replace("{behavior}", name) for name in context.behaviors]
        else:
            patterns.append(pattern)
    return patterns


def directory_of_rank(launch: Launch | None, settings: CheckpointSettings) -> ResultsDirectory:
    """The run directory as this process uses it: rank 0 writes."""
    if launch is None:
        return ResultsDirectory(settings)
    return ResultsDirectory(settings, launch.job, read_only=not launch.leads)
