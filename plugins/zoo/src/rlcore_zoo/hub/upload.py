"""An upload of a run: one commit, which replaces the files of an earlier upload and touches no others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import attrs
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import RepositoryNotFoundError

from rlcore import ConfigError, DamagedFile, RunStateError, one_line, read_object
from rlcore_zoo.hub.contents import Entry
from rlcore_zoo.hub.errors import reached

UPLOADED = "rlcore_upload.json"
"""The file that lists what an upload wrote, so that the next one knows which files of a repository it may replace."""

_OF_HUB = frozenset({".gitattributes"})  # which the hub itself puts into each repository


@attrs.frozen
class Remote:
    """A repository before an upload.

    Attributes:
        exists: Whether there is one.
        commit: Its newest commit; None without one.
        files: The names of its files.
        ours: The names of the files that `rlcore push` wrote.
        private: Whether only its owners can read it; None if there is none.
    """

    exists: bool
    commit: str | None = None
    files: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    private: bool | None = None

    @classmethod
    def of(cls, api: HfApi, repository: str) -> Remote:
        """Look at ``repository``. Raises RunStateError if the hub cannot be asked."""
        with reached(api, repository):
            try:
                info = api.model_info(repository)
            except RepositoryNotFoundError:
                return cls(False)
            files = frozenset(sibling.rfilename for sibling in info.siblings or ())
            listed: object = None
            if UPLOADED in files:
                path = api.hf_hub_download(repository, UPLOADED, revision=info.sha)
                with suppress(FileNotFoundError, DamagedFile):
                    listed = read_object(Path(path)).get("files")
        ours: frozenset[str] = frozenset()
        if isinstance(listed, list):
            # A name that the repository lacks was deleted there by someone else.
            ours = files.intersection(name for name in listed if isinstance(name, str))
        return cls(True, info.sha, files, ours, info.private)

    def left_over(self, entries: Sequence[Entry]) -> list[str]:
        """Return the files of an earlier upload that ``entries`` do not replace."""
        return sorted(self.ours - {entry.name for entry in entries})

    def require_ours(self, where: str, entries: Sequence[Entry]) -> None:
        """Raise ConfigError if ``entries`` would replace files of ``where`` that `rlcore push` did not write."""
        names = {entry.name for entry in entries}
        foreign = sorted(names & self.files - self.ours - _OF_HUB)
        if foreign:
            raise ConfigError(
                f"{where}: has files that rlcore push did not write and would replace: {', '.join(foreign)}; "
                "choose another repository, or replace them with --force"
            )


def with_list(entries: Sequence[Entry]) -> list[Entry]:
    """``entries``, and the list of them that the next upload reads."""
    from rlcore import __version__

    names = [entry.name for entry in entries]
    document = {"rlcore_version": __version__, "files": sorted([*names, UPLOADED])}
    text = json.dumps(document, indent=4) + "\n"
    return [*entries, Entry(UPLOADED, text.encode())]


def push(api: HfApi, repository: str, entries: Sequence[Entry], remote: Remote, private: bool, message: str) -> str:
    """Create the repository if there is none, and upload ``entries`` as one commit; return the address of the commit.

    Nothing is changed if another commit comes first. Raises RunStateError if the hub refuses.
    """
    operations: list[CommitOperationAdd | CommitOperationDelete] = []
    for entry in entries:
        source = entry.source if isinstance(entry.source, bytes) else str(entry.source)
        operations.append(CommitOperationAdd(entry.name, source))
    for name in remote.left_over(entries):
        operations.append(CommitOperationDelete(name, is_folder=False))
    with reached(api, repository):
        if not remote.exists:
            api.create_repo(repository, private=private)
        try:
            # The hub refuses the commit if its parent is not the newest one any more.
            commit = api.create_commit(repository, operations, commit_message=message, parent_commit=remote.commit)
        except (RuntimeError, ValueError) as error:  # of the storage of large files, and of the check of the card
            cause = error.__cause__ or error
            raise RunStateError(
                f"{repository} at {api.endpoint}: the upload failed, and nothing was changed there: {one_line(cause)}"
            ) from error
    return str(commit.commit_url)
