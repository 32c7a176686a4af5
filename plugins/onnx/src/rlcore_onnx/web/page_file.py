"""Puts the parts of a page into one HTML file."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from rlcore_onnx.web.runtime import BINARY, MODULE


def page(title: str, model: bytes, runtime: Mapping[str, bytes], data: Mapping[str, Any]) -> str:
    """Return the text of a page with an ONNX file, the files of onnxruntime-web, and the data that page.js reads."""
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")  # no text of a run may end the element
    return Template(part("page.html")).substitute(
        title=escape(title),
        style=part("page.css"),
        model=_base64(model),
        module=_base64(_zipped(runtime[MODULE])),
        binary=_base64(_zipped(runtime[BINARY])),
        data=text,
        tasks=part("tasks.js"),
        drawings=part("drawings.js"),
        page=part("page.js"),
    )


def part(name: str) -> str:
    """Return the text of a file of the folder ``page``."""
    return (files("rlcore_onnx.web") / "page" / name).read_text("utf-8")


def _zipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # of equal policies, equal files


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
