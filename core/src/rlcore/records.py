"""The records that registry hooks return.

A record names heavy code by a string, ``"package.module:Name"``, so that listing plugins imports neither torch nor
numpy. :meth:`Record.resolve` imports it on first use. :meth:`rlcore.Plugins.create` calls a target with keyword
arguments: some of ``settings``, ``behavior`` and ``run``. The docstring of the record's class says which.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from rlcore.errors import PluginError

if TYPE_CHECKING:
    from rlcore.contracts.behavior_spec import BehaviorSpec
    from rlcore.plugins.discover import Plugin

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_COMMAND = re.compile(rf"(plugins )?{_NAME.pattern}")
_OPTION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PATH = re.compile(r"\w+(\.\w+)*")
_SUFFIX = re.compile(r"(\.[A-Za-z0-9_-]+)+")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_TARGET_OR_NOTHING = re.compile(rf"({_TARGET.pattern})?")


def _matching(pattern: re.Pattern[str]) -> Any:
    """The validator of texts that match a pattern."""

    def check(record: Record, attribute: attrs.Attribute[str], value: str) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"{type(record).__name__}: {attribute.name} {value!r} must match {pattern.pattern}")

    return check


def frozen_set(values: Iterable[str]) -> frozenset[str]:
    """The converter of attrs fields of records that are sets of names."""
    return frozenset(values)


def check_target(record: Record, attribute: attrs.Attribute[Any], value: Any) -> None:
    """The validator of attrs fields that name code; None is allowed where it is the default.

    Raises ValueError unless ``value`` has the form ``"package.module:Name"``.
    """
    if value is None and attribute.default is None:
        return
    if not isinstance(value, str) or not _TARGET.fullmatch(value):
        raise ValueError(
            f"{type(record).__name__} {record.name!r}: {attribute.name} {value!r} must be 'package.module:Name'"
        )


@attrs.frozen(kw_only=True)
class Record:
    """The base of all records, which registry hooks return.

    Raises ValueError for a name or a target of the wrong form.

    Attributes:
        kind: The word for such a record in ``rlcore plugins list --provides``.
        called: The word in messages if it differs from ``kind``.
        key: The configuration key or command-line option that names such a record.
        hook: The hook that creates what such a record describes; empty if only its target does.
        protocol: The contract that this must fit, as ``"package.module:Name"``; empty if it is not checked.
        name: The name that a configuration uses: letters, digits, dashes and underscores.
        target: The code, as ``"package.module:Name"``; imported on first use.
        summary: One sentence for ``rlcore plugins list --provides``.
        affects_learning: Whether a run that uses the record may learn something else without it, or with another
            version of its plugin. If it is false, a resume without the record leaves its block out, with a warning.
        plugin: The plugin whose registry hook returned the record, set by rlcore; None in a record that a program
            created itself.
    """

    kind: ClassVar[str] = "record"
    called: ClassVar[str] = ""
    key: ClassVar[str] = ""
    hook: ClassVar[str] = ""
    protocol: ClassVar[str] = ""

    name: str = attrs.field(validator=_matching(_NAME))
    target: str = attrs.field(validator=check_target)
    summary: str = ""
    affects_learning: bool = True
    plugin: Plugin | None = attrs.field(default=None, repr=False)

    @property
    def reference(self) -> str:
        """The record as DIST/NAME, or PLUGIN/NAME if the plugin is not installed as a distribution."""
        if self.plugin is None:
            return self.name
        return f"{self.plugin.source}/{self.name}"

    @property
    def described(self) -> str:
        """The record in messages: ``trainer 'ppo' of plugin 'ppo' (rlcore-ppo 0.1.0)``."""
        record = f"{self.kind} {self.name!r}"
        if self.plugin is None:
            return record
        return f"{record} of {self.plugin.described}"

    def resolve(self, attribute: str = "target") -> Any:
        """Import the object that ``attribute`` names. Raises PluginError, naming this record and its plugin."""
        from rlcore.plugins.failures import failure, note_maker
        from rlcore.plugins.process_state import noticing

        module, _, path = getattr(self, attribute).partition(":")
        known = module in sys.modules
        try:
            with nullcontext() if known or self.plugin is None else noticing(self.described):
                target: Any = import_module(module)
        except (Exception, SystemExit) as error:
            advice = self.plugin.required(error) if self.plugin is not None else ""
            doing = f"to import {module}"
            raise failure(self.described, doing, error, lambda text: PluginError(text + advice)) from error
        for part in path.split("."):
            try:
                target = getattr(target, part)
            except AttributeError:
                raise PluginError(f"{self.described}: {module} has no {path!r}") from None
        if attribute == "target":
            note_maker(self.kind, self.described, target)
        return target

    def create(self, **arguments: Any) -> Any:
        """Import the target, call it with ``arguments``, and check its answer against ``protocol``.

        Raises PluginError, naming this record and its plugin. :meth:`rlcore.Plugins.create` asks other plugins too.
        """
        from rlcore.plugins.failures import blamed, note_maker

        target = self.resolve()
        with blamed(self.described, f"in {self.hook or f'{type(self).__name__}.target'}"):
            created = target(**arguments)
        self.require(created, self.described)
        note_maker(self.kind, self.described, created)
        return created

    def require(self, created: object, described: str) -> None:
        """Raise PluginError unless what ``described`` returned fits ``protocol``."""
        from rlcore.plugins.failures import require_protocol

        if self.protocol:
            require_protocol(created, self.resolve("protocol"), described)


@attrs.frozen(kw_only=True)
class TrainerSpec(Record):
    """A trainer that ``trainer_type`` may name.

    ``target(settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext)``, called by keyword, returns a
    :class:`rlcore.Trainer`.

    :mod:`rlcore_torch.imitation` imitates after the updates of a trainer built on a template of ``rlcore_torch``;
    another trainer must honor the block ``behavioral_cloning`` itself.

    Attributes:
        settings: The attrs class of ``hyperparameters``, as ``"package.module:Name"``.
        network: The attrs class of ``network_settings``; derives from :class:`rlcore.PolicySettings`.
        spaces: Actions that it can learn: any of ``"continuous"``, ``"discrete"``, ``"hybrid"``.
        offline: Whether it learns from recorded episodes instead of an environment.
        behavioral_cloning: Whether the block ``behavioral_cloning`` of a behavior is allowed.
        memory: Whether it learns policies with memory, as ``network_settings.memory`` asks for.
        critic: Whether it has a critic with a network of its own, as ``network_settings.critic`` describes.
        privileged_critic: Whether its critic may read observations that the policy does not see, as
            ``network_settings.critic_observations`` lists.
        action_distributions: Whether ``network_settings.action_distribution`` chooses the distribution of continuous
            actions.
        turns: Whether it learns where agents act in turns: where ``needs_action`` of a batch is False for some rows.
            With ``turns=False``, the first batch with such a row ends the run before the trainer gets it, usually
            before the first step, and ``environment.workers`` may not let agents wait for others.
        ranks: Whether it learns as one trainer in several processes: it exchanges what ``run.ranks`` says, and its
            ``steps``, weights and statistics are equal in all of them. The trainers of ``rlcore_torch`` do so if their
            losses are means over rows.
    """

    kind: ClassVar[str] = "trainer"
    key: ClassVar[str] = "trainer_type"
    hook: ClassVar[str] = "rlcore_create_trainer"
    protocol: ClassVar[str] = "rlcore.contracts.trainer:Trainer"

    settings: str = attrs.field(validator=check_target)
    network: str = attrs.field(default="rlcore.settings:PolicySettings", validator=check_target)
    spaces: frozenset[str] = attrs.field(default=frozenset({"continuous", "discrete", "hybrid"}), converter=frozen_set)
    offline: bool = False
    behavioral_cloning: bool = False
    memory: bool = False
    critic: bool = False
    privileged_critic: bool = False
    action_distributions: bool = False
    turns: bool = True
    ranks: bool = False


@attrs.frozen(kw_only=True)
class RewardProviderSpec(Record):
    """A reward that ``reward_signals`` may name.

    ``target(settings, behavior: BehaviorSpec, run: RunContext)``, called by keyword, returns a
    :class:`rlcore.RewardProvider`. A ConfigError that it raises gets the place of the block in the file; its
    ``key`` is relative to the block, such as ``("demo_path",)``.

    Attributes:
        settings: The attrs class of its block, as ``"package.module:Name"``.
        ranks: Whether it may be used in a run of several processes: it learns nothing, or learns the same in all.
    """

    kind: ClassVar[str] = "reward"
    called: ClassVar[str] = "reward provider"
    key: ClassVar[str] = "reward_signals"
    hook: ClassVar[str] = "rlcore_create_reward_provider"
    protocol: ClassVar[str] = "rlcore.contracts.rewards:RewardProvider"

    settings: str = attrs.field(validator=check_target)
    ranks: bool = False


@attrs.frozen(kw_only=True)
class StatsWriterSpec(Record):
    """A statistics writer that ``stats`` may name.

    ``target(settings, run: RunContext)``, called by keyword, returns a :class:`rlcore.StatsWriter`. In a
    distribution outside its own repository, rlcore ignores ``default_on`` unless the user named the plugin
    (``plugins.enable`` or ``local``, RLCORE_PLUGINS, ``-p``), so that installing a package never starts to send data
    anywhere.

    Attributes:
        settings: The attrs class of its block, as ``"package.module:Name"``; None if it has no settings.
        default_on: Whether the writer runs unless the configuration says ``stats: {name: false}``.
        inference: Whether the writer also runs under ``--inference``, which leaves the run's files alone.
        foreign: Whether a configuration of a stranger may have the writer, because it writes into the run directory
            and to the terminal only, whatever its settings are.
    """

    kind: ClassVar[str] = "writer"
    called: ClassVar[str] = "statistics writer"
    key: ClassVar[str] = "stats"
    hook: ClassVar[str] = "rlcore_create_stats_writer"
    protocol: ClassVar[str] = "rlcore.contracts.stats:StatsWriter"

    affects_learning: bool = False
    settings: str | None = attrs.field(default=None, validator=check_target)
    default_on: bool = False
    inference: bool = False
    foreign: bool = False


@attrs.frozen(kw_only=True)
class EnvironmentSpec(Record):
    """A kind of environment that ``environment.type`` may name.

    ``target(settings: EnvironmentSettings, run: RunContext)``, called by keyword, returns an
    :class:`rlcore.Environment`. ``run.config.environment_parameters`` has the names of all parameters that
    the environment will receive.

    Attributes:
        settings: The attrs class of ``environment.options``, as ``"package.module:Name"``; None passes options on
            unchecked.
        parameters: The attrs class of an entry of ``environment.parameters``, which says how the environment parameter
            of that name reaches the environment; None refuses that block.
        block: The attrs class of the whole ``environment`` block, if this type has keys of its own there, as
            ``"package.module:Name"``; derives from :class:`rlcore.EnvironmentSettings`. The ``settings`` of ``target``
            have this class.
        video: Whether the environment can write a film of every whole episode into the directory ``run.video``, if that
            is not None.
        window: The key of the ``environment`` block that opens a window on the episodes if it is ``human``, such as
            ``options.render_mode``; empty if there is none.
        names_behaviors: Whether the environment has names for its behaviors. An environment without names has one
            behavior, ``run.behavior_names[0]``; a configuration with no or several ``behaviors`` is refused for it.
        libraries: Distributions that what the environment computes depends on, such as ``("gymnasium", "mujoco")``.
            Checkpoints note the versions of those that are installed, and a resume with other ones says so.
        foreign: Whether a configuration of a stranger may choose an ``id``, and words in ``options``, ``parameters``
            and ``wrappers``, because they name installed code only. Keys of ``block`` say it for themselves, by
            ``setting(foreign=...)``.
        presets: Whether presets are chosen for its behaviors by default. An environment says what its spaces do not,
            such as ``"mujoco"``, in its attribute ``marks``, a set of words. If it has no names for its behaviors, the
            preset also says how many copies are stepped in this process.
        adapter: ``function(made: object, settings: EnvironmentSettings, run: RunContext)``, as
            ``"package.module:name"``; it returns the :class:`rlcore.Environment` for an object that a Python program
            gave to ``Run(config, environment=...)``, and None for an object of another kind. ``run.given`` makes more
            copies if it is a function.
    """

    kind: ClassVar[str] = "environment"
    key: ClassVar[str] = "environment.type"
    hook: ClassVar[str] = "rlcore_create_environment"
    protocol: ClassVar[str] = "rlcore.contracts.environment:Environment"

    settings: str | None = attrs.field(default=None, validator=check_target)
    parameters: str | None = attrs.field(default=None, validator=check_target)
    block: str | None = attrs.field(default=None, validator=check_target)
    video: bool = False
    window: str = ""
    names_behaviors: bool = True
    libraries: tuple[str, ...] = ()
    foreign: bool = False
    presets: bool = False
    adapter: str | None = attrs.field(default=None, validator=check_target)


@attrs.frozen(kw_only=True)
class CurriculumSpec(Record):
    """A way of choosing environment parameters, which ``environment_parameters.<name>.curriculum.type`` may name.

    ``target(settings: Mapping[str, object of that class], run: RunContext)``, called by keyword, returns a
    :class:`rlcore.Curriculum` of all environment parameters that name it; ``settings`` holds the block of
    each. An evaluation creates one too, with its own seed and number of environments in ``run``.

    Attributes:
        settings: The attrs class of such a block, as ``"package.module:Name"``; derives from
            :class:`rlcore.CurriculumSettings`.
    """

    kind: ClassVar[str] = "curriculum"
    key: ClassVar[str] = "curriculum.type"
    protocol: ClassVar[str] = "rlcore.contracts.curriculum:Curriculum"

    settings: str = attrs.field(validator=check_target)


@attrs.frozen(kw_only=True)
class ExecutorSpec(Record):
    """A way to run the environments of training in workers, which ``environment.workers.executor`` may name.

    ``target(settings, run: RunContext)``, called by keyword, returns the :class:`rlcore.Environment` of the run. Its
    workers create their environments with ``rlcore_create_environment``, which the process of the run does not call.

    Attributes:
        settings: The attrs class of ``environment.workers``, as ``"package.module:Name"``; derives from
            :class:`rlcore.ExecutorSettings`.
    """

    kind: ClassVar[str] = "executor"
    key: ClassVar[str] = "environment.workers.executor"
    protocol: ClassVar[str] = "rlcore.contracts.environment:Environment"

    settings: str = attrs.field(validator=check_target)


@attrs.frozen(kw_only=True)
class ExporterSpec(Record):
    """An exporter of policies, which ``export`` and ``rlcore export --format`` may name.

    ``target(settings, run: RunContext)``, called by keyword, returns a :class:`rlcore.Exporter`. The module
    of the target should import everything that an export needs: a missing package is then reported when the run starts,
    not when it ends.

    Attributes:
        settings: The attrs class of its block, as ``"package.module:Name"``; derives from
            :class:`rlcore.ExportSettings`.
        suffix: The ending of its files, such as ``".onnx"``.
        only_by_name: Whether ``rlcore export`` without ``--format`` never chooses it, for formats that few runs need.
    """

    kind: ClassVar[str] = "exporter"
    key: ClassVar[str] = "export"
    protocol: ClassVar[str] = "rlcore.contracts.policy:Exporter"

    affects_learning: bool = False
    settings: str = attrs.field(default="rlcore.settings:ExportSettings", validator=check_target)
    suffix: str = attrs.field(validator=_matching(_SUFFIX))
    only_by_name: bool = False


@attrs.frozen(kw_only=True)
class BoundaryPartSpec(Record):
    """Something that every training does between two steps while the plugin is on, with its place in the order.

    ``target(run: RunContext)``, called by keyword once for each training, returns a :class:`rlcore.BoundaryPart`. Runs
    under ``--inference`` and evaluations have none.

    Attributes:
        before: The part before which it is done, saved and restored: ``evaluation``, ``summary``, ``checkpoint``,
            ``export``, or DIST/NAME of another plugin's; empty for the end.
    """

    kind: ClassVar[str] = "part"
    called: ClassVar[str] = "part of a boundary"
    protocol: ClassVar[str] = "rlcore.contracts.parts:BoundaryPart"

    before: str = ""


@attrs.frozen(kw_only=True)
class CommandSpec(Record):
    """An extra ``rlcore NAME`` command. ``target`` is a :class:`click.Command`, imported when the command is run.

    A command of ``rlcore plugins`` has its group in front: ``name="plugins new"``.

    Attributes:
        settings: The attrs class of a top-level block with the name of the command, which a configuration may have for
            this command alone: editors know the block by it. ``rlcore_modify_config`` of the plugin must take the block
            out, since it configures no run. None if there is none.
    """

    kind: ClassVar[str] = "command"
    key: ClassVar[str] = "rlcore"

    affects_learning: bool = False
    name: str = attrs.field(validator=_matching(_COMMAND))
    settings: str | None = attrs.field(default=None, validator=check_target)


@attrs.frozen(kw_only=True)
class KeyHints(Record):
    """Advice about keys that rlcore does not have, such as those of another framework.

    ``target(data: Mapping, plugins: Plugins)``, called by keyword after a configuration or an option of ``rlcore run``
    was refused, returns an object for this configuration. Its method ``message(path: KeyPath, problem: str, unknown:
    bool) -> str`` returns what to say about the value at ``path`` instead of ``problem``, which it may return too. The
    ``path`` of an option is ``("--name",)``. An empty text leaves the problem out, because the message about another
    one says it. ``unknown``: the key is unknown.

    Attributes:
        rewrites: The code that rewrites keys of another program before a configuration is checked, as
            ``"package.module:name"``; None if there is none. ``name(file: Rewriting)`` is called for each
            configuration that is read, after ``rlcore_modify_config``; see :class:`rlcore.Rewriting`.
        accepts: The mapping, as ``"package.module:NAME"``, from blocks to the keys that ``rewrites`` accepts in them,
            each with its default, for ``rlcore schema``; None if there is none.
    """

    kind: ClassVar[str] = "hints"

    affects_learning: bool = False
    rewrites: str | None = attrs.field(default=None, validator=check_target)
    accepts: str | None = attrs.field(default=None, validator=check_target)


@attrs.frozen(kw_only=True)
class Preset(Record):
    """Values for a class of environments, which ``preset`` of a configuration names.

    ``target`` names a mapping: a part of a configuration, such as ``{"default_settings": {"trainer_type": "ppo",
    "hyperparameters": {...}}, "environment": {"num_envs": 8}}``. rlcore merges it under the configuration: every key
    that the user gives wins, and behaviors inherit the ``default_settings``. It must have a ``trainer_type``, so that a
    file with another one is refused, and it cannot have ``plugins``. ``environment`` is used if the file has one too.

    ``preset: auto``, the default of a file, means the preset that :func:`rlcore.preset_for` returns for a behavior.

    Attributes:
        source: Where the values come from: papers, or the files of other libraries, with what was changed.
        trainer: The trainer whose plugin provides the preset and for which ``auto`` may choose it; empty: a preset that
            only a name chooses.
        spaces: Actions that it is for: any of ``"continuous"``, ``"discrete"``, ``"hybrid"``.
        images: Whether it is for behaviors that observe images, or for those that do not; None: for both.
        marks: Words that the environment must say about itself (:attr:`rlcore.EnvironmentSpec.presets`).
    """

    kind: ClassVar[str] = "preset"
    key: ClassVar[str] = "preset"

    affects_learning: bool = False  # its values are written to the configuration of the run
    source: str
    trainer: str = ""
    spaces: frozenset[str] = attrs.field(default=frozenset({"continuous", "discrete", "hybrid"}), converter=frozen_set)
    images: bool | None = None
    marks: frozenset[str] = attrs.field(default=frozenset(), converter=frozen_set)

    def misfit(self, behavior: BehaviorSpec, marks: Iterable[str]) -> str:
        """Say what the preset is for that the behavior, in an environment with these ``marks``, is not; empty: it fits.

        Such as ``"discrete actions"``.
        """
        if behavior.space not in self.spaces:
            return f"{' or '.join(sorted(self.spaces))} actions"
        sees = any(observation.kind == "image" for observation in behavior.observations)
        if self.images is not None and self.images != sees:
            return "images" if self.images else "observations without images"
        return " and ".join(sorted(self.marks.difference(marks)))


@attrs.frozen(kw_only=True)
class RunOptionSpec(Record):
    """An extra option of ``rlcore run``: ``--NAME VALUE`` sets the key ``sets`` of the configuration.

    ``RunOptionSpec(name="acme-team", sets="acme.team")`` makes ``--acme-team vision`` equal ``--set acme.team=vision``,
    so that the value is checked, written to ``configuration.yaml`` and there when the run is resumed. An option
    that is a ``flag`` has no value and sets ``true``. A plugin whose only use is in ``plugins.local`` of a
    configuration cannot add options, because they are read before the configuration.

    An option with a ``target`` sets no key: it hands the command over to the plugin, such as ``--seeds`` of
    ``rlcore-study``. ``target(options, words, make_run)``, called by keyword instead of a training, returns the exit
    code. ``options`` has the values of the options of ``rlcore run`` by name, such as ``options["run_id"]``, the file
    as ``options["config"]``, and the values of the given options with this target, texts or True. ``words`` are the
    words of the command line after ``rlcore run``. ``make_run()`` returns the :class:`rlcore.Run` that would be
    trained without these options, before it starts, or raises ConfigError. Options that belong together have one
    target.

    Attributes:
        name: The option without its dashes.
        target: The code that takes the command over, as ``"package.module:name"``; empty if the option sets a key.
        sets: The key of the configuration that the option sets, such as ``acme.team``; empty if it has a target.
        flag: Whether the option has no value; it sets ``true``.
        rest: Whether all words that follow are its value, a list, as with ``argparse.REMAINDER``. One word with spaces,
            or a list in brackets, is a value by itself.
    """

    kind: ClassVar[str] = "option"
    key: ClassVar[str] = "rlcore run"

    affects_learning: bool = False
    name: str = attrs.field(validator=_matching(_OPTION))
    target: str = attrs.field(default="", validator=_matching(_TARGET_OR_NOTHING))
    sets: str = attrs.field(default="")
    flag: bool = False
    rest: bool = False

    @sets.validator
    def _is_a_key_unless_there_is_a_target(self, attribute: attrs.Attribute[str], value: str) -> None:
        _matching(re.compile("") if self.target else _PATH)(self, attribute, value)

    @property
    def option(self) -> str:
        """The option with its dashes."""
        return f"--{self.name}"


@attrs.frozen(kw_only=True)
class BehaviorSection(Record):
    """A key of a behavior that belongs to a plugin, such as ``self_play``. ``target`` names its attrs settings class.

    The block is ``settings.sections[name]`` of the behavior's :class:`rlcore.BehaviorSettings`. A behavior
    without the key, or with ``null``, has no entry: use ``settings.sections.get(name)``.

    The class may have a method ``problems(behavior, config, plugins)``, which checks the block with the rest of its
    behavior's settings, the whole configuration and the plugins. It yields pairs of a path within the block and a
    message, and rlcore reports them with file and line. While policies are measured, it is not called.

    Attributes:
        ranks: Whether a behavior with the block learns as one in several processes. A plugin that puts a trainer around
            another one declares this in :attr:`rlcore.TrainerWrapper.learns_in_ranks` too.
        presets: Whether a preset may be chosen by default for a behavior with the block.
    """

    kind: ClassVar[str] = "behavior"
    called: ClassVar[str] = "block of a behavior"
    key: ClassVar[str] = "behaviors.NAME"

    ranks: bool = False
    presets: bool = True


@attrs.frozen(kw_only=True)
class EvaluationSection(Record):
    """Keys of the ``evaluation`` block that belong to a plugin, such as ``opponents``: the fields of ``settings``.

    ``target(settings, run: RunContext)``, called by keyword once for the evaluations of a run, returns a
    :class:`rlcore.EvaluationPlan`. A block without these keys has no ``evaluation.sections[name]``, and ``target`` is
    not called. A block with the keys of two plugins is refused.

    Attributes:
        name: The name of the section; by convention its first key.
        settings: The attrs class of the keys, as ``"package.module:Name"``.
    """

    kind: ClassVar[str] = "evaluation"
    called: ClassVar[str] = "key of evaluations"
    key: ClassVar[str] = "evaluation"
    protocol: ClassVar[str] = "rlcore.contracts.results:EvaluationPlan"

    settings: str = attrs.field(validator=check_target)


@attrs.frozen(kw_only=True)
class ConfigSection(Record):
    """A plugin's own top-level block in the configuration file. ``target`` names its attrs settings class.

    The block is ``config.sections[name]``; it has the class's defaults if the file leaves it out. A run writes the
    block into its ``configuration.yaml`` if the file has it or if the plugin took part in the run. A class that cannot
    be imported, or that fails with its defaults, leaves the plugin out, with a warning.

    ``affects_learning`` says whether a run may learn something else with other values. A resume with another block is
    ``exact`` if it is false, and ``statistical`` if it is true.

    The class may have a method ``problems(self, config: RunConfig, plugins: Plugins)``, as
    :class:`rlcore.CurriculumSettings` describes it. While policies are measured, it is not called. A section that says
    where trainers compute may have ``computing``, a mapping of texts such as ``{"device": "cuda"}`` that a resume
    compares; ``resume_limits``, as environments have it; and the static method ``learning_part(block)``, which returns
    the part of the plain block that a training depends on and that ``computing`` does not have.
    """

    kind: ClassVar[str] = "section"
    called: ClassVar[str] = "configuration section"
