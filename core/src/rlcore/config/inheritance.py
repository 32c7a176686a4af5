"""Values that a document leaves out: behaviors inherit from ``default_settings``, evaluations from ``environment``.

A document may leave out its only behavior too, where the environment does not name it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import Block, Document, merged, placed_like
from rlcore.config.dump import NOT_INHERITED, plain, same_type
from rlcore.config.problems import Problems, short_repr
from rlcore.config.structure import build
from rlcore.errors import NotInstalled
from rlcore.records import EnvironmentSpec
from rlcore.settings import EnvironmentSettings

if TYPE_CHECKING:
    from rlcore.config.record_reader import RecordReader
    from rlcore.plugins.call import Plugins


def inherit_defaults(document: Document) -> Document:
    """The document with ``default_settings`` merged under each behavior, as deep as both are mappings."""
    defaults = document.data.get("default_settings")
    behaviors = document.data.get("behaviors")
    if not isinstance(defaults, Block) or not isinstance(behaviors, Block):
        return document
    complete = Block()
    for name, block, origin in behaviors.entries():
        if isinstance(block, Block):
            block = merged(block, defaults)
        complete.put(name, block, origin)
    return document.with_block("behaviors", complete)


def with_environments(document: Document, reader: RecordReader, problems: Problems) -> Document:
    """The document with the numbers of environments, and with the complete environment of evaluations.

    Both are decided once, so that the configuration that a run writes loads to an equal one. ``num_envs`` of training
    is 1 by default. The environment of evaluations has its own entries over those of ``environment``, with their
    defaults.
    """
    environment = document.data.get("environment")
    if isinstance(environment, Block) and environment.get("num_envs") is None:  # ML-Agents' default
        environment = environment.with_entry("num_envs", 1, None)
        document = document.with_block("environment", environment)
    evaluation = document.data.get("evaluation")
    if not isinstance(evaluation, Block):
        return document
    block = evaluation.get("environment", Block())
    origin = evaluation.origins.get("environment")
    complete = _of_evaluations(block, environment, document, reader, problems)
    evaluation = evaluation.without("environment")
    if complete is not None:
        evaluation = evaluation.with_entry("environment", complete, origin)
    return document.with_block("evaluation", evaluation)


def _of_evaluations(
    block: Any, environment: Any, document: Document, reader: RecordReader, problems: Problems
) -> Block | None:
    """The complete environment block of evaluations; None after a problem, or if a problem is to be found later."""
    if not isinstance(block, Block):
        problems.add(("evaluation", "environment"), f"must be a mapping, not {short_repr(block)}")
        return None
    if environment is None and not block:
        missing = "there is no environment to evaluate in; give environment or evaluation.environment"
        problems.add(("evaluation",), missing)
        return None
    if not isinstance(environment, Block):
        return block or None
    path = ("environment",)
    # Problems of the training's environment are reported when the whole configuration is read, not here.
    settings = build(EnvironmentSettings, environment, path, Problems(document), reader)
    if settings is None and not block:
        return None
    base = environment
    if settings is not None:
        base = placed_like(plain(settings, path, secrets=True), environment)
    if not same_type(block, base):
        return block
    for key in NOT_INHERITED:
        base = base.without(key)
    return merged(block, base)


def with_named_behavior(document: Document, plugins: Plugins) -> Document:
    """The document with a behavior named after the environment's id, if it has only ``default_settings``.

    For environments that do not name their behaviors: they have one, which inherits all of its settings.
    """
    environment = document.data.get("environment")
    has_defaults = document.data.get("default_settings") is not None
    if document.data.get("behaviors") or not has_defaults or not isinstance(environment, Block):
        return document
    name = re.sub(r"-v\d+$", "", id_as_name(environment.get("id")))  # without Gymnasium's version of the task
    if not name:
        return document
    kind = environment.get("type", attrs.fields(EnvironmentSettings).type.default)
    try:
        names_behaviors = plugins.record(EnvironmentSpec, str(kind)).names_behaviors
    except NotInstalled:  # which is reported when the block is read
        return document
    if names_behaviors:
        return document
    origin = environment.origins.get("id")
    behaviors = Block([(name, Block(), origin)])
    return attrs.evolve(document, data=document.data.with_entry("behaviors", behaviors, origin))


def id_as_name(env_id: Any) -> str:
    """``Pong-v5`` for ``ale_py:ALE/Pong-v5``: an environment's id without module and folder, as a name of files."""
    words = re.split("[:/]", str(env_id or ""))
    return re.sub(r"[^A-Za-z0-9._-]", "_", words[-1])
