"""Reads what Weights & Biases has written on disk: the transaction logs, ``run-ID.wandb``.

``wandb`` hands a summary to a process of its own, which writes it some time later; no call says when. So the logs are
read instead. A log has blocks of 32 KiB with records of LevelDB's log format: a CRC-32, a length and a kind, then a
part of a ``Record``, a protobuf of ``wandb``'s. The end of a log may be missing after a kill; records before it count.

Format: https://github.com/google/leveldb/blob/main/doc/log_format.md, with a header of 7 bytes and a plain CRC-32.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

HEADER = b":W&B"
HEADER_SIZE = 7
BLOCK = 32_768
PART = struct.Struct("<IHB")  # CRC-32, length, kind
FULL = 1
FIRST = 2
MIDDLE = 3
LAST = 4


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the rows that were logged, by key; none of a file that is not a log."""
    from wandb.proto.wandb_internal_pb2 import Record

    for content in records(path.read_bytes()):
        record = Record()
        record.ParseFromString(content)
        if record.WhichOneof("record_type") == "history":
            yield {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}


def records(content: bytes) -> Iterator[bytes]:
    """Return the records of a log up to the first one that is damaged or cut short."""
    if not content.startswith(HEADER):
        return
    position = HEADER_SIZE
    parts: list[bytes] = []
    while True:
        left = BLOCK - position % BLOCK
        if left < PART.size:  # the rest of a block that has no place for a part
            position += left
            continue
        if position + PART.size > len(content):
            return
        checksum, length, kind = PART.unpack_from(content, position)
        part = content[position + PART.size : position + PART.size + length]
        if len(part) < length or crc32(bytes([kind]) + part) != checksum:
            return
        position += PART.size + length
        if kind in (FULL, FIRST):
            parts = []
        parts.append(part)
        if kind in (FULL, LAST):
            yield b"".join(parts)
