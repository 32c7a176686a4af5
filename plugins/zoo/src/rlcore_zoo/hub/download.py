"""A download of a run, which trusts nothing: neither names nor sizes nor contents.

Only files with the names of a run's files are downloaded. They are put together beside their place and compared with
the checksums of their checkpoints; then the whole directory gets its name, which no file had before.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
from filelock import FileLock, Timeout
from huggingface_hub import HfApi
from huggingface_hub.hf_api import RepoFile

from rlcore import (
    Checkpoint,
    ConfigError,
    RlcoreError,
    RunStateError,
    environment_modules,
    find_checkpoints,
    is_whole,
    load_config,
    load_plugins_for,
    local_references,
    named_by_a_stranger,
    one_line,
    read_document,
    require_lock_file,
    temporary_path,
    write_atomically,
)
from rlcore_zoo.hub.answers import is_commit, untrusted_answers
from rlcore_zoo.hub.contents import CARD, CONFIGURATION, METRICS, RESULT
from rlcore_zoo.hub.errors import reached

SOURCE = "pulled_from.json"
"""The file in a downloaded run that says from where it came; only ``rlcore pull`` writes it."""

LOCK = ".rlcore-tmp-pull-"
MAX_FILES = 10_000
MAX_LISTED = 100_000  # files and folders of a repository, others than those of a run too
SLACK = 65_536  # bytes
_CHECKPOINT_FILE = re.compile(
    r"checkpoints/(best/)?[0-9]{1,18}/([^/\\\0]+\.safetensors|state\.json|manifest\.json|configuration\.yaml)"
)
_RUN_FILES = frozenset({CONFIGURATION, RESULT, METRICS, CARD})


@attrs.frozen
class Listing:
    """The files of a repository at one commit.

    Attributes:
        commit: The commit.
        wanted: Bytes of each file of a run, by name.
        left_out: The names of the other files, which are not downloaded.
    """

    commit: str
    wanted: Mapping[str, int]
    left_out: Sequence[str]

    @property
    def size(self) -> int:
        """Bytes of all files of the run."""
        return sum(self.wanted.values())


def listing(api: HfApi, repository: str, revision: str | None) -> Listing:
    """The files of ``repository`` at a branch, a tag or a commit; without ``revision``, at the newest commit.

    Raises RunStateError if the hub cannot be asked, if a name leads outside of the repository, or if there is no run.
    """
    where = f"{repository} at {api.endpoint}"
    sizes: dict[str, Any] = {}
    with reached(api, repository, revision), untrusted_answers(where):
        commit = api.model_info(repository, revision=revision).sha
        if not is_commit(commit):
            raise RunStateError(f"{where}: answers with the commit {str(commit)[:80]!r}, which is not a commit")
        assert commit is not None
        tree = api.list_repo_tree(repository, recursive=True, revision=commit)
        for number, entry in enumerate(tree):
            if number == MAX_LISTED:  # pages may follow each other without end
                raise RunStateError(
                    f"{where}: lists more than {MAX_LISTED:,} files and folders; nothing was downloaded"
                )
            if isinstance(entry, RepoFile):
                sizes[entry.path] = entry.size
    for name in sizes:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or any(sign in name for sign in "\\\0:"):
            raise RunStateError(f"{where}: names a file outside of the repository, {name!r}; nothing was downloaded")
    wanted = {name: size for name, size in sizes.items() if name in _RUN_FILES or _CHECKPOINT_FILE.fullmatch(name)}
    has_checkpoint = any(name.startswith("checkpoints/") for name in wanted)
    if CONFIGURATION not in wanted or not has_checkpoint:
        raise RunStateError(f"{where}: is not a run that rlcore push uploaded (no {CONFIGURATION}, or no checkpoint)")
    if len(wanted) > MAX_FILES:
        raise RunStateError(f"{where}: has {len(wanted):,} files, more than {MAX_FILES:,}; nothing was downloaded")
    if not all(map(is_whole, wanted.values())):
        raise RunStateError(f"{where}: does not say how large its files are; nothing was downloaded")
    left_out = sorted(sizes.keys() - wanted.keys())
    return Listing(commit, wanted, left_out)


def pull(api: HfApi, repository: str, files: Listing, place: Path, allow_local: bool) -> list[str]:
    """Download the run to ``place``, which must not exist; return the code of its configuration that was allowed.

    Files are kept in the cache of ``huggingface_hub``: after an interruption, the next call continues there. Raises
    RunStateError, without a trace in the directory of ``place``, if a file cannot be downloaded or is damaged, and
    ConfigError if the configuration names code or programs and ``allow_local`` is false.
    """
    with _only_pull_of(place):
        return _pulled(api, repository, files, place, allow_local)


def _pulled(api: HfApi, repository: str, files: Listing, place: Path, allow_local: bool) -> list[str]:
    building = temporary_path(place.parent, f"{place.name}-")
    try:
        building.mkdir()
        (building / SOURCE).touch()  # shows the next pull whose directory this is
        for name, size in files.wanted.items():
            # What it says of itself, and an error in words, may be a little longer.
            with reached(api, repository), untrusted_answers(f"{repository} at {api.endpoint}", size + SLACK):
                cached = Path(api.hf_hub_download(repository, name, revision=files.commit))
            downloaded = cached.stat().st_size
            if downloaded != size:
                raise RunStateError(
                    f"{repository}: {name} has {downloaded:,} bytes instead of {size:,}; run the command again"
                )
            target = building / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(cached, target)
        require_intact(building, repository)
        code = named_code(building)
        if code and not allow_local:
            raise ConfigError(
                f"{repository}: its configuration names more than plugins that you installed: {', '.join(code)}; "
                "nothing was kept; --allow-local keeps it"
            )
        source = {"hub": api.endpoint, "repository": repository, "commit": files.commit}
        text = json.dumps(source, indent=4) + "\n"
        write_atomically(building / SOURCE, text.encode())
        require_free(place)
        building.rename(place)
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(building)
    return code


@contextmanager
def _only_pull_of(place: Path) -> Iterator[None]:
    """Hold the lock of ``place``, and clear what killed pulls of the same name left beside it.

    The operating system frees the lock of a killed process. Raises RunStateError if another process has the lock.
    """
    file = place.parent / f"{LOCK}{place.name}"
    require_lock_file(file)
    lock = FileLock(file, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise RunStateError(f"{place}: another process is pulling this run; wait or stop it") from None
    try:
        leftover = re.compile(rf"\.rlcore-tmp-{re.escape(place.name)}-[0-9a-f]{{16}}")
        for entry in list(place.parent.iterdir()):
            if not leftover.fullmatch(entry.name):
                continue
            if not entry.is_symlink() and (entry / SOURCE).is_file():
                shutil.rmtree(entry, ignore_errors=True)  # a leftover that stays does no harm
            else:
                with suppress(OSError):
                    entry.rmdir()  # only if it is empty: the pull was killed before it wrote anything
        yield
    finally:
        with suppress(OSError):
            file.unlink()
        lock.release()


def require_free(place: Path) -> None:
    """Raise ConfigError if something has the name of the run."""
    if place.is_symlink() or place.exists():
        raise ConfigError(f"{place}: exists, and is not touched; choose another name with --run-id")


def checkpoints_in(directory: Path) -> list[Checkpoint]:
    """All checkpoints of a run, those of the best evaluations too."""
    return [*find_checkpoints(directory / "checkpoints"), *find_checkpoints(directory / "checkpoints" / "best")]


def require_intact(directory: Path, repository: str) -> None:
    """Raise RunStateError unless there is a checkpoint and every one has all its files, with their checksums."""
    checkpoints = checkpoints_in(directory)
    for checkpoint in checkpoints:
        if problems := checkpoint.problems():
            name = checkpoint.path.relative_to(directory)
            problem = problems[0].replace(f"{directory}/", "")
            raise RunStateError(f"{repository}: {name} is damaged: {problem}; nothing was kept")
    if not checkpoints:
        raise RunStateError(f"{repository}: has no checkpoint; nothing was kept")


# ---------------------------------------------------------------- code that a configuration names


def named_code(directory: Path) -> list[str]:
    """List code and other entries of a downloaded configuration that a stranger must not choose.

    Which keys these are is what settings classes and records of the installed plugins say
    (:func:`rlcore.named_by_a_stranger`). Each checkpoint has a configuration too, which rlcore uses if that of
    the run is damaged. A configuration that the installed plugins cannot read is named too: nothing is known of it.
    """
    named: dict[str, None] = {}
    directories = [directory, *(checkpoint.path for checkpoint in checkpoints_in(directory))]
    for path in [parent / CONFIGURATION for parent in directories]:
        if not path.is_file():
            continue
        document = read_document(path)
        modules = [repr(module) for module in environment_modules(document)]
        named |= dict.fromkeys(f"environment {module}" for module in modules)
        named |= dict.fromkeys(f"plugin {plugin!r}" for plugin in local_references(document))
        plugins = load_plugins_for(document, allow_local=False, lenient=True)
        try:
            config = load_config(document, plugins)
            for text in named_by_a_stranger(config, plugins):
                already = text.startswith("plugins.") or any(module in text for module in modules)
                if not already:
                    named[text] = None
        except RlcoreError as error:
            problem = one_line(error).replace(f"{path}:", "")
            named[f"what cannot be checked here ({problem})"] = None
    return list(named)
