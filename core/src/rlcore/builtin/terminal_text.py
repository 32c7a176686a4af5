"""Text for terminals without control sequences."""

from __future__ import annotations

import re

# Control characters except tab and newline; marks that change the direction of text; line separators; lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return the text with control characters written as escapes, as in ``\x1b[31m``."""
    return _UNSAFE.sub(lambda found: _written_out(ord(found[0])), text)


def _written_out(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
