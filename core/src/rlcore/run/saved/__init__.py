"""Runs read back from their directories, in which nothing is changed.

:mod:`~rlcore.run.saved.data` finds a run and reads what it has written, :mod:`~rlcore.run.saved.saved_run` acts with
its policies, and :mod:`~rlcore.run.saved.exporting` exports them: what ``rlcore status``, ``evaluate`` and ``export``
do.
"""
