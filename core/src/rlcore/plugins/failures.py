"""The one way to blame foreign code for its error.

An error of a plugin's code (a trainer, an environment, a writer, a hook) becomes one of rlcore's errors: one line that
names the owner, the exit code of ``kind``, and the original error as its cause. An ``RlcoreError`` was raised on
purpose and passes unchanged. ``SystemExit`` and ``GeneratorExit`` are errors like any other; Ctrl-C passes.

Around a block::

    with blamed(environment_name, "in reset", EnvironmentFailed):
        batches = environment.reset(seeds, episodes)

In a loop that runs at every step, where a context manager costs too much::

    try:
        batches = environment.step(actions)
    except BaseException as error:
        blame(environment_name, "in step", error, EnvironmentFailed)

``owner`` is ``plugin.described``, ``record.described``, the name of a trainer, or :func:`policy_named`. ``doing``
completes the sentence "<owner> failed ...": ``"in act"``, ``"to close"``, ``"at step 500"``.

Objects call each other: a trainer calls a reward of another plugin. :func:`note_maker` remembers the record of each
object that is created, and the record of the innermost of them in a traceback is blamed, instead of ``owner``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, repeating

if TYPE_CHECKING:
    from rlcore.contracts.policy import Policy

# Makes the error from its message: a class of errors, or a function that adds a place to the message.
Kind = Callable[[str], RlcoreError]


@attrs.frozen
class Maker:
    """The record of an object.

    Attributes:
        kind: The word for such a record, such as ``reward``.
        described: The record in messages, with its plugin.
        reference: The object or the class; for a function, its code.
    """

    kind: str
    described: str
    reference: weakref.ref[Any]


# By the id of the object. Tracebacks are of the process, whatever run made the object, and an entry goes with it.
_makers: dict[int, Maker] = {}


def note_maker(kind: str, described: str, value: object) -> None:
    """Remember which record made an object, or names a class or function.

    An object that allows no weak reference is not remembered; its class is. Functions that are made in one place, with
    variables of their own, share their code.
    """
    noted = value
    if not getattr(value, "__closure__", None):
        noted = getattr(value, "__code__", value)
    key = id(noted)
    with suppress(TypeError):
        reference = weakref.ref(noted, lambda _: _makers.pop(key, None))
        _makers[key] = Maker(kind, described, reference)


def _maker_of(frame: FrameType) -> Maker | None:
    """Return the record of the object whose method, or of the function whose code, a frame runs."""
    code = frame.f_code
    candidates: list[object] = [code]
    if code.co_argcount and code.co_varnames[0] in frame.f_locals:
        instance = frame.f_locals[code.co_varnames[0]]  # self
        candidates += [instance, type(instance)]
    for candidate in candidates:
        maker = _makers.get(id(candidate))
        # The id of an object that is gone may be that of another one.
        if maker is not None and maker.reference() is candidate:
            return maker
    return None


def _innermost(owner: str, doing: str, error: BaseException, kind: Kind) -> str:
    """Return "<owner> failed <doing>", of the record whose object raised the error if it is another one."""
    first = last = None
    code: CodeType | None = None  # of the method of the last object that another one called
    traceback = error.__traceback__
    while traceback is not None:
        maker = _maker_of(traceback.tb_frame)
        if maker is not None and (last is None or maker.described != last.described):
            first = first or maker
            last = maker
            code = traceback.tb_frame.f_code
        traceback = traceback.tb_next
    if last is None or code is None:
        return f"{owner} failed {doing}"
    is_named = last.described in owner or f"{last.kind} '" in owner or kind is EnvironmentFailed
    if first is last and is_named:  # the owner itself
        return f"{owner} failed {doing}"
    return f"{last.described} failed in {code.co_name} (called by {owner} {doing})"


def failure(owner: str, doing: str, error: BaseException, kind: Kind = PluginError) -> RlcoreError:
    """The error "<owner> failed <doing>: <error>", with ``error`` as its cause. Wraps an RlcoreError too."""
    if isinstance(error, RlcoreError):
        failed = kind(f"{owner} failed {doing}: {error}")
    else:
        failed = repeating(error, _innermost(owner, doing, error, kind), kind)
    failed.__cause__ = error
    return failed


def blame(owner: str, doing: str, error: BaseException, kind: Kind = PluginError) -> NoReturn:
    """Raise an error of ``kind`` that names ``owner``, what it was ``doing``, and the type and message of ``error``.

    An RlcoreError and Ctrl-C are raised unchanged.
    """
    if isinstance(error, RlcoreError | KeyboardInterrupt):
        raise error
    raise failure(owner, doing, error, kind)


@contextmanager
def blamed(owner: str, doing: str, kind: Kind = PluginError) -> Iterator[None]:
    """Blame ``owner`` for the errors of a ``with`` block, as :func:`blame` does.

    For example: ``with blamed("sampler 'beta' of plugin 'acme'", "in sample"):``.
    """
    try:
        yield
    except BaseException as error:
        blame(owner, doing, error, kind)


def policy_named(behavior: str, policy: Policy) -> str:
    """The owner of errors of a policy in an evaluation."""
    return f"behavior {behavior!r}: policy {type(policy).__name__}"


def require_protocol(value: object, protocol: type, described: str) -> None:
    """PluginError naming what ``value`` lacks of a protocol class."""
    members = set(getattr(protocol, "__annotations__", {}))
    for name, member in vars(protocol).items():
        if not name.startswith("_") and (callable(member) or isinstance(member, property)):
            members.add(name)
    kind = type(value).__name__
    try:
        missing = sorted(member for member in members if not hasattr(value, member))
    except (Exception, SystemExit) as error:  # a property may raise anything
        raise failure(f"{described} returned a {kind} that", "in a property", error) from error
    if not missing:
        return
    raise PluginError(
        f"{described} returned a {kind}, which is not a {protocol.__name__}: it lacks {', '.join(missing)}"
    )
