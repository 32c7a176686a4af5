"""A run at one of its checkpoints, to be evaluated or exported, and its policies, to act anywhere.

Nothing in the directory of the run is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import attrs

from rlcore.config.document import Document
from rlcore.config.load import load_config
from rlcore.config.plugins_block import left_out, load_plugins_for
from rlcore.config.reading import read_document
from rlcore.contracts.behavior_spec import BehaviorSpec, spec_mismatch
from rlcore.contracts.environment import Environment
from rlcore.contracts.policy import Policy, read_by
from rlcore.contracts.recordings import EpisodeRecorder, RecordingAbout
from rlcore.contracts.results import EvaluationResult
from rlcore.contracts.saved_values import loading_state
from rlcore.errors import ConfigError, EnvironmentFailed
from rlcore.files.paths import working_directory
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed
from rlcore.records import EnvironmentSpec, ExporterSpec, TrainerSpec
from rlcore.run.components import CLOSE_ENVIRONMENT, closing, settings_of
from rlcore.run.environments import environment_name, environment_settings, make_environment
from rlcore.run.evaluation.episodes import PlayedEnvironment, target_parameters
from rlcore.run.evaluation.evaluate import Evaluator, specs_mismatch
from rlcore.run.prepare import CloseDeadline, no_deadline, run_context, with_seed
from rlcore.run.saved.data import find_run, find_state, read_saved_configuration
from rlcore.run.saved.provenance import refuse_code_of_others, refuse_names_of_others
from rlcore.settings import RunConfig
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.checkpoint_state import RUN, model_of, models_in, specs_in

__all__ = ["SavedRun"]

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class SavedRun:
    """A run at one of its checkpoints: read it, act with its policies, evaluate them.

    Attributes:
        config: The configuration of the run.
        plugins: The plugins of the run.
        context: The run as plugins see it, with the purpose ``"evaluate"``.
        step: Agent steps at the checkpoint.
        models: The ``"model"`` entry of the state of each behavior.
        checkpoint: The directory of the checkpoint.
        close_deadline: Entered around the close of the environment, as in :class:`rlcore.Run`.
    """

    config: RunConfig
    plugins: Plugins
    context: RunContext
    step: int
    models: dict[str, Any]
    checkpoint: Path
    _run: Mapping[str, Any]  # the checkpoint's entry of the run
    # Entered around the close of the environment, as in :class:`rlcore.Run`.
    close_deadline: CloseDeadline = attrs.field(default=no_deadline, kw_only=True)

    @classmethod
    def open(cls, run: str | Path, checkpoint: str = "last", allow_local: bool = False) -> SavedRun:
        """Read a run with the installed plugins that its configuration chooses; for commands of plugins.

        ``run`` is a run directory, or the id of a run in ``results``. Of a run that another user wrote, code that its
        configuration names is refused, and local files are not imported, unless ``allow_local``.

        Raises RunStateError if there is no such run or checkpoint, ConfigError if its configuration cannot be used.
        """
        directory = find_run(Path(run))
        document = read_saved_configuration(directory)
        if not allow_local:
            refuse_code_of_others(document, directory, local=False)
        plugins = load_plugins_for(document, allow_local=allow_local, lenient=True)
        if not allow_local:
            for message in left_out(document, plugins):
                log.warning("%s", message)
        config = load_config(document, plugins, measuring=True)
        if not allow_local:
            refuse_names_of_others(config, plugins, directory, document, environments=True)
        return cls.load(directory, config, plugins, checkpoint)

    @classmethod
    def load(cls, directory: Path, config: RunConfig, plugins: Plugins, checkpoint: str = "last") -> SavedRun:
        """The newest intact checkpoint (``last``), the ``best`` evaluation's policies, or the checkpoint of a step.

        ``directory`` is that of a run, or of a checkpoint, wherever its run is. Raises RunStateError if there is no
        such checkpoint, saying which there are.
        """
        found, state = find_state(directory, checkpoint)
        run = state[RUN]
        config = with_seed(config, int(run["seed"]))
        start = working_directory()
        context = run_context(config, plugins, start / directory, start)
        context.purpose = "evaluate"
        context.factories.require(run)
        models = models_in(state)
        return cls(config, plugins, context, found.step, models, found.path, run)

    @property
    def steps(self) -> Mapping[str, int]:
        """The agent steps of each behavior."""
        saved: Mapping[str, Any] = self._run["steps"]
        return {name: int(steps) for name, steps in saved.items()}

    @property
    def specs(self) -> dict[str, BehaviorSpec]:
        """The behaviors that were trained. Raises RunStateError if the checkpoint has none."""
        return specs_in(self._run, self.checkpoint)

    def policies(self, behaviors: Mapping[str, BehaviorSpec] | None = None) -> dict[str, Policy]:
        """A new policy of every behavior, with the weights of the checkpoint.

        ``behaviors`` are those of an environment; without it, those that the checkpoint was trained with.
        """
        directory = self.context.directory
        checkpoint = f"checkpoint {self.step} of {directory}"
        self.context.behaviors = dict(self.specs if behaviors is None else behaviors)
        policies = {}
        for name, spec in self.context.behaviors.items():
            settings = settings_of(self.config, name)
            record = self.plugins.record(TrainerSpec, settings.trainer_type)
            learned = self._with_observations_of_critics(spec)
            trainer = self.plugins.create(record, settings=settings, behavior=learned, run=self.context)
            model = model_of(self.models, name, f"{directory}")
            behavior_name = f"behavior {name!r}"
            trainer_name = f"{behavior_name}: trainer {settings.trainer_type!r}"
            with blamed(trainer_name, "in load_model"), loading_state(checkpoint, behavior_name):
                trainer.load_model(model)
                policy = trainer.policy
            if learned is not spec:
                problem = spec_mismatch(read_by(policy, learned), spec)
                if problem:
                    raise ConfigError(f"{behavior_name}: {problem}, which the policy learned", key=("environment",))
            policies[name] = policy
        return policies

    def _with_observations_of_critics(self, spec: BehaviorSpec) -> BehaviorSpec:
        """``spec`` of an environment, with all observations of the checkpoint if the environment lacks some."""
        trained = self.specs.get(spec.name)
        if trained is None:
            return spec
        saved = {observation.name for observation in trained.observations}
        present = {observation.name for observation in spec.observations}
        if saved > present:
            return attrs.evolve(spec, observations=trained.observations)
        return spec

    @contextmanager
    def environment(self, num_envs: int, seed: int | None = None) -> Iterator[Environment]:
        """Open ``num_envs`` environments of those that the run trained in, to play games of your own.

        Their parameters are those of the task that training is for, drawn with ``seed`` (by default, the run's), and
        what they return is checked. They are closed after the block. Observations that critics alone read may be
        missing. Raises ConfigError if the run has no environment, or if it has other agents by now, and
        EnvironmentFailed, also later, if it fails.
        """
        settings = attrs.evolve(environment_settings(self.config), num_envs=num_envs)
        config = attrs.evolve(self.config, environment=settings)
        if seed is None:
            seed = self.context.seed
        context = attrs.evolve(self.context, config=config, num_envs=num_envs, seed=seed)
        name = environment_name(settings, self.plugins)
        environment = make_environment(config, self.plugins, context)
        with closing(environment, name, EnvironmentFailed, CLOSE_ENVIRONMENT, self.close_deadline):
            problem = specs_mismatch(self.specs, environment.behaviors)
            if problem:  # an environment may lack what critics alone read
                read = {}
                for behavior, policy in self.policies().items():
                    read[behavior] = read_by(policy, self.specs[behavior])
                problem = specs_mismatch(read, environment.behaviors)
            if problem:
                raise ConfigError(f"environment {settings.id or settings.type!r}: {problem}", key=("environment",))
            feed = target_parameters(config.environment_parameters, context, environment, name)
            yield PlayedEnvironment(environment, name, feed=feed)

    def evaluate(
        self,
        episodes: int,
        seed: int | None = None,
        deterministic: bool = True,
        video: Path | None = None,
        record: Path | None = None,
        record_format: str | None = None,
        before_close: Callable[[EvaluationResult], None] | None = None,
    ) -> EvaluationResult:
        """Play ``episodes`` whole episodes in an environment of their own, the only one that is created.

        Equal seeds play equal episodes; ``seed=None`` uses the run's seed. ``deterministic=False`` samples actions as
        in training. ``video`` is a directory for a film of each episode. ``record`` is a directory for a recording of
        each behavior, ``record/<behavior>``, of the format called ``record_format`` or of the only installed one.
        ``before_close`` is called with the result before the environment is closed, which may take long or fail.
        """
        recorders_for = None
        if record is not None:
            recorders_for = partial(self._recorders, self.context.absolute(record), record_format)
        deadline = self.close_deadline
        films = None
        if video is not None:
            films = self.context.absolute(video)
            deadline = no_deadline  # a film may be encoded when it is closed, which takes its time
        evaluator = Evaluator(self.config, self.plugins, self.context, video=films)
        with closing(evaluator, "the environment", EnvironmentFailed, CLOSE_ENVIRONMENT, deadline):
            result = evaluator.evaluate(self.policies, episodes, seed, deterministic, recorders_for)
            self.plugins.notify("rlcore_evaluated", run=self.context, step=self.step, result=result)
            if before_close is not None:
                before_close(result)
        return result

    def _recorders(
        self, directory: Path, record_format: str | None, behaviors: Mapping[str, BehaviorSpec]
    ) -> AbstractContextManager[Mapping[str, EpisodeRecorder]]:
        settings = self.config.evaluation_environment
        assert settings is not None, "or there would be no behaviors"
        environment_type = self.plugins.record(EnvironmentSpec, settings.type).name
        options = settings.options if isinstance(settings.options, Mapping) else {}
        description = f"Episodes played by run {self.context.run_id} as it was at step {self.step}."
        about = {}
        for name in behaviors:
            trainer = settings_of(self.config, name).trainer_type
            about[name] = RecordingAbout(environment_type, settings.id, options, trainer, description)
        return self.plugins.recordings("--record").record(directory, behaviors, about, record_format)


# ---------------------------------------------------------------- policies


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
    if plugins is None:
        plugins = source.plugins()
    saved = source.load(plugins, checkpoint)
    return saved.policies()


@attrs.frozen
class PolicySource:
    """A run directory, or the directory of one checkpoint, from which policies are read without an environment.

    Attributes:
        directory: The directory of the run or of the checkpoint.
        document: The saved configuration, without the blocks of environments.
        is_checkpoint: Whether ``directory`` is that of one checkpoint.
    """

    directory: Path
    document: Document
    is_checkpoint: bool

    @classmethod
    def find(cls, path: Path) -> Self:
        """The source that ``path``, or a run id, names. Raises RunStateError if there is none."""
        is_checkpoint = path.name.isdecimal() and (path / CONFIGURATION).is_file()
        if is_checkpoint:
            directory = path
            document = read_document(path / CONFIGURATION)
        else:
            directory = find_run(path)
            document = read_saved_configuration(directory)
        data = document.data
        for block in ENVIRONMENT_BLOCKS:
            data = data.without(block)
        return cls(directory, attrs.evolve(document, data=data), is_checkpoint)

    def plugins(self) -> Plugins:
        """The installed plugins that the configuration chooses; local files are not imported."""
        return load_plugins_for(self.document, allow_local=False, lenient=True)

    def load(self, plugins: Plugins, checkpoint: str, exporter: ExporterSpec | None = None) -> SavedRun:
        """The checkpoint ``"last"``, ``"best"`` or of a step; a directory of one checkpoint has only that one.

        The configuration has the settings of ``exporter``. Raises ConfigError for a configuration that cannot be used,
        or another checkpoint than the only one, and RunStateError if there is no such checkpoint.
        """
        if self.is_checkpoint and checkpoint not in ("last", self.directory.name):
            raise ConfigError(
                f"{self.directory}: is a single checkpoint, so {checkpoint!r} cannot be chosen; name the directory of "
                "the run"
            )
        config = load_config(self.document, plugins, measuring=True, exporter=exporter)
        return SavedRun.load(self.directory, config, plugins, checkpoint)
