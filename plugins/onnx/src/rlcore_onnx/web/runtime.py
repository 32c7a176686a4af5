"""The files of onnxruntime-web, which npm distributes and no package of Python has."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

from rlcore import ConfigError

VERSION = "1.30.0"
ARCHIVE = f"onnxruntime-web-{VERSION}.tgz"
COMMAND = f"npm pack onnxruntime-web@{VERSION}"
MODULE = "ort.wasm.bundle.min.mjs"
BINARY = "ort-wasm-simd-threaded.wasm"
# Pages contain and execute these files, so a file that is not the published one is refused.
CHECKSUMS = {
    MODULE: "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    BINARY: "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}


def runtime_files(place: Path | None, working_directory: Path) -> dict[str, bytes]:
    """Return the content of MODULE and BINARY by name.

    ``place`` is the archive that COMMAND writes, or a directory with the unpacked package; None searches both in
    ``working_directory``. Raises ConfigError if there are no such files, or not those of VERSION.
    """
    places = [working_directory / ARCHIVE, working_directory / "node_modules" / "onnxruntime-web"]
    if place is not None:
        places = [place]
    for found in places:
        if found.exists():
            return _checked(found)
    raise ConfigError(
        f"a page contains the files of onnxruntime-web {VERSION}, which {' or '.join(map(str, places))} would have; "
        f"run `{COMMAND}` in {working_directory}, or name the archive with --set export.web.runtime=PATH"
    )


def _checked(place: Path) -> dict[str, bytes]:
    files = {}
    for name, checksum in CHECKSUMS.items():
        try:
            content = _content(place, name)
        except (OSError, tarfile.TarError, KeyError) as error:
            raise ConfigError(f"{place}: has no dist/{name}: {error}; `{COMMAND}` writes an archive with it") from error
        if hashlib.sha256(content).hexdigest() != checksum:
            raise ConfigError(
                f"{place}: dist/{name} is not the file of onnxruntime-web {VERSION}; `{COMMAND}` writes an archive "
                "with it"
            )
        files[name] = content
    return files


def _content(place: Path, name: str) -> bytes:
    if place.is_dir():
        return (place / "dist" / name).read_bytes()
    with tarfile.open(place) as archive:
        stream = archive.extractfile(f"package/dist/{name}")
        if stream is None:
            raise KeyError(name)
        return stream.read()
