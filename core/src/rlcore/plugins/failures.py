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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from rlcore.errors import PluginError, RlcoreError, repeating

if TYPE_CHECKING:
    from rlcore.contracts.policy import Policy

# Makes the error from its message: a class of errors, or a function that adds a place to the message.
Kind = Callable[[str], RlcoreError]


def failure(owner: str, doing: str, error: BaseException, kind: Kind = PluginError) -> RlcoreError:
    """The error "<owner> failed <doing>: <error>", with ``error`` as its cause. Wraps an RlcoreError too.

    A name of an earlier contract that ``error`` misses is answered with its successor.
    """
    what = f"{owner} failed {doing}"
    if isinstance(error, RlcoreError):
        made = kind(f"{what}: {error}")
    else:
        from rlcore.plugins.contract import renamed

        made = repeating(error, what, lambda text: kind(text + renamed(error)))
    made.__cause__ = error
    return made


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
    members = {
        name
        for name, member in vars(protocol).items()
        if (callable(member) or isinstance(member, property)) and not name.startswith("_")
    }
    members |= set(getattr(protocol, "__annotations__", {}))
    try:
        missing = sorted(member for member in members if not hasattr(value, member))
    except (Exception, SystemExit) as error:  # a property may raise anything
        raise failure(f"{described} returned a {type(value).__name__} that", "in a property", error) from error
    if missing:
        from rlcore.plugins.contract import PORTING, added

        new = [*filter(None, (added(f"{protocol.__name__}.{member}") for member in missing))]
        hint = "; ".join(["", *new, PORTING]) if len(new) == len(missing) else ""
        raise PluginError(
            f"{described} returned a {type(value).__name__}, which is not a {protocol.__name__}: "
            f"it lacks {', '.join(missing)}{hint}"
        )
