"""The files of a run: its directory, lock and mark, its checkpoints, and the training status.

In reading order: :mod:`~rlcore.storage.store` (what a run calls), :mod:`~rlcore.storage.directory` (opening and closing
the run directory), :mod:`~rlcore.storage.files.lock`, :mod:`~rlcore.storage.run_files` (which files belong to the run),
:mod:`~rlcore.storage.replaced_runs` (an earlier run of the same name), :mod:`~rlcore.storage.rewinding` (later
checkpoints of a run that is resumed from an earlier one), :mod:`~rlcore.storage.checkpoint` (one checkpoint),
:mod:`~rlcore.storage.checkpoints` (all of them: save, find, delete),
:mod:`~rlcore.storage.checkpoint_state` (the entries that a checkpoint must have), :mod:`~rlcore.storage.best` (the policies
of the best evaluation) and :mod:`~rlcore.storage.status` (the view of the newest checkpoint).
:mod:`~rlcore.storage.read_other_runs` and :mod:`~rlcore.storage.saved_models` read runs that a new run begins with;
:mod:`~rlcore.storage.configuration` reads the configuration of a run back, from its file or from a checkpoint's copy;
:mod:`~rlcore.storage.fingerprint` says what else the numbers of a run depend on, and how a resumed run differs in it.
"""
