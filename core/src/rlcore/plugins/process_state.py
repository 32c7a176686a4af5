"""Notice when the import of a plugin changes what belongs to the whole process.

The working directory, handlers of signals and the like change runs that use nothing of the plugin. An import is
compared before and after, and the plugin is named. Libraries have such settings too, for example a default type of
numbers: a plugin that brings the library adds a reader of them with :func:`watch_process`.
"""

from __future__ import annotations

import locale
import logging
import operator
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

log = logging.getLogger("rlcore")

Settings = Mapping[str, object]

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
)
MOST_DRAWS = 64  # of an import, in words of 32 bits

_readers: list[Callable[[], Settings]] = []  # of the process, as what they read


def watch_process(read: Callable[[], Settings]) -> None:
    """Compare what ``read`` returns, settings of a library by name, before and after the import of each plugin.

    Called in ``rlcore_addhooks``. While the library is not imported, ``read`` returns the defaults and imports nothing.
    """
    if read not in _readers:
        _readers.append(read)


def process_settings() -> dict[str, object]:
    """Return the settings of this process by name, those of libraries included."""
    try:
        directory = str(Path.cwd())
    except OSError:
        directory = "a directory that is gone"
    settings: dict[str, object] = {"the working directory": directory}
    for name in SIGNALS:
        if hasattr(signal, name):
            settings[f"the handler of {name}"] = signal.getsignal(getattr(signal, name))
    for name in VARIABLES:
        settings[f"the environment variable {name}"] = os.environ.get(name)
    settings["the locale of numbers"] = locale.setlocale(locale.LC_NUMERIC)
    settings["the filter that hides all warnings"] = any(
        action == "ignore" and category is Warning and message is None and module is None
        for action, message, category, module, _ in warnings.filters
    )
    settings["the level of the root logger"] = logging.getLevelName(logging.root.level)
    settings["logging.disable"] = logging.root.manager.disable
    settings["the generator of `random`"] = _State(random.getstate(), "another state", _few_draws_apart)
    settings["the generator of `numpy.random`"] = _numpy_generator()
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "geterr"):
        settings["numpy.geterr()"] = numpy.geterr()
    for read in _readers:
        settings |= read()
    return settings


def _numpy_generator() -> _State:
    """The state of NumPy's global generator if it was seeded. Draws from one that nothing seeded change no run."""
    unseeded = _State(None, "not seeded")
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None or not hasattr(numpy_random, "get_bit_generator"):  # not imported, or not to the end
        return unseeded
    # A generator that np.random.seed or set_state set up has no sequence of seeds; one that NumPy made has.
    if numpy_random.get_bit_generator().seed_seq is not None:
        return unseeded
    name, key, *rest = numpy_random.get_state()
    return _State((name, key.tobytes(), *rest), "another state")


class _State:
    """A value that is compared, with the text of it in messages."""

    def __init__(self, value: object, text: str, alike: Callable[[Any, object], bool] = operator.eq) -> None:
        self.value = value
        self.text = text
        self.alike = alike

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _State) and self.alike(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.text


def _few_draws_apart(before: Any, after: object) -> bool:
    """Whether these states of ``random`` are equal, but for draws such as the one with which rich is imported.

    Draws change no run, since each run seeds the generator when it begins.
    """
    generator = random.Random()
    generator.setstate(before)
    for _ in range(MOST_DRAWS):
        if generator.getstate() == after:
            return True
        generator.getrandbits(32)  # one word of the generator, of which other draws take one or two
    return False


@contextmanager
def noticing(owner: str, report: Callable[[str], None] = log.warning) -> Iterator[None]:
    """Report each setting of the process that the block, in which code of ``owner`` is imported, changes."""
    before = process_settings()
    yield
    after = process_settings()
    for name in before.keys() & after.keys():
        if before[name] != after[name]:
            report(
                f"{owner} changed {name} at import, from {before[name]!r} to {after[name]!r}: this changes all runs of "
                "this process; have it done where it is used, or turn the plugin off"
            )
