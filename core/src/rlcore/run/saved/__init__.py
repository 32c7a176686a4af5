"""Runs read back from their directories, in which nothing is changed.

:mod:`~rlcore.run.saved.data` finds a run and reads what it has written, :mod:`~rlcore.run.saved.run` acts with its
policies, and :mod:`~rlcore.run.saved.export` exports them: what ``rlcore status``, ``evaluate`` and ``export`` do.
"""
