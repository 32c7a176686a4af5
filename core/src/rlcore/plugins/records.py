"""Records that registry hooks return. They name heavy code by string, ``"package.module:Name"``, so that listing what
is installed imports neither torch nor numpy; a target is imported when it is first used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import attrs

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def _check_name(record: Record, attribute: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{type(record).__name__}: name {value!r} must match {_NAME.pattern}")


def _frozen(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


def _check_target(record: Record, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is None and attribute.default is None:
        return
    if not isinstance(value, str) or not _TARGET.fullmatch(value):
        raise ValueError(
            f"{type(record).__name__} {record.name!r}: {attribute.name} {value!r} must be 'package.module:Name'"
        )


@attrs.frozen(kw_only=True)
class Record:
    """What all records share.

    ``kind`` is the word of ``rlcore plugins list --provides``; ``called`` that of messages, where it is another one;
    ``key`` is what names such a record in the configuration, or on the command line.
    """

    kind: ClassVar[str] = "record"
    called: ClassVar[str] = ""
    key: ClassVar[str] = ""

    name: str = attrs.field(validator=_check_name)
    target: str = attrs.field(validator=_check_target)
    summary: str = ""


@attrs.frozen(kw_only=True)
class TrainerSpec(Record):
    """A trainer that ``trainer_type`` may name.

    ``target`` is called as ``target(behavior: BehaviorSpec, settings: BehaviorSettings, run: RunContext)`` and
    returns a :class:`rlcore.trainer.Trainer`. ``settings`` names the attrs class of its ``hyperparameters`` block.
    ``spaces`` says which actions it can learn: any of ``"continuous"``, ``"discrete"``, ``"hybrid"``.
    ``behavioral_cloning``: whether that block of a behavior is allowed. :mod:`rlcore.torch.imitation` imitates after
    the updates of a trainer built on a template of ``rlcore.torch``; another trainer must honour the block itself.
    """

    kind: ClassVar[str] = "trainer"
    key: ClassVar[str] = "trainer_type"

    settings: str = attrs.field(validator=_check_target)
    spaces: frozenset[str] = attrs.field(default=frozenset({"continuous", "discrete", "hybrid"}), converter=_frozen)
    offline: bool = False
    behavioral_cloning: bool = False


@attrs.frozen(kw_only=True)
class RewardProviderSpec(Record):
    """A reward that ``reward_signals`` may name. ``target(settings, behavior, run)`` returns a RewardProvider."""

    kind: ClassVar[str] = "reward"
    called: ClassVar[str] = "reward provider"
    key: ClassVar[str] = "reward_signals"

    settings: str = attrs.field(validator=_check_target)


@attrs.frozen(kw_only=True)
class StatsWriterSpec(Record):
    """A writer that ``stats`` may name. ``target(settings, run)`` returns a StatsWriter.

    ``default_on`` writers run unless the configuration says ``stats: {name: false}``; it is honoured only for
    distributions kept in rlcore's own repository, so that installing a package never starts sending data anywhere.
    """

    kind: ClassVar[str] = "writer"
    called: ClassVar[str] = "statistics writer"
    key: ClassVar[str] = "stats"

    settings: str | None = attrs.field(default=None, validator=_check_target)
    default_on: bool = False
    inference: bool = False  # whether it also runs under --inference, which leaves the run's files alone


@attrs.frozen(kw_only=True)
class EnvironmentSpec(Record):
    """A kind of environment that ``environment.type`` may name.

    ``target(settings: EnvironmentSettings, run: RunContext)`` returns an :class:`rlcore.environment.Environment`.
    ``settings`` names the attrs class of ``environment.options``; None passes options on as they are. ``parameters``
    names that of one entry of ``environment.parameters``: how the environment parameter of that name reaches the
    environment. None refuses the block: parameters are known by their names. One that can record ``video`` writes a
    film of every whole episode into the directory ``run.video``, where that is not None.

    ``run.config.environment_parameters`` has the names of all parameters that this environment will be told.
    """

    kind: ClassVar[str] = "environment"
    key: ClassVar[str] = "environment.type"

    settings: str | None = attrs.field(default=None, validator=_check_target)
    parameters: str | None = attrs.field(default=None, validator=_check_target)
    video: bool = False


@attrs.frozen(kw_only=True)
class CurriculumSpec(Record):
    """A way of choosing environment parameters, which ``environment_parameters.<name>.curriculum.type`` may name.

    ``settings`` names the attrs class of such a block, which derives from :class:`rlcore.settings.CurriculumSettings`.
    ``target(blocks: Mapping[str, settings], run: RunContext)`` returns a :class:`rlcore.curriculum.Curriculum` of all
    parameters whose block names it. It is also made for evaluations, with their own seed and number of copies in
    ``run``.
    """

    kind: ClassVar[str] = "curriculum"
    key: ClassVar[str] = "curriculum.type"

    settings: str = attrs.field(validator=_check_target)


@attrs.frozen(kw_only=True)
class RecordingFormatSpec(Record):
    """A kind of files that recorded episodes are read from and written to.

    ``target()`` returns a :class:`rlcore.recordings.RecordingFormat`.
    """

    kind: ClassVar[str] = "recording"
    called: ClassVar[str] = "recording format"
    key: ClassVar[str] = "--record-format"


@attrs.frozen(kw_only=True)
class CommandSpec(Record):
    """An extra ``rlcore NAME`` command. ``target`` is a :class:`click.Command`, imported when the command is run."""

    kind: ClassVar[str] = "command"
    key: ClassVar[str] = "rlcore"


@attrs.frozen(kw_only=True)
class ConfigSection(Record):
    """A plugin's own top-level block in the configuration file. ``target`` names its attrs settings class.

    The block arrives as ``config.sections[name]``; a file that leaves it out gives the class's defaults.
    """

    kind: ClassVar[str] = "section"
