"""The files of a run: its directory, lock and mark, its checkpoints, and the training status.

In reading order: :mod:`~rlcore.storage.store` (what a run calls), :mod:`~rlcore.storage.directory` (opening and closing
the run directory), :mod:`~rlcore.storage.mark` (which files belong to the run),
:mod:`~rlcore.storage.output` (where commands may write),
:mod:`~rlcore.storage.replaced_runs` (an earlier run of the same name, or the same run at a later checkpoint),
:mod:`~rlcore.storage.checkpoint` (one checkpoint), :mod:`~rlcore.storage.frozen_files` (files that checkpoints share),
:mod:`~rlcore.storage.checkpoint_state` (the entries that a checkpoint must have), :mod:`~rlcore.storage.checkpoints`
(all of them: save, find, delete), :mod:`~rlcore.storage.status` (the view of the newest checkpoint) and
:mod:`~rlcore.storage.fingerprint` (what else the numbers of a run depend on, and how a resumed run differs in it).
"""
