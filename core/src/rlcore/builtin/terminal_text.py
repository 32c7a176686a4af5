"""Text for terminals: without control sequences, and broken at words."""

from __future__ import annotations

import os
import re
import textwrap
from contextlib import suppress
from typing import TextIO

# Control characters except tab and newline; marks that change the direction of text; line separators; lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_COMMAND = re.compile(r"(?:rlcore run|pip install) [^;,()]*")  # to be copied in one piece


def fitted(text: str, stream: TextIO | None) -> str:
    """Return one line broken at words for the terminal ``stream``; whatever else ``stream`` is, return ``text``."""
    columns = 0
    with suppress(OSError, ValueError, AttributeError):  # no stream, or one without a descriptor
        if stream is not None and stream.isatty():
            columns = os.get_terminal_size(stream.fileno()).columns
    if columns < 2 or len(text) < columns or "\n" in text:
        return text
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, columns - 1, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def printable(text: str) -> str:
    r"""Return the text with control characters written as escapes, as in ``\x1b[31m``."""
    return _UNSAFE.sub(lambda found: _written_out(ord(found[0])), text)


def _written_out(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
